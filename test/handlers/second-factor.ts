import { URI } from 'otpauth'
import t, { type Test } from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { accountActions } from '../fixture/accounts.ts'
import { authenticator, secondFactorActions, wrongCodeOf } from '../fixture/second-factor.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf } from '../fixture/tasks.ts'

const service = await startService(t)
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, signIn } = accountActions(service, admin)
const { challengeOf, forgetLastCode, registerGuarded } = secondFactorActions(service)

const enroll = async ({ token, password }: Account) =>
  (await service.expect('enrollSecondFactor', 201, { token, body: { password } })).body

const confirm = ({ token }: Account, code: string) =>
  service.call('confirmSecondFactor', { token, body: { code } })

const disable = ({ token, password }: Account, code: string) =>
  service.call('disableSecondFactor', { token, body: { password, code } })

const stateOf = async ({ token }: Account) => (await service.expect('getSecondFactor', 200, { token })).body

const failuresOf = async (account: Account): Promise<number> =>
  (await auditOf(account)).filter(({ action }) => action === 'proof.failed').length

const disabledState = { is_enabled: false, confirmed_at: null, recovery_codes_left: 0 }
const wrongCode = { status: 422, body: { code: 'wrong_code', errors: [{ pointer: '/code' }] } }
const wrongPassword = { status: 422, body: { code: 'wrong_password', errors: [{ pointer: '/password' }] } }
const malformedCodes = ['', '12345', '1'.repeat(33), '12345\u0661', '123456\n', '12_456', null, 123456]
const malformedPasswords = ['', 'p'.repeat(257), 'p'.repeat(10_000), 'a\u0000b', null, 7]

/** Tests the fields that an operation rejects before it checks the password or code. */
const testMalformed = (
  t: Test,
  operation: OperationId,
  valid: Readonly<Record<string, string>>,
  malformed: Readonly<Record<string, readonly unknown[]>>,
): void => {
  t.test('400 for malformed, missing and unknown fields', async (t) => {
    const { token } = await service.register(`malformed-${operation.toLowerCase()}`)
    const wrong = Object.entries({ ...malformed, extra: ['x'] })
    const missing = Object.keys(valid).map((name): [string, unknown[]] => [name, [undefined]])
    for (const [name, values] of [...wrong, ...missing]) {
      for (const value of values) {
        const request = { token, body: { ...valid, [name]: value } }
        const { body } = await service.expect(operation, 400, request)
        t.match(body, { errors: [{ pointer: `/${name}` }] }, `${name} ${JSON.stringify(value)?.slice(0, 20)}`)
      }
    }
  })
}

t.test('getSecondFactor', async (t) => {
  t.test('200: disabled, pending, enabled, and with one recovery code fewer', async (t) => {
    const ada = await service.register('watcher')
    t.strictSame(await stateOf(ada), disabledState)
    const { secret } = await enroll(ada)
    t.strictSame(await stateOf(ada), disabledState)
    const { body } = await service.expect('confirmSecondFactor', 200, {
      token: ada.token,
      body: { code: authenticator(secret)() },
    })
    const state = await stateOf(ada)
    t.match(state, { is_enabled: true, recovery_codes_left: 10 })
    t.ok(Math.abs(Date.parse(state.confirmed_at ?? '') - Date.now()) < 60_000)
    const code = body.recovery_codes[3] ?? ''
    await service.expect('completeLogin', 200, { body: { challenge: await challengeOf(ada), code } })
    t.strictSame(await stateOf(ada), { ...state, recovery_codes_left: 9 })
  })
})

