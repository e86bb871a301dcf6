/** Supported hash algorithms, by their names in RFC 9530. */
const algorithms = {
  'sha-256': { name: 'sha256', bytes: 32 },
  'sha-512': { name: 'sha512', bytes: 64 },
} as const

/** An expected digest. */
export interface Digest {
  readonly algorithm: (typeof algorithms)[keyof typeof algorithms]['name']
  /** Lower-case hexadecimal. */
  readonly hex: string
}

const isKnown = (name: string): name is keyof typeof algorithms => Object.hasOwn(algorithms, name)

/**
 * Parses a Content-Digest header (RFC 9530 §2): a dictionary of byte sequences (RFC 8941 §3.2, §3.3.5). Unsupported
 * algorithms are ignored, as the RFC requires. Null if the header is malformed or has no supported algorithm.
 */
export function parseContentDigest(header: string): Digest[] | null {
  const digests = new Map<string, Digest>()
  for (const member of header.split(',')) {
    const [, key = '', base64 = ''] =
      /^[\t ]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):[\t ]*$/.exec(member) ?? []
    if (key === '') return null
    if (!isKnown(key)) continue
    const { name, bytes } = algorithms[key]
    const digest = Buffer.from(base64, 'base64')
    if (digest.length !== bytes || digest.toString('base64') !== base64) return null
    digests.set(key, { algorithm: name, hex: digest.toString('hex') })
  }
  return digests.size === 0 ? null : [...digests.values()]
}

/** Parses a SHA-256 in hexadecimal of either case; null if it is malformed. */
export const parseSha256 = (text: string): string | null =>
  /^[0-9a-f]{64}$/i.test(text) ? text.toLowerCase() : null
