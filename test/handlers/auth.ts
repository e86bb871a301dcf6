import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { hashQueue, passwordHasher } from '../../src/auth/passwords.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { withoutIds } from '../fixture/accounts.ts'
import { narrowHasher, whileHashing } from '../fixture/hashing.ts'
import { isInvalid, refusesBodies } from '../fixture/refusals.ts'
import { type GuardedAccount, secondFactorActions, wrongCodeOf } from '../fixture/second-factor.ts'
import { type Account, type Call, fileForm, startService, testHashing } from '../fixture/service.ts'
import { countStatuses } from '../fixture/tasks.ts'

const service = await startService(t)
const first = await service.register('first')
const { challengeOf, forgetLastCode, guard, registerGuarded } = secondFactorActions(service)

const password = 'correct horse battery'
const someone = (username: string) => ({ username, email: `${username}@example.com`, password })

const invalidAddresses = ['', '  ', 'x', '@x.io', 'a@', 'a@b@c.io', 'a b@x.io', `${'a'.repeat(250)}@x.io`]
const invisible = ['\u0000', '\u0007', '\u00a0', '\u200b', '\u202e', '\ud800'].map(
  (character) => `a${character}@x.io`,
)

const signIn = async ({ email, password }: Pick<Account, 'email' | 'password'>) =>
  (await service.expect('login', 200, { body: { email, password } })).body

const countUsers = async (): Promise<number | null> => {
  const { body } = await service.expect('listUsers', 200, {
    token: first.token,
    query: { include_total: true, limit: 1 },
  })
  return body.total
}

/** Tests the requests that every operation with a JSON body rejects. `valid` is a valid body. */
const refusesRequests = (t: Test, operation: OperationId, valid: object): void => {
  refusesBodies(t, service, operation)

  t.test('400: an unknown parameter', async (t) => {
    t.match(await service.call(operation, { body: valid, query: { extra: '1' } }), isInvalid('/extra'))
  })
}

/** Tests the 401 of operations that require a token and have no body. */
const refusesInvalidTokens = (t: Test, operation: OperationId): void => {
  t.test('401: no token, or an invalid one', async (t) => {
    const missing = await service.call(operation)
    t.match(missing, { status: 401, body: { code: 'unauthorized' } })
    t.equal(missing.headers.get('www-authenticate'), 'Bearer realm="taskwright"')
    const wrong = await service.call(operation, { token: 'not.a.token', query: { extra: '1' } })
    t.match(wrong, { status: 401, body: { code: 'unauthorized' } }, 'takes precedence over 400')
    t.equal(wrong.headers.get('www-authenticate'), 'Bearer realm="taskwright", error="invalid_token"')
  })
}

