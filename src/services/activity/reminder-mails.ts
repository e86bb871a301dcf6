import type { Database } from '../../db/engine/client.ts'
import { claimReminderMail } from '../../db/tasks/due-reminders.ts'
import { isDay } from '../../domain/shared/dates.ts'
import { localTimeOf } from '../../domain/shared/time-zones.ts'
import type { Mailer } from '../../mail/mailer.ts'
import { settledOrStopped } from './settled-or-stopped.ts'

interface Deps {
  readonly db: Database
  readonly mailer: Pick<Mailer, 'delivers' | 'sendReminder'>
}

/**
 * Sends reminders by email, one after the other, because many are due at the same time and the mailer drops emails beyond its queue. Each
 * is sent at most once; it is lost if the process is killed before, and stays in the inbox.
 */
export const createSendReminders =
  ({ db, mailer }: Deps) =>
  async (stop: AbortSignal): Promise<void> => {
    if (!mailer.delivers) return
    while (!stop.aborted) {
      const mail = await claimReminderMail(db)
      if (mail === null) break
      const { email: to, count } = mail
      const lines = mail.lines.map(({ taskTitle, due, timeZone }) => ({
        taskTitle,
        due: due === null ? null : dateFor(due, timeZone),
      }))
      if (to !== null && count > 0) await settledOrStopped(mailer.sendReminder({ to, lines, count }), stop)
    }
  }

/** A date for people: a day, or a time as in `2026-12-31 23:59 (Europe/Berlin)`. */
const dateFor = (date: string, timeZone: string): string =>
  isDay(date) ? date : `${localTimeOf(date, timeZone).slice(0, 16).replace('T', ' ')} (${timeZone})`
