import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { hashApiToken, newApiToken } from '../../src/auth/api-tokens.ts'
import { newRefreshToken } from '../../src/auth/opaque-tokens.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** The value of base62 digits. */
const numberOf = (digits: string): number =>
  Array.from(digits).reduce((number, digit) => number * 62 + base62.indexOf(digit), 0)

t.test('a new token has the prefix, is unique, and has a hash', async (t) => {
  const { token, hash } = newApiToken()
  t.match(token, /^twp_[0-9A-Za-z]{49}$/)
  t.match(`token=${token};`.match(/\btwp_[0-9A-Za-z]{49}\b/), [token], 'a secret scanner finds it')
  t.same(hash, createHash('sha256').update(token).digest())
  t.same(hashApiToken(token), hash)
  t.not(newApiToken().token, token)
})

t.test('a token ends with its checksum', async (t) => {
  for (let count = 0; count < 100; count += 1) {
    const { token } = newApiToken()
    t.equal(numberOf(token.slice(-6)), crc32(token.slice(0, -6)), token)
  }
})

t.test('checksums from another implementation are accepted', async (t) => {
  // From Python's zlib.crc32. The second checksum has padding.
  const tokens = [
    'twp_Ky9Pf34qY6Nb3wWD25RQ4F5ZR3qa7yEeeby3abP3E2Z0FqDc2',
    'twp_6WUVmv92DjQe8L6tgNLUnXZnwDIRLRGZ3qIIMqVPLWH00Pyl2',
  ]
  for (const token of tokens) {
    t.same(hashApiToken(token), createHash('sha256').update(token).digest(), token)
  }
})

t.test('every character is equally likely', async (t) => {
  const counts = new Map<string, number>()
  const samples = 2_000
  for (let count = 0; count < samples; count += 1) {
    for (const character of newApiToken().token.slice(4, -6)) {
      counts.set(character, (counts.get(character) ?? 0) + 1)
    }
  }
  t.equal(counts.size, 62)
  const expected = (samples * 43) / 62
  for (const [character, count] of counts) {
    t.ok(Math.abs(count / expected - 1) < 0.17, `${character}: ${count} times, ${expected} expected`)
  }
})

t.test('a token with any one character changed is rejected', async (t) => {
  const { token } = newApiToken()
  for (const [place, character] of Array.from(token).entries()) {
    const typo = character === 'x' ? 'y' : 'x'
    t.equal(hashApiToken(token.slice(0, place) + typo + token.slice(place + 1)), null, `place ${place}`)
  }
})

t.test('other strings are rejected', async (t) => {
  const { token } = newApiToken()
  const others = [
    '',
    'twp_',
    token.slice(4),
    token.slice(0, -1),
    `${token}0`,
    `${token}\n`,
    ` ${token}`,
    token.toUpperCase(),
    newRefreshToken().token,
    // The first token above with two characters swapped.
    'twp_yK9Pf34qY6Nb3wWD25RQ4F5ZR3qa7yEeeby3abP3E2Z0FqDc2',
    // A valid checksum, but the wrong alphabet, length or prefix.
    'twp_a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a1ViHKZ',
    'twp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0fEA7y',
    'twp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1Oa1Gc',
    'twr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa3QpuLX',
  ]
  for (const other of others) t.equal(hashApiToken(other), null, JSON.stringify(other))
})
