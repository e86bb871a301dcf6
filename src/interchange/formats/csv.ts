import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { isDay } from '../../domain/shared/dates.ts'
import { formatRule, parseRule } from '../../domain/tasks/recurrence-rule.ts'
import { canonicalTimeZone, dayOf } from '../../domain/shared/time-zones.ts'
import { blankProject, blankTask, dueFields, startFields, tagNamed } from '../blank.ts'
import { type Draft, type Drafts, type Fault, note, refusal } from '../drafts.ts'
import { excerpt } from '../fields.ts'
import { headOf } from '../file-head.ts'
import {
  type CsvColumn,
  type CsvField,
  csvFields,
  type CsvHead,
  type CsvMapping,
  type ReadOptions,
  type TextEncoding,
  UnreadableFile,
} from '../import-file.ts'
import { type DateContext, orderOf, parseDate, parsePlanned } from '../loose-dates.ts'
import type { CommentRecord, InterchangeRecord, TaskRecord } from '../records.ts'
import {
  anchors,
  columnName,
  fieldsOfColumns,
  isIdColumn,
  isUtcColumn,
  valueOf,
  type Words,
  wordsOf,
} from './csv-words.ts'
import { parseRepeated } from './todoist-dates.ts'
import { guessDelimiter, hasBrokenText, headRows, type Row, rowsOf } from '../table-rows.ts'
import { guessEncoding } from '../text-encoding.ts'

/** Reads tables whose columns the user, or a guess, has named. */

const headBytes = 256 * 1024
const shownRows = 5

/** Rows that can come before the names of the columns: what the file is, or when it was written. */
const maxRowsBefore = 20

/** How a table is read, as far as it is not known, and its first rows. */
export const inspectCsv = async (path: string, known: CsvMapping | null = null): Promise<CsvHead> => {
  const encoding = known?.encoding ?? (await guessEncoding(createReadStream(path)))
  const mapping = known !== null && known.columns.length > 0 ? known : null
  const text = await headText(path, encoding)
  const delimiter = mapping?.delimiter ?? guessDelimiter(text)
  const rows = headRows(text, delimiter, 1000)
  const header = headerIn(rows)
  const index = mapping === null ? header : mapping.has_header ? (header ?? 0) : null
  const first = rows[index ?? 0] ?? []
  const fields = fieldsOfColumns(first.map((name) => (index === null ? '' : columnName(name))))
  const data = rows.slice(index === null ? 0 : index + 1)
  const columns = fields.includes('title') ? fields : withTitle(fields, data)
  const dates = data.flatMap((row) => row.filter((_, index) => isDateField(columns[index] ?? 'skip')))
  return {
    mapping: mapping ?? {
      encoding,
      delimiter,
      has_header: index !== null,
      date_order: orderOf(dates) ?? usualOrder(dates, first, delimiter),
      columns,
    },
    names: first.map((name, column) => (index === null ? `Column ${column + 1}` : name)),
    rows: data.slice(0, shownRows),
  }
}

const headText = async (path: string, encoding: TextEncoding): Promise<string> =>
  new TextDecoder(encoding).decode(await headOf(path, headBytes))

/**
 * The row with the names of the columns; null without one. A first row needs one that is known, others need two. What is in other rows
 * too is a value, such as `closed`, unless they repeat the whole row.
 */
const headerIn = (rows: readonly (readonly string[])[]): number | null => {
  const head = rows.slice(0, maxRowsBefore + 1)
  const counts = head.map((row) => {
    const others = head.filter((other) => other.join() !== row.join())
    return fieldsOfColumns(row.map(columnName)).filter(
      (field, index) => field !== 'skip' && others.every((other) => other[index] !== row[index]),
    ).length
  })
  const index = counts.findIndex((count) => count >= 2)
  // Excel may be told the delimiter in a row of its own.
  const first = rows[0]?.[0]?.startsWith('sep=') ? 1 : 0
  return index !== -1 ? index : (counts[first] ?? 0) > 0 ? first : null
}

/** Spreadsheets write the month first where they separate cells by commas, in English. */
const usualOrder = (
  dates: readonly string[],
  names: readonly string[],
  delimiter: CsvMapping['delimiter'],
): CsvMapping['date_order'] =>
  dates.some((date) => date.includes('/')) &&
  delimiter !== ';' &&
  names.every((name) => !/[^\0-\x7f]/.test(name))
    ? 'mdy'
    : 'dmy'

/**
 * Each task needs a title: the column with the most different texts, of those whose names say nothing or else of all, and of equal ones
 * the first. Dates and addresses are no texts.
 */
