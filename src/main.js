import { existsSync, mkdirSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join, resolve } from 'node:path'

/**
 * Where the process begins. In JavaScript, since Node loads a compiler for the first module in TypeScript that is not in
 * the cache yet, and keeps it: 27 MiB. Half of a start is spent on compiling, too.
 */

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
