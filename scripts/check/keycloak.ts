import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'
import { eventually } from '../../test/fixture/eventually.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { createRun, findCommand, hasCommands, skip } from '../run/commands.ts'
import { answers, startProgram } from '../run/processes.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Signs in with Keycloak through Swagger UI in Chromium: a realm with a thousand users and groups, teams from groups, and Back-Channel
 * Logout. Maven downloads Keycloak, and its local repository keeps it. Required where there is Java 17.
 */

const version = '26.7.3'
const artifact = `org.keycloak:keycloak-quarkus-dist:${version}:zip`
const unpack = 'org.apache.maven.plugins:maven-dependency-plugin:3.9.0:unpack'

const members = 1_000

/** Milliseconds to wait for an element: the first pages of Keycloak take long on a busy machine. */
const elementTimeout = 120_000

const adminPassword = 'only for this check'
const clientSecret = 'the secret of the client'

const javaVersion = (): number =>
  Number(/version "(\d+)/.exec(execFileSync('sh', ['-c', 'java -version 2>&1']).toString())?.[1])

const realmOf = (serviceUrl: string): object => ({
  realm: 'main',
  enabled: true,
  sslRequired: 'none',
  groups: Array.from({ length: members }, (_, index) => ({ name: `group-${index}` })),
  users: Array.from({ length: members }, (_, index) => ({
    username: `user-${index}`,
    email: `user-${index}@example.com`,
    emailVerified: true,
    firstName: 'User',
    lastName: String(index),
    enabled: true,
    groups:
      index === 0 ? Array.from({ length: members }, (__, group) => `/group-${group}`) : [`/group-${index}`],
    // Hashing a thousand passwords takes minutes.
    ...(index < 3 && { credentials: [{ type: 'password', value: 'a password' }] }),
  })),
  clients: [
    {
      clientId: 'taskwright',
      secret: clientSecret,
      publicClient: false,
      standardFlowEnabled: true,
      redirectUris: [`${serviceUrl}/auth/oidc/keycloak/callback`],
      attributes: {
        'pkce.code.challenge.method': 'S256',
        'backchannel.logout.url': `${serviceUrl}/auth/oidc/keycloak/backchannel-logout`,
        'backchannel.logout.session.required': 'true',
        'post.logout.redirect.uris': `${serviceUrl}/docs`,
      },
      protocolMappers: [
        {
          name: 'groups',
          protocol: 'openid-connect',
          protocolMapper: 'oidc-group-membership-mapper',
          config: { 'claim.name': 'groups', 'full.path': 'false', 'id.token.claim': 'true' },
        },
      ],
    },
  ],
})

/** Starts Keycloak. Resolves to its URL. */
const startKeycloak = async (t: Teardown, serviceUrl: string): Promise<string> => {
  const folder = await temporaryFolder(t)
  // Maven leaves markers in the present folder.
  await createRun(t, folder)('mvn', '-B', unpack, `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`)
  const home = join(folder, `keycloak-${version}`)
  await mkdir(join(home, 'data/import'), { recursive: true })
  await writeFile(join(home, 'data/import/main-realm.json'), JSON.stringify(realmOf(serviceUrl)))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const options = ['--http-host=127.0.0.1', `--http-port=${port}`, '--import-realm']
  await startProgram(t, ['sh', join(home, 'bin/kc.sh'), 'start-dev', ...options], {
    log: join(folder, 'log'),
    isReady: () => answers(`${url}/realms/main/.well-known/openid-configuration`),
    env: {
      ...process.env,
      KC_BOOTSTRAP_ADMIN_USERNAME: 'admin',
      KC_BOOTSTRAP_ADMIN_PASSWORD: adminPassword,
      JAVA_OPTS_APPEND: '-Xmx768m',
    },
  })
  return url
}

const adminOf = async (keycloak: string) => {
  const response = await fetch(`${keycloak}/realms/master/protocol/openid-connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      client_id: 'admin-cli',
      grant_type: 'password',
      username: 'admin',
      password: adminPassword,
    }),
  })
  const { access_token } = (await response.json()) as { readonly access_token: string }
  const headers = { authorization: `Bearer ${access_token}` }
  const at = (path: string, method = 'GET') =>
    fetch(`${keycloak}/admin/realms/main/${path}`, { method, headers })
  return {
    async signOut(username: string): Promise<void> {
      const found = await at(`users?exact=true&username=${username}`)
      const [user] = (await found.json()) as readonly { readonly id: string }[]
      const { status } = await at(`users/${user?.id}/logout`, 'POST')
      assert.equal(status, 204)
    },
  }
}

const signIn = async (page: Page, url: string, username: string): Promise<string> => {
  await page.goto(`${url}/docs`)
  await page.getByRole('button', { name: 'Sign in with Keycloak' }).click()
  await page.locator('#username').fill(username)
  await page.locator('#password').fill('a password')
  await page.locator('#kc-login').click()
  await page.getByText(`Signed in as ${username}`).waitFor()
  assert.equal(new URL(page.url()).search, '', 'the code is not left in the address')
  const stored = await page.evaluate(
    `Object.values(sessionStorage).find((text) => text.includes('accessToken'))`,
  )
  return (JSON.parse(String(stored)) as { readonly accessToken: string }).accessToken
}

const run = async (t: Teardown): Promise<void> => {
  if (!hasCommands(['java', 'mvn', 'chromium'], { isRequired: false })) return
  if (javaVersion() < 17) return skip('Java is older than 17', { isRequired: false })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const keycloak = await startKeycloak(t, url)
  const folder = await temporaryFolder(t)
  const environment = { DATA_DIR: folder, PORT: String(port), PUBLIC_URL: url }
  const first = await startProcess(t, environment)
  const client = createClient(url, () => undefined)
  const { token } = await client.register('boss')
  const { body: team } = await client.expect('createTeam', 201, { token, body: { name: 'Group 1' } })
  await first.end('SIGTERM')
  const config = join(folder, 'oidc.json')
  await writeFile(join(folder, 'secret'), clientSecret)
  const provider = {
    id: 'keycloak',
    name: 'Keycloak',
    issuer: `${keycloak}/realms/main`,
    client_id: 'taskwright',
    client_secret_file: 'secret',
    teams: [{ claim: 'groups', value: 'group-1', team: team.id, role: 'member' }],
  }
  await writeFile(config, JSON.stringify({ providers: [provider] }))
  const service = await startProcess(t, { ...environment, OIDC_CONFIG: config, OIDC_CREATE: 'always' })

  // After a start, the first token takes longer than the service waits for one.
  await adminOf(keycloak)
  const browser = await chromium.launch({
    executablePath: findCommand('chromium') ?? 'chromium',
    args: ['--disable-gpu'],
  })
  t.teardown(() => browser.close())
  const teamsOf = async (access: string): Promise<number> =>
    (await client.expect('listTeams', 200, { token: access })).body.items.length
  for (const [username, teams] of [
    ['user-0', 1],
    ['user-1', 1],
    ['user-2', 0],
  ] as const) {
    const context = await browser.newContext()
    context.setDefaultTimeout(elementTimeout)
    const page = await context.newPage()
    const access = await signIn(page, url, username)
    assert.equal(await teamsOf(access), teams, `the teams of ${username}`)
    if (username !== 'user-1') continue
    const started = performance.now()
    await (await adminOf(keycloak)).signOut(username)
    await eventually(
      'the provider ends the session',
      async () => (await client.call('getCurrentUser', { token: access })).status === 401,
    )
    console.log(`Back-Channel Logout ended the session after ${Math.round(performance.now() - started)} ms.`)
    await context.close()
  }
  const log = service.output()
  assert.doesNotMatch(log, /the secret of the client/)
  console.log(`Keycloak ${version}: users sign in, teams follow ${members} groups, and logout ends sessions.`)
}

await runToEnd('keycloak', 600_000, run)
