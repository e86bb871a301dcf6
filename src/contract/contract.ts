import { readFileSync } from 'node:fs'
import { load } from 'js-yaml'
import type { operations } from '../../generated/openapi.ts'
import { contentKinds, contentParameters, type ShownContent } from '../domain/activity/audit.ts'
import { isPermission, type Permission } from '../domain/shared/permissions.ts'
import { isRequiredScope, type RequiredScope } from '../domain/shared/scopes.ts'

export type OperationId = keyof operations

/** Rate limit policies. Each has its own counter. */
export type RateLimitPolicy = 'anonymous' | 'sign_in' | 'refresh' | 'link' | 'api' | 'upload' | 'resume'

/**
 * The effect of repeating a request whose response was lost. `same`: none. `again`: the request is processed once more, which
 * is harmless. `key`: with the same Idempotency-Key, the first response is returned. A status: the repeat is refused with this
 * status if the first request was processed.
 */
export type Repeat = 'same' | 'again' | 'key' | number

/** The metadata of an operation in the contract, without its schemas, which openapi-glue compiles. */
export interface ContractOperation {
  readonly id: string
  readonly method: string
  /** With parameters in braces: `/tasks/{task_id}`. */
  readonly path: string
  /** Whether the operation requires no Authorization header. */
  readonly isOpen: boolean
  readonly scope: RequiredScope
  readonly permission: Permission
  /** The private content in the response, whose reads by administrators are audited. Null if there is none. */
  readonly shows: ShownContent | null
  /** When a session must have authenticated recently: `always`, or a condition, as text for people. Null if never. */
  readonly recentSignIn: string | null
  /** The rate limit policy: per network for an operation without authentication, otherwise per user. */
  readonly rateLimit: RateLimitPolicy | 'none'
  /** Whether only requests that fail count against the rate limit. */
  readonly countsFailures: boolean
  /** Accepted media types; empty if the operation has no body. */
  readonly mediaTypes: readonly string[]
  readonly requiresBody: boolean
  /** Maximum size in bytes of a body that is not a file. */
  readonly maxBody: number
  readonly takesIfMatch: boolean
  readonly takesIfNoneMatch: boolean
  /** Whether the operation belongs to the tus protocol, which requires Tus-Resumable. */
  readonly takesTusVersion: boolean
  readonly takesIdempotencyKey: boolean
  readonly repeat: Repeat
  /** The documented statuses. */
  readonly statuses: readonly number[]
  /** Whether the adapter limits the time of the handler. */
  readonly hasDeadline: boolean
  /** Whether a minor version may change or remove the operation. */
  readonly isPreview: boolean
  /** Whether the operation is a tool of the Model Context Protocol. */
  readonly isTool: boolean
  /** Whether that tool can overwrite or lose data. */
  readonly isDestructive: boolean
  /** Required response headers with a fixed value (`x-constant`), by status. */
  readonly constantHeaders: Readonly<Record<string, Readonly<Record<string, string>>>>
}

export interface Contract {
  /** The file, byte for byte. */
  readonly yaml: Buffer
  readonly json: string
  readonly document: Readonly<Record<string, unknown>>
  readonly operations: ReadonlyMap<string, ContractOperation>
}

/** An object of the contract. */
export type Json = Readonly<Record<string, unknown>>

const methods = new Set(['options', 'head', 'get', 'put', 'post', 'patch', 'delete'])

let loaded: Contract | undefined

/**
 * The contract in openapi.yaml. Each process reads it once.
 *
 * @throws Error as `parseContract`
 */
export const loadContract = (): Contract =>
  (loaded ??= parseContract(readFileSync(new URL('../../openapi.yaml', import.meta.url))))

/**
 * @throws Error if `x-scope`, `x-permission`, `x-audited-read`, `x-recent-sign-in`, `x-rate-limit`, `x-rate-limit-counts`, `x-repeat`,
 * `x-stability` or `security` of an operation is missing or inconsistent
 */
const parseContract = (yaml: Buffer): Contract => {
  const document = asObject(load(yaml.toString()))
  const found = Object.entries(asObject(document.paths)).flatMap(([path, item]) =>
    Object.entries(asObject(item))
      .filter(([method]) => methods.has(method))
      .map(([method, operation]) => readOperation(document, path, method, asObject(operation))),
  )
  const byId = new Map(found.map((operation) => [operation.id, operation]))
  return { yaml, json: JSON.stringify(document), document, operations: byId }
}