t.test('register', async (t) => {
  t.test('201: creates an account and signs it in', async (t) => {
    const { body, headers } = await service.expect('register', 201, { body: someone('ada') })
    t.match(body, { token_type: 'Bearer', expires_in: 900, refresh_expires_in: 7 * 86_400 })
    t.match(body.user, { username: 'ada', display_name: 'ada', email: 'ada@example.com' })
    t.match(body.user, { role: 'member', version: 1 })
    t.equal(body.user.created_at, body.user.updated_at)
    t.equal(headers.get('location'), `/users/${body.user.id}`)
    t.equal(headers.get('cache-control'), 'no-store')
    const me = await service.expect('getCurrentUser', 200, { token: body.access_token })
    t.strictSame(me.body, body.user)
    t.equal((await signIn({ email: 'ada@example.com', password })).user.id, body.user.id)
  })

  t.test('201: the first account is an administrator', async (t) => {
    t.equal(first.user.role, 'admin')
  })

  t.test('201: the email address is normalized, the display name is trimmed and in NFC', async (t) => {
    const body = { ...someone('zoe'), email: '  Zoe@MU\u0308NCHEN.example ', display_name: '\tZoe\u0308 \n' }
    const { user } = (await service.expect('register', 201, { body })).body
    t.equal(user.email, 'zoe@xn--mnchen-3ya.example')
    t.equal(user.display_name, 'Zo\u00eb')
  })

  t.test('201: passwords of 8 to 256 characters of any script, without truncation', async (t) => {
    const passwords = {
      short: '12345678',
      'sixty-four': 'p'.repeat(64),
      longest: `${'p'.repeat(255)}q`,
      emoji: '\u{1f40e}'.repeat(256),
      accents: 'e\u0301'.repeat(256),
      script: 'пароль из слов 密碼 كلمة',
    }
    for (const [username, password] of Object.entries(passwords)) {
      await service.expect('register', 201, { body: { ...someone(username), password } })
      await signIn({ email: `${username}@example.com`, password })
    }
    await signIn({ email: 'accents@example.com', password: '\u00e9'.repeat(256) })
    for (const [username, password] of [
      ['longest', 'p'.repeat(255)],
      ['longest', `${'p'.repeat(255)}r`],
      ['emoji', '\u{1f40e}'.repeat(255)],
      ['sixty-four', ` ${'p'.repeat(64)}`],
    ]) {
      t.match(
        await service.call('login', { body: { email: `${username}@example.com`, password } }),
        { status: 401 },
        `not the password of ${username}`,
      )
    }
  })

  t.test('400: invalid fields create nothing', async (t) => {
    const before = await countUsers()
    const valid = { ...someone('never'), display_name: 'Never' }
    const bad: Readonly<Record<string, readonly unknown[]>> = {
      username: [
        '',
        'a',
        'a'.repeat(33),
        'Ada',
        '-a',
        'a.',
        'a b',
        'ädä',
        ' ada',
        'ada\n',
        'a\u0000b',
        null,
        7,
      ],
      email: [...invalidAddresses, ...invisible, null, 7, {}],
      password: [
        '',
        '1234567',
        '\u{1f40e}'.repeat(7),
        'p'.repeat(257),
        '\u{1f40e}'.repeat(257),
        null,
        12345678,
      ],
      display_name: ['', '   ', 'n'.repeat(101), 7, 'a\u0000b'],
    }
    for (const [name, values] of Object.entries(bad)) {
      for (const value of values) {
        t.match(
          await service.call('register', { body: { ...valid, [name]: value } }),
          { status: 400, body: { code: 'invalid_request' } },
          `${name} ${JSON.stringify(value)}`,
        )
      }
    }
    for (const name of ['username', 'email', 'password']) {
      t.match(
        await service.call('register', { body: { ...valid, [name]: undefined } }),
        isInvalid(`/${name}`),
        `${name} is missing`,
      )
    }
    for (const name of ['role', 'id', 'version', 'created_at', 'password_hash']) {
      t.match(
        await service.call('register', { body: { ...valid, [name]: 'admin' } }),
        isInvalid(`/${name}`),
        `${name} is unknown`,
      )
    }
    t.match(
      await service.call('register', { body: { ...valid, password: 'p'.repeat(10_000) } }),
      isInvalid('/password'),
      'a very long password',
    )
    t.equal(await countUsers(), before)
  })

  t.test('409: a username or email address that is taken creates nothing', async (t) => {
    await service.expect('register', 201, { body: someone('taken') })
    const before = await countUsers()
    const sameName = { ...someone('taken'), email: 'another@example.com' }
    t.match(await service.call('register', { body: sameName }), {
      status: 409,
      body: { code: 'username_taken', errors: [{ pointer: '/username' }] },
    })
    for (const email of ['taken@example.com', 'TAKEN@example.COM', ' taken@example.com\t']) {
      t.match(
        await service.call('register', { body: { ...someone('another'), email } }),
        { status: 409, body: { code: 'email_taken', errors: [{ pointer: '/email' }] } },
        JSON.stringify(email),
      )
    }
    t.equal(await countUsers(), before)
  })

  t.test('409: a repeat', async (t) => {
    const request = { body: someone('once') }
    await service.expect('register', 201, request)
    t.match(await service.call('register', request), { status: 409 })
  })

  t.test('409: concurrent registrations with one address or username create one account', async (t) => {
    const before = await countUsers()
    const emails = [
      'x@cafe\u0301.io',
      'x@caf\u00e9.io',
      'X@CAFE\u0301.IO',
      'x@CAF\u00c9.io',
      ' X@Caf\u00e9.io',
      'x@xn--caf-dma.io ',
    ]
    const replies = await Promise.all(
      emails.map((email, index) => service.call('register', { body: { ...someone(`cafe${index}`), email } })),
    )
    t.strictSame(countStatuses(replies), { 201: 1, 409: 5 })
    t.equal(await countUsers(), (before ?? 0) + 1)
    const names = await Promise.all(
      emails.map((_, index) =>
        service.call('register', { body: { ...someone('racer'), email: `racer${index}@x.io` } }),
      ),
    )
    t.strictSame(countStatuses(names), { 201: 1, 409: 5 })
  })

  t.test('201: one of ten concurrent first registrations is an administrator', async (t) => {
    const fresh = await startService(t)
    const accounts = await Promise.all(
      Array.from({ length: 10 }, (_, index) => fresh.register(`settler${index}`)),
    )
    t.equal(accounts.filter(({ user }) => user.role === 'admin').length, 1)
  })

  t.test('403: registration is closed, after the first account', async (t) => {
    const passwords = passwordHasher({
      parameters: testHashing,
      limiter: hashQueue({ concurrency: 1, maxQueue: 4 }),
    })
    const closed = await startService(t, { config: { registration: 'closed' }, passwords })
    t.match(await closed.call('register', { body: { ...someone('never'), password: '' } }), { status: 400 })
    const replies = await Promise.all(
      Array.from({ length: 5 }, (_, index) => closed.call('register', { body: someone(`settler${index}`) })),
    )
    t.strictSame(countStatuses(replies), { 201: 1, 403: 4 }, 'only the first registration is accepted')
    t.match(
      replies.find(({ status }) => status === 403),
      { body: { code: 'registration_closed' } },
    )
    const winner = replies.find(({ status }) => status === 201)
    t.match(winner, { body: { user: { role: 'admin' } } })
    t.match(await closed.call('register', { body: someone('late') }), { status: 403 })
    t.match(await closed.call('register', { body: {} }), { status: 400 }, 'takes precedence over 403')
    const crowd = await Promise.all(
      Array.from({ length: 30 }, () => closed.call('register', { body: someone('x1') })),
    )
    t.ok(
      crowd.every(({ status }) => status === 403),
      'no password is hashed',
    )
  })

  t.test('403: registration is closed, but administrators can create users', async (t) => {
    const closed = await startService(t, { db: service.deps.db, config: { registration: 'closed' } })
    await closed.expect('createUser', 201, { token: first.token, body: someone('guest') })
    await closed.expect('login', 200, { body: { email: 'guest@example.com', password } })
    t.match(
      await closed.call('register', { body: someone('guest') }),
      { status: 403 },
      'does not reveal that the username is taken',
    )
  })

  refusesRequests(t, 'register', someone('never'))
})

