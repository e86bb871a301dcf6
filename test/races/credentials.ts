import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { correctTimesAhead } from '../../src/db/upkeep/times-ahead.ts'
import { accountActions, sessionIdOf } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import {
  browserAt,
  logoutClaims,
  oidcConfig,
  providerOf,
  sendLogout,
  startIssuer,
} from '../fixture/issuer.ts'
import { held, racesOn } from '../fixture/races.ts'
import { type GuardedAccount, secondFactorActions } from '../fixture/second-factor.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'

/** Sign-ins, refreshes and changes of credentials that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, untilWaiting } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const { auditOf, createApiToken, signIn } = accountActions(service, admin)
const { challengeOf, registerGuarded } = secondFactorActions(service)

type Schemas = components['schemas']
type Identified = Pick<Account, 'id'>

const heldAccount = ({ id }: Identified) => held(`users where id = '${id}'`)
const heldSession = (token: string) => held(`sessions where id = '${sessionIdOf(token)}'`)

const shutOut = ({ id }: Identified): string => `
  delete from sessions where user_id = '${id}';
  delete from one_time_tokens where user_id = '${id}'`

/** What ends the access of a user, as the service does it. */
const endings = {
  'the password changes elsewhere': (user: Identified) =>
    `update users set password_hash = 'changed' where id = '${user.id}'; ${shutOut(user)}`,
  'the user is disabled': (user: Identified) =>
    `update users set is_disabled = true where id = '${user.id}'; ${shutOut(user)}`,
  'the user is deleted': (user: Identified) => `
    update users set deleted_at = now(), username = id::text, email = id::text, password_hash = ''
    where id = '${user.id}'; ${shutOut(user)}; delete from second_factors where user_id = '${user.id}'`,
} as const

type Ending = keyof typeof endings

const everyEnding = Object.keys(endings) as readonly Ending[]

let accounts = 0
const registerOne = (): Promise<Account> => service.register(`someone${++accounts}`)
const registerGuardedOne = (): Promise<GuardedAccount> => registerGuarded(`guarded${++accounts}`)

const count = async (table: string, { id }: Identified): Promise<number> =>
  (await db.run(`select from ${table} where user_id = $1`, [id])).length

const actionsOf = async (account: Account): Promise<readonly string[]> =>
  (await auditOf(account)).map(({ action }) => action)

const sorted = (replies: readonly { readonly status: number }[]): readonly number[] =>
  replies.map(({ status }) => status).toSorted((one, other) => one - other)

for (const ending of everyEnding) {
  const isDisabling = ending === 'the user is disabled'
  t.test(`login waits while ${ending}: ${isDisabling ? 403 : 401}`, async (t) => {
    const account = await registerOne()
    const { email, password } = account
    const reply = await resultAfter(
      t,
      { hold: [heldAccount(account)], change: endings[ending](account) },
      () => service.call('login', { body: { email, password } }),
    )
    t.match(
      reply,
      isDisabling
        ? { status: 403, body: { code: 'account_disabled' } }
        : { status: 401, body: { code: 'invalid_credentials' } },
    )
    t.equal(await count('sessions', account), 0)
    if (!isDisabling) t.equal((await actionsOf(account)).at(-1), 'sign_in.failed')
  })

  t.test(`completeLogin waits while ${ending}: 401`, async (t) => {
    const account = await registerGuardedOne()
    const challenge = await challengeOf(account)
    const reply = await resultAfter(
      t,
      { hold: [heldAccount(account)], change: endings[ending](account) },
      () => service.call('completeLogin', { body: { challenge, code: account.codeAt() } }),
    )
    t.match(reply, { status: 401, body: { code: 'invalid_credentials' } })
    t.equal(await count('sessions', account), 0)
    t.equal((await actionsOf(account)).at(-1), 'sign_in.failed')
  })
}

