import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { createHmac, type KeyObject } from 'node:crypto'
import { Readable } from 'node:stream'
import type { ContractOperation } from '../contract/contract.ts'
import type { DispatchedRequest } from '../contract/dispatch.ts'
import type { Idempotency } from '../domain/shared/idempotency.ts'
import {
  type AuditedContent,
  type Client,
  maxUserAgentLength,
  type ShownContent,
} from '../domain/activity/audit.ts'
import { parseETagList, parseHttpDate, strongTags, takeVersion, weakTags } from './conditional.ts'
import { withTimeout } from '../concurrency/deadline.ts'
import { meetsPreconditions, type Preconditions, withoutVariant } from '../domain/shared/entity-tags.ts'
import type { JsonText } from '../contract/json-text.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import { networkOf } from '../domain/shared/network.ts'
import { type Principal, roleRefuses, scopeRefuses } from '../domain/shared/permissions.ts'
import { mayHaveWritten, runAs, type Work } from '../concurrency/work.ts'
import type { EventStreamBody } from '../contract/event-stream.ts'
import type { FileBody } from '../contract/files.ts'
import { type OperationContext, quoteETag } from '../contract/operation.ts'
import { type MapError, Problem, problems } from '../problems/problems.ts'
import { hasBody, chunkMediaType } from './body.ts'
import type { AuthenticateFeed, AuthenticateLink } from './authenticate.ts'
import type { CallerShares } from './caller-shares.ts'
import { type Dispatcher, outerRequestOf } from './dispatch.ts'
import { callerOf, type Limit, type TakeBack } from './rate-limit.ts'
import { startStreaming } from './running.ts'
import { maxFormOverhead, readFileForm, readUploadChunk } from './upload.ts'

/**
 * Adapts operations to Fastify. Handles what all operations share: authentication, media types, conditional requests,
 * idempotency and links.
 */

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by authentication; stays null for operations without it. */
    principal: Principal | null
    /** The problem of an invalid link in the URL. Thrown after validation, since 400 takes precedence over 404. */
    linkRefusal: Problem | null
    /** Takes its count against the rate limit back; null before it is counted. */
    takeBack: TakeBack | null
  }
}

/** Calls `respond`, and records a response with private content that the caller sees only as an administrator. */
type AuditRead<Db> = <R>(
  ctx: OperationContext<Principal | null, Db>,
  content: AuditedContent,
  respond: () => Promise<R>,
) => Promise<R>

interface RequestDeps {
  /** Authenticates by the Authorization header; throws a 401 problem on failure. */
  readonly authenticate: (authorization: string | undefined) => Promise<Principal>
  /** Authenticates by the token in the URL of what the path parameter identifies; throws a problem on failure. */
  readonly authenticateByLink: {
    readonly attach_id: AuthenticateLink
    readonly feed_id: AuthenticateFeed
    readonly export_id: AuthenticateLink
  }
  /** Maps the errors of the parts of the service to problems. */
  readonly mapError: MapError
  /** Whether the database refused a statement for now, or did not answer. What the request has written before it may be committed. */
  readonly isTemporary: (error: unknown) => boolean
  readonly limit: Limit
  readonly shares: CallerShares
  /** Keys for the fingerprints of requests with an Idempotency-Key. */
  readonly fingerprintKeys: KeyRing
  /** Prefix of Location and Content-Location; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
  /** Largest file that a form of the operation may have. */
  readonly maxFileBytes: (operationId: string) => number
  /** Sends a handler's requests to other operations. */
  readonly dispatch: Dispatcher
  /** Time limit of a handler in milliseconds. Handlers that receive a file, or have `x-deadline: none`, are exempt. */
  readonly deadline: number
  /** Registers work that must finish before shutdown, even if its connection closes. */
  readonly finish: (work: Promise<unknown>) => void
}

export interface AdapterDeps<Db> extends RequestDeps {
  /** The database that handlers run on. */
  readonly db: Db
  readonly auditRead: AuditRead<Db>
}

/**
 * A handler of any operation. The call is untyped: validation ensures that the input follows the contract, from which the types
 * of the handler are generated.
 */
export type AnyHandler = (ctx: never, input: never) => Promise<PlainResponse>

const tusVersion = '1.0.0'

