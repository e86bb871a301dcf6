import t from 'tap'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, type Reply, startService } from '../fixture/service.ts'

/** `x-repeat`: what a client gets when it repeats a request whose response it did not receive. Each request is sent twice. */

const service = await startService(t)
const admin = await service.register('admin')
const { newWorld, requestTo } = await prepareOperations(service, admin)

/** Fields that change without a request. */
const volatile = ['next_cursor']
const volatileOfDeliveries = [
  ...volatile,
  'attempts',
  'next_attempt_at',
  'attempted_at',
  'duration_ms',
  'error',
]
const volatileByOperation: Readonly<Record<string, readonly string[]>> = {
  getWebhookDelivery: volatileOfDeliveries,
  listWebhookDeliveries: volatileOfDeliveries,
}

/** The parts of a response that a client uses. */
const contentOf = ({ id }: Operation, { status, headers, body }: Reply): object => ({
  status,
  etag: headers.get('etag'),
  location: headers.get('location'),
  body:
    body instanceof Uint8Array
      ? Buffer.from(body).toString('base64')
      : withoutVolatile(body, volatileByOperation[id] ?? volatile),
})

/** Event streams have a random reconnection time. */
const withoutVolatile = (body: unknown, names: readonly string[]): unknown =>
  typeof body === 'string'
    ? body.replace(/^retry: \d+$/m, 'retry')
    : JSON.stringify(body, (name, value: unknown) => (names.includes(name) ? null : value))

const sendTwice = async (operation: Operation): Promise<readonly [Reply, Reply]> => {
  const world = await newWorld()
  // A user who deletes their own account cannot repeat the request.
  const caller = operation.id === 'deleteUser' ? { caller: admin } : {}
  const prepared = await requestTo(operation, { world, ...caller })
  const key = operation.repeat === 'key' ? { 'idempotency-key': world.newName() } : {}
  const request: Call = { ...prepared, headers: { ...prepared.headers, ...key } }
  return [await service.call(operation.id, request), await service.call(operation.id, request)]
}

for (const operation of operations) {
  const { id, repeat } = operation
  t.test(`${id}: ${repeat}`, async (t) => {
    const [first, second] = await sendTwice(operation)
    t.ok(first.status < 300, `${first.status}`)
    if (typeof repeat === 'number') {
      t.equal(second.status, repeat)
    } else if (repeat === 'again') {
      t.equal(second.status, first.status)
    } else {
      t.strictSame(contentOf(operation, second), contentOf(operation, first))
    }
    t.equal(second.headers.has('idempotency-replayed'), repeat === 'key')
  })
}

for (const operation of operations) {
  const { id, path, method, takesIfMatch } = operation
  const reading = operations.find((other) => other.path === path && other.method === 'GET')
  if (!takesIfMatch || !['PUT', 'PATCH'].includes(method) || reading === undefined) continue
  t.test(`${id} with If-Match: 412 for a repeat`, async (t) => {
    const request = await requestTo(operation)
    const { token, params = {} } = request
    const read = await service.call(reading.id, { token, params })
    const conditional = { ...request, headers: { 'if-match': read.headers.get('etag') ?? '' } }
    t.equal((await service.call(id, conditional)).status, 200)
    t.match(await service.call(id, conditional), { status: 412, body: { code: 'precondition_failed' } })
  })
}
