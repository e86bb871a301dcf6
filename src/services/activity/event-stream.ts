import type { Readable } from 'node:stream'
import type { EventPosition } from '../../domain/activity/event-positions.ts'
import type { BearerPrincipal } from '../../domain/shared/permissions.ts'

/** A client's open stream of events. */
export interface EventStream {
  readonly principal: BearerPrincipal
  /** Whether the stream has all events of the installation (administrators only). */
  readonly all: boolean
  /** When the access token expires, in milliseconds since the epoch. */
  readonly expiresAt: number
  /** The content of the response. */
  readonly content: Readable
  /** Streams of the same slot get their heartbeats at the same time. */
  readonly slot: number
  /** The events up to this position were sent, if the user can see them. */
  position: EventPosition
  /** Whether the event reader of the process serves the stream. Otherwise the stream is catching up with the reader. */
  isLive: boolean
  /** Bytes that were added to `content` while catching up and that the client has not read. */
  unread: number
}

/**
 * Maximum number of bytes that a live stream buffers for a slow client, besides the buffers of the connection and one event.
 * Streams share the text of an event.
 */
const maxBacklog = 65_536

/** Sends text to a stream. A client with a backlog is disconnected; it can resume later. */
export const sendTo = ({ content }: EventStream, text: Buffer): void => {
  if (content.readableLength > maxBacklog) content.destroy()
  else content.push(text)
}

/** The open streams of this process. */
export interface OpenStreams {
  readonly all: ReadonlySet<EventStream>
  readonly userStreams: (userId: string) => ReadonlySet<EventStream>
  /** The ids of the users who have a stream. */
  readonly users: () => readonly string[]
  readonly add: (stream: EventStream) => void
  /** Ends a stream after its pending text, or at once if its client does not read. */
  readonly end: (stream: EventStream) => void
}

const none: ReadonlySet<EventStream> = new Set()

/** `onEmpty` is called when the last stream has ended. */
export const createOpenStreams = (onEmpty: () => void): OpenStreams => {
  const all = new Set<EventStream>()
  const byUser = new Map<string, Set<EventStream>>()

  const remove = (stream: EventStream): void => {
    if (!all.delete(stream)) return
    const { userId } = stream.principal
    const own = byUser.get(userId)
    own?.delete(stream)
    if (own?.size === 0) byUser.delete(userId)
    if (all.size === 0) onEmpty()
  }

  return {
    all,
    userStreams: (userId) => byUser.get(userId) ?? none,
    users: () => [...byUser.keys()],
    add(stream) {
      const { userId } = stream.principal
      const own = byUser.get(userId) ?? new Set()
      byUser.set(userId, own.add(stream))
      all.add(stream)
      stream.content.once('close', () => remove(stream))
    },
    end(stream) {
      const { content } = stream
      remove(stream)
      if (content.readableLength > 0) content.destroy()
      else content.push(null)
    },
  }
}