const withTitle = (
  columns: readonly CsvColumn[],
  data: readonly (readonly string[])[],
): readonly CsvColumn[] => {
  const isChoice = (field: CsvColumn): boolean => field === 'skip' || !columns.includes('skip')
  const texts = columns.map((field, index) =>
    isChoice(field) ? new Set(data.map((row) => row[index] ?? '').filter(isTitle)).size : -1,
  )
  return columns.with(texts.indexOf(Math.max(...texts)), 'title')
}

const isTitle = (cell: string): boolean =>
  /\p{L}/u.test(cell) && !/^\s*(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|[a-z]+:\/\/\S+\s*$)/i.test(cell)

const isDateField = (field: CsvColumn): boolean =>
  field === 'start' || field === 'due' || field === 'created_at' || field === 'completed_at'

/** How the rows of a table are read. */
interface Table {
  readonly mapping: CsvMapping
  /** The plain names of the columns; empty without a header. */
  readonly header: readonly string[]
  /** Where the field or the name of a column is first; -1 or missing if it is nowhere. A table can have very many columns. */
  readonly columnOf: Readonly<Record<CsvField, number>>
  readonly columnNamed: ReadonlyMap<string, number>
  /** All columns of the name that tags have, those with ids, and those with comments. */
  readonly tagColumns: readonly number[]
  readonly idColumns: readonly number[]
  readonly commentColumns: readonly number[]
  /** The row with the names of the columns, from 1; 0 without one. */
  readonly headerRow: number
  readonly words: Words
  /** The fields of columns whose times are in UTC. */
  readonly utc: ReadonlySet<CsvField>
  /** Whether commas are between people, not in their names. */
  readonly hasPeople: boolean
  /** The project of tasks that have a section, and no project. */
  readonly project: string
  /** What is not known, with the numbers of tasks. */
  readonly unknown: Map<string, number>
}

const tableOf = async (path: string, mapping: CsvMapping, fileName: string): Promise<Table> => {
  const rows = headRows(await headText(path, mapping.encoding), mapping.delimiter, maxRowsBefore + 1)
  const index = headerIn(rows) ?? 0
  const names = mapping.has_header ? (rows[index] ?? []) : []
  const header = names.map(columnName)
  const columnOf = Object.fromEntries(
    csvFields.map((field) => [field, mapping.columns.indexOf(field)]),
  ) as Readonly<Record<CsvField, number>>
  const columnsOf = (isOne: (name: string, column: number) => boolean): readonly number[] =>
    [...header.keys()].filter((column) => isOne(header[column] ?? '', column))
  const tagName = header[columnOf.tags] ?? ''
  return {
    mapping,
    header,
    columnOf,
    columnNamed: new Map([...header.entries()].toReversed().map(([column, name]) => [name, column])),
    tagColumns: columnsOf((name) => name === tagName && name !== ''),
    idColumns: columnsOf(isIdColumn),
    commentColumns: columnsOf(
      (name, column) => name === 'comment' && (mapping.columns[column] ?? 'skip') === 'skip',
    ),
    headerRow: mapping.has_header ? index + 1 : 0,
    words: wordsOf(header),
    utc: new Set(
      mapping.columns.filter(
        (field, column): field is CsvField => field !== 'skip' && isUtcColumn(names[column] ?? ''),
      ),
    ),
    hasPeople: /^(assignees|assign|members|people|person)$/.test(header[columnOf.assignee] ?? ''),
    project: basename(fileName).replace(/\.\w{1,4}$/, '') || 'Import',
    unknown: new Map(),
  }
}

export async function* readCsv(path: string, options: ReadOptions): Drafts {
  const mapping = options.mapping ?? (await inspectCsv(path)).mapping
  if (!mapping.columns.includes('title'))
    throw new UnreadableFile('damaged', 'None of the columns is the title.')
  const table = await tableOf(path, mapping, options.fileName)
  const context: DateContext = { order: mapping.date_order, timeZone: options.timeZone, now: options.now }
  const parents = mapping.columns.includes('parent') ? await parentsIn(path, table) : new Map()
  const made = new Set<string>()
  const ids = createIds()
  for await (const row of dataRows(path, table)) {
    if (row.problem !== null) {
      yield refusal(null, row.number, { field: null, code: 'invalid', message: row.problem })
      continue
    }
    if (row.cells.every((cell) => cell.trim() === '')) continue
    const cells = cellsOf(row, table)
    const drafts = draftsOf(row, cells, ids.of(cells), parents, table, context)
    // Projects, sections, tags and users are there once they are named.
    for (const draft of drafts) {
      const key = `${draft.record.type} ${'id' in draft.record ? draft.record.id : ''}`
      if (draft.record.type !== 'task' && made.has(key)) continue
      made.add(key)
      yield draft
    }
  }
  for (const [what, tasks] of table.unknown) yield note('not_supported', `${what}: ${tasks} of the tasks.`)
}

