import { spawn } from 'node:child_process'
import { globSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import t from 'tap'
import { coverageFolder } from '../client/contract-check.ts'
import { excerpt } from '../client/excerpt.ts'
import { reportCoverage } from './contract-coverage.ts'
import { compileCache, nodeArguments } from './node-settings.ts'
import { withTeardowns } from './run-to-end.ts'
import { temporaryRoot } from './temporary-root.ts'
import { createTemplate, startTestServer } from './test-server.ts'
import type { Ready } from './test-worker.ts'

/**
 * Runs the test files in the arguments, or all of them, and reports failures. After a run of all files it also reports documented
 * responses that no test has received.
 *
 * A few worker processes run one file at a time each: a process for each file took half of all processor time. The command of tap
 * is not used because it starts every file with source maps, mocking and coverage.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const worker = fileURLToPath(new URL('test-worker.ts', import.meta.url))

// More than the cores of a small machine, because tests wait for I/O. Each more compiles everything once more.
const parallel = 3

// Seconds. tap ends a file that takes longer, and reports its pending tests; a worker that does not respond is killed. The limit is
// for files that hang: the longest file takes 70 s of processor time, which can be many minutes on a busy machine.
const fileTimeout = 900
const killAfter = fileTimeout + 30
/** Seconds that a worker may take to exit. Open handles of test files delay it. */
const exitTimeout = 10

const temporary = mkdtempSync(join(temporaryRoot(), 'taskwright-tests-'))
process.once('exit', () => rmSync(temporary, { recursive: true, force: true }))

const environment: NodeJS.ProcessEnv = {
  ...process.env,
  TAP_TIMEOUT: String(fileTimeout),
  TMPDIR: temporary,
  NODE_COMPILE_CACHE: compileCache,
}

/**
 * Files that start, stop and kill services, upgrade each release, fill large tables, keep the machine busy, or mostly wait. They take half
 * of the time of all files. `npm test -- --slow` runs them; on a server of DATABASE_URL, they run with the rest.
 */
const slowFiles: readonly string[] = [
  'test/admin.ts',
  'test/backup.ts',
  'test/carry-over.ts',
  'test/crash.ts',
  'test/dates.ts',
  'test/db/activity/delivery-plans.ts',
  'test/db/activity/event-plans.ts',
  'test/db/activity/event-readers.ts',
  'test/db/tasks/purge.ts',
  'test/db/engine/outcome.ts',
  'test/db/engine/shares.ts',
  'test/doctor.ts',
  'test/folding.ts',
  'test/http/caller-shares.ts',
  'test/http/slow-clients.ts',
  'test/imports/undoing.ts',
  'test/imports/writing.ts',
  'test/interchange/read.ts',
  'test/leaks.ts',
  'test/lost-transactions.ts',
  'test/observe/observe.ts',
  'test/outbox.ts',
  'test/oidc/faults.ts',
  'test/oidc/oidc-provider.ts',
  'test/oidc/takeovers.ts',
  'test/overload.ts',
  'test/rotation.ts',
  'test/statements.ts',
  'test/process/data-dir.ts',
  'test/process/event-streams.ts',
  'test/process/log.ts',
  'test/process/server.ts',
  'test/process/stop.ts',
  'test/process/watchdog.ts',
  'test/release.ts',
  'test/jobs/clock.ts',
  'test/jobs/storage-check.ts',
  'test/transfer-memory.ts',
  'test/process/workers.ts',
  'test/upgrades.ts',
  'test/webhooks/sending.ts',
]

rmSync(coverageFolder, { recursive: true, force: true })
const named = process.argv.slice(2).flatMap((name) => (name === '--slow' ? slowFiles : [name]))
const skipsSlow = named.length === 0 && process.env.DATABASE_URL === undefined
const files = named.length > 0 ? [...named] : allFiles()
const total = files.length
const failedFiles: string[] = []
// The combined TAP output is discarded.
t.register()
t.resume()
t.jobs = parallel
t.setTimeout(0)
await runOnServer()
t.lists.fail.forEach(reportFailure)
const { pass, fail, skip } = t.counts
console.log(
  `\n${pass} passed, ${fail} failed, ${skip} skipped in ${total} files (${seconds(performance.now())})`,
)
if (skipsSlow) console.log(`Not run (use npm test -- --slow): ${slowFiles.join(', ')}`)
if (failedFiles.length > 0) console.log(`Failed: ${failedFiles.join(', ')}`)
const isCovered = named.length > 0 || reportCoverage()
process.exitCode = failedFiles.length === 0 && isCovered ? 0 : 1

/**
 * All test files without the fault suite, and without the slow ones if they are skipped. The longest start first, so that no core is
 * idle at the end: files that mostly wait, then the largest.
 */
function allFiles(): string[] {
  const exclude = ['test/fixture', 'test/faults', ...(skipsSlow ? slowFiles : [])]
  return globSync('test/**/*.ts', { cwd: root, exclude })
    .map((file) => ({
      file,
      size: statSync(new URL(`../../${file}`, import.meta.url)).size,
      waits: Number(file.startsWith('test/process/') || file === 'test/unavailable.ts'),
    }))
    .toSorted((a, b) => b.waits - a.waits || b.size - a.size)
    .map(({ file }) => file)
}

/** Runs all files with databases on the server of DATABASE_URL, or on one that is started for this run. */
function runOnServer(): Promise<void> {
  return withTeardowns(async (run) => {
    const url = process.env.DATABASE_URL || (await startTestServer(run, temporary))
    environment['DATABASE_URL'] = url
    environment['TEMPLATE_DATABASE'] = await createTemplate(run, url)
    await Promise.all(Array.from({ length: Math.min(parallel, total) }, runWorkers))
  })
}

/** Runs files in a worker. If it dies, a new worker runs the rest. */
async function runWorkers(): Promise<void> {
  if (files.length === 0) return
  await runWorker()
  await runWorkers()
}

async function runWorker(): Promise<void> {
  const child = spawn(process.execPath, [...nodeArguments, worker], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: environment,
  })
  const { promise: exited, resolve } = Promise.withResolvers<string>()
  child.once('close', (code, signal) => resolve(String(signal ?? code)))
  let file: string | undefined
  let started = 0
  let kill: NodeJS.Timeout | undefined
  const killIn = (limit: number): void => {
    clearTimeout(kill)
    kill = setTimeout(() => child.kill('SIGKILL'), limit * 1000)
  }
  const report = (outcome: string, processorTime = ''): void => {
    console.log(`${outcome} ${file} (${seconds(performance.now() - started)}${processorTime})`)
    if (file !== undefined && outcome !== 'passed') failedFiles.push(file)
    file = undefined
  }
  child.on('message', (message: Ready | object) => {
    // tap sends other messages.
    if (!('passed' in message)) return
    const { passed, processorTime } = message
    if (passed !== null)
      report(passed ? 'passed' : 'FAILED', `, ${processorTime.toFixed(1)} s of processor time`)
    file = files.shift()
    started = performance.now()
    killIn(file === undefined ? exitTimeout : killAfter)
    child.send(file ?? '')
  })
  if (!child.stdout) throw new Error('The worker has no output')
  await t.stdin('worker', { tapStream: child.stdout, buffered: true })
  const ended = await exited
  clearTimeout(kill)
  // The worker died while it ran a file.
  if (file !== undefined) report(`FAILED with ${ended}:`)
  if (ended !== '0' && failedFiles.length === 0) failedFiles.push(`a worker exited with ${ended}`)
}

function reportFailure({ fullname, diag }: (typeof t.lists.fail)[number]): void {
  console.log(`\nFAILED ${excerpt(fullname)}`)
  const details: unknown = diag
  if (typeof details !== 'object' || details === null) return
  for (const [name, value] of Object.entries<unknown>({ ...details })) {
    console.log(excerpt(typeof value === 'string' ? value : `${name}: ${inspect(value)}`))
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
