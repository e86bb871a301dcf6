/** How long a request may write to an upload before it renews its lease. */
export const leaseSeconds = 5

/** How long an upload waits for its next chunk. */
export const uploadHours = 24

/** The expected digest of a chunk. */
export interface ChunkChecksum {
  readonly algorithm: 'sha1' | 'sha256'
  readonly digest: Buffer
}
