import { hasTooManyMarks, toNfc } from '../../domain/shared/text.ts'
import { type CsvColumn, type CsvField, csvFields } from '../import-file.ts'
import type { TaskRecord } from '../records.ts'

/** What columns are called, and what the values in them mean, in the words of many products and several languages. */

/**
 * Names of columns, without what is not a letter or digit. A column with an earlier one of them is preferred. A column can have one
 * field only, which is the first in this order that it could have.
 */
const names: Readonly<Record<CsvField, string>> = {
  id:
    'taskid|cardid|issuekey|id|key|identifier|issueid|number|uid|nr|vorgangsschlüssel|vorgangsid|clédeticket|iddeticket|' +
    'clavedeincidencia|iddeincidencia|キー',
  title:
    'title|taskname|tasktitle|summary|subject|shortdescription|cardname|name|task|content|todo|item|story|titel|aufgabenname|aufgabe|betreff|' +
    'zusammenfassung|thema|titre|nomdelatâche|tâche|résumé|nom|título|titulo|nombredelatarea|tarea|resumen|asunto|nombre|titolo|' +
    'attività|nome|taaknaam|taak|naam|tarefa|タイトル|タスク名|件名|タスク|名前|название|задача|назвазадачі|назва|завдання',
  description:
    'description|notes|note|details|desc|body|carddescription|taskcontent|descriptioncontent|content|beschreibung|notizen|notiz|descripción|' +
    'descripcion|notas|descrizione|omschrijving|descrição|説明|詳細|内容|メモ|備考|описание',
  status:
    'status|state|taskstatus|currentstate|progress|done|completed|complete|isdone|iscompleted|finished|archived|erledigt|zustand|' +
    'fortschritt|estado|statut|état|avancement|stato|voltooid|situação|ステータス|状態|進捗|完了|статус',
  priority:
    'priority|prio|importance|priorität|prioritaet|wichtigkeit|priorité|prioridad|priorità|prioriteit|prioridade|' +
    '優先度|優先順位|重要度|приоритет',
  start:
    'startdate|startat|starton|start|begin|begindate|plannedstartdate|targetstart|targetstartdate|startdatum|beginntam|beginn|anfangsdatum|datededébut|début|fechadeinicio|' +
    'inicio|datadiinizio|inizio|begindatum|datadeinício|開始日|開始|начало',
  due:
    'duedate|dueat|dueon|due|deadline|targetdate|enddate|finishdate|targetend|plannedenddate|planneddeliverydate|' +
    'targetcompletiondate|finish|end|date|fälligkeitsdatum|fälligam|fällig|fälligkeit|abgabedatum|' +
    'termin|enddatum|datum|datedéchéance|échéance|datelimite|datedefin|fechadevencimiento|vencimiento|fechalímite|' +
    'fechadefin|fecha|datadiscadenza|scadenza|vervaldatum|einddatum|datadevencimento|prazo|期限日|期限|期日|締切|終了日|終了|срок',
  completed_at:
    'completedat|completeddate|completedon|completiondate|datecompleted|completedtime|donedate|doneat|datedone|' +
    'dateclosed|closedat|closedon|closeddate|resolved|resolvedat|resolveddate|dateresolved|resolutiondate|acceptedat|completed|closed|erledigtam|abgeschlossenam|gelöst|erledigt|résolu|résolue|resuelta|' +
    'fechadefinalización|完了日|完了日時',
  created_at:
    'createdat|created|createddate|createdon|createdtime|creationdate|datecreated|dateadded|openedat|dateopened|erstellt|' +
    'erstelltam|erstellungsdatum|datedecréation|création|créé|fechadecreación|creado|creada|登録日|作成日|作成日時|создано',
  project:
    'project|projectname|projects|boardname|board|planname|plan|listname|foldername|folder|projekt|projektname|projet|' +
    'proyecto|progetto|projeto|プロジェクト名|プロジェクト|проект',
  section:
    'section|sectioncolumn|sectionname|bucketname|bucket|list|listname|columnname|column|group|abschnitt|liste|spalte|' +
    'gruppe|colonne|sección|columna|lista|sezione|セクション|リスト|グループ',
  parent:
    'parentid|parenttaskid|parentkey|parentissue|parenttask|parentitem|parent|übergeordneteaufgabe|übergeordnetesticket|übergeordnet|' +
    'tâcheparente|élémentparent|tareaprincipal|tareapadre|親課題キー|親課題id|親タスク|親アイテム|родительскаязадача',
  tags:
    'tags|tag|labels|label|categories|category|kategorien|kategorie|etiketten|stichwörter|étiquettes|catégories|bezeichnungen|カテゴリー名|' +
    'etiquetas|categorías|etichette|タグ|ラベル|カテゴリ|カテゴリー|метки',
  assignee:
    'assignee|assignees|assigneename|assignedto|assigned|assign|responsible|person|people|member|members|owner|ownedby|handler|taskassignee|zugewiesenan|' +
    'zugewiesen|zugewieseneperson|bearbeiter|zuständig|verantwortlich|responsable|assignéà|attribuéà|personneassignée|' +
    'asignadoa|asignado|personaasignada|assegnatoa|responsabile|担当者|担当|исполнитель',
  recurrence: 'recurrence|repeat|rrule|recurring|wiederholung|récurrence|repetición|繰り返し',
  anchor: 'anchor',
}

