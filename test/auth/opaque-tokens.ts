import { createHash } from 'node:crypto'
import t from 'tap'
import {
  hashChallenge,
  hashRefreshToken,
  hashResetToken,
  hashUndoToken,
  newChallenge,
  newRefreshToken,
  newResetToken,
  newUndoToken,
} from '../../src/auth/opaque-tokens.ts'

const kinds = [
  { prefix: 'twr_', create: newRefreshToken, hashOf: hashRefreshToken },
  { prefix: 'twc_', create: newChallenge, hashOf: hashChallenge },
  { prefix: 'twx_', create: newResetToken, hashOf: hashResetToken },
  { prefix: 'twu_', create: newUndoToken, hashOf: hashUndoToken },
]

for (const { prefix, create, hashOf } of kinds) {
  t.test(`${prefix}: a new token has the prefix, is unique, and has a hash`, async (t) => {
    const { token, hash } = create()
    t.match(token, new RegExp(`^${prefix}[A-Za-z0-9_-]{43}$`))
    t.same(hash, createHash('sha256').update(token).digest())
    t.same(hashOf(token), hash)
    t.not(create().token, token)
  })

  t.test(`${prefix}: other strings are rejected`, async (t) => {
    const { token } = create()
    const others = [
      '',
      prefix,
      token.slice(4),
      token.slice(0, -1),
      `${token}A`,
      `${token}\n`,
      ` ${token}`,
      `${token.slice(0, -1)}=`,
      ...kinds.filter((kind) => kind.create !== create).map((kind) => kind.create().token),
    ]
    for (const other of others) t.equal(hashOf(other), null, JSON.stringify(other))
  })
}