/** Without the header, which some programs repeat for each group of rows. */
const dataRows = async function* (
  path: string,
  { mapping, header, headerRow }: Table,
): AsyncGenerator<Row, void> {
  for await (const row of rowsOf(createReadStream(path), mapping)) {
    if (row.number <= headerRow) continue
    const isRepeated =
      header.some((name) => name !== '') &&
      row.cells.length === header.length &&
      row.cells.every((cell, index) => columnName(cell) === header[index])
    if (!isRepeated) yield row
  }
}

type Cells = Readonly<Record<CsvField, string>>

const cellsOf = ({ cells }: Row, { columnOf, tagColumns }: Table): Cells => {
  const cell = (field: CsvField): string => {
    const text = (cells[columnOf[field]] ?? '').trim()
    return (text === 'null' && field !== 'title') || (text === '(no section)' && field === 'section')
      ? ''
      : text
  }
  const fields = Object.fromEntries(csvFields.map((field) => [field, cell(field)])) as unknown as Cells
  // Jira has several columns of one name, each with a label.
  if (tagColumns.length < 2) return fields
  return { ...fields, tags: textsIn(cells, tagColumns).join(',') }
}

/** What is in some of the cells. */
const textsIn = (cells: readonly string[], columns: readonly number[]): readonly string[] =>
  columns.map((column) => cells[column] ?? '').filter((text) => text.trim() !== '')

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

/** The ids of tasks by their ids, of which some products have two, and by their title, which a parent can be named by. */
const parentsIn = async (path: string, table: Table): Promise<ReadonlyMap<string, string>> => {
  const byTitle = new Map<string, string>()
  const byOther = new Map<string, string>()
  const byId = new Map<string, string>()
  const ids = createIds()
  for await (const row of dataRows(path, table)) {
    const cells = cellsOf(row, table)
    const id = ids.of(cells)
    if (cells.title !== '' && !byTitle.has(cells.title)) byTitle.set(cells.title, id)
    if (cells.id !== '') byId.set(cells.id, id)
    for (const column of table.idColumns) byOther.set((row.cells[column] ?? '').trim(), id)
  }
  return new Map([...byTitle, ...byOther, ...byId])
}

/** The name of another page of Notion, whose address follows it. */
const withoutAddress = (name: string): string => {
  const start = name.lastIndexOf(' (')
  const isAddress = name.endsWith(')') && start !== -1 && /^(?:https?:|\S*\.md)/.test(name.slice(start + 2))
  return isAddress ? name.slice(0, start) : name
}

const draftsOf = (
  row: Row,
  cells: Cells,
  id: string,
  parents: ReadonlyMap<string, string>,
  table: Table,
  context: DateContext,
): readonly Draft[] => {
  const faults: Fault[] = []
  if (hasBrokenText(row))
    faults.push({
      field: null,
      code: 'encoding',
      message: 'has bytes that are not text in the encoding of the file',
    })
  const isInFile = cells.section !== '' && table.columnOf.project === -1
  const project_id = isInFile ? table.project : cells.project || null
  const section_id = project_id && cells.section ? JSON.stringify([project_id, cells.section]) : null
  const tags = listOf(cells.tags, [',', ';', '|'].find((delimiter) => cells.tags.includes(delimiter)) ?? ',')
  const [assignee = null, ...others] = listOf(cells.assignee, table.hasPeople ? ',' : ';').filter(
    (name) => !noPerson.test(name),
  )
  if (others.length > 0)
    faults.push({
      field: 'assignee',
      code: 'not_supported',
      message: `has ${others.length + 1}; the first one becomes the assignee`,
    })
  const task = taskOf(cells, faults, table, rowContext(row, table, context))
  const parent = withoutAddress(cells.parent)
  const named: readonly InterchangeRecord[] = [
    ...(project_id ? [{ ...blankProject, id: project_id, name: project_id }] : []),
    ...(project_id && section_id
      ? [{ type: 'section', id: section_id, project_id, name: cells.section } as const]
      : []),
    ...tags.map(tagNamed),
    ...(assignee ? [{ type: 'user', id: assignee, username: null, display_name: assignee } as const] : []),
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
        parent_id: parent ? (parents.get(cells.parent) ?? parents.get(parent) ?? parent) : null,
        tag_ids: tags,
        assignee_id: assignee,
      },
    },
    ...commentsOf(row, id, table, context).map((record): Draft => ({
      record,
      part: null,
      row: row.number,
      faults: [],
    })),
  ]
}

