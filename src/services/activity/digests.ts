import type { Database } from '../../db/engine/client.ts'
import { claimDigest } from '../../db/activity/notification-settings.ts'
import type { Mailer } from '../../mail/mailer.ts'
import { settledOrStopped } from './settled-or-stopped.ts'

interface Deps {
  readonly db: Database
  readonly mailer: Pick<Mailer, 'delivers' | 'sendDigest'>
}

/**
 * Sends all digests that are due, one after the other, because many are due at the same time and the mailer drops emails beyond
 * its queue. While email is disabled, they stay due.
 */
export const createSendDigests =
  ({ db, mailer }: Deps) =>
  async (stop: AbortSignal): Promise<void> => {
    if (!mailer.delivers) return
    while (!stop.aborted) {
      const digest = await claimDigest(db)
      if (digest === null) break
      const { email: to, ...message } = digest
      if (message.count > 0) await settledOrStopped(mailer.sendDigest({ to, ...message }), stop)
    }
  }
