import t from 'tap'
import { operations, pathParameters, prepareOperations } from '../fixture/operations.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { type Call, startService } from '../fixture/service.ts'

/**
 * What every operation says to a request with one thing changed: without a token, with another body or key than it takes, or with
 * HEAD. `refused-requests.ts` tries the parameters and the fields of a body.
 */

const service = await startService(t)
const { requestTo } = await prepareOperations(service, await service.register('admin'))

const otherTypes = ['text/plain', 'application/json; charset=utf-16', 'application/merge-patch+json']

for (const operation of operations) {
  t.test(operation.id, async (t) => {
    const { id, method, isOpen, mediaTypes } = operation
    const isRead = method === 'GET' || method === 'HEAD'
    const request = await requestTo(operation)
    const send = ({ headers, ...more }: Call) =>
      service.call(id, { ...request, ...more, headers: { ...request.headers, ...headers } })

    if (!isOpen)
      t.test('401 without a valid token, before anything else is checked', async (t) => {
        const malformed = {
          params: Object.fromEntries(pathParameters(operation).map((name) => [name, 'x'])),
          query: 'bogus=%ff',
          ...(!isRead && { body: '{', headers: { 'content-type': 'text/nonsense' } }),
        }
        const none = await service.expect(id, 401, malformed)
        t.equal(none.headers.get('www-authenticate'), 'Bearer realm="taskwright"')
        const wrong = await service.expect(id, 401, { ...malformed, token: 'no.such.token' })
        t.equal(wrong.headers.get('www-authenticate'), 'Bearer realm="taskwright", error="invalid_token"')
      })

    if (mediaTypes.length > 0)
      t.test('415 for a compressed body', async (t) => {
        const { status, headers, body } = await send({ headers: { 'content-encoding': 'gzip' } })
        t.match({ status, body }, { status: 415, body: { code: 'unsupported_content_encoding' } })
        t.equal(headers.get('accept-encoding'), 'identity')
        t.equal(headers.has('accept-patch'), method === 'PATCH')
      })

    if (mediaTypes.length > 0 && !mediaTypes.includes('application/json'))
      t.test('415 for another media type, or none', async (t) => {
        const { 'content-type': _, ...others } = request.headers ?? {}
        for (const type of [{}, ...otherTypes.map((one) => ({ 'content-type': one }))]) {
          const untyped = { ...request, headers: { ...others, ...type }, body: Buffer.from('{') }
          const { status, headers, body } = await service.call(id, untyped)
          const problem = { status: 415, body: { code: 'unsupported_media_type' } }
          t.match({ status, body }, problem, JSON.stringify(type))
          t.equal(headers.get('accept-patch'), method === 'PATCH' ? mediaTypes.join(', ') : null)
        }
      })

    if (mediaTypes.length === 0 && !isRead)
      t.test('400 for a body', async (t) => {
        for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x'])
          t.equal((await send({ body: '{"a":1}', headers: { 'content-type': type } })).status, 400, type)
      })

    if (operation.takesIdempotencyKey)
      t.test('400 for a malformed Idempotency-Key', async (t) => {
        for (const key of ['', 'a b', 'x'.repeat(256), 'caf\u00e9'])
          t.match(await send({ headers: { 'idempotency-key': key } }), isInvalid('/Idempotency-Key'), key)
      })

    if (method === 'GET')
      t.test('HEAD has the headers of GET, and no body', async (t) => {
        const get = await send({})
        const head = await send({ method: 'HEAD' })
        t.match(head, { status: get.status, body: null })
        const names = ['etag', 'link', 'content-type', 'cache-control']
        // Deliveries are attempted meanwhile, and the change feed waits for transactions of other databases of the server.
        if (!id.includes('Deliver') && id !== 'listTaskChanges') names.push('content-length')
        for (const name of names) t.equal(head.headers.get(name), get.headers.get(name), name)
      })
  })
}
