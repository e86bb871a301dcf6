import { spawn } from 'node:child_process'
import { globSync, rmSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import t from 'tap'
import { coverageFolder } from '../test/fixture/contract-check.ts'
import { tellCoverage } from './contract-coverage.ts'

/**
 * Runs the tests, all or those that are named, each file as a process of its own, and tells what failed; after all of
 * them, also which documented answers none has seen.
 *
 * tap's command starts every file with source maps, mocking and coverage, which nothing here uses and which took a
 * third of all processor time; what is used is its library.
 */

const root = fileURLToPath(new URL('..', import.meta.url))

// Two more than the cores of a small machine, since tests also wait.
const parallel = 4

// In seconds: a file that takes longer is told by tap what it waits for, and ended when even that does not help.
const fileTimeout = 300
const killAfter = fileTimeout + 30

// The embedded database is WebAssembly: compiling it better than the baseline does, or looking at functions that are never
// called, costs a test more than it gains. So does collecting garbage often in a process that soon ends.
const nodeArguments = [
  '--liftoff',
  '--no-wasm-tier-up',
  '--no-wasm-dynamic-tiering',
  '--wasm-lazy-validation',
  '--min-semi-space-size=16',
  '--max-semi-space-size=64',
]

const environment = {
  ...process.env,
  TAP_TIMEOUT: String(fileTimeout),
  // What Node makes of each module is kept for the next process and the next run.
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../node_modules/.cache/node', import.meta.url)),
}

rmSync(coverageFolder, { recursive: true, force: true })
const named = process.argv.slice(2)
const files = named.length > 0 ? [...named] : allFiles()
const total = files.length
const failedFiles: string[] = []
// Nobody reads the TAP of all files together.
t.register()
t.resume()
t.jobs = parallel
t.setTimeout(0)
await Promise.all(Array.from({ length: parallel }, runNext))
t.lists.fail.forEach(tellFailure)
const { pass, fail, skip } = t.counts
console.log(
  `\n${pass} passed, ${fail} failed, ${skip} skipped in ${total} files (${seconds(performance.now())})`,
)
if (failedFiles.length > 0) console.log(`Failed: ${failedFiles.join(', ')}`)
const isCovered = named.length > 0 || tellCoverage()
process.exitCode = failedFiles.length === 0 && isCovered ? 0 : 1

/** Every test file but the fault suite, which takes minutes. The largest come first: begun last, they would run alone. */
function allFiles(): string[] {
  return globSync('test/**/*.ts', { cwd: root, exclude: ['test/fixture', 'test/faults'] })
    .map((file) => ({ file, size: statSync(new URL(`../${file}`, import.meta.url)).size }))
    .toSorted((a, b) => b.size - a.size)
    .map(({ file }) => file)
}

async function runNext(): Promise<void> {
  const file = files.shift()
  if (file === undefined) return
  await runFile(file)
  await runNext()
}

async function runFile(file: string): Promise<void> {
  const started = performance.now()
  const child = spawn(process.execPath, [...nodeArguments, file], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: environment,
  })
  const { promise: ending, resolve } = Promise.withResolvers<string>()
  child.once('close', (code, signal) => resolve(String(signal ?? code)))
  const kill = setTimeout(() => child.kill('SIGKILL'), killAfter * 1000)
  const results = await t.stdin(file, { tapStream: child.stdout, buffered: true })
  const ended = await ending
  clearTimeout(kill)
  // What it told before it died may all have passed.
  const passed = results?.ok === true && ended === '0'
  if (!passed) failedFiles.push(file)
  const outcome = passed ? 'passed' : `FAILED with ${ended}:`
  console.log(`${outcome} ${file} (${seconds(performance.now() - started)})`)
}

function tellFailure({ fullname, diag }: (typeof t.lists.fail)[number]): void {
  console.log(`\nFAILED ${fullname}`)
  const details: unknown = diag
  if (typeof details !== 'object' || details === null) return
  for (const [name, value] of Object.entries<unknown>({ ...details })) {
    console.log(typeof value === 'string' ? value : `${name}: ${inspect(value)}`)
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
