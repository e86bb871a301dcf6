import type { components } from '../../generated/openapi.ts'
import { ok, quoteETag, type Versioned } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'

/** What the representation of a task depends on: whether it is blocked depends on other tasks and on the caller. */
interface TaskState {
  readonly version: number
  readonly is_blocked: boolean
}

export const taskETag = ({ version, is_blocked }: TaskState): string =>
  quoteETag(is_blocked ? variantTag(version, 'blocked') : version)

export const taskResponse = (task: Versioned & TaskState) =>
  ok<components['schemas']['Task']>(task, taskETag(task))