/** Jira and Pivotal Tracker have several columns of one name, each with a comment. */
const commentsOf = (
  { cells }: Row,
  task_id: string,
  { commentColumns }: Table,
  context: DateContext,
): readonly CommentRecord[] =>
  textsIn(cells, commentColumns).map((cell, index) => {
    const { author, date, body } = commentIn(cell)
    return {
      type: 'comment',
      id: `${task_id} comment ${index + 1}`,
      task_id,
      author_id: null,
      author_name: author === '' || accountId.test(author) ? null : author,
      body,
      created_at: asInstant(parseDate(date, context)),
      edited_at: null,
    }
  })

/** Accounts of Jira, whose names are not in the file. */
const accountId = /^(?:\d+:[0-9a-f-]{36}|[0-9a-f]{24})$/

/** `date;author;text` of Jira, or `text (author - date)` of Pivotal Tracker. */
const commentIn = (
  cell: string,
): { readonly author: string; readonly date: string; readonly body: string } => {
  const [date = '', author = '', ...text] = cell.split(';')
  if (text.length > 0 && /^\d[\w/ :.-]{5,30}$/.test(date.trim()))
    return { author: author.trim(), date: date.trim(), body: text.join(';') }
  const start = cell.lastIndexOf(' (')
  const [, name = '', day = ''] =
    /^\(([^()]+) - (\p{L}+ \d\d?, \d{4})\)$/u.exec(cell.slice(start + 1).trim()) ?? []
  return day === ''
    ? { author: '', date: '', body: cell }
    : { author: name, date: day, body: cell.slice(0, start) }
}

/** A row within the cell, whose cells can be in quotes, and which can be in brackets. */
const listOf = (cell: string, delimiter: string): readonly string[] => {
  const text = cell.startsWith('[') && cell.endsWith(']') ? cell.slice(1, -1) : cell
  const names = text.includes('"') ? (headRows(text, delimiter, 1)[0] ?? []) : text.split(delimiter)
  return [...new Set(names.map((name) => name.trim()).filter((name) => name !== ''))]
}

/**
 * How the dates of a row are read. TickTick has the zone in one column, and in another whether the times are days in it. Toodledo has
 * the time of a day in another column.
 */
interface RowContext extends DateContext {
  readonly isAllDay: boolean | null
  readonly times: Readonly<Record<'start' | 'due', string>>
  /** What a status of one's own is among those of Jira; empty if the table does not say. */
  readonly statusCategory: string
}

const rowContext = ({ cells }: Row, { columnNamed }: Table, context: DateContext): RowContext => {
  const cell = (name: string): string => (cells[columnNamed.get(name) ?? -1] ?? '').trim().toLowerCase()
  const isAllDay = cell('isallday')
  return {
    ...context,
    timeZone: canonicalTimeZone(cell('timezone')) ?? context.timeZone,
    isAllDay: isAllDay === 'true' ? true : isAllDay === 'false' ? false : null,
    times: { start: cell('starttime'), due: cell('duetime') },
    statusCategory: cell('statuscategory'),
  }
}

const noPerson =
  /^(?:-|none|null|n\/a|nobody|unassigned|not assigned|nicht zugewiesen|non assigné|sin asignar|non assegnato|未割り当て)$/i

const noDate = /^(?:-|–|n\/?a|none|null|0000-00-00)?$/i

const taskOf = (cells: Cells, faults: Fault[], table: Table, context: RowContext): Omit<TaskRecord, 'id'> => {
  const [start, due] = datesOf(cells, faults, table, context)
  const past = (field: 'status' | 'completed_at' | 'created_at'): string | null => {
    const found = parseDate(cells[field], inZone(field, table, context))
    const isWord = noDate.test(cells[field]) || valueOf(cells[field], table.words.statuses) !== null
    if (found === null && field !== 'status' && !isWord)
      count(table.unknown, `Dates that cannot be read in the column of ${field}`)
    return asInstant(found)
  }
  const completed_at = past('completed_at') ?? past('status')
  const word = statusOf(cells, completed_at, table, context.statusCategory)
  const status = word ?? (completed_at === null ? 'todo' : 'done')
  return {
    ...blankTask,
    title: cells.title,
    description: cells.description,
    status,
    priority: choose('priority', cells.priority, table.words.priorities, table) ?? 'none',
    ...startFields(start === due ? null : start),
    ...dueFields(due),
    completed_at,
    created_at: past('created_at'),
    recurrence:
      status === 'done' || status === 'cancelled' ? null : recurrenceOf(cells, faults, table, context),
  }
}

