import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { canonicalTimeZone, dayOf, instantAtLocal, shift } from '../../domain/shared/time-zones.ts'
import { blankProject, blankTask, dueFields, startFields, tagNamed } from '../blank.ts'
import { type Draft, type Drafts, type Fault, refusal } from '../drafts.ts'
import { excerpt } from '../fields.ts'
import type { ReadOptions } from '../import-file.ts'
import { parseDate } from '../loose-dates.ts'
import type { TaskRecord } from '../records.ts'
import { guessDelimiter, hasBrokenText, type Row, rowsOf } from '../table-rows.ts'
import { guessEncoding } from '../text-encoding.ts'
import type { Archive } from '../zip.ts'
import { firstDate, parseRepeated } from './todoist-dates.ts'

/**
 * Reads the tables that Todoist writes for a project, and its backups, which are archives of such tables. Rows have no ids: a task is
 * below the last one with a smaller indent, and a comment is on the task before it.
 */

/** The numbers of the application: 1 is the highest, and 4 is none. */
const priorities = new Map<string, TaskRecord['priority']>([
  ['1', 'urgent'],
  ['2', 'high'],
  ['3', 'medium'],
  ['4', 'none'],
  ['', 'none'],
])

/** Whether a row is the header of such a table. */
export const isTodoistHeader = (cells: readonly string[]): boolean =>
  cells[0]?.toUpperCase() === 'TYPE' && cells[1]?.toUpperCase() === 'CONTENT'

/** Archives that were made anew on a Mac have a second file beside each. */
export const isTableName = (name: string): boolean =>
  /\.csv$/i.test(name) && !/(^|\/)(__MACOSX\/|\._)/.test(name)

interface Table {
  readonly name: string
  readonly open: () => Promise<AsyncIterable<Buffer>>
}

export async function* readTodoistCsv(path: string, archive: Archive | null, options: ReadOptions): Drafts {
  const tables: readonly Table[] =
    archive === null
      ? [{ name: basename(options.fileName), open: () => Promise.resolve(createReadStream(path)) }]
      : archive.names
          .filter((name) => isTableName(name))
          .map((name) => ({ name, open: () => archive.open(name) }))
  const tags = new Set<string>()
  const users = new Set<string>()
  for (const table of tables)
    for await (const item of readTable(table, options)) {
      const { type } = 'record' in item ? item.record : { type: null }
      const seen = type === 'tag' ? tags : type === 'user' ? users : null
      const id = 'record' in item && 'id' in item.record ? item.record.id : ''
      if (seen?.has(id)) continue
      seen?.add(id)
      yield item
    }
}

async function* readTable({ name, open }: Table, options: ReadOptions): Drafts {
  // Such as "Home [2203306141].csv".
  const projectName = basename(name)
    .replace(/\.csv$/i, '')
    .replace(/ \[\w+\]$/, '')
  const project = { ...blankProject, id: name, name: projectName || 'Todoist', external_source: 'todoist' }
  const encoding = await guessEncoding(await open())
  const form = { encoding, delimiter: guessDelimiter(await startOf(await open(), encoding)) }
  let columns: readonly string[] = []
  let section: string | null = null
  const above: string[] = []
  for await (const row of rowsOf(await open(), form)) {
    const where = { part: name, row: row.number }
    const id = `${name}#${row.number}`
    if (row.problem !== null) {
      yield refusal(name, row.number, { field: null, code: 'invalid', message: row.problem })
      continue
    }
    if (columns.length === 0) {
      columns = row.cells.map((cell) => cell.replace(/^\ufeff/, '').toUpperCase())
      if (!isTodoistHeader(columns)) {
        const message = 'The table is not one of Todoist: its columns are others.'
        yield refusal(name, row.number, { field: null, code: 'invalid', message })
        return
      }
      yield { record: project, part: name, row: null, faults: [] }
      continue
    }
    const cell = (column: string): string => (row.cells[columns.indexOf(column)] ?? '').trim()
    const type = cell('TYPE').toLowerCase()
    if (type === 'section') {
      section = id
      above.length = 0
      yield { record: { type: 'section', id, project_id: name, name: cell('CONTENT') }, ...where, faults: [] }
    } else if (type === 'task') {
      const level = Math.max(1, Math.min(Number(cell('INDENT')) || 1, above.length + 1))
      const place = { project_id: name, section_id: section, parent_id: above[level - 2] ?? null }
      above.length = level - 1
      above.push(id)
      for (const draft of taskDrafts(row, cell, { ...place, id }, options)) yield { ...draft, ...where }
    } else if (type === 'note') {
      yield { ...commentDraft(cell, id, above.at(-1) ?? ''), ...where }
    } else if (type !== '' && type !== 'meta') {
      const message = `is not task, section or note: ${excerpt(type)}`
      yield refusal(name, row.number, { field: 'TYPE', code: 'invalid_value', message })
    }
  }
}

/** The text of the first bytes. */
const startOf = async (chunks: AsyncIterable<Buffer>, encoding: string): Promise<string> => {
  for await (const chunk of chunks) return new TextDecoder(encoding).decode(chunk)
  return ''
}

type Cell = (column: string) => string
type Place = Pick<TaskRecord, 'id' | 'project_id' | 'section_id' | 'parent_id'>
type Unplaced = Pick<Draft, 'record' | 'faults'>

