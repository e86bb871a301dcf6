// The entry point. It is JavaScript without static imports, so that a Node.js that is too old can run the check below, and
// so that the compile cache is enabled before the first TypeScript module: otherwise each start loads Node's TypeScript
// compiler, which takes 16 MiB.

const requiredMajor = 24

if (Number(process.versions.node.split('.')[0]) < requiredMajor) {
  console.error(
    `taskwright: needs Node.js ${requiredMajor} or newer, and this is ${process.versions.node}. "npm ci" installs a suitable one: run "npm start", or "node_modules/.bin/node src/main.js".`,
  )
  process.exit(1)
}

const fs = await import('node:fs')
const { enableCompileCache } = await import('node:module')
const path = await import('node:path')

if (process.argv[2] === '--version') {
  const { version } = await import('./domain/shared/version.ts')
  console.log(`taskwright ${version}`)
  process.exit(0)
}

// DATA_DIR as in src/config/settings.ts. Other users can write to Node's default folder for the cache, but not to this one.
const dataDir = path.resolve(process.env.DATA_DIR || 'data')
const compiled = path.join(dataDir, 'compiled')
try {
  // A recursive mkdir never returns where folders cannot be created, as in /proc.
  for (const folder of [dataDir, compiled]) if (!fs.existsSync(folder)) fs.mkdirSync(folder, { mode: 0o700 })
  enableCompileCache(compiled)
} catch {
  // server.ts reports the error of the folder.
}
try {
  await import('./process/server.ts')
} catch (error) {
  // Packages are missing or damaged, so the configuration cannot be read either. server.ts reports all later failures.
  const { createProcessLog } = await import('./process/log.ts')
  const log = createProcessLog(process.stdout.isTTY ? 'pretty' : 'json', { worker: null })
  log.fatal('The service cannot be loaded. "npm ci" installs its packages.', error)
  process.exit(1)
}
