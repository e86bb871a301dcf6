/** Lease of a request on the upload that it writes to. It is renewed while the request writes. */
export const leaseSeconds = 5

/** Hours without a new chunk after which an upload expires. */
export const uploadHours = 24

/** The exclusive right of one request to write to an upload. */
export interface UploadLease {
  readonly id: string
  readonly leaseId: string
}

/**
 * The offset for the client of an upload of which the first `stored` bytes are durable. When all are but there is no attachment yet, it
 * is one byte short, so that the client sends the last byte again and gets the outcome of the upload in the response.
 */
export const resumeOffset = ({
  attachment_id,
  stored,
  upload_length,
}: {
  readonly attachment_id: string | null
  readonly stored: number
  readonly upload_length: number
}): number => (attachment_id === null ? Math.min(stored, Math.max(upload_length - 1, 0)) : stored)

/** The expected digest of a chunk. */
export interface ChunkChecksum {
  readonly algorithm: 'sha1' | 'sha256'
  readonly digest: Buffer
}
