import type { Client } from '../../domain/audit.ts'
import type { Principal } from '../../domain/permissions.ts'
import type { Database } from './client.ts'
import { newId } from './ids.ts'
import type { ParameterTypes, Placeholders } from './parameters.ts'

/** A repeatable creation: its Idempotency-Key, and what distinguishes its request from others under the same key. */
export interface Idempotency {
  readonly principalId: string
  readonly operation: string
  readonly key: string
  /** Base64url of an HMAC, so that it reveals nothing about a password in the body. */
  readonly fingerprint: string
  /** Whether a stored fingerprint, perhaps under an earlier secret, is of this very request. */
  readonly isFingerprint: (stored: string) => boolean
  /** The same key with other content: a form is read by its handler, which then knows what it contains. */
  readonly withContent: (content: unknown) => Idempotency
}

/**
 * One operation on behalf of a principal, who is null where no token is needed. Handlers, services and queries pass it on
 * as their first argument.
 */
export interface OpContext<P extends Principal | null = Principal | null> {
  readonly db: Database
  readonly principal: P
  readonly client: Client
  /** The ETags that If-Match accepts, without their quotes; null for any. */
  readonly ifMatch: readonly string[] | null
  /** Null when the request has no Idempotency-Key. */
  readonly idempotency: Idempotency | null
  /** Aborted when the request has ended: it was answered, or the client has gone. */
  readonly signal: AbortSignal
}

/** The same context without an Idempotency-Key: what it answers is not stored. */
export const withoutKey = <P extends Principal | null>(ctx: OpContext<P>): OpContext<P> => ({
  ...ctx,
  idempotency: null,
})

/** Whether the request may be a repeat, which gets the answer to the first one. */
export const mayBeRepeat = ({ idempotency }: OpContext): boolean => idempotency !== null

/** The context of a request with this content. A form's content is not known until it has been received. */
export const withContent = <C extends OpContext>(ctx: C, content: unknown): C =>
  ctx.idempotency === null ? ctx : { ...ctx, idempotency: ctx.idempotency.withContent(content) }

/** What a query can read of its context, as parameters. Only those that its text uses are sent. */
export const contextParameters = {
  caller: 'uuid?',
  is_admin: 'bool',
  in_session: 'bool',
  if_match: 'text[]?',
  idempotency_operation: 'text',
  idempotency_key: 'text?',
  idempotency_fingerprint: 'text',
  audit_id: 'uuid',
  audit_session: 'uuid?',
  audit_token: 'uuid?',
  audit_address: 'text',
  audit_user_agent: 'text?',
  audit_request: 'text',
} as const

export type ContextPlaceholders = Placeholders<typeof contextParameters>

type ContextParameter = keyof typeof contextParameters

type Readers = {
  readonly [Name in ContextParameter]: (ctx: OpContext) => ParameterTypes[(typeof contextParameters)[Name]]
}

const readers: Readers = {
  caller: ({ principal }) => principal?.userId ?? null,
  is_admin: ({ principal }) => principal?.role === 'admin',
  in_session: ({ principal }) => principal?.credential.kind === 'session',
  if_match: ({ ifMatch }) => ifMatch,
  idempotency_operation: ({ idempotency }) => idempotency?.operation ?? '',
  idempotency_key: ({ idempotency }) => idempotency?.key ?? null,
  idempotency_fingerprint: ({ idempotency }) => idempotency?.fingerprint ?? '',
  audit_id: () => newId(),
  audit_session: ({ principal }) =>
    principal?.credential.kind === 'session' ? principal.credential.sessionId : null,
  audit_token: ({ principal }) =>
    principal?.credential.kind === 'api_token' ? principal.credential.tokenId : null,
  audit_address: ({ client }) => client.address,
  audit_user_agent: ({ client }) => client.userAgent,
  audit_request: ({ client }) => client.requestId,
}

const isContextParameter = (name: string): name is ContextParameter => Object.hasOwn(readers, name)

/** The values of those of `names` that are parameters of the context. */
export const contextValues = (ctx: OpContext, names: readonly string[]): Readonly<Record<string, unknown>> =>
  Object.fromEntries(names.filter(isContextParameter).map((name) => [name, readers[name](ctx)]))
