import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { PostgresUnusable } from './binaries.ts'
import type { Launcher } from './launch.ts'

/**
 * Runs a program of PostgreSQL to its end.
 *
 * @throws PostgresUnusable with its last lines, if it fails
 */
export const runProgram = async (
  launcher: Launcher,
  program: 'initdb' | 'postgres',
  args: readonly string[],
  input = '',
): Promise<void> => {
  const [file = '', ...rest] = launcher.command(program, args)
  const child = spawn(file, rest, {
    env: launcher.environment,
    // A signal of the terminal reaches the service only.
    detached: true,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  // A program that fails may not read its input.
  child.stdin.on('error', () => undefined).end(input)
  const [errors] = await Promise.all([text(child.stderr), once(child, 'close')])
  // In the single-user mode, an error ends a statement and not the program.
  if (child.exitCode === 0 && !/^(ERROR|FATAL|PANIC):/m.test(errors)) return
  throw new PostgresUnusable(explain(program, errors, child.exitCode ?? child.signalCode))
}

const explain = (program: string, errors: string, code: number | string | null): string => {
  if (errors.includes('could not look up effective user ID'))
    return `The user id ${process.getuid?.()} has no entry in /etc/passwd, which PostgreSQL needs to create a database. Add one, run as another user, or set DATABASE_URL to a database server`
  const last = errors.trim().split('\n').slice(-3).join(' ')
  return `PostgreSQL cannot create a database: ${program} ended with ${code}: ${last}`
}
