import type { FastifyBaseLogger } from 'fastify'
import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '../db/engine/client.ts'
import { isOutage } from '../db/engine/errors.ts'
import { newId } from '../db/shared/ids.ts'
import { takeLease, withLease } from '../db/shared/leases.ts'

/** Background work that is repeated while the service runs. */
export interface Job {
  /** Milliseconds between the starts of two runs. */
  readonly interval: number
  /** Whether the first run starts with the service, rather than one interval later. */
  readonly atStart: boolean
  /** Whether a lease keeps other instances from running the job at the same time. */
  readonly exclusive: boolean
  /** Returns early when `stop` is aborted, between two batches. A run that fails is repeated after the interval. */
  readonly run: (stop: AbortSignal) => Promise<unknown>
}

export interface RunningJobs<Name extends string> {
  /** Runs a job without waiting for its interval, after its current run. */
  wake(name: Name): void
  /** Stops all jobs, and resolves when their current batches are done. */
  close(): Promise<void>
}

interface RunnerDeps {
  readonly db: Database
  readonly log: FastifyBaseLogger
  /** Lease TTL in milliseconds: how long a crashed instance can block an exclusive job of the others. */
  readonly lease: number
}

/** Starts jobs. Each has its own timer, so a slow one does not delay the others; a job has one run at a time. */
export const startJobs = <Name extends string>(
  jobs: Readonly<Record<Name, Job>>,
  { db, log, lease: duration }: RunnerDeps,
): RunningJobs<Name> => {
  const holder = newId()
  const exclusively =
    (name: Name, { run }: Job) =>
    async (stop: AbortSignal): Promise<void> => {
      const lease = { name, holder, duration }
      while (!(await takeLease(db, lease))) {
        await pause(duration / 10, undefined, { ref: false, signal: stop })
      }
      await withLease(db, lease, stop, async (stop) => void (await run(stop)))
    }
  const start = (name: Name): RepeatedRun => {
    const job = jobs[name]
    return repeat(name, { ...job, run: job.exclusive ? exclusively(name, job) : job.run }, log)
  }
  const repeated = new Map(namesOf(jobs).map((name) => [name, start(name)]))
  return {
    wake(name) {
      repeated.get(name)?.wake()
    },
    async close() {
      await Promise.all([...repeated.values()].map((job) => job.close()))
    },
  }
}

/** Runs every job once, one after the other, without leases. A job that fails does not stop the next. */
export const runOnce = async <Name extends string>(
  jobs: Readonly<Record<Name, Job>>,
  log: FastifyBaseLogger,
): Promise<void> => {
  const { signal } = new AbortController()
  for (const name of namesOf(jobs)) await runLogged(name, jobs[name], { stop: signal, log })
}

/** Object.keys with the type of the keys. */
const namesOf = <Name extends string>(jobs: Readonly<Record<Name, Job>>): readonly Name[] => {
  const isName = (key: string): key is Name => Object.hasOwn(jobs, key)
  return Object.keys(jobs).filter(isName)
}

const runLogged = async (
  name: string,
  { run }: Job,
  { stop, log }: { readonly stop: AbortSignal; readonly log: FastifyBaseLogger },
): Promise<void> => {
  try {
    await run(stop)
  } catch (error) {
    if (!stop.aborted && !isExpected(error))
      log.warn({ err: error, job: name }, 'A background job failed and will be retried')
  }
}

interface RepeatedRun {
  /** Runs the job after its current run. */
  readonly wake: () => void
  readonly close: () => Promise<void>
}

/** Runs a job at the start, every `interval` milliseconds, and on demand; one run at a time. */
const repeat = (name: string, job: Job, log: FastifyBaseLogger): RepeatedRun => {
  const stop = new AbortController()
  let running: Promise<void> = Promise.resolve()
  let isWaiting = false

  const runAfter = async (before: Promise<void>): Promise<void> => {
    await before
    isWaiting = false
    if (!stop.signal.aborted) await runLogged(name, job, { stop: stop.signal, log })
  }

  const wake = (): void => {
    if (isWaiting) return
    isWaiting = true
    running = runAfter(running)
  }

  if (job.atStart) wake()
  const timer = setInterval(wake, job.interval)
  timer.unref()

  return {
    wake,
    async close() {
      stop.abort()
      clearInterval(timer)
      await running
    },
  }
}

/** Whether the database is unavailable, which `reportOutages` logs, or the service is stopping. */
const isExpected = (error: unknown): boolean =>
  isOutage(error) || (error instanceof Error && error.name === 'AbortError')
