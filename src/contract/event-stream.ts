import type { Readable } from 'node:stream'

/** A stream of server-sent events, opened only when it is sent. The client or the service ends it. */
export interface EventStreamBody {
  /** @throws Problem when too many streams are open */
  begin(): Readable
}
