import type postgres from 'postgres'
import { boundedQueue } from '../domain/bounded-queue.ts'
import { within } from '../domain/deadline.ts'
import { type ConnectionOptions, createClient, statementTimeout } from './connection.ts'
import { DatabaseUnavailable, isConnectionLoss, isTransient, translateError } from './errors.ts'
import { socketsAtBoundedRate } from './sockets.ts'

/**
 * How a statement runs: prepared, and kept by its connection for the next time; once, and planned for its values; or with
 * patience, since it may change very many rows, and beside the others, none of which waits for it.
 */
export type Manner = 'prepared' | 'once' | 'patient'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A connected database, as the statements of this folder use it. */
export interface Database {
  /**
   * Runs one statement, again if it lost a deadlock; prepared, unless something else is said.
   *
   * @throws ConstraintViolation when it broke a constraint
   * @throws DatabaseUnavailable when the database cannot be reached, does not answer in time, or too many statements wait
   *   for it
   */
  run(text: string, values: readonly unknown[], manner?: Manner): Promise<Rows>
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
 * Milliseconds for a statement that is run with patience; each task that it changes takes about half of one. The embedded
 * database is given up after five minutes of silence.
 */
const patience = 240_000

/** How many may wait for the one that is run with patience. */
const mostPatient = 100

const tooMany = () => new DatabaseUnavailable({ cause: new Error('too many statements wait') })

/** The same database, which runs statements with patience. */
export const patiently = (db: Database): Database => ({
  ...db,
  run: (text, values) => db.run(text, values, 'patient'),
})

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

  const runOnPool = async (text: string, values: readonly unknown[], prepare: boolean, limit = deadline) => {
    if (pending >= mostPending) throw tooMany()
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
    return within(limit, rows, () => {
      giveUp(used)
      return noAnswer(limit)
    })
  }

  const inTurn = boundedQueue({ concurrency: 1, maxQueue: mostPatient, full: tooMany })
  let apart: postgres.Sql | null = null

  /**
   * On a connection of its own, which ends with it: it takes its time from nobody, and nothing is left of a lost one. For a
   * row that another statement changes it waits as long as any.
   */
  const runApart = async (text: string, values: readonly unknown[]): Promise<Rows> => {
    const client = createClient(options, shared)
    apart = client
    const rows = client.begin(async (transaction) => {
      await transaction.unsafe(
        `set local statement_timeout = ${patience}; set local lock_timeout = ${statementTimeout}`,
      )
      return transaction.unsafe<Record<string, unknown>[]>(text, values as never[])
    })
    try {
      return await within<Rows>(patience + deadline, rows, () => noAnswer(patience + deadline))
    } finally {
      apart = null
      void client.end({ timeout: 2 })
    }
  }

  const runPatiently = async (text: string, values: readonly unknown[]): Promise<Rows> => {
    if (options.kind === 'embedded') return runOnPool(text, values, true, patience)
    pending += 1
    try {
      return await inTurn(() => runApart(text, values))
    } finally {
      pending -= 1
    }
  }

  const runOnce = (text: string, values: readonly unknown[], manner: Manner): Promise<Rows> =>
    manner === 'patient' ? runPatiently(text, values) : runOnPool(text, values, manner === 'prepared')

  return {
    async run(text, values, manner = 'prepared') {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await runOnce(text, values, manner)
        } catch (error) {
          if (attempt >= attempts || !isTransient(error)) throw translateError(error)
        }
      }
    },
    pending: () => pending,
    async close() {
      await Promise.all([endAll(pool, 5), apart?.end({ timeout: 5 })])
    },
  }
}

const noAnswer = (milliseconds: number) =>
  new DatabaseUnavailable({ cause: new Error(`no answer in ${milliseconds} ms`) })

const leastBusyOf = (pool: Pool): Connection =>
  pool.reduce((least, one) => (one.pending < least.pending ? one : least))

const isIdle = ({ pending }: Connection): boolean => pending === 0

/** Ends connections when what runs on them has finished, or after so many seconds. */
const endAll = async (pool: Pool, timeout: number): Promise<void> => {
  await Promise.all(pool.map(({ client }) => client.end({ timeout })))
}
