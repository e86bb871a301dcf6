import { existsSync, mkdirSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join, resolve } from 'node:path'

/**
 * Where the process begins. In JavaScript, since Node loads a compiler for the first module in TypeScript that is not in
 * the cache yet, and keeps it: 27 MiB. Half of a start is spent on compiling, too.
 */

/**
 * Otherwise half of the memory after a load would be what nobody gives back: V8 lets garbage grow to several times of what
 * is in use, and glibc keeps freed blocks by thread, large ones as well once it has seen one (mallopt(3), M_ARENA_MAX and
 * M_MMAP_THRESHOLD). And where processors are few, V8's four helpers would take turns with the requests that wait for them:
 * with one, the slowest of a hundred are answered in two thirds of the time. All can be told so only before a process
 * begins, and so it begins anew, as the same process, where the system can do that.
 */
const ofNode = ['--max-semi-space-size=16', '--heap-growing-percent=100', '--v8-pool-size=1']
const ofAllocator = { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '1048576' }
const isTold = ofNode.every((option) => process.execArgv.includes(option))
if (process.execve && !isTold) {
  const command = [process.execPath, ...ofNode, ...process.execArgv, ...process.argv.slice(1)]
  process.execve(process.execPath, command, { ...ofAllocator, ...process.env })
}

// DATA_DIR as config.ts reads it. Here nobody else can write, unlike in the folder that Node would take.
const dataDir = resolve(process.env.DATA_DIR || 'data')
const compiled = join(dataDir, 'compiled')
try {
  // Asked to make the folders that lead to one, Node never ends where that cannot be done, as in /proc.
  for (const folder of [dataDir, compiled]) if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
  enableCompileCache(compiled)
} catch {
  // The start tells what is wrong with the folder.
}
await import('./server.ts')
