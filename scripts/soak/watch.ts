import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import type postgres from 'postgres'
import { residentMemory } from '../bench/processes.ts'

/** What processes hold together at a moment, and how long an event loop kept things waiting since the one before. */
export interface Sample {
  /** Milliseconds since the watch began. */
  readonly time: number
  /** Resident memory, in bytes. */
  readonly resident: number
  /** What is left of the heap after all garbage was collected, in bytes. */
  readonly heap: number
  /** What buffers outside the heap take then, in bytes. */
  readonly buffers: number
  /** Open file descriptors. */
  readonly descriptors: number
  /** What keeps the event loop busy: sockets, timers, running requests of the system. */
  readonly resources: number
  /** Of the event loop, the slowest of them, in milliseconds. */
  readonly lagP99: number
  /** Connections to PostgreSQL. */
  readonly connections: number
}

/** A process that was started with Node's inspector, which lets one look into it from outside. */
interface Inspector {
  readonly send: (method: string, params?: object) => Promise<unknown>
  readonly close: () => void
}

/** A process that is watched, and how it is reached. */
interface Watched {
  readonly pid: number
  readonly inspectorPort: number
}

interface Watch {
  readonly sample: () => Promise<Sample>
  readonly close: () => void
}

/** Watches processes; `sql` is a client of their database. */
export const watch = async (watched: readonly Watched[], sql: postgres.Sql): Promise<Watch> => {
  const processes = await Promise.all(watched.map(watchProcess))
  const begun = performance.now()
  return {
    async sample() {
      const held = await Promise.all(processes.map((one) => one.sample()))
      const sum = (name: keyof Held): number => held.reduce((total, one) => total + one[name], 0)
      const [row] = await sql.unsafe<{ count: number }[]>(countConnections)
      return {
        time: performance.now() - begun,
        resident: sum('resident'),
        heap: sum('heap'),
        buffers: sum('buffers'),
        descriptors: sum('descriptors'),
        resources: sum('resources'),
        lagP99: Math.max(...held.map(({ lagP99 }) => lagP99)),
        connections: row?.count ?? Number.NaN,
      }
    },
    close() {
      for (const { close } of processes) close()
    },
  }
}

/** What one of the processes holds. */
type Held = Omit<Sample, 'time' | 'connections'>

const watchProcess = async ({ pid, inspectorPort }: Watched) => {
  const inspector = await connect(inspectorPort)
  await evaluate(inspector, startOfLag)
  return {
    async sample(): Promise<Held> {
      const resident = await residentMemory(pid)
      const descriptors = (await readdir(`/proc/${pid}/fd`)).length
      const { lagP99, resources } = await evaluate(inspector, lagAndResources)
      await inspector.send('HeapProfiler.collectGarbage')
      const { heap, buffers } = await evaluate(inspector, memory)
      return { resident, heap, buffers, descriptors, resources, lagP99 }
    },
    close: inspector.close,
  }
}

const countConnections = `
  select count(*)::integer from pg_stat_activity
  where application_name = 'taskwright' and datname = current_database()`

/** An expression of the watched process, and the names of the figures in its value. */
interface Expression<Names extends string> {
  readonly text: string
  readonly names: readonly Names[]
}

const startOfLag: Expression<never> = {
  text: `
    globalThis.soakLag = process.getBuiltinModule('node:perf_hooks').monitorEventLoopDelay({ resolution: 10 })
    soakLag.enable()
    new Object()`,
  names: [],
}

const lagAndResources: Expression<'lagP99' | 'resources'> = {
  text: `
    ((lagP99) => {
      soakLag.reset()
      return { lagP99, resources: process.getActiveResourcesInfo().length }
    })(soakLag.percentile(99) / 1e6)`,
  names: ['lagP99', 'resources'],
}

const memory: Expression<'heap' | 'buffers'> = {
  text: `(({ heapUsed, arrayBuffers }) => ({ heap: heapUsed, buffers: arrayBuffers }))(process.memoryUsage())`,
  names: ['heap', 'buffers'],
}

const evaluate = async <Names extends string>(
  { send }: Inspector,
  { text, names }: Expression<Names>,
): Promise<Readonly<Record<Names, number>>> => {
  const answer = await send('Runtime.evaluate', { expression: text, returnByValue: true })
  const { result } = answer as { readonly result: { readonly value?: unknown } }
  const figures = (result.value ?? {}) as Readonly<Record<string, unknown>>
  if (names.some((name) => typeof figures[name] !== 'number'))
    throw new Error(`The inspector answered ${JSON.stringify(answer)}`)
  return figures as Readonly<Record<Names, number>>
}

/** Speaks the DevTools protocol with the process that listens for it on a port. */
const connect = async (port: number): Promise<Inspector> => {
  const response = await fetch(`http://127.0.0.1:${port}/json/list`)
  const [target] = (await response.json()) as { readonly webSocketDebuggerUrl: string }[]
  const socket = new WebSocket(target?.webSocketDebuggerUrl ?? '')
  await once(socket, 'open')
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let lastId = 0
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(String(data)) as {
      readonly id?: number
      readonly result?: unknown
      readonly error?: { readonly message: string }
    }
    if (id === undefined) return
    if (error === undefined) waiting.get(id)?.resolve(result)
    else waiting.get(id)?.reject(new Error(`The inspector refused: ${error.message}`))
    waiting.delete(id)
  })
  socket.addEventListener('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('The watched process has ended'))
  })
  return {
    send(method, params = {}) {
      lastId += 1
      const answered = Promise.withResolvers<unknown>()
      waiting.set(lastId, answered)
      socket.send(JSON.stringify({ id: lastId, method, params }))
      return answered.promise
    },
    close: () => socket.close(),
  }
}
