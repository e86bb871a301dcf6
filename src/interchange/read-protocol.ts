import type { Inspection, KnownForm, ReadBatch, ReadOptions, Unreadable } from './import-file.ts'

/** The messages between the service and the process that reads a file. */

/** The process answers each request once. */
export type ReadRequest = { readonly path: string } & (
  | { readonly kind: 'inspect'; readonly known: KnownForm }
  /** The options are the same for all batches. */
  | { readonly kind: 'read'; readonly options: ReadOptions }
)

export type ReadAnswer =
  | { readonly kind: 'inspection'; readonly inspection: Inspection }
  | { readonly kind: 'batch'; readonly batch: ReadBatch }
  | { readonly kind: 'end' }
  | { readonly kind: 'unreadable'; readonly why: Unreadable; readonly message: string }
