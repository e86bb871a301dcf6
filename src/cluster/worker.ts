import cluster from 'node:cluster'
import { HashQueueFull } from '../auth/passwords.ts'
import type { OtherCaches } from '../auth/credentials.ts'
import type { Config } from '../config.ts'
import type { InTurn } from '../domain/bounded-queue.ts'
import type { RequestCounts } from '../http/request-counts.ts'
import { ThumbnailQueueFull } from '../thumbnailer.ts'
import { connectPeer, type PrimaryCalls, type QueueName, type WorkerCalls } from './calls.ts'

/** Whether this process is a worker of ours, and not of a process manager that uses node:cluster too. */
export const isWorker = ({ workers }: Pick<Config, 'workers'>): boolean => workers > 1 && cluster.isWorker

/** The process that has started this one, and what all workers do by it as one. */
export interface Primary {
  /** The number of this worker. */
  readonly worker: number
  /** Resolves when the schema is up to date. */
  readonly migrated: Promise<void>
  readonly requestCounts: RequestCounts
  readonly otherCaches: OtherCaches
  /** The queue that all workers wait in. */
  readonly hashesInTurn: InTurn
  readonly thumbnailsInTurn: InTurn
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

  const inTurn =
    (queue: QueueName, full: () => Error): InTurn =>
    async (task) => {
      const turn = await primary.call('takeTurn', queue)
      if (turn === null) throw full()
      try {
        return await task()
      } finally {
        void primary.call('endTurn', turn)
      }
    }

  return {
    worker: cluster.worker?.id ?? 0,
    migrated: migrated.promise,
    requestCounts: { add: (policy, caller) => primary.call('countRequest', { policy, caller }) },
    otherCaches: {
      forget: (changed) => primary.call('forget', changed),
      onForget: (listener) => void (forget = listener),
    },
    hashesInTurn: inTurn('hashes', () => new HashQueueFull()),
    thumbnailsInTurn: inTurn('thumbnails', () => new ThumbnailQueueFull()),
    onReadMetrics: (read) => void (readMetrics = read),
    ready: (url) => primary.call('ready', url),
  }
}
