import { hasTooManyMarks, isCleanText, maxMarksInRow, toNfc } from './text.ts'

/** The file name and media type, from the client. */
export interface FileDescription {
  readonly fileName: string
  readonly contentType: string
}

/** Characters after normalization. */
const maxFileName = 255
/** Code units before normalization: NFC composes up to four into one character. */
const maxRawFileName = 4 * maxFileName
const mediaType = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/

/** The error in a file name; null if it is valid. */
export const validateFileName = (name: string): string | null => {
  const wrongLength = `must have a name of 1 to ${maxFileName} characters`
  if (name.length > maxRawFileName) return wrongLength
  if (!isCleanText(name) || /\p{Cc}/u.test(name)) return 'must have a name without control characters'
  if (hasTooManyMarks(name))
    return `must have a name with at most ${maxMarksInRow} consecutive combining marks`
  const length = Array.from(toNfc(name)).length
  return length === 0 || length > maxFileName ? wrongLength : null
}

/** The stored form of a description. An invalid media type becomes `application/octet-stream`. */
export const describeFile = (name: string, claimedType: string): FileDescription => ({
  fileName: toNfc(name),
  contentType: mediaType.test(claimedType) ? claimedType.toLowerCase() : 'application/octet-stream',
})
