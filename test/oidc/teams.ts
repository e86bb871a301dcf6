import t from 'tap'
import { localClient } from '../../src/domain/activity/audit.ts'
import { shellPrincipal } from '../../src/domain/shared/permissions.ts'
import { DatabaseUnavailable, TooManyStatements } from '../../src/db/engine/errors.ts'
import { wrapRuns } from '../../src/db/engine/wrap-runs.ts'
import {
  applyTeamRules,
  matches,
  misshapenClaims,
  planTeams,
  type TeamRule,
} from '../../src/domain/projects/team-rules.ts'
import { previewSignIn } from '../../src/services/accounts/oidc-preview.ts'
import { createProviders } from '../../src/oidc/providers.ts'
import { createContext } from '../../src/services/shared/context.ts'
import { browserAt, oidcConfig, providerOf, startIssuer } from '../fixture/issuer.ts'
import { secondFactorActions } from '../fixture/second-factor.ts'
import { projectActions } from '../fixture/projects.ts'
import { startService } from '../fixture/service.ts'

/** Teams from the groups of an identity provider. */

t.test('patterns', async (t) => {
  const cases: readonly (readonly [pattern: string, text: string, isMatch: boolean])[] = [
    ['eng', 'eng', true],
    ['eng', 'Eng', false],
    ['eng', 'engineers', false],
    ['eng-*', 'eng-backend', true],
    ['eng-*', 'eng-', true],
    ['eng-*', 'x-eng-y', false],
    ['*-eng', 'x-eng', true],
    ['a*b*c', 'a1b2c', true],
    ['a*b*c', 'acb', false],
    ['ab*ba', 'aba', false],
    ['*', '', true],
    ['a.c', 'abc', false],
    ['(a+)+', 'aaaa', false],
    [`${'a*'.repeat(100)}b`, 'a'.repeat(10_000), false],
  ]
  for (const [pattern, text, isMatch] of cases)
    t.equal(matches(pattern, text), isMatch, `${pattern} ${text.slice(0, 20)}`)
})

t.test('claims that no rule can match', async (t) => {
  const rule = (claim: string, value = 'eng'): TeamRule => ({ claim, value, team: 'x', role: 'member' })
  const rules = [rule('groups'), rule('groups', 'ops'), rule('access.roles')]
  const cases: readonly (readonly [object, string, string])[] = [
    [{ groups: { eng: true } }, 'groups', 'an object with eng'],
    [
      { groups: [{ name: 'eng' }, 7, { name: 'ops' }] },
      'groups',
      'a list in which there is an object with name, and a number',
    ],
    [{ groups: [['eng']] }, 'groups', 'a list in which there is a list'],
    [{ groups: 'eng,ops' }, 'groups', 'a text that looks like a list, which is compared as a whole'],
    [{ groups: '["eng"]' }, 'groups', 'a text that looks like a list, which is compared as a whole'],
    [{ groups: null }, 'groups', 'null'],
    [{ groups: true }, 'groups', 'a boolean'],
    [{ access: { roles: ['eng'] } }, 'access.roles', 'nested in the claim access'],
  ]
  for (const [claims, claim, shape] of cases)
    t.strictSame(misshapenClaims(rules, { ...claims }), [[claim, shape]], JSON.stringify(claims))
  for (const claims of [
    {},
    { groups: [] },
    { groups: ['sales'] },
    { groups: 'eng' },
    { groups: 'sales' },
    { access: {} },
  ])
    t.strictSame(misshapenClaims(rules, claims), [], JSON.stringify(claims))
  const unread = applyTeamRules(rules, { groups: [{ name: 'eng' }], 'access.roles': [] })
  t.strictSame([...unread.unknown], ['x'], 'a list without a text says nothing about groups')
})

t.test('plans', async (t) => {
  const ruled = (role: 'member' | 'manager') => ({ team: 'a', role, isRuled: true })
  const plan = (
    roles: readonly (readonly [string, 'member' | 'manager'])[],
    unknown: string[],
    present: readonly ReturnType<typeof ruled>[],
  ) => planTeams(new Map(roles), new Set(unknown), present)
  t.strictSame(plan([['a', 'member']], [], []), [{ team: 'a', role: 'member' }])
  t.strictSame(plan([['a', 'member']], [], [ruled('member')]), [])
  t.strictSame(plan([['a', 'member']], [], [ruled('manager')]), [{ team: 'a', role: 'member' }])
  t.strictSame(plan([], [], [ruled('member')]), [{ team: 'a', role: null }])
  t.strictSame(plan([], ['a'], [ruled('member')]), [])
  t.strictSame(plan([['a', 'member']], ['a'], [ruled('manager')]), [])
  t.strictSame(plan([['a', 'manager']], [], [{ ...ruled('member'), isRuled: false }]), [])
  t.strictSame(plan([], [], [{ ...ruled('member'), isRuled: false }]), [])
})

