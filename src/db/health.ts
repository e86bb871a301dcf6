import { within } from '../domain/deadline.ts'
import { watchPulse } from '../domain/pulse.ts'
import type { Database } from './client.ts'
import { sql } from './drizzle.ts'
import { DatabaseUnavailable } from './errors.ts'
import { statement } from './statement.ts'

const probe = statement({}, {}, () => sql`select`)

/** Milliseconds: whoever asks for readiness does not wait for long either. */
const deadline = 2_000

/**
 * Resolves when the database answers. One that takes no writes answers too: reads go on.
 *
 * @throws DatabaseUnavailable
 */
export const checkConnection = async (db: Database): Promise<void> => {
  await within(deadline, probe(db, {}), () => new DatabaseUnavailable())
}

/** Five minutes; each question is given up after ten seconds, like every statement. */
const pulse = { every: 30_000, mostMissed: 10 }

/**
 * Calls `onSilent` when a database that nobody else can mend, or start anew, has answered nothing for a long time: the
 * embedded one. Returns what ends it.
 */
export const watchEmbedded = (
  db: Database,
  onSilent: (error: Error) => void,
  rhythm: typeof pulse = pulse,
): (() => void) =>
  watchPulse(
    rhythm,
    () => probe(db, {}),
    () => onSilent(new Error('The embedded database does not answer any more')),
  )
