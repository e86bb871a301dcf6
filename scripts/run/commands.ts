import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Teardown } from './run-to-end.ts'

export interface Command {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
}

/** Registers a teardown that ends a process and waits for it. Resolves when the process has exited. */
export const stopAtEnd = (
  t: Teardown,
  child: ChildProcess,
  signal: NodeJS.Signals = 'SIGKILL',
): Promise<unknown> => {
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill(signal)
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
  await stopAtEnd(t, child, 'SIGTERM')
  return child.exitCode ?? 128
}

/** The command exited with an error or a signal. The message includes its output. */
export class CommandFailure extends Error {}

/** Runs a command in its own process group, which a teardown kills. Resolves to the output. */
export const runCommand = async (t: Teardown, { command, args, cwd, env }: Command): Promise<string> => {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  t.teardown(async () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, 'SIGKILL')
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  await once(child, 'close')
  if (child.exitCode !== 0)
    throw new CommandFailure(`exited with ${child.exitCode ?? child.signalCode}\n${output}`)
  return output
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