t.test('login waits while the second factor is confirmed: 401 with a challenge', async (t) => {
  const account = await registerOne()
  const { email, password, token } = account
  await service.expect('enrollSecondFactor', 201, { token, body: { password } })
  const before = await count('sessions', account)
  const reply = await resultAfter(
    t,
    {
      hold: [heldAccount(account)],
      change: `update second_factors set confirmed_at = now() where user_id = '${account.id}'`,
    },
    () => service.call('login', { body: { email, password } }),
  )
  t.match(reply, { status: 401, body: { code: 'second_factor_required', challenge: /^twc_/ } })
  t.equal(await count('sessions', account), before)
})

t.test('completeLogin waits while the second factor is disabled: 401', async (t) => {
  const account = await registerGuardedOne()
  const challenge = await challengeOf(account)
  const change = `delete from second_factors where user_id = '${account.id}'`
  const reply = await resultAfter(t, { hold: [heldAccount(account)], change }, () =>
    service.call('completeLogin', { body: { challenge, code: account.codeAt() } }),
  )
  t.match(reply, { status: 401, body: { code: 'invalid_credentials' } })
})

t.test('exchangeOidcCode', async (t) => {
  const issuer = await startIssuer()
  const service = await startService(t, { db, config: { oidc: oidcConfig([providerOf(issuer)]) } })
  const codeWith = (sub: string, sid: string) => {
    issuer.claims = { sub, email: `${sub}@example.com`, email_verified: true, sid }
    return browserAt(service).code()
  }
  const exchange = (body: Awaited<ReturnType<typeof codeWith>>) => service.call('exchangeOidcCode', { body })

  for (const [name, claims] of [
    ['by-sid', { sid: 'second' }],
    ['by-sub', { sub: 'by-sub' }],
    ['by-both', { sub: 'by-both', sid: 'second' }],
  ] as const)
    await t.test(`a logout of the provider meanwhile, ${name}, ends the session`, async (t) => {
      const { user } = (
        await service.expect('exchangeOidcCode', 200, { body: await codeWith(name, 'first') })
      ).body
      const body = await codeWith(name, 'second')
      const logoutToken = await issuer.sign({ typ: 'logout+jwt' }, logoutClaims(issuer, claims))
      const [reply, status] = await resultAfter(t, { hold: [heldAccount(user)], waiting: 2 }, async () => {
        const exchanged = service.expect('exchangeOidcCode', 200, { body })
        await untilWaiting(1)
        return await Promise.all([exchanged, sendLogout(service, logoutToken)])
      })
      t.equal(status, 200)
      const { status: after } = await service.call('getCurrentUser', { token: reply.body.access_token })
      t.equal(after, 401)
    })

  for (const [ending, status] of [
    ['the user is disabled', 403],
    ['the user is deleted', 401],
  ] as const)
    await t.test(`waits while ${ending}: ${status}, and the code is used`, async (t) => {
      const name = `one-of-${status}`
      const { user } = (
        await service.expect('exchangeOidcCode', 200, { body: await codeWith(name, 'first') })
      ).body
      const body = await codeWith(name, 'second')
      const race = { hold: [heldAccount(user)], change: endings[ending](user) }
      const reply = await resultAfter(t, race, () => exchange(body))
      t.equal(reply.status, status)
      t.equal(await count('sessions', user), 0)
      t.match(await exchange(body), { status: 401, body: { code: 'invalid_credentials' } })
    })

  await t.test('waits while the role changes: 200 with the new one', async (t) => {
    const { user } = (
      await service.expect('exchangeOidcCode', 200, { body: await codeWith('promoted', 'first') })
    ).body
    const body = await codeWith('promoted', 'second')
    const change = `update users set role = 'admin' where id = '${user.id}'`
    const reply = await resultAfter(t, { hold: [heldAccount(user)], change }, () => exchange(body))
    t.match(reply, { status: 200, body: { user: { role: 'admin' } } })
  })
})

