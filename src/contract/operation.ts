import type { FastifyRequest } from 'fastify'
import type { operations } from '../../generated/openapi.ts'
import type { OperationId } from './contract.ts'
import type { Dispatch } from './dispatch.ts'
import type { Client } from '../domain/activity/audit.ts'
import { type Preconditions, variantTag } from '../domain/shared/entity-tags.ts'
import type { Created, Idempotency } from '../domain/shared/idempotency.ts'
import type {
  BearerPrincipal,
  FeedPrincipal,
  LinkPrincipal,
  Principal,
  SessionPrincipal,
} from '../domain/shared/permissions.ts'
import { type JsonText, jsonText, parse } from './json-text.ts'
import type { EventStreamBody } from './event-stream.ts'
import type { FileBody, FileForm, UploadChunk } from './files.ts'

/**
 * The types of handlers. A handler maps typed input to a typed response, both derived from the contract. `http/adapter.ts`
 * adapts it to Fastify.
 */

/** Operations with `x-scope: none`. They require no token and have no principal. */
export const openOperations = [
  'register',
  'login',
  'completeLogin',
  'refreshToken',
  'forgotPassword',
  'resetPassword',
  'undoEmailChange',
  'listOidcProviders',
  'authorizeOidc',
  'exchangeOidcCode',
  'lookUpInvitation',
  'getUploadOptions',
  'getImportUploadOptions',
  'getLiveness',
  'getReadiness',
  'getContract',
  'getContractJson',
] as const satisfies readonly OperationId[]

/** Operations with `x-scope: session`. They do not accept API tokens. */
export const sessionOperations = [
  'logout',
  'reauthenticate',
  'listSessions',
  'revokeSession',
  'changePassword',
  'setUserPassword',
  'listApiTokens',
  'createApiToken',
  'revokeApiToken',
  'listUserApiTokens',
  'revokeUserApiToken',
  'getSecondFactor',
  'enrollSecondFactor',
  'confirmSecondFactor',
  'disableSecondFactor',
  'logoutOidc',
  'listIdentities',
  'linkIdentity',
  'unlinkIdentity',
  'acceptInvitation',
  'listAuditEvents',
] as const satisfies readonly OperationId[]

/** Operations with `x-scope: link`. The token of a link, in the query, authenticates them. */
export const linkOperations = [
  'downloadLinkedAttachment',
  'downloadLinkedExport',
  'getFeedCalendar',
] as const satisfies readonly OperationId[]

/** Those of them whose token is that of a calendar feed. */
type FeedOperation = 'getFeedCalendar'

type PrincipalOf<Id extends OperationId> = Id extends (typeof openOperations)[number]
  ? null
  : Id extends (typeof sessionOperations)[number]
    ? SessionPrincipal
    : Id extends (typeof linkOperations)[number]
      ? Id extends FeedOperation
        ? FeedPrincipal
        : LinkPrincipal
      : BearerPrincipal

type SuccessStatus = 200 | 201 | 202 | 204 | 206

/** The statuses that a handler returns: success, and errors in `application/json`, such as those of JSON-RPC. Problems are thrown. */
type ResponseStatus<Responses> = {
  [Status in keyof Responses]: Status extends SuccessStatus
    ? Status
    : Responses[Status] extends { content: { 'application/json': unknown } }
      ? Status
      : never
}[keyof Responses]

type Member<T, K extends PropertyKey> = K extends keyof T ? NonNullable<T[K]> : unknown
type PathOf<Op> = Member<Member<Op, 'parameters'>, 'path'>
type QueryOf<Op> = Member<Member<Op, 'parameters'>, 'query'>

/** A missing optional JSON body is an empty object. */
type RequestBodyOf<Op> =
  Member<Op, 'requestBody'> extends { content: infer Content }
    ? 'multipart/form-data' extends keyof Content
      ? FileForm
      : 'application/offset+octet-stream' extends keyof Content
        ? UploadChunk
        : Content[keyof Content]
    : undefined

type ResponseBodyOf<Response> = Response extends { content: infer Content }
  ? 'application/octet-stream' extends keyof Content
    ? FileBody
    : 'image/webp' extends keyof Content
      ? FileBody
      : 'text/event-stream' extends keyof Content
        ? EventStreamBody
        : 'application/json' extends keyof Content
          ? Content['application/json'] | JsonText<Content['application/json']>
          : Content[keyof Content]
  : undefined

/** Headers that the adapter sets, from the contract or from the request. */
type AdapterHeader =
  | 'API-Version'
  | 'Cache-Control'
  | 'Cross-Origin-Resource-Policy'
  | 'Accept-Ranges'
  | 'Idempotency-Replayed'
  | 'Content-Location'
  | 'Task-ETag'
  | 'Tus-Resumable'
  | 'Tus-Version'
  | 'Tus-Extension'
  | 'Tus-Checksum-Algorithm'
  | 'X-Accel-Buffering'
  | 'X-Request-Id'

