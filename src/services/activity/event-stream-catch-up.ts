import type { Database } from '../../db/engine/client.ts'
import { selectEventsForCaller } from '../../db/activity/event-stream.ts'
import { isAfter } from '../../domain/activity/event-positions.ts'
import { type EventReader, textOf } from './event-reader.ts'
import type { EventStream } from './event-stream.ts'

/** Lets streams that begin in the past catch up with the event reader. */
export interface CatchUp {
  /** Sends missed events to a stream, as fast as its client reads, until the reader takes it over. */
  run(stream: EventStream, database: Database): Promise<void>
  /** Subtracts what a stream has buffered, because its client has read it or has disconnected. */
  release(stream: EventStream): void
}

/** Events per statement. */
const maxEvents = 200

/** Maximum number of bytes that all catching-up streams together buffer for slow clients. */
const maxUnread = 64 * 1_048_576

/** `currentReader` returns null when the reader has stopped. */
export const createCatchUp = (currentReader: () => EventReader | null): CatchUp => {
  /** The sum of the streams' `unread`. */
  let unread = 0

  return {
    async run(stream, database) {
      const { principal, all, content } = stream
      for (;;) {
        const reader = currentReader()
        if (content.destroyed || reader === null || (await reader.join(stream))) return
        const reached = reader.position()
        const after = stream.position
        const { events, end, isEmpty } = await selectEventsForCaller(database, {
          principal,
          all,
          after,
          limit: maxEvents,
        })
        // A client that disconnected meanwhile has been released, and would not be again.
        if (content.destroyed) return
        // If there are no events up to the horizon, there are none up to the reader's earlier position either.
        stream.position = isEmpty && isAfter(reached, end) ? reached : end
        if (events.length === 0) continue
        const text = Buffer.from(events.map(textOf).join(''))
        if (unread + text.length > maxUnread) return void content.destroy()
        if (content.push(text)) continue
        unread += text.length
        stream.unread = text.length
        return
      }
    },
    release(stream) {
      unread -= stream.unread
      stream.unread = 0
    },
  }
}
