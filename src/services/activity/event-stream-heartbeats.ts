import { encodeEventPosition, isAfter } from '../../domain/activity/event-positions.ts'
import { heartbeat } from '../../domain/activity/server-sent-events.ts'
import type { EventReader } from './event-reader.ts'
import { type EventStream, type OpenStreams, sendTo } from './event-stream.ts'

export interface Heartbeats {
  start(reader: EventReader): void
  stop(): void
}

/** Heartbeats are spread over this many parts of their interval. */
const slots = 15

/** The slot of the next stream that is opened. */
export const nextSlot = ({ all }: OpenStreams): number => all.size % slots

/** Heartbeats of the open streams. Each stream gets one per `interval`, in milliseconds. */
export const createHeartbeats = (
  streams: OpenStreams,
  { interval, now }: { readonly interval: number; readonly now: () => number },
): Heartbeats => {
  let turn = 0
  let timer: NodeJS.Timeout | undefined
  return {
    start(reader) {
      timer = setInterval(() => {
        turn = (turn + 1) % slots
        sendHeartbeats(streams, { slot: turn, now: now() }, reader)
      }, interval / slots)
      timer.unref()
    },
    stop() {
      clearInterval(timer)
    },
  }
}

/** Ends streams whose token has expired, and sends heartbeats to the streams of a slot. */
const sendHeartbeats = (
  streams: OpenStreams,
  { slot, now }: { readonly slot: number; readonly now: number },
  reader: EventReader,
): void => {
  const reached = reader.position()
  const upToDate = Buffer.from(heartbeat(encodeEventPosition(reached)))
  for (const stream of streams.all) {
    if (stream.expiresAt <= now) streams.end(stream)
    else if (stream.slot !== slot || isReadSlowly(stream)) continue
    else if (stream.isLive && reader.isSending()) sendTo(stream, heartbeatAlone)
    else if (stream.isLive && !isAfter(stream.position, reached)) sendTo(stream, upToDate)
    else sendTo(stream, Buffer.from(heartbeat(encodeEventPosition(stream.position))))
  }
}

/** A heartbeat without a position: while events are being sent, a stream may have received only some of them. */
const heartbeatAlone = Buffer.from(heartbeat(null))

/** Whether the client of a catching-up stream has unread text. */
const isReadSlowly = ({ isLive, content }: EventStream): boolean => !isLive && content.readableLength > 0