const taskDrafts = (row: Row, cell: Cell, place: Place, options: ReadOptions): readonly Unplaced[] => {
  const faults: Fault[] = []
  const fault = (field: string, code: Fault['code'], message: string) =>
    void faults.push({ field, code, message })
  if (hasBrokenText(row)) fault('CONTENT', 'encoding', 'has bytes that are not text')
  const content = cell('CONTENT')
  const labels = [...content.matchAll(/(?<=^|\s)@([\p{L}\p{N}_/-]+)/gu)].map(([, name = '']) => name)
  const listed = cell('LABELS')
    .split(/[;,]/)
    .map((name) => name.trim().replace(/^@/, ''))
  const tags = [...new Set([...labels, ...listed].filter((name) => name !== ''))]
  const title = content
    .replaceAll(/(?<=^|\s)@[\p{L}\p{N}_/-]+/gu, '')
    .replaceAll(/ {2,}/g, ' ')
    .trim()
  const priority = priorities.get(cell('PRIORITY'))
  if (priority === undefined)
    fault('PRIORITY', 'invalid_value', `is not from 1 to 4: ${excerpt(cell('PRIORITY'))}`)
  const duration = cell('DURATION')
  if (duration !== '' && duration !== 'None')
    fault('DURATION', 'not_supported', 'is left out: tasks have no duration')
  const responsible = personOf(cell('RESPONSIBLE'))
  const task: TaskRecord = {
    ...blankTask,
    ...place,
    ...datesOf(cell, fault, options),
    title: title === '' ? content : title,
    description: cell('DESCRIPTION'),
    priority: priority ?? 'none',
    tag_ids: tags,
    assignee_id: responsible?.id ?? null,
    external_source: 'todoist',
  }
  return [
    ...tags.map((name) => ({ record: tagNamed(name), faults: [] })),
    ...(responsible === null ? [] : [{ record: responsible, faults: [] }]),
    { record: task, faults },
  ]
}

const datesOf = (
  cell: Cell,
  fault: (field: string, code: Fault['code'], message: string) => void,
  { timeZone: zone, now }: ReadOptions,
) => {
  const timeZone = canonicalTimeZone(cell('TIMEZONE')) ?? zone
  const text = cell('DATE')
  const read = (text: string): string | null =>
    parseDate(text, { order: 'dmy', timeZone, now }) ?? relativeDate(text, now, timeZone)
  const repeated = parseRepeated(text, timeZone)
  const date = repeated === null ? read(text) : firstDate(repeated, now)
  if (date === null && text !== '')
    fault('DATE', 'invalid_value', `is not a date that is known: ${excerpt(text)}`)
  const deadline = read(cell('DEADLINE'))
  const { time: _, ...rule } = repeated ?? { time: null }
  const recurrence =
    repeated === null || date === null ? null : (rule as NonNullable<TaskRecord['recurrence']>)
  return deadline !== null && date !== null && recurrence === null
    ? { ...startFields(date), ...dueFields(deadline), recurrence }
    : { ...dueFields(date ?? deadline), recurrence }
}

/** A template can have dates that count from the day on which it is used, such as `in 5 days`. */
const relativeDate = (text: string, now: string, timeZone: string): string | null => {
  const [, amount, word = '', time] =
    /^(?:in (\d{1,4}) days?|(today|tomorrow))(?: (?:at )?(\d{1,2}:\d\d))?$/.exec(text.toLowerCase()) ?? []
  if (amount === undefined && word === '') return null
  const day = shift(dayOf(now, timeZone), Number(amount ?? (word === 'today' ? 0 : 1)), timeZone)
  return day === null || time === undefined
    ? day
    : instantAtLocal(`${day}T${time.padStart(5, '0')}:00`, timeZone)
}

/** `Ada (14781400)`. */
const personOf = (text: string) => {
  const [, name = '', id = ''] = /^(.*?)(?: \((\w+)\))?$/.exec(text) ?? []
  return name === '' ? null : ({ type: 'user', id: id || name, username: null, display_name: name } as const)
}

/** The JSON of the file in a comment; null without one. */
const attachmentIn = (text: string): string | null => {
  const [start, end] = [text.indexOf('[[file {'), text.lastIndexOf('}]]')]
  return start === -1 || end < start ? null : text.slice(start + '[[file '.length, end + 1)
}

/** A file is in the text of the comment, as JSON. */
const commentDraft = (cell: Cell, id: string, taskId: string): Unplaced => {
  const file = attachmentIn(cell('CONTENT'))
  const author = personOf(cell('AUTHOR'))
  const faults: Fault[] =
    file === null
      ? []
      : [
          {
            field: 'CONTENT',
            code: 'remote_file',
            message: 'has a file that is not fetched; the comment has its address',
          },
        ]
  return {
    record: {
      type: 'comment',
      id,
      task_id: taskId,
      author_id: null,
      author_name: author?.display_name ?? null,
      body:
        file === null
          ? cell('CONTENT')
          : cell('CONTENT').replace(`[[file ${file}]]`, () => /"file_url": ?"([^"]+)"/.exec(file)?.[1] ?? ''),
      created_at: null,
      edited_at: null,
    },
    faults,
  }
}