/** The response of any operation. */
interface PlainResponse {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | number>>
  readonly body?: unknown
  readonly contentType?: string
  readonly replayed?: boolean
  readonly contentLocation?: string
  readonly taskVersion?: number
}

/** Builds the route options of an operation: its hooks and its handler. */
export const adaptOperation = <Db>(
  operation: ContractOperation,
  handle: AnyHandler,
  deps: AdapterDeps<Db>,
) => {
  return {
    bodyLimit: operation.maxBody,

    async onRequest(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      if (operation.takesTusVersion) reply.header('tus-resumable', tusVersion)
      const principal =
        operation.scope === 'none'
          ? null
          : await runAs(anonymousWork(request), () => identify(operation, request, reply, deps))
      request.principal = principal
      request.takeBack = await deps.limit(request, reply, policyOf(operation, principal), principal)
      if (operation.rateLimit !== 'none') deps.shares.admit(request, reply, principal)
      checkScope(operation, principal)
      checkTusVersion(operation, request)
      // An operation without a body ignores Content-Type. Without the header, the catch-all parser still sees any body.
      if (operation.mediaTypes.length === 0) delete request.headers['content-type']
      checkMediaType(operation, request)
      checkContentEncoding(operation, request)
      checkFormLength(operation, request, deps.maxFileBytes)
    },

    async handler(request, reply) {
      const { principal, linkRefusal } = request
      if (linkRefusal !== null) throw linkRefusal
      checkIdempotencyKey(operation, request)
      const conditions = readPreconditions(operation, request)
      if (principal !== null && roleRefuses(operation.permission, principal.role)) throw problems.forbidden()
      const work = workOf(operation, request, reply)
      // A write targets the resource, not one of its representations, so only the version counts.
      const ifMatch = conditions.ifMatch?.map(withoutVariant) ?? null
      const sent = takeVersion(operation, bodyOf(operation, request, deps), ifMatch)
      let signal: AbortSignal | undefined
      const ctx: OperationContext<Principal | null, Db> = {
        db: deps.db,
        principal,
        client: clientOf(request),
        ifMatch: sent.ifMatch,
        ifNoneMatch: conditions.ifNoneMatch?.map(withoutVariant) ?? null,
        idempotency: principal === null ? null : idempotencyOf(operation, principal, request, deps),
        signal: () => (signal ??= signalOf(reply)),
      }
      const input = {
        params: request.params,
        query: request.query,
        body: sent.body,
        get path() {
          return canonicalPath(operation, request)
        },
        headers: conditionsOf(request),
        dispatch: (dispatched: DispatchedRequest) => deps.dispatch(request, dispatched),
      }
      const respond = async () => handle(ctx as never, input as never)
      const { shows } = operation
      const respondAudited = () =>
        shows === null
          ? respond()
          : withConflicts((attempt) => deps.auditRead(ctx, auditedContent(shows, request), attempt), respond)
      const responding = countingFailures(operation, request, runAs(work, respondAudited)).catch(
        (error: unknown) => {
          throw deps.isTemporary(error) && mayHaveChanged(work, request)
            ? problems.outcomeUnknown(error)
            : error
        },
      )
      // On failure, the handler still has to remove a partial file and release a lease.
      if (takesFile(operation)) deps.finish(responding)
      const response = await (operation.hasDeadline && !takesFile(operation)
        ? withTimeout(deps.deadline, responding, () => tooLate(work, request))
        : responding)

      if (operation.takesIfMatch) checkUnchanged(response, conditions, request)
      const notModified = isNotModified(response, conditions, request)
      // Before any header is set: a problem must not carry the headers of the file that failed to open.
      const content = notModified ? null : await openContent(response, request, work)
      const payload = notModified || content !== null ? undefined : payloadOf(response)
      if (payload !== undefined) deps.shares.hold(request, reply, payload)
      setHeaders(operation, response, reply, deps.publicUrl)
      if (isEventStream(response.body)) startStreaming(reply)
      return notModified ? sendNotModified(reply) : send(response, content ?? payload, reply)
    },
  } satisfies { bodyLimit: number; onRequest: unknown; handler: RouteHandlerMethod }
}