t.test('login', async (t) => {
  const account = await service.register('returning')

  t.test('200: starts a separate session', async (t) => {
    const { body, headers } = await service.expect('login', 200, {
      body: { email: account.email, password: account.password },
    })
    t.match(body, { token_type: 'Bearer', expires_in: 900, refresh_expires_in: 7 * 86_400 })
    t.strictSame(body.user, account.user)
    t.equal(headers.get('cache-control'), 'no-store')
    await service.expect('logout', 204, { token: body.access_token })
    await service.expect('getCurrentUser', 200, { token: account.token })
  })

  t.test('200: any spelling of the email address, and the password in NFD', async (t) => {
    const body = { ...someone('spelling'), email: 'rene@cafe\u0301.example', password: 'caf\u00e9 au lait' }
    const { user } = (await service.expect('register', 201, { body })).body
    for (const email of ['rene@caf\u00e9.example', 'RENE@CAF\u00c9.example', ' rene@xn--caf-dma.example ']) {
      t.equal((await signIn({ email, password: 'cafe\u0301 au lait' })).user.id, user.id, email)
    }
  })

  t.test('200: rehashes the password when the parameters have changed', async (t) => {
    const parameters = { ...testHashing, memoryCost: 2_048 }
    const { db } = service.deps
    const later = await startService(t, { db, passwords: passwordHasher({ parameters }) })
    const hashOf = async (id: string): Promise<unknown> =>
      (await db.run('select password_hash from users where id = $1', [id]))[0]?.password_hash
    const moved = await service.register('moved')
    t.match(await hashOf(moved.id), /\$m=1024,/)
    await later.expect('login', 200, { body: { email: moved.email, password: moved.password } })
    t.match(await hashOf(moved.id), /\$m=2048,/)
    await later.expect('login', 200, { body: { email: moved.email, password: moved.password } })
    const { body } = await service.expect('getCurrentUser', 200, { token: moved.token })
    t.equal(body.version, 1, 'the version of the user stays')
  })

  t.test('200: the username, in any case', async (t) => {
    for (const username of ['returning', 'Returning', 'RETURNING']) {
      const body = { username, password: account.password }
      t.strictSame((await service.expect('login', 200, { body })).body.user, account.user)
    }
    const unnamed = { email: null, username: 'returning', password: account.password }
    await service.expect('login', 200, { body: unnamed })
  })

  t.test('401: an unknown username and a wrong password are indistinguishable', async (t) => {
    const { email, ...wrongs } = { email: account.email, username: 'returning', password: 'wrong' }
    const wrong = await service.call('login', { body: wrongs })
    const unknown = await service.call('login', { body: { username: 'nobody', password: 'wrong' } })
    const byEmail = await service.call('login', { body: { email, password: 'wrong' } })
    t.match(wrong, { status: 401, body: { code: 'invalid_credentials' } })
    t.strictSame(withoutIds(unknown), withoutIds(wrong))
    t.strictSame(withoutIds(byEmail), withoutIds(wrong))
  })

  t.test('401: the id of a deleted account', async () => {
    const gone = await service.register('gone')
    await service.expect('deleteUser', 204, { token: gone.token, params: { user_id: gone.id } })
    for (const username of ['gone', gone.id.slice(0, 32)])
      await service.expect('login', 401, { body: { username, password: gone.password } })
  })

  t.test('401: an unknown email address and a wrong password are indistinguishable', async (t) => {
    const wrong = await service.call('login', { body: { email: account.email, password: 'wrong' } })
    const unknown = await service.call('login', { body: { email: 'nobody@example.com', password: 'wrong' } })
    t.match(wrong, { status: 401, body: { code: 'invalid_credentials' } })
    t.strictSame(withoutIds(unknown), withoutIds(wrong))
  })

  t.test('400: invalid fields', async (t) => {
    const valid = { email: account.email, password: account.password }
    for (const [name, value] of [
      ['email', undefined],
      ['email', 'nobody'],
      ['email', 7],
      ['password', undefined],
      ['password', ''],
      ['password', 'p'.repeat(257)],
      ['password', 'p'.repeat(10_000)],
      ['username', 'returning'],
      ['username', 'r'.repeat(33)],
      ['username', 7],
    ] as const) {
      t.match(
        await service.call('login', { body: { ...valid, [name]: value } }),
        isInvalid(`/${name}`),
        `${name} ${String(value).slice(0, 20)}`,
      )
    }
  })

  refusesRequests(t, 'login', { email: first.email, password: first.password })
})

