import cluster, { type Worker } from 'node:cluster'
import { minLifetime, restartDelay } from '../concurrency/restart-delay.ts'
import type { Config } from '../config/config.ts'

/** Whether this process is one of our workers; a process manager may use node:cluster too. */
export const isWorker = ({ workers }: Pick<Config, 'workers'>): boolean => workers > 1 && cluster.isWorker

/** Starts worker processes, replaces those that exit, and stops them. */
export interface Supervisor {
  /**
   * Resolves to the URL of the service when all workers have been ready once.
   * Rejects with WorkerFailed when one of them cannot start.
   */
  readonly ready: Promise<string>
  /**
   * Stops the workers gracefully, and resolves when all have exited.
   *
   * @throws WorkerFailed when one of them failed in the meantime
   */
  stop(): Promise<void>
}

/** A worker could not start or stop, and has logged the reason. */
export class WorkerFailed extends Error {
  override readonly name = 'WorkerFailed'
  /** Its exit code, if it could not start. */
  readonly exitCode: number | null

  constructor(message: string, exitCode: number | null = null) {
    super(message)
    this.exitCode = exitCode
  }
}

interface ReadyMessage {
  readonly type: 'taskwright:ready'
  readonly url: string
}

/** Reports to the supervisor that this worker answers requests. */
export const reportReady = (url: string): void => {
  const message: ReadyMessage = { type: 'taskwright:ready', url }
  cluster.worker?.send(message)
}

const isReadyMessage = (message: unknown): message is ReadyMessage =>
  typeof message === 'object' && message !== null && 'type' in message && message.type === 'taskwright:ready'

interface Exit {
  readonly code: number | null
  readonly signal: string | null
  /** Milliseconds. */
  readonly lifetime: number
}

export const startSupervisor = (
  count: number,
  { warn }: { readonly warn: (message: string) => void },
): Supervisor => {
  const ready = Promise.withResolvers<string>()
  const allExited = Promise.withResolvers<void>()
  const failures: string[] = []
  const running = new Set<Worker>()
  const readyWorkers = new Set<Worker>()
  let wasReady = false
  let isStopping = false
  let earlyExits = 0

  const launch = (): void => {
    const worker = cluster.fork()
    const started = performance.now()
    running.add(worker)
    worker.on('message', (message: unknown) => {
      if (!isReadyMessage(message)) return
      readyWorkers.add(worker)
      if (readyWorkers.size < count) return
      wasReady = true
      ready.resolve(message.url)
    })
    // A library may send to a worker that has just exited. Without a listener, the error would end this process.
    worker.on('error', () => undefined)
    worker.once('exit', (code: number | null, signal: string | null) => {
      running.delete(worker)
      readyWorkers.delete(worker)
      onExit(worker, { code, signal, lifetime: performance.now() - started })
    })
  }

  const onExit = (worker: Worker, { code, signal, lifetime }: Exit): void => {
    const how = signal ?? `exit code ${code}`
    if (isStopping) {
      // A worker that has not installed its handlers yet is ended by the signal itself.
      if (code !== 0 && signal !== 'SIGTERM')
        failures.push(`worker ${worker.id} did not stop cleanly (${how})`)
      if (running.size === 0) allExited.resolve()
      return
    }
    // An operator has to fix the cause: a restarted worker would fail in the same way.
    if (!wasReady && code !== null && code !== 0) {
      ready.reject(new WorkerFailed(`worker ${worker.id} could not start`, code))
      return
    }
    earlyExits = lifetime < minLifetime ? earlyExits + 1 : 0
    warn(`worker ${worker.id} exited (${how}); starting a new one`)
    setTimeout(() => {
      if (!isStopping) launch()
    }, restartDelay(earlyExits))
  }

  // No worker may outlive this process, not even a hanging one.
  process.once('exit', () => {
    for (const worker of running) worker.process.kill('SIGKILL')
  })
  // Workers accept connections themselves. In turns, this process would accept them, and hand some to a worker that has
  // just died: their clients would wait for ever.
  cluster.schedulingPolicy = cluster.SCHED_NONE
  for (let started = 0; started < count; started += 1) launch()

  return {
    ready: ready.promise,
    async stop() {
      isStopping = true
      for (const worker of running) worker.process.kill('SIGTERM')
      if (running.size === 0) allExited.resolve()
      await allExited.promise
      if (failures.length > 0) throw new WorkerFailed(failures.join('; '))
    },
  }
}
