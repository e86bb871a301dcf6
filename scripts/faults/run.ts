import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Runs the slow test files, then the fault suite: failures of the database server, the network, the disk and the process under load.
 * FAULT_ROUNDS is how often the suite kills the process, 50 by default.
 */

const folder = fileURLToPath(new URL('../../test/faults', import.meta.url))
const tests = fileURLToPath(new URL('../run/test.ts', import.meta.url))
const { DATABASE_URL: _, ...env } = process.env

const slow = spawnSync(process.execPath, [tests, '--slow'], { stdio: 'inherit', env })
let failed = slow.status === 0 ? 0 : 1
for (const name of readdirSync(folder).toSorted()) {
  const { status } = spawnSync(process.execPath, [name], {
    cwd: folder,
    stdio: 'inherit',
    env: { ...env, TAP_TIMEOUT: '1800' },
  })
  if (status !== 0) failed += 1
}
process.exitCode = failed === 0 ? 0 : 1