t.test('completeLogin', async (t) => {
  const complete = (challenge: string, code: string) =>
    service.call('completeLogin', { body: { challenge, code } })

  /** Signs in with the password and a code. */
  const signInWith = async (account: GuardedAccount, code: string) =>
    complete(await challengeOf(account), code)

  const countSessions = async ({ id }: Account): Promise<number> =>
    (await service.deps.db.run('select from sessions where user_id = $1', [id])).length

  const refused = { status: 401, body: { code: 'invalid_credentials' } }

  t.test('401: the password alone yields a challenge and no session', async (t) => {
    const ada = await registerGuarded('challenged')
    const before = await countSessions(ada)
    const { email, password } = ada
    const { body, headers } = await service.expect('login', 401, { body: { email, password } })
    t.match(body, { code: 'second_factor_required', challenge_expires_in: 300 })
    t.match(body.challenge, /^twc_[\w-]{43}$/)
    t.equal(headers.get('www-authenticate'), 'Bearer realm="taskwright"')
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(await countSessions(ada), before)
    for (const token of [body.challenge ?? '', `${body.challenge}x`]) {
      t.match(await service.call('getCurrentUser', { token }), { status: 401 })
      t.match(await service.call('refreshToken', { body: { refresh_token: token } }), { status: 401 })
    }
    const wrong = await service.call('login', { body: { email, password: 'wrong' } })
    const unknown = await service.call('login', { body: { email: 'nobody2@example.com', password } })
    t.strictSame(withoutIds(wrong), withoutIds(unknown), 'a wrong password yields no challenge')
  })

  t.test('200: starts a session', async (t) => {
    const ada = await registerGuarded('admitted')
    const before = await countSessions(ada)
    const { body, headers } = await service.expect('completeLogin', 200, {
      body: { challenge: await challengeOf(ada), code: ada.codeAt() },
    })
    t.match(body, { token_type: 'Bearer', expires_in: 900, refresh_expires_in: 7 * 86_400 })
    t.strictSame(body.user, ada.user)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(await countSessions(ada), before + 1)
    const me = await service.expect('getCurrentUser', 200, { token: body.access_token })
    t.strictSame(me.body, ada.user)
    await service.expect('refreshToken', 200, { body: { refresh_token: body.refresh_token } })
  })

  t.test('200: the current code, and those of 30 seconds before and after', async (t) => {
    const ada = await registerGuarded('unpunctual')
    t.teardown(() => mock.timers.reset())
    mock.timers.enable({ apis: ['Date'], now: Date.now() })
    for (const [steps, status] of [
      [-2, 401],
      [-1, 200],
      [0, 200],
      [1, 200],
      [2, 401],
    ] as const) {
      await forgetLastCode(ada)
      t.match(await signInWith(ada, ada.codeAt(steps)), { status }, `${steps} steps away`)
    }
  })

  t.test('200: each recovery code, once', async (t) => {
    const ada = await registerGuarded('prepared')
    for (const code of ada.recoveryCodes) {
      t.match(await signInWith(ada, code), { status: 200 })
      t.match(await signInWith(ada, code), refused)
    }
    t.match(await signInWith(ada, ada.codeAt()), { status: 200 }, 'the authenticator still works')
  })

  t.test('200: other spellings of a recovery code', async (t) => {
    const ada = await registerGuarded('scrawler')
    const spellings: readonly ((code: string) => string)[] = [
      (code) => code.toUpperCase(),
      (code) => code.replaceAll('-', ''),
      (code) => code.replaceAll('-', ' '),
      (code) => code.replaceAll('0', 'O').replaceAll('1', 'l'),
    ]
    for (const [index, spell] of spellings.entries()) {
      const code = spell(ada.recoveryCodes[index] ?? '')
      t.match(await signInWith(ada, code), { status: 200 }, code)
    }
  })

  t.test('401: a used code, or an earlier one', async (t) => {
    const ada = await registerGuarded('observed')
    const [older, used] = [ada.codeAt(), ada.codeAt(1)]
    t.match(await signInWith(ada, used), { status: 200 })
    t.match(await signInWith(ada, used), refused)
    t.match(await signInWith(ada, older), refused)
  })

  t.test('401: a used challenge does not use up a code', async (t) => {
    const ada = await registerGuarded('returning2')
    const challenge = await challengeOf(ada)
    t.match(await complete(challenge, ada.codeAt()), { status: 200 })
    const [recoveryCode = ''] = ada.recoveryCodes
    for (const code of [ada.codeAt(1), recoveryCode]) {
      t.match(await complete(challenge, code), refused)
      t.match(await signInWith(ada, code), { status: 200 })
    }
  })

  t.test('401: a wrong code does not use up the challenge', async (t) => {
    const ada = await registerGuarded('mistaken')
    const challenge = await challengeOf(ada)
    const wrong = await complete(challenge, wrongCodeOf(ada.codeAt))
    t.match(wrong, refused)
    t.equal(wrong.headers.get('www-authenticate'), 'Bearer realm="taskwright"')
    t.match(await complete(challenge, '0000-0000-0000-0000'), refused)
    t.match(await complete(challenge, ada.codeAt()), { status: 200 })
  })

  t.test('200, 401: concurrent requests with one code or one challenge start one session', async (t) => {
    const ada = await registerGuarded('racer-with-factor')
    const before = await countSessions(ada)
    const challenges = await Promise.all(Array.from({ length: 5 }, () => challengeOf(ada)))
    const withCode = (code: string) => Promise.all(challenges.map((challenge) => complete(challenge, code)))
    t.strictSame(countStatuses(await withCode(ada.codeAt())), { 200: 1, 401: 4 })
    await forgetFailures()
    t.strictSame(countStatuses(await withCode(ada.recoveryCodes[0] ?? '')), { 200: 1, 401: 4 })
    await forgetFailures()
    const challenge = await challengeOf(ada)
    const codes = ada.recoveryCodes.slice(1, 6)
    const replies = await Promise.all(codes.map((code) => complete(challenge, code)))
    t.strictSame(countStatuses(replies), { 200: 1, 401: 4 })
    t.equal(await countSessions(ada), before + 3)
  })

  t.test('401: the challenge of another user does not use up a code', async (t) => {
    const ada = await registerGuarded('one')
    const eve = await registerGuarded('other')
    const challenge = await challengeOf(ada)
    for (const code of [eve.codeAt(), eve.recoveryCodes[0] ?? '']) {
      t.match(await complete(challenge, code), refused)
      t.match(await signInWith(eve, code), { status: 200 })
    }
  })

  t.test('401: an expired or invalid challenge', async (t) => {
    const ada = await registerGuarded('dawdler')
    const challenge = await challengeOf(ada)
    const [{ seconds } = {}] = await service.deps.db.run(
      'select extract(epoch from expires_at - created_at)::int as seconds from one_time_tokens where user_id = $1',
      [ada.id],
    )
    t.equal(seconds, 300)
    await service.deps.db.run(
      `update one_time_tokens set expires_at = now() - interval '1 ms' where user_id = $1`,
      [ada.id],
    )
    const invalid = [
      `twc_${'A'.repeat(43)}`,
      'x',
      challenge.slice(4),
      `${challenge}A`,
      ada.refreshToken,
      ada.token,
    ]
    const replies = await Promise.all([challenge, ...invalid].map((text) => complete(text, ada.codeAt())))
    const [unknown] = replies
    for (const reply of replies) {
      t.match(reply, refused)
      t.strictSame(withoutIds(reply), unknown && withoutIds(unknown))
    }
    await service.expect('forgotPassword', 202, { body: { email: ada.email } })
    t.match(
      await complete(service.mails.at(-1)?.token ?? '', ada.codeAt()),
      refused,
      'a token for resetting the password',
    )
    t.match(await signInWith(ada, ada.codeAt()), { status: 200 })
  })

  t.test('401: a change of password, address or second factor ends the challenge', async (t) => {
    const new_password = 'another good one'
    const changes: Readonly<Record<string, (ada: GuardedAccount) => Promise<unknown>>> = {
      changed: ({ token, password: current_password }) =>
        service.expect('changePassword', 204, { token, body: { current_password, new_password } }),
      reset: async ({ email }) => {
        await service.expect('forgotPassword', 202, { body: { email } })
        const body = { token: service.mails.at(-1)?.token, new_password }
        await service.expect('resetPassword', 204, { body })
      },
      set: ({ id: user_id }) =>
        service.expect('setUserPassword', 204, {
          token: first.token,
          params: { user_id },
          body: { password: new_password },
        }),
      addressed: ({ token, id: user_id }) =>
        service.expect('updateUser', 200, {
          token,
          params: { user_id },
          body: { email: 'moved2@example.com' },
        }),
      disabled: ({ token, password, recoveryCodes: [code] }) =>
        service.expect('disableSecondFactor', 204, { token, body: { password, code } }),
      deleted: ({ token, id: user_id }) => service.expect('deleteUser', 204, { token, params: { user_id } }),
    }
    for (const [name, change] of Object.entries(changes)) {
      const ada = await registerGuarded(`voided-${name}`)
      const challenge = await challengeOf(ada)
      await change(ada)
      t.match(await complete(challenge, ada.codeAt()), refused, name)
    }
  })

  t.test('401: a challenge for an earlier second factor', async (t) => {
    const ada = await registerGuarded('another-factor')
    const challenge = await challengeOf(ada)
    const { token, password, recoveryCodes } = ada
    const [code = ''] = recoveryCodes
    await service.expect('disableSecondFactor', 204, { token, body: { password, code } })
    const again = await guard(ada)
    t.match(await complete(challenge, again.codeAt()), refused)
  })

  t.test('200: a code with a space, as authenticators show it', async () => {
    const ada = await registerGuarded('grouped')
    const code = ada.codeAt().replace(/^.../, '$& ')
    await service.expect('completeLogin', 200, { body: { challenge: await challengeOf(ada), code } })
  })

  t.test('400: invalid fields', async (t) => {
    const valid = { challenge: `twc_${'A'.repeat(43)}`, code: '123456' }
    for (const [name, value] of [
      ['challenge', undefined],
      ['challenge', ''],
      ['challenge', 7],
      ['challenge', 'x'.repeat(513)],
      ['code', undefined],
      ['code', '12345'],
      ['code', 123_456],
      ['code', '1'.repeat(33)],
      ['code', '12345\u0661'],
      ['password', 'x'],
    ] as const) {
      t.match(
        await service.call('completeLogin', { body: { ...valid, [name]: value } }),
        isInvalid(`/${name}`),
        `${name} ${String(value).slice(0, 20)}`,
      )
    }
  })

  refusesRequests(t, 'completeLogin', { challenge: 'x', code: '123456' })
})

