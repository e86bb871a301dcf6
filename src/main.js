// The entry point. It has no static imports, so that a Node.js that is too old can still run the check below.
// It is JavaScript because loading a first TypeScript module that is not yet in the compile cache costs 27 MiB.

const requiredMajor = 24

if (Number(process.versions.node.split('.')[0]) < requiredMajor) {
  console.error(
    `taskwright: needs Node.js ${requiredMajor} or newer, and this is ${process.versions.node}. "npm ci" installs a suitable one: run "npm start", or "node_modules/.bin/node src/main.js".`,
  )
  process.exit(1)
}

/**
 * V8 lets garbage grow to several times the live heap, and glibc keeps freed blocks per thread (mallopt(3), M_ARENA_MAX and
 * M_MMAP_THRESHOLD); without these settings, half of the memory after a load is never returned. On few processors, V8's four
 * helper threads compete with requests; with one, the slowest of a hundred requests take two thirds of the time. All of it
 * must be set before the process starts, so the process replaces itself, under the same pid, where the system can do that.
 */
const v8Options = ['--max-semi-space-size=16', '--heap-growing-percent=100', '--v8-pool-size=1']
const allocatorSettings = { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '1048576' }
const hasOptions = v8Options.every((option) => process.execArgv.includes(option))
if (process.execve && !hasOptions) {
  const command = [process.execPath, ...v8Options, ...process.execArgv, ...process.argv.slice(1)]
  process.execve(process.execPath, command, { ...allocatorSettings, ...process.env })
}

const fs = await import('node:fs')
const { enableCompileCache } = await import('node:module')
const path = await import('node:path')

// Compiling takes half of a start. DATA_DIR is read as in config.ts; unlike in Node's default folder, nobody else can write there.
const dataDir = path.resolve(process.env.DATA_DIR || 'data')
const compiled = path.join(dataDir, 'compiled')
try {
  // A recursive mkdir never returns where folders cannot be made, as in /proc.
  for (const folder of [dataDir, compiled]) if (!fs.existsSync(folder)) fs.mkdirSync(folder, { mode: 0o700 })
  enableCompileCache(compiled)
} catch {
  // The start reports what is wrong with the folder.
}
await import('./process/server.ts')
