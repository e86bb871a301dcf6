import { createHash } from 'node:crypto'
import t from 'tap'
import { hashRecoveryCode, newRecoveryCodes } from '../../src/auth/recovery-codes.ts'

t.test('new codes are ten, unique, and each has its hash', async (t) => {
  const { codes, hashes } = newRecoveryCodes()
  t.equal(codes.length, 10)
  t.equal(new Set([...codes, ...newRecoveryCodes().codes]).size, 20)
  for (const code of codes) t.match(code, /^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}$/)
  t.same(codes.map(hashRecoveryCode), hashes)
})

t.test('every character of the alphabet is used', async (t) => {
  const codes = Array.from({ length: 20 }, () => newRecoveryCodes().codes).flat()
  t.equal(new Set(codes.join('').replaceAll('-', '')).size, 32)
})

t.test('spaces, hyphens, case and look-alike characters are normalized', async (t) => {
  const hash = createHash('sha256').update('01110a2b3c4d5e6z').digest()
  for (const text of [
    '0111-0a2b-3c4d-5e6z',
    '01110a2b3c4d5e6z',
    '0111-0A2B-3C4D-5E6Z',
    ' 0111 0a2b 3c4d 5e6z\n',
    '01-11-0a 2b3c4d5e6z',
    'oilL-Oa2b-3c4d-5e6z',
    'OIl1-oA2B-3c4d-5E6z',
  ]) {
    t.same(hashRecoveryCode(text), hash, JSON.stringify(text))
  }
})

t.test('other texts are rejected', async (t) => {
  for (const text of [
    '',
    '----',
    '492039',
    '0111-0a2b-3c4d-5e6',
    '0111-0a2b-3c4d-5e6zz',
    '0111-0a2b-3c4d-5e6u',
    '0111_0a2b_3c4d_5e6z',
    '0111-0a2b-3c4d-5e6é',
    '0111-0a2b-3c4d-5e6\u0000',
    'İ111-0a2b-3c4d-5e6z',
  ]) {
    t.equal(hashRecoveryCode(text), null, JSON.stringify(text))
  }
})
