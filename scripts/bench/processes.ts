import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import manifest from '../../package.json' with { type: 'json' }
import { isInstalled } from '../commands.ts'
import type { Teardown } from '../run-to-end.ts'

/** A measured server. */
export interface Server {
  readonly url: string
  readonly pid: number
  /** Milliseconds from start to ready. */
  readonly startTime: number
  stop(): Promise<void>
}

interface StartOptions {
  /** A path relative to this folder, or `service`. */
  readonly program: string
  readonly environment: Readonly<Record<string, string>>
  readonly core: number | null
  /** The folder for its log, which is a file as in production. */
  readonly folder: string
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Starts the service like `npm start`. */
export const service = 'npm start'

/** The last line of a start. The service listens before it is ready, so its line names both. */
const ready = /^(?:taskwright: ready and )?listening\b.*(http:\/\/127\.0\.0\.1:\d+)/

/** Starts the service or a floor in a new process, bound to `core`. A teardown kills it. */
export const startServer = async (
  t: Teardown,
  { program, environment, core, folder }: StartOptions,
): Promise<Server> => {
  const started = performance.now()
  const log = join(folder, `${started}.log`)
  const output = await open(log, 'a')
  const child = spawn(...onProcessor(core, ...commandOf(program)), {
    cwd: root,
    env: {
      PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`,
      NODE_ENV: 'production',
      LOG_FORMAT: 'pretty',
      HOST: '127.0.0.1',
      PORT: '0',
      ...environment,
    },
    stdio: ['ignore', output.fd, output.fd],
  })
  await output.close()
  const exited = once(child, 'exit')
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    await exited
  }
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await exited
  })
  const url = await Promise.race([printedUrl(log), exited.then(() => null)])
  if (url === null || child.pid === undefined)
    throw new Error(`${program} did not start:\n${await readFile(log, 'utf8')}`)
  return { url, pid: child.pid, startTime: performance.now() - started, stop }
}

/** The start script uses exec, so the process id of the shell becomes that of the service. */
const commandOf = (program: string): readonly [command: string, parameters: readonly string[]] =>
  program === service
    ? ['sh', ['-c', manifest.scripts.start]]
    : [process.execPath, [fileURLToPath(new URL(program, import.meta.url))]]

const onProcessor = (
  core: number | null,
  command: string,
  parameters: readonly string[],
): [string, string[]] =>
  core === null
    ? [command, [...parameters]]
    : ['taskset', ['--cpu-list', String(core), command, ...parameters]]

/** Waits for the URL that a server logs when it is ready. */
const printedUrl = async (log: string): Promise<string> => {
  for (;;) {
    const url = await findUrl(log)
    if (url !== null) return url
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

const findUrl = async (log: string): Promise<string | null> => {
  const file = await open(log)
  try {
    for await (const line of createInterface({ input: file.createReadStream({ autoClose: false }) })) {
      const url = ready.exec(line)?.[1]
      if (url !== undefined) return url
    }
    return null
  } finally {
    await file.close()
  }
}

/**
 * Binds this process to the second processor, and so the load generator and PostgreSQL, which it starts. Resolves to the processor for
 * measured servers, or to null if there is only member.
 */
export const pinToProcessor = async (): Promise<number | null> => {
  if (availableParallelism() < 2 || !isInstalled('taskset')) {
    console.log('There is no second processor, so the load generator slows down the servers.')
    return null
  }
  execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', '1', String(process.pid)], {
    stdio: 'ignore',
  })
  return 0
}

/** CPU time of a process so far, including all threads, in milliseconds. */
export const cpuTime = async (pid: number): Promise<number> => {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The second field is a name in parentheses, which may contain spaces. After it, utime and stime are the 12th and 13th.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * (1_000 / clockTicks)
}

/** CPU time of a process and its running children so far, in milliseconds. */
export const cpuTimeOfTree = async (pid: number): Promise<number> => {
  const times = await Promise.all((await treeOf(pid)).map((member) => cpuTime(member).catch(() => 0)))
  return times.reduce((sum, time) => sum + time, 0)
}

/** Ticks per second: 100 on all Linux platforms that Node supports. */
const clockTicks = 100

/** Resident memory of a process, in bytes. */
export const residentMemory = (pid: number): Promise<number> => readStatus(pid, 'VmRSS')

/** The maximum of `residentMemory` since the process started, or since `resetPeakMemory`. */
export const peakMemory = (pid: number): Promise<number> => readStatus(pid, 'VmHWM')

/** Resident memory of a process and its children, in bytes. */
export const memoryOfTree = async (pid: number): Promise<number> => {
  // A child may have exited.
  const sizes = await Promise.all((await treeOf(pid)).map((member) => residentMemory(member).catch(() => 0)))
  return sizes.reduce((sum, size) => sum + size, 0)
}

const treeOf = async (pid: number): Promise<readonly number[]> => {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return [pid, ...children.split(' ').filter(Boolean).map(Number)]
}

/** Resets the peak to the current value (proc_pid_clear_refs(5)). */
export const resetPeakMemory = (pid: number): Promise<void> => writeFile(`/proc/${pid}/clear_refs`, '5')

const readStatus = async (pid: number, name: string): Promise<number> => {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? Number.NaN) * 1_024
}
