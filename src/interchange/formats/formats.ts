import {
  type ImportFormat,
  type Inspection,
  type KnownForm,
  type ReadOptions,
  UnreadableFile,
} from '../import-file.ts'
import type { Drafts } from '../drafts.ts'
import { headOf } from '../file-head.ts'
import { readDocument } from '../json-document.ts'
import { guessDelimiter, headRows } from '../table-rows.ts'
import { decode } from '../text-encoding.ts'
import { type Archive, openArchive } from '../zip.ts'
import { inspectCsv, readCsv } from './csv.ts'
import { readCalendar } from './icalendar.ts'
import { manifestOf, readOwnArchive } from './own-archive.ts'
import { readTodoist } from './todoist.ts'
import { isTableName, isTodoistHeader, readTodoistCsv } from './todoist-csv.ts'
import { readTrello } from './trello.ts'
import { readVikunja } from './vikunja.ts'

/** The formats: which one a file has, by its bytes, and the reader of each. */

/** Formats that a user can correct: a row with a value that cannot be read is refused. Others lose the value. */
export const strictFormats: ReadonlySet<ImportFormat> = new Set(['taskwright', 'csv'])

const headBytes = 64 * 1024

export const inspect = async (
  path: string,
  { format, mapping }: KnownForm = { format: null, mapping: null },
): Promise<Inspection> => {
  const head = await headOf(path, headBytes)
  if (head.subarray(0, 2).toString('latin1') === 'PK')
    return { format: await formatOfArchive(path), csv: null }
  const text = textOf(head)
  if (format === 'csv' && (text !== null || mapping !== null))
    return { format, csv: await inspectCsv(path, mapping) }
  if (text === null || text.trim() === '') return { format: null, csv: null }
  if (/^\s*BEGIN:V(CALENDAR|TODO|EVENT)/i.test(text)) return { format: 'icalendar', csv: null }
  if (/^\s*[[{]/.test(text)) return { format: await formatOfJson(path), csv: null }
  const [header = []] = headRows(text, guessDelimiter(text), 1)
  if (isTodoistHeader(header)) return { format: 'todoist_csv', csv: null }
  return header.length > 0 ? { format: 'csv', csv: await inspectCsv(path) } : { format: null, csv: null }
}

/** The text without a byte order mark; null if these are not the bytes of a text. */
const textOf = (head: Buffer): string | null => {
  const { text } = decode(head)
  // A stray one may be in a text.
  const zeros = text.split('\0').length - 1
  return zeros * 100 > text.length ? null : text
}

const formatOfArchive = async (path: string): Promise<ImportFormat | null> => {
  const archive = await openArchive(path)
  try {
    if ((await manifestOf(archive)) !== null) return 'taskwright'
    if (archive.has('data.json') && archive.has('VERSION')) return 'vikunja'
    return archive.names.some(isTableName) &&
      archive.names.every((name) => /\.csv$|^__MACOSX\/|\.DS_Store$/i.test(name))
      ? 'todoist_csv'
      : null
  } finally {
    archive.close()
  }
}

const formatOfJson = async (path: string): Promise<ImportFormat | null> => {
  const { value } = await readDocument(path)
  if (typeof value !== 'object' || value === null) return null
  if ('cards' in value && 'lists' in value && 'id' in value) return 'trello'
  return 'items' in value && 'projects' in value ? 'todoist' : null
}

/** The rows of a file of a format. */
export async function* readFormat(path: string, options: ReadOptions): Drafts {
  switch (options.format) {
    case 'csv':
      yield* readCsv(path, options)
      break
    case 'icalendar':
      yield* readCalendar(path, options)
      break
    case 'todoist':
      yield* readTodoist(path, options)
      break
    case 'trello':
      yield* readTrello(path)
      break
    case 'taskwright':
    case 'vikunja':
    case 'todoist_csv':
      yield* readArchive(path, options)
  }
}

async function* readArchive(path: string, options: ReadOptions): Drafts {
  const isTable = options.format === 'todoist_csv' && (await headOf(path, 2)).toString() !== 'PK'
  const archive = isTable ? null : await openArchive(path)
  try {
    if (archive === null || options.format === 'todoist_csv') yield* readTodoistCsv(path, archive, options)
    else
      yield* options.format === 'vikunja'
        ? readVikunja(expectVikunja(archive), options)
        : readOwnArchive(archive)
  } finally {
    archive?.close()
  }
}

const expectVikunja = (archive: Archive): Archive => {
  if (!archive.has('VERSION') || !archive.has('data.json'))
    throw new UnreadableFile(
      'damaged',
      'The archive is not an export of Vikunja: it lacks VERSION or data.json.',
    )
  return archive
}
