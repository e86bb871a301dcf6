import { Worker } from 'node:worker_threads'
import type { LogFormat } from '../config/config.ts'

/** How long the event loop may be blocked: `maxMissed` times `every` milliseconds. */
export interface WatchdogLimits {
  readonly every: number
  readonly maxMissed: number
}

interface Options {
  /** The format of the log line. */
  readonly format: LogFormat
  /** The number of this process among the workers of a supervisor; null when it has none. */
  readonly worker: number | null
  /** Called when the thread has failed, after which nothing watches the event loop. */
  readonly onError: (error: Error) => void
  readonly limits?: WatchdogLimits
}

/** The `workerData` of the thread. */
export interface WatchdogData extends WatchdogLimits, Pick<Options, 'format' | 'worker'> {
  /** Incremented by a timer of the watched event loop. */
  readonly beats: Int32Array
}

const usualLimits: WatchdogLimits = { every: 1_000, maxMissed: 60 }

/**
 * Kills the process when its event loop is blocked. It could neither answer requests nor handle signals, and a supervisor can
 * replace it. A separate thread, which has its own event loop, watches it.
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
