import t from 'tap'
import { deriveKey } from '../../src/auth/keys.ts'

t.test('a key depends on the secret and on the purpose alone', async (t) => {
  const secret = Buffer.alloc(32, 1)
  const key = deriveKey(secret, 'cursor')
  t.equal(key.byteLength, 32)
  t.same(deriveKey(Buffer.from(secret), 'cursor'), key)
  t.notSame(deriveKey(secret, 'idempotency'), key)
  t.notSame(deriveKey(Buffer.alloc(32, 2), 'cursor'), key)
  t.notSame(key, secret)
})
