import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Teardown } from './run-to-end.ts'

export interface Command {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
}

export const isRunning = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode === null && signalCode === null

/** Registers a teardown that ends a process, or its group, and waits for it. Resolves when the process has exited. */
export const stopAtEnd = (
  t: Teardown,
  child: ChildProcess,
  { signal = 'SIGKILL', isGroup = false }: { signal?: NodeJS.Signals; isGroup?: boolean } = {},
): Promise<unknown> => {
  const exited = once(child, 'exit')
  t.teardown(async () => {
    if (child.pid !== undefined && isRunning(child)) process.kill(isGroup ? -child.pid : child.pid, signal)
    await exited
  })
  return exited
}

/**
 * Runs a command that shares the input and output of this process. A teardown ends it. Resolves to its exit code, or to 128 if a signal
 * ended it.
 */
export const runAttached = async (
  t: Teardown,
  [command = '', ...args]: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<number> => {
  const child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, ...environment } })
  await stopAtEnd(t, child, { signal: 'SIGTERM' })
  return child.exitCode ?? 128
}

/** The command exited with an error or a signal. The message includes its output. */
export class CommandFailure extends Error {}

/** Runs a command in its own process group, which a teardown kills. Resolves to the output. */
export const runCommand = async (t: Teardown, { command, args, cwd, env }: Command): Promise<string> => {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  t.teardown(async () => {
    if (child.pid !== undefined && isRunning(child)) process.kill(-child.pid, 'SIGKILL')
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  await once(child, 'close')
  if (child.exitCode !== 0)
    throw new CommandFailure(`exited with ${child.exitCode ?? child.signalCode}\n${output}`)
  return output
}

/** Runs a command with `runCommand` in a folder. */
export type Run = (command: string, ...args: readonly string[]) => Promise<string>

export const createRun =
  (t: Teardown, cwd: string, environment: NodeJS.ProcessEnv = {}): Run =>
  (command, ...args) =>
    runCommand(t, { command, args, cwd, env: { ...process.env, ...environment } })

/** Installs the requirements.txt in `source` in a virtual environment in `cache`. Resolves to the folder of its programs. */
export const installPython = async (t: Teardown, source: string, cache: string): Promise<string> => {
  await mkdir(cache, { recursive: true })
  const [folder, requirements] = [join(cache, 'venv'), join(source, 'requirements.txt')]
  const bin = join(folder, 'bin')
  const run = createRun(t, cache)
  await run('python3', '-m', 'venv', folder)
  await run(
    join(bin, 'python'),
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-deps',
    '--requirement',
    requirements,
  )
  return bin
}

/** The path of a program in Go, which is built on first use. Null if Go is not installed. */
export const findGoProgram = (module: string, version: string): string | null => {
  const name = module.split('/').at(-1) ?? ''
  const folder = fileURLToPath(new URL(`../../.cache/tools/${name}-${version}`, import.meta.url))
  const program = join(folder, name)
  if (isExecutable(program)) return program
  if (!isInstalled('go')) return null
  console.log(`building ${name}, which can take several minutes`)
  const env = { ...process.env, GOBIN: folder }
  execFileSync('go', ['install', `${module}@${version}`], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  return program
}

/** The exit code of a check that cannot run on this machine (EX_TEMPFAIL in sysexits.h). The step is counted as skipped. */
const skippedCode = 75

/** Says why a check cannot run on this machine, and lets it pass. In CI, it fails, unless CI does not install what is missing. */
export const skip = (reason: string, { isRequired = true } = {}): void => {
  console.log(`skipped: ${reason}`)
  if (process.env.CI) process.exitCode = isRequired ? 1 : skippedCode
}

/** Whether commands are installed. If not, the check is skipped. */
export const hasCommands = (names: readonly string[], options?: { isRequired: boolean }): boolean => {
  const missing = names.filter((name) => !isInstalled(name))
  if (missing.length > 0) skip(`${missing.join(', ')} not installed`, options)
  return missing.length === 0
}

/** The folders of PATH. */
export const pathFolders = (): string[] => (process.env.PATH ?? '').split(delimiter)

export const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The path of a command, or null if it is not in PATH. */
export const findCommand = (name: string): string | null =>
  pathFolders()
    .map((folder) => join(folder, name))
    .find(isExecutable) ?? null

export const isInstalled = (name: string): boolean => findCommand(name) !== null
