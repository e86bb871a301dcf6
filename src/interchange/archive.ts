import { stringify } from 'csv-stringify/sync'
import { createHash } from 'node:crypto'
import { PassThrough, Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ZipFile } from 'yazl'
import { type CalendarTask, calendarText } from './calendar.ts'
import { type CsvField, csvFields } from './import-file.ts'
import type { AttachmentRecord, InterchangeRecord, RecordType, RecordTypes, TaskRecord } from './records.ts'
import { recordSchemas } from './schemas.ts'
import { writeCell } from './table-cells.ts'

/**
 * Writes an export: a zip with the records as JSON Lines, the files, and the tasks once more as a calendar and as a table. Nothing is
 * held but the names and ids that tasks refer to.
 */

/** Increases when readers of before could not read the records any more. */
export const archiveVersion = 1

export const archiveFormat = 'taskwright-export'

export const manifestName = 'manifest.json'

const fileFolder = 'files/'

/** The file of each type of record, in the order in which they are read. */
export const partNames = {
  user: 'users.jsonl',
  project: 'projects.jsonl',
  section: 'sections.jsonl',
  tag: 'tags.jsonl',
  task: 'tasks.jsonl',
  comment: 'comments.jsonl',
  relation: 'relations.jsonl',
  attachment: 'attachments.jsonl',
} as const satisfies Record<RecordType, string>

export const recordTypes = Object.keys(partNames) as readonly RecordType[]

/**
 * What an export is made of, each in its manual order, and what others name before them. Each function is called once, one after
 * another in the order of the types, apart from `task`, which is called three times, after the types before it.
 */
export type ExportSource = {
  readonly [Type in RecordType]: () => AsyncIterable<RecordTypes[Type]>
} & {
  /** The content of a file; null if it is lost. Called once for each digest. */
  readonly file: (sha256: string) => Promise<Readable | null>
}

export interface ExportFacts {
  readonly createdAt: string
  /** Name and version of the service. */
  readonly generator: string
  /** Of the user whose tasks these are. */
  readonly timeZone: string
  /** The document of the contract, which the schemas of the records are made from. */
  readonly contract: Readonly<Record<string, unknown>>
}

export interface Manifest {
  readonly format: typeof archiveFormat
  readonly version: number
  readonly generator: string
  readonly created_at: string
  readonly time_zone: string
  /** The number of records in each part, and of files. */
  readonly counts: Readonly<Record<string, number>>
  readonly parts: readonly Part[]
  /** Digests of files that the service has lost. */
  readonly missing_files: readonly string[]
}

interface Part {
  readonly name: string
  readonly size: number
  readonly sha256: string
}

/** The bytes of the archive. An error of the source destroys the stream with it; destroying the stream ends the reading. */
export const writeArchive = (source: ExportSource, facts: ExportFacts): Readable => {
  const output = new PassThrough()
  const zip = new ZipFile()
  const ended = new AbortController()
  const fail = (error: unknown): void =>
    void output.destroy(error instanceof Error ? error : new Error(String(error)))
  output.once('close', () => ended.abort())
  zip.once('error', fail)
  zip.outputStream.pipe(output)
  writeParts({ zip, mtime: new Date(facts.createdAt), signal: ended.signal }, source, facts).catch(fail)
  return output
}

interface Writer {
  readonly zip: ZipFile
  readonly mtime: Date
  readonly signal: AbortSignal
}

const writeParts = async (writer: Writer, source: ExportSource, facts: ExportFacts): Promise<void> => {
  const names = createNames()
  const counts: Record<string, number> = {}
  const parts: Part[] = []
  const add = async (name: string, texts: AsyncIterable<string>): Promise<void> => {
    parts.push(await addEntry(writer, name, Readable.from(inChunks(texts), { objectMode: false })))
  }

  await addText(writer, 'README.md', readme)
  await addText(writer, 'schemas.json', jsonText(recordSchemas(facts.contract)))
  const digests = new Set<string>()
  for (const type of recordTypes) {
    const name = partNames[type]
    let count = 0
    const lines = linesOf(source[type](), (record) => {
      count += 1
      names.remember(record)
      if (record.type === 'attachment' && record.sha256 !== null) digests.add(record.sha256)
    })
    await add(name, lines)
    counts[name.replace('.jsonl', '')] = count
  }
  await add('tasks.ics', calendarOf(source.task(), names, facts))
  await add('tasks.csv', tableOf(source.task(), names))
  counts.files = digests.size

  const missing: string[] = []
  for (const sha256 of digests) {
    const file = await source.file(sha256)
    if (file === null) missing.push(sha256)
    // Most files are compressed as they are.
    else await addEntry(writer, `${fileFolder}${sha256}`, file, { compress: false })
  }
  const manifest: Manifest = {
    format: archiveFormat,
    version: archiveVersion,
    generator: facts.generator,
    created_at: facts.createdAt,
    time_zone: facts.timeZone,
    counts,
    parts,
    missing_files: missing,
  }
  await addText(writer, manifestName, jsonText(manifest))
  writer.zip.end()
}

const jsonText = (value: object): string => `${JSON.stringify(value, null, 2)}\n`

