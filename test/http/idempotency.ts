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
    t.ok(first.status < 300)
    const repeats = [...(await Promise.all([send(), send(), send()])), await send()]
    for (const { status, headers, body } of repeats) {
      t.strictSame({ status, body }, { status: first.status, body: first.body })
      for (const name of ['location', 'etag', 'task-etag'])
        t.equal(headers.get(name), first.headers.get(name), name)
      t.equal(headers.get('idempotency-replayed'), 'true')
    }
  })
}

const withKey = posts.filter(({ takesIdempotencyKey }) => takesIdempotencyKey)

for (const operation of withKey) {
  const { id } = operation
  t.test(`${id}: one of several concurrent requests with an Idempotency-Key is done`, async (t) => {
    const request = await requestTo(operation)
    const headers = { ...request.headers, 'idempotency-key': `race-of-${id}` }
    const replies = await Promise.all(
      Array.from({ length: 4 }, () => service.call(id, { ...request, headers })),
    )
    t.equal(new Set(replies.map(({ status, body }) => JSON.stringify([status, body]))).size, 1)
    t.equal(replies.filter((reply) => !reply.headers.has('idempotency-replayed')).length, 1)
  })
}

/** A text in most bodies, which another valid body changes. */
const texts = ['title', 'name', 'body', 'username', 'description'] as const

for (const operation of withKey) {
  const { id, path } = operation
  t.test(`${id}: 422 for an Idempotency-Key used with another path or body`, async (t) => {
    const preparation = { world: await newWorld() }
    const [first, second] = [await requestTo(operation, preparation), await requestTo(operation, preparation)]
    const headers = { ...first.headers, 'idempotency-key': `other-for-${id}` }
    t.ok((await service.call(id, { ...first, headers })).status < 300)
    const isReused = { status: 422, body: { code: 'idempotency_key_reused' } }
    const body = first.body as Readonly<Record<string, unknown>> | undefined
    const text = texts.find((name) => typeof body?.[name] === 'string')
    if (text !== undefined)
      t.match(await service.call(id, { ...first, headers, body: { ...body, [text]: 'another' } }), isReused)
    if (!path.includes('{')) return
    t.match(await service.call(id, { ...second, body: first.body, headers }), isReused)
    t.ok((await service.call(id, second)).status < 300, 'the refused request had no effect')
  })
}

/** POSTs that create a resource without a key, because a repeat is harmless or refused for another reason. */
const withoutKey: readonly OperationId[] = [
  'register',
  'linkIdentity',
  'createAttachmentLink',
  'createUpload',
  'createImportUpload',
  'createExportLink',
  'enrollSecondFactor',
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
