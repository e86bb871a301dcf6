import cluster from 'node:cluster'
import { HashQueueFull, hashQueue } from '../../auth/passwords.ts'
import type { OtherCaches } from '../../auth/credentials.ts'
import type { Config } from '../../config/config.ts'
import type { InTurn } from '../../concurrency/bounded-queue.ts'
import { within } from '../../concurrency/deadline.ts'
import { type CountRequest, countInMemory } from '../../http/request-counts.ts'
import { connectPeer, type Peer, type PrimaryCalls, type QueueName, type WorkerCalls } from './calls.ts'

/** Whether this process is a worker of ours, and not of a process manager that uses node:cluster too. */
export const isWorker = ({ workers }: Pick<Config, 'workers'>): boolean => workers > 1 && cluster.isWorker

/** The process that has started this one, and what all workers do by it as one. */
export interface Primary {
  /** The number of this worker. */
  readonly worker: number
  /** Resolves when the schema is up to date. */
  readonly migrated: Promise<void>
  readonly countRequest: CountRequest
  readonly otherCaches: OtherCaches
  /** The queue that all workers wait in. */
  readonly hashesInTurn: InTurn
  /** Has the primary ask for metrics here. */
  onReadMetrics(read: WorkerCalls['readMetrics']): void
  /** Says where this worker answers requests. */
  ready(url: string): Promise<unknown>
}

/**
 * Connects a worker with its primary. When the primary ends, node:cluster ends the worker at once: nothing waits for an
 * answer that cannot come.
 */
export const connectToPrimary = async (stop: () => void): Promise<Primary> => {
  const migrated = Promise.withResolvers<void>()
  let forget: Parameters<OtherCaches['onForget']>[0] = () => undefined
  let readMetrics: WorkerCalls['readMetrics'] = async () => []

  const calls: WorkerCalls = {
    async migrated() {
      migrated.resolve()
      return null
    },
    ping: async () => null,
    async stop() {
      stop()
      return null
    },
    async forget(changed) {
      forget(changed)
      return null
    },
    readMetrics: (input) => readMetrics(input),
  }
  // Sending fails when the primary has ended, of which this process is about to learn.
  const primary = connectPeer<PrimaryCalls>(
    (batch) => void process.send?.(batch, undefined, {}, () => undefined),
    { ...calls },
  )
  process.on('message', primary.receive)
  await primary.call('hello', null)

  const ask = withinDeadline(primary)
  const countHere = countInMemory()

  /** While the primary does not answer, the worker has a queue of its own. */
  const inTurn =
    (queue: QueueName, here: InTurn, full: () => Error): InTurn =>
    async (task) => {
      const isAnswering = await ask('ping', null).then(
        () => true,
        () => false,
      )
      if (!isAnswering) return here(task)
      const coming = primary.call('takeTurn', queue)
      const turn = await within(maxTurnWait, coming, () => new PrimarySilent()).catch(() => undefined)
      if (turn === null) throw full()
      if (turn === undefined) {
        void coming.then((late) => late !== null && primary.call('endTurn', late))
        return here(task)
      }
      try {
        return await task()
      } finally {
        void primary.call('endTurn', turn)
      }
    }

  return {
    worker: cluster.worker?.id ?? 0,
    migrated: migrated.promise,
    countRequest: (policy, caller) =>
      ask('countRequest', { policy, caller }).catch(() => countHere(policy, caller)),
    otherCaches: {
      forget: (changed) => primary.call('forget', changed),
      onForget: (listener) => void (forget = listener),
    },
    hashesInTurn: inTurn('hashes', hashQueue(), () => new HashQueueFull()),
    onReadMetrics: (read) => void (readMetrics = read),
    ready: (url) => primary.call('ready', url),
  }
}

/** Milliseconds that a request waits for what the primary can answer at once. */
const primaryTimeout = 500

/** Milliseconds that a request waits for its turn; a full queue of password hashes takes two seconds. */
const maxTurnWait = 10_000

/** The primary has not answered in time. */
class PrimarySilent extends Error {
  override readonly name = 'PrimarySilent'

  constructor() {
    super('The primary is not responding')
  }
}

/** Calls with a deadline. Once one has missed it, calls are rejected at once until the primary answers that one. */
const withinDeadline = (primary: Peer<PrimaryCalls>): Peer<PrimaryCalls>['call'] => {
  let isSilent = false
  return async (name, input) => {
    if (isSilent) throw new PrimarySilent()
    const answer = primary.call(name, input)
    try {
      return await within(primaryTimeout, answer, () => new PrimarySilent())
    } catch (error) {
      isSilent = true
      answer.then(
        () => (isSilent = false),
        () => undefined,
      )
      throw error
    }
  }
}
