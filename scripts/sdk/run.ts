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
 * Generates a client from openapi.yaml with each generator, compiles it, and runs the scenario with it against a new service: directly,
 * and through a proxy that adds a field to every object in responses.
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
  { name, plan, unsupported = [] }: Generator,
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
  const expected = scenario.filter((step) => !unsupported.includes(step)).map((step) => `ok ${step}`)
  for (const [title, url] of [
    [program.title, urls.direct],
    [`${program.title} with added fields`, urls.proxy],
  ] as const) {
    const output = await runStep(t, { ...program, title }, paths.output, {
      TASKWRIGHT_URL: url,
      TASKWRIGHT_RECEIVER: urls.receiver,
      TASKWRIGHT_RECEIVERS: join(root, 'scripts/receivers'),
    })
    if (!isDeepStrictEqual(output.trim().split('\n'), expected))
      throw new CommandFailure(`${title}: printed\n${output}\ninstead of\n${expected.join('\n')}`)
  }
}

/** Runs a generator. Resolves to its line in the summary, and whether it passed. */
const check = async (
  t: Teardown,
  generator: Generator,
  urls: Urls,
): Promise<readonly [result: string, passed: boolean]> => {
  console.log(`\n--- ${generator.name}`)
  for (const tool of generator.tools) {
    // Toolchains are required in CI only.
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

const select = (all: boolean, names: readonly string[]): readonly Generator[] => {
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
  for (const generator of selected) {
    const [result, passed] = await check(t, generator, urls)
    results.push(`${generator.name.padEnd(26)}${result}`)
    if (!passed) process.exitCode = 1
  }
  console.log(`\n${results.join('\n')}`)
})