t.test('enrollSecondFactor', async (t) => {
  t.test('201: a secret, its otpauth URI, and a QR code', async (t) => {
    const ada = await service.register('enrolled')
    const { body, headers } = await service.expect('enrollSecondFactor', 201, {
      token: ada.token,
      body: { password: ada.password },
    })
    t.match(body.secret, /^[A-Z2-7]{32}$/, '160 bits')
    const totp = URI.parse(body.otpauth_uri)
    t.match(totp, { issuer: 'Taskwright', label: 'enrolled', algorithm: 'SHA1', digits: 6, period: 30 })
    t.equal(totp.secret.base32, body.secret)
    t.match(body.qr_code, /^data:image\/png;base64,iVBORw0KGgo/)
    t.equal(headers.get('location'), '/auth/second-factor')
    t.equal(headers.get('cache-control'), 'no-store')
  })

  t.test('201: the password alone signs in until confirmation', async (t) => {
    const ada = await service.register('undecided')
    await enroll(ada)
    await signIn(ada)
    t.strictSame(await stateOf(ada), disabledState)
  })

  t.test('201: a second enrollment replaces the secret', async (t) => {
    const ada = await service.register('repeated')
    const first = await enroll(ada)
    const second = await enroll(ada)
    t.not(second.secret, first.secret)
    t.match(await confirm(ada, authenticator(first.secret)()), wrongCode)
    t.match(await confirm(ada, authenticator(second.secret)()), { status: 200 })
  })

  t.test('201: the database stores the secret encrypted', async (t) => {
    const ada = await service.register('sealed')
    const { secret, otpauth_uri: uri } = await enroll(ada)
    const [row] = await db.run('select secret from second_factors where user_id = $1', [ada.id])
    const stored = row?.secret as Buffer
    t.equal(stored.length, 1 + 12 + 20 + 16, 'version, nonce, ciphertext, tag')
    const bytes = Buffer.from(URI.parse(uri).secret.bytes)
    for (const plain of [bytes, secret, bytes.toString('hex')]) t.notOk(stored.includes(plain))
  })

  t.test('201: an encrypted secret is bound to its user', async () => {
    const ada = await registerGuarded('robbed')
    const eve = await registerGuarded('robber')
    // Eve can write to the database, and tries to sign in as ada with her own authenticator.
    await db.run(
      `update second_factors set secret = (select secret from second_factors where user_id = $1) where user_id = $2`,
      [eve.id, ada.id],
    )
    const challenge = await challengeOf(ada)
    await service.expect('completeLogin', 401, { body: { challenge, code: eve.codeAt() } })
  })

  t.test('409 if one is enabled, which stays valid', async (t) => {
    const ada = await registerGuarded('settled')
    const body = { password: ada.password }
    const refused = await service.expect('enrollSecondFactor', 409, { token: ada.token, body })
    t.equal(refused.body.code, 'second_factor_enabled')
    await service.expect('completeLogin', 200, {
      body: { challenge: await challengeOf(ada), code: ada.codeAt() },
    })
  })

  t.test('409 or 201: a second enrollment never disables a factor confirmed at the same time', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const ada = await service.register(`racing${round}`)
      const { secret } = await enroll(ada)
      const codeAt = authenticator(secret)
      const { token, password } = ada
      const [confirmed, enrolled] = await Promise.all([
        confirm(ada, codeAt()),
        service.call('enrollSecondFactor', { token, body: { password } }),
      ])
      const statuses = `${confirmed.status} ${enrolled.status}`
      t.ok(['200 409', '409 201', '422 201'].includes(statuses), statuses)
      t.equal((await stateOf(ada)).is_enabled, confirmed.status === 200)
    }
  })

  t.test('422 for a wrong password, which counts as a failed attempt', async (t) => {
    const ada = await service.register('careless')
    const body = { password: 'wrong' }
    t.match(await service.call('enrollSecondFactor', { token: ada.token, body }), wrongPassword)
    t.equal(await failuresOf(ada), 1)
    const [row] = await db.run('select from second_factors where user_id = $1', [ada.id])
    t.equal(row, undefined)
  })

  testMalformed(t, 'enrollSecondFactor', { password: 'x' }, { password: malformedPasswords })
})

