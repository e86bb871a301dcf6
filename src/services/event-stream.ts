import type { Readable } from 'node:stream'
import type { EventPosition } from '../domain/event-positions.ts'
import type { BearerPrincipal } from '../domain/permissions.ts'

/** A client's open stream of events. */
export interface EventStream {
  readonly principal: BearerPrincipal
  /** Whether an administrator follows everything in the installation. */
  readonly all: boolean
  /** When the access token expires, in milliseconds since the epoch. */
  readonly expiresAt: number
  /** What is sent to the client. */
  readonly content: Readable
  /** Which part of the streams get their heartbeats together. */
  readonly slot: number
  /** Events up to here were sent, unless the user does not see them. */
  position: EventPosition
  /** Whether the reader of the process sends it events; otherwise it is catching up with the reader. */
  isLive: boolean
  /** Bytes of `content` that were read while catching up, and that the client has not read. */
  unread: number
}

/**
 * Bytes that a stream holds for a client that does not read, besides the buffers of its connection and one event. Text of
 * events is shared by the streams that it is sent to.
 */
const maxBacklog = 65_536

/** Sends text to a stream. A client that has not read what was sent before is cut off, and can resume later. */
export const sendTo = ({ content }: EventStream, text: Buffer): void => {
  if (content.readableLength > maxBacklog) content.destroy()
  else content.push(text)
}

/** The open streams of this process. */
export interface OpenStreams {
  readonly all: ReadonlySet<EventStream>
  readonly ofUser: (userId: string) => ReadonlySet<EventStream>
  /** The ids of the users who have a stream. */
  readonly users: () => readonly string[]
  readonly add: (stream: EventStream) => void
  /** Ends a stream after what was sent to it; at once if its client does not read. */
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
    ofUser: (userId) => byUser.get(userId) ?? none,
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
