import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Takes away what the service relies on, while it works: the database server, the network to it, room on the disk, and the
 * process itself.
 * FAULT_ROUNDS is how often the process is killed; 50 unless it is set.
 */

const folder = fileURLToPath(new URL('../test/faults', import.meta.url))
const { DATABASE_URL: _, ...env } = process.env

let failed = 0
for (const name of readdirSync(folder).toSorted()) {
  const { status } = spawnSync(process.execPath, [name], {
    cwd: folder,
    stdio: 'inherit',
    env: { ...env, TAP_TIMEOUT: '1800' },
  })
  if (status !== 0) failed += 1
}
process.exitCode = failed === 0 ? 0 : 1