type HeadersOf<Response> = Response extends { headers: infer Headers }
  ? {
      readonly [
        Name in keyof Headers as string extends Name
          ? never
          : Name extends AdapterHeader
            ? never
            : Lowercase<Name & string>
      ]: Headers[Name]
    }
  : unknown

type HeadersPart<Response> = keyof HeadersOf<Response> extends never
  ? { readonly headers?: undefined }
  : { readonly headers: HeadersOf<Response> }

type BodyPart<Response> =
  ResponseBodyOf<Response> extends undefined
    ? { readonly body?: undefined }
    : { readonly body: ResponseBodyOf<Response> }

interface ResponseOptions {
  /** The media type, if the contract does not fix it. */
  readonly contentType?: string
  /** Whether this is the stored response to an earlier request with the same Idempotency-Key. */
  readonly replayed?: boolean
  /** The path of the resource in the body, if it differs from the path of the request. */
  readonly contentLocation?: string
  /** The version of the task that the request has changed, if `ETag` belongs to another resource. */
  readonly taskVersion?: number
}

/** A response as documented in the contract: status, required headers and body. */
export type OperationResponse<Op> = Op extends { responses: infer Responses }
  ? {
      [Status in ResponseStatus<Responses>]: { readonly status: Status } & HeadersPart<Responses[Status]> &
        BodyPart<Responses[Status]> &
        ResponseOptions
    }[ResponseStatus<Responses>]
  : never

/**
 * The context of an operation: the database that it runs on, and what all requests say besides their input. The principal of an open
 * operation is null.
 */
export interface OperationContext<P extends Principal | null, Db> extends Preconditions {
  readonly db: Db
  readonly principal: P
  readonly client: Client
  /** Null without an Idempotency-Key. */
  readonly idempotency: Idempotency | null
  /**
   * The signal that is aborted when the request ends: the response was sent, or the client disconnected. A function, because few
   * handlers need it: copies of the context do not create it.
   */
  readonly signal: () => AbortSignal
}

/** The validated request. */
export interface Input<Id extends OperationId> {
  readonly params: PathOf<operations[Id]>
  readonly query: QueryOf<operations[Id]>
  /** Without read-only fields and `version`. */
  readonly body: RequestBodyOf<operations[Id]>
  /** The path with ids in lower case, without the prefix of PUBLIC_URL and without the query. */
  readonly path: string
  /** All request headers, for those that only this operation reads. */
  readonly headers: FastifyRequest['headers']
  readonly dispatch: Dispatch
}

/** The handlers of all operations, which run on a database of this type. */
export type HandlersWith<Db> = {
  readonly [Id in OperationId]: (
    ctx: OperationContext<PrincipalOf<Id>, Db>,
    input: Input<Id>,
  ) => Promise<OperationResponse<operations[Id]>>
}

/** The body and the ETag of a response with a resource, whose representation has all that its ETag depends on. */
const represented = <T>(json: string, etagOf: (resource: T) => string) => {
  const body = jsonText<T>(json)
  return { etag: etagOf(parse(body)), body }
}

/** The response to a creation: 201 with Location, ETag and the resource. */
export const created = <T>(
  path: string,
  { json, replayed }: Pick<Created, 'json' | 'replayed'>,
  etagOf: (resource: T) => string,
) => {
  const { etag, body } = represented(json, etagOf)
  return { status: 201 as const, headers: { location: path, etag }, body, replayed }
}

/** The response with a resource: 200 with the ETag that its representation says. */
export const shown = <T>(json: string, etagOf: (resource: T) => string) => {
  const { etag, body } = represented(json, etagOf)
  return { status: 200 as const, headers: { etag }, body }
}

/** A resource as JSON text, and its version. */
export interface Versioned {
  readonly json: string
  readonly version: number
}

/** The response with a resource: 200 with ETag, which is the version unless the representation depends on more. */
export const ok = <T>({ json, version }: Versioned, etag: string = quoteETag(version)) => ({
  status: 200 as const,
  headers: { etag },
  body: jsonText<T>(json),
})

/** The ETag of a resource whose representation depends on nothing but its version. */
export const versionETag = ({ version }: { readonly version: number }): string => quoteETag(version)

/** The ETag of a resource whose version does not cover all that its representation shows. */
export const revisionETag = ({
  version,
  revision,
}: {
  readonly version: number
  readonly revision: number
}): string => quoteETag(variantTag(version, String(revision)))

/** The quoted form of an entity tag (RFC 9110 §8.8.3). */
export const quoteETag = (opaque: string | number): string => `"${opaque}"`