/** Resets the limits on failed attempts. */
const forgetFailures = async (): Promise<void> => {
  await service.deps.db.run('delete from attempts', [])
}

t.test('register, login: 429 with Retry-After while the queue for hashing passwords is full', async (t) => {
  const passwords = narrowHasher()
  const narrow = await startService(t, { db: service.deps.db, passwords })
  const account = await narrow.register('patient')
  const login = { body: { email: account.email, password: account.password } }
  const requests: Readonly<[OperationId, Call][]> = [
    ['register', { body: someone('another') }],
    ['login', login],
    ['login', { body: { ...login.body, email: 'nobody@example.com' } }],
  ]
  await whileHashing(passwords, async () => {
    for (const [operation, request] of requests) {
      const refused = await narrow.call(operation, request)
      t.match(refused, { status: 429, body: { code: 'too_many_requests' } }, operation)
      t.equal(refused.headers.get('retry-after'), '2')
    }
    await narrow.expect('getCurrentUser', 200, { token: account.token })
  })
  const raced = await Promise.all(Array.from({ length: 10 }, () => narrow.call('login', login)))
  t.strictSame(
    raced.filter(({ status }) => status !== 200 && status !== 429),
    [],
  )
  await narrow.expect('login', 200, login)
  await narrow.expect('register', 201, { body: someone('another') })
})

