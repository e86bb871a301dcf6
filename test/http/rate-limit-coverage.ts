import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { operations, prepareOperations, rows } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'

/** Calls every operation twice with limits of one request per minute. */

const service = await startService(t)
const admin = await service.register('admin')
const { newWorld, requestTo } = await prepareOperations(service, admin)
const limited = await startService(t, {
  db: service.deps.db,
  storage: service.deps.storage,
  config: {
    rateLimit: 'on',
    rateLimitSignIn: 1,
    rateLimitRefresh: 1,
    rateLimitApi: 1,
    rateLimitUpload: 1,
    rateLimitAnonymous: 1,
    trustProxy: ['127.0.0.1'],
  },
})

t.test('all operations except the health checks document 429', async (t) => {
  const without = operations.filter(({ constantHeaders }) => constantHeaders['429'] === undefined)
  const unlimited: readonly OperationId[] = ['getLiveness', 'getReadiness']
  t.same(
    without.map(({ id }) => id),
    unlimited,
  )
  for (const { id, rateLimit } of without) t.equal(rateLimit, 'none', id)
})

t.test('operations that take credentials have a stricter limit', async (t) => {
  for (const { id, isOpen, method, rateLimit } of operations)
    if (isOpen && method === 'POST') t.match(rateLimit, /^(sign_in|refresh)$/, id)
})

for (const [index, operation] of operations.entries()) {
  const { id, rateLimit, countsFailures } = operation
  const address = { 'x-forwarded-for': `192.0.2.${index}` }

  t.test(id, async (t) => {
    const world = await newWorld()
    // Requests count per user, so each operation has its own user.
    const caller = rows[id].caller === 'admin' ? await world.doubleOf(admin) : world.owner
    const prepared = await requestTo(operation, { world, caller })
    const request = { ...prepared, headers: { ...prepared.headers, ...address } }

    if (rateLimit === 'none') {
      const replies = await Promise.all(Array.from({ length: 5 }, () => limited.call(id, request)))
      for (const reply of replies) {
        t.equal(reply.status, 200)
        t.notMatch([...reply.headers.keys()].join(), 'ratelimit')
      }
      return
    }

    const policies = rateLimit === 'upload' ? ['api', 'upload'] : [rateLimit]
    const policy = policies.map((name) => `"${name}";q=1;w=60`).join(', ')
    if (policies.includes('api')) {
      // The operation may end the session, so the first request is to another one.
      await limited.expect('getCurrentUser', 200, { token: request.token, headers: address })
    } else {
      const first = await limited.call(id, request)
      t.ok(first.status < 300)
      t.equal(first.headers.get('ratelimit-policy'), policy)
      // The credentials of the request are used up.
      if (countsFailures) t.equal((await limited.call(id, request)).status, 401)
    }
    const second = await limited.call(id, request)
    t.equal(second.status, 429)
    t.match(second.headers.get('retry-after'), /^([1-9]|[1-5]\d|60)$/)
    t.equal(second.headers.get('ratelimit-policy'), policy)
    const left = policies.map((name) => `"${name}";r=0;t=\\d+`).join(', ')
    t.match(second.headers.get('ratelimit'), new RegExp(`^${left}$`))
    if (operation.method !== 'HEAD') t.match(second.body, { status: 429, code: 'too_many_requests' })
  })
}
