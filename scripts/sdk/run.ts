import { existsSync } from 'node:fs'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { mayBreakClients } from '../check/breaking-changes.ts'
import { createClient } from '../client/client.ts'
import { startReceiver } from '../../test/fixture/webhooks.ts'
import { CommandFailure, isInstalled, runCommand } from '../run/commands.ts'
import { releasedContract } from '../run/released-contract.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'
import {
  contractVersion,
  type Generator,
  generators,
  type Paths,
  type Plan,
  type Step,
} from './generators.ts'
import { startGrowthProxy, startUnreliableProxy, unknownValue } from './proxies.ts'

/**
 * Generates a client from openapi.yaml with each generator, compiles it, and runs the scenario with it against a new service: directly,
 * and through a proxy that answers as a later version could, with unknown fields and unknown values of enumerations that may grow. The
 * Python client, which parses every field, is generated from the last released contract as well, unless this version may break it: users
 * have such clients.
 *
 *     node scripts/sdk/run.ts [language...]
 *     node scripts/sdk/run.ts package FOLDER        makes only the packages for npm and PyPI, and copies their archives to the folder
 *
 * The variables of the programs: TASKWRIGHT_URL, the URL of a service that has an administrator; TASKWRIGHT_UNRELIABLE, that of a proxy
 * that fails twice before it relays a request; TASKWRIGHT_RECEIVER, the URL of a receiver of webhooks that accepts everything;
 * TASKWRIGHT_UNKNOWN_VALUE, set if the service sends this instead of every value of an enumeration that may grow.
 */

/** The steps of the programs, which print `ok <step>` after each. They use the generated client only. */
const scenario: Readonly<Record<string, string>> = {
  register: 'registers an account, whose access token signs the requests that follow',
  create: 'creates a task with a value of an enumeration and a time in milliseconds',
  patch: 'changes one field, and the others keep their values',
  remind: 'sets a reminder relative to a date, reads it in a list, snoozes and deletes it',
  recur: 'sets a nullable object, changes one of its fields, and sets it to null',
  metadata: 'sets keys of a dictionary, and removes one of them',
  clear: 'sets a field to null',
  tag: 'tags a task with a tag that has an optional field',
  file: 'uploads a file with its SHA-256, and downloads the same bytes',
  page: 'follows the cursors of a list, which has every task once',
  retry:
    'creates a task once, although the service refuses the first request and the response to the second is lost',
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
  import: 'imports a table, whose row becomes a task',
  export: 'exports everything, and downloads the archive',
  refresh: 'exchanges the refresh token for new tokens',
  logout: 'ends the session, whose access token is then rejected',
}

/** Milliseconds, including the download of all tools. */
const deadline = 60 * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The path of the last released contract, if this version must not break its clients. */
const compatibleContract =
  releasedContract === undefined || mayBreakClients(basename(dirname(releasedContract)), contractVersion)
    ? undefined
    : releasedContract

const pathsOf = (name: string, contract = join(root, 'openapi.yaml')): Paths => ({
  contract,
  source: join(root, 'scripts/sdk', name),
  output: join(root, '.cache/sdk', name),
  cache: join(root, '.cache/sdk-tools', name),
  sharedCache: join(root, '.cache/sdk-tools'),
})