t.test('refreshToken', async (t) => {
  t.test('200: returns new tokens for the same session', async (t) => {
    const account = await service.register('refreshed')
    const { body, headers } = await service.expect('refreshToken', 200, {
      body: { refresh_token: account.refreshToken },
    })
    t.match(body, { token_type: 'Bearer', expires_in: 900, refresh_expires_in: 7 * 86_400 })
    t.match(body.refresh_token, /^twr_[\w-]{43}$/)
    t.not(body.refresh_token, account.refreshToken)
    t.not(body.access_token, account.token)
    t.strictSame(body.user, account.user)
    t.equal(headers.get('cache-control'), 'no-store')
    await service.expect('getCurrentUser', 200, { token: account.token })
    await service.expect('logout', 204, { token: body.access_token })
    t.match(await service.call('getCurrentUser', { token: account.token }), { status: 401 })
  })

  t.test('200: includes the current state of the user', async (t) => {
    const account = await service.register('renamed')
    await service.expect('updateUser', 200, {
      token: account.token,
      params: { user_id: account.id },
      body: { display_name: 'Renamed' },
    })
    const { body } = await service.expect('refreshToken', 200, {
      body: { refresh_token: account.refreshToken },
    })
    t.match(body.user, { display_name: 'Renamed', version: 2, email: account.email })
  })

  t.test('200: the lifetime does not exceed the remaining 30 days of the session', async (t) => {
    const account = await service.register('aging')
    await service.deps.db.run(
      `update sessions set expires_at = now() + interval '1 hour' where user_id = $1`,
      [account.id],
    )
    const { body } = await service.expect('refreshToken', 200, {
      body: { refresh_token: account.refreshToken },
    })
    t.ok(body.refresh_expires_in > 3_500 && body.refresh_expires_in <= 3_600, String(body.refresh_expires_in))
  })

  t.test('401: invalid refresh tokens', async (t) => {
    const account = await service.register('refused')
    for (const refresh_token of [
      'x',
      'twr_',
      `twr_${'A'.repeat(43)}`,
      account.refreshToken.slice(4),
      `${account.refreshToken}A`,
      ` ${account.refreshToken}`,
      account.refreshToken.toUpperCase(),
      account.token,
    ]) {
      const refused = await service.call('refreshToken', { body: { refresh_token } })
      t.match(refused, { status: 401, body: { code: 'invalid_credentials' } }, refresh_token.slice(0, 10))
      t.ok(refused.headers.get('www-authenticate'))
    }
    await service.expect('refreshToken', 200, { body: { refresh_token: account.refreshToken } })
  })

  t.test('401: a token that was unused for 7 days, and the session has ended', async (t) => {
    const account = await service.register('idle')
    await service.expect('getCurrentUser', 200, { token: account.token })
    await service.deps.db.run(
      `update refresh_tokens set expires_at = now() - interval '1 ms' from sessions where id = session_id and user_id = $1`,
      [account.id],
    )
    const request = { body: { refresh_token: account.refreshToken } }
    t.match(await service.call('refreshToken', request), { status: 401 })
    t.match(await service.call('getCurrentUser', { token: account.token }), { status: 401 })
  })

  t.test('401: the session is older than 30 days', async (t) => {
    const account = await service.register('old')
    await service.deps.db.run(`update sessions set expires_at = now() - interval '1 ms' where user_id = $1`, [
      account.id,
    ])
    const request = { body: { refresh_token: account.refreshToken } }
    t.match(await service.call('refreshToken', request), { status: 401 })
    t.match(await service.call('getCurrentUser', { token: account.token }), { status: 401 })
  })

  t.test('400: invalid fields', async (t) => {
    for (const [name, value] of [
      ['refresh_token', undefined],
      ['refresh_token', ''],
      ['refresh_token', null],
      ['refresh_token', ['twr_']],
      ['refresh_token', 'x'.repeat(513)],
      ['grant_type', 'refresh_token'],
    ] as const) {
      t.match(
        await service.call('refreshToken', { body: { refresh_token: first.refreshToken, [name]: value } }),
        isInvalid(`/${name}`),
        `${name} ${String(value).slice(0, 20)}`,
      )
    }
    await service.expect('getCurrentUser', 200, { token: first.token })
  })

  refusesRequests(t, 'refreshToken', { refresh_token: first.refreshToken })
})

