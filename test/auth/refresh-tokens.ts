import { createHash } from 'node:crypto'
import t from 'tap'
import { hashRefreshToken, newRefreshToken } from '../../src/auth/refresh-tokens.ts'

t.test('a new token is recognizable, unlike any other, and found by its hash', async (t) => {
  const { token, hash } = newRefreshToken()
  t.match(token, /^twr_[A-Za-z0-9_-]{43}$/)
  t.same(hash, createHash('sha256').update(token).digest())
  t.same(hashRefreshToken(token), hash)
  t.not(newRefreshToken().token, token)
})

t.test('no other string has a hash', async (t) => {
  const { token } = newRefreshToken()
  const others = [
    '',
    'twr_',
    token.slice(4),
    token.slice(0, -1),
    `${token}A`,
    `${token}\n`,
    ` ${token}`,
    `${token.slice(0, -1)}=`,
  ]
  for (const other of others) t.equal(hashRefreshToken(other), null, JSON.stringify(other))
})
