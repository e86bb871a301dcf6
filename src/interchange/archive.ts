import type { Readable } from 'node:stream'
import type { RecordTypes } from './records.ts'

/** What an export is made of. Each function is called at least once, one after another; tasks have their parents before them. */
export type ExportSource = {
  readonly [Type in keyof RecordTypes]: () => AsyncIterable<RecordTypes[Type]>
} & {
  /** The content of a file; called once for each digest. */
  readonly file: (sha256: string) => Promise<Readable>
}

export interface ExportFacts {
  readonly createdAt: string
  /** Name and version of the service. */
  readonly generator: string
  readonly timeZone: string
}