t.test('logout', async (t) => {
  t.test('204: ends the session of the token, and no other', async (t) => {
    const account = await service.register('leaving')
    const other = await signIn(account)
    await service.expect('logout', 204, { token: account.token })
    const refresh = { body: { refresh_token: account.refreshToken } }
    t.match(await service.call('getCurrentUser', { token: account.token }), { status: 401 })
    t.match(await service.call('refreshToken', refresh), { status: 401 })
    await service.expect('getCurrentUser', 200, { token: other.access_token })
    await service.expect('refreshToken', 200, { body: { refresh_token: other.refresh_token } })
  })

  t.test('204: everywhere=true ends every session of the user at once, but no API token', async (t) => {
    const [account, other] = [await service.register('everywhere'), await service.register('elsewhere')]
    const { access_token, refresh_token } = await signIn(account)
    const program = await service.expect('createApiToken', 201, {
      token: account.token,
      body: { name: 'a program', scopes: ['users:read'] },
    })
    for (const token of [account.token, access_token]) {
      await service.expect('getCurrentUser', 200, { token })
    }
    await service.expect('logout', 204, { token: access_token, query: { everywhere: true } })
    for (const token of [account.token, access_token]) {
      t.match(await service.call('getCurrentUser', { token }), { status: 401 })
    }
    for (const token of [account.refreshToken, refresh_token]) {
      t.match(await service.call('refreshToken', { body: { refresh_token: token } }), { status: 401 })
    }
    await service.expect('getCurrentUser', 200, { token: program.body.token })
    await service.expect('getCurrentUser', 200, { token: other.token })
    await service.expect('refreshToken', 200, { body: { refresh_token: other.refreshToken } })
    const { items } = (
      await service.expect('listSessions', 200, { token: (await signIn(account)).access_token })
    ).body
    t.match(items, [{ is_current: true }], 'signing in again is possible')
    t.equal(items.length, 1)
    const events = await service.expect('listAuditEvents', 200, {
      token: first.token,
      query: { user_id: account.id, action: ['session.ended', 'session.all_ended'] },
    })
    t.match(events.body.items, [{ action: 'session.all_ended', actor_id: account.id }])
    t.equal(events.body.items.length, 1)
  })

  t.test('204: no session survives everywhere=true during concurrent refreshes', async (t) => {
    const account = await service.register('scattered')
    const sessions = await Promise.all(Array.from({ length: 5 }, () => signIn(account)))
    const [, ...refreshed] = await Promise.all([
      service.expect('logout', 204, { token: account.token, query: { everywhere: true } }),
      ...sessions.map(({ refresh_token }) => service.call('refreshToken', { body: { refresh_token } })),
    ])
    for (const { status } of refreshed) t.ok(status === 200 || status === 401)
    const [left] = await service.deps.db.run('select count(*)::int from sessions where user_id = $1', [
      account.id,
    ])
    t.equal(left?.count, 0)
  })

  t.test('204: everywhere=false ends only this session', async (t) => {
    const { access_token: token } = await signIn(first)
    await service.expect('logout', 204, { token, query: { everywhere: false } })
    t.match(await service.call('getCurrentUser', { token }), { status: 401 })
    await service.expect('getCurrentUser', 200, { token: first.token })
  })

  t.test('204: an empty body of any media type', async (t) => {
    for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x', 'nonsense']) {
      const { access_token: token } = await signIn(first)
      await service.expect('logout', 204, { token, headers: { 'content-type': type } })
      t.match(await service.call('getCurrentUser', { token }), { status: 401 }, type)
    }
  })

  t.test('400: a body or an invalid parameter, and the session remains', async (t) => {
    for (const body of [{ everywhere: true }, 'all', fileForm('all')]) {
      t.match(await service.call('logout', { token: first.token, body }), { status: 400 })
    }
    t.match(await service.call('logout', { token: first.token, query: { all: 'true' } }), isInvalid('/all'))
    for (const query of [
      'everywhere=',
      'everywhere=1',
      'everywhere=TRUE',
      'everywhere=true&everywhere=false',
    ]) {
      t.match(await service.call('logout', { token: first.token, query }), isInvalid('/everywhere'), query)
    }
    await service.expect('getCurrentUser', 200, { token: first.token })
  })

  t.test('401: a repeat', async (t) => {
    const { access_token: token } = await signIn(first)
    await service.expect('logout', 204, { token })
    t.match(await service.call('logout', { token }), { status: 401 })
  })

  refusesInvalidTokens(t, 'logout')
})

