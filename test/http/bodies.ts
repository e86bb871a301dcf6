import t from 'tap'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/** Request bodies, independent of the operation. */

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))
const json = { 'content-type': 'application/json' }

/** No parser reads a body of the other methods. */
const withoutBody = operations.filter(
  ({ method, mediaTypes }) => mediaTypes.length === 0 && ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method),
)

for (const operation of withoutBody) {
  t.test(`${operation.id}: {} and null are accepted as no body`, async (t) => {
    const request = await requestTo(operation)
    for (const body of ['{"a":1}', '[]', '""', 'false', '{}{}', 'x']) {
      const refused = await service.call(operation.id, {
        ...request,
        body,
        headers: { ...request.headers, ...json },
      })
      t.match(refused, { status: 400, body: { detail: 'This operation does not accept a body.' } }, body)
    }
    for (const body of [' { }\n', 'null']) {
      const accepted = await requestTo(operation)
      const headers = { ...accepted.headers, ...json }
      const { status } = await service.call(operation.id, { ...accepted, body, headers })
      t.ok(status < 300, `${body}: ${status}`)
    }
  })
}

/** The schema of a JSON body. */
const bodySchema = ({ path, method }: Operation): Located | undefined =>
  lookUp(['paths', path, method.toLowerCase(), 'requestBody', 'content', 'application/json', 'schema'])

const isNullable = ({ node, pointer }: Located): boolean =>
  node.nullable === true ||
  (Array.isArray(node.allOf) &&
    node.allOf.some((_, index) => {
      const part = lookUp([...pointer, 'allOf', String(index)])
      return part !== undefined && isNullable(part)
    }))

/** The names of optional fields that are not nullable. */
const optionalFieldsOf = (schema: Located): readonly string[] => {
  const required = new Set(Array.isArray(schema.node.required) ? schema.node.required : [])
  return Object.keys(schema.node.properties ?? {}).filter((name) => {
    const property = member(schema, 'properties', name)
    return property !== undefined && !isNullable(property) && !required.has(name)
  })
}

const nulls = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, null]))

for (const operation of operations) {
  const schema = bodySchema(operation)
  if (schema === undefined || operation.method === 'PATCH') continue
  const optional = optionalFieldsOf(schema)
  const send = ({ body, ...request }: Call, change: (fields: Readonly<Record<string, unknown>>) => object) =>
    service.call(operation.id, { ...request, body: change(Object(body) as Record<string, unknown>) })
  t.test(`${operation.id}: null is the same as no value for an optional field`, async (t) => {
    const request = await requestTo(operation)
    const { status } = await send(request, (fields) => ({ ...nulls(optional), ...fields }))
    t.ok(status < 300, `${optional.join(', ')}: ${status}`)
  })
}

t.test('null in a nested object', async (t) => {
  const { owner } = await newWorld()
  const { token } = owner
  const create = [{ title: 'A task', status: null, tag_ids: null }]
  const { body: created } = await service.expect('batchTasks', 200, { token, body: { create, update: null } })
  t.match(created.create, [{ status: 201 }])
  const task_id = created.create[0]?.task_id ?? ''
  const update = [{ task_id, if_match: null, patch: { title: null } }]
  const patch = await service.expect('batchTasks', 400, { token, body: { update } })
  t.match(patch.body.errors, [{ pointer: '/update/0/patch/title' }], 'means a value in a merge patch')
  const list = await service.expect('createTask', 400, { token, body: { title: 'x', tag_ids: [null] } })
  t.match(list.body.errors, [{ pointer: '/tag_ids/0' }], 'is not an item')
})

t.test('null for a field that keeps its value', async (t) => {
  const { owner, newTask } = await newWorld()
  const task = await newTask()
  const { body } = await service.expect('replaceTask', 200, {
    token: owner.token,
    params: { task_id: task.id },
    body: { title: 'Replaced', owner_id: null, status: null, version: null },
  })
  t.match(body, { owner_id: owner.id, status: 'todo' })
})

t.test('null as a whole body is the same as none if the body is optional', async () => {
  for (const operation of operations.filter(
    ({ requiresBody, mediaTypes }) => !requiresBody && mediaTypes.includes('application/json'),
  )) {
    const request = await requestTo(operation)
    const headers = { ...request.headers, ...json }
    const { status, body } = await service.call(operation.id, { ...request, body: 'null', headers })
    t.ok(status < 300, `${operation.id}: ${JSON.stringify(body)}`)
  }
})
