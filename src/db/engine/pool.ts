import type { ServerConnection } from './connection.ts'
import { openSession, type Session } from './session.ts'
import { rateLimitedSockets } from './sockets.ts'

/** Sessions per process. */
export const maxConnections = 10

/** Milliseconds after which a session is replaced: its memory grows, and the address may lead to another server. */
const maxAge = 45 * 60_000

/** The sessions of a process. Sessions that were lost are replaced when the next statement needs one. */
interface Pool {
  /** The session with the fewest statements, among those that no transaction holds. */
  take(): Session
  /** Gives back a session that a transaction has held. */
  release(session: Session): void
  /** Replaces all sessions. Those in use end with their statements or transaction, or after `seconds`. */
  replace(seconds: number): void
  /** Ends all sessions when their statements have been answered, or after `seconds`. */
  close(seconds: number): Promise<void>
}

/** A pool whose sessions connect at their first statement. */
export const openPool = (options: ServerConnection): Pool => {
  // Shared, so that the rate limit applies to all sessions together.
  const openSocket = rateLimitedSockets()
  const open = (): Session => openSession(options, openSocket)
  const openAll = (): Session[] => Array.from({ length: maxConnections }, open)
  const isAged = ({ openedAt }: Session): boolean => performance.now() > openedAt + maxAge
  let sessions = openAll()

  const renew = (session: Session): Session => {
    const mayEnd = session.isLost() || (session.pending() === 0 && isAged(session))
    if (session.isHeld || !mayEnd) return session
    void session.end(0)
    return open()
  }

  return {
    take() {
      sessions = sessions.map(renew)
      const [first, ...others] = sessions.filter(({ isHeld }) => !isHeld)
      if (first === undefined) throw new Error('Every session is held by a transaction')
      return others.reduce((least, one) => (one.pending() < least.pending() ? one : least), first)
    },
    release(session) {
      session.isHeld = false
      if (!sessions.includes(session)) void session.end(0)
    },
    replace(seconds) {
      const old = sessions
      sessions = openAll()
      for (const session of old) if (!session.isHeld) void session.end(seconds)
    },
    async close(seconds) {
      await Promise.all(sessions.map((session) => session.end(seconds)))
    },
  }
}
