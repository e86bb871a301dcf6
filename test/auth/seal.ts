import { createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import t from 'tap'
import { open, seal } from '../../src/auth/seal.ts'
import type { KeyRing } from '../../src/domain/shared/key-ring.ts'

const randomKey = (): KeyObject => createSecretKey(randomBytes(32))
const [oldKey, newKey, otherKey] = [randomKey(), randomKey(), randomKey()]
const ringOf = (active: KeyObject, ...earlier: KeyObject[]): KeyRing => ({
  active,
  verification: [active, ...earlier],
})
const ring = ringOf(oldKey)
const plaintext = Buffer.from('12345678901234567890')
const context = '0199c0df-1f2e-7a4b-b3c2-9d8e7f6a5b4c'

t.test('a sealed text is unreadable, and opens', async (t) => {
  const sealed = seal(ring, plaintext, context)
  t.same(open(ring, sealed, context), { plaintext, isActive: true })
  t.equal(sealed.includes(plaintext.subarray(0, 4)), false)
  t.same(open(ring, seal(ring, Buffer.alloc(0), context), context)?.plaintext, Buffer.alloc(0))
})

t.test('the format is a version, a nonce, AES-256-GCM ciphertext and a tag', async (t) => {
  const sealed = seal(ring, plaintext, context)
  t.equal(sealed.length, 1 + 12 + plaintext.length + 16)
  t.equal(sealed[0], 1)
  const decipher = createDecipheriv('aes-256-gcm', oldKey, sealed.subarray(1, 13))
  decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(-16))
  t.same(Buffer.concat([decipher.update(sealed.subarray(13, -16)), decipher.final()]), plaintext)
})

t.test('nonces are unique', async (t) => {
  const seals = Array.from({ length: 100 }, () => seal(ring, plaintext, context))
  t.equal(new Set(seals.map((sealed) => sealed.toString('hex', 1, 13))).size, 100)
})

t.test('the active key seals, and every verification key opens', async (t) => {
  const rotated = ringOf(newKey, oldKey)
  const before = seal(ring, plaintext, context)
  t.same(open(rotated, before, context), { plaintext, isActive: false })
  const after = seal(rotated, plaintext, context)
  t.same(open(rotated, after, context), { plaintext, isActive: true })
  t.equal(open(ring, after, context), null)
  t.equal(open(ringOf(newKey), before, context), null, 'a dropped key opens nothing')
  t.equal(open(ringOf(otherKey), after, context), null)
})

t.test('a sealed text does not open with another context', async (t) => {
  const sealed = seal(ring, plaintext, context)
  for (const other of ['', context.slice(1), `${context}0`, context.toUpperCase()]) {
    t.equal(open(ring, sealed, other), null, JSON.stringify(other))
  }
})

t.test('a sealed text does not open if a bit is changed, or if it is truncated or extended', async (t) => {
  const sealed = seal(ring, plaintext, context)
  for (let bit = 0; bit < sealed.length * 8; bit += 1) {
    const changed = Buffer.from(sealed)
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    t.equal(open(ring, changed, context), null, `bit ${bit}`)
  }
  for (let length = 0; length < sealed.length; length += 1) {
    t.equal(open(ring, sealed.subarray(0, length), context), null, `${length} bytes`)
  }
  t.equal(open(ring, Buffer.concat([sealed, Buffer.of(0)]), context), null)
})
