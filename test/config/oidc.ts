import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readConfig } from '../../src/config/config.ts'
import { temporaryFolder } from '../fixture/process.ts'

const folder = await temporaryFolder(t)
const path = join(folder, 'oidc.json')
writeFileSync(join(folder, 'secret'), 'hidden\n')

const provider = { id: 'example', issuer: 'https://login.example.com/realms/main', client_id: 'taskwright' }

const read = (content: unknown, env: NodeJS.ProcessEnv = {}) => {
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return readConfig({ OIDC_CONFIG: path, PUBLIC_URL: 'https://tasks.example.com/api', ...env }).oidc
}

t.test('a file with one provider, and the defaults', async (t) => {
  t.strictSame(read({ providers: [provider] }), {
    providers: [
      {
        id: 'example',
        name: 'example',
        issuer: 'https://login.example.com/realms/main',
        clientId: 'taskwright',
        clientSecret: null,
        clientAuth: 'client_secret_basic',
        scopes: ['openid', 'email', 'profile'],
        trustsEmail: false,
        linksByEmail: false,
        secondFactor: { amr: [], acr: [] },
        teams: [],
      },
    ],
    returnTo: [],
    publicUrl: 'https://tasks.example.com/api',
    create: 'invited',
    isOnly: false,
    sessionHours: 24,
    reauthDays: 30,
  })
})

t.test('secrets are in files beside it', async (t) => {
  const oidc = read(
    { providers: [{ ...provider, client_secret_file: 'secret' }] },
    { OIDC_SESSION_HOURS: '8' },
  )
  t.match(oidc, { providers: [{ clientSecret: 'hidden' }], sessionHours: 8 })
})

t.test('each mistake is named', async (t) => {
  const rule = { claim: 'groups', value: 'x', team: '0199c0de-7a3c-7d5e-8f00-1d2c3b4a5968', role: 'member' }
  const cases: readonly (readonly [content: unknown, message: RegExp])[] = [
    ['{', /OIDC_CONFIG names a file that cannot be used/],
    [{}, /must have required property 'providers'/],
    [{ providers: [] }, /\/providers must NOT have fewer than 1 items/],
    [
      { providers: [{ ...provider, secret: 'x' }] },
      /\/providers\/0 must NOT have additional properties \(secret\)/,
    ],
    [{ providers: [{ ...provider, id: 'A b' }] }, /\/providers\/0\/id must match pattern/],
    [
      { providers: [{ ...provider, issuer: 'http://login.example.com' }] },
      /\/providers\/0\/issuer must be an https:/,
    ],
    [{ providers: [{ ...provider, issuer: 'https://login.example.com?x' }] }, /\/providers\/0\/issuer/],
    [{ providers: [provider, provider] }, /\/providers\/1\/id is that of another provider/],
    [
      { providers: [provider, { ...provider, id: 'b' }] },
      /\/providers\/1\/issuer is that of another provider/,
    ],
    [{ providers: [{ ...provider, client_secret_file: 'none' }] }, /no such file/],
    [{ providers: [{ ...provider, teams: [{ ...rule, role: 'admin' }] }] }, /\/providers\/0\/teams\/0\/role/],
    [
      { providers: [{ ...provider, teams: [{ ...rule, team: 'Engineers' }] }] },
      /\/providers\/0\/teams\/0\/team/,
    ],
    ...[
      'http://app.example.com/',
      'http://localhost/',
      'https://app.example.com/#x',
      'app:/x',
      'https://APP.example.com/',
    ].map(
      (url) => [{ providers: [provider], return_to: [url] }, /\/return_to\/0 must be an https:/] as const,
    ),
  ]
  for (const [content, message] of cases) t.throws(() => read(content), { message }, JSON.stringify(content))
  t.throws(() => read({ providers: [provider] }, { PUBLIC_URL: '' }), {
    message: /OIDC_CONFIG requires PUBLIC_URL/,
  })
  t.throws(() => readConfig({ OIDC_ONLY: 'on' }), { message: /OIDC_ONLY requires OIDC_CONFIG/ })
})
