import type { KeyObject } from 'node:crypto'
import t from 'tap'
import { deriveKeys } from '../../src/auth/keys.ts'

const secret = Buffer.alloc(32, 1)
const other = Buffer.alloc(32, 2)

/** Key objects look all the same. */
const bytesOf = (key: KeyObject): Buffer => key.export()

t.test('a key depends on the secret and on the purpose alone', async (t) => {
  const bytes = bytesOf(deriveKeys([secret], 'cursor').active)
  t.equal(bytes.length, 32)
  t.same(bytesOf(deriveKeys([Buffer.from(secret)], 'cursor').active), bytes)
  t.notSame(bytesOf(deriveKeys([secret], 'idempotency').active), bytes)
  t.notSame(bytesOf(deriveKeys([other], 'cursor').active), bytes)
  t.notSame(bytes, secret)
})

t.test('a ring has a key for each secret, in their order', async (t) => {
  const { active, verification } = deriveKeys([secret, other], 'cursor')
  const keys = verification.map(bytesOf)
  t.strictSame(keys, [bytesOf(active), bytesOf(deriveKeys([other], 'cursor').active)])
  t.strictSame(deriveKeys([other, secret], 'cursor').verification.map(bytesOf), keys.toReversed())
})