t.test('getCurrentUser', async (t) => {
  t.test('200: the user of the token, with the email address', async (t) => {
    const account = await service.register('myself')
    const { body, headers } = await service.expect('getCurrentUser', 200, { token: account.token })
    t.strictSame(body, account.user)
    t.equal(body.email, account.email)
    t.equal(headers.get('etag'), '"1"')
    t.equal(headers.get('cache-control'), 'private, no-cache')
    const head = await service.call('getCurrentUser', { token: account.token, method: 'HEAD' })
    t.match(head, { status: 200, body: null })
    t.equal(head.headers.get('etag'), '"1"')
  })

  t.test('304: If-None-Match with the current ETag', async (t) => {
    const account = await service.register('unchanged')
    const { token } = account
    for (const etag of ['"1"', 'W/"1"', '*', '"7", "1"', 'W/"7",,W/"1"']) {
      const { headers, body } = await service.expect('getCurrentUser', 304, {
        token,
        headers: { 'if-none-match': etag },
      })
      t.equal(body, null)
      t.equal(headers.get('etag'), '"1"', etag)
    }
    const params = { user_id: account.id }
    await service.expect('updateUser', 200, { token, params, body: { display_name: 'Changed' } })
    const after = await service.expect('getCurrentUser', 200, { token, headers: { 'if-none-match': '"1"' } })
    t.equal(after.body.display_name, 'Changed')
  })

  t.test('400: a malformed If-None-Match or an unknown parameter', async (t) => {
    const { token } = first
    for (const etag of ['1', '"1', '"1" "2"', '*, "1"', 'w/"1"']) {
      t.match(
        await service.call('getCurrentUser', { token, headers: { 'if-none-match': etag } }),
        isInvalid('/If-None-Match'),
        etag,
      )
    }
    t.match(await service.call('getCurrentUser', { token, query: { id: 'x' } }), isInvalid('/id'))
  })

  t.test('401: a user deleted on another instance, while cached', async (t) => {
    const account = await service.register('vanished')
    const other = await startService(t, { db: service.deps.db })
    await other.expect('getCurrentUser', 200, { token: account.token })
    await service.expect('deleteUser', 204, { token: account.token, params: { user_id: account.id } })
    t.match(await other.call('getCurrentUser', { token: account.token }), {
      status: 401,
      body: { code: 'unauthorized' },
    })
  })

  refusesInvalidTokens(t, 'getCurrentUser')
})