t.test('confirmSecondFactor', async (t) => {
  t.test('200: ten recovery codes, stored as hashes', async (t) => {
    const ada = await service.register('confirmed')
    const { secret } = await enroll(ada)
    const code = authenticator(secret)()
    const { token } = ada
    const { body, headers } = await service.expect('confirmSecondFactor', 200, { token, body: { code } })
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(new Set(body.recovery_codes).size, 10)
    const rows = await db.run(
      `select encode(hash, 'escape') as hash from recovery_codes where user_id = $1`,
      [ada.id],
    )
    t.equal(rows.length, 10)
    const stored = JSON.stringify(rows)
    for (const recoveryCode of body.recovery_codes) {
      t.notMatch(stored, recoveryCode)
      t.notMatch(stored, recoveryCode.replaceAll('-', ''))
    }
  })

  t.test('200: the code cannot be used to sign in', async (t) => {
    const ada = await service.register('overheard')
    const codeAt = authenticator((await enroll(ada)).secret)
    const code = codeAt()
    t.match(await confirm(ada, code), { status: 200 })
    const challenge = await challengeOf(ada)
    await service.expect('completeLogin', 401, { body: { challenge, code } })
    await service.expect('completeLogin', 200, { body: { challenge, code: codeAt(1) } })
  })

  t.test('200 for one of several requests at the same time, 409 for the others', async (t) => {
    const ada = await service.register('eager')
    const code = authenticator((await enroll(ada)).secret)()
    const replies = await Promise.all(Array.from({ length: 5 }, () => confirm(ada, code)))
    t.strictSame(countStatuses(replies), { 200: 1, 409: 4 })
    t.equal((await stateOf(ada)).recovery_codes_left, 10)
  })

  t.test('409 without an enrollment', async (t) => {
    const ada = await service.register('hasty')
    t.match(await confirm(ada, '123456'), { status: 409, body: { code: 'second_factor_not_enrolled' } })
  })

  t.test('409 if it is enabled, and the recovery codes stay', async (t) => {
    const ada = await registerGuarded('thorough')
    t.match(await confirm(ada, ada.codeAt(1)), { status: 409, body: { code: 'second_factor_enabled' } })
    t.equal((await stateOf(ada)).recovery_codes_left, 10)
  })

  t.test('422 for a wrong code, which counts as a failed attempt', async (t) => {
    const ada = await service.register('clumsy')
    const codeAt = authenticator((await enroll(ada)).secret)
    t.match(await confirm(ada, wrongCodeOf(codeAt)), wrongCode)
    t.equal(await failuresOf(ada), 1)
    t.strictSame(await stateOf(ada), disabledState)
    await signIn(ada)
    t.match(await confirm(ada, codeAt()), { status: 200 })
  })

  testMalformed(t, 'confirmSecondFactor', { code: '123456' }, { code: malformedCodes })
})

