import type postgres from 'postgres'
import { within } from '../domain/deadline.ts'
import { type ConnectionOptions, createClient } from './connection.ts'
import { DatabaseUnavailable, isTransient, translateError } from './errors.ts'

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

/** Opens a database; the first statement connects. */
export const openDatabase = (connection: ConnectionOptions, deadline: number = answerDeadline): Database => {
  let client = createClient(connection)
  let pending = 0

  /**
   * Nothing else ends the connections that lead nowhere: the driver goes on sending statements on them. The embedded
   * database has but one, and a second would have to wait for its end.
   */
  const replace = (silent: postgres.Sql): void => {
    if (silent !== client || connection.kind === 'embedded') return
    client = createClient(connection)
    void silent.end({ timeout: 2 })
  }

  const runOnce = async (text: string, values: readonly unknown[], prepare: boolean) => {
    if (pending >= mostPending)
      throw new DatabaseUnavailable({ cause: new Error('too many statements wait') })
    pending += 1
    const used = client
    const rows = used
      .unsafe<Record<string, unknown>[]>(text, values as never[], { prepare })
      .finally(() => (pending -= 1))
    return within(deadline, rows, () => {
      replace(used)
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
    close: () => client.end({ timeout: 5 }),
  }
}
