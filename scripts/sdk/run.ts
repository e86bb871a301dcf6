import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { CommandFailure, isInstalled, runCommand } from '../commands.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { language as go } from './go/sdk.ts'
import { language as java } from './java/sdk.ts'
import type { Language, Paths } from './language.ts'
import { language as python } from './python/sdk.ts'
import { language as typescript } from './typescript/sdk.ts'

/**
 * Makes a client from openapi.yaml as each community does, compiles it, and works through it with a service that is
 * started for it.
 *
 *     node scripts/sdk/run.ts [language...]
 */

const languages: readonly Language[] = [typescript, python, go, java]

/** What each program prints and nothing else: no step is left out, and no warning comes with them. */
const scenario = `register create patch clear tag file page conflict validation refresh logout`
  .split(' ')
  .map((step) => `ok ${step}`)

/** Milliseconds for all of it, with every tool still to be downloaded. */
const deadline = 30 * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))

const pathsOf = (name: string): Paths => ({
  contract: join(root, 'openapi.yaml'),
  program: join(root, 'scripts/sdk', name),
  output: join(root, '.cache/sdk', name),
  cache: join(root, '.cache/sdk-tools', name),
})

const runLanguage = async (t: Teardown, { name, steps }: Language, url: string): Promise<void> => {
  const paths = pathsOf(name)
  await rm(paths.output, { recursive: true, force: true })
  await Promise.all([paths.output, paths.cache].map((folder) => mkdir(folder, { recursive: true })))
  let printed = ''
  for (const step of steps(paths)) {
    const started = performance.now()
    const env = { ...process.env, TASKWRIGHT_URL: url, ...step.env }
    try {
      printed = await runCommand(t, { ...step, cwd: step.cwd ?? paths.output, env })
    } catch (error) {
      throw new CommandFailure(`${step.title}: ${error instanceof Error ? error.message : String(error)}`)
    }
    console.log(
      `  ${step.title.padEnd(24)}${((performance.now() - started) / 1_000).toFixed(1).padStart(6)} s`,
    )
  }
  const lines = printed.trim().split('\n')
  console.log(lines.map((line) => `    ${line}`).join('\n'))
  if (!isDeepStrictEqual(lines, scenario))
    throw new CommandFailure(`Expected output:\n${scenario.join('\n')}`)
}

/** Resolves with what to say of a language in the end, and with whether that is good. */
const check = async (t: Teardown, language: Language, url: string): Promise<readonly [string, boolean]> => {
  console.log(`\n--- ${language.name}`)
  for (const tool of language.tools) {
    // On a machine of one's own a toolchain may be missing; where every change is checked it may not.
    if (!isInstalled(tool)) return [`skipped: ${tool} is not installed`, !process.env.CI]
  }
  try {
    await runLanguage(t, language, url)
    return ['ok', true]
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    console.error(error.message)
    return ['FAILED', false]
  }
}

const chosen = (names: readonly string[]): readonly Language[] => {
  const unknown = names.find((name) => languages.every((language) => language.name !== name))
  if (unknown !== undefined)
    throw new Error(
      `Unknown language ${unknown}. Expected one of: ${languages.map(({ name }) => name).join(', ')}`,
    )
  return languages.filter(({ name }) => names.length === 0 || names.includes(name))
}

await runToEnd('sdk', deadline, async (t) => {
  const wanted = chosen(process.argv.slice(2))
  const service = await startProcess(t, { DATA_DIR: await temporaryFolder(t) })
  // The first user is an administrator and sees every task; those whom the programs register are not.
  await createClient(service.url, () => undefined).register('first')
  const results: string[] = []
  for (const language of wanted) {
    const [result, good] = await check(t, language, service.url)
    results.push(`${language.name.padEnd(12)}${result}`)
    if (!good) process.exitCode = 1
  }
  console.log(`\n${results.join('\n')}`)
})
