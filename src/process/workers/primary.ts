import cluster, { type Worker } from 'node:cluster'
import { hashQueue } from '../../auth/passwords.ts'
import type { InTurn } from '../../concurrency/bounded-queue.ts'
import { within } from '../../concurrency/deadline.ts'
import { watchPulse } from '../heartbeat.ts'
import { countInMemory } from '../../http/request-counts.ts'
import type { ProcessMetrics } from '../../observe/metrics.ts'
import { connectPeer, type Peer, type PrimaryCalls, type QueueName, type WorkerCalls } from './calls.ts'

/** The processes that answer requests, which are replaced when they end by themselves or hang. */
export interface Workers {
  /** Resolves to where they listen when all of them answer requests for the first time. */
  readonly ready: Promise<string>
  /** Rejects with WorkerFailed when one of them cannot start. */
  readonly failed: Promise<never>
  /** Tells them, and those that follow, that the schema is up to date. */
  tellMigrated(): void
  /** The metrics of each that runs, by their numbers; null of one that does not answer. */
  readonly readMetrics: () => Promise<ReadonlyMap<number, ProcessMetrics | null>>
  /** Resolves when all of them have finished what they had begun, and ended. */
  stop(): Promise<void>
}

/** A worker could not start, and has said why, or could not stop. */
export class WorkerFailed extends Error {
  override readonly name = 'WorkerFailed'
}

/** Milliseconds. Who ends sooner has hardly started, and would again. */
const shortLife = 10_000

/** Milliseconds before a worker is replaced after some of them in a row have had short lives. */
const pauseAfter = (shortLives: number): number =>
  shortLives === 0 ? 0 : Math.min(125 * 2 ** shortLives, 30_000)

/** A worker that hangs keeps its connections, and answers none of them. */
const pulse = { every: 5_000, mostMissed: 6 }

/** Milliseconds that the metrics of a worker are waited for; Prometheus gives up after ten seconds. */
const metricsDeadline = 2_000

/** A worker that can be called. */
type Callable = Peer<WorkerCalls>

