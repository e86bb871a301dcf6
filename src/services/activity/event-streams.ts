import type { FastifyBaseLogger } from 'fastify'
import { Readable } from 'node:stream'
import type { Credentials } from '../../auth/credentials.ts'
import { runAs } from '../../concurrency/work.ts'
import type { EventStreamBody } from '../../contract/event-stream.ts'
import type { Database } from '../../db/engine/client.ts'
import { selectStreamStart } from '../../db/activity/event-stream.ts'
import {
  beginningOf,
  encodeEventPosition,
  type EventPosition,
} from '../../domain/activity/event-positions.ts'
import type { BearerPrincipal } from '../../domain/shared/permissions.ts'
import { reconnectionTime, serverSentEvent } from '../../domain/activity/server-sent-events.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from '../shared/context.ts'
import { type EventReader, startReader } from './event-reader.ts'
import { createCatchUp } from './event-stream-catch-up.ts'
import { watchCredentials } from './event-stream-credentials.ts'
import { createHeartbeats, nextSlot } from './event-stream-heartbeats.ts'
import { createOpenStreams, type EventStream } from './event-stream.ts'
import { expectMayListAll } from '../shared/expectations.ts'

/** Event streams. A stream that begins in the past catches up by itself, and is then served by the event reader. */
export interface EventStreams {
  /** @throws Problem 403, or 410 if events after `after` may have been removed */
  open(ctx: OpContext<BearerPrincipal>, request: StreamRequest): Promise<EventStreamBody>
  /** Ends all streams. Their clients reconnect to another process. */
  close(): Promise<void>
}

interface StreamRequest {
  /** The position of the last event that the client has received; null to start with the next event. */
  readonly after: EventPosition | null
  /** Whether to stream all events of the installation. */
  readonly all: boolean
  /** When the access token expires, in milliseconds since the epoch. */
  readonly expiresAt: number
}

interface StreamDeps {
  /** The database of the event reader, which waits during outages. */
  readonly db: Database
  readonly credentials: Credentials
  readonly log: FastifyBaseLogger
  /** Milliseconds between two heartbeats of a stream. */
  readonly heartbeat: number
  /** The current time, in milliseconds since the epoch. */
  readonly now: () => number
  /** Maximum number of open streams of this process. */
  readonly limit: number
}

/** Maximum number of open streams per user. */
export const maxStreamsPerUser = 20

/** Maximum number of open streams per process. 5,000 take 113 MiB. */
export const maxStreams = 10_000

/** Milliseconds until a client reconnects. Random, so that the clients of a stopped process do not reconnect all at once. */
const reconnectAfter = (): number => 1_000 + Math.floor(Math.random() * 4_000)

/** The event reader and the heartbeats run only while a stream is open. */
export const createEventStreams = ({
  db,
  credentials,
  log,
  heartbeat: interval,
  now,
  limit,
}: StreamDeps): EventStreams => {
  let reader: EventReader | null = null
  let stopped: Promise<void> = Promise.resolve()
  let isClosed = false

  const streams = createOpenStreams(() => {
    heartbeats.stop()
    stopped = reader?.stop() ?? stopped
    reader = null
  })
  const heartbeats = createHeartbeats(streams, { interval, now })
  const streamCredentials = watchCredentials(credentials, streams, db)
  const catchUp = createCatchUp(() => reader)

  const ensureReader = (position: EventPosition): void => {
    if (reader !== null) return
    streamCredentials.restart()
    reader = startReader(position, { db, log, streams, prepare: streamCredentials.check })
    heartbeats.start(reader)
  }

  const begin = (
    { principal, db: database }: Pick<OpContext<BearerPrincipal>, 'principal' | 'db'>,
    { all, expiresAt }: StreamRequest,
    { from, newest }: { readonly from: EventPosition; readonly newest: EventPosition },
  ): Readable => {
    if (isClosed) throw problems.serviceUnavailable('The service is stopping. Retry in a few seconds.')
    if (streams.all.size >= limit) throw problems.serviceUnavailable('Too many event streams are open.')
    if (streams.userStreams(principal.userId).size >= maxStreamsPerUser)
      throw problems.tooManyStreams(maxStreamsPerUser)
    ensureReader(newest)
    const work = { caller: principal.userId, isAbandoned: () => content.destroyed, sent: [] }
    let isCatchingUp = false
    const content = new Readable({
      read() {
        catchUp.release(stream)
        if (stream.isLive || isCatchingUp) return
        isCatchingUp = true
        runAs({ ...work, sent: [] }, () => catchUp.run(stream, database))
          // The client resumes after the last event that it has received.
          .catch(() => streams.end(stream))
          .finally(() => (isCatchingUp = false))
      },
    })
    const stream: EventStream = {
      principal,
      all,
      expiresAt,
      content,
      slot: nextSlot(streams),
      position: from,
      isLive: false,
      unread: 0,
    }
    streams.add(stream)
    content.once('close', () => catchUp.release(stream))
    const ready = serverSentEvent({ id: encodeEventPosition(from), type: 'ready', data: '{}' })
    content.push(`${reconnectionTime(reconnectAfter())}${ready}`)
    return content
  }

  return {
    async open(ctx, request) {
      expectMayListAll(ctx, request)
      const { after } = request
      const { principal, db } = ctx
      const { newest, isKnown } =
        after === null && reader !== null
          ? { newest: reader.position(), isKnown: true }
          : await selectStreamStart(db, after ?? beginningOf(1))
      if (after !== null && !isKnown) throw problems.eventsForgotten()
      return { begin: () => begin({ principal, db }, request, { from: after ?? newest, newest }) }
    },
    async close() {
      isClosed = true
      for (const stream of streams.all) streams.end(stream)
      await stopped
    },
  }
}
