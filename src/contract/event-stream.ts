import type { Readable } from 'node:stream'

/** A stream of server-sent events. It begins when it is sent, and ends when the client or the service ends it. */
export interface EventStreamBody {
  /** @throws Problem when too many streams are open */
  begin(): Readable
}