/** Characters. A longer text is no name, and no word. */
const maxWord = 100

/** The plain name of a column, without a remark in brackets. Jira has the name of a field of one's own in them. */
export const columnName = (text: string): string => {
  if (text.length > maxWord) return ''
  const name = /^custom field \((.+)\)$/i.exec(text.trim())?.[1] ?? text
  return plainName(name.replace(/[(（][^()（）]*[)）]\s*$/, '')) || plainName(name)
}

/** Whether the times in a column are in UTC whatever the zone of the user is, as in `Created At (UTC)`. */
export const isUtcColumn = (text: string): boolean => /\butc\b/i.test(text)

/** The text in lower case, with its letters and digits only. */
const plainName = (text: string): string => {
  if (text.length > maxWord || hasTooManyMarks(text)) return ''
  return text.trim() === '#'
    ? 'id'
    : toNfc(text)
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}]/gu, '')
}

const namesOf = (field: CsvField): readonly string[] => names[field].split('|')

/** The fields of columns by their plain names, each field once. */
export const fieldsOfColumns = (header: readonly string[]): readonly CsvColumn[] => {
  const columns: CsvColumn[] = header.map(() => 'skip')
  for (const field of csvFields) {
    const index = namesOf(field)
      .map((name) => header.findIndex((other, index) => other === name && columns[index] === 'skip'))
      .find((index) => index !== -1)
    if (index !== undefined) columns[index] = field
  }
  return columns
}

export const isIdColumn = (name: string): boolean => namesOf('id').includes(name)

/** The values of words, which each value is itself. */
const words = <Value extends string>(entries: Readonly<Record<Value, string>>): ReadonlyMap<string, Value> =>
  new Map(
    (Object.entries(entries) as [Value, string][]).flatMap(([value, texts]) =>
      [value, ...texts.split('|')].map((text): [string, Value] => [text, value]),
    ),
  )

const statuses = words({
  todo:
    'to do|open|opened|reopened|new|backlog|not started|unstarted|unscheduled|to be started|pending|planned|planning|next|next action|' +
    'queued|triage|inbox|needs-action|incomplete|hold|on hold|postponed|someday|delegated|' +
    'uncompleted|deferred|waiting|false|no|n|0|offen|neu|nein|nicht begonnen|nicht gestartet|zu erledigen|zurückgestellt|falsch|' +
    'à faire|nouveau|nouvelle|ouvert|ouverte|abierto|nuevo|aperto|nuovo|non commencé|pas commencé|non commencée|faux|non|pendiente|por hacer|tareas por hacer|sin empezar|no iniciado|' +
    'no iniciada|falso|da fare|non iniziata|te doen|niet gestart|a fazer|não iniciado|未着手|未対応|未完了|未開始|к выполнению',
  in_progress:
    'in progress|in-progress|inprogress|doing|started|active|working on it|ongoing|wip|in-process|in review|review|under review|' +
    'testing|in testing|in development|under investigation|in arbeit|in bearbeitung|en cours|en curso|en progreso|in corso|mee bezig|em andamento|進行中|対応中|処理中|着手中|в работе',
  done:
    'completed|complete|closed|finished|resolved|fixed|merged|released|delivered|accepted|verified|true|yes|y|x|1|archived|erledigt|fertig|' +
    'abgeschlossen|geschlossen|ja|wahr|terminé|terminée|fermé|fermée|clos|résolu|résolue|cerrado|cerrada|resuelto|chiuso|gelöst|fait|achevé|achevée|oui|vrai|hecho|completado|completada|listo|finalizado|' +
    'finalizada|terminado|sí|verdadero|completato|completata|fatto|voltooid|klaar|concluído|concluída|feito|完了|済|完了済み|' +
    '処理済み|готово|✓|✔|✅|☑',
  cancelled:
    "canceled|won't do|wont do|won't fix|wontfix|abandoned|rejected|removed|duplicate|not planned|abgebrochen|storniert|verworfen|" +
    'annulé|annulée|cancelado|cancelada|annullato|geannuleerd|中止|キャンセル',
})

