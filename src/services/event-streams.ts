import type { FastifyBaseLogger } from 'fastify'
import { Readable } from 'node:stream'
import type { Credentials } from '../auth/credentials.ts'
import { runAs } from '../concurrency/work.ts'
import type { EventStreamBody } from '../contract/event-stream.ts'
import type { CredentialChange } from '../db/credential-changes.ts'
import type { Database } from '../db/engine/client.ts'
import type { OpContext } from '../db/engine/context.ts'
import { selectEventsForCaller, selectStreamStart } from '../db/event-stream.ts'
import { credentialId, selectLiveCredentials } from '../db/live-credentials.ts'
import { beginningOf, encodeEventPosition, type EventPosition, isAfter } from '../domain/event-positions.ts'
import type { BearerPrincipal } from '../domain/permissions.ts'
import { heartbeat, reconnectionTime, serverSentEvent } from '../domain/server-sent-events.ts'
import { problems } from '../problems/problems.ts'
import { type EventReader, startReader, textOf } from './event-reader.ts'
import { createOpenStreams, type EventStream, sendTo } from './event-stream.ts'

/** Event streams. A stream that begins in the past catches up by itself, and is then served by the event reader. */
export interface EventStreams {
  /** @throws Problem 410 if events after `after` may have been removed */
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
  /** Maximum number of open streams of this process. */
  readonly limit: number
}

/** Maximum number of open streams per user. */
export const maxStreamsPerUser = 20

/** Maximum number of open streams per process. `npm run bench:streams` measures their cost. */
export const maxStreams = 10_000

/** Milliseconds between two checks of all credentials: how long a revoked credential works if its notification was missed. */
const checkInterval = 5_000

/** Credentials per statement. */
const maxChecked = 1_000

/** Events per statement of a stream that catches up. */
const maxEvents = 200

/** Maximum number of bytes that all catching-up streams together buffer for slow clients. */
const maxUnread = 64 * 1_048_576

/** Heartbeats are spread over this many parts of their interval. */
const slots = 15

/** Milliseconds until a client reconnects. Random, so that the clients of a stopped process do not reconnect all at once. */
const reconnectAfter = (): number => 1_000 + Math.floor(Math.random() * 4_000)

export const createEventStreams = ({
  db,
  credentials,
  log,
  heartbeat: interval,
  limit,
}: StreamDeps): EventStreams => {
  let reader: EventReader | null = null
  let stopped: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false
  let checkedAt = 0

  const streams = createOpenStreams(() => {
    clearInterval(timer)
    stopped = reader?.stop() ?? stopped
    reader = null
  })

  const endRevoked = async (some: readonly EventStream[]): Promise<void> => {
    for (let first = 0; first < some.length; first += maxChecked) {
      const checked = some.slice(first, first + maxChecked)
      const live = await selectLiveCredentials(
        db,
        checked.map(({ principal }) => principal.credential),
      )
      for (const stream of checked) {
        const role = live.get(credentialId(stream.principal.credential))
        if (role === undefined || (stream.all && role !== 'admin')) streams.end(stream)
      }
    }
  }

  const checkCredentials = async (): Promise<void> => {
    if (Date.now() < checkedAt + checkInterval) return
    await endRevoked([...streams.all])
    checkedAt = Date.now()
  }

  credentials.onChange((change) => {
    // A changed session or API token has ended. A changed user may still exist.
    if (change === null) checkedAt = 0
    else if (change.kind === 'user')
      endRevoked([...streams.ofUser(change.userId)]).catch(() => (checkedAt = 0))
    else for (const stream of streams.all) if (hasEnded(stream, change)) streams.end(stream)
  })

  let turn = 0
  /** Ends streams whose token has expired, and sends heartbeats to the streams of the next slot. */
  const sendHeartbeats = (reader: EventReader): void => {
    turn = (turn + 1) % slots
    const now = Date.now()
    const reached = reader.position()
    const upToDate = Buffer.from(heartbeat(encodeEventPosition(reached)))
    for (const stream of streams.all) {
      if (stream.expiresAt <= now) streams.end(stream)
      else if (stream.slot !== turn || isReadSlowly(stream)) continue
      else if (stream.isLive && reader.isSending()) sendTo(stream, heartbeatAlone)
      else if (stream.isLive && !isAfter(stream.position, reached)) sendTo(stream, upToDate)
      else sendTo(stream, Buffer.from(heartbeat(encodeEventPosition(stream.position))))
    }
  }

  const runningReader = (position: EventPosition): EventReader => {
    if (reader !== null) return reader
    checkedAt = Date.now()
    const started = startReader(position, { db, log, streams, prepare: checkCredentials })
    timer = setInterval(() => sendHeartbeats(started), interval / slots)
    timer.unref()
    reader = started
    return started
  }

  /** Total bytes that catching-up streams buffer for their clients. */
  let unread = 0

  /** Sends missed events to a stream, as fast as its client reads, until the reader takes it over. */
  const catchUp = async (stream: EventStream, database: Database): Promise<void> => {
    const { principal, all, content } = stream
    for (;;) {
      if (content.destroyed || reader === null || (await reader.join(stream))) return
      const reached = reader.position()
      const after = stream.position
      const { events, end, isEmpty } = await selectEventsForCaller(database, {
        principal,
        all,
        after,
        limit: maxEvents,
      })
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
  }

  const begin = (
    { principal, db: database }: Pick<OpContext<BearerPrincipal>, 'principal' | 'db'>,
    { all, expiresAt }: StreamRequest,
    { from, newest }: { readonly from: EventPosition; readonly newest: EventPosition },
  ): Readable => {
    if (isClosed) throw problems.serviceUnavailable('The service is stopping. Retry in a few seconds.')
    if (streams.all.size >= limit) throw problems.serviceUnavailable('Too many event streams are open.')
    if (streams.ofUser(principal.userId).size >= maxStreamsPerUser)
      throw problems.tooManyStreams(maxStreamsPerUser)
    runningReader(newest)
    const work = { caller: principal.userId, isAbandoned: () => content.destroyed, sent: [] }
    let isCatchingUp = false
    const content = new Readable({
      read() {
        unread -= stream.unread
        stream.unread = 0
        if (stream.isLive || isCatchingUp) return
        isCatchingUp = true
        runAs({ ...work, sent: [] }, () => catchUp(stream, database))
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
      slot: streams.all.size % slots,
      position: from,
      isLive: false,
      unread: 0,
    }
    streams.add(stream)
    content.once('close', () => (unread -= stream.unread))
    const ready = serverSentEvent({ id: encodeEventPosition(from), type: 'ready', data: '{}' })
    content.push(`${reconnectionTime(reconnectAfter())}${ready}`)
    return content
  }

  return {
    async open(ctx, request) {
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

/** A heartbeat without a position: while events are being sent, a stream may have received only some of them. */
const heartbeatAlone = Buffer.from(heartbeat(null))

/** Whether the client of a catching-up stream has unread text. */
const isReadSlowly = ({ isLive, content }: EventStream): boolean => !isLive && content.readableLength > 0

/** Whether the stream was opened with the changed session or API token. */
const hasEnded = ({ principal: { credential } }: EventStream, change: CredentialChange): boolean =>
  (change.kind === 'session' && credential.kind === 'session' && credential.sessionId === change.sessionId) ||
  (change.kind === 'api_token' && credential.kind === 'api_token' && credential.tokenId === change.tokenId)
