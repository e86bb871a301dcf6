import type { components } from '../../generated/openapi.ts'
import { created, revisionETag, shown } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import {
  createReminder,
  deleteReminder,
  getReminder,
  listReminders,
  updateReminder,
} from '../services/tasks/reminders.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
}

type Reminder = components['schemas']['Reminder']

/** The operations of the contract's tag `reminders`. */
export const reminderHandlers = ({ paging }: Deps) =>
  ({
    async listReminders(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listReminders(ctx, filter, request))
    },

    async createReminder(ctx, { params, body }) {
      const reminder = await createReminder(ctx, params.task_id, body)
      return created<Reminder>(`/reminders/${reminder.id}`, reminder, revisionETag)
    },

    async getReminder(ctx, { params }) {
      return shown<Reminder>((await getReminder(ctx, params.reminder_id)).json, revisionETag)
    },

    async updateReminder(ctx, { params, body }) {
      return shown<Reminder>((await updateReminder(ctx, params.reminder_id, body)).json, revisionETag)
    },

    async deleteReminder(ctx, { params }) {
      await deleteReminder(ctx, params.reminder_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
