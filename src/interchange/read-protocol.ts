import type { Inspection, ReadBatch, ReadOptions, Unreadable } from './import-file.ts'

/** The messages between the service and the process that reads a file. */

/** The process answers each request once. */
export interface ReadRequest {
  readonly path: string
  /** The same for all batches, or null to find out what the file is. */
  readonly options: ReadOptions | null
}

export type ReadAnswer =
  | { readonly kind: 'inspection'; readonly inspection: Inspection }
  | { readonly kind: 'batch'; readonly batch: ReadBatch }
  | { readonly kind: 'end' }
  | { readonly kind: 'unreadable'; readonly why: Unreadable; readonly message: string }
