import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Teardown } from './run-to-end.ts'

/** A command of another toolchain. */
export interface Command {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
}

/** A command that ended badly, with what it printed. */
export class CommandFailure extends Error {}

/** Runs a command in a process group of its own, which ends with `t`; resolves with what it printed. */
export const runCommand = async (t: Teardown, { command, args, cwd, env }: Command): Promise<string> => {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  t.teardown(async () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, 'SIGKILL')
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (printed += text))
  await once(child, 'close')
  if (child.exitCode !== 0)
    throw new CommandFailure(`ended with ${child.exitCode ?? child.signalCode}\n${printed}`)
  return printed
}

/** The folders of PATH. */
export const pathFolders = (): string[] => (process.env.PATH ?? '').split(delimiter)

/** Whether this process may run the file at `path`. */
export const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Where a command is in PATH; null when it is not. */
export const findCommand = (name: string): string | null =>
  pathFolders()
    .map((folder) => join(folder, name))
    .find(isExecutable) ?? null

/** Whether a command is in PATH. */
export const isInstalled = (name: string): boolean => findCommand(name) !== null
