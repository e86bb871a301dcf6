import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { isInstalled, runCommand } from '../commands.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'

/**
 * Property-based conformance: Schemathesis makes thousands of requests from openapi.yaml, valid and invalid ones, and
 * follows what one answer says to the next. Every check and every phase is on, and an administrator is signed in.
 */

/** Requests that are made up for each operation. */
const examples = '30'

/** Milliseconds for all of it, the tool still to be installed. */
const deadline = 15 * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))
const cache = join(root, '.cache/conformance')
const config = fileURLToPath(new URL('schemathesis.toml', import.meta.url))
const bin = join(cache, 'venv/bin')

const install = async (t: Teardown): Promise<void> => {
  await mkdir(cache, { recursive: true })
  const requirements = fileURLToPath(new URL('requirements.txt', import.meta.url))
  const at = { cwd: cache, env: process.env }
  await runCommand(t, { command: 'python3', args: ['-m', 'venv', join(cache, 'venv')], ...at })
  const args = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--requirement', requirements]
  await runCommand(t, { command: join(bin, 'python'), args, ...at })
}

const conform = async (t: Teardown, url: string, token: string, ...which: string[]): Promise<void> => {
  const authorization = `Authorization: Bearer ${token}`
  const args = [
    'run',
    `${url}/openapi.yaml`,
    '--url',
    url,
    '--header',
    authorization,
    '--checks',
    'all',
    '--phases',
  ]
  const printed = await runCommand(t, {
    command: join(bin, 'st'),
    args: [
      '--config-file',
      config,
      ...args,
      'examples,coverage,fuzzing,stateful',
      '--max-examples',
      examples,
      '--no-color',
      ...which,
    ],
    cwd: cache,
    env: process.env,
  })
  console.log(printed.slice(printed.indexOf('API Operations:')))
}

await runToEnd('conformance', deadline, async (t) => {
  if (!(await isInstalled('python3'))) {
    console.log('skipped: no python3')
    // On a machine of one's own a toolchain may be missing; where every change is checked it may not.
    if (process.env.CI) process.exitCode = 1
    return
  }
  await install(t)
  const service = await startProcess(t, { DATA_DIR: await temporaryFolder(t), LOG_LEVEL: 'fatal' })
  const client = createClient(service.url, () => undefined)
  const { token } = await client.register('admin')
  // A logout ends the session that everything else needs, so it has one of its own.
  await conform(t, service.url, token, '--exclude-operation-id', 'logout')
  const leaver = await client.register('leaver')
  await conform(t, service.url, leaver.token, '--include-operation-id', 'logout')
})
