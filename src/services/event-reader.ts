import type { FastifyBaseLogger } from 'fastify'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { background, runAs } from '../concurrency/work.ts'
import type { Database } from '../db/engine/client.ts'
import { DatabaseUnavailable } from '../db/engine/errors.ts'
import {
  hasEventsAfter,
  selectEventsForViewers,
  type SharedEvent,
  type StreamedEvent,
} from '../db/event-stream.ts'
import { encodeEventPosition, type EventPosition, isAfter } from '../domain/event-positions.ts'
import { serverSentEvent } from '../domain/server-sent-events.ts'
import { type EventStream, type OpenStreams, sendTo } from './event-stream.ts'

/**
 * The reader of events of a process. It reads each event once, asks once which of the connected users see it, and sends it to
 * their streams.
 */
export interface EventReader {
  /** Events up to here were sent to the live streams, or are being sent. */
  position(): EventPosition
  /** Whether they are being sent. */
  isSending(): boolean
  /**
   * Takes over a stream that has caught up. Resolves to false if there have been events since then, which the stream has to
   * read first.
   */
  join(stream: EventStream): Promise<boolean>
  /** Resolves when its last statement has ended. */
  stop(): Promise<void>
}

interface ReaderDeps {
  readonly db: Database
  readonly log: FastifyBaseLogger
  readonly streams: OpenStreams
  /** Runs before events are read. */
  readonly prepare: () => Promise<void>
}

/** Milliseconds between two questions for new events. */
const pollInterval = 200

/** Events per statement. */
const maxEvents = 200

/** Pairs of an event and a connected user per statement: whether the user sees the event is a question for each. */
const maxPairs = 5_000

/** Streams that an event is sent to per iteration of the event loop. */
const maxPerIteration = 100

/** Starts to read the events after `start`. */
export const startReader = (start: EventPosition, { db, log, streams, prepare }: ReaderDeps): EventReader => {
  const stopping = new AbortController()
  let position = start
  /** Set while a statement asks for the viewers of events: it does not ask about users who connect meanwhile. */
  let asking: Promise<unknown> | null = null
  let isSending = false

  const ask = async (): Promise<readonly SharedEvent[]> => {
    const users = streams.users()
    const limit = Math.max(1, Math.min(maxEvents, Math.floor(maxPairs / Math.max(1, users.length))))
    const forAdmins = [...streams.all].some(({ all }) => all)
    const { events, end } = await selectEventsForViewers(db, { after: position, users, forAdmins, limit })
    // Before the events are sent: a stream that joins meanwhile has read them itself.
    position = end
    return events
  }

  const readOn = async (): Promise<void> => {
    await prepare()
    for (;;) {
      const isBehind = stopping.signal.aborted ? false : await hasEventsAfter(db, position)
      // The database was replaced by another one. Clients learn that when they resume.
      if (isBehind === null) for (const stream of streams.all) streams.end(stream)
      if (isBehind !== true) return
      const asked = ask().finally(() => (asking = null))
      asking = asked.catch(() => undefined)
      const events = await asked
      isSending = true
      await sendToViewers(events, streams, stopping.signal)
      isSending = false
    }
  }

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await runAs({ principal: background, isAbandoned: () => false, sent: [] }, readOn)
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable))
          log.warn({ err: error }, 'Events could not be read for streams')
      }
      await pause(pollInterval, undefined, { ref: false, signal: stopping.signal }).catch(() => undefined)
    }
  }
  const running = run()

  const join = async (stream: EventStream): Promise<boolean> => {
    if (asking !== null) {
      await asking
      return join(stream)
    }
    if (isAfter(position, stream.position)) return false
    stream.isLive = true
    return true
  }

  return {
    position: () => position,
    isSending: () => isSending,
    join,
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** The text of an event for clients. */
export const textOf = ({ position, type, json }: StreamedEvent): string =>
  serverSentEvent({ id: encodeEventPosition(position), type, data: json })

/** Stops when the reader does: streams that are opened after that belong to another one. */
const sendToViewers = async (
  events: readonly SharedEvent[],
  streams: OpenStreams,
  stop: AbortSignal,
): Promise<void> => {
  let sent = 0
  for (const event of events) {
    const text = Buffer.from(textOf(event))
    for (const stream of recipientsOf(event, streams)) {
      if (sent === maxPerIteration || stream.content.readableLength > 0) {
        // The connections take what was sent to them: a client is not slow because much happened at once.
        await nextTurn()
        sent = 0
      }
      if (stop.aborted) return
      if (!streams.all.has(stream) || !stream.isLive || !isAfter(event.position, stream.position)) continue
      sendTo(stream, text)
      sent += 1
    }
  }
}

/** A copy: streams end meanwhile. */
const recipientsOf = (
  { viewers, isForAdmins }: SharedEvent,
  streams: OpenStreams,
): readonly EventStream[] => {
  const ofViewers = viewers.flatMap((userId) => [...streams.ofUser(userId)].filter(({ all }) => !all))
  const ofAdmins = isForAdmins ? [...streams.all].filter(({ all }) => all) : []
  return [...ofViewers, ...ofAdmins]
}
