import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { startReceiver } from '../../test/fixture/webhooks.ts'
import { CommandFailure, isInstalled, runCommand } from '../commands.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import type { Generator, Paths, Step } from './generator.ts'
import { generator as go } from './go/sdk.ts'
import { startGrowthProxy } from './growth-proxy.ts'
import { generator as java } from './java/sdk.ts'
import { generator as ogen } from './ogen/sdk.ts'
import { generator as kotlin } from './kotlin/sdk.ts'
import { generator as openapiFetch } from './openapi-fetch/sdk.ts'
import { generator as orval } from './orval/sdk.ts'
import { generator as php } from './php/sdk.ts'
import { generator as pythonOpenapiGenerator } from './python-openapi-generator/sdk.ts'
import { generator as progenitor } from './progenitor/sdk.ts'
import { generator as python } from './python/sdk.ts'
import { generator as ruby } from './ruby/sdk.ts'
import { generator as rust } from './rust/sdk.ts'
import { generator as typescript } from './typescript/sdk.ts'

/**
 * Makes a client from openapi.yaml with each generator, compiles it, and works through it with a service that is started
 * for it: once directly, and once through a proxy that adds a field to every object of every answer.
 *
 *     node scripts/sdk/run.ts [--all | generator...]
 */

const generators: readonly Generator[] = [
  typescript,
  openapiFetch,
  orval,
  python,
  pythonOpenapiGenerator,
  go,
  ogen,
  java,
  kotlin,
  php,
  ruby,
  rust,
  progenitor,
]

const scenario =
  `register create patch clear tag file page project comment subtask relation inbox webhook events stream delete
  conflict validation refresh logout`.split(/\s+/)

/** Milliseconds for all of it, with every tool still to be downloaded. */
const deadline = 60 * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))

const pathsOf = (name: string): Paths => ({
  contract: join(root, 'openapi.yaml'),
  source: join(root, 'scripts/sdk', name),
  output: join(root, '.cache/sdk', name),
  cache: join(root, '.cache/sdk-tools', name),
  sharedCache: join(root, '.cache/sdk-tools'),
})

/** The URLs of the service itself, of the proxy in front of it, and of a receiver of webhooks. */
interface Urls {
  readonly direct: string
  readonly grown: string
  readonly receiver: string
}

/** Runs one step; resolves with what it printed. */
const runStep = async (
  t: Teardown,
  step: Step,
  output: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string> => {
  const started = performance.now()
  const env = { ...process.env, ...environment, ...step.env }
  try {
    return await runCommand(t, { ...step, cwd: step.cwd ?? output, env })
  } catch (error) {
    throw new CommandFailure(`${step.title}: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    console.log(
      `  ${step.title.padEnd(26)}${((performance.now() - started) / 1_000).toFixed(1).padStart(6)} s`,
    )
  }
}

const runGenerator = async (
  t: Teardown,
  { name, plan, leavesOut = [] }: Generator,
  urls: Urls,
): Promise<void> => {
  const paths = pathsOf(name)
  await rm(paths.output, { recursive: true, force: true })
  await Promise.all([paths.output, paths.cache].map((folder) => mkdir(folder, { recursive: true })))
  const { steps, program } = plan(paths)
  for (const step of steps) {
    if (step.makes === undefined || !existsSync(step.makes)) await runStep(t, step, paths.output)
  }
  // What the program prints and nothing else: no step is left out, and no warning comes with them.
  const expected = scenario.filter((step) => !leavesOut.includes(step)).map((step) => `ok ${step}`)
  for (const [title, url] of [
    [program.title, urls.direct],
    [`${program.title} with added fields`, urls.grown],
  ] as const) {
    const printed = await runStep(t, { ...program, title }, paths.output, {
      TASKWRIGHT_URL: url,
      TASKWRIGHT_RECEIVER: urls.receiver,
      TASKWRIGHT_RECEIVERS: join(root, 'scripts/receivers'),
    })
    if (!isDeepStrictEqual(printed.trim().split('\n'), expected))
      throw new CommandFailure(`${title}: printed\n${printed}\ninstead of\n${expected.join('\n')}`)
  }
}

/** Resolves with what to say of a generator in the end, and with whether that is good. */
const check = async (
  t: Teardown,
  generator: Generator,
  urls: Urls,
): Promise<readonly [result: string, good: boolean]> => {
  console.log(`\n--- ${generator.name}`)
  for (const tool of generator.tools) {
    // On a machine of one's own a toolchain may be missing; where every change is checked it may not.
    if (!isInstalled(tool)) return [`skipped: ${tool} is not installed`, !process.env.CI]
  }
  const started = performance.now()
  try {
    await runGenerator(t, generator, urls)
    return [`ok ${((performance.now() - started) / 1_000).toFixed(0).padStart(6)} s`, true]
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    console.error(error.message)
    return ['FAILED', false]
  }
}

const chosen = (all: boolean, names: readonly string[]): readonly Generator[] => {
  const unknown = names.find((name) => generators.every((generator) => generator.name !== name))
  if (unknown !== undefined)
    throw new Error(
      `Unknown generator ${unknown}. Expected one of: ${generators.map(({ name }) => name).join(', ')}`,
    )
  if (names.length > 0) return generators.filter(({ name }) => names.includes(name))
  return generators.filter(({ slow }) => all || slow !== true)
}

await runToEnd('sdk', deadline, async (t) => {
  const { values, positionals } = parseArgs({
    options: { all: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const wanted = chosen(values.all, positionals)
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    WEBHOOK_ALLOW: '127.0.0.1',
  })
  // The first user is an administrator and sees every task; those whom the programs register are not.
  await createClient(service.url, () => undefined).register('first')
  const urls = {
    direct: service.url,
    grown: await startGrowthProxy(t, service.url),
    receiver: (await startReceiver(t)).url,
  }
  const results: string[] = []
  for (const generator of wanted) {
    const [result, good] = await check(t, generator, urls)
    results.push(`${generator.name.padEnd(26)}${result}`)
    if (!good) process.exitCode = 1
  }
  console.log(`\n${results.join('\n')}`)
})
