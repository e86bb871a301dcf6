/** The hash algorithms that a digest can be checked with, by their names in RFC 9530. */
const algorithms = {
  'sha-256': { name: 'sha256', bytes: 32 },
  'sha-512': { name: 'sha512', bytes: 64 },
} as const

/** What content must hash to. */
export interface Digest {
  readonly algorithm: (typeof algorithms)[keyof typeof algorithms]['name']
  /** Lower-case hexadecimal. */
  readonly hex: string
}

const isKnown = (name: string): name is keyof typeof algorithms => Object.hasOwn(algorithms, name)

/**
 * Reads a Content-Digest header (RFC 9530 §2): a dictionary of byte sequences (RFC 8941 §3.2, §3.3.5). Digests by other
 * algorithms are passed over, as the RFC wants it. Null when the header is malformed, or has none that can be checked.
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

/** Reads a SHA-256 in hexadecimal, in either case; null when it is none. */
export const parseSha256 = (text: string): string | null =>
  /^[0-9a-f]{64}$/i.test(text) ? text.toLowerCase() : null
