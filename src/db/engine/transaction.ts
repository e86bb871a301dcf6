import { channel } from 'node:diagnostics_channel'
import { startDeadline, withTimeout } from '../../concurrency/deadline.ts'
import { runAs, type Work } from '../../concurrency/work.ts'
import type { AuditEvent } from '../../domain/activity/audit.ts'
import { maxStatementTimeInTransaction } from './connection.ts'
import {
  DatabaseUnavailable,
  isAborted,
  isRolledBack,
  isUnavailable,
  NoAnswer,
  OutcomeUnknown,
  translateError,
} from './errors.ts'
import type { Answer, ResultRow, Session, StatementMode } from './session.ts'

/**
 * How a statement is to run. `often`: `prepared` if it is used often, otherwise `once`, for statements that clients can make any number
 * of. In a transaction, `once`.
 */
export type RunMode = StatementMode | 'often'

/** What statements run on: a database, or a transaction. */
export interface Runner {
  /**
   * Runs one statement.
   *
   * @throws ConstraintViolation when it violates a constraint
   * @throws DatabaseUnavailable when the database cannot be reached or does not respond in time
   */
  readonly run: (text: string, values: readonly unknown[], mode?: RunMode) => Promise<readonly ResultRow[]>
  /** Called with each audit event that was recorded, after its commit. */
  readonly audited?: (event: AuditEvent) => void
}

/** A transaction: its statements run in the order in which they are sent. */
export interface Transaction extends Runner {
  /** The number of statements that were sent. */
  readonly sent: () => number
}

/** A result that is known when the last statement of a transaction has been answered. */
export interface Last<T> {
  readonly last: Promise<T>
}

/**
 * Marks the last statement of a transaction, which is sent together with the commit: the view of what was written. It must only read,
 * because the driver can repeat it after a rollback, and its result must not decide whether to commit.
 */
export const last = <T>(result: Promise<T>): Last<T> => {
  // Nobody awaits it if the transaction fails before.
  result.catch(() => undefined)
  return { last: result }
}

export const isLast = <T>(result: T | Last<T>): result is Last<T> =>
  typeof result === 'object' && result !== null && 'last' in result && result.last instanceof Promise

/**
 * Has a message for each transaction that awaits something other than the database, which blocks others meanwhile: for two turns of
 * the event loop, all of its statements were answered.
 */
export const idleTransactions = channel('taskwright.transaction.idle')

/** Milliseconds after which a server ends the session of a transaction without statements, as of a process that hangs. */
const idleTimeout = 5_000

const commitText = 'commit'

interface Options {
  readonly work: Work
  /** Milliseconds for all statements together. */
  readonly limit: number
  /** The user in whose name triggers record events; null for none. */
  readonly actor: string | null
  /** Called with the driver's error of a statement that failed. */
  readonly failed: (error: unknown) => void
}

/**
 * Runs `body` as a transaction of a session that nothing else uses meanwhile. It is committed when `body` resolves, and rolled back
 * when `body` rejects or a statement fails.
 *
 * @throws OutcomeUnknown when the commit was sent but not answered
 * @throws the error of `body`, or of the first statement that failed; nothing was done
 */
export const runTransaction = async <T>(
  session: Session,
  { work, limit, actor, failed }: Options,
  body: (transaction: Transaction) => Promise<T | Last<T>>,
): Promise<T> => {
  const due = performance.now() + limit
  let late: Error | null = null
  const endDeadline = startDeadline(limit, () => {
    late = new NoAnswer(limit)
    session.rejectPending(late)
  })
  let state: 'open' | 'committing' | 'ended' = 'open'
  let firstError: Error | null = null
  let sent = 0
  let answered = 0

  const expectUsable = (): void => {
    // Its client was told that nothing was done.
    if (work.isAbandoned()) throw new DatabaseUnavailable({ cause: new Error('its request has ended') })
    if (late !== null) throw late
  }

  const answerOf = async (answer: Promise<Answer>): Promise<Answer> => {
    try {
      return await answer
    } catch (error) {
      const isFirst = firstError === null
      firstError ??= asError(error)
      if (isFirst) failed(error)
      throw error
    }
  }

  const reportIdle = (): void => {
    if (!idleTransactions.hasSubscribers || answered < sent) return
    const before = sent
    setImmediate(() =>
      setImmediate(() => {
        if (state === 'open' && sent === before)
          idleTransactions.publish('A transaction awaits something other than the database')
      }),
    )
  }

  const send = async (text: string, values: readonly unknown[], mode: StatementMode): Promise<Answer> => {
    sent += 1
    try {
      return await answerOf(session.send(text, values, mode).answer)
    } finally {
      answered += 1
      reportIdle()
    }
  }

  const commit = async (): Promise<void> => {
    work.sent.push(commitText)
    const { answer, wasSent } = session.send(commitText, [], 'prepared')
    const command = await answerOf(answer).then(
      (reply) => reply.command,
      (error: unknown) => {
        if (isRolledBack(error) || !wasSent()) return 'ROLLBACK'
        throw isUnavailable(error) ? new OutcomeUnknown({ cause: error }) : error
      },
    )
    if (command === 'COMMIT') {
      if (firstError === null) return
      // Only BEGIN itself can have failed: what was sent with it was not part of a transaction.
      throw new OutcomeUnknown({ cause: firstError })
    }
    // The commit of a transaction with a failed statement rolls it back.
    work.sent.splice(work.sent.indexOf(commitText), 1)
    throw firstError ?? new Error('The transaction was rolled back')
  }

  const rollBack = async (): Promise<void> => {
    if (session.isLost()) return
    await withTimeout(
      due - performance.now(),
      session.send('rollback', [], 'prepared').answer,
      () => new NoAnswer(limit),
    ).catch(() => session.end(0))
  }

  const run: Runner['run'] = async (text, values, mode = 'prepared') => {
    if (state !== 'open') throw new Error('The transaction has ended')
    expectUsable()
    if (firstError !== null) throw translateError(firstError)
    try {
      const { rows } = await send(text, values, mode === 'often' ? 'once' : mode)
      return rows
    } catch (error) {
      throw translateError(error)
    }
  }

  const settings = [
    `idle_in_transaction_session_timeout = ${idleTimeout}`,
    `statement_timeout = ${maxStatementTimeInTransaction}`,
  ]
  if (actor !== null) settings.push(`taskwright.actor = '${actor}'`)
  // Not awaited: the first statement of `body` is sent with it. The statements after it fail with it.
  send(['begin', ...settings.map((setting) => `set local ${setting}`)].join('; '), [], 'once').catch(
    () => undefined,
  )
  try {
    const result = await runAs({ ...work, isInTransaction: true }, () => body({ run, sent: () => sent }))
    expectUsable()
    state = 'committing'
    // The commit decides. A view that was sent before it has been answered before.
    await commit()
    return isLast(result) ? await result.last : result
  } catch (error) {
    const isToRollBack = state === 'open'
    state = 'ended'
    if (isToRollBack) await rollBack()
    // A later statement only says that the transaction is aborted, or the session lost.
    throw translateError(
      firstError !== null &&
        (isAborted(error) || (error instanceof DatabaseUnavailable && !(error instanceof OutcomeUnknown)))
        ? firstError
        : error,
    )
  } finally {
    endDeadline()
    state = 'ended'
  }
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
