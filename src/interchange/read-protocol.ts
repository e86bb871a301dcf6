import type { Inspection, ReadBatch, ReadOptions, Unreadable } from './import-file.ts'

/** The messages between the service and the process that reads a file. */

export interface ReadWork {
  readonly path: string
  /** Null to find out what the file is. */
  readonly options: ReadOptions | null
}

/** The process answers each request once. All have the same work. */
export interface ReadRequest {
  readonly work: ReadWork
}

export type ReadAnswer =
  | { readonly kind: 'inspection'; readonly inspection: Inspection }
  | { readonly kind: 'batch'; readonly batch: ReadBatch }
  | { readonly kind: 'end' }
  | { readonly kind: 'unreadable'; readonly why: Unreadable; readonly message: string }