const issuer = await startIssuer()
const log: string[] = []
const plain = await startService(t, { config: { oidc: oidcConfig([providerOf(issuer)]) } })
const boss = await plain.register('boss')
const { createProject, createTeam, setTeamMember, setProjectTeam } = projectActions(plain)
const [engineers, leads, open] = [
  await createTeam(boss, 'Engineers'),
  await createTeam(boss, 'Leads'),
  await createTeam(boss, 'Open'),
]
const project = await createProject(boss, 'Backend')
await setProjectTeam(boss, project, engineers, 'editor')
const rule = (
  value: string,
  { id }: { readonly id: string },
  role: 'member' | 'manager' = 'member',
  claim = 'groups',
) => ({
  claim,
  value,
  team: id,
  role,
})
const provider = providerOf(issuer, {
  teams: [
    rule('eng-*', engineers),
    rule('leads', leads, 'manager'),
    rule('*', leads, 'member'),
    rule('yes', open, 'member', 'is_open'),
    rule('gone', { id: '0199c0de-7a3c-7d5e-8f00-1d2c3b4a5968' }),
  ],
})
const config = oidcConfig([provider])
const service = await startService(t, {
  db: plain.deps.db,
  config: { oidc: config, logLevel: 'warn' },
  logStream: { write: (line: string) => void log.push(line), flush: async () => undefined },
} as never)

const signIn = async (claims: object, sub = 'ada') => {
  issuer.claims = { sub, email: `${sub}@example.com`, email_verified: true, ...claims }
  const body = await browserAt(service).code()
  return (await service.expect('exchangeOidcCode', 200, { body })).body
}

const teamsOf = async (token: string) => {
  const { body } = await service.expect('listTeams', 200, { token })
  return Object.fromEntries(body.items.map(({ name, role }) => [name, role] as const))
}

t.test('teams follow the groups at each sign-in', async (t) => {
  const first = await signIn({ groups: ['eng-backend', 'leads', 'gone'], is_open: 'yes' })
  const token = first.access_token
  t.strictSame(await teamsOf(token), { Engineers: 'member', Leads: 'manager', Open: 'member' })
  await service.expect('getProject', 200, { token, params: { project_id: project.id } })
  t.match(log.join(''), /names a team that does not exist/)
  await signIn({ groups: ['sales'], is_open: ['yes'] })
  t.strictSame(await teamsOf(token), { Leads: 'member', Open: 'member' }, 'demoted and removed')
  await service.expect('getProject', 404, { token, params: { project_id: project.id } })
  await signIn({})
  t.strictSame(
    await teamsOf(token),
    { Leads: 'member', Open: 'member' },
    'a missing claim is not an empty one',
  )
  await signIn({ groups: { not: 'a list' } })
  t.strictSame(await teamsOf(token), { Leads: 'member', Open: 'member' })
  t.equal(log.filter((line) => line.includes('the claim groups is an object with not')).length, 1)
  await signIn({ _claim_names: { groups: 'src1' } })
  t.strictSame(await teamsOf(token), { Leads: 'member', Open: 'member' }, 'nor is one with too many values')
  t.match(log.join(''), /left a claim out/)
  await signIn({ groups: [] })
  t.strictSame(await teamsOf(token), { Open: 'member' })
})

t.test('a sign-in succeeds whose teams cannot be read or changed; the next one applies them', async (t) => {
  const failures = [
    ['team_members.select_of_user', new DatabaseUnavailable()],
    ['team_members.insert_sourced', new DatabaseUnavailable()],
    ['team_members.select_sourced', new TooManyStatements()],
  ] as const
  for (const [statement, failure] of failures) {
    const { deps } = service
    const db = wrapRuns(
      deps.db,
      (run) =>
        (text, ...rest) =>
          text.includes(statement) ? Promise.reject(failure) : run(text, ...rest),
    )
    const unreachable = await startService(t, { db, config: { oidc: config } })
    const sub = statement.replaceAll('_', '-')
    issuer.claims = { sub, email: `${sub}@example.com`, email_verified: true, groups: ['eng-x'] }
    const body = await browserAt(unreachable).code()
    const { access_token: token } = (await unreachable.expect('exchangeOidcCode', 200, { body })).body
    t.strictSame(await teamsOf(token), {}, statement)
    await signIn({ groups: ['eng-x'] }, sub)
    t.match(await teamsOf(token), { Engineers: 'member' }, statement)
  }
})

t.test('memberships that people made stay', async (t) => {
  const grace = await signIn({ groups: ['none'], is_open: 'no' }, 'grace')
  const { access_token: token, user } = grace
  await setTeamMember(boss, engineers, user, 'member')
  await setTeamMember(boss, leads, user, 'manager')
  await signIn({ groups: [] }, 'grace')
  t.strictSame(await teamsOf(token), { Engineers: 'member', Leads: 'manager' })
})

t.test('a membership that a rule has made stays one when its role is set again', async (t) => {
  const { access_token: token, user } = await signIn({ groups: ['leads'] }, 'keeper')
  const own = { token, params: { team_id: leads.id, user_id: user.id } }
  await service.expect('setTeamMember', 200, { ...own, body: { role: 'manager' } })
  await signIn({ groups: [] }, 'keeper')
  t.strictSame(await teamsOf(token), {})
})

