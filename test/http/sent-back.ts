import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/engine/ids.ts'
import { unversioned } from '../../src/http/sent-back.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { type Call, startService } from '../fixture/service.ts'

/** A PATCH of an object that a read returned. */

type Fields = Readonly<Record<string, unknown>>

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))
const patches = operations.filter(
  ({ method, mediaTypes }) => method === 'PATCH' && mediaTypes.includes('application/json'),
)

const bodySchema = ({ path }: Operation): Located | undefined =>
  lookUp(['paths', path, 'patch', 'requestBody', 'content', 'application/json', 'schema'])

/** The resource as GET returns it, or an empty patch where there is no GET. */
const read = async ({ id, path }: Operation, request: Call): Promise<Fields> => {
  const get = operations.find((operation) => operation.path === path && operation.method === 'GET')
  const { body } = await (get === undefined
    ? service.call(id, { ...request, body: {} })
    : service.call(get.id, request))
  return body as Fields
}

/** Read-only fields of which the schema tells no other value. */
const withoutAnother: Readonly<Partial<Record<OperationId, readonly string[]>>> = {
  updateTask: ['tags'],
  updateImport: ['progress', 'result'],
}

/** A valid value that differs from the present one; undefined if the schema does not tell one. */
const another = (schema: Located, present: unknown): unknown => {
  const { type, format, nullable, allOf } = schema.node
  if (nullable === true && present !== null) return null
  if (Array.isArray(allOf)) {
    const part = member(schema, 'allOf', '0')
    return part && another(part, present)
  }
  const [first, second] = Array.isArray(schema.node.enum) ? (schema.node.enum as unknown[]) : []
  if (first !== undefined) return present === first ? second : first
  if (format === 'uuid') return newId()
  if (format === 'date-time') return '2001-01-01T00:00:00.000Z'
  if (type === 'integer') return Number(present) + 1
  if (type === 'boolean') return present !== true
  if (type === 'string') return 'zz'
  const items = member(schema, 'items')
  return type === 'array' && items?.node.format === 'uuid' ? [newId()] : undefined
}

for (const operation of patches) {
  const { id } = operation
  t.test(`${id}: takes the object that was read`, async (t) => {
    const { body: change, ...request } = await requestTo(operation)
    const object = await read(operation, request)
    const same = await service.call(id, { ...request, body: object })
    t.equal(same.status, 200)
    t.strictSame(same.body, object, 'nothing has changed')

    const schema = bodySchema(operation)
    const readOnly = Object.keys(object).flatMap((name) => {
      const property = schema && member(schema, 'properties', name)
      return property?.node.readOnly === true ? [[name, another(property, object[name])] as const] : []
    })
    for (const [name, value] of readOnly.filter(([, different]) => different !== undefined)) {
      const answer = await service.call(id, { ...request, body: { ...object, [name]: value } })
      const expected = unversioned.has(name) ? { status: 200, body: object } : isInvalid(`/${name}`)
      t.match(answer, expected, `${name}: ${JSON.stringify(value)}`)
    }
    t.strictSame(
      readOnly.flatMap(([name, different]) => (different === undefined ? [name] : [])),
      withoutAnother[id] ?? [],
    )

    const version = object.version === undefined ? undefined : Number(object.version)
    if (version !== undefined) {
      const stale = { ...object, updated_at: '2001-01-01T00:00:00.000Z', version: version + 1 }
      if (!('updated_at' in object)) Reflect.deleteProperty(stale, 'updated_at')
      const refused = await service.call(id, { ...request, body: stale })
      t.match(refused, { status: 412, body: { code: 'precondition_failed' } }, 'a stale version comes first')
    }
    t.strictSame(await read(operation, request), object, 'refusals change nothing')

    const edited = await service.call(id, { ...request, body: { ...object, ...(change as Fields) } })
    t.equal(edited.status, 200)
    if (version !== undefined) t.match(edited.body, { version: version + 1 })
  })

  t.test(`${id}: the contract has all fields of the resource`, async (t) => {
    const returned = lookUp([
      'paths',
      operation.path,
      'patch',
      'responses',
      '200',
      'content',
      'application/json',
      'schema',
      'properties',
    ])
    const accepted = Object.keys(bodySchema(operation)?.node.properties ?? {})
    t.strictSame(
      Object.keys(returned?.node ?? {}).filter((name) => !accepted.includes(name)),
      [],
    )
  })
}

t.test('a version in the body and If-Match must both be current', async (t) => {
  const { owner, newTask } = await newWorld()
  const task = await newTask()
  const send = (etag: string, version: number) =>
    service.call('updateTask', {
      token: owner.token,
      params: { task_id: task.id },
      headers: { 'if-match': etag },
      body: { title: 'Changed', version },
    })
  t.equal((await send('"7"', task.version)).status, 412)
  t.equal((await send(`"${task.version}"`, task.version + 1)).status, 412)
  t.equal((await send('*', task.version)).status, 200)
})

t.test('a project whose tasks have changed since it was read', async (t) => {
  const { owner, newProject } = await newWorld()
  const { token } = owner
  const { id } = await newProject()
  const params = { project_id: id }
  const { body: project } = await service.expect('getProject', 200, { token, params })
  await service.expect('createTask', 201, { token, body: { title: 'Meanwhile', project_id: id } })
  const body = { ...project, name: 'Renamed' }
  const renamed = await service.expect('updateProject', 200, { token, params, body })
  t.match(renamed.body, { name: 'Renamed', open_task_count: 1 })
})

t.test('the tags and expanded resources of a task', async (t) => {
  const { owner, newLinkedTag } = await newWorld()
  const { token } = owner
  const { task } = await newLinkedTag()
  const params = { task_id: task.id }
  const query = { expand: 'owner,assignee,attachments,parent,subtasks' }
  const { body: expanded } = await service.expect('getTask', 200, { token, params, query })
  const body = { ...expanded, title: 'Changed' }
  const changed = await service.expect('updateTask', 200, { token, params, body })
  t.match(changed.body, { title: 'Changed', tags: expanded.tags })
  const [tag] = expanded.tags
  const retagged = { token, params, body: { tags: [{ ...tag, name: 'another' }] } }
  t.match(await service.call('updateTask', retagged), isInvalid('/tags'))
  // Generated clients send an empty list for a field that was not set.
  const untagged = { token, params, body: { tags: [], attachments: [] } }
  t.match(await service.call('updateTask', untagged), { status: 200, body: { tags: expanded.tags } })
  const time = changed.body.created_at.replace('Z', '+00:00')
  await service.expect('updateTask', 200, { token, params, body: { created_at: time } })
})

t.test('only who may change a resource learns whether a value is present', async (t) => {
  const { owner, other, newTask } = await newWorld()
  const { id } = await newTask()
  const send = (token: string) =>
    service.call('updateTask', { token, params: { task_id: id }, body: { id: newId() } })
  t.match(await send(other.token), { status: 404 })
  t.match(await send(owner.token), isInvalid('/id'))
})
