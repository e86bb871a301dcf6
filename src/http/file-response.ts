import { create as createDisposition } from 'content-disposition'
import type { FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import type { components } from '../../generated/openapi.ts'
import { quoteETag } from '../contract/operation.ts'
import { problems } from '../problems/problems.ts'
import { mayBeInline } from './inline-types.ts'
import { selectRange } from './ranges.ts'

type Disposition = components['schemas']['Disposition']

/** What a response says of a file. */
interface DownloadedFile {
  readonly file_name: string
  readonly content_type: string
  /** Null if it is unknown. */
  readonly detected_content_type: string | null
  readonly size: number
  readonly sha256: string
  readonly created_at: string
}

/** A file to send. `open` opens all of it, or a range by the offsets of its first and last bytes. */
interface Download {
  readonly file: DownloadedFile
  readonly open: (range?: { start: number; end: number }) => Promise<Readable>
}

/** The whole file, or the requested range. */
export const fileResponse = (
  { file, open }: Download,
  disposition: Disposition | undefined,
  headers: FastifyRequest['headers'],
) => {
  const common = fileHeaders(file, disposition)
  const range = selectRange(isCurrent(headers['if-range'], common) ? headers.range : undefined, file.size)
  const contentType = file.content_type
  switch (range.kind) {
    // Refused only when the file is opened, since If-None-Match is evaluated before Range (RFC 9110 §13.2.2).
    case 'unsatisfiable': {
      const body = { open: () => Promise.reject(problems.rangeNotSatisfiable(file.size)) }
      return { status: 200 as const, headers: { ...common, 'content-length': file.size }, contentType, body }
    }
    case 'whole': {
      const body = { open: () => open() }
      return { status: 200 as const, headers: { ...common, 'content-length': file.size }, contentType, body }
    }
    case 'part': {
      const { start, end } = range
      const body = { open: () => open({ start, end }) }
      const part = {
        'content-length': end - start + 1,
        'content-range': `bytes ${start}-${end}/${file.size}`,
      }
      return { status: 206 as const, headers: { ...common, ...part }, contentType, body }
    }
  }
}

/** Evaluates If-Range (RFC 9110 §13.1.5). A file never changes, so its date is a strong validator, like its ETag (§8.8.2.2). */
const isCurrent = (ifRange: unknown, validators: ReturnType<typeof fileHeaders>): boolean =>
  ifRange === undefined || ifRange === validators.etag || ifRange === validators['last-modified']

/** The policy of downloads: browsers must not execute content that another user uploaded. */
const savePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

/**
 * The policy of files that browsers display. The built-in player for audio and video is a page that loads the file with CORS,
 * so the sandbox must keep the origin. Scripts stay forbidden.
 */
const displayPolicy =
  "sandbox allow-same-origin; default-src 'none'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"

/** The name, the validators and the security policy of a file, as headers. */
const fileHeaders = (file: DownloadedFile, requested: Disposition = 'attachment') => {
  const disposition = allowedDisposition(file, requested)
  return {
    etag: quoteETag(file.sha256),
    'last-modified': new Date(file.created_at).toUTCString(),
    'content-disposition': createDisposition(file.file_name, { type: disposition }),
    'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
    'content-security-policy': disposition === 'inline' ? displayPolicy : savePolicy,
  }
}

/** Files that browsers might execute are never displayed. */
export const allowedDisposition = (file: DownloadedFile, disposition: Disposition): Disposition =>
  mayBeInline(file.content_type, file.detected_content_type) ? disposition : 'attachment'
