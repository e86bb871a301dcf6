import { hasTooManyMarks, isCleanText, maxMarksInRow, toNfc } from '../shared/text.ts'

/** The file name and media type, from the client. */
export interface FileDescription {
  readonly fileName: string
  /** Null if the client declares none. */
  readonly contentType: string | null
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
export const describeFile = (name: string, declaredType: string | null): FileDescription => ({
  fileName: toNfc(name),
  contentType: declaredType === null ? null : canonicalType(declaredType),
})

const canonicalType = (declared: string): string =>
  mediaType.test(declared) ? declared.toLowerCase() : 'application/octet-stream'

/** A file name without the path that some clients send. Empty for `.` and `..`. */
export const baseName = (path: string): string => {
  const name = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1)
  return name === '.' || name === '..' ? '' : name
}