/** Changes of the caller's own credentials, whose session ends meanwhile. */
const ownWrites: Readonly<Partial<Record<OperationId, (account: GuardedAccount) => Call | Promise<Call>>>> = {
  createApiToken: () => ({ body: { name: 'left behind', scopes: ['tasks:read'] } }),
  enrollSecondFactor: async (account) => {
    await db.run('delete from second_factors where user_id = $1', [account.id])
    return { body: { password: account.password } }
  },
  confirmSecondFactor: async (account) => {
    await db.run('update second_factors set confirmed_at = null where user_id = $1', [account.id])
    return { body: { code: account.codeAt() } }
  },
  disableSecondFactor: ({ password, codeAt }) => ({ body: { password, code: codeAt() } }),
  reauthenticate: ({ password }) => ({ body: { password } }),
  logout: () => ({ query: { everywhere: true } }),
}

for (const [operation, request] of Object.entries(ownWrites) as [OperationId, typeof ownWrites.logout][]) {
  for (const ending of everyEnding)
    t.test(`${operation} waits while ${ending}: 401`, async (t) => {
      const account = await registerGuardedOne()
      const call = { ...(await request?.(account)), token: account.token }
      const before = await actionsOf(account)
      const reply = await resultAfter(
        t,
        { hold: [heldAccount(account)], change: endings[ending](account) },
        () => service.call(operation, call),
      )
      t.match(reply, { status: 401, body: { code: 'unauthorized' } })
      t.strictSame(await actionsOf(account), before, 'nothing has happened')
      t.equal(await count('api_tokens', account), 0)
    })
}

for (const operation of ['enrollSecondFactor', 'disableSecondFactor', 'reauthenticate'] as const)
  t.test(`${operation} waits while the password changes in the same session: 422`, async (t) => {
    const account = await registerGuardedOne()
    const call = { ...(await ownWrites[operation]?.(account)), token: account.token }
    const change = `update users set password_hash = 'changed' where id = '${account.id}'`
    const reply = await resultAfter(t, { hold: [heldAccount(account)], change }, () =>
      service.call(operation, call),
    )
    t.match(reply, { status: 422, body: { code: 'wrong_password', errors: [{ pointer: '/password' }] } })
  })

t.test('enrollSecondFactor waits while another one is confirmed: 409', async (t) => {
  const { id, token, password } = await registerOne()
  const change = `insert into second_factors (user_id, secret, confirmed_at) values ('${id}', '', now())`
  const reply = await resultAfter(t, { hold: [heldAccount({ id })], change }, () =>
    service.call('enrollSecondFactor', { token, body: { password } }),
  )
  t.match(reply, { status: 409, body: { code: 'second_factor_enabled' } })
})

t.test('confirmSecondFactor waits while another secret is enrolled: 422', async (t) => {
  const account = await registerGuardedOne()
  const other = await registerGuardedOne()
  const { id, token, codeAt } = account
  await db.run('update second_factors set confirmed_at = null where user_id = $1', [id])
  const change = `
    update second_factors set secret = (select secret from second_factors where user_id = '${other.id}')
    where user_id = '${id}'`
  const reply = await resultAfter(t, { hold: [heldAccount(account)], change }, () =>
    service.call('confirmSecondFactor', { token, body: { code: codeAt() } }),
  )
  t.match(reply, { status: 422, body: { code: 'wrong_code' } })
  t.equal((await actionsOf(account)).at(-1), 'proof.failed')
})

