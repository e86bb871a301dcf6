import type { components } from '../../../generated/openapi.ts'

type Schemas = components['schemas']

/** How a CSV file is read, with its first rows. */
export type ImportTable = NonNullable<Schemas['ImportTable']>

/** What a file has. */
export type ImportPreview = NonNullable<Schemas['ImportPreview']>

/** What became of the rows. */
export type ImportResult = NonNullable<Schemas['ImportResult']>

/** Who the users of a file are here. */
export type ImportUsers = Schemas['ImportUserMapping'][]

/** What becomes of records that an earlier import has created. */
export type ImportExisting = 'skip' | 'update'

export type ImportOutcome = Schemas['ImportOutcome']

/** Why an import fails. */
export type ImportFailure =
  | 'unknown_format'
  | 'damaged'
  | 'too_large'
  | 'unsafe'
  | 'exhausted'
  | 'access_lost'
  | 'quota_exceeded'
  | 'storage_full'
  | 'interrupted'

/** Imports of one user that are kept. The contract says so. */
export const maxImports = 20

/** Rows that a preview keeps. The contract says so. */
export const maxPreviewedRows = 10_000

/** Users that a preview names. The contract says so. */
export const maxPreviewedUsers = 1_000

/** The states of an import that a process works on, or will. */
export const busyStatuses = ['reading', 'running', 'undoing', 'discarding'] as const

export const isBusy = (status: string): boolean => busyStatuses.some((busy) => busy === status)

/** Formats whose records have ids that are unique in all files. Those of others are only unique in one file. */
const formatsWithIds: ReadonlySet<string> = new Set(['taskwright', 'todoist', 'trello', 'icalendar'])

/** Where the ids of a file's records are unique. */
export const sourceOf = (format: string, sha256: string): string =>
  formatsWithIds.has(format) ? format : `file:${sha256}`
