import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../db/engine/client.ts'
import { lookAtClock } from '../db/shared/retention.ts'

const secondsPerDay = 86_400

const advice =
  'Nothing is deleted because of that time, and reminders from before it wait. If the clock is right, run npm run admin -- retention confirm; otherwise correct it'

/** Logs an error while retention waits for an operator to confirm the clock. The first report is made when the service starts. */
export const createSkippedTimeReport = ({
  db,
  log,
}: {
  readonly db: Database
  readonly log: FastifyBaseLogger
}): (() => Promise<void>) => {
  let atStart: number | null = null
  return async () => {
    const unconfirmed = await lookAtClock(db)
    atStart = Math.min(atStart ?? unconfirmed, unconfirmed)
    if (unconfirmed === 0) return
    const moved =
      unconfirmed > atStart
        ? 'The clock has moved on by days at once while the service was running'
        : 'The clock has moved on by days that the service has not seen pass, before it started'
    log.error(
      { days: Math.round((unconfirmed / secondsPerDay) * 10) / 10, now: new Date() },
      `${moved}. ${advice}`,
    )
  }
}
