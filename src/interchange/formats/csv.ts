import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { formatRule, parseRule } from '../../domain/recurrence-rule.ts'
import { blankProject, blankTask, dueFields, startFields, tagNamed } from '../blank.ts'
import { type Draft, type Drafts, type Fault, refusal } from '../drafts.ts'
import { excerpt } from '../fields.ts'
import { headOf } from '../file-head.ts'
import {
  type CsvField,
  csvFields,
  type CsvHead,
  type CsvMapping,
  type ReadOptions,
  UnreadableFile,
} from '../import-file.ts'
import { type DateContext, orderOf, parseDate } from '../loose-dates.ts'
import type { InterchangeRecord, TaskRecord } from '../records.ts'
import { guessDelimiter, guessEncoding, hasBrokenText, headRows, type Row, rowsOf } from '../table-rows.ts'

/** Reads tables whose columns the user, or a guess, has named. */

const headBytes = 256 * 1024
const shownRows = 5

/** How columns are called, without what is not a letter or digit. The first column of a name counts. */
const names: Readonly<Record<CsvField, string>> = {
  id: 'id|taskid|key|issuekey|identifier|number|uid',
  title:
    'title|name|task|taskname|summary|subject|content|cardname|todo|titel|aufgabe|betreff|titre|' +
    'tâche|titulo|título|tarea|nombre|titolo|naam',
  description:
    'description|notes|note|details|desc|body|carddescription|beschreibung|notizen|descripción|' +
    'descripcion|descrizione',
  status: 'status|state|done|completed|complete|isdone|iscompleted|erledigt|zustand|estado|statut|stato',
  priority: 'priority|prio|importance|priorität|prioritaet|priorité|prioridad|priorità',
  start: 'start|startdate|startat|starton|begin|beginn|startdatum|fechadeinicio|début',
  due:
    'due|duedate|dueat|dueon|deadline|date|fällig|fälligam|fälligkeit|fälligkeitsdatum|datum|' +
    'échéance|vencimiento|fecha|scadenza',
  completed_at:
    'completedat|completeddate|completedon|completiondate|datecompleted|completedtime|donedate|' +
    'doneat|resolved|erledigtam',
  created_at:
    'createdat|created|createddate|createdon|createdtime|creationdate|datecreated|dateadded|' +
    'erstellt|erstelltam',
  project:
    'project|projectname|projects|board|boardname|listname|foldername|projekt|projet|proyecto|progetto',
  section:
    'section|sectioncolumn|sectionname|list|column|columnname|bucket|bucketname|group|abschnitt|' +
    'liste|spalte',
  parent: 'parent|parentid|parenttask|parenttaskid|parentkey|übergeordneteaufgabe',
  tags: 'tags|tag|labels|label|categories|category|kategorien|etiketten|étiquettes|etiquetas|etichette',
  assignee:
    'assignee|assignees|assignedto|assigned|responsible|member|members|zugewiesen|zuständig|' +
    'verantwortlich|asignado',
  recurrence: 'recurrence|repeat|rrule|recurring|wiederholung',
}

const fieldOf = (name: string): CsvField | null => {
  const plain = name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')
  return csvFields.find((field) => names[field].split('|').includes(plain)) ?? null
}

export const inspectCsv = async (path: string): Promise<CsvHead> => {
  const encoding = await guessEncoding(createReadStream(path))
  const text = new TextDecoder(encoding).decode(await headOf(path, headBytes))
  const delimiter = guessDelimiter(text)
  const rows = headRows(text, delimiter, 1000)
  const [first = []] = rows
  const fields = first.map(fieldOf)
  const has_header = fields.some((field) => field !== null)
  const known = fields.map((field, index) => (fields.indexOf(field) === index ? field : null))
  const columns = known.includes('title') ? known : withTitle(known)
  const data = has_header ? rows.slice(1) : rows
  const dates = data.flatMap((row) => row.filter((_, index) => isDateField(columns[index] ?? null)))
  const usual = dates.some((date) => date.includes('/')) ? 'mdy' : 'dmy'
  return {
    mapping: { encoding, delimiter, has_header, date_order: orderOf(dates) ?? usual, columns },
    names: first.map((name, index) => (has_header ? name : `Column ${index + 1}`)),
    rows: data.slice(0, shownRows),
  }
}

/** The first column whose name says nothing is the title, since each task needs one. */
const withTitle = (columns: readonly (CsvField | null)[]): readonly (CsvField | null)[] => {
  const index = columns.indexOf(null)
  return index === -1 ? columns : columns.with(index, 'title')
}

