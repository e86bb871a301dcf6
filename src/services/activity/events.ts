import { type EventFilter, selectEvents, selectTaskEvents } from '../../db/activity/events.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { OpContext } from '../shared/context.ts'
import { expectFound, expectMayListAll } from '../shared/expectations.ts'

/** A page of the events that the caller can see. @throws Problem 403 */
export const listEvents = async (
  ctx: OpContext<Principal>,
  filter: EventFilter & { readonly all?: boolean },
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, filter)
  return selectEvents(ctx, filter, page)
}

/** A page of the history of a task. @throws Problem 404 */
export const listTaskEvents = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Page> => expectFound(await selectTaskEvents(ctx, { taskId, request: page }))