t.test('a code is used once', async (t) => {
  /** Answers a challenge each with the codes at once. */
  const completeAtOnce = async (account: GuardedAccount, codes: readonly string[]) => {
    const challenges: string[] = []
    for (const _ of codes) challenges.push(await challengeOf(account))
    return resultAfter(t, { hold: [heldAccount(account)], waiting: codes.length }, () =>
      Promise.all(
        codes.map((code, index) =>
          service.call('completeLogin', { body: { challenge: challenges[index] ?? '', code } }),
        ),
      ),
    )
  }

  await t.test('of an authenticator, by two sign-ins', async (t) => {
    const account = await registerGuardedOne()
    t.strictSame(sorted(await completeAtOnce(account, [account.codeAt(), account.codeAt()])), [200, 401])
  })

  await t.test('a recovery code, by two sign-ins', async (t) => {
    const account = await registerGuardedOne()
    const [code = ''] = account.recoveryCodes
    t.strictSame(sorted(await completeAtOnce(account, [code, code])), [200, 401])
  })

  await t.test('by a sign-in and by a reauthentication', async (t) => {
    const account = await registerGuardedOne()
    const challenge = await challengeOf(account)
    const code = account.codeAt()
    const replies = await resultAfter(t, { hold: [heldAccount(account)], waiting: 2 }, () =>
      Promise.all([
        service.call('completeLogin', { body: { challenge, code } }),
        service.call('reauthenticate', { token: account.token, body: { code } }),
      ]),
    )
    t.equal(replies.filter(({ status }) => status < 300).length, 1)
  })

  await t.test('by two that disable the second factor', async (t) => {
    const { id, token, password, codeAt } = await registerGuardedOne()
    const body = { password, code: codeAt() }
    const replies = await resultAfter(t, { hold: [heldAccount({ id })], waiting: 2 }, () =>
      Promise.all([1, 2].map(() => service.call('disableSecondFactor', { token, body }))),
    )
    t.strictSame(sorted(replies), [204, 409])
  })
})

t.test('a challenge is answered once, and the other code is not used', async (t) => {
  const account = await registerGuardedOne()
  const challenge = await challengeOf(account)
  const codes = account.recoveryCodes.slice(0, 2)
  const replies = await resultAfter(t, { hold: [heldAccount(account)], waiting: 2 }, () =>
    Promise.all(codes.map((code) => service.call('completeLogin', { body: { challenge, code } }))),
  )
  t.strictSame(sorted(replies), [200, 401])
  t.equal(await count('recovery_codes', account), 9)
})

t.test('a second factor is confirmed once', async (t) => {
  const account = await registerGuardedOne()
  await db.run('update second_factors set confirmed_at = null where user_id = $1', [account.id])
  await db.run('delete from recovery_codes where user_id = $1', [account.id])
  const call = { token: account.token, body: { code: account.codeAt() } }
  const replies = await resultAfter(t, { hold: [heldAccount(account)], waiting: 2 }, () =>
    Promise.all([1, 2].map(() => service.call('confirmSecondFactor', call))),
  )
  t.strictSame(sorted(replies), [200, 409])
  t.equal(await count('recovery_codes', account), 10)
})

t.test('refreshToken', async (t) => {
  const refresh = (refresh_token: string) => service.call('refreshToken', { body: { refresh_token } })
  const refused = { status: 401, body: { code: 'invalid_credentials' } }

  await t.test('two at once: the same pair of tokens', async (t) => {
    const account = await registerOne()
    const [first, second] = await resultAfter(t, { hold: [heldSession(account.token)], waiting: 2 }, () =>
      Promise.all([refresh(account.refreshToken), refresh(account.refreshToken)]),
    )
    const [pair, same] = [first, second].map(({ body }) => body as Schemas['AuthTokens'])
    t.ok(pair?.access_token)
    t.strictSame([same?.access_token, same?.refresh_token], [pair?.access_token, pair?.refresh_token])
  })

  await t.test('waits while the session ends: 401', async (t) => {
    const account = await registerOne()
    const change = `delete from sessions where user_id = '${account.id}'`
    const reply = await resultAfter(t, { hold: [heldSession(account.token)], change }, () =>
      refresh(account.refreshToken),
    )
    t.match(reply, refused)
    t.notOk((await actionsOf(account)).includes('session.token_reused'))
  })

  await t.test('waits while somebody else refreshes, and goes on: 401, and the session ends', async (t) => {
    const account = await registerOne()
    const change = `update refresh_tokens set spent_at = now() - interval '1 minute'
      where session_id = '${sessionIdOf(account.token)}'`
    const reply = await resultAfter(t, { hold: [heldSession(account.token)], change }, () =>
      refresh(account.refreshToken),
    )
    t.match(reply, refused)
    t.equal(await count('sessions', account), 0)
    t.equal((await actionsOf(account)).at(-1), 'session.token_reused')
  })

  await t.test('of an earlier token, twice at once: the reuse is recorded once', async (t) => {
    const account = await registerOne()
    await service.expect('refreshToken', 200, { body: { refresh_token: account.refreshToken } })
    await db.run(
      `update refresh_tokens set spent_at = now() - interval '1 minute' where spent_at is not null`,
      [],
    )
    const replies = await resultAfter(t, { hold: [heldSession(account.token)], waiting: 2 }, () =>
      Promise.all([refresh(account.refreshToken), refresh(account.refreshToken)]),
    )
    t.match(replies, [refused, refused])
    const actions = await actionsOf(account)
    t.equal(actions.filter((action) => action === 'session.token_reused').length, 1)
  })
})