/** Conflicts show content as a response does, so `audit` sees such a problem as one. */
const withConflicts = async <R>(
  audit: (attempt: () => Promise<R | Problem>) => Promise<R | Problem>,
  respond: () => Promise<R>,
): Promise<R> => {
  const result = await audit(async () => {
    try {
      return await respond()
    } catch (error) {
      if (error instanceof Problem && error.members.conflicts !== undefined) return error
      throw error
    }
  })
  if (result instanceof Problem) throw result
  return result
}

/** Takes the count of a request back that succeeds, or only lacks the second factor, where failures alone are counted. */
const countingFailures = async <R>(
  { countsFailures }: ContractOperation,
  { takeBack }: FastifyRequest,
  responding: Promise<R>,
): Promise<R> => {
  if (!countsFailures) return responding
  try {
    const response = await responding
    await takeBack?.()
    return response
  } catch (error) {
    if (error instanceof Problem && error.code === 'second_factor_required') await takeBack?.()
    throw error
  }
}

/** The path and the query are validated. */
const auditedContent = (shows: ShownContent, { params, query }: FastifyRequest): AuditedContent => {
  const expand = valueIn(query, 'expand')
  return {
    ...shows,
    id: textIn(params, shows.parameter),
    expand: Array.isArray(expand) ? expand.map(String) : [],
  }
}

/** The work of a request without authentication, or before it. */
const anonymousWork = ({ ip }: FastifyRequest): Work => ({
  caller: `network ${networkOf(ip)}`,
  isAbandoned: () => false,
  sent: [],
})

/** The work of a request's handler. It is abandoned when the deadline passes, or when the client of a read disconnects. */
const workOf = (operation: ContractOperation, request: FastifyRequest, reply: FastifyReply): RequestWork => {
  const { principal } = request
  const { socket } = (outerRequestOf(request) ?? request).raw
  const work: RequestWork = {
    caller: principal === null ? anonymousWork(request).caller : callerOf(request, principal),
    isUser: principal !== null,
    sent: [],
    isLate: false,
    // A write continues after its client disconnects; otherwise a client could guess passwords and hang up before the attempt
    // is counted. A handler that receives a file continues in order to clean up.
    isAbandoned: () =>
      !takesFile(operation) &&
      (work.isLate || (isRead(request) && socket.destroyed && !reply.sent)) &&
      !mayHaveWritten(work),
  }
  return work
}

interface RequestWork extends Work {
  /** Whether the deadline has passed and the client has received an error. */
  isLate: boolean
}

/** A read changes nothing, so its outcome is never unknown. */
const mayHaveChanged = (work: Work, request: FastifyRequest): boolean =>
  !isRead(request) && mayHaveWritten(work)

/** Marks the request as late: it sends no further statements, unless it may have written already. */
const tooLate = (work: RequestWork, request: FastifyRequest): Error => {
  work.isLate = true
  if (mayHaveChanged(work, request)) return problems.outcomeUnknown()
  return problems.serviceUnavailable('The response took too long. Retry in a few seconds.')
}

/** Authenticates the request. A failed attempt counts against the client's network. */
const identify = async (
  { scope }: ContractOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  { authenticate, authenticateByLink, limit }: RequestDeps,
): Promise<Principal | null> => {
  if (scope === 'link') return identifyByLink(request, authenticateByLink)
  try {
    return await authenticate(request.headers.authorization)
  } catch (error) {
    if (error instanceof Problem && error.status === 401) await limit(request, reply, 'anonymous', null)
    throw error
  }
}

/** Null, with `linkRefusal` set, if the link is invalid. */
const identifyByLink = async (
  request: FastifyRequest,
  authenticateByLink: RequestDeps['authenticateByLink'],
): Promise<Principal | null> => {
  const isInPath = (name: string): boolean => valueIn(request.params, name) !== undefined
  const parameter = (['feed_id', 'export_id'] as const).find(isInPath) ?? 'attach_id'
  const id = textIn(request.params, parameter).toLowerCase()
  try {
    return await authenticateByLink[parameter](id, textIn(request.query, 'token'))
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    request.linkRefusal = error
    return null
  }
}

/** Requests with an invalid link count against the client's network. */
const policyOf = (
  { scope, rateLimit }: ContractOperation,
  principal: Principal | null,
): ContractOperation['rateLimit'] => (scope === 'link' && principal === null ? 'anonymous' : rateLimit)

