import type { Readable } from 'node:stream'
import type { FileDescription } from '../domain/file-description.ts'

/** What a file turned out to hash to, in lower-case hexadecimal. */
export interface Digested {
  readonly sha256: string
}

/** A form that carries one file, not read yet. */
export interface FileForm {
  /** Bytes that the file has at least, by the length of the request; 0 when that is not told. */
  readonly minSize: number
  /** Bytes that the file has at most, by the length of the request; Infinity when that is not told. */
  readonly maxSize: number
  /**
   * Streams the file into `store` and reads the form to its end. When the form turns out to hold anything else, or
   * something else than its digests say, what was stored is given to `discard`.
   *
   * @throws Problem when the form is not as the contract describes it
   */
  receive<Stored extends Digested>(
    store: (content: Readable) => Promise<Stored>,
    discard: (stored: Stored) => Promise<void>,
  ): Promise<FileDescription & { readonly stored: Stored }>
}

/** A piece of a file, not read yet. */
export interface FilePiece {
  /** False when the request has no body. */
  readonly isThere: boolean
  /** Streams the piece into `store`. */
  receive<T>(store: (content: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T>
}

/** The bytes of a file; opened only if they are really sent. */
export interface FileBody {
  open(): Promise<Readable>
}