const addText = (writer: Writer, name: string, text: string): Promise<Part> =>
  addEntry(writer, name, Readable.from([text], { objectMode: false }))

const addEntry = async (
  { zip, mtime, signal }: Writer,
  name: string,
  content: Readable,
  options: { readonly compress?: boolean } = {},
): Promise<Part> => {
  const hash = createHash('sha256')
  let size = 0
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      size += chunk.length
      done(null, chunk)
    },
  })
  zip.addReadStream(counter, name, { mtime, ...options })
  await pipeline(content, counter, { signal })
  return { name, size, sha256: hash.digest('hex') }
}

/** Characters. Streams of a chunk for each record are slow. */
const chunkLength = 65_536

async function* inChunks(texts: AsyncIterable<string>): AsyncGenerator<string, void> {
  let chunk = ''
  for await (const text of texts) {
    chunk += text
    if (chunk.length < chunkLength) continue
    yield chunk
    chunk = ''
  }
  yield chunk
}

async function* linesOf(
  records: AsyncIterable<InterchangeRecord>,
  remember: (record: InterchangeRecord) => void,
): AsyncGenerator<string, void> {
  for await (const record of records) {
    remember(record)
    yield `${JSON.stringify(record.type === 'attachment' ? withEntry(record) : record)}\n`
  }
}

const withEntry = (attachment: AttachmentRecord): AttachmentRecord => ({
  ...attachment,
  entry: attachment.sha256 === null ? null : `${fileFolder}${attachment.sha256}`,
})

/** What tasks refer to, by id, in the words of a table. */
const createNames = () => {
  const names: Readonly<Record<'user' | 'project' | 'section' | 'tag', Map<string, string>>> = {
    user: new Map(),
    project: new Map(),
    section: new Map(),
    tag: new Map(),
  }
  return {
    remember(record: InterchangeRecord): void {
      if (record.type === 'user') names.user.set(record.id, record.username ?? record.display_name)
      else if (record.type === 'project' || record.type === 'section' || record.type === 'tag')
        names[record.type].set(record.id, record.name)
    },
    of: (type: keyof typeof names, id: string | null): string => names[type].get(id ?? '') ?? '',
  }
}

type Names = ReturnType<typeof createNames>

const tagsOf = (task: TaskRecord, names: Names): readonly string[] =>
  task.tag_ids.map((id) => names.of('tag', id)).filter((name) => name !== '')

const calendarOf = (tasks: AsyncIterable<TaskRecord>, names: Names, facts: ExportFacts) =>
  calendarText(
    {
      generator: facts.generator,
      name: 'Tasks',
      color: null,
      kind: 'todo',
      alarms: true,
      timeZone: facts.timeZone,
      refreshMinutes: null,
    },
    calendarTasks(tasks, names, facts),
  )

async function* calendarTasks(
  tasks: AsyncIterable<TaskRecord>,
  names: Names,
  { createdAt }: ExportFacts,
): AsyncGenerator<CalendarTask, void> {
  for await (const task of tasks)
    yield { ...task, updated_at: task.updated_at ?? task.created_at ?? createdAt, tags: tagsOf(task, names) }
}

/** Without it, Excel reads the bytes as a code page. */
const byteOrderMark = '\uFEFF'

/** The columns are the fields that a table can have when it is imported. */
async function* tableOf(tasks: AsyncIterable<TaskRecord>, names: Names): AsyncGenerator<string, void> {
  yield `${byteOrderMark}${row(csvFields)}`
  for await (const task of tasks) {
    const cells: Readonly<Record<CsvField, string | null>> = {
      id: task.id,
      title: task.title,
      description: task.description,
      status: task.status,
      priority: task.priority,
      start: task.start_at ?? task.start_on,
      due: task.due_at ?? task.due_on,
      completed_at: task.completed_at,
      created_at: task.created_at,
      project: names.of('project', task.project_id),
      section: names.of('section', task.section_id),
      parent: task.parent_id,
      // A row within the cell, because names can have commas.
      tags: stringify([[...tagsOf(task, names)]], { eof: false }),
      assignee: names.of('user', task.assignee_id),
      recurrence: task.recurrence?.rule ?? null,
      anchor: task.recurrence?.anchor ?? null,
    }
    yield row(csvFields.map((field) => writeCell(cells[field] ?? '')))
  }
}

/** RFC 4180 ends rows with CRLF; the library quotes no other line breaks. */
const row = (cells: readonly string[]): string =>
  stringify([[...cells]], { record_delimiter: 'windows', quoted_match: /[\r\n]/ })

const readme = `# Export of tasks

- manifest.json: the version of the format, and the number, sizes and SHA-256 of the parts.
- schemas.json: the JSON Schema of each type of record.
- *.jsonl: all records, one JSON object a line. Records name others by id. Parents come before their subtasks.
- files/: the attached files. Their names are their SHA-256; attachments.jsonl has their real names.
- tasks.ics: the tasks for calendar programs (iCalendar).
- tasks.csv: the tasks for spreadsheets, in UTF-8 with a byte order mark. An apostrophe before =, +, - or @ keeps a spreadsheet from calculating it.

Another installation can import this file as it is.
`
