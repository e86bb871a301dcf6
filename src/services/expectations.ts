import { meetsPreconditions, type Preconditions } from '../domain/entity-tags.ts'
import type { UnknownReference } from '../domain/outcome.ts'
import { type Authorized, grants, type Permission, type Relation } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'

/**
 * The checks of a write on facts that were read under a lock, in the order that the contract promises: seen, may, match, and then
 * what the state of the resource allows.
 */

/** A resource, and what the caller is to it. */
interface Related {
  readonly relations: readonly Relation[]
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

/**
 * A resource that the body names, if the caller can see it.
 *
 * @throws Problem 422
 */
export const expectKnown = <R extends Related>(
  permission: Permission,
  resource: R | null,
  { pointer, kind }: Omit<UnknownReference, 'outcome'>,
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
 * Requires that a resource with this entity tag meets If-Match and If-None-Match.
 *
 * @throws Problem 412
 */
export const expectTag = (conditions: Preconditions, tag: string): void => {
  if (!meetsPreconditions([tag], conditions)) throw problems.preconditionFailed()
}

/**
 * Requires that a resource whose ETag is its version meets If-Match and If-None-Match.
 *
 * @throws Problem 412
 */
export const expectMatch = (conditions: Preconditions, { version }: { readonly version: number }): void =>
  expectTag(conditions, String(version))

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
 * Requires that a project is not archived.
 *
 * @throws Problem 409
 */
export const expectActive = ({ archived_at }: { readonly archived_at: string | null }): void => {
  if (archived_at !== null) throw problems.projectArchived()
}