t.test('disableSecondFactor', async (t) => {
  t.test('204 with a code of the authenticator or a recovery code', async (t) => {
    const ada = await registerGuarded('leaver')
    t.match(await disable(ada, ada.codeAt()), { status: 204, body: null })
    t.strictSame(await stateOf(ada), disabledState)
    await signIn(ada)
    const eve = await registerGuarded('loser')
    t.match(await disable(eve, eve.recoveryCodes[9] ?? ''), { status: 204 })
    await signIn(eve)
    for (const { id } of [ada, eve]) {
      t.same(await db.run('select from recovery_codes where user_id = $1', [id]), [])
    }
  })

  t.test('204: after a new enrollment, the codes of the previous one are invalid', async (t) => {
    const ada = await registerGuarded('changer')
    t.match(await disable(ada, ada.codeAt()), { status: 204 })
    const codeAt = authenticator((await enroll(ada)).secret)
    t.match(await confirm(ada, codeAt()), { status: 200 })
    const challenge = await challengeOf(ada)
    for (const code of [ada.codeAt(1), ada.recoveryCodes[0]]) {
      await service.expect('completeLogin', 401, { body: { challenge, code } })
    }
    await service.expect('completeLogin', 200, { body: { challenge, code: codeAt(1) } })
  })

  t.test('204: resets the count of failed attempts', async (t) => {
    const ada = await registerGuarded('wobbly')
    const before = await db.run('select from attempts', [])
    for (let failure = 0; failure < 4; failure += 1) {
      const code = wrongCodeOf(ada.codeAt)
      t.match(await disable(ada, code), wrongCode)
    }
    t.match(await disable(ada, ada.codeAt()), { status: 204 })
    t.same(await db.run('select from attempts', []), before)
  })

  t.test('204 for one of several requests at the same time, 409 or 422 for the others', async (t) => {
    const ada = await registerGuarded('impatient')
    const code = ada.codeAt()
    const replies = await Promise.all(Array.from({ length: 5 }, () => disable(ada, code)))
    const { 204: done, ...refused } = countStatuses(replies)
    t.equal(done, 1)
    t.strictSame(
      Object.keys(refused).filter((status) => !['409', '422'].includes(status)),
      [],
    )
  })

  t.test('409 if none is enrolled, or it is not confirmed', async (t) => {
    const ada = await service.register('carefree')
    const notEnrolled = { status: 409, body: { code: 'second_factor_not_enrolled' } }
    t.match(await disable(ada, '123456'), notEnrolled)
    const { secret } = await enroll(ada)
    t.match(await disable(ada, authenticator(secret)()), notEnrolled)
    t.match(await confirm(ada, authenticator(secret)()), { status: 200 }, 'can still be confirmed')
  })

  t.test('422 for a wrong password with a valid code', async (t) => {
    const ada = await registerGuarded('borrowed')
    const code = ada.codeAt()
    t.match(await disable({ ...ada, password: 'wrong' }, code), wrongPassword)
    t.equal(await failuresOf(ada), 1)
    t.equal((await stateOf(ada)).is_enabled, true)
    t.match(await disable(ada, code), { status: 204 }, 'the code is still valid')
  })

  t.test('422 for a wrong or used code', async (t) => {
    const ada = await registerGuarded('stubborn')
    const used = [ada.recoveryCodes[0] ?? '', ada.codeAt()]
    for (const code of used) {
      await service.expect('completeLogin', 200, { body: { challenge: await challengeOf(ada), code } })
    }
    for (const code of [...used, wrongCodeOf(ada.codeAt)]) t.match(await disable(ada, code), wrongCode)
    t.equal(await failuresOf(ada), 3)
    t.equal((await stateOf(ada)).is_enabled, true)
    await forgetLastCode(ada)
    t.match(await disable(ada, ada.codeAt()), { status: 204 })
  })

  testMalformed(
    t,
    'disableSecondFactor',
    { password: 'x', code: '123456' },
    { password: malformedPasswords, code: malformedCodes },
  )
})

t.test('429 after five wrong passwords or codes, even for a right one', async (t) => {
  const operations = ['enrollSecondFactor', 'disableSecondFactor'] as const
  for (const operation of operations) {
    const ada = await registerGuarded(`locked-${operation.toLowerCase()}`)
    const code = ada.codeAt()
    const request = (password: string) => ({
      token: ada.token,
      body: operation === 'enrollSecondFactor' ? { password } : { password, code },
    })
    for (let failure = 0; failure < 5; failure += 1) {
      t.match(await service.call(operation, request('wrong')), wrongPassword)
    }
    const { headers } = await service.expect(operation, 429, request(ada.password))
    t.ok(headers.get('retry-after'))
  }
  const ada = await service.register('locked-confirm')
  const codeAt = authenticator((await enroll(ada)).secret)
  for (let failure = 0; failure < 5; failure += 1) t.match(await confirm(ada, wrongCodeOf(codeAt)), wrongCode)
  t.match(await confirm(ada, codeAt()), { status: 429, body: { code: 'too_many_requests' } })
  t.strictSame(
    pointersOf(
      (await service.expect('confirmSecondFactor', 429, { token: ada.token, body: { code: codeAt() } })).body,
    ),
    [],
  )
})
