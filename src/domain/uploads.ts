/** Lease of a request on the upload that it writes to. It is renewed while the request writes. */
export const leaseSeconds = 5

/** Hours without a new chunk after which an upload expires. */
export const uploadHours = 24

/** The expected digest of a chunk. */
export interface ChunkChecksum {
  readonly algorithm: 'sha1' | 'sha256'
  readonly digest: Buffer
}
