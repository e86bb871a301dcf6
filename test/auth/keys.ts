import type { KeyObject } from 'node:crypto'
import t from 'tap'
import { deriveKeys } from '../../src/auth/keys.ts'

const secret = Buffer.alloc(32, 1)
const other = Buffer.alloc(32, 2)

/** Key objects are compared by their bytes. */
const bytesOf = (key: KeyObject): Buffer => key.export()

t.test('a key depends only on the secret and the purpose', async (t) => {
  const bytes = bytesOf(deriveKeys([secret], 'cursor').active)
  t.equal(bytes.length, 32)
  t.same(bytesOf(deriveKeys([Buffer.from(secret)], 'cursor').active), bytes)
  t.notSame(bytesOf(deriveKeys([secret], 'idempotency').active), bytes)
  t.notSame(bytesOf(deriveKeys([other], 'cursor').active), bytes)
  t.notSame(bytes, secret)
})

t.test('a key ring has a key for each secret, in their order', async (t) => {
  const { active, verification } = deriveKeys([secret, other], 'cursor')
  const keys = verification.map(bytesOf)
  t.strictSame(keys, [bytesOf(active), bytesOf(deriveKeys([other], 'cursor').active)])
  t.strictSame(deriveKeys([other, secret], 'cursor').verification.map(bytesOf), keys.toReversed())
})
