import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

/**
 * Runs the slow test files, then the fault suite: failures of the database server, the network, the disk and the process under load.
 * FAULT_ROUNDS is how often the suite kills the process, 50 by default.
 */

const folder = fileURLToPath(new URL('../../test/faults', import.meta.url))
const tests = fileURLToPath(new URL('../run/test.ts', import.meta.url))
const { DATABASE_URL: _, ...env } = process.env
let failed = 0

const run = async (file: string, args: readonly string[], cwd?: string): Promise<void> => {
  const child = spawn(process.execPath, [file, ...args], {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...env, TAP_TIMEOUT: '1800' },
  })
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  console.log(output)
  if (child.exitCode !== 0) failed += 1
}

const runInTurn = async (files: readonly string[]): Promise<void> => {
  for (const file of files) await run(file, [], folder)
}

await run(tests, ['--slow'])
// Half of the time goes to one file, which mostly waits for processes to start, so it runs beside the others.
const longest = 'kill.ts'
const others = readdirSync(folder).filter((name) => name !== longest)
await Promise.all([runInTurn([longest]), runInTurn(others.toSorted())])
process.exitCode = failed === 0 ? 0 : 1
