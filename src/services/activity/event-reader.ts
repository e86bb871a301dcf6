import type { FastifyBaseLogger } from 'fastify'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { background, runAs } from '../../concurrency/work.ts'
import type { Database } from '../../db/engine/client.ts'
import { isOutage } from '../../db/engine/errors.ts'
import {
  hasEventsAfter,
  selectEventsForViewers,
  type SharedEvent,
  type StreamedEvent,
} from '../../db/activity/event-stream.ts'
import { encodeEventPosition, type EventPosition, isAfter } from '../../domain/activity/event-positions.ts'
import { serverSentEvent } from '../../domain/activity/server-sent-events.ts'
import { type EventStream, type OpenStreams, sendTo } from './event-stream.ts'

/**
 * The event reader of a process. It reads each event once for all streams, selects which of the connected users can see it, and
 * sends it to their streams.
 */
export interface EventReader {
  /** The events up to this position were sent to the live streams, or are being sent. */
  position(): EventPosition
  /** Whether events are being sent at the moment. */
  isSending(): boolean
  /**
   * Takes over a stream that has caught up. Resolves to false if there are newer events, which the stream has to read first.
   */
  join(stream: EventStream): Promise<boolean>
  /** Stops reading. Resolves when the last statement has ended. */
  stop(): Promise<void>
}

interface ReaderDeps {
  readonly db: Database
  readonly log: FastifyBaseLogger
  readonly streams: OpenStreams
  /** Runs before events are read. */
  readonly prepare: () => Promise<void>
}

/** Milliseconds between two queries for new events. */
const pollInterval = 200

/** Events per statement. */
const maxEvents = 200

/** Pairs of an event and a connected user per statement. The statement checks access for each pair. */
const maxPairs = 5_000

/** Streams that an event is sent to per iteration of the event loop. */
const maxPerIteration = 100

/** Starts to read the events after `start`. */
export const startReader = (start: EventPosition, { db, log, streams, prepare }: ReaderDeps): EventReader => {
  const stopping = new AbortController()
  let position = start
  /** Set while a statement selects the viewers of events. It does not include users who connect in the meantime. */
  let asking: Promise<unknown> | null = null
  let isSending = false

  const ask = async (): Promise<readonly SharedEvent[]> => {
    const users = streams.users()
    const limit = Math.max(1, Math.min(maxEvents, Math.floor(maxPairs / Math.max(1, users.length))))
    const forAdmins = [...streams.all].some(({ all }) => all)
    const { events, end } = await selectEventsForViewers(db, { after: position, users, forAdmins, limit })
    // Set before the events are sent: a stream that joins in the meantime has read them itself.
    position = end
    return events
  }

  /** Ends a stream that lacks an event which the reader has passed. Its client reads it when it resumes. */
  const endIncomplete = (stream: EventStream, error: unknown): void => {
    log.warn({ err: error }, 'An event could not be sent to a stream, which was ended')
    stream.content.destroy()
  }

  const readOn = async (): Promise<void> => {
    await prepare()
    for (;;) {
      const isBehind = stopping.signal.aborted ? false : await hasEventsAfter(db, position)
      // Another database was restored. Clients are told when they resume.
      if (isBehind === null) for (const stream of streams.all) streams.end(stream)
      if (isBehind !== true) return
      const asked = ask().finally(() => (asking = null))
      asking = asked.catch(() => undefined)
      const events = await asked
      isSending = true
      await sendToViewers(events, streams, { stop: stopping.signal, failed: endIncomplete }).finally(
        () => (isSending = false),
      )
    }
  }

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await runAs({ caller: background, isAbandoned: () => false, sent: [] }, readOn)
      } catch (error) {
        if (!isOutage(error)) log.warn({ err: error }, 'Events could not be read for streams')
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

interface Sending {
  /** Streams that are opened after the reader has stopped belong to its successor. */
  readonly stop: AbortSignal
  /** Called with a stream that an event could not be sent to. */
  readonly failed: (stream: EventStream, error: unknown) => void
}

const sendToViewers = async (
  events: readonly SharedEvent[],
  streams: OpenStreams,
  { stop, failed }: Sending,
): Promise<void> => {
  let sent = 0
  for (const event of events) {
    let text: Buffer | undefined
    for (const stream of recipientsOf(event, streams)) {
      if (sent === maxPerIteration || stream.content.readableLength > 0) {
        // Lets the connections write their buffers, so that a burst of events does not make a client look slow.
        await nextTurn()
        sent = 0
      }
      if (stop.aborted) return
      if (!streams.all.has(stream) || !stream.isLive || !isAfter(event.position, stream.position)) continue
      try {
        sendTo(stream, (text ??= Buffer.from(textOf(event))))
      } catch (error) {
        failed(stream, error)
      }
      sent += 1
    }
  }
}

/** The streams that get an event: a copy, since streams can end while it is sent. */
const recipientsOf = (
  { viewers, isForAdmins }: SharedEvent,
  streams: OpenStreams,
): readonly EventStream[] => {
  const viewerStreams = viewers.flatMap((userId) =>
    [...streams.userStreams(userId)].filter(({ all }) => !all),
  )
  const adminStreams = isForAdmins ? [...streams.all].filter(({ all }) => all) : []
  return [...viewerStreams, ...adminStreams]
}
