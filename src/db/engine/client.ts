import type postgres from 'postgres'
import { withTimeout } from '../../concurrency/deadline.ts'
import { fairQueue } from '../../concurrency/fair-queue.ts'
import { currentWork, type Work, writes } from '../../concurrency/work.ts'
import { type ConnectionOptions, createClient } from './connection.ts'
import {
  DatabaseUnavailable,
  isConnectionLoss,
  isRolledBack,
  isTransient,
  OutcomeUnknown,
  TooManyStatements,
  translateError,
} from './errors.ts'
import { listenForNotifications, type NotificationListener } from './notifications.ts'
import { socketsAtBoundedRate } from './sockets.ts'

/**
 * How a statement runs: `prepared`, and kept by its connection for the next time; `once`, and planned for its values;
 * `maintenance`, which may occupy the embedded database for minutes.
 */
export type StatementMode = 'prepared' | 'once' | 'maintenance'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A connected database, as the statements of this folder use it. */
export interface Database {
  /**
   * Runs one statement, again if it lost a deadlock. It takes its turn among those of all principals (`domain/work.ts`).
   *
   * @throws ConstraintViolation when it broke a constraint
   * @throws TooManyStatements when too many statements of its principal wait
   * @throws OutcomeUnknown when it writes, was sent, and no answer came
   * @throws DatabaseUnavailable when the database cannot be reached, does not answer in time, or too many statements
   *   wait; a statement that writes has then done nothing
   */
  run(text: string, values: readonly unknown[], mode?: StatementMode): Promise<Rows>
  /** Is told of audit events that are committed: a JSON array of them. */
  readonly audited?: (events: string) => void
  /** Listens for notifications until `close`. Does nothing on the embedded database, which has one session. */
  listen(channel: string, listener: NotificationListener): void
  /** How many statements run or wait for a connection. */
  pending(): number
  /** Lets running statements finish, for up to 5 seconds. */
  close(): Promise<void>
}

const attempts = 3

/** Statements that may wait for a connection: in all, and of one principal. */
const maxWaitingInAll = 2_000
const maxWaitingPerPrincipal = 200

/**
 * Milliseconds that a statement may wait for a connection, and then for its answer. A server gives a statement up before
 * that, so a connection without an answer leads nowhere; the embedded database has to be restarted.
 */
const defaultDeadline = 10_000

/** The same for the maintenance of the embedded database. */
const maintenanceDeadline = 240_000

/**
 * Connections of a process. The embedded database has one session: a second connection would break into the first one's
 * statements.
 */
export const maxConnections: Readonly<Record<ConnectionOptions['kind'], number>> = {
  server: 10,
  embedded: 1,
}

/**
 * How many of these the requests of one principal may occupy. With five, the batches of one member kept both processors of
 * a small machine busy, and another member waited twice as long as with three.
 */
const maxConnectionsPerPrincipal = 3

/** One connection, and how many statements run on it. */
interface Connection {
  readonly client: postgres.Sql
  pending: number
}

/** Connections that are given up together. */
type Pool = readonly Connection[]

/** Opens a database; the first statement connects. */
export const openDatabase = (options: ConnectionOptions, deadline: number = defaultDeadline): Database => {
  // All pools together are held to its rate.
  const shared = options.kind === 'server' ? { socket: socketsAtBoundedRate() } : {}
  // A pool of the driver's for each: with several connections in one it looks for each statement through a list of all that
  // were used since it was last idle, which takes longer the longer it is busy (postgres 3.4.9, queue.js).
  const openPool = (): Pool =>
    Array.from({ length: maxConnections[options.kind] }, () => ({
      client: createClient(options, shared),
      pending: 0,
    }))
  let pool = openPool()
  const listening: postgres.Sql[] = []

  const queue = fairQueue({
    concurrency: maxConnections[options.kind],
    share: Math.min(maxConnectionsPerPrincipal, maxConnections[options.kind]),
    maxWaiting: maxWaitingPerPrincipal,
    maxWaitingInAll,
    maxWait: deadline,
    refuse: (reason) =>
      reason === 'principal_busy' ? new TooManyStatements() : unavailable(refusals[reason]),
  })

  /**
   * Gives later statements new connections when one of these was lost: the driver (postgres 3.4.9) would begin that one
   * anew with what it had been about to write on it, which no server understands.
   */
  const replace = (old: Pool): void => {
    if (old === pool) pool = openPool()
  }

  /** Nothing else ends connections without answers: the driver goes on sending statements on them. */
  const giveUp = async (silent: Pool): Promise<void> => {
    if (options.kind === 'server') {
      replace(silent)
      void endAll(silent, 2)
      return
    }
    // Its end is not waited for: a connection that a stopped database left behind never closes by itself.
    void endAll(silent, 0)
    await options.restart()
    replace(silent)
  }

  const send = async (
    work: Work,
    text: string,
    values: readonly unknown[],
    mode: StatementMode,
  ): Promise<Rows> => {
    const used = pool
    const connection = leastBusyOf(used)
    const limit = mode === 'maintenance' && options.kind === 'embedded' ? maintenanceDeadline : deadline
    const query = connection.client.unsafe<Record<string, unknown>[]>(text, values as never[], {
      prepare: mode !== 'once',
    })
    connection.pending += 1
    work.sent.push(text)
    const answer = query.finally(() => {
      connection.pending -= 1
      if (used !== pool && used.every(isIdle)) void endAll(used, 2)
    })
    try {
      return await withTimeout(limit, answer, () => unavailable(`no answer in ${limit} ms`))
    } catch (error) {
      const mayBeDone = wasSent(query) && !isRolledBack(error)
      if (!mayBeDone) work.sent.splice(work.sent.indexOf(text), 1)
      if (error instanceof DatabaseUnavailable) await giveUp(used)
      else if (isConnectionLoss(error) && options.kind === 'server') replace(used)
      throw mayBeDone && writes(text) && isUnavailable(error) ? new OutcomeUnknown({ cause: error }) : error
    }
  }

  return {
    async run(text, values, mode = 'prepared') {
      const work = currentWork()
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await queue.run(work, () => send(work, text, values, mode))
        } catch (error) {
          if (attempt >= attempts || !isTransient(error)) throw translateError(error)
        }
      }
    },
    listen(channel, listener) {
      if (options.kind === 'server') listening.push(listenForNotifications(options, channel, listener))
    },
    pending: queue.pending,
    async close() {
      await Promise.all([endAll(pool, 5), ...listening.map((client) => client.end({ timeout: 0 }))])
    },
  }
}

const refusals = {
  busy: 'too many statements wait',
  late: 'no connection was free in time',
  abandoned: 'its request has ended',
} as const

const unavailable = (reason: string) => new DatabaseUnavailable({ cause: new Error(reason) })

const isUnavailable = (error: unknown): boolean => translateError(error) instanceof DatabaseUnavailable

/** Whether the driver has begun to send a query; until then `state` is null (postgres 3.4.9, connection.js). */
const wasSent = (query: object): boolean => !('state' in query) || query.state !== null

const leastBusyOf = (pool: Pool): Connection =>
  pool.reduce((least, one) => (one.pending < least.pending ? one : least))

const isIdle = ({ pending }: Connection): boolean => pending === 0

/** Ends connections when what runs on them has finished, or after so many seconds. */
const endAll = async (pool: Pool, timeout: number): Promise<void> => {
  await Promise.all(pool.map(({ client }) => client.end({ timeout })))
}
