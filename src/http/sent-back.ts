import { isDeepStrictEqual } from 'node:util'
import type { ContractOperation } from '../contract/contract.ts'
import { anyTag } from '../domain/entity-tags.ts'
import { problems } from '../problems/problems.ts'

/**
 * The body of a PUT or PATCH can be an object that a read returned, with some fields changed. Its `version` is then a condition of
 * the request. Its read-only fields change nothing: PUT ignores them, and PATCH, which changes nothing that it does not name,
 * requires their present values.
 */

/** The fields of an object. */
export type Fields = Readonly<Record<string, unknown>>

interface Sent {
  readonly body: unknown
  readonly ifMatch: readonly string[] | null
}

/** The body of a PUT or PATCH without its version, and If-Match with it. */
export const takeVersion = (
  { method }: Pick<ContractOperation, 'method'>,
  sent: unknown,
  ifMatch: readonly string[] | null,
): Sent => {
  const isUpdate = method === 'PUT' || method === 'PATCH'
  if (!isUpdate || typeof sent !== 'object' || sent === null || !('version' in sent))
    return { body: sent, ifMatch }
  const { version, ...body } = sent
  const tag = String(version)
  return { body, ifMatch: ifMatch === null || ifMatch.includes(anyTag) || ifMatch.includes(tag) ? [tag] : [] }
}

/** Fields that change without a new version of the resource, so that a client cannot know their present values. */
export const unversioned: ReadonlySet<string> = new Set([
  'is_blocked',
  'role',
  'member_count',
  'open_task_count',
  'subtask_count',
  'open_subtask_count',
  'disabled_reason',
  'failing_since',
  'progress',
  'poll_after_seconds',
])

/**
 * Requires that read-only fields have their present values. Not compared are fields that change on their own, empty lists, which generated
 * clients send for fields that were not set, and resources that `expand` embeds, which `json`, the resource, does not have.
 *
 * @throws Problem 400
 */
export const expectPresentValues = (sent: Fields, json: string): void => {
  const present = JSON.parse(json) as Fields
  const changed = Object.keys(sent).filter(
    (name) =>
      name in present &&
      !unversioned.has(name) &&
      !isEmptyList(sent[name]) &&
      !isDeepStrictEqual(sent[name], present[name]),
  )
  if (changed.length > 0)
    throw problems.invalidFields(
      changed.map((name) => ({
        pointer: `/${name}`,
        detail: 'is read-only, and is not the present value; omit it, or fetch the resource again',
      })),
    )
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0
