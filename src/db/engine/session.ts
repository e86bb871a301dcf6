import type { Duplex } from 'node:stream'
import { createClient, type ServerConnection } from './connection.ts'
import { isConnectionLoss } from './errors.ts'
import type { Address } from './sockets.ts'

/**
 * How a statement runs. `prepared`: the session keeps the prepared statement for reuse. `arrays`: the same, and its rows are arrays.
 * `once`: not kept, planned for its values.
 */
export type StatementMode = 'prepared' | 'arrays' | 'once'

/** A row; its columns are numbered in the mode `arrays`. */
export type ResultRow = Readonly<Record<string, unknown>>

/** The rows of a statement, and the tag of its command, such as COMMIT. */
export interface Answer {
  readonly rows: readonly ResultRow[]
  readonly command: string
}

interface SentStatement {
  readonly answer: Promise<Answer>
  /** Whether the driver has started to send the statement. */
  readonly wasSent: () => boolean
}

/**
 * One session of the database. The driver would be a pool of several: that sends the rest of a transaction on another session after
 * a lost connection, and searches, for each statement, a list of all connections used since the pool was last idle (postgres 3.4.9,
 * queue.js).
 */
export interface Session {
  /** Hands a statement to the driver at once. Statements are pipelined in the order of the calls. */
  send(text: string, values: readonly unknown[], mode: StatementMode): SentStatement
  /** Whether the connection was lost or is ended. The session sends nothing any more. */
  isLost(): boolean
  /** The number of statements that have not been answered. */
  pending(): number
  /** Rejects the statements that have not been answered. */
  rejectPending(error: Error): void
  /** Whether a transaction has the session to itself. */
  isHeld: boolean
  /** The `performance.now()` at which the session was opened. */
  readonly openedAt: number
  /** Ends the session when its statements have been answered, or after `seconds`. */
  end(seconds: number): Promise<void>
}

/** A session, which connects at its first statement. */
export const openSession = (
  options: ServerConnection,
  openSocket: (address: Address) => Promise<Duplex>,
): Session => {
  let isLost = false
  let isEnding = false
  const unanswered = new Set<(error: Error) => void>()
  const rejectPending = (error: Error): void => {
    for (const reject of unanswered) reject(error)
  }
  const client = createClient(options, {
    // After a lost connection the driver would send what waits on a new session, outside of its transaction.
    socket: (address) => (isLost ? Promise.reject(connectionLost()) : openSocket(address)),
    onclose() {
      isLost = true
      // After the driver has rejected, with its own errors, what it had sent.
      setImmediate(() => rejectPending(connectionLost()))
    },
  })
  const answerOf = (query: PromiseLike<{ readonly command: string }>): Promise<Answer> => {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    unanswered.add(reject)
    const settle = async (): Promise<void> => {
      try {
        const rows = await query
        resolve({ rows: rows as unknown as readonly ResultRow[], command: rows.command })
      } catch (error) {
        // Before the socket closes: the server says first why it ends the session.
        isLost ||= isConnectionLoss(error)
        reject(error)
      } finally {
        unanswered.delete(reject)
      }
    }
    void settle()
    return promise
  }
  return {
    send(text, values, mode) {
      if (isLost || isEnding) return { answer: Promise.reject(connectionLost()), wasSent: () => false }
      const query = client.unsafe<ResultRow[]>(text, values as never[], {
        prepare: mode !== 'once',
        // Without it, the driver prepares no statement that has no parameters.
        ...(mode !== 'once' && { simple: false }),
      })
      // `state` is null before the driver starts to send (postgres 3.4.9, connection.js).
      return {
        answer: answerOf(mode === 'arrays' ? query.values() : query),
        wasSent: () => !('state' in query) || query.state !== null,
      }
    },
    isLost: () => isLost || isEnding,
    pending: () => unanswered.size,
    rejectPending,
    isHeld: false,
    openedAt: performance.now(),
    end(seconds) {
      isEnding = true
      return client.end({ timeout: seconds })
    },
  }
}

const connectionLost = (): Error =>
  Object.assign(new Error('The connection was lost'), { code: 'CONNECTION_CLOSED' })
