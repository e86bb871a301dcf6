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

/**
 * Operations that can take away the rights of the one who calls them, and so are tried by some who have them to lose: each
 * line by another administrator, together with what finds something to try them on.
 */
const leaving = [
  { ids: ['replaceUser', 'updateUser'], finding: 'createUser' },
  { ids: ['deleteUser'], finding: 'createUser' },
  { ids: ['revokeSession'], finding: 'listSessions' },
  { ids: ['logout'], finding: 'getCurrentUser' },
]

/** The same requests at every run, unless another seed is given: `npm run conformance -- 7`. */
const seed = process.argv[2] ?? '1'

/** Requests that are made up for each operation. */
const examples = '30'

/** Milliseconds for all of it, the tool still to be installed. */
const deadline = 15 * 60_000

const root = fileURLToPath(new URL('../..', import.meta.url))
const cache = join(root, '.cache/conformance')
const config = fileURLToPath(new URL('schemathesis.toml', import.meta.url))
const hooks = fileURLToPath(new URL('hooks.py', import.meta.url))
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
      '--seed',
      seed,
      '--max-examples',
      examples,
      '--no-color',
      ...which,
    ],
    cwd: cache,
    // Without it Python leaves a compiled copy of the hooks beside them.
    env: { ...process.env, SCHEMATHESIS_HOOKS: hooks, PYTHONDONTWRITEBYTECODE: '1' },
  })
  console.log(printed.slice(printed.indexOf('API Operations:')))
}

/** Operations whose responses do not end by themselves. */
const endless = ['streamEvents']

await runToEnd('conformance', deadline, async (t) => {
  if (!isInstalled('python3')) {
    console.log('skipped: python3 is not installed')
    // On a machine of one's own a toolchain may be missing; where every change is checked it may not.
    if (process.env.CI) process.exitCode = 1
    return
  }
  await install(t)
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    LOG_LEVEL: 'fatal',
    RATE_LIMIT: 'off',
  })
  const client = createClient(service.url, () => undefined)
  const { token } = await client.register('admin')
  const left = leaving.flatMap(({ ids }) => ids)
  const excluded = [...left, ...endless].flatMap((id) => ['--exclude-operation-id', id])
  await conform(t, service.url, token, ...excluded)

  for (const [index, { ids, finding }] of leaving.entries()) {
    const email = `leaver-${index}@example.com`
    const password = 'a password to leave with'
    const leaver = { username: `leaver-${index}`, email, password, role: 'admin' }
    await client.expect('createUser', 201, { token, body: leaver })
    const { body } = await client.expect('login', 200, { body: { email, password } })
    const which = [...ids, finding].flatMap((id) => ['--include-operation-id', id])
    await conform(t, service.url, body.access_token, ...which)
  }
})
