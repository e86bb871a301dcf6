import t from 'tap'
import { newId } from '../../src/db/engine/ids.ts'
import { operations, pathParameters, prepareOperations } from '../fixture/operations.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { type Call, startService } from '../fixture/service.ts'

/**
 * What is true of every operation: the checks that precede its own, and HEAD. Each operation has one request that would succeed, and
 * every test changes one thing about it.
 */

const service = await startService(t)
const { requestTo } = await prepareOperations(service, await service.register('admin'))

const json = { 'content-type': 'application/json' }

const malformedIds = ['x', `${newId()}0`, `{${newId()}}`]

const brokenText = Buffer.from('{"name":"\xff"}', 'latin1')
const noObjects = ['{', '', 'null', '[{}]', '{"a":1}{', brokenText]

const otherTypes = ['text/plain', 'application/json; charset=utf-16', 'application/merge-patch+json']

for (const operation of operations) {
  t.test(operation.id, async (t) => {
    const { id, method, isOpen, mediaTypes } = operation
    const isRead = method === 'GET' || method === 'HEAD'
    const request = await requestTo(operation)
    const send = ({ headers, ...more }: Call) =>
      service.call(id, { ...request, ...more, headers: { ...request.headers, ...headers } })
    /** Matches a problem, which is without a body if the method is HEAD. */
    const isProblem = (status: number, body: object) => ({ status, body: method === 'HEAD' ? null : body })

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

    t.test('400 for an unknown query parameter', async (t) => {
      const required = typeof request.query === 'string' ? `${request.query}&` : ''
      for (const name of ['bogus', '__proto__', 'Limit']) {
        const { status, body } = isInvalid(`/${name}`)
        t.match(await send({ query: `${required}${name}=1` }), isProblem(status, body), name)
      }
    })

    for (const name of pathParameters(operation))
      t.test(`400 for a malformed ${name}`, async (t) => {
        for (const value of malformedIds) {
          const refused = await send({ params: { ...request.params, [name]: value } })
          t.match(refused, isProblem(400, { errors: [{ pointer: `/${name}` }] }), value)
        }
      })

    if (mediaTypes.length > 0) {
      t.test('415 for a compressed body', async (t) => {
        const { status, headers, body } = await send({ headers: { 'content-encoding': 'gzip' } })
        t.match({ status, body }, { status: 415, body: { code: 'unsupported_content_encoding' } })
        t.equal(headers.get('accept-encoding'), 'identity')
        t.equal(headers.has('accept-patch'), method === 'PATCH')
      })

      t.test('415 for another media type or charset, or none, before 400', async (t) => {
        const { 'content-type': _, ...others } = request.headers ?? {}
        const types = otherTypes.filter((type) => !mediaTypes.includes(type))
        for (const type of [{}, ...types.map((one) => ({ 'content-type': one }))]) {
          const untyped = { ...request, headers: { ...others, ...type }, body: Buffer.from('{') }
          const { status, headers, body } = await service.call(id, untyped)
          const problem = { status: 415, body: { code: 'unsupported_media_type' } }
          t.match({ status, body }, problem, JSON.stringify(type))
          t.equal(headers.get('accept-patch'), method === 'PATCH' ? mediaTypes.join(', ') : null)
        }
      })
    } else if (!isRead) {
      t.test('400 for a body', async (t) => {
        for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x'])
          t.equal((await send({ body: '{}', headers: { 'content-type': type } })).status, 400, type)
      })
    }

    // The Model Context Protocol has its own errors.
    if (mediaTypes.includes('application/json') && id !== 'sendMcpMessage')
      t.test('400 for a body that is not a JSON object', async (t) => {
        for (const body of noObjects.filter((one) => operation.requiresBody || one !== '')) {
          const problem = { status: 400, body: { code: 'invalid_request' } }
          t.match(await send({ body, headers: json }), problem, String(body))
        }
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
        for (const name of ['etag', 'link', 'content-type', 'content-length', 'cache-control'])
          t.equal(head.headers.get(name), get.headers.get(name), name)
      })
  })
}
