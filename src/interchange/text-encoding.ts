import { guessCodePage } from './code-pages.ts'
import type { TextEncoding } from './import-file.ts'

/** In which encoding a text is. */

/** Bytes that a code page is guessed by. */
const maxSample = 64 * 1024

const replacement = '\ufffd'

/** UTF-16 by its mark, or by the zeros of the first two characters, if these are ASCII; null for what is not UTF-16. */
const utf16Of = (head: Buffer): 'utf-16le' | 'utf-16be' | null => {
  const [first, second, third, fourth] = head
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  if (isAscii(first) && second === 0 && isAscii(third) && fourth === 0) return 'utf-16le'
  return first === 0 && isAscii(second) && third === 0 && isAscii(fourth) ? 'utf-16be' : null
}

const isAscii = (byte = 0): boolean => (byte >= 0x20 && byte < 0x7f) || (byte >= 0x09 && byte <= 0x0d)

/** The text of bytes in UTF-8 or UTF-16, with U+FFFD for those that are not, and whether all are. */
export const decode = (bytes: Buffer): { readonly text: string; readonly isValid: boolean } => {
  const utf16 = utf16Of(bytes)
  if (utf16 !== null) return { text: new TextDecoder(utf16).decode(bytes), isValid: true }
  try {
    return { text: strict.decode(bytes), isValid: true }
  } catch {
    return { text: lossy.decode(bytes), isValid: false }
  }
}

const strict = new TextDecoder('utf-8', { fatal: true })
const lossy = new TextDecoder('utf-8')

export async function* decoded(
  chunks: AsyncIterable<Buffer>,
  encoding: TextEncoding,
): AsyncGenerator<string, void> {
  const decoder = new TextDecoder(encoding)
  for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true })
  yield decoder.decode()
}

/** UTF-16, UTF-8 if it makes sense of most of the bytes beyond ASCII, or a guess at the code page. */
export const guessEncoding = async (chunks: AsyncIterable<Buffer>): Promise<TextEncoding> => {
  const decoder = new TextDecoder('utf-8')
  let isFirst = true
  let broken = 0
  let other = 0
  let sample = Buffer.alloc(0)
  for await (const chunk of chunks) {
    const utf16 = isFirst ? utf16Of(chunk) : null
    if (utf16 !== null) return utf16
    for (const [character] of decoder.decode(chunk, { stream: true }).matchAll(/[^\0-\x7f]/g))
      if (character === replacement) broken += 1
      else other += 1
    if (sample.length < maxSample && broken > 0)
      sample = Buffer.concat([sample, isFirst ? chunk : chunk.subarray(chunk.indexOf('\n') + 1)])
    isFirst = false
  }
  return broken > other ? guessCodePage(sample) : 'utf-8'
}
