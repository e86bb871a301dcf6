import { Worker } from 'node:worker_threads'
import type { LogFormat } from '../config/config.ts'

/** How long the event loop may stand still: `maxMissed` times `every` milliseconds. */
export interface WatchdogLimits {
  readonly every: number
  readonly maxMissed: number
}

interface Options {
  /** Of the line of the log. */
  readonly format: LogFormat
  /** The number of this process among the workers. */
  readonly worker: number | null
  readonly onError: (error: Error) => void
  readonly limits?: WatchdogLimits
}

/** What the thread is started with. */
export interface WatchdogData extends WatchdogLimits, Pick<Options, 'format' | 'worker'> {
  /** Counts the turns of the watched event loop's timer. */
  readonly beats: Int32Array
}

const usualLimits: WatchdogLimits = { every: 1_000, maxMissed: 60 }

/**
 * Ends the process when its event loop stands still, since then it answers nothing and does not see a signal either: whoever
 * supervises it starts another. The watch is kept by a thread with an event loop of its own.
 */
export const startWatchdog = ({ format, worker, onError, limits = usualLimits }: Options): void => {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: WatchdogData = { ...limits, format, worker, beats }
  setInterval(() => Atomics.add(beats, 0, 1), limits.every / 2).unref()
  const thread = new Worker(new URL('watchdog-thread.js', import.meta.url), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 },
  })
  thread.on('error', onError)
  thread.unref()
}
