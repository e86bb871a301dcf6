import { needsRehash } from 'argon2'
import t from 'tap'
import { hashQueue, HashQueueFull, passwordHasher } from '../../src/auth/passwords.ts'

const parameters = { memoryCost: 64, timeCost: 1, parallelism: 1 }
const hasher = passwordHasher({ parameters })

t.test('a password verifies against its own hash only', async (t) => {
  const encoded = await hasher.hash('correct horse')
  t.match(encoded, /^\$argon2id\$v=19\$/)
  t.equal(needsRehash(encoded, parameters), false)
  t.same(await hasher.verify(encoded, 'correct horse'), { valid: true, rehash: false })
  t.same(await hasher.verify(encoded, 'correct horsf'), { valid: false, rehash: false })
  t.same(await hasher.verify(encoded, ''), { valid: false, rehash: false })
})

t.test('two hashes of one password differ', async (t) => {
  t.not(await hasher.hash('correct horse'), await hasher.hash('correct horse'))
})

t.test('hashes have the documented parameters by default', async (t) => {
  const encoded = await passwordHasher().hash('correct horse')
  t.match(encoded, /^\$argon2id\$v=19\$/)
  t.equal(needsRehash(encoded, { memoryCost: 19_456, timeCost: 2, parallelism: 1 }), false)
})

t.test('NFC and NFD forms are the same password', async (t) => {
  const [composed, decomposed] = ['caf\u00e9 au lait', 'cafe\u0301 au lait']
  t.same(await hasher.verify(await hasher.hash(decomposed), composed), { valid: true, rehash: false })
  t.same(await hasher.verify(await hasher.hash(composed), decomposed), { valid: true, rehash: false })
})

t.test('long passwords are not truncated', async (t) => {
  const long = '\u{1f511}'.repeat(256)
  const encoded = await hasher.hash(long)
  t.equal((await hasher.verify(encoded, long)).valid, true)
  t.equal((await hasher.verify(encoded, long.slice(0, -2))).valid, false)
})

t.test('no password is valid for an unknown user', async (t) => {
  for (const password of ['', 'correct horse', 'null']) {
    t.same(await hasher.verify(null, password), { valid: false, rehash: false })
  }
})

t.test('a valid password with other parameters needs a rehash', async (t) => {
  const older = passwordHasher({ parameters: { ...parameters, timeCost: 2 } })
  const encoded = await older.hash('correct horse')
  t.same(await hasher.verify(encoded, 'correct horse'), { valid: true, rehash: true })
  t.same(await hasher.verify(encoded, 'wrong horse'), { valid: false, rehash: false })
})

t.test('the queue is bounded and first come, first served', async (t) => {
  const bounded = passwordHasher({ parameters, limiter: hashQueue({ concurrency: 1, maxQueue: 2 }) })
  const ended: number[] = []
  const accepted = [1, 2, 3].map(async (order) => {
    await bounded.hash(`password ${order}`)
    ended.push(order)
  })

  await t.rejects(bounded.hash('one too many'), HashQueueFull)
  await t.rejects(bounded.verify(null, 'one too many'), { name: 'HashQueueFull', retryAfterSeconds: 2 })
  await Promise.all(accepted)
  t.same(ended, [1, 2, 3])
  t.type(await bounded.hash('there is room again'), 'string')
})

t.test('a failed hash releases its slot', async (t) => {
  const bounded = passwordHasher({ parameters, limiter: hashQueue({ concurrency: 1, maxQueue: 0 }) })
  await t.rejects(bounded.verify('not an encoded hash', 'password'), TypeError)
  t.type(await bounded.hash('password'), 'string')
})
