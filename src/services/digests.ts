import type { Database } from '../db/engine/client.ts'
import { claimDigest } from '../db/notification-settings.ts'
import type { Mailer } from '../mail/mailer.ts'

interface Deps {
  readonly db: Database
  readonly mailer: Pick<Mailer, 'delivers' | 'sendDigest'>
}

/**
 * Sends every digest that is due, one after the other: many are due at the same time, and the mailer drops what exceeds its queue.
 * Without mail, they stay due.
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

/** When the service stops, the mailer limits how long it waits for the mail. */
const settledOrStopped = async (sending: Promise<void>, stop: AbortSignal): Promise<void> => {
  const { promise: stopped, resolve } = Promise.withResolvers<void>()
  const leave = (): void => resolve()
  stop.addEventListener('abort', leave)
  try {
    if (!stop.aborted) await Promise.race([sending, stopped])
  } finally {
    stop.removeEventListener('abort', leave)
  }
}
