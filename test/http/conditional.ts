import t from 'tap'
import { lookUp } from '../fixture/contract-check.ts'
import { operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/** If-Match on every read with an ETag (RFC 9110 §13.1.1). It is evaluated before If-None-Match (§13.2.2). */

const service = await startService(t)
const { requestTo } = await prepareOperations(service, await service.register('admin'))

const reads = operations.filter(
  ({ path, method }) =>
    method === 'GET' && lookUp(['paths', path, 'get', 'responses', '200', 'headers', 'ETag']),
)
t.ok(reads.length >= 9, 'there are reads with an ETag')

for (const operation of reads) {
  t.test(operation.id, async (t) => {
    const request = await requestTo(operation)
    const get = (headers: Record<string, string> = {}, more: Call = {}) =>
      service.call(operation.id, { ...request, headers, ...more })
    const etag = (await get()).headers.get('etag') ?? ''
    t.match(etag, /^"[^"]+"$/)

    for (const list of [etag, '*', `"other", ${etag}`])
      t.equal((await get({ 'if-match': list })).status, 200, list)
    for (const list of ['"other"', '"other", "another"', `W/${etag}`, etag.replace(/"$/, 'x"'), '']) {
      const { status, headers, body } = await get({ 'if-match': list })
      t.equal(status, 412, list)
      t.match(body, { type: '/problems/precondition_failed' })
      t.equal(headers.get('etag'), null, 'a problem has no ETag')
    }
    t.equal((await get({ 'if-match': '"other"' }, { method: 'HEAD' })).status, 412)
    t.equal((await get({ 'if-match': '"other"', 'if-none-match': etag })).status, 412)
    t.equal((await get({ 'if-match': etag, 'if-none-match': etag })).status, 304)
    t.match(await get({ 'if-match': 'no quotes' }), {
      status: 400,
      body: { errors: [{ pointer: '/If-Match' }] },
    })
  })
}