/** A parameter; empty if it is missing, or repeated before validation. */
const textIn = (parameters: unknown, name: string): string => {
  const value = valueIn(parameters, name)
  return typeof value === 'string' ? value : ''
}

const valueIn = (parameters: unknown, name: string): unknown => {
  if (typeof parameters !== 'object' || parameters === null) return undefined
  return Object.entries(parameters).find(([key]) => key === name)?.[1]
}

/** Runs before the body is read, so that a token without the scope learns nothing else about the request. */
const checkScope = ({ scope }: ContractOperation, principal: Principal | null): void => {
  if (principal !== null && scopeRefuses(scope, principal.credential)) throw problems.insufficientScope(scope)
}

/** A request with another version must not be processed (tus 1.0.0, Tus-Resumable). */
const checkTusVersion = ({ takesTusVersion }: ContractOperation, { headers }: FastifyRequest): void => {
  if (takesTusVersion && headers['tus-resumable'] !== tusVersion)
    throw problems.tusVersionUnsupported(tusVersion)
}

const clientOf = ({ ip, headers, id }: FastifyRequest): Client => ({
  address: ip,
  userAgent: headers['user-agent']?.slice(0, maxUserAgentLength) ?? null,
  requestId: id,
})

/** The headers of the request, without Range for HEAD: Range is defined for GET only (RFC 9110 §14.2). */
const conditionsOf = ({ method, headers }: FastifyRequest): FastifyRequest['headers'] => {
  if (method !== 'HEAD') return headers
  const { range: _, ...others } = headers
  return others
}

/** The path with validated parameters, which no longer depends on the case of ids. */
const canonicalPath = ({ path }: ContractOperation, { params }: FastifyRequest): string => {
  const values = new Map(Object.entries(params ?? {}))
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values.get(name))))
}

/** Aborted when the response has been sent or the connection has closed. */
const signalOf = ({ raw }: FastifyReply): AbortSignal => {
  const ended = new AbortController()
  if (raw.closed) ended.abort(problems.clientGone())
  else raw.once('close', () => ended.abort(problems.clientGone()))
  return ended.signal
}

const isForm = ({ mediaTypes }: ContractOperation): boolean => mediaTypes.includes('multipart/form-data')

/** Whether the body is a file, as a form or as raw bytes. Its duration depends on the client, so it has no deadline. */
const takesFile = ({ mediaTypes }: ContractOperation): boolean =>
  mediaTypes.some((type) => !type.endsWith('json'))

const bodyOf = (
  operation: ContractOperation,
  request: FastifyRequest,
  { maxFileBytes, mapError }: RequestDeps,
): unknown => {
  if (isForm(operation)) return readFileForm(request, maxFileBytes(operation.id), mapError)
  return operation.mediaTypes.includes(chunkMediaType) ? readUploadChunk(request) : request.body
}

/** RFC 9110 §8.3: media types are case-insensitive, and parameters follow. JSON must be UTF-8. */
const checkMediaType = (operation: ContractOperation, { headers }: FastifyRequest): void => {
  const { mediaTypes, requiresBody } = operation
  if (mediaTypes.length === 0) return
  if (!requiresBody && headers['content-type'] === undefined && !hasBody(headers)) return
  const [type = '', ...parameters] = (headers['content-type'] ?? '')
    .toLowerCase()
    .split(';')
    .map((part) => part.trim())
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length)
  const isUtf8 = charset === undefined || /^"?utf-?8"?$/.test(charset)
  if (mediaTypes.includes(type) && isUtf8) return
  throw problems.unsupportedMediaType(mediaTypes, acceptPatch(operation))
}

/** Refuses content codings (RFC 9110 §8.4): a compressed body would be stored as if it were the file itself. */
const checkContentEncoding = (operation: ContractOperation, { headers }: FastifyRequest): void => {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (operation.mediaTypes.length === 0 || encoding === '' || encoding === 'identity') return
  throw problems.unsupportedContentEncoding(acceptPatch(operation))
}

/** The Accept-Patch header of a refused patch (RFC 5789 §2.2). */
const acceptPatch = ({ method, mediaTypes }: ContractOperation): Readonly<Record<string, string>> =>
  method === 'PATCH' ? { 'accept-patch': mediaTypes.join(', ') } : {}

