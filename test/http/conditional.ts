import t from 'tap'
import { lookUp } from '../fixture/contract-check.ts'
import { requestsForNothing } from '../fixture/matrix.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/**
 * If-Match on every read with an ETag (RFC 9110 §13.1.1), evaluated before If-None-Match (§13.2.2), and on every write; and
 * If-None-Match on every write (§13.1.2).
 */

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

/** The version of the resource that a request refers to; null if it has none. */
const versionFor =
  (operation: Operation) =>
  async ({ token = '', params = {} }: Call): Promise<number | null> => {
    const read = readFor(operation.path)
    if (read === undefined) throw new Error(`No operation reads the resource that ${operation.id} changes`)
    const { body } = await service.call(read.id, { token, params })
    const isVersioned = typeof body === 'object' && body !== null && 'version' in body
    return isVersioned && typeof body.version === 'number' ? body.version : null
  }

const isWrite = ({ method }: Operation): boolean => !['GET', 'HEAD', 'OPTIONS'].includes(method)
const writes = operations.filter((operation) => isWrite(operation) && operation.takesIfMatch)
let versioned = 0

for (const operation of writes) {
  t.test(`${operation.id}: If-Match compares the version of the resource`, async (t) => {
    const refused = await requestTo(operation)
    const versionOf = versionFor(operation)
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

/** Operations that create a resource at a path that the client chooses. DELETE at the same path removes it. */
const creators = new Set<Operation['id']>([
  'setProjectMember',
  'setProjectTeam',
  'setTeamMember',
  'addTaskRelation',
  'addTaskTag',
  'followTask',
])

t.test('every PUT and PATCH, and every write with If-Match, takes If-None-Match', async (t) => {
  const without = operations.filter(
    (operation) => isWrite(operation) && !operation.takesIfNoneMatch && !creators.has(operation.id),
  )
  t.strictSame(
    without.filter(({ method, takesIfMatch }) => takesIfMatch || ['PUT', 'PATCH'].includes(method)),
    [],
  )
})

for (const operation of operations.filter((one) => isWrite(one) && one.takesIfNoneMatch)) {
  t.test(`${operation.id}: If-None-Match`, async (t) => {
    const send = (request: Call, list?: string) =>
      service.call(operation.id, {
        ...request,
        headers: { ...request.headers, ...(list !== undefined && { 'if-none-match': list }) },
      })
    const refusal = { status: 412, body: { type: '/problems/precondition_failed' } }

    t.test('*: 412 if the resource exists, and nothing is done', async (t) => {
      const request = await requestTo(operation)
      if (operation.id === 'addTaskRelation') await service.expect('addTaskRelation', 204, request)
      t.match(await send(request, '*'), refusal)
      t.match(await send(request, ' * '), refusal)
      t.ok((await send(request)).status < 300, 'the same request succeeds without the header')
    })

    t.test('*: 404 takes precedence', async (t) => {
      const request = await requestTo(operation)
      const [nothing] = requestsForNothing(request).toReversed()
      if (nothing === undefined) return
      t.equal((await send(nothing, '*')).status, 404)
    })

    t.test('400 if it is malformed', async (t) => {
      const isMalformed = { status: 400, body: { errors: [{ pointer: '/If-None-Match' }] } }
      t.match(await send(await requestTo(operation), 'no quotes'), isMalformed)
    })

    if (creators.has(operation.id))
      t.test('*: creates the resource if it does not exist, once', async (t) => {
        const request = await requestTo(operation)
        const removal = operations.find(({ path, method }) => path === operation.path && method === 'DELETE')
        if (removal === undefined) throw new Error(`Nothing removes what ${operation.id} creates`)
        const { body: _, ...removing } = request
        if (operation.id !== 'addTaskRelation') await service.expect(removal.id, 204, removing)
        const { status } = await send(request, '*')
        t.ok(status === 201 || status === 204, `${status}`)
        t.match(await send(request, '*'), refusal)
        await service.expect(removal.id, 204, removing)
      })

    if (!operation.takesIfMatch) return
    t.test('the current version, compared weakly: 412; others: done', async (t) => {
      const versionOf = versionFor(operation)
      const refused = await requestTo(operation)
      const version = await versionOf(refused)
      if (version === null) return
      for (const list of [`"${version}"`, `W/"${version}"`, `"other", "${version}"`, `"${version}.variant"`])
        t.match(await send(refused, list), refusal, list)
      t.equal(await versionOf(refused), version, 'the resource is unchanged')
      for (const list of ['"other"', `"${version}x"`, '"*"', ''])
        t.ok((await send(await requestTo(operation), list)).status < 300, list)
      const both = { ...refused, headers: { ...refused.headers, 'if-match': `"${version}"` } }
      t.match(await send(both, `"${version}"`), refusal)
      t.ok((await send(both, '"other"')).status < 300)
    })
  })
}
