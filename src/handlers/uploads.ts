import type { Input } from '../contract/operation.ts'
import { baseName, describeFile, validateFileName } from '../domain/files/file-description.ts'
import type { Principal } from '../domain/shared/permissions.ts'
import type { ChunkChecksum } from '../domain/files/uploads.ts'
import { parseSha256 } from '../http/digests.ts'
import { parseUploadChecksum, parseUploadMetadata } from '../http/tus-headers.ts'
import { problems } from '../problems/problems.ts'
import type { OpContext } from '../services/shared/context.ts'
import type { UploadProgress, Uploads } from '../services/files/uploads.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly uploads: Uploads
  readonly attachmentMaxBytes: number
  readonly importMaxBytes: number
}

/** The operations of the contract's tag `uploads`: the tus protocol, version 1.0.0. */
export const uploadHandlers = ({ uploads, attachmentMaxBytes, importMaxBytes }: Deps) => {
  /** Starts an upload to a task, or of a file to import. */
  const create = (
    ctx: OpContext<Principal>,
    { taskId, maxBytes }: { readonly taskId: string | null; readonly maxBytes: number },
    { body, headers }: Pick<Input<'createUpload'>, 'body' | 'headers'>,
  ) =>
    body.receive(async (content) => {
      // The concatenation extension of tus is not supported: each part would become a file of its own.
      if (headers['upload-concat'] !== undefined)
        throw problems.invalidField('/Upload-Concat', 'is not supported; send the file in one upload')
      const size = Number(headers['upload-length'])
      if (size > maxBytes) throw problems.contentTooLarge(maxBytes)
      const checksum = readChecksum(headers)
      const { id, ...progress } = await uploads.createUpload(ctx, {
        file: { taskId, size, ...readMetadata(headers) },
        chunk: body.hasContent || size === 0 ? { content, checksum } : null,
      })
      const response = describeProgress(progress)
      return {
        ...response,
        status: 201 as const,
        headers: { location: `/uploads/${id}`, ...response.headers },
      }
    })

  return {
    async getUploadOptions() {
      return { status: 204, headers: { 'tus-max-size': attachmentMaxBytes } }
    },

    async createUpload(ctx, { params, ...request }) {
      return create(ctx, { taskId: params.task_id, maxBytes: attachmentMaxBytes }, request)
    },

    async getImportUploadOptions() {
      return { status: 204, headers: { 'tus-max-size': importMaxBytes } }
    },

    async createImportUpload(ctx, request) {
      return create(ctx, { taskId: null, maxBytes: importMaxBytes }, request)
    },

    async getUploadOffset(ctx, { params }) {
      const upload = await uploads.getProgress(ctx, params.upload_id)
      const { upload_length, upload_metadata } = upload
      const response = describeProgress(upload)
      return {
        ...response,
        status: 200,
        headers: { ...response.headers, 'upload-length': upload_length, 'upload-metadata': upload_metadata },
      }
    },

    async appendUpload(ctx, { params, body, headers }) {
      return body.receive(async (content) => {
        const offset = Number(headers['upload-offset'])
        const chunk = { id: params.upload_id, offset, content, checksum: readChecksum(headers) }
        return { status: 204, ...describeProgress(await uploads.appendChunk(ctx, chunk)) }
      })
    },

    async abortUpload(ctx, { params }) {
      await uploads.abortUpload(ctx, params.upload_id)
      return { status: 204 }
    },
  } satisfies Partial<Handlers>
}

type RequestHeaders = Input<'createUpload'>['headers']

const readChecksum = ({ 'upload-checksum': header }: RequestHeaders): ChunkChecksum | null => {
  if (header === undefined) return null
  const checksum = parseUploadChecksum(String(header))
  if (checksum === null) throw problems.invalidField('/Upload-Checksum', 'must use sha1 or sha256')
  return checksum
}

const readMetadata = ({ 'upload-metadata': header }: RequestHeaders) => {
  const invalid = (detail: string) => problems.invalidField('/Upload-Metadata', detail)
  const metadata = parseUploadMetadata(String(header))
  if (metadata === null) throw invalid('must have unique keys and UTF-8 values')
  const path = metadata.get('filename')
  if (path === undefined) throw invalid('must contain the key filename')
  const name = baseName(path)
  const fault = validateFileName(name)
  if (fault !== null) throw invalid(fault)
  const digest = metadata.get('sha256')
  const sha256 = digest === undefined ? null : parseSha256(digest)
  if (digest !== undefined && sha256 === null) throw invalid('must have a sha256 of 64 hexadecimal digits')
  return { ...describeFile(name, metadata.get('filetype') || null), sha256, metadata: String(header) }
}

const describeProgress = ({
  upload_offset,
  expires_at,
  attachment_id,
  task_version,
  import_id,
}: UploadProgress) => ({
  headers: {
    'upload-offset': upload_offset,
    'upload-expires': new Date(expires_at).toUTCString(),
  },
  ...(attachment_id !== null && { contentLocation: `/attachments/${attachment_id}` }),
  ...(task_version !== null && { taskVersion: task_version }),
  ...(import_id !== null && { contentLocation: `/imports/${import_id}` }),
})
