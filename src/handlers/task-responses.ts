import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { quoteETag } from '../contract/operation.ts'
import type { TaskRow } from '../db/tasks.ts'
import { variantTag } from '../domain/entity-tags.ts'

/** The entity tag of a task: its version, and whether it is blocked, which depends on other tasks and on the caller. */
export const taskETag = ({ version, is_blocked }: Omit<TaskRow, 'json'>): string =>
  quoteETag(is_blocked ? variantTag(version, 'blocked') : version)

export const taskResponse = (task: TaskRow) => ({
  status: 200 as const,
  headers: { etag: taskETag(task) },
  body: jsonText<components['schemas']['Task']>(task.json),
})
