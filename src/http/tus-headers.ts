import type { ChunkChecksum } from '../domain/files/uploads.ts'

/**
 * Parses Upload-Metadata to its keys and decoded values. Null if a key appears twice or a value is not UTF-8. The contract has
 * validated the syntax.
 */
export const parseUploadMetadata = (header: string): ReadonlyMap<string, string> | null => {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const pairs = new Map<string, string>()
  for (const pair of header.split(',')) {
    const [key = '', value = ''] = pair.trim().split(/ +/)
    if (pairs.has(key)) return null
    try {
      pairs.set(key, decoder.decode(Buffer.from(value, 'base64')))
    } catch {
      return null
    }
  }
  return pairs
}

/** Parses Upload-Checksum; null if the algorithm is not supported. The contract has validated the syntax. */
export const parseUploadChecksum = (header: string): ChunkChecksum | null => {
  const [algorithm, digest = ''] = header.split(' ')
  if (algorithm !== 'sha1' && algorithm !== 'sha256') return null
  return { algorithm, digest: Buffer.from(digest, 'base64') }
}