/** The URLs of the service, of the proxy in front of it, and of a receiver of webhooks. */
interface Urls {
  readonly direct: string
  readonly proxy: string
  readonly unreliable: string
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
    return await runCommand(t, { ...step, cwd: join(output, step.cwd ?? '.'), env })
  } catch (error) {
    throw new CommandFailure(`${step.title}: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    console.log(
      `  ${step.title.padEnd(30)}${((performance.now() - started) / 1_000).toFixed(1).padStart(6)} s`,
    )
  }
}

const runSteps = async (t: Teardown, steps: readonly Step[], output: string): Promise<void> => {
  for (const step of steps) {
    if (step.creates === undefined || !existsSync(step.creates)) await runStep(t, step, output)
  }
}

/** Makes the output, with the package if the generator makes one. */
const prepare = async (
  t: Teardown,
  { output, cache }: Paths,
  { files = {}, pack = [] }: Plan,
): Promise<void> => {
  await rm(output, { recursive: true, force: true })
  await mkdir(cache, { recursive: true })
  await mkdir(join(output, 'archives'), { recursive: true })
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(output, path)), { recursive: true })
    await writeFile(join(output, path), text)
  }
  await runSteps(t, pack, output)
}

const makePackages = async (t: Teardown, folder: string): Promise<void> => {
  for (const [name, { plan }] of Object.entries(generators)) {
    const paths = pathsOf(name)
    const planned = plan(paths)
    if (planned.pack === undefined) continue
    await prepare(t, paths, planned)
    await cp(join(paths.output, 'archives'), resolve(folder), { recursive: true })
  }
}

const runGenerator = async (
  t: Teardown,
  name: string,
  { plan, omitted = [], isStrict = false }: Generator,
  urls: Urls,
): Promise<void> => {
  const paths = pathsOf(name)
  const planned = plan(paths)
  const { steps, program, examples } = planned
  // The output must be complete, and must not contain warnings.
  const expected = Object.keys(scenario)
    .filter((step) => !omitted.includes(step))
    .map((step) => `ok ${step}`)
  const runProgram = async (title: string, url: string, growth = {}): Promise<void> => {
    const output = await runStep(t, { ...program, title }, paths.output, {
      TASKWRIGHT_URL: url,
      TASKWRIGHT_UNRELIABLE: urls.unreliable,
      TASKWRIGHT_RECEIVER: urls.receiver,
      ...growth,
    })
    if (!isDeepStrictEqual(output.trim().split('\n'), expected))
      throw new CommandFailure(`${title}: printed\n${output}\ninstead of\n${expected.join('\n')}`)
  }
  if (isStrict && compatibleContract !== undefined) {
    const released = plan(pathsOf(name, compatibleContract))
    await prepare(t, paths, released)
    await runSteps(t, released.steps, paths.output)
    await runProgram('run the released client', urls.direct)
  }
  await prepare(t, paths, planned)
  await runSteps(t, steps, paths.output)
  await runProgram(program.title, urls.direct)
  await runProgram(`${program.title} against a later version`, urls.proxy, {
    TASKWRIGHT_UNKNOWN_VALUE: unknownValue,
  })
  if (examples !== undefined) await runStep(t, examples, paths.output, { TASKWRIGHT_URL: urls.direct })
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

const select = (names: readonly string[]): readonly (readonly [string, Generator])[] => {
  const unknown = names.find((name) => !Object.hasOwn(generators, name))
  if (unknown !== undefined)
    throw new Error(`Unknown language ${unknown}. Expected one of: ${Object.keys(generators).join(', ')}`)
  return Object.entries(generators).filter(([name]) => names.length === 0 || names.includes(name))
}

const runAll = async (t: Teardown, selected: readonly (readonly [string, Generator])[]): Promise<void> => {
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    WEBHOOK_ALLOW: '127.0.0.1',
  })
  // The first user becomes the administrator, so the users of the programs are members. The READMEs sign in as this one.
  await createClient(service.url, () => undefined).register('ada')
  const urls = {
    direct: service.url,
    proxy: await startGrowthProxy(t, service.url),
    unreliable: await startUnreliableProxy(t, service.url),
    receiver: (await startReceiver(t)).url,
  }
  const results: string[] = []
  for (const [name, generator] of selected) {
    const [result, passed] = await check(t, name, generator, urls)
    results.push(`${name.padEnd(12)}${result}`)
    if (!passed) process.exitCode = 1
  }
  console.log(`\n${results.join('\n')}`)
}

const { positionals } = parseArgs({ allowPositionals: true })
const [first, folder] = positionals
await runToEnd('sdk', deadline, (t) =>
  first === 'package' && folder !== undefined ? makePackages(t, folder) : runAll(t, select(positionals)),
)
