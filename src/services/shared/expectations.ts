import type { OwnAccount } from '../../db/accounts/lock.ts'
import { knowsTimeZone } from '../../db/accounts/users.ts'
import { meetsPreconditions, type Preconditions } from '../../domain/shared/entity-tags.ts'
import { type Expansion, scopesOfExpansions } from '../../domain/shared/expansions.ts'
import type { FieldConflict } from '../../domain/shared/field-conflicts.ts'
import {
  type Authorized,
  grants,
  type Permission,
  type Principal,
  type Relation,
  roleRefuses,
  scopeRefuses,
} from '../../domain/shared/permissions.ts'
import type { Scope } from '../../domain/shared/scopes.ts'
import { defaultTimeZone } from '../../domain/shared/time-zones.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from './context.ts'

/**
 * The checks of services. Those of a write are on facts that were read under a lock, in the order that the contract promises: seen,
 * may (which includes a recent proof of identity), match, and then what the state of the resource allows.
 */

/** A resource, and what the caller is to it. */
interface Related {
  readonly relations: readonly Relation[]
}

/**
 * The resource that a statement reads only if the caller can see it.
 *
 * @throws Problem 404
 */
export const expectFound = <R>(resource: R | null): R => {
  if (resource === null) throw problems.notFound()
  return resource
}

/**
 * Requires additional scopes of an API token.
 *
 * @throws Problem 403
 */
export const expectScopes = (
  { principal }: Pick<OpContext<Principal>, 'principal'>,
  scopes: readonly Scope[],
): void => {
  const missing = scopes.find((scope) => scopeRefuses(scope, principal.credential))
  if (missing !== undefined) throw problems.insufficientScope(missing)
}

/**
 * Requires the scopes for the related resources that `expand` embeds.
 *
 * @throws Problem 403
 */
export const expectMayExpand = (
  ctx: OpContext<Principal>,
  { expand = [] }: { readonly expand?: readonly Expansion[] },
): void => expectScopes(ctx, scopesOfExpansions(expand))

/**
 * Requires an administrator for `all=true`.
 *
 * @throws Problem 403
 */
export const expectMayListAll = (
  { principal }: OpContext<Principal>,
  { all = false }: { readonly all?: boolean },
): void => {
  if (all && roleRefuses('list.all', principal.role)) throw problems.listAllForbidden()
}

/**
 * The resource, if the caller can see it.
 *
 * @throws Problem 404
 */
export const expectSeen = <R extends Related>(permission: Permission, resource: R | null): R => {
  if (resource === null || !grants(permission, resource.relations)) throw problems.notFound()
  return resource
}

/** A resource that a body names. */
interface Reference {
  /** JSON Pointer into the body. */
  readonly pointer: string
  readonly kind: 'user' | 'tag' | 'project' | 'section' | 'task'
}

/**
 * A resource that the body names, if the caller can see it.
 *
 * @throws Problem 422
 */
export const expectKnown = <R extends Related>(
  permission: Permission,
  resource: R | null,
  { pointer, kind }: Reference,
): R => {
  if (resource === null || !grants(permission, resource.relations))
    throw problems.unknownReference(pointer, kind)
  return resource
}

/**
 * The resource, if the caller has the permission.
 *
 * @throws Problem 403
 */
export const expectMay = <P extends Permission, R extends Related>(
  permission: P,
  resource: R,
): Authorized<P, R> => {
  if (!grants(permission, resource.relations)) throw problems.forbidden()
  return resource as Authorized<P, R>
}

/**
 * Requires that a resource with this entity tag meets If-Match and If-None-Match. Null: it does not exist.
 *
 * @throws Problem 412
 */
export const expectTag = (conditions: Preconditions, tag: string | null): void => {
  if (!meetsPreconditions(tag === null ? null : [tag], conditions)) throw problems.preconditionFailed()
}

/**
 * Requires that a resource whose version its ETags stand for meets If-Match and If-None-Match. A version of null: it does not exist.
 *
 * @throws Problem 412
 */
export const expectMatch = (
  conditions: Preconditions,
  { version }: { readonly version: number | null },
): void => expectTag(conditions, version === null ? null : String(version))

/**
 * Requires that no field has another value than `expect` of the request says. Before `expectMatch`, so that its problem has the conflicts
 * if neither holds.
 *
 * @throws Problem 412
 */
export const expectFields = (conflicts: readonly FieldConflict[]): void => {
  if (conflicts.length > 0) throw problems.fieldConflicts(conflicts)
}

/**
 * Requires that a resource that exists without an ETag meets If-Match and If-None-Match.
 *
 * @throws Problem 412
 */
export const expectUntagged = (conditions: Preconditions): void => {
  if (!meetsPreconditions([], conditions)) throw problems.preconditionFailed()
}

/**
 * Requires that a resource without an ETag does not exist, if the request has `If-None-Match: *`.
 *
 * @throws Problem 412
 */
export const expectAbsent = ({ ifNoneMatch }: Preconditions, exists: boolean): void => {
  if (!meetsPreconditions(exists ? [] : null, { ifMatch: null, ifNoneMatch }))
    throw problems.preconditionFailed()
}

/**
 * Requires that the caller's session has authenticated recently.
 *
 * @throws Problem 403
 */
export const expectProven = ({ is_proven }: { readonly is_proven: boolean }): void => {
  if (!is_proven) throw problems.reauthenticationRequired()
}

/**
 * Requires that a project is not archived.
 *
 * @throws Problem 409
 */
export const expectActive = ({ archived_at }: { readonly archived_at: string | null }): void => {
  if (archived_at !== null) throw problems.projectArchived()
}

/**
 * The caller's account, if the session that authenticated the request has not ended meanwhile.
 *
 * @throws Problem 401
 */
export const expectSignedIn = (account: OwnAccount | null): OwnAccount => {
  if (account === null) throw problems.invalidToken()
  return account
}

/**
 * Requires that the database knows a time zone. Before a transaction.
 *
 * @throws Problem 400
 */
export const expectTimeZone = async (ctx: OpContext, timeZone: string): Promise<void> => {
  if (timeZone !== defaultTimeZone && !(await knowsTimeZone(ctx, timeZone))) throw problems.unknownTimeZone()
}
