import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../db/engine/client.ts'
import { lookAtClock } from '../db/engine/retention.ts'

const secondsPerDay = 86_400

/** Logs an error while retention waits for an operator to confirm the clock. */
export const reportSkippedTime = async ({
  db,
  log,
}: {
  readonly db: Database
  readonly log: FastifyBaseLogger
}): Promise<void> => {
  const behind = await lookAtClock(db)
  if (behind > 0)
    log.error(
      { days: Math.round((behind / secondsPerDay) * 10) / 10, now: new Date() },
      'The clock has moved on by days since the service last ran. Nothing is deleted because of that time. If the clock is right, run npm run retention:confirm; otherwise correct it',
    )
}