/** Of numbers, 1 is the highest, as in P1. */
const priorities = words({
  none: 'no priority|no|-|0|5|p5|keine|aucune|ninguna|nessuna|なし',
  low: 'lowest|very low|could have|nice to have|4|p4|minor|trivial|niedrig|niedrigste|gering|faible|basse|très basse|baja|muy baja|bassa|laag|baixa|低|低い',
  medium: 'normal|med|moderate|should have|3|p3|mittel|moyenne|normale|media|média|gemiddeld|中|普通',
  high: 'important|major|must|must have|2|p2|hoch|wichtig|élevée|haute|importante|alta|hoog|高|高い',
  urgent:
    'highest|very high|critical|blocker|immediate|asap|1|p1|p0|höchste|dringend|kritisch|très haute|la plus haute|urgente|' +
    'muy alta|crítica|最高|緊急',
})

/** Which date a series counts from. */
export const anchors = words({ start: 'start date', due: 'due date' })

/** What the values of a table mean. */
export interface Words {
  readonly statuses: ReadonlyMap<string, TaskRecord['status']>
  readonly priorities: ReadonlyMap<string, TaskRecord['priority']>
}

const common: Words = { statuses, priorities }

/** The numbers of TickTick, of which the highest priority is 5. */
const tickTick: Words = {
  statuses: new Map([...statuses, ['0', 'todo'], ['1', 'done'], ['2', 'done'], ['-1', 'cancelled']]),
  priorities: new Map([...priorities, ['0', 'none'], ['1', 'low'], ['3', 'medium'], ['5', 'high']]),
}

/** The numbers of Toodledo, of which 3 is the highest, and 0 what tasks have without one. */
const toodledo: Words = {
  statuses,
  priorities: new Map([
    ...priorities,
    ['-1', 'low'],
    ['0', 'none'],
    ['1', 'medium'],
    ['2', 'high'],
    ['3', 'urgent'],
  ]),
}

/** What is finished, or delivered, has not been accepted yet in Pivotal Tracker. */
const pivotal: Words = {
  statuses: new Map([
    ...statuses,
    ['finished', 'in_progress'],
    ['delivered', 'in_progress'],
    ['rejected', 'in_progress'],
  ]),
  priorities,
}

/** By the plain names of the columns. */
export const wordsOf = (header: readonly string[]): Words => {
  const has = (...names: readonly string[]): boolean => names.every((name) => header.includes(name))
  if (has('ischecklist')) return tickTick
  if (has('folder', 'context', 'star', 'duetime')) return toodledo
  return has('currentstate', 'acceptedat', 'iteration') ? pivotal : common
}

/** Null if the word is not known, however it is decorated. */
export const valueOf = <Value extends string>(
  cell: string,
  known: ReadonlyMap<string, Value>,
): Value | null => {
  if (cell.length > maxWord) return null
  const word = cell.toLowerCase().replaceAll(/\s+/g, ' ')
  const [plain = ''] = /[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/u.exec(word) ?? []
  // Such as "2 - High", where the number is one of the product's own.
  const [, named = ''] = /^p?\d{1,2} ?[-–:.)] ?(\p{L}.*)$/u.exec(plain) ?? []
  return known.get(word) ?? known.get(plain) ?? known.get(named) ?? null
}
