import type { Database } from '../db/engine/client.ts'
import { claimReminderMail } from '../db/due-reminders.ts'
import type { Mailer } from '../mail/mailer.ts'
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
      const { email: to, ...message } = mail
      if (to !== null && message.count > 0)
        await settledOrStopped(mailer.sendReminder({ to, ...message }), stop)
    }
  }
