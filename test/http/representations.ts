import t from 'tap'
import { lookUp } from '../../scripts/client/contract-check.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'

/** What a write answers is what the read of the resource answers afterwards. */

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))

type Fields = Readonly<Record<string, unknown>>

const reads = operations.filter(({ method }) => method === 'GET')

/** The ids in a path that matches an operation; null if it does not match. */
const idsIn = (path: string, operation: Operation): Record<string, string> | null => {
  const pattern = operation.path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')
  const match = new RegExp(`^${pattern}$`).exec(path)
  return match === null ? null : { ...match.groups }
}

/** What they create is read as part of a list, or shows a secret only once. */
const unreadable = new Set<Operation['id']>([
  'enrollSecondFactor',
  'createApiToken',
  'createInvitation',
  'createUpload',
  'createImportUpload',
  'linkIdentity',
  'createAttachmentLink',
  'createExportLink',
])

/** A job can change what they create before it is read. */
const worksMeanwhile = new Set<Operation['id']>([
  'createExport',
  'createImport',
  'testWebhook',
  'redeliverWebhook',
])

/** Whether the contract documents an ETag of this response. */
const hasETag = ({ path, method }: Operation, status: string): boolean =>
  lookUp(['paths', path, method.toLowerCase(), 'responses', status, 'headers', 'ETag']) !== undefined

for (const operation of operations) {
  const { id, method, path } = operation
  if (method !== 'POST' || !operation.statuses.includes(201)) continue
  t.test(`${id}: Location, and the representation and ETag of the read there`, async (t) => {
    const request = await requestTo(operation)
    const { status, headers, body } = await service.call(id, request)
    t.equal(status, 201)
    const location = headers.get('location')
    if (location === null) return
    const isOfResource = operations.some((other) => idsIn(location, other) !== null)
    t.ok(isOfResource || path.endsWith('/links'), location)
    if (unreadable.has(id)) return
    const read = reads.find((other) => idsIn(location, other) !== null)
    if (read === undefined) throw new Error(`Nothing reads what ${path} creates: ${location}`)
    const created = body as Fields
    const token = request.token ?? (created.access_token as string)
    const later = await service.call(read.id, { token, params: idsIn(location, read) ?? {} })
    t.equal(later.status, 200)
    t.equal(headers.has('etag'), hasETag(operation, '201'), 'ETag as the contract says')
    if (worksMeanwhile.has(id)) {
      t.strictSame(new Set(Object.keys(later.body as Fields)), new Set(Object.keys(created)))
      if (headers.has('etag'))
        t.equal(headers.get('etag'), `"${Number(created.version)}.${Number(created.revision)}-0-all"`)
      return
    }
    for (const name of ['etag', 'last-modified'])
      if (headers.has(name)) t.equal(headers.get(name), later.headers.get(name), name)
    if (later.body instanceof Uint8Array) return
    const shown = later.body as Fields
    const answered = (created.user ?? created) as Fields
    // A secret is only in the response of the creation.
    const same = Object.fromEntries(Object.keys(shown).map((name) => [name, answered[name]]))
    t.strictSame(same, shown)
  })
}

for (const operation of operations) {
  const { id, method, path } = operation
  const read = reads.find((other) => other.path === path)
  if (!['PUT', 'PATCH'].includes(method) || read === undefined) continue
  t.test(`${id}: the representation and ETag of the read, and a new version`, async (t) => {
    const request = await requestTo(operation, { world: await newWorld() })
    const { token, params = {} } = request
    const readNow = async () => {
      const { headers, body } = await service.call(read.id, { params, ...(token !== undefined && { token }) })
      return { etag: headers.get('etag'), shown: body as Fields }
    }
    const before = await readNow()
    const { status, headers, body } = await service.call(id, request)
    t.equal(status, 200)
    const after = await readNow()
    t.strictSame(body, after.shown)
    t.equal(headers.get('etag'), after.etag)
    t.not(after.etag, before.etag)
    t.equal(after.shown.version, Number(before.shown.version) + 1)
  })
}
