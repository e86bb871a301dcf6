import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { compileCache, nodeArguments } from '../run/node-settings.ts'

/**
 * Runs the slow test files, then the fault suite: failures of the database server, the network, the disk and the process under load. Names
 * of files in test/faults as arguments run only these.
 * FAULT_ROUNDS is how often the suite kills the process, 25 by default.
 */

const folder = fileURLToPath(new URL('../../test/faults', import.meta.url))
const tests = fileURLToPath(new URL('../run/test.ts', import.meta.url))
const { DATABASE_URL: _, ...env } = process.env
let failed = 0

const run = async (args: readonly string[], cwd?: string): Promise<void> => {
  const started = performance.now()
  const child = spawn(process.execPath, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...env, TAP_TIMEOUT: '1800', NODE_COMPILE_CACHE: compileCache },
  })
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  const outcome = child.exitCode === 0 ? 'passed' : 'FAILED'
  console.log(output)
  console.log(`${outcome} ${args.at(-1)} (${((performance.now() - started) / 1_000).toFixed(0)} s)`)
  if (child.exitCode !== 0) failed += 1
}

const named = process.argv.slice(2)
// The longest begin first.
const longest = ['imports.ts', 'kill.ts', 'reminders.ts']
const all = [...new Set([...longest, ...globSync('*.ts', { cwd: folder }).toSorted()])]
const files = named.length > 0 ? named : all
const runFiles = async (): Promise<void> => {
  for (let file = files.shift(); file !== undefined; file = files.shift())
    await run([...nodeArguments, file], folder)
}

if (named.length === 0) await run([tests, '--slow'])
// Three at a time, because they mostly wait for processes to start.
await Promise.all([runFiles(), runFiles(), runFiles()])
process.exitCode = failed === 0 ? 0 : 1
