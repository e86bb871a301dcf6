import t from 'tap'
import { lookUp } from '../../scripts/client/contract-check.ts'
import { requestsForNothing } from '../fixture/matrix.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/** If-Match (RFC 9110 §13.1.1) and If-None-Match (§13.1.2) on every read with an ETag and on every write, in their order (§13.2.2). */

const service = await startService(t)
const { requestTo } = await prepareOperations(service, await service.register('admin'))

const maxLength = Number(lookUp(['components', 'parameters', 'IfNoneMatch', 'schema'])?.node.maxLength)

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

    for (const [name, pointer] of [
      ['if-match', '/If-Match'],
      ['if-none-match', '/If-None-Match'],
    ] as const) {
      const longest = '"other"'.padEnd(maxLength, ',')
      t.not((await get({ [name]: longest })).status, 400)
      t.match(await get({ [name]: `${longest},` }), { status: 400, body: { errors: [{ pointer }] } })
    }

    for (const list of [etag, `W/${etag}`, '*', `"other", ${etag}`, `W/"other" ,, W/${etag}`]) {
      for (const method of [{}, { method: 'HEAD' }] as const) {
        const { status, headers, body } = await get({ 'if-none-match': list }, method)
        t.match({ status, body }, { status: 304, body: null }, list)
        t.equal(headers.get('etag'), etag)
      }
    }
    for (const list of ['"other"', 'W/"other"', etag.replace(/"$/, 'x"'), ''])
      t.equal((await get({ 'if-none-match': list })).status, 200, list)
    const [missing] = requestsForNothing(request)
    if (missing !== undefined)
      t.equal(
        (await service.call(operation.id, { ...missing, headers: { 'if-none-match': '*' } })).status,
        404,
      )
    t.match(await get({ 'if-none-match': '*, "a"' }), {
      status: 400,
      body: { errors: [{ pointer: '/If-None-Match' }] },
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

let versioned = 0

for (const operation of operations.filter((one) => isWrite(one) && one.takesIfNoneMatch)) {
  t.test(operation.id, async (t) => {
    const prepare = () => requestTo(operation)
    const send = (request: Call, headers: Record<string, string> = {}) =>
      service.call(operation.id, { ...request, headers: { ...request.headers, ...headers } })
    const refusal = { status: 412, body: { type: '/problems/precondition_failed' } }
    /** Shared by everything that is refused, since nothing is done. The last test checks that it succeeds. */
    const request = await prepare()
    if (operation.id === 'addTaskRelation') await service.expect('addTaskRelation', 204, request)

    t.test('If-None-Match: *: 412 if the resource exists', async (t) => {
      t.match(await send(request, { 'if-none-match': '*' }), refusal)
      t.match(await send(request, { 'if-none-match': ' * ' }), refusal)
    })

    t.test('If-None-Match: *: 404 takes precedence', async (t) => {
      const [nothing] = requestsForNothing(request).toReversed()
      if (nothing === undefined) return
      t.equal((await send(nothing, { 'if-none-match': '*' })).status, 404)
    })

    t.test('If-None-Match: 400 if it is malformed', async (t) => {
      const isMalformed = { status: 400, body: { errors: [{ pointer: '/If-None-Match' }] } }
      t.match(await send(request, { 'if-none-match': 'no quotes' }), isMalformed)
    })

    if (creators.has(operation.id))
      t.test('If-None-Match: *: creates the resource if it does not exist, once', async (t) => {
        const creation = await prepare()
        const removal = operations.find(({ path, method }) => path === operation.path && method === 'DELETE')
        if (removal === undefined) throw new Error(`Nothing removes what ${operation.id} creates`)
        const { body: _, ...removing } = creation
        if (operation.id !== 'addTaskRelation') await service.expect(removal.id, 204, removing)
        const { status } = await send(creation, { 'if-none-match': '*' })
        t.ok(status === 201 || status === 204, `${status}`)
        t.match(await send(creation, { 'if-none-match': '*' }), refusal)
        await service.expect(removal.id, 204, removing)
      })

    const versionOf = versionFor(operation)
    const version = operation.takesIfMatch ? await versionOf(request) : null
    if (version !== null) {
      versioned += 1
      const before = version - 1

      t.test('If-Match: another version, compared strongly: 412', async (t) => {
        for (const list of [
          `"${before}"`,
          `W/"${version}"`,
          `"0${version}"`,
          `"${version}x"`,
          `"${version}.a b"`,
          '',
        ]) {
          const isMalformed = list.includes(' ')
          t.equal((await send(request, { 'if-match': list })).status, isMalformed ? 400 : 412, list)
        }
      })

      t.test('If-None-Match: the current version, compared weakly: 412', async (t) => {
        for (const list of [
          `"${version}"`,
          `W/"${version}"`,
          `"other", "${version}"`,
          `"${version}.variant"`,
        ])
          t.match(await send(request, { 'if-none-match': list }), refusal, list)
        const both = { 'if-match': `"${version}"`, 'if-none-match': `"${version}"` }
        t.match(await send(request, both), refusal)
      })

      t.test('nothing is done', async (t) => t.equal(await versionOf(request), version))

      t.test('done otherwise', async (t) => {
        for (const headers of [
          // Both headers must permit it.
          (current: number) => ({ 'if-match': `"${current}"` }),
          () => ({ 'if-none-match': '"other"' }),
          (current: number) => ({ 'if-match': `"${current}"`, 'if-none-match': '' }),
          (current: number) => ({ 'if-match': '*', 'if-none-match': `"${current}x"` }),
          (current: number) => ({ 'if-match': `"${current - 1}", "${current}"`, 'if-none-match': '"*"' }),
        ]) {
          // PUT and PATCH can be repeated.
          const one = ['PUT', 'PATCH'].includes(operation.method) ? request : await prepare()
          const sent = headers((await versionOf(one)) ?? 0)
          t.ok((await send(one, sent)).status < 300, JSON.stringify(sent))
        }
      })
    }

    t.test('the same request succeeds without these headers', async (t) =>
      t.ok((await send(request)).status < 300),
    )
  })
}

t.test('at least nine writes are of versioned resources', async (t) => t.ok(versioned >= 9))
