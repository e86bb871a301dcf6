import { Dicer } from '@fastify/busboy'
import { decodeExtended, parse as parseDisposition } from 'content-disposition'
import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import { decodeWords } from 'postal-mime'
import { baseName } from '../domain/files/file-description.ts'

/** What the header of a part declares about its file. */
export interface FilePart {
  /** Without its path; null if there is no name, or not in UTF-8. */
  readonly name: string | null
  readonly isTypeDeclared: boolean
}

/**
 * Reads the header of the part named `file` while the form is parsed, because @fastify/multipart reports a missing media type as
 * text/plain, and only one of two names. Call it before the parser reads from the request: the part is then known when the
 * parser reports it. Returns a function with the part, or null.
 */
export const watchFilePart = (request: IncomingMessage): (() => FilePart | null) => {
  let found: FilePart | null = null
  const boundary = boundaryOf(request.headers['content-type'])
  if (boundary === null) return () => null
  const parser = new Dicer({ boundary })
  const write = (chunk: Buffer): void => void parser.write(chunk)
  parser.on('part', (part) => {
    part.on('header', (header) => {
      found ??= readFilePart(header as PartHeader)
      // The content of the file is not parsed twice.
      if (found !== null) request.off('data', write)
    })
    part.on('error', () => undefined)
    part.resume()
  })
  // The other parser reports malformed forms.
  parser.on('error', () => undefined)
  request.on('data', write)
  return () => found
}

const boundaryOf = (contentType = ''): string | null => {
  try {
    return new MIMEType(contentType).params.get('boundary')
  } catch {
    return null
  }
}

/** Fields by lower-case name. Each character of a value is a byte. */
type PartHeader = Readonly<Record<string, readonly string[] | undefined>>

const readFilePart = (header: PartHeader): FilePart | null => {
  const [disposition = ''] = header['content-disposition'] ?? []
  const [type = ''] = header['content-type'] ?? []
  const { type: kind, parameters } = parseDisposition(asMultipart(fromUtf8(disposition)), {
    multipart: true,
    extended: false,
  })
  if (kind !== 'form-data' || parameters.name !== 'file') return null
  const name = nameOf(parameters)
  return { name: name === null ? null : baseName(name), isTypeDeclared: type.trim() !== '' }
}

/** Replaces invalid UTF-8 by U+FFFD. */
const fromUtf8 = (bytes: string): string => Buffer.from(bytes, 'latin1').toString()

/**
 * Turns the escapes of a quoted-string (RFC 9110 §5.6.4), which Go, Java and older versions of curl send, into those that browsers
 * send. Any other backslash is part of a path or a name.
 */
const asMultipart = (disposition: string): string =>
  disposition.replaceAll(/\\(["\\])(?!$)/g, (_, escaped: string) => (escaped === '"' ? '%22' : '\\'))

/** Text of encoded words only (RFC 2047 §2), as .NET and Spring send it. */
const encodedWords = /^=\?[^?\s]+\?[BQ]\?[^?]*\?=(?:\s+=\?[^?\s]+\?[BQ]\?[^?]*\?=)*$/i

/**
 * RFC 7578 §4.2 forbids `filename*` in forms, but clients send it, next to a name in ASCII for servers that do not know it. As in
 * downloads (RFC 6266 §4.3), it comes first.
 */
const nameOf = ({ filename, 'filename*': extended }: Readonly<Record<string, string>>): string | null => {
  const decoded = extended === undefined ? undefined : decodeExtended(extended)
  const name = decoded || (filename && encodedWords.test(filename) ? decodeWords(filename) : filename)
  return name === undefined || name.includes('\ufffd') ? null : name
}
