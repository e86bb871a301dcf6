import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { startReceiver } from '../../test/fixture/webhooks.ts'
import { CommandFailure, isInstalled, runCommand } from '../run/commands.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'
import { type Generator, generators, type Paths, type Step } from './generators.ts'
import { startGrowthProxy, unknownValue } from './growth-proxy.ts'

/**
 * Generates a client from openapi.yaml with each generator, compiles it, and runs the scenario with it against a new service: directly,
 * and through a proxy that answers as a later version could, with unknown fields and unknown values of enumerations that may grow.
 *
 *     node scripts/sdk/run.ts [--all | language...]
 *
 * The variables of the programs: TASKWRIGHT_URL, the URL of a service that has an administrator; TASKWRIGHT_RECEIVER, the URL of a
 * receiver of webhooks that accepts everything; TASKWRIGHT_RECEIVERS, the folder of the receivers that docs/guides/webhooks.md shows;
 * TASKWRIGHT_UNKNOWN_VALUE, set if the service sends this instead of every value of an enumeration that may grow.
 */

/** The steps of every program, which prints `ok <step>` after each. They use the generated client only. */
const scenario: Readonly<Record<string, string>> = {
  register: 'registers an account, whose access token signs the requests that follow',
  create: 'creates a task with a value of an enumeration and a time in milliseconds',
  patch: 'changes one field, and the others keep their values',
  clear: 'sets a field to null',
  tag: 'tags a task with a tag that has an optional field',
  file: 'uploads a file with its SHA-256, and downloads the same bytes',
  page: 'follows the cursors of a list, which has every task once',
  project: 'adds a colleague to a project, who reads its tasks',
  comment: 'mentions a user, edits a comment by its ETag, and pages through comments',
  subtask: 'creates a subtask, which is counted and belongs to the project of its parent',
  relation: 'blocks a task by another',
  inbox: 'follows a task, and reads a notification until it is marked as read',
  webhook: 'receives the test message of a webhook, and finds its delivery',
  events: 'reads the history of a task, and searches events by project and type',
  stream: 'reads an event from the event stream, resumed at an earlier one',
  delete: 'deletes a project, whose tasks are then hidden from the colleague',
  conflict: 'gets the problem of a change with an outdated ETag',
  validation: 'gets the problem of an invalid body, which points to the field',
  refresh: 'exchanges the refresh token for new tokens',
  logout: 'ends the session, whose access token is then rejected',
}

/** Milliseconds, including the download of all tools. */
const deadline = 60 * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))

const pathsOf = (name: string): Paths => ({
  contract: join(root, 'openapi.yaml'),
  source: join(root, 'scripts/sdk', name),
  output: join(root, '.cache/sdk', name),
  cache: join(root, '.cache/sdk-tools', name),
  sharedCache: join(root, '.cache/sdk-tools'),
})

/** The URLs of the service, of the proxy in front of it, and of a receiver of webhooks. */
interface Urls {
  readonly direct: string
  readonly proxy: string
  readonly receiver: string
}

/** Runs a step. Resolves to its output. */
const runStep = async (
  t: Teardown,
  step: Step,
  output: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string> => {
  const started = performance.now()
  const env = { ...process.env, ...environment, ...step.env }
  try {
    return await runCommand(t, { ...step, cwd: output, env })
  } catch (error) {
    throw new CommandFailure(`${step.title}: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    console.log(
      `  ${step.title.padEnd(30)}${((performance.now() - started) / 1_000).toFixed(1).padStart(6)} s`,
    )
  }
}

const runGenerator = async (
  t: Teardown,
  name: string,
  { plan, unsupported = [] }: Generator,
  urls: Urls,
): Promise<void> => {
  const paths = pathsOf(name)
  await rm(paths.output, { recursive: true, force: true })
  await Promise.all([paths.output, paths.cache].map((folder) => mkdir(folder, { recursive: true })))
  const { steps, program } = plan(paths)
  for (const step of steps) {
    if (step.creates === undefined || !existsSync(step.creates)) await runStep(t, step, paths.output)
  }
  // The output must be complete, and must not contain warnings.
  const expected = Object.keys(scenario)
    .filter((step) => !unsupported.includes(step))
    .map((step) => `ok ${step}`)
  for (const [title, url, growth] of [
    [program.title, urls.direct, {}],
    [`${program.title} against a later version`, urls.proxy, { TASKWRIGHT_UNKNOWN_VALUE: unknownValue }],
  ] as const) {
    const output = await runStep(t, { ...program, title }, paths.output, {
      TASKWRIGHT_URL: url,
      TASKWRIGHT_RECEIVER: urls.receiver,
      TASKWRIGHT_RECEIVERS: join(root, 'scripts/sdk/receivers'),
      ...growth,
    })
    if (!isDeepStrictEqual(output.trim().split('\n'), expected))
      throw new CommandFailure(`${title}: printed\n${output}\ninstead of\n${expected.join('\n')}`)
  }
}

/** Runs a generator. Resolves to its line in the summary, and whether it passed. */
const check = async (
  t: Teardown,
  name: string,
  generator: Generator,
  urls: Urls,
): Promise<readonly [result: string, passed: boolean]> => {
  console.log(`\n--- ${name}`)
  for (const tool of generator.tools) {
    // Toolchains are required in CI only.
    if (!isInstalled(tool)) return [`skipped: ${tool} is not installed`, !process.env.CI]
  }
  const started = performance.now()
  try {
    await runGenerator(t, name, generator, urls)
    return [`ok ${((performance.now() - started) / 1_000).toFixed(0).padStart(6)} s`, true]
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    console.error(error.message)
    return ['FAILED', false]
  }
}

const select = (all: boolean, names: readonly string[]): readonly (readonly [string, Generator])[] => {
  const unknown = names.find((name) => !Object.hasOwn(generators, name))
  if (unknown !== undefined)
    throw new Error(`Unknown language ${unknown}. Expected one of: ${Object.keys(generators).join(', ')}`)
  return Object.entries(generators).filter(([name, { slow }]) =>
    names.length > 0 ? names.includes(name) : all || slow !== true,
  )
}

await runToEnd('sdk', deadline, async (t) => {
  const { values, positionals } = parseArgs({
    options: { all: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const selected = select(values.all, positionals)
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    WEBHOOK_ALLOW: '127.0.0.1',
  })
  // The first user becomes the administrator, so the users of the programs are members.
  await createClient(service.url, () => undefined).register('first')
  const urls = {
    direct: service.url,
    proxy: await startGrowthProxy(t, service.url),
    receiver: (await startReceiver(t)).url,
  }
  const results: string[] = []
  for (const [name, generator] of selected) {
    const [result, passed] = await check(t, name, generator, urls)
    results.push(`${name.padEnd(12)}${result}`)
    if (!passed) process.exitCode = 1
  }
  console.log(`\n${results.join('\n')}`)
})
