import t from 'tap'
import { type ClaimSet, mergeClaims, readClaims } from '../../src/oidc/claims.ts'
import { providerOf, startIssuer } from '../fixture/issuer.ts'

/** What of the claims of a provider is believed. */

const provider = providerOf(await startIssuer(), {
  teams: [
    { claim: 'groups', value: '*', team: 'a', role: 'member' },
    { claim: 'acr', value: '*', team: 'b', role: 'member' },
    { claim: 'email_verified', value: '*', team: 'c', role: 'member' },
  ],
})

t.test('the user info adds a profile and groups, and nothing about the authentication', async (t) => {
  const idToken = { iss: 'https://issuer.example', sub: 'ada', name: 'Ada' }
  const profile = {
    given_name: 'A.',
    family_name: 'Lovelace',
    nickname: 'countess',
    preferred_username: 'ada',
    zoneinfo: 'Europe/London',
    groups: ['engineering'],
  }
  const claimed = {
    iss: 'https://evil.example',
    sub: 'admin',
    amr: ['otp'],
    acr: 'mfa',
    auth_time: 1,
    sid: 'another',
    _claim_names: { groups: 'x' },
    hasgroups: true,
    role: 'admin',
    name: 'Another',
  }
  t.strictSame(mergeClaims(provider, idToken, { ...profile, ...claimed }), {
    ...profile,
    ...idToken,
    email: undefined,
    email_verified: undefined,
  })
})

t.test('an address and whether it is verified come from the same place', async (t) => {
  const [own, info] = ['own@example.com', 'info@example.com']
  const cases: readonly (readonly [idToken: ClaimSet, userInfo: ClaimSet, merged: readonly unknown[]])[] = [
    [{}, { email: info, email_verified: true }, [info, true]],
    [{ email_verified: true }, { email: info }, [info, undefined]],
    [{ email_verified: true }, { email: info, email_verified: false }, [info, false]],
    [{ email: own }, { email: info, email_verified: true }, [own, undefined]],
    [{ email: own, email_verified: false }, { email_verified: true }, [own, false]],
  ]
  for (const [idToken, userInfo, merged] of cases) {
    const { email, email_verified } = mergeClaims(provider, idToken, userInfo)
    t.strictSame([email, email_verified], merged, JSON.stringify([idToken, userInfo]))
  }
})

t.test('an address is not folded into that of another mailbox', async (t) => {
  const cases: readonly (readonly [email: string, read: string | null])[] = [
    ['Ada@Example.COM', 'ada@example.com'],
    ['ada@bücher.example', 'ada@xn--bcher-kva.example'],
    ['ada@ｅxample.com', 'ada@example.com'],
    ['ａda@example.com', null],
    ['\u212Aarl@example.com', null],
    ['ada\uFF20example.com', null],
    ['ada@evil.example\uFF20example.com', null],
    ['\u00A0ada@example.com', null],
  ]
  for (const [email, read] of cases)
    t.equal(readClaims(provider, { iss: 'https://issuer.example', sub: 'ada', email }).email, read, email)
})

t.test('a time of authentication that is none is refused', async (t) => {
  const claims = { iss: 'https://issuer.example', sub: 'ada' }
  t.equal(readClaims(provider, { ...claims, auth_time: 1_700_000_000 }).authTime, 1_700_000_000)
  t.equal(readClaims(provider, claims).authTime, null)
  for (const auth_time of [1.5, -1, 1e15, 2 ** 53, 'now', null])
    t.throws(() => readClaims(provider, { ...claims, auth_time }), TypeError, String(auth_time))
})
