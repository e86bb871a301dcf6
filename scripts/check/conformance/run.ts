import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProcess, temporaryFolder } from '../../../test/fixture/process.ts'
import { createClient } from '../../../test/fixture/service.ts'
import { createRun, hasCommands, installPython, type Run } from '../../run/commands.ts'
import { runToEnd } from '../../run/run-to-end.ts'

/**
 * Property-based conformance tests: Schemathesis generates thousands of valid and invalid requests from openapi.yaml, and sequences
 * in which a request uses data of an earlier response. All checks and phases are enabled, and the caller is an administrator.
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

/** A fixed seed makes runs repeatable. */
const seed = '1'

/** Number of generated requests per operation. */
const examples = '30'

/** Milliseconds, including the installation of the tool. */
const deadline = 30 * 60_000

const source = fileURLToPath(new URL('.', import.meta.url))
const cache = fileURLToPath(new URL('../../../.cache/conformance', import.meta.url))

/** `schemathesis` runs its command. */
const test = async (schemathesis: Run, url: string, token: string, ...selection: string[]): Promise<void> => {
  const options = {
    url,
    header: `Authorization: Bearer ${token}`,
    checks: 'all',
    phases: 'examples,coverage,fuzzing,stateful',
    seed,
    'max-examples': examples,
  }
  const parameters = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])
  const output = await schemathesis('run', `${url}/openapi.yaml`, ...parameters, '--no-color', ...selection)
  console.log(output.slice(output.indexOf('API Operations:')))
}

/** Operations whose responses do not end. */
const endless = ['streamEvents']

await runToEnd('conformance', deadline, async (t) => {
  if (!hasCommands(['python3'])) return
  const bin = await installPython(t, source, cache)
  const environment = {
    SCHEMATHESIS_HOOKS: join(source, 'hooks.py'),
    // Otherwise, Python writes a compiled copy of the hooks into this folder.
    PYTHONDONTWRITEBYTECODE: '1',
  }
  const run = createRun(t, cache, environment)
  const schemathesis: Run = (...args) =>
    run(join(bin, 'st'), '--config-file', join(source, 'schemathesis.toml'), ...args)
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    LOG_LEVEL: 'fatal',
  })
  const client = createClient(service.url, () => undefined)
  const { token } = await client.register('admin')
  const separate = revoking.flatMap(({ ids }) => ids)
  const excluded = [...separate, ...endless].flatMap((id) => ['--exclude-operation-id', id])
  await test(schemathesis, service.url, token, ...excluded)

  for (const [index, { ids, source }] of revoking.entries()) {
    const email = `admin-${index}@example.com`
    const password = 'the password of this administrator'
    const administrator = { username: `admin-${index}`, email, password, role: 'admin' }
    await client.expect('createUser', 201, { token, body: administrator })
    const { body } = await client.expect('login', 200, { body: { email, password } })
    const selection = [...ids, source].flatMap((id) => ['--include-operation-id', id])
    await test(schemathesis, service.url, body.access_token, ...selection)
  }
})
