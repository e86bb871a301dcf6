import { toCleanText } from '../domain/shared/text.ts'
import type { InterchangeRecord, ReportCode, ReportLine } from './records.ts'

/** What readers make of the rows of a file, before `checkDrafts` compares them with each other. */

/** Something in a row that cannot be carried as it is. */
export interface Fault {
  readonly field: string | null
  readonly code: ReportCode
  readonly message: string
}

export interface Draft {
  readonly record: InterchangeRecord
  readonly part: string | null
  readonly row: number | null
  readonly faults: readonly Fault[]
}

export type Drafts = AsyncGenerator<Draft | ReportLine, void>

export const isDraft = (item: Draft | ReportLine): item is Draft => 'record' in item

/** Characters. */
const maxShown = 500

/** What a line of the report quotes of a file, as it can be stored. */
const shown = (text: string): string =>
  toCleanText(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text)

export const note = (code: ReportCode, message: string, part: string | null = null): ReportLine => ({
  severity: 'note',
  part: part && shown(part),
  row: null,
  id: null,
  field: null,
  code,
  message: shown(message),
})

export const refusal = (
  part: string | null,
  row: number | null,
  { field, code, message }: Fault,
  id: string | null = null,
): ReportLine => ({
  severity: 'refused',
  part: part && shown(part),
  row,
  id,
  field: field && shown(field),
  code,
  message: shown(message),
})

/** What is wrong with a document itself, each once. */
export const rootNotes = ({ faults }: { readonly faults: readonly Fault[] }): readonly ReportLine[] =>
  [...new Map(faults.map((fault) => [`${fault.field} ${fault.message}`, fault])).values()].map(
    ({ field, code, message }) => note(code, message, field),
  )
