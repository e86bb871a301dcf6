import t from 'tap'
import { openTestDatabase } from './fixture/database.ts'
import { startService } from './fixture/service.ts'
import { timeLimits } from '../src/http/slow-clients.ts'

const { db } = await openTestDatabase(t)
let held: PromiseWithResolvers<void> | null = null
const requestLimit = 3
const service = await startService(t, {
  db: {
    ...db,
    async run(...parameters) {
      await held?.promise
      return db.run(...parameters)
    },
  },
  requestLimit,
  timeLimits: { ...timeLimits, answer: 2_000 },
})
const { token } = await service.register('ada')

t.test('503 immediately for requests beyond the limit; health checks succeed', async (t) => {
  held = Promise.withResolvers()
  const running = Array.from({ length: requestLimit }, () => service.call('getCurrentUser', { token }))
  let refused = await service.call('getCurrentUser', { token })
  while (refused.status !== 503) refused = await service.call('getCurrentUser', { token })
  t.match(refused.body, { code: 'service_unavailable', detail: /busy/ })
  t.ok(Number(refused.headers.get('retry-after')) >= 1)
  await service.expect('getLiveness', 200)
  held.resolve()
  for (const { status } of await Promise.all(running)) t.equal(status, 200, 'accepted requests are completed')
  await service.expect('getCurrentUser', 200, { token })
})

t.test('503 for a request that takes too long', async (t) => {
  held = Promise.withResolvers()
  const { status, body, headers } = await service.call('listTasks', { token })
  t.equal(status, 503)
  t.match(body, { code: 'service_unavailable', detail: /too long/ })
  t.ok(Number(headers.get('retry-after')) >= 1)
  held.resolve()
  await service.expect('listTasks', 200, { token })
})
