import type { components } from '../../generated/openapi.ts'
import { ok, quoteETag, type Versioned } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'

/** What the representation of a task depends on: its revision, and whether it is blocked, which depends on other tasks and on the caller. */
interface TaskState {
  readonly version: number
  readonly revision: number
  readonly is_blocked: boolean
}

export const taskETag = ({ version, revision, is_blocked }: TaskState): string =>
  quoteETag(variantTag(version, is_blocked ? `${revision}-blocked` : String(revision)))

export const taskResponse = (task: Versioned & TaskState) =>
  ok<components['schemas']['Task']>(task, taskETag(task))
