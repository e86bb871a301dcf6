/** Media types that browsers display without executing content. HTML, SVG and XML can hold scripts. */
const passiveTypes: ReadonlySet<string> = new Set([
  'image/png',
  'image/apng',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'video/mp4',
  'video/webm',
  'audio/webm',
  'audio/mpeg',
  'audio/ogg',
  'audio/wav',
  'audio/x-wav',
  'application/pdf',
])

/**
 * Whether browsers may display a file: both its claimed and its detected type are passive. Plain text has no detected type,
 * and `nosniff` keeps browsers from guessing another.
 */
export const mayBeInline = (claimed: string, detected: string | null): boolean =>
  detected === null ? claimed === 'text/plain' : passiveTypes.has(claimed) && passiveTypes.has(detected)
