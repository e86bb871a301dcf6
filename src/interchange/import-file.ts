import type { InterchangeRecord, ReportLine } from './records.ts'

/** The formats that can be read. */
const importFormats = [
  'taskwright',
  'todoist',
  'todoist_csv',
  'vikunja',
  'trello',
  'icalendar',
  'csv',
] as const

export type ImportFormat = (typeof importFormats)[number]

export const isImportFormat = (name: string): name is ImportFormat =>
  importFormats.some((format) => format === name)

/** What a column of a CSV file can be. */
export const csvFields = [
  'id',
  'title',
  'description',
  'status',
  'priority',
  'start',
  'due',
  'completed_at',
  'created_at',
  'project',
  'section',
  'parent',
  'tags',
  'assignee',
  'recurrence',
  'anchor',
] as const

export type CsvField = (typeof csvFields)[number]

/** What a column of a table is; `skip` is not read. */
export type CsvColumn = CsvField | 'skip'

/** What separates the cells of a row. */
export const delimiters = [',', ';', '\t', '|'] as const

type Delimiter = (typeof delimiters)[number]

export const isDelimiter = (text: string): text is Delimiter => delimiters.some((one) => one === text)

/**
 * The encodings of tables, by their names in the Encoding Standard: Unicode, the code pages of Windows, in which Excel writes CSV, and
 * those of the Mac and of Unix that are still in use.
 */
export const textEncodings = [
  'utf-8',
  'utf-16le',
  'utf-16be',
  'windows-1250',
  'windows-1251',
  'windows-1252',
  'windows-1253',
  'windows-1254',
  'windows-1255',
  'windows-1256',
  'windows-1257',
  'windows-1258',
  'windows-874',
  'shift_jis',
  'gb18030',
  'big5',
  'euc-kr',
  'euc-jp',
  'iso-8859-2',
  'macintosh',
] as const

export type TextEncoding = (typeof textEncodings)[number]

export const isTextEncoding = (name: string): name is TextEncoding =>
  textEncodings.some((encoding) => encoding === name)

/** How a CSV file is read. A guess is part of the inspection. */
export interface CsvMapping {
  readonly encoding: TextEncoding
  readonly delimiter: Delimiter
  readonly has_header: boolean
  /** The order of numbers in dates such as 01/02/2026. */
  readonly date_order: 'ymd' | 'dmy' | 'mdy'
  /** What each column is, in their order. Columns to skip are not read. */
  readonly columns: readonly CsvColumn[]
}

/** The head of a CSV file, to choose a mapping by. */
export interface CsvHead {
  readonly mapping: CsvMapping
  /** The names of the columns, or `Column 1` and so on without a header. */
  readonly names: readonly string[]
  /** The first rows after the header. */
  readonly rows: readonly (readonly string[])[]
}

/** What is known of a file before it is inspected. */
export interface KnownForm {
  /** Null if it is to be recognized. */
  readonly format: ImportFormat | null
  /** How a table is read; without columns if only its encoding is known, and null if nothing is. */
  readonly mapping: CsvMapping | null
}

export interface Inspection {
  /** Null if no format is recognized. */
  readonly format: ImportFormat | null
  /** Set for the format `csv`. */
  readonly csv: CsvHead | null
}

export interface ReadOptions {
  readonly format: ImportFormat
  /** For the format `csv`; null for the guess. */
  readonly mapping: CsvMapping | null
  /** As it was uploaded. It names the project of a table of Todoist. */
  readonly fileName: string
  /** The zone of times that have none, and of all-day dates that recur. */
  readonly timeZone: string
  /** What dates without a year, and rules without a date, come after. */
  readonly now: string
}

/** Some of the records, and the lines of the report since the batch before. */
export interface ReadBatch {
  readonly records: readonly InterchangeRecord[]
  readonly report: readonly ReportLine[]
}

/** Why a file cannot be read at all. */
export type Unreadable =
  /** It is not of the format, or is damaged. */
  | 'damaged'
  /** It has more, or larger, parts than are read. */
  | 'too_large'
  /** An archive with overlapping entries, unsafe names, encryption, or more than 100 times as many bytes inside. */
  | 'unsafe'
  /** Reading it takes too much memory or time. */
  | 'exhausted'

export class UnreadableFile extends Error {
  override readonly name = 'UnreadableFile'
  readonly why: Unreadable

  constructor(why: Unreadable, message: string, options?: ErrorOptions) {
    super(message, options)
    this.why = why
  }
}
