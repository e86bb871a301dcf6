import { setTimeout as pause } from 'node:timers/promises'
import { withTimeout } from '../../concurrency/deadline.ts'
import { fairQueue } from '../../concurrency/fair-queue.ts'
import { type TimeBudget, timeBudget } from '../../concurrency/time-budget.ts'
import { background, currentWork, type Work, writes } from '../../concurrency/work.ts'
import { maxStatementTime, type ServerConnection } from './connection.ts'
import {
  isReadOnly,
  isRolledBack,
  isTransient,
  isUnavailable,
  NoAnswer,
  NotSent,
  OutcomeUnknown,
  TooManyConflicts,
  TooManyStatements,
  translateError,
} from './errors.ts'
import { listenForNotifications, type NotificationListener } from './notifications.ts'
import { chooseOftenUsed } from './often-used.ts'
import { maxConnections, openPool } from './pool.ts'
import type { ResultRow, StatementMode } from './session.ts'
import { type Last, type Runner, runTransaction, type Transaction } from './transaction.ts'

/** A database that statements run on. */
export interface Database extends Runner {
  /**
   * Runs one statement, and retries it after a deadlock or a serialization failure. Statements of all callers share the
   * connections fairly (`concurrency/fair-queue.ts`).
   *
   * @throws ConstraintViolation when it violates a constraint
   * @throws TooManyConflicts when every attempt met a deadlock or a serialization failure
   * @throws TooManyStatements when too many statements of its caller are waiting, or a caller over their budget has waited in vain
   * @throws OutcomeUnknown when it writes, was sent, and got no response
   * @throws DatabaseUnavailable when the database cannot be reached, does not respond in time, or too many statements
   *   are waiting; a statement that writes has then changed nothing
   */
  readonly run: Runner['run']
  /**
   * Runs `body` as a transaction, and repeats it after a deadlock or a serialization failure. Until it ends, nothing but the
   * database may be awaited, and `run` and `transaction` throw: they would wait for another session. Triggers record events in the
   * name of `actor`.
   *
   * @throws OutcomeUnknown when the commit was sent but not answered
   * @throws DatabaseUnavailable, TooManyConflicts, TooManyStatements, ConstraintViolation as `run` does, and the errors of `body`; nothing was done
   */
  transaction<T>(body: (transaction: Transaction) => Promise<T | Last<T>>, actor: string | null): Promise<T>
  /** Listens for notifications until `close`. */
  listen(channel: string, listener: NotificationListener): void
  /** The number of statements that are running or waiting for a connection. */
  pending(): number
  /** Waits up to 5 seconds for running statements. */
  close(): Promise<void>
}

const attempts = 9

/** Milliseconds that the first pause takes at most. Each one can be twice as long as the one before: 2.5 s in all, half of that on average. */
const firstPause = 10

/** Statements that may wait for a connection: in total, and per caller. */
const maxWaitingInAll = 2_000
const maxWaitingPerPrincipal = 200

/**
 * Milliseconds that a statement may wait for a connection, and then again for its result. A server cancels a statement earlier
 * (`maxStatementTime`), so after this time its connection is dead. A transaction waits twice, for its slot and for a connection, and has
 * this time for all of its statements.
 */
const defaultDeadline = 10_000

/** Minimum milliseconds between two replacements of connections to a read-only server. */
const readOnlyPause = 1_000

/**
 * Connections that may hold a transaction. Transactions that wait for the same row leave the others for reads.
 */
const maxTransactions = 7

/**
 * Connections that one caller may use at a time, unless they are over their budget: statements count towards that when they end, so a
 * burst of slow ones would hold all connections until then. With five, the batches of one user occupied both processors of a small
 * machine, and another user waited twice as long as with three.
 */
const maxConnectionsPerPrincipal = 3

/**
 * Milliseconds that a statement or a transaction counts towards the budget of its caller, at most. Beyond the time of a read, it has
 * mostly waited for the locks of others: the one who waits is not the one to slow down.
 */
const maxCharge = maxStatementTime