const isDateField = (field: CsvField | null): boolean =>
  field === 'start' || field === 'due' || field === 'created_at' || field === 'completed_at'

export async function* readCsv(path: string, options: ReadOptions): Drafts {
  const mapping = options.mapping ?? (await inspectCsv(path)).mapping
  if (!mapping.columns.includes('title'))
    throw new UnreadableFile('damaged', 'None of the columns is the title.')
  const context: DateContext = { order: mapping.date_order, timeZone: options.timeZone, now: options.now }
  const parents = mapping.columns.includes('parent') ? await parentsIn(path, mapping) : new Map()
  const made = new Set<string>()
  const ids = createIds()
  for await (const row of dataRows(path, mapping)) {
    if (row.problem !== null) {
      yield refusal(null, row.number, { field: null, code: 'invalid', message: row.problem })
      continue
    }
    if (row.cells.every((cell) => cell.trim() === '')) continue
    const cells = cellsOf(row, mapping)
    const drafts = draftsOf(row, cells, ids.of(cells), parents, context)
    // Projects, sections, tags and users are there once they are named.
    for (const draft of drafts) {
      const key = `${draft.record.type} ${'id' in draft.record ? draft.record.id : ''}`
      if (draft.record.type !== 'task' && made.has(key)) continue
      made.add(key)
      yield draft
    }
  }
}

const dataRows = async function* (path: string, mapping: CsvMapping): AsyncGenerator<Row, void> {
  for await (const row of rowsOf(createReadStream(path), mapping))
    if (row.number > 1 || !mapping.has_header) yield row
}

type Cells = Readonly<Record<CsvField, string>>

const cellsOf = ({ cells }: Row, { columns }: CsvMapping): Cells => {
  const cell = (field: CsvField): string => (cells[columns.indexOf(field)] ?? '').trim()
  return Object.fromEntries(csvFields.map((field) => [field, cell(field)])) as unknown as Cells
}

/** Ids of rows that have none: by what the row is about, so that they stay when rows are added to the file. */
const createIds = () => {
  const counts = new Map<string, number>()
  return {
    of({ id, title, project, section }: Cells): string {
      if (id !== '') return id
      const text = JSON.stringify([project, section, title])
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 32)
      const count = (counts.get(hash) ?? 0) + 1
      counts.set(hash, count)
      return count === 1 ? hash : `${hash}-${count}`
    },
  }
}

/** The ids of tasks by their id and by their title, which a parent can be named by. */
const parentsIn = async (path: string, mapping: CsvMapping): Promise<ReadonlyMap<string, string>> => {
  const byTitle = new Map<string, string>()
  const byId = new Map<string, string>()
  const ids = createIds()
  for await (const row of dataRows(path, mapping)) {
    const cells = cellsOf(row, mapping)
    const id = ids.of(cells)
    if (cells.title !== '' && !byTitle.has(cells.title)) byTitle.set(cells.title, id)
    if (cells.id !== '') byId.set(cells.id, id)
  }
  return new Map([...byTitle, ...byId])
}

const draftsOf = (
  row: Row,
  cells: Cells,
  id: string,
  parents: ReadonlyMap<string, string>,
  context: DateContext,
): readonly Draft[] => {
  const faults: Fault[] = []
  if (hasBrokenText(row))
    faults.push({
      field: null,
      code: 'encoding',
      message: 'has bytes that are not text in the encoding of the file',
    })
  const project_id = cells.project || null
  const section_id = project_id && cells.section ? JSON.stringify([project_id, cells.section]) : null
  const tags = tagsOf(cells.tags)
  const task = taskOf(cells, faults, context)
  const named: readonly InterchangeRecord[] = [
    ...(project_id ? [{ ...blankProject, id: project_id, name: project_id }] : []),
    ...(project_id && section_id
      ? [{ type: 'section', id: section_id, project_id, name: cells.section } as const]
      : []),
    ...tags.map(tagNamed),
    ...(cells.assignee
      ? [{ type: 'user', id: cells.assignee, username: null, display_name: cells.assignee } as const]
      : []),
  ]
  return [
    ...named.map((record): Draft => ({ record, part: null, row: row.number, faults: [] })),
    {
      part: null,
      row: row.number,
      faults,
      record: {
        ...task,
        id,
        project_id,
        section_id,
        parent_id: cells.parent ? (parents.get(cells.parent) ?? cells.parent) : null,
        tag_ids: tags,
        assignee_id: cells.assignee || null,
      },
    },
  ]
}