/** Refuses a form that is too large before it is read. */
const checkFormLength = (
  operation: ContractOperation,
  { headers }: FastifyRequest,
  maxFileBytes: RequestDeps['maxFileBytes'],
): void => {
  if (!isForm(operation)) return
  const maxBytes = maxFileBytes(operation.id)
  if (Number(headers['content-length'] ?? 0) > maxBytes + maxFormOverhead)
    throw problems.contentTooLarge(maxBytes)
}

const readETags = (name: string, value: string | undefined) => {
  if (value === undefined) return null
  const list = parseETagList(value)
  if (list === null)
    throw problems.invalidField(
      `/${name}`,
      'must be * or a list of entity tags in double quotes, of at most 2,048 characters',
    )
  return list
}

/** The conditions of the request. A header that the operation does not take has no effect. */
const readPreconditions = (
  { takesIfMatch, takesIfNoneMatch }: ContractOperation,
  { headers }: FastifyRequest,
): Preconditions => {
  const ifMatch = takesIfMatch ? readETags('If-Match', headers['if-match']) : null
  const ifNoneMatch = takesIfNoneMatch ? readETags('If-None-Match', headers['if-none-match']) : null
  return { ifMatch: ifMatch && strongTags(ifMatch), ifNoneMatch: ifNoneMatch && weakTags(ifNoneMatch) }
}

/**
 * Checks If-Match and If-Unmodified-Since of a read (RFC 9110 §13.1.1, §13.1.4). The date applies only without If-Match.
 * Writes check their conditions under their locks, by the version alone.
 */
const checkUnchanged = (
  { headers }: PlainResponse,
  { ifMatch }: Preconditions,
  request: FastifyRequest,
): void => {
  if (!isRead(request)) return
  if (ifMatch === null) {
    const time = timeOf(request.headers['if-unmodified-since'])
    if (time !== null && modifiedAt(headers) > time) throw problems.modifiedSince()
  } else if (!meetsPreconditions(tagsOf(headers), { ifMatch, ifNoneMatch: null })) {
    throw problems.preconditionFailed()
  }
}

/** The opaque tags that match a representation: its own, and the version of its resource. */
const tagsOf = (headers: PlainResponse['headers']): readonly string[] => {
  if (typeof headers?.etag !== 'string') return []
  const opaque = headers.etag.slice(1, -1)
  return [opaque, withoutVariant(opaque)]
}

/**
 * RFC 9110 §13.1.2, §13.1.3: only reads return 304. Tags compare weakly. If-Modified-Since applies only without
 * If-None-Match.
 */
const isNotModified = (
  { headers }: PlainResponse,
  { ifNoneMatch }: Preconditions,
  request: FastifyRequest,
): boolean => {
  if (!isRead(request)) return false
  // Only the tag of this representation: the version does not cover all parts of it.
  if (ifNoneMatch !== null)
    return !meetsPreconditions(tagsOf(headers).slice(0, 1), { ifMatch: null, ifNoneMatch })
  const time = timeOf(request.headers['if-modified-since'])
  return time !== null && modifiedAt(headers) <= time
}

const isRead = ({ method }: FastifyRequest): boolean => method === 'GET' || method === 'HEAD'

/** Milliseconds since the epoch; null if the date is missing or invalid. */
const timeOf = (date: string | undefined): number | null => (date === undefined ? null : parseHttpDate(date))

/** Milliseconds since the epoch. NaN without Last-Modified, so that every comparison is false. */
const modifiedAt = (headers: PlainResponse['headers']): number =>
  Date.parse(String(headers?.['last-modified']))

const sendNotModified = (reply: FastifyReply): FastifyReply =>
  reply.code(304).removeHeader('content-length').removeHeader('content-range').send()

/** Refuses a key that the operation would ignore, because the client relies on its effect. */
const checkIdempotencyKey = (
  { method, takesIdempotencyKey }: ContractOperation,
  { headers }: FastifyRequest,
): void => {
  if (method !== 'POST' || takesIdempotencyKey || headers['idempotency-key'] === undefined) return
  throw problems.invalidField(
    '/Idempotency-Key',
    'is not supported by this operation; send the request without it',
  )
}

