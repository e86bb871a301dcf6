import { isCleanText } from './text.ts'

/** How a client describes the file that it sends. */
export interface FileDescription {
  readonly fileName: string
  readonly contentType: string
}

const longestFileName = 255
const mediaType = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/

/** What is wrong with the name of a file; null when nothing is. */
export const faultOfFileName = (name: string): string | null => {
  if (!isCleanText(name) || /\p{Cc}/u.test(name)) return 'must have a name without control characters'
  const length = Array.from(name.normalize('NFC')).length
  return length === 0 || length > longestFileName
    ? `must have a name of 1 to ${longestFileName} characters`
    : null
}

/** A file as it is kept: a claim that is no media type says nothing. */
export const describeFile = (name: string, claimedType: string): FileDescription => ({
  fileName: name.normalize('NFC'),
  contentType: mediaType.test(claimedType) ? claimedType.toLowerCase() : 'application/octet-stream',
})
