import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { note } from './drafts.ts'
import { UnreadableFile } from './import-file.ts'
import { bytesOf } from './lines.ts'
import type { ReportLine } from './records.ts'
import { decode } from './text-encoding.ts'
import type { Archive } from './zip.ts'

/** Bytes of a document that is parsed as a whole, which takes several times as much memory. */
const maxDocument = 128 * 1024 ** 2

export interface Document {
  readonly value: unknown
  readonly notes: readonly ReportLine[]
}

/** The JSON of a file, or of an entry of an archive. @throws UnreadableFile */
export const readDocument = async (file: string | { archive: Archive; name: string }): Promise<Document> => {
  const isEntry = typeof file !== 'string'
  const stream: Readable = isEntry ? await file.archive.open(file.name) : createReadStream(file)
  const { text, isValid } = await textOf(stream)
  const name = isEntry ? file.name : null
  try {
    return {
      value: JSON.parse(text),
      notes: isValid ? [] : [note('encoding', 'Some bytes are not UTF-8. They became \ufffd.', name)],
    }
  } catch (cause) {
    throw new UnreadableFile('damaged', 'The file is not JSON, or is cut off.', { cause })
  }
}

/** Its bytes are free again before the text is parsed. */
const textOf = async (stream: Readable): Promise<ReturnType<typeof decode>> => {
  const bytes = await bytesOf(stream, maxDocument)
  if (bytes === null) throw new UnreadableFile('too_large', `The JSON is larger than ${maxDocument} bytes.`)
  return decode(bytes)
}
