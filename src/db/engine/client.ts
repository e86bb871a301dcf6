import type postgres from 'postgres'
import { withTimeout } from '../../concurrency/deadline.ts'
import { fairQueue } from '../../concurrency/fair-queue.ts'
import { currentWork, type Work, writes } from '../../concurrency/work.ts'
import { type ConnectionOptions, createClient } from './connection.ts'
import {
  DatabaseUnavailable,
  isConnectionLoss,
  isReadOnly,
  isRolledBack,
  isTransient,
  OutcomeUnknown,
  TooManyStatements,
  translateError,
} from './errors.ts'
import { listenForNotifications, type NotificationListener } from './notifications.ts'
import { rateLimitedSockets } from './sockets.ts'

/**
 * How a statement runs. `prepared`: the connection keeps the prepared statement for reuse. `once`: not kept, planned for its
 * values. `maintenance`: may occupy the embedded database for minutes.
 */
export type StatementMode = 'prepared' | 'once' | 'maintenance'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A database that statements run on. */
export interface Database {
  /**
   * Runs one statement, and retries it after a deadlock or a serialization failure. Statements of all callers share the
   * connections fairly (`concurrency/fair-queue.ts`).
   *
   * @throws ConstraintViolation when it violates a constraint
   * @throws TooManyStatements when too many statements of its caller are waiting
   * @throws OutcomeUnknown when it writes, was sent, and got no response
   * @throws DatabaseUnavailable when the database cannot be reached, does not respond in time, or too many statements
   *   are waiting; a statement that writes has then changed nothing
   */
  run(text: string, values: readonly unknown[], mode?: StatementMode): Promise<Rows>
  /** Called with committed audit events, as a JSON array. */
  readonly audited?: (events: string) => void
  /** Listens for notifications until `close`. A no-op on the embedded database, which has only one session. */
  listen(channel: string, listener: NotificationListener): void
  /** The number of statements that are running or waiting for a connection. */
  pending(): number
  /** Waits up to 5 seconds for running statements. */
  close(): Promise<void>
}

const attempts = 3

/** Statements that may wait for a connection: in total, and per caller. */
const maxWaitingInAll = 2_000
const maxWaitingPerPrincipal = 200

/**
 * Milliseconds that a statement may wait for a connection, and then again for its result. A server cancels statements
 * earlier (`statementTimeout`), so after this time its connection is dead; the embedded database has to be restarted.
 */
const defaultDeadline = 10_000

/** The same for maintenance statements on the embedded database. */
const maintenanceDeadline = 240_000

/** Minimum milliseconds between two replacements of connections to a read-only server. */
const readOnlyPause = 1_000

/**
 * Connections per process. The embedded database has one session: messages of a second connection would mix with those of
 * the first.
 */
export const maxConnections: Readonly<Record<ConnectionOptions['kind'], number>> = {
  server: 10,
  embedded: 1,
}

/**
 * Connections that one caller may use at a time. With five, the batches of one user occupied both processors of a small
 * machine, and another user waited twice as long as with three.
 */
const maxConnectionsPerPrincipal = 3

/** A connection and the number of statements running on it. */
interface Connection {
  readonly client: postgres.Sql
  pending: number
}

/** Connections that are replaced together. */
type Pool = readonly Connection[]

/** Opens a database. It connects at the first statement. */
export const openDatabase = (options: ConnectionOptions, deadline: number = defaultDeadline): Database => {
  // Shared, so that the rate limit applies to all pools together.
  const shared = options.kind === 'server' ? { socket: rateLimitedSockets() } : {}
  // One driver pool per connection: in a larger pool the driver searches, for each statement, a list of all connections used
  // since the pool was last idle, which grows while the pool is busy (postgres 3.4.9, queue.js).
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
    refuse: (reason) => (reason === 'caller_busy' ? new TooManyStatements() : unavailable(refusals[reason])),
  })

  /**
   * Opens new connections for later statements after one was lost. On reconnecting, the driver (postgres 3.4.9) would first send
   * the data still buffered for the lost connection, which is invalid at the start of a session.
   */
  const replace = (old: Pool): void => {
    if (old === pool) pool = openPool()
  }

  let leftReadOnlyAt = Number.NEGATIVE_INFINITY

  /**
   * Opens new connections for later statements when the server is read-only. After a failover, the old primary is a standby and
   * the address may lead to the new primary. Statements on the old connections finish. If the server stays read-only, reads
   * continue to work.
   */
  const leaveReadOnly = (readOnly: Pool): void => {
    if (readOnly !== pool || performance.now() < leftReadOnlyAt + readOnlyPause) return
    leftReadOnlyAt = performance.now()
    replace(readOnly)
    void endAll(readOnly, deadline / 1_000)
  }

  /** Closes unresponsive connections. The driver itself would keep sending statements on them. */
  const giveUp = async (unresponsive: Pool): Promise<void> => {
    if (options.kind === 'server') {
      replace(unresponsive)
      void endAll(unresponsive, 2)
      return
    }
    // Not awaited: a connection to a stopped embedded database never closes by itself.
    void endAll(unresponsive, 0)
    await options.restart()
    replace(unresponsive)
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
      // Without it, the driver prepares no statement that has no parameters.
      ...(mode === 'prepared' && { simple: false }),
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
      const mayHaveRun = wasSent(query) && !isRolledBack(error)
      if (!mayHaveRun) work.sent.splice(work.sent.indexOf(text), 1)
      if (error instanceof DatabaseUnavailable) await giveUp(used)
      else if (isConnectionLoss(error) && options.kind === 'server') replace(used)
      else if (isReadOnly(error) && options.kind === 'server') leaveReadOnly(used)
      throw mayHaveRun && writes(text) && isUnavailable(error) ? new OutcomeUnknown({ cause: error }) : error
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

/** Whether the driver has started to send a query; `state` is null before that (postgres 3.4.9, connection.js). */
const wasSent = (query: object): boolean => !('state' in query) || query.state !== null

const leastBusyOf = (pool: Pool): Connection =>
  pool.reduce((least, one) => (one.pending < least.pending ? one : least))

const isIdle = ({ pending }: Connection): boolean => pending === 0

/** Closes connections when their statements have finished, or after `timeout` seconds. */
const endAll = async (pool: Pool, timeout: number): Promise<void> => {
  await Promise.all(pool.map(({ client }) => client.end({ timeout })))
}
