import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { operations, prepareOperations } from '../fixture/operations.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { startService } from '../fixture/service.ts'

/** Every POST honours an Idempotency-Key or refuses it. None ignores it. */

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))
const posts = operations.filter(({ method }) => method === 'POST')

for (const operation of posts) {
  const { id, takesIdempotencyKey } = operation
  t.test(`${id}: ${takesIdempotencyKey ? 'replay' : '400'} for an Idempotency-Key`, async (t) => {
    const request = await requestTo(operation)
    const headers = { ...request.headers, 'idempotency-key': `one-for-${id}` }
    const send = () => service.call(id, { ...request, headers })
    const first = await send()
    if (!takesIdempotencyKey) {
      t.match(first, isInvalid('/Idempotency-Key'))
      t.ok((await service.call(id, request)).status < 300, 'the refused request had no effect')
      return
    }
    const second = await send()
    t.ok(first.status < 300)
    t.strictSame({ status: second.status, body: second.body }, { status: first.status, body: first.body })
    t.equal(second.headers.get('idempotency-replayed'), 'true')
  })
}

for (const operation of posts.filter(
  ({ takesIdempotencyKey, path }) => takesIdempotencyKey && path.includes('{'),
)) {
  const { id } = operation
  t.test(`${id}: 422 for an Idempotency-Key used with another path`, async (t) => {
    const preparation = { world: await newWorld() }
    const [first, second] = [await requestTo(operation, preparation), await requestTo(operation, preparation)]
    const headers = { ...first.headers, 'idempotency-key': `path-of-${id}` }
    t.ok((await service.call(id, { ...first, headers })).status < 300)
    const elsewhere = { ...second, body: first.body, headers }
    t.match(await service.call(id, elsewhere), { status: 422, body: { code: 'idempotency_key_reused' } })
    t.ok((await service.call(id, second)).status < 300, 'the refused request had no effect')
  })
}

/** POSTs that create a resource without a key, because a repeat is harmless or refused for another reason. */
const withoutKey: readonly OperationId[] = [
  'register',
  'enrolSecondFactor',
  'createAttachmentLink',
  'createUpload',
]

t.test('only listed POSTs create resources without an Idempotency-Key', async (t) => {
  const refusing = posts.filter(
    ({ takesIdempotencyKey, constantHeaders }) => !takesIdempotencyKey && '201' in constantHeaders,
  )
  t.strictSame(
    refusing.map(({ id }) => id),
    withoutKey,
  )
})
