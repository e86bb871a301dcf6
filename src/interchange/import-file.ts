import type { InterchangeRecord, ReportLine } from './records.ts'

/** The formats that can be read. */
export const importFormats = [
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
] as const

export type CsvField = (typeof csvFields)[number]

/** What separates the cells of a row. */
export const delimiters = [',', ';', '\t', '|'] as const

type Delimiter = (typeof delimiters)[number]

export const isDelimiter = (text: string): text is Delimiter => delimiters.some((one) => one === text)

/** How a CSV file is read. A guess is part of the inspection. */
export interface CsvMapping {
  readonly encoding: 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252'
  readonly delimiter: Delimiter
  readonly has_header: boolean
  /** The order of numbers in dates such as 01/02/2026. */
  readonly date_order: 'ymd' | 'dmy' | 'mdy'
  /** What each column is, in their order. Columns without a field, null here, are not read. */
  readonly columns: readonly (CsvField | null)[]
}

/** The head of a CSV file, to choose a mapping by. */
export interface CsvHead {
  readonly mapping: CsvMapping
  /** The names of the columns, or `Column 1` and so on without a header. */
  readonly names: readonly string[]
  /** The first rows after the header. */
  readonly rows: readonly (readonly string[])[]
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
