/**
 * Media types that a browser shows without running anything that is in them. HTML, SVG and XML are none, and neither is
 * what one of them can hide in.
 */
const harmless: ReadonlySet<string> = new Set([
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
 * Whether a file may be shown where it was asked for: both what it claims to be and what its first bytes look like are
 * harmless. Plain text looks like nothing, and stays text since nobody is to guess its type.
 */
export const mayBeInline = (claimed: string, detected: string | null): boolean =>
  detected === null ? claimed === 'text/plain' : harmless.has(claimed) && harmless.has(detected)