/** Starts workers and keeps as many running until they are stopped. */
export const startWorkers = (
  count: number,
  { say }: { readonly say: (message: string) => void },
): Workers => {
  const ready = Promise.withResolvers<string>()
  const failed = Promise.withResolvers<never>()
  // Once all are ready nobody waits for it any more.
  failed.promise.catch(() => undefined)
  const allEnded = Promise.withResolvers<void>()
  const failures: string[] = []
  const running = new Set<Worker>()
  const callable = new Map<number, Callable>()
  const readyWorkers = new Set<Worker>()
  let wasReady = false
  let isMigrated = false
  let isStopping = false
  let shortLives = 0

  const countRequest = countInMemory()
  const queues: Queues = { hashes: hashQueue() }

  const launch = (): void => {
    const worker = cluster.fork()
    const begun = performance.now()
    const ownTurns = createTurns(queues)
    let endWatch = (): void => undefined
    const watch = (): void => {
      endWatch = watchPulse(
        pulse,
        () => peer.call('ping', null),
        () => {
          say(`worker ${worker.id} is not responding; killing it`)
          worker.process.kill('SIGKILL')
        },
      )
    }
    const calls: PrimaryCalls = {
      async hello() {
        callable.set(worker.id, peer)
        watch()
        if (isMigrated) tell(peer, 'migrated')
        if (isStopping) tell(peer, 'stop')
        return null
      },
      async ready(url) {
        readyWorkers.add(worker)
        if (readyWorkers.size === count) {
          wasReady = true
          ready.resolve(url)
        }
        return null
      },
      ping: async () => null,
      countRequest: ({ policy, caller }) => countRequest(policy, caller),
      takeTurn: (queue) => ownTurns.take(queue),
      endTurn: async (turn) => ownTurns.end(turn),
      async forget(changed) {
        const others = [...callable.values()].filter((other) => other !== peer)
        await Promise.allSettled(others.map((other) => other.call('forget', changed)))
        return null
      },
    }
    const peer: Callable = connectPeer<WorkerCalls>(
      (batch) => void worker.send(batch as object, () => undefined),
      { ...calls },
    )
    running.add(worker)
    worker.on('message', peer.receive)
    worker.once('exit', (code: number | null, signal: string | null) => {
      running.delete(worker)
      callable.delete(worker.id)
      readyWorkers.delete(worker)
      endWatch()
      peer.close()
      ownTurns.endAll()
      onExit(worker, { code, signal, life: performance.now() - begun })
    })
  }

  const onExit = (worker: Worker, { code, signal, life }: Exit): void => {
    const how = signal ?? `exit code ${code}`
    if (isStopping) {
      if (code !== 0) failures.push(`worker ${worker.id} did not stop cleanly (${how})`)
      if (running.size === 0) allEnded.resolve()
      return
    }
    // What keeps the first ones from starting is there to be mended, and would keep the next ones too.
    if (!wasReady && code !== null && code !== 0) {
      failed.reject(new WorkerFailed(`worker ${worker.id} could not start`))
      return
    }
    shortLives = life < shortLife ? shortLives + 1 : 0
    say(`worker ${worker.id} exited (${how}); starting a new one`)
    setTimeout(() => {
      if (!isStopping) launch()
    }, pauseAfter(shortLives))
  }

  // However this process ends, no worker goes on without it, not even one that hangs.
  process.once('exit', () => {
    for (const worker of running) worker.process.kill('SIGKILL')
  })
  // Else the primary accepts connections and hands them on, also to a worker that has just died: they would hang, and a
  // client that was cut off comes back at once.
  cluster.schedulingPolicy = cluster.SCHED_NONE
  for (let started = 0; started < count; started += 1) launch()

  return {
    ready: ready.promise,
    failed: failed.promise,
    tellMigrated() {
      isMigrated = true
      for (const peer of callable.values()) tell(peer, 'migrated')
    },
    async readMetrics() {
      const silent = (): Error => new Error('The worker is not responding')
      const read = async ({ id }: Worker): Promise<[number, ProcessMetrics | null]> => {
        const peer = callable.get(id)
        if (peer === undefined) return [id, null]
        return [id, await within(metricsDeadline, peer.call('readMetrics', null), silent).catch(() => null)]
      }
      return new Map(await Promise.all([...running].map(read)))
    },
    async stop() {
      isStopping = true
      for (const peer of callable.values()) tell(peer, 'stop')
      if (running.size === 0) allEnded.resolve()
      await allEnded.promise
      if (failures.length > 0) throw new WorkerFailed(failures.join('; '))
    },
  }
}

interface Exit {
  readonly code: number | null
  readonly signal: string | null
  /** Milliseconds. */
  readonly life: number
}

/** Tells a worker something, which it may not live to hear. */
const tell = (peer: Callable, what: 'migrated' | 'stop'): void =>
  void peer.call(what, null).catch(() => undefined)

type Queues = Readonly<Record<QueueName, InTurn>>

/** The turns of a worker in the queues that all of them wait in. */
const createTurns = (queues: Queues) => {
  const ends = new Map<number, () => void>()
  let last = 0
  let isOver = false

  return {
    /** Resolves to the turn's number when it has come, or to null when too many wait. */
    async take(queue: QueueName): Promise<number | null> {
      last += 1
      const turn = last
      const come = Promise.withResolvers<number | null>()
      const end = Promise.withResolvers<void>()
      queues[queue](async () => {
        if (isOver) return
        ends.set(turn, end.resolve)
        come.resolve(turn)
        await end.promise
      }).catch(() => come.resolve(null))
      return come.promise
    },
    end(turn: number): null {
      ends.get(turn)?.()
      ends.delete(turn)
      return null
    },
    /** To be called when the worker has ended: what it held is for the others. */
    endAll(): void {
      isOver = true
      for (const end of ends.values()) end()
    },
  }
}
