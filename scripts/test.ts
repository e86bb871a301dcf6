import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { coverageFolder } from '../test/fixture/contract-check.ts'

/** Runs the tests, all or those that are named, and keeps what Node makes of each module for the next process and the next run. */

const NODE_COMPILE_CACHE = fileURLToPath(new URL('../node_modules/.cache/node', import.meta.url))

rmSync(coverageFolder, { recursive: true, force: true })
const { status, error } = spawnSync('tap', process.argv.slice(2), {
  stdio: 'inherit',
  env: { ...process.env, NODE_COMPILE_CACHE },
  shell: process.platform === 'win32',
})
if (error) throw error
process.exitCode = status ?? 1