const readOperation = (document: Json, path: string, method: string, operation: Json): ContractOperation => {
  const id = String(operation.operationId)
  const permission = operation['x-permission']
  const isOpen = Array.isArray(operation.security) && operation.security.length === 0
  const scope = operation['x-scope']
  if (!isRequiredScope(scope)) throw new Error(`${id} has no known x-scope in openapi.yaml`)
  if (isOpen !== (scope === 'none' || scope === 'link'))
    throw new Error(`${id}: security and x-scope disagree in openapi.yaml`)
  if (!isPermission(permission)) throw new Error(`${id} has no known x-permission in openapi.yaml`)
  if (isOpen !== (permission === 'anyone'))
    throw new Error(`${id}: security and x-permission disagree in openapi.yaml`)
  const rateLimit = readRateLimit(scope, operation['x-rate-limit'])
  if (rateLimit === null) throw new Error(`${id}: x-scope and x-rate-limit disagree in openapi.yaml`)
  const counted = operation['x-rate-limit-counts']
  if (counted !== undefined && counted !== 'failures')
    throw new Error(`${id} has no known x-rate-limit-counts in openapi.yaml`)
  const parameters = new Map(
    asArray(operation.parameters ?? []).map((reference) => {
      const parameter = resolve(document, reference)
      return [String(parameter.name), parameter]
    }),
  )
  return {
    id,
    method: method.toUpperCase(),
    path,
    isOpen,
    scope,
    permission,
    shows: readShownContent(id, path, operation['x-audited-read']),
    recentSignIn: readRecentSignIn(id, operation),
    rateLimit,
    countsFailures: counted === 'failures',
    mediaTypes: Object.keys(asObject(asObject(operation.requestBody ?? {}).content ?? {})),
    requiresBody: asObject(operation.requestBody ?? {}).required === true,
    maxBody: Number(operation['x-max-body'] ?? defaultMaxBody),
    takesIfMatch: parameters.has('If-Match'),
    takesIfNoneMatch: parameters.has('If-None-Match'),
    takesTusVersion: parameters.has('Tus-Resumable'),
    takesIdempotencyKey: parameters.has('Idempotency-Key'),
    repeat: readRepeat(id, method, parameters.has('Idempotency-Key'), operation['x-repeat']),
    statuses: Object.keys(asObject(operation.responses)).map(Number),
    hasDeadline: operation['x-deadline'] !== 'none',
    isPreview: readStability(id, operation['x-stability']),
    isTool: operation['x-mcp'] !== undefined,
    isDestructive: operation['x-mcp'] === 'destructive',
    constantHeaders: mapValues(asObject(operation.responses), (response) =>
      constantHeaders(document, resolve(document, response)),
    ),
  }
}

/** Bytes. Several times the largest valid body, apart from descriptions of tasks. */
const defaultMaxBody = 16_384

const networkLimits = ['anonymous', 'sign_in', 'refresh', 'none'] as const
const linkLimits = ['link'] as const
const userLimits = ['api', 'upload', 'resume', 'none'] as const

const limitsFor = (scope: RequiredScope): readonly ContractOperation['rateLimit'][] => {
  if (scope === 'link') return linkLimits
  return scope === 'none' ? networkLimits : userLimits
}

/** The first policy for a scope is the default. Null for a policy of another scope, which would not know whom to count. */
const readRateLimit = (scope: RequiredScope, value: unknown): ContractOperation['rateLimit'] | null => {
  const known = limitsFor(scope)
  return known.find((policy) => policy === (value ?? known[0])) ?? null
}

const readShownContent = (id: string, path: string, value: unknown): ShownContent | null => {
  if (value === undefined) return null
  const kind = contentKinds.find((known) => known === value)
  const parameter = contentParameters.find((name) => path.includes(`{${name}}`))
  if (kind === undefined || parameter === undefined)
    throw new Error(`${id} has no known x-audited-read in openapi.yaml`)
  return { kind, parameter }
}

const unprovenResponse = '#/components/responses/ForbiddenOrUnproven'

const readRecentSignIn = (id: string, operation: Json): string | null => {
  const value = operation['x-recent-sign-in']
  const { $ref } = asObject(asObject(operation.responses)['403'] ?? {})
  if (($ref === unprovenResponse) !== (typeof value === 'string'))
    throw new Error(`${id}: x-recent-sign-in and the response 403 disagree in openapi.yaml`)
  return typeof value === 'string' ? value : null
}

const readRepeat = (id: string, method: string, takesIdempotencyKey: boolean, value: unknown): Repeat => {
  if (takesIdempotencyKey && value === undefined) return 'key'
  if (value === 'same' || value === 'again' || typeof value === 'number') return value
  if (value !== undefined || method === 'post') throw new Error(`${id} has no known x-repeat in openapi.yaml`)
  return method === 'delete' ? 404 : 'same'
}

/** Whether an operation is a preview. */
const readStability = (id: string, value: unknown): boolean => {
  if (value !== undefined && value !== 'preview')
    throw new Error(`${id} has no known x-stability in openapi.yaml`)
  return value === 'preview'
}

const constantHeaders = (document: Json, response: Json): Readonly<Record<string, string>> => {
  const entries = Object.entries(asObject(response.headers ?? {})).flatMap(([name, reference]) => {
    const header = resolve(document, reference)
    const value = header['x-constant']
    return header.required === true && typeof value === 'string' ? [[name.toLowerCase(), value] as const] : []
  })
  return Object.fromEntries<string>(entries)
}

/** Follows a local `$ref`. */
export const resolve = (document: Json, node: unknown): Json => {
  const { $ref } = asObject(node)
  if (typeof $ref !== 'string') return asObject(node)
  return $ref
    .split('/')
    .slice(1)
    .reduce<Json>((parent, name) => asObject(parent[name]), document)
}

export const mapValues = <W>(record: Json, map: (value: unknown) => W): Record<string, W> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]))

export const asObject = (value: unknown): Json => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json
  throw new TypeError('openapi.yaml does not have an object where one is expected')
}

export const asArray = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value as readonly unknown[]
  throw new TypeError('openapi.yaml does not have a list where one is expected')
}
