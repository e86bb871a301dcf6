import type { Database } from '../engine/client.ts'
import { sql } from '../schema/drizzle.ts'
import { lookAtClock } from './retention.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement } from '../statements/statement.ts'
import type { Runner } from '../engine/transaction.ts'

/**
 * The clock of the database, which all instances share. Tokens and links that one instance issues are verified by others, whose own
 * clocks can differ by more than is tolerated.
 */
export interface DatabaseClock {
  /** Milliseconds since the epoch. Until the first `follow`, by the clock of this process. */
  readonly now: () => number
  /** Looks at the clock of the database. Until the next call, time passes as in this process. */
  readonly follow: (db: Database) => Promise<void>
  /** Resolves after the first `follow`, which it calls if nobody has. */
  readonly followed: (db: Database) => Promise<void>
}

const select = statement(
  'clock.select',
  {},
  { now: 'int8' },
  () => sql`select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now`,
)

/** The clock of the database now, in milliseconds since the epoch. */
export const readClock = async (db: Runner): Promise<number> => expectRow(await select(db, {})).now

export const createDatabaseClock = (): DatabaseClock => {
  let atStart = Date.now() - performance.now()
  let first: Promise<void> | null = null
  const follow = async (db: Database): Promise<void> => {
    await lookAtClock(db)
    const now = await readClock(db)
    // Behind by the time of the answer, but never ahead: nothing expires early.
    atStart = now - performance.now()
  }
  return {
    now: () => atStart + performance.now(),
    follow,
    async followed(db) {
      first ??= follow(db).catch((error: unknown) => {
        first = null
        throw error
      })
      await first
    },
  }
}
