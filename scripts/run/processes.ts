import { type ChildProcess, execFileSync, spawn, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import manifest from '../../package.json' with { type: 'json' }
import { eventually } from '../../test/fixture/eventually.ts'
import { isInstalled, isRunning, stopAtEnd } from './commands.ts'
import type { Teardown } from './run-to-end.ts'

/** A measured server. */
export interface Server {
  readonly url: string
  readonly pid: number
  /** Milliseconds from start to ready. */
  readonly startTime: number
  stop(): Promise<void>
}

interface StartOptions {
  /** The path of a program, instead of the service. */
  readonly program?: string
  readonly environment: Readonly<Record<string, string>>
  /** The processor that it is bound to. */
  readonly core?: number | null
  /** The folder for its log, which is a file as in production. */
  readonly folder: string
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Settings for rate limits that are counted, but never reached. */
export const unreachedLimits: Readonly<Record<string, string>> = {
  RATE_LIMIT: 'on',
  ...Object.fromEntries(
    ['SIGN_IN', 'REFRESH', 'API', 'UPLOAD', 'ANONYMOUS'].map((name) => [`RATE_LIMIT_${name}`, '1000000000']),
  ),
}

/** The last line of a start. The service listens before it is ready, so its line names both. */
const ready = /^(?:taskwright: ready and )?listening\b.*(http:\/\/127\.0\.0\.1:\d+)/m

/** Starts a process whose output is added to a file. */
export const spawnLogged = async (
  [command = '', ...args]: readonly string[],
  log: string,
  options: SpawnOptions = {},
): Promise<ChildProcess> => {
  const output = await open(log, 'a')
  const child = spawn(command, args, { ...options, stdio: ['ignore', output.fd, output.fd] })
  await output.close()
  return child
}

/** Milliseconds. Those of Java take minutes on a busy machine. */
const startTimeout = 600_000

interface ProgramOptions extends SpawnOptions {
  /** The file for its output. */
  readonly log: string
  readonly isReady: () => Promise<boolean>
}

/** Starts a program in its own process group, which a teardown kills. Rejects with its output if it exits before it is ready. */
export const startProgram = async (
  t: Teardown,
  command: readonly string[],
  { log, isReady, ...options }: ProgramOptions,
): Promise<ChildProcess> => {
  const child = await spawnLogged(command, log, { ...options, detached: true })
  void stopAtEnd(t, child, { isGroup: true })
  const isDecided = async () => !isRunning(child) || (await isReady())
  await eventually(`${command[0]} is ready`, isDecided, startTimeout)
  if (!isRunning(child))
    throw new Error(`${command.join(' ')} exited before it was ready:\n${await readFile(log, 'utf8')}`)
  return child
}

/** Ends a program. Resolves when it has exited. */
export const stopProgram = async (child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
  if (!isRunning(child)) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

/** Starts the service, like `npm start`, or another server in a new process. A teardown kills it. */
export const startServer = async (
  t: Teardown,
  { program, environment, core = null, folder }: StartOptions,
): Promise<Server> => {
  const started = performance.now()
  const log = join(folder, `${started}.log`)
  let url = ''
  const child = await startProgram(t, onProcessor(core, commandOf(program)), {
    log,
    async isReady() {
      url = ready.exec(await readFile(log, 'utf8'))?.[1] ?? ''
      return url !== ''
    },
    cwd: root,
    env: {
      PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`,
      NODE_ENV: 'production',
      LOG_FORMAT: 'pretty',
      HOST: '127.0.0.1',
      PORT: '0',
      ...environment,
    },
  })
  const startTime = performance.now() - started
  return { url, pid: child.pid ?? 0, startTime, stop: () => stopProgram(child) }
}

/** The start script uses exec, so the process id of the shell becomes that of the service. */
const commandOf = (program: string | undefined): readonly string[] =>
  program === undefined ? ['sh', '-c', manifest.scripts.start] : [process.execPath, program]

const onProcessor = (core: number | null, command: readonly string[]): readonly string[] =>
  core === null ? command : ['taskset', '--cpu-list', String(core), ...command]

/**
 * Binds this process to the second processor, and so the load generator and PostgreSQL, which it starts. Resolves to the processor for
 * measured servers, or to null if there is only one.
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

/** Whether a URL answers with a status of success. */
export const answers = (url: string): Promise<boolean> =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )

/** Ticks per second: 100 on all Linux platforms that Node supports. */
const clockTicks = 100

/** Resident memory of a process, in bytes. */
export const residentMemory = async (pid: number): Promise<number> => {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1] ?? Number.NaN) * 1_024
}

/** The child processes of a process, oldest first. */
export const childrenOf = async (pid: number): Promise<readonly number[]> => {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return children.split(' ').filter(Boolean).map(Number)
}
