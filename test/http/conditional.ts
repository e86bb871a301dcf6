import t from 'tap'
import { lookUp } from '../fixture/contract-check.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/** If-Match on every read with an ETag (RFC 9110 §13.1.1), evaluated before If-None-Match (§13.2.2), and on every write. */

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

/** The read of the resource that a write's If-Match refers to: at the same path, or at its nearest ancestor. */
const readFor = (path: string): Operation | undefined =>
  path === ''
    ? undefined
    : (reads.find((read) => read.path === path) ?? readFor(path.slice(0, path.lastIndexOf('/'))))

const writes = operations.filter(({ method, takesIfMatch }) => method !== 'GET' && takesIfMatch)
let versioned = 0

for (const operation of writes) {
  t.test(`${operation.id}: If-Match compares the version of the resource`, async (t) => {
    const read = readFor(operation.path)
    if (read === undefined) throw new Error(`No operation reads the resource that ${operation.id} changes`)
    const refused = await requestTo(operation)
    const versionOf = async ({ token = '', params = {} }: Call): Promise<number | null> => {
      const { body } = await service.call(read.id, { token, params })
      const isVersioned = typeof body === 'object' && body !== null && 'version' in body
      return isVersioned && typeof body.version === 'number' ? body.version : null
    }
    const version = await versionOf(refused)
    if (version === null) return
    versioned += 1
    const send = (request: Call, list: string) =>
      service.call(operation.id, { ...request, headers: { ...request.headers, 'if-match': list } })

    const before = version - 1
    for (const list of [
      `"${before}"`,
      `W/"${version}"`,
      `"0${version}"`,
      `"${version}x"`,
      `"${version}.a b"`,
      '',
    ]) {
      const isMalformed = list.includes(' ')
      t.equal((await send(refused, list)).status, isMalformed ? 400 : 412, list)
    }
    t.equal(await versionOf(refused), version, 'the resource is unchanged')
    for (const list of [
      (current: number) => `"${current}"`,
      (current: number) => `"${before}", "${current}"`,
      () => '*',
    ]) {
      const request = await requestTo(operation)
      const { status } = await send(request, list((await versionOf(request)) ?? 0))
      t.ok(status < 300, list(version))
    }
  })
}

t.test('at least nine writes are of versioned resources', async (t) => t.ok(versioned >= 9))
