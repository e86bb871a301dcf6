import type postgres from 'postgres'
import { within } from '../domain/deadline.ts'
import { type ConnectionOptions, createClient } from './connection.ts'
import { DatabaseUnavailable, isConnectionLoss, isTransient, translateError } from './errors.ts'
import { socketsAtBoundedRate } from './sockets.ts'

/** A connected database, as the statements of this folder use it. */
export interface Database {
  /**
   * Runs one statement, again if it lost a deadlock. A prepared one is kept by the connection for its next use.
   *
   * @throws ConstraintViolation when it broke a constraint
   * @throws DatabaseUnavailable when the database cannot be reached, does not answer in time, or too many statements wait
   *   for it
   */
  run(
    text: string,
    values: readonly unknown[],
    isPrepared?: boolean,
  ): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** Is told of audit events that are committed: a JSON array of them. */
  readonly audited?: (events: string) => void
  /** How many statements run or wait for a connection. */
  pending(): number
  /** Lets running statements finish, for up to 5 seconds. */
  close(): Promise<void>
}

const attempts = 3

/** The driver's queue has no bound of its own: past this many waiting statements new ones are refused. */
const mostPending = 2_000

/**
 * Milliseconds for which an answer is waited, the time in the driver's queue included. A server gives a statement up
 * before that, so what still has not answered by then is a connection that leads nowhere, or a server that stands still.
 */
const answerDeadline = 10_000

/**
 * Connections of a process. The embedded database has one session: a second connection would break into the first one's
 * statements.
 */
export const mostConnections: Readonly<Record<ConnectionOptions['kind'], number>> = {
  server: 10,
  embedded: 1,
}

/** One connection, and how many statements run or wait on it. */
interface Connection {
  readonly client: postgres.Sql
  pending: number
}

/** Connections that are given up together. */
type Pool = readonly Connection[]

/** Opens a database; the first statement connects. */
export const openDatabase = (options: ConnectionOptions, deadline: number = answerDeadline): Database => {
  // All pools together are held to its rate.
  const shared = options.kind === 'server' ? { socket: socketsAtBoundedRate() } : {}
  // A pool of the driver's for each: with several connections in one it looks for each statement through a list of all that
  // were used since it was last idle, which takes longer the longer it is busy (postgres 3.4.9, queue.js).
  const openPool = (): Pool =>
    Array.from({ length: mostConnections[options.kind] }, () => ({
      client: createClient(options, shared),
      pending: 0,
    }))
  let pool = openPool()
  let pending = 0

  /**
   * Gives the statements that follow connections of their own when one of these was lost: the driver (postgres 3.4.9) would
   * begin that one anew with what it had been about to write on it, which no server understands. The embedded database has
   * but one, and a second would have to wait for its end.
   */
  const replace = (old: Pool): void => {
    if (old === pool && options.kind !== 'embedded') pool = openPool()
  }

  /** Nothing else ends the connections that lead nowhere: the driver goes on sending statements on them. */
  const giveUp = (silent: Pool): void => {
    replace(silent)
    if (silent !== pool) void endAll(silent, 2)
  }

  const runOnce = async (text: string, values: readonly unknown[], prepare: boolean) => {
    if (pending >= mostPending)
      throw new DatabaseUnavailable({ cause: new Error('too many statements wait') })
    const used = pool
    const connection = leastBusyOf(used)
    pending += 1
    connection.pending += 1
    const rows = connection.client
      .unsafe<Record<string, unknown>[]>(text, values as never[], { prepare })
      .catch((error: unknown) => {
        if (isConnectionLoss(error)) replace(used)
        throw error
      })
      .finally(() => {
        pending -= 1
        connection.pending -= 1
        if (used !== pool && used.every(isIdle)) void endAll(used, 2)
      })
    return within(deadline, rows, () => {
      giveUp(used)
      return new DatabaseUnavailable({ cause: new Error(`no answer in ${deadline} ms`) })
    })
  }

  return {
    async run(text, values, isPrepared = true) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await runOnce(text, values, isPrepared)
        } catch (error) {
          if (attempt >= attempts || !isTransient(error)) throw translateError(error)
        }
      }
    },
    pending: () => pending,
    close: () => endAll(pool, 5),
  }
}

const leastBusyOf = (pool: Pool): Connection =>
  pool.reduce((least, one) => (one.pending < least.pending ? one : least))

const isIdle = ({ pending }: Connection): boolean => pending === 0

/** Ends connections when what runs on them has finished, or after so many seconds. */
const endAll = async (pool: Pool, timeout: number): Promise<void> => {
  await Promise.all(pool.map(({ client }) => client.end({ timeout })))
}
