import t from 'tap'
import { deriveKeys } from '../../src/auth/keys.ts'

const secret = Buffer.alloc(32, 1)
const other = Buffer.alloc(32, 2)

t.test('a key depends on the secret and on the purpose alone', async (t) => {
  const key = deriveKeys([secret], 'cursor').newest
  t.equal(key.byteLength, 32)
  t.same(deriveKeys([Buffer.from(secret)], 'cursor').newest, key)
  t.notSame(deriveKeys([secret], 'idempotency').newest, key)
  t.notSame(deriveKeys([other], 'cursor').newest, key)
  t.notSame(key, secret)
})

t.test('a ring has a key for each secret, in their order', async (t) => {
  const { newest, all } = deriveKeys([secret, other], 'cursor')
  t.strictSame(all, [newest, deriveKeys([other], 'cursor').newest])
  t.strictSame(deriveKeys([other, secret], 'cursor').all, all.toReversed())
})