/** A row within the cell, whose cells can be in quotes. */
const tagsOf = (cell: string): readonly string[] => {
  if (cell === '') return []
  const delimiter = cell.includes(',') || !cell.includes(';') ? ',' : ';'
  const names = cell.includes('"') ? (headRows(cell, delimiter, 1)[0] ?? []) : cell.split(delimiter)
  return [...new Set(names.map((name) => name.trim()).filter((name) => name !== ''))]
}

const taskOf = (cells: Cells, faults: Fault[], context: DateContext): Omit<TaskRecord, 'id'> => {
  const date = (field: CsvField): string | null => {
    if (cells[field] === '') return null
    const found = parseDate(cells[field], context)
    if (found === null)
      faults.push({ field, code: 'invalid_value', message: `is not a date: ${excerpt(cells[field])}` })
    return found
  }
  const [start, due] = [date('start'), date('due')]
  const completed_at = instantFrom(date('completed_at'))
  const word = choose('status', cells.status, statuses, faults)
  return {
    ...blankTask,
    title: cells.title,
    description: cells.description,
    status: word ?? (completed_at === null ? 'todo' : 'done'),
    priority: choose('priority', cells.priority, priorities, faults) ?? 'none',
    ...startFields(start),
    ...dueFields(due),
    completed_at,
    created_at: instantFrom(date('created_at')),
    recurrence: recurrenceOf(cells.recurrence, faults, context.timeZone),
  }
}

/** Times of the past do not need to be exact. */
const instantFrom = (date: string | null): string | null =>
  date === null || date.includes('T') ? date : `${date}T00:00:00.000Z`

/** The values of words, which each value is itself. */
const words = <Value extends string>(entries: Readonly<Record<Value, string>>) =>
  new Map(
    (Object.entries(entries) as [Value, string][]).flatMap(([value, texts]) =>
      [value, ...texts.split('|')].map((text): [string, Value] => [text, value]),
    ),
  )

const statuses = words({
  todo:
    'to do|open|new|backlog|not started|pending|planned|needs-action|incomplete|uncompleted|' +
    'false|no|n|0|offen|neu|nein|à faire|pendiente',
  in_progress:
    'in progress|in-progress|inprogress|doing|started|active|in-process|in review|review|testing|' +
    'in arbeit|in bearbeitung|en cours|en curso|en progreso',
  done:
    'completed|complete|closed|finished|resolved|true|yes|y|x|1|archived|erledigt|fertig|' +
    'abgeschlossen|ja|terminé|fait|hecho|completado|✓|✔',
  cancelled: "canceled|wont do|won't do|abandoned|rejected|abgebrochen|storniert|annulé|cancelado",
})

/** Of numbers, 1 is the highest, as in P1. */
const priorities = words({
  none: 'no priority|no|-|0|5|p5|lowest|keine|aucune|ninguna',
  low: '4|p4|minor|trivial|niedrig|gering|basse|baja',
  medium: 'normal|med|3|p3|mittel|moyenne|media',
  high: 'important|major|2|p2|hoch|haute|alta',
  urgent: 'highest|critical|blocker|immediate|1|p1|p0|dringend|urgente',
})

/** Null if the cell is empty, or has another word. */
const choose = <Value extends string>(
  field: CsvField,
  cell: string,
  known: ReadonlyMap<string, Value>,
  faults: Fault[],
): Value | null => {
  if (cell === '') return null
  const found = known.get(cell.toLowerCase().replaceAll(/\s+/g, ' '))
  if (found === undefined) {
    const expected = [...new Set(known.values())].join(', ')
    // People name the states of their work as they like, which is no reason to refuse it.
    const code = field === 'status' ? 'not_supported' : 'invalid_value'
    faults.push({ field, code, message: `is not one of ${expected}: ${excerpt(cell)}` })
  }
  return found ?? null
}

const recurrenceOf = (cell: string, faults: Fault[], time_zone: string): TaskRecord['recurrence'] => {
  if (cell === '') return null
  const rule = parseRule(cell, 'schedule')
  if ('message' in rule) {
    faults.push({ field: 'recurrence', code: 'not_supported', message: `is left out: ${rule.message}` })
    return null
  }
  return { rule: formatRule(rule), time_zone, from: 'schedule', month_end: 'last_day', missed: 'skip' }
}