t.test('who does not get in changes no membership', async (t) => {
  const { guard, forgetLastCode } = secondFactorActions(plain)
  const ada = await guard(await plain.register('guarded'))
  issuer.claims = { sub: 'guarded' }
  const linking = { token: ada.token, body: await browserAt(service).code('link') }
  await service.expect('linkIdentity', 201, linking)
  const attempt = async () => {
    issuer.claims = { sub: 'guarded', email: 'new@example.com', groups: ['eng-x'] }
    return service.call('exchangeOidcCode', { body: await browserAt(service).code() })
  }
  const { body } = await attempt()
  t.strictSame(await teamsOf(ada.token), {}, 'the second factor is pending')
  const { db } = plain.deps
  await db.run(`update users set sign_in_due_at = now() - interval '1 s' where id = $1`, [ada.id])
  await forgetLastCode(ada)
  const { challenge } = body as { readonly challenge: string }
  await service.expect('completeLogin', 200, { body: { challenge, code: ada.codeAt() } })
  t.strictSame(await teamsOf(ada.token), { Engineers: 'member', Leads: 'member' })
  const [row] = await db.run(
    `select sign_in_due_at > now() as rests_not, identities.email from users join identities on user_id = users.id where users.id = $1`,
    [ada.id],
  )
  t.strictSame({ ...row }, { rests_not: true, email: 'new@example.com' }, 'it is a sign-in with the provider')
  await db.run('update users set is_disabled = true where id = $1', [ada.id])
  await db.run('delete from team_members where user_id = $1', [ada.id])
  t.equal((await attempt()).status, 403)
  t.equal((await db.run('select from team_members where user_id = $1', [ada.id])).length, 0)
})

t.test('the last manager stays, and is reported', async (t) => {
  const { access_token: token } = await signIn({ groups: ['leads'] }, 'lead')
  await service.expect('removeTeamMember', 204, {
    token: boss.token,
    params: { team_id: leads.id, user_id: boss.id },
  })
  const rows = await plain.deps.db.run(
    `delete from team_members where team_id = $1 and source is null returning 1`,
    [leads.id],
  )
  t.ok(rows.length > 0)
  log.length = 0
  await signIn({ groups: [] }, 'lead')
  t.match(await teamsOf(token), { Leads: 'manager' })
  t.match(log.join(''), /stays in the team, as its last manager/)
})

t.test('who unlinks the identity leaves its teams', async (t) => {
  const ada = await plain.register('unlinker')
  issuer.claims = { sub: 'unlinker' }
  const linking = { token: ada.token, body: await browserAt(service).code('link') }
  const { id: identity_id } = (await service.expect('linkIdentity', 201, linking)).body
  await signIn({ groups: ['eng-x'] }, 'unlinker')
  t.match(await teamsOf(ada.token), { Engineers: 'member' })
  await service.expect('unlinkIdentity', 204, { token: ada.token, params: { identity_id } })
  t.notOk('Engineers' in (await teamsOf(ada.token)))
})

t.test('a preview says what claims would do, and does nothing', async (t) => {
  const ctx = createContext(plain.deps.db, shellPrincipal, localClient('test'))
  const [previewed] = createProviders(config).all
  if (previewed === undefined) throw new Error('There is a provider')
  const preview = async (claims: object) =>
    (await previewSignIn(ctx, previewed, { claims: { ...claims }, create: 'always' })).join('\n')
  t.match(
    await preview({ sub: 'ada', groups: ['eng-x'] }),
    new RegExp(`signs in to ada[^]*team ${engineers.id}: member`),
  )
  t.match(
    await preview({ sub: 'new', email: 'new@example.com', email_verified: true }),
    /creates new <new@example.com>/,
  )
  t.match(await preview({ sub: 'new', email: boss.email }), /not verified[^]*refused: 409 email_taken/)
  t.match(await preview({ sub: 'new', email: 'x@example.com' }), /refused: 403 email_unverified/)
  const [linking] = createProviders(oidcConfig([providerOf(issuer, { linksByEmail: true })])).all
  if (linking === undefined) throw new Error('There is a provider')
  const linked = { sub: 'new', email: 'ada@example.com', email_verified: true }
  const lines = await previewSignIn(ctx, linking, { claims: linked, create: 'always' })
  t.match(lines.join('\n'), /refused: 409 email_taken/, 'the account has an identity')
  t.match(
    await preview({ sub: 'ada', groups: [{ name: 'eng-x' }] }),
    /claim groups: matches no rule, because it is a list in which there is an object with name/,
  )
  t.match(await preview({ sub: 'ada', _claim_names: { groups: 'x' } }), /claim groups: left out/)
  t.strictSame(
    await service.expect('listIdentities', 200, { token: boss.token }).then(({ body }) => body.items),
    [],
  )
})
