import type { Changed } from '../../auth/credentials.ts'
import type { RateLimitPolicy } from '../../contract/contract.ts'
import type { RequestCount } from '../../http/request-counts.ts'
import type { ProcessMetrics } from '../../observe/metrics.ts'

/** What may be done by so many at a time on a host, whichever process they are in. */
export type QueueName = 'hashes'

/** What a worker asks of the primary. */
export interface PrimaryCalls {
  /** Says that the worker can be called. */
  hello(input: null): Promise<null>
  /** Says where the worker answers requests, once it does. */
  ready(url: string): Promise<null>
  /** Answered at once by a primary that does not hang. */
  ping(input: null): Promise<null>
  countRequest(input: { readonly policy: RateLimitPolicy; readonly caller: string }): Promise<RequestCount>
  /** Resolves to the number of a turn when that has come, or to null when too many wait for theirs. */
  takeTurn(queue: QueueName): Promise<number | null>
  endTurn(turn: number): Promise<null>
  /** Resolves when all other workers have forgotten. */
  forget(changed: Changed): Promise<null>
}

/** What the primary asks of a worker. */
export interface WorkerCalls {
  /** Says that the schema is up to date. */
  migrated(input: null): Promise<null>
  /** Answered at once by a worker that does not hang. */
  ping(input: null): Promise<null>
  /** Has the worker finish what it has begun, and end. */
  stop(input: null): Promise<null>
  forget(changed: Changed): Promise<null>
  readMetrics(input: null): Promise<ProcessMetrics>
}

/** Calls whose input and answer JSON can carry. */
type Calls<Names extends string> = Readonly<Record<Names, (input: never) => Promise<unknown>>>

type Message =
  | { readonly id: number; readonly call: string; readonly input: unknown }
  | { readonly id: number; readonly answer: unknown }

/** The other end of a channel between two processes. */
export interface Peer<Theirs> {
  /** Stays open when the other process ends before it has answered; see `close`. */
  call<Name extends keyof Theirs & string>(
    name: Name,
    input: InputOf<Theirs[Name]>,
  ): Promise<AnswerOf<Theirs[Name]>>
  /** To be called with everything that comes by the channel. */
  readonly receive: (received: unknown) => void
  /** Rejects the calls that have no answer yet, and all that follow: the other process has ended. */
  readonly close: () => void
}

type InputOf<Call> = Call extends (input: infer Input) => unknown ? Input : never
type AnswerOf<Call> = Call extends (input: never) => Promise<infer Answer> ? Answer : never

/**
 * Calls the other process by `send`, and answers it by `ours`. What is sent in one turn of the event loop travels
 * together: under load a message costs little.
 */
export const connectPeer = <Theirs>(send: (batch: unknown) => void, ours: Calls<string>): Peer<Theirs> => {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let batch: Message[] = []
  let lastId = 0
  let isClosed = false

  const post = (message: Message): void => {
    if (batch.length === 0) setImmediate(flush)
    batch.push(message)
  }
  const flush = (): void => {
    const taskwright = batch
    batch = []
    if (!isClosed) send({ taskwright })
  }

  const handle = async (message: Message): Promise<void> => {
    if ('answer' in message) {
      waiting.get(message.id)?.resolve(message.answer)
      waiting.delete(message.id)
      return
    }
    const answer = await ours[message.call]?.(message.input as never)
    post({ id: message.id, answer })
  }

  return {
    async call(name, input) {
      if (isClosed) throw new PeerGone()
      lastId += 1
      const answered = Promise.withResolvers<unknown>()
      waiting.set(lastId, answered)
      post({ id: lastId, call: name, input })
      return answered.promise as Promise<never>
    },
    receive(received) {
      for (const message of messagesIn(received)) void handle(message)
    },
    close() {
      isClosed = true
      for (const { reject } of waiting.values()) reject(new PeerGone())
      waiting.clear()
    },
  }
}

/** The other process has ended. */
export class PeerGone extends Error {
  override readonly name = 'PeerGone'

  constructor() {
    super('The other process has exited')
  }
}

/** The messages of a batch; none when it is something else that came by the channel. Both ends are this program. */
const messagesIn = (received: unknown): readonly Message[] =>
  typeof received === 'object' && received !== null && 'taskwright' in received
    ? (received.taskwright as readonly Message[])
    : []
