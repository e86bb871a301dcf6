import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { compileCache, nodeArguments } from '../run/node-settings.ts'

/**
 * Runs the fault suite: failures of the database server, the network, the disk and the process under load. Names of files in test/faults as
 * arguments run only these; those of scripts/nightly run only by name.
 * FAULT_ROUNDS is how often the suite kills the process, 25 by default.
 */

const folder = fileURLToPath(new URL('../../test/faults', import.meta.url))
const { DATABASE_URL: _, ...env } = process.env
let failed = 0

const run = async (file: string): Promise<void> => {
  const started = performance.now()
  const child = spawn(process.execPath, [...nodeArguments, file], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...env, TAP_TIMEOUT: '1800', NODE_COMPILE_CACHE: compileCache },
  })
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  const outcome = child.exitCode === 0 ? 'passed' : 'FAILED'
  // Without the thousands of assertions that passed, so that what failed is in the end of a log.
  console.log(output.replaceAll(/^ *ok .*\n/gm, ''))
  console.log(`${outcome} ${file} (${((performance.now() - started) / 1_000).toFixed(0)} s)`)
  if (child.exitCode !== 0) failed += 1
}

const named = process.argv.slice(2)
// The longest begin first.
const longest = ['imports.ts', 'kill.ts', 'reminders.ts']
const nightly = ['rollback.ts']
const all = [...new Set([...longest, ...globSync('*.ts', { cwd: folder, exclude: nightly }).toSorted()])]
const files = named.length > 0 ? named : all
const runFiles = async (): Promise<void> => {
  for (let file = files.shift(); file !== undefined; file = files.shift()) await run(file)
}

// One for each core of a small machine: they start a process again and again.
await Promise.all([runFiles(), runFiles()])
process.exitCode = failed === 0 ? 0 : 1
