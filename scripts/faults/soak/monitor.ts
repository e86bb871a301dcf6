import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import type postgres from 'postgres'
import { residentMemory } from '../../run/processes.ts'

/** The resources of all processes together, and the lag of event loops since the previous sample. */
export interface Sample {
  /** Milliseconds since the start of monitoring. */
  readonly time: number
  /** Resident memory, in bytes. */
  readonly resident: number
  /** Heap after a full garbage collection, in bytes. */
  readonly heap: number
  /** Buffers outside of the heap after the garbage collection, in bytes. */
  readonly buffers: number
  /** Open file descriptors. */
  readonly descriptors: number
  /** Active resources of event loops: sockets, timers, pending system calls. */
  readonly resources: number
  /** Milliseconds, the maximum over all processes. */
  readonly lagP99: number
  /** Connections to PostgreSQL. */
  readonly connections: number
}

/** A connection to Node's inspector in a process. */
interface Inspector {
  readonly send: (method: string, params?: object) => Promise<unknown>
  readonly close: () => void
}

interface MonitoredProcess {
  readonly pid: number
  readonly inspectorPort: number
}

interface Monitor {
  readonly sample: () => Promise<Sample>
  readonly close: () => void
}

/** Monitors processes. `sql` is a client of their database. */
export const monitor = async (
  monitored: readonly MonitoredProcess[],
  sql: postgres.Sql,
): Promise<Monitor> => {
  const processes = await Promise.all(monitored.map(monitorProcess))
  const startedAt = performance.now()
  return {
    async sample() {
      const samples = await Promise.all(processes.map((process) => process.sample()))
      const sum = (name: keyof ProcessSample): number =>
        samples.reduce((total, sample) => total + sample[name], 0)
      const [row] = await sql.unsafe<{ count: number }[]>(countConnections)
      return {
        time: performance.now() - startedAt,
        resident: sum('resident'),
        heap: sum('heap'),
        buffers: sum('buffers'),
        descriptors: sum('descriptors'),
        resources: sum('resources'),
        lagP99: Math.max(...samples.map(({ lagP99 }) => lagP99)),
        connections: row?.count ?? Number.NaN,
      }
    },
    close() {
      for (const { close } of processes) close()
    },
  }
}

/** The resources of one process. */
type ProcessSample = Omit<Sample, 'time' | 'connections'>

const monitorProcess = async ({ pid, inspectorPort }: MonitoredProcess) => {
  const inspector = await connect(inspectorPort)
  await evaluate(inspector, startLagMonitor)
  return {
    async sample(): Promise<ProcessSample> {
      const resident = await residentMemory(pid)
      const descriptors = (await readdir(`/proc/${pid}/fd`)).length
      const { lagP99, resources } = await evaluate(inspector, lagAndResources, 'lagP99', 'resources')
      await inspector.send('HeapProfiler.collectGarbage')
      const { heap, buffers } = await evaluate(inspector, memory, 'heap', 'buffers')
      return { resident, heap, buffers, descriptors, resources, lagP99 }
    },
    close: inspector.close,
  }
}

const countConnections = `
  select count(*)::integer from pg_stat_activity
  where application_name = 'taskwright' and datname = current_database()`

const startLagMonitor = `
  globalThis.soakLag = process.getBuiltinModule('node:perf_hooks').monitorEventLoopDelay({ resolution: 10 })
  soakLag.enable()
  new Object()`

const lagAndResources = `
  ((lagP99) => {
    soakLag.reset()
    return { lagP99, resources: process.getActiveResourcesInfo().length }
  })(soakLag.percentile(99) / 1e6)`

const memory = `(({ heapUsed, arrayBuffers }) => ({ heap: heapUsed, buffers: arrayBuffers }))(process.memoryUsage())`

/** Evaluates an expression in the process. Its value has numbers by these names. */
const evaluate = async <Name extends string>(
  { send }: Inspector,
  expression: string,
  ...names: readonly Name[]
): Promise<Readonly<Record<Name, number>>> => {
  const response = await send('Runtime.evaluate', { expression, returnByValue: true })
  const { result } = response as { readonly result: { readonly value?: unknown } }
  const figures = (result.value ?? {}) as Readonly<Record<string, unknown>>
  if (names.some((name) => typeof figures[name] !== 'number'))
    throw new Error(`The inspector returned ${JSON.stringify(response)}`)
  return figures as Readonly<Record<Name, number>>
}

/** Connects to an inspector port with the Chrome DevTools Protocol. */
const connect = async (port: number): Promise<Inspector> => {
  const response = await fetch(`http://127.0.0.1:${port}/json/list`)
  const [target] = (await response.json()) as { readonly webSocketDebuggerUrl: string }[]
  const socket = new WebSocket(target?.webSocketDebuggerUrl ?? '')
  await once(socket, 'open')
  const pending = new Map<number, PromiseWithResolvers<unknown>>()
  let lastId = 0
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(String(data)) as {
      readonly id?: number
      readonly result?: unknown
      readonly error?: { readonly message: string }
    }
    if (id === undefined) return
    if (error === undefined) pending.get(id)?.resolve(result)
    else pending.get(id)?.reject(new Error(`The inspector returned an error: ${error.message}`))
    pending.delete(id)
  })
  socket.addEventListener('close', () => {
    for (const { reject } of pending.values()) reject(new Error('The monitored process has exited'))
  })
  return {
    send(method, params = {}) {
      lastId += 1
      const response = Promise.withResolvers<unknown>()
      pending.set(lastId, response)
      socket.send(JSON.stringify({ id: lastId, method, params }))
      return response.promise
    },
    close: () => socket.close(),
  }
}
