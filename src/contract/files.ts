import type { Readable } from 'node:stream'
import type { FileDescription } from '../domain/files/file-description.ts'

/** The SHA-256 of a stored file, in lower-case hexadecimal. */
export interface Digested {
  readonly sha256: string
}

/** A multipart form with one file, not read yet. */
export interface FileForm {
  /** Lower bound of the file size in bytes, from Content-Length; 0 without it. */
  readonly minSize: number
  /** Upper bound of the file size in bytes, from Content-Length; Infinity without it. */
  readonly maxSize: number
  /**
   * Streams the file into `store` and reads the form to its end. If the form has other parts, or the content does not match
   * its digests, the stored file is passed to `discard`.
   *
   * @throws Problem if the form violates the contract
   */
  receive<Stored extends Digested>(
    store: (content: Readable) => Promise<Stored>,
    discard: (stored: Stored) => Promise<void>,
  ): Promise<FileDescription & { readonly stored: Stored }>
}

/** A chunk of an upload, not read yet. */
export interface UploadChunk {
  /** False when the request has no body. */
  readonly hasContent: boolean
  receive<T>(store: (content: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T>
}

/** The bytes of a file, opened only when they are sent. */
export interface FileBody {
  open(): Promise<Readable>
}
