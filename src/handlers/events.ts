import { decodeEventPosition, type EventPosition } from '../domain/activity/event-positions.ts'
import type { ExpiryOf } from '../http/authenticate.ts'
import type { Paging } from '../http/paging.ts'
import { problems } from '../problems/problems.ts'
import type { EventStreams } from '../services/activity/event-streams.ts'
import { listEvents, listTaskEvents } from '../services/activity/events.ts'
import { createdTimes } from './created-times.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly streams: EventStreams
  readonly expiryOf: ExpiryOf
}

/** The operations of the contract's tag `events`. */
export const eventHandlers = ({ paging, streams, expiryOf }: Deps) =>
  ({
    async listEvents(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      const times = createdTimes(filter, ctx.principal.timeZone)
      return respond(await listEvents(ctx, { ...filter, ...times }, request))
    },

    async listTaskEvents(ctx, { path, params, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listTaskEvents(ctx, params.task_id, request))
    },

    async streamEvents(ctx, { query, headers }) {
      const id = headers['last-event-id']
      const after =
        typeof id === 'string' && id !== ''
          ? positionOf(id, '/Last-Event-ID')
          : query.after === undefined
            ? null
            : positionOf(query.after, '/after')
      const expiresAt = expiryOf(headers.authorization)
      return { status: 200, body: await streams.open(ctx, { after, all: query.all ?? false, expiresAt }) }
    },
  }) satisfies Partial<Handlers>

const positionOf = (id: string, pointer: string): EventPosition => {
  const position = decodeEventPosition(id)
  if (position === null)
    throw problems.invalidField(pointer, 'is not an id of this stream; send the last one unchanged')
  return position
}
