/** Lease of a request on the upload that it writes to. It is renewed while the request writes. */
export const leaseSeconds = 5

/** Hours without a new chunk after which an upload expires. */
export const uploadHours = 24

/** The exclusive right of one request to write to an upload. */
export interface UploadLease {
  readonly id: string
  readonly leaseId: string
}

/** What an upload has become: an attachment or an import. */
export interface UploadOutcome {
  readonly attachment_id: string | null
  /** The version of the task with the attachment. */
  readonly task_version: number | null
  readonly import_id: string | null
}

/** The outcome of an upload that is not complete. */
export const noOutcome: UploadOutcome = { attachment_id: null, task_version: null, import_id: null }

/** Whether an upload is complete. */
export const hasOutcome = ({ attachment_id, import_id }: UploadOutcome): boolean =>
  attachment_id !== null || import_id !== null

/**
 * The offset for the client of an upload of which the first `stored` bytes are durable. When all are but it has no outcome yet, it is
 * one byte short, so that the client sends the last byte again and gets the outcome of the upload in the response.
 */
export const resumeOffset = (
  upload: UploadOutcome & { readonly stored: number; readonly upload_length: number },
): number => {
  const { stored, upload_length } = upload
  return hasOutcome(upload) ? stored : Math.min(stored, Math.max(upload_length - 1, 0))
}

/** The expected digest of a chunk. */
export interface ChunkChecksum {
  readonly algorithm: 'sha1' | 'sha256'
  readonly digest: Buffer
}
