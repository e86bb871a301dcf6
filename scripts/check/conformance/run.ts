import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../../test/fixture/process.ts'
import { createClient } from '../../../test/fixture/service.ts'
import { isInstalled, runCommand } from '../../run/commands.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'

/**
 * Property-based conformance tests: Schemathesis generates thousands of valid and invalid requests from openapi.yaml, and sequences in
 * selection a request uses data of an earlier response. All checks and phases are enabled, and the caller is an administrator.
 */

/**
 * Operations that can revoke the caller's own access. A separate administrator tests each entry, together with `source`, an operation
 * whose responses have ids for them.
 */
const revoking = [
  { ids: ['replaceUser', 'updateUser'], source: 'createUser' },
  { ids: ['deleteUser'], source: 'createUser' },
  { ids: ['revokeSession'], source: 'listSessions' },
  { ids: ['logout'], source: 'getCurrentUser' },
  { ids: ['logoutOidc'], source: 'getCurrentUser' },
]

/** A fixed seed makes runs repeatable, and an argument overrides it. */
const seed = process.argv[2] ?? '1'

/** Number of generated requests per operation. */
const examples = '30'

/** Milliseconds, including the installation of the tool. */
const deadline = 15 * 60_000

const root = fileURLToPath(new URL('../../..', import.meta.url))
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

const runSchemathesis = async (
  t: Teardown,
  url: string,
  token: string,
  ...selection: string[]
): Promise<void> => {
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
  const output = await runCommand(t, {
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
      ...selection,
    ],
    cwd: cache,
    // Otherwise, Python writes a compiled copy of the hooks into this folder.
    env: { ...process.env, SCHEMATHESIS_HOOKS: hooks, PYTHONDONTWRITEBYTECODE: '1' },
  })
  console.log(output.slice(output.indexOf('API Operations:')))
}

/** Operations whose responses do not end. */
const endless = ['streamEvents']

await runToEnd('conformance', deadline, async (t) => {
  if (!isInstalled('python3')) {
    console.log('skipped: python3 is not installed')
    // Python is required in CI only.
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
  const separate = revoking.flatMap(({ ids }) => ids)
  const excluded = [...separate, ...endless].flatMap((id) => ['--exclude-operation-id', id])
  await runSchemathesis(t, service.url, token, ...excluded)

  for (const [index, { ids, source }] of revoking.entries()) {
    const email = `admin-${index}@example.com`
    const password = 'the password of this administrator'
    const administrator = { username: `admin-${index}`, email, password, role: 'admin' }
    await client.expect('createUser', 201, { token, body: administrator })
    const { body } = await client.expect('login', 200, { body: { email, password } })
    const selection = [...ids, source].flatMap((id) => ['--include-operation-id', id])
    await runSchemathesis(t, service.url, body.access_token, ...selection)
  }
})