/**
 * The idempotency key and the fingerprint of the path and the body. A form is unread at this point; its handler supplies
 * the content.
 */
const idempotencyOf = (
  operation: ContractOperation,
  principal: Principal,
  { headers, params, body }: FastifyRequest,
  { fingerprintKeys }: RequestDeps,
): Idempotency | null => {
  const key = headers['idempotency-key']
  if (!operation.takesIdempotencyKey || typeof key !== 'string') return null
  const withContent = (content: unknown): Idempotency => ({
    ...fingerprintRequest(operation, principal, key, { params, content }, fingerprintKeys),
    withContent,
  })
  return withContent(isForm(operation) ? null : body)
}

const fingerprintRequest = (
  operation: ContractOperation,
  principal: Principal,
  key: string,
  input: { readonly params: unknown; readonly content: unknown },
  fingerprintKeys: KeyRing,
): Omit<Idempotency, 'withContent'> => {
  const text = JSON.stringify([operation.id, principal.userId, canonical(input)])
  const fingerprintBy = (secret: KeyObject): string =>
    createHmac('sha256', secret).update(text).digest('base64url')
  return {
    principalId: principal.userId,
    operation: operation.id,
    key,
    fingerprint: fingerprintBy(fingerprintKeys.active),
    isFingerprint: (stored) =>
      fingerprintKeys.verification.some((secret) => fingerprintBy(secret) === stored),
  }
}

/** Sorts the fields of objects, so that their order does not change the fingerprint. */
const canonical = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(canonical)
  if (typeof value !== 'object' || value === null) return value
  return Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, one]) => [name, canonical(one)])
}

const setHeaders = (
  operation: ContractOperation,
  response: PlainResponse,
  reply: FastifyReply,
  publicUrl: string,
): void => {
  reply.headers(operation.constantHeaders[response.status] ?? {})
  const { location, ...headers } = response.headers ?? {}
  reply.headers(headers)
  if (location !== undefined) reply.header('location', `${publicUrl}${location}`)
  if (response.replayed === true) reply.header('idempotency-replayed', 'true')
  if (response.contentLocation !== undefined)
    reply.header('content-location', `${publicUrl}${response.contentLocation}`)
  if (response.taskVersion !== undefined) reply.header('task-etag', quoteETag(response.taskVersion))
}

/**
 * The content of a file or an event stream; null for other bodies. HEAD opens a file too, to return the status and length of
 * GET, but sends no bytes. What opening a file asks of the database is part of the request's work; a stream goes on after it.
 */
const openContent = async (
  { body }: PlainResponse,
  { method }: FastifyRequest,
  work: Work,
): Promise<Readable | null> => {
  if (isEventStream(body)) return method === 'HEAD' ? Readable.from([]) : body.begin()
  if (!isFile(body)) return null
  const content = await runAs(work, () => body.open())
  if (method !== 'HEAD') return content
  content.destroy()
  return Readable.from([])
}

/** Serializes a body that is not a file. */
const payloadOf = ({ body }: PlainResponse): string | Buffer | undefined => {
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) return body
  return isJsonText(body) ? body.json : JSON.stringify(body)
}

const send = (
  { status, body, contentType }: PlainResponse,
  payload: Readable | string | Buffer | undefined,
  reply: FastifyReply,
): FastifyReply => {
  reply.code(status)
  if (payload === undefined) return reply.send()
  return reply.type(contentType ?? defaultType(body)).send(payload)
}

const defaultType = (body: unknown): string => {
  if (isEventStream(body)) return 'text/event-stream'
  if (isFile(body)) return 'application/octet-stream'
  return typeof body === 'string' || Buffer.isBuffer(body) ? 'text/plain' : 'application/json; charset=utf-8'
}

const isFile = (body: unknown): body is FileBody =>
  typeof body === 'object' && body !== null && 'open' in body && typeof body.open === 'function'

const isEventStream = (body: unknown): body is EventStreamBody =>
  typeof body === 'object' && body !== null && 'begin' in body && typeof body.begin === 'function'

const isJsonText = (body: unknown): body is JsonText<unknown> =>
  typeof body === 'object' && body !== null && 'json' in body && typeof body.json === 'string'
