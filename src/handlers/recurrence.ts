import type { components } from '../../generated/openapi.ts'
import type { Occurrences } from '../domain/tasks/recurrence.ts'
import { listTaskOccurrences, previewRecurrence } from '../services/tasks/occurrences.ts'
import type { Handlers } from './handlers.ts'

/** As many as the contract says. */
const defaultOccurrences = 10

/** The operations about the dates of recurring tasks, of the contract's tag `tasks`. */
export const recurrenceHandlers = {
  async listTaskOccurrences(ctx, { params, query: { limit = defaultOccurrences } }) {
    return { status: 200, body: occurrenceList(await listTaskOccurrences(ctx, params.task_id, limit)) }
  },

  async previewRecurrence(ctx, { body: { at, on, limit, ...recurrence } }) {
    return { status: 200, body: occurrenceList(previewRecurrence(ctx, recurrence, at ?? on, limit)) }
  },
} satisfies Partial<Handlers>

const occurrenceList = (found: Occurrences | null): components['schemas']['OccurrenceList'] => ({
  occurrences: (found?.items ?? []).map(({ at, on }) => ({ at, on })),
  has_more: found?.hasMore ?? false,
  end_reason: found === null ? 'no_recurrence' : found.endReason,
})