/** The beginning of a day in UTC, for what has to be an instant. */
const asInstant = (date: string | null): string | null =>
  date === null || date.includes('T') ? date : `${date}T00:00:00.000Z`

const inZone = (field: CsvField, { utc }: Table, context: RowContext): RowContext =>
  utc.has(field) ? { ...context, timeZone: 'UTC' } : context

/** The start and the due date. Notion has both in one cell. */
const datesOf = (
  cells: Cells,
  faults: Fault[],
  table: Table,
  context: RowContext,
): readonly [start: string | null, due: string | null] => {
  const date = (field: 'start' | 'due', text: string): string | null => {
    if (noDate.test(text)) return null
    const zoned = inZone(field, table, context)
    const parse = context.isAllDay === null ? parsePlanned : parseDate
    const day = parse(text, zoned)
    const time = context.times[field]
    const found = (day !== null && isDay(day) && time !== '' ? parse(`${day} ${time}`, zoned) : null) ?? day
    if (found === null)
      faults.push({ field, code: 'invalid_value', message: `is not a date: ${excerpt(text)}` })
    return found !== null && context.isAllDay ? dayOf(found, context.timeZone) : found
  }
  const [first = '', last] = cells.due.split(' → ')
  return last === undefined
    ? [date('start', cells.start), date('due', first)]
    : [date('start', cells.start || first), date('due', last)]
}

/** Null if the table does not say, or has a word that is not known. */
const statusOf = (
  { status, completed_at: column }: Cells,
  completed_at: string | null,
  table: Table,
  category: string,
): TaskRecord['status'] | null => {
  const [, percent] = /^(\d{1,3})(?:[.,]\d+)? ?%$/.exec(status) ?? []
  if (percent !== undefined) return percent === '100' ? 'done' : Number(percent) > 0 ? 'in_progress' : 'todo'
  // A column such as "Completed" has a date, or says whether.
  if (status === '') return valueOf(column, table.words.statuses)
  const known = valueOf(status, table.words.statuses) ?? valueOf(category, table.words.statuses)
  if (known !== null) return known
  return completed_at !== null && column === '' ? null : choose('status', status, table.words.statuses, table)
}

const count = (counts: Map<string, number>, key: string): void =>
  void counts.set(key, (counts.get(key) ?? 0) + 1)

/** Distinct words that have a note of their own. */
const maxUnknown = 20

/** Null if the cell is empty, or has another word: people name the states of their work as they like, which is no reason to refuse it. */
const choose = <Value extends string>(
  field: 'status' | 'priority' | 'anchor',
  cell: string,
  known: ReadonlyMap<string, Value>,
  { unknown }: Table,
): Value | null => {
  if (cell === '') return null
  const found = valueOf(cell, known)
  if (found === null) {
    const what = `The ${field} ${excerpt(cell)} is not known`
    const key = unknown.has(what) || unknown.size < maxUnknown ? what : 'Other words are not known'
    count(unknown, key)
  }
  return found
}

const recurrenceOf = (
  cells: Cells,
  faults: Fault[],
  table: Table,
  { timeZone }: RowContext,
): TaskRecord['recurrence'] => {
  const anchor = choose('anchor', cells.anchor, anchors, table)
  const recurrence = ruleOf(cells.recurrence, faults, timeZone)
  return recurrence && { ...recurrence, ...(anchor !== null && { anchor }) }
}

/** A rule, or English as Todoist writes it. */
const ruleOf = (cell: string, faults: Fault[], time_zone: string): TaskRecord['recurrence'] => {
  if (/^(never|no|false|n\/?a|none|-|0)?$/i.test(cell)) return null
  const repeated = parseRepeated(cell, time_zone)
  if (repeated !== null) {
    const { time: _, ...recurrence } = repeated
    return recurrence
  }
  const rule = parseRule(cell, 'schedule')
  if ('message' in rule) {
    faults.push({ field: 'recurrence', code: 'not_supported', message: `is left out: ${rule.message}` })
    return null
  }
  return { rule: formatRule(rule), time_zone, from: 'schedule', month_end: 'last_day', missed: 'skip' }
}
