import type { components } from '../../generated/openapi.ts'
import { ok, quoteETag, type Versioned } from '../contract/operation.ts'
import { variantTag } from '../domain/entity-tags.ts'

/** A task, and whether it is blocked, which depends on other tasks and on the caller. */
interface ShownTask extends Versioned {
  readonly is_blocked: boolean
}

export const taskETag = ({ version, is_blocked }: ShownTask): string =>
  quoteETag(is_blocked ? variantTag(version, 'blocked') : version)

export const taskResponse = (task: ShownTask) => ok<components['schemas']['Task']>(task, taskETag(task))