/** Opens a database. It connects at the first statement. */
export const openDatabase = (
  options: ServerConnection,
  deadline: number = defaultDeadline,
  budget: TimeBudget = timeBudget(),
): Database => {
  const pool = openPool(options)
  const modeOfOften = chooseOftenUsed()
  const listening: ReturnType<typeof listenForNotifications>[] = []

  const queueFor = (concurrency: number) =>
    fairQueue({
      concurrency,
      share: Math.min(maxConnectionsPerPrincipal, concurrency),
      isOverBudget: budget.isOverBudget,
      maxWaiting: maxWaitingPerPrincipal,
      maxWaitingInAll,
      maxWait: deadline,
      refuse: (reason) =>
        reason === 'caller_busy'
          ? new TooManyStatements()
          : new NotSent({ cause: new Error(refusals[reason]) }),
    })
  const queue = queueFor(maxConnections)
  const transactions = queueFor(maxTransactions)

  /** Runs a task that occupies a session, when it is the turn of its caller. */
  const inTurn = <T>(work: Work, task: () => Promise<T>): Promise<T> =>
    queue.run(work, async () => {
      const startedAt = performance.now()
      try {
        return await task()
      } finally {
        budget.spend(work, Math.min(performance.now() - startedAt, maxCharge))
      }
    })

  let leftReadOnlyAt = Number.NEGATIVE_INFINITY

  /**
   * Opens new sessions for later statements when the server is read-only. After a failover, the old primary is a standby and
   * the address may lead to the new primary. Statements on the old sessions finish. If the server stays read-only, reads
   * continue to work.
   */
  const leaveReadOnly = (): void => {
    if (performance.now() < leftReadOnlyAt + readOnlyPause) return
    leftReadOnlyAt = performance.now()
    pool.replace(deadline / 1_000)
  }

  const failed = (error: unknown): void => {
    // The driver itself would keep sending statements on unresponsive sessions.
    if (error instanceof NoAnswer) pool.replace(2)
    else if (isReadOnly(error)) leaveReadOnly()
  }

  const send = async (
    work: Work,
    text: string,
    values: readonly unknown[],
    mode: StatementMode,
  ): Promise<readonly ResultRow[]> => {
    const { answer, wasSent } = pool.take().send(text, values, mode)
    work.sent.push(text)
    try {
      const { rows } = await withTimeout(deadline, answer, () => new NoAnswer(deadline))
      return rows
    } catch (error) {
      const mayHaveRun = wasSent() && !isRolledBack(error)
      if (!mayHaveRun) work.sent.splice(work.sent.indexOf(text), 1)
      failed(error)
      throw mayHaveRun && writes(text) && isUnavailable(error) ? new OutcomeUnknown({ cause: error }) : error
    }
  }

  const transact = async <T>(
    work: Work,
    actor: string | null,
    body: (transaction: Transaction) => Promise<T | Last<T>>,
  ): Promise<T> => {
    const session = pool.take()
    session.isHeld = true
    // Its statements may have waited for several rows in turn, so that a server without an answer in time can be well.
    const failedWithin = (error: unknown): void => {
      if (error instanceof NoAnswer) void session.end(0)
      else failed(error)
    }
    try {
      return await runTransaction(session, { work, limit: deadline, actor, failed: failedWithin }, body)
    } finally {
      pool.release(session)
    }
  }

  /**
   * Repeats a task whose error says that it may succeed then: it was certainly rolled back. The pauses are random, so that those that
   * conflict with each other do not all come again at once.
   */
  const repeatedly = async <T>(task: () => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await task()
      } catch (error) {
        if (!isTransient(error)) throw translateError(error)
        if (attempt >= attempts) throw new TooManyConflicts({ cause: error })
        await pause(Math.random() * firstPause * 2 ** (attempt - 1))
      }
    }
  }

  /**
   * Runs a statement outside of transactions. The limit of reads is for what somebody waits for: a statement of a job is a transaction of
   * its own, which has another limit. It takes no slot of transactions, since those may all wait for a row, and event streams for it.
   */
  const runAlone: (...statement: Parameters<typeof send>) => Promise<readonly ResultRow[]> = (
    work,
    text,
    values,
    mode,
  ) =>
    work.caller === background
      ? transact(work, null, (transaction) => transaction.run(text, values, mode))
      : send(work, text, values, mode)

  return {
    run: async (text, values, runMode = 'prepared') => {
      const work = workOutsideTransactions()
      const mode = runMode === 'often' ? modeOfOften(text, work.caller) : runMode
      return repeatedly(() => inTurn(work, () => runAlone(work, text, values, mode)))
    },
    transaction: async (body, actor) => {
      const work = workOutsideTransactions()
      return repeatedly(() => transactions.run(work, () => inTurn(work, () => transact(work, actor, body))))
    },
    listen(channel, listener) {
      listening.push(listenForNotifications(options, channel, listener))
    },
    pending: () => queue.pending() + transactions.waiting(),
    async close() {
      await Promise.all([pool.close(5), ...listening.map((client) => client.end({ timeout: 0 }))])
    },
  }
}

const workOutsideTransactions = (): Work => {
  const work = currentWork()
  if (work.isInTransaction === true)
    throw new Error('A transaction is open: run the statement with it, not with the database')
  return work
}

const refusals = {
  busy: 'too many statements wait',
  late: 'no connection was free in time',
  abandoned: 'its request has ended',
} as const
