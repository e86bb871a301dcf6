/** How long a request may write to an upload without renewing its lease. */
export const leaseSeconds = 5

/** How long an upload waits for its next piece. */
export const uploadHours = 24

/**
 * Reads Upload-Metadata, whose shape the contract has checked: names with their values, decoded. Null when a name is
 * there twice or a value is not text.
 */
export const parseUploadMetadata = (header: string): ReadonlyMap<string, string> | null => {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const pairs = new Map<string, string>()
  for (const pair of header.split(',')) {
    const [name = '', value = ''] = pair.trim().split(/ +/)
    if (pairs.has(name)) return null
    try {
      pairs.set(name, decoder.decode(Buffer.from(value, 'base64')))
    } catch {
      return null
    }
  }
  return pairs
}

/** The digest that a piece is to have. */
export interface PieceChecksum {
  readonly algorithm: 'sha1' | 'sha256'
  readonly digest: Buffer
}

/** Reads Upload-Checksum, whose shape the contract has checked. Null when it is of an algorithm that is not known here. */
export const parseChecksum = (header: string): PieceChecksum | null => {
  const [algorithm, digest = ''] = header.split(' ')
  if (algorithm !== 'sha1' && algorithm !== 'sha256') return null
  return { algorithm, digest: Buffer.from(digest, 'base64') }
}