t.test('revokeSession: a session ends once', async (t) => {
  const account = await registerOne()
  const other = await signIn(account)
  const call = { token: account.token, params: { session_id: sessionIdOf(other.access_token) } }
  const replies = await resultAfter(t, { hold: [heldSession(other.access_token)], waiting: 2 }, () =>
    Promise.all([1, 2].map(() => service.call('revokeSession', call))),
  )
  t.strictSame(sorted(replies), [204, 404])
  t.equal((await actionsOf(account)).filter((action) => action === 'session.ended').length, 1)
})

t.test('logout everywhere also ends the session of a sign-in that it waited for', async (t) => {
  const account = await registerOne()
  const { id, token } = account
  const change = `insert into sessions (id, user_id, expires_at)
    values (gen_random_uuid(), '${id}', now() + interval '1 day')`
  const reply = await resultAfter(t, { hold: [heldAccount(account)], change }, () =>
    service.call('logout', { token, query: { everywhere: true } }),
  )
  t.equal(reply.status, 204)
  t.equal(await count('sessions', account), 0)
})

for (const [operation, as] of [
  ['revokeApiToken', 'owner'],
  ['revokeUserApiToken', 'admin'],
] as const)
  t.test(`${operation}: an API token is revoked once`, async (t) => {
    const account = await registerOne()
    const { id } = await createApiToken(account)
    const call = {
      token: as === 'admin' ? admin.token : account.token,
      params: as === 'admin' ? { user_id: account.id, token_id: id } : { token_id: id },
    }
    const hold = [held(`api_tokens where id = '${id}'`)]
    const replies = await resultAfter(t, { hold, waiting: 2 }, () =>
      Promise.all([1, 2].map(() => service.call(operation, call))),
    )
    t.strictSame(sorted(replies), [204, 404])
    t.equal((await actionsOf(account)).filter((action) => action === 'api_token.revoked').length, 1)
  })

t.test('of registrations that wait for the first one, none is an administrator', async (t) => {
  await db.run('delete from installation', [])
  const replies = await resultAfter(t, { hold: ['insert into installation values (true)'], waiting: 2 }, () =>
    Promise.all([registerOne(), registerOne()]),
  )
  t.strictSame(
    replies.map(({ user }) => user.role),
    ['member', 'member'],
  )
})

t.test('a session that begins while times ahead are corrected keeps its lifetime', async (t) => {
  const account = await registerOne()
  const id = newId()
  const change = `insert into sessions (id, user_id, created_at, expires_at)
    select '${id}', '${account.id}', clock, clock + interval '30 days' from clock_timestamp() clock`
  await resultAfter(t, { hold: ['lock table sessions'], change }, () =>
    correctTimesAhead(db, { webhookLease: 60_000 }, new AbortController().signal),
  )
  const [session] = await db.run(
    `select expires_at - created_at = interval '30 days' as is_whole from sessions where id = $1`,
    [id],
  )
  t.equal(session?.is_whole, true)
})
