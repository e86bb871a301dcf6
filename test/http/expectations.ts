import t from 'tap'
import {
  asArray,
  asObject,
  type Json,
  loadContract,
  type OperationId,
  resolve,
} from '../../src/contract/contract.ts'
import { type Call, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Every PATCH that takes `expect`. What is special about tasks is tested in handlers/tasks.ts. */

const service = await startService(t)
const owner = await service.register('owner')
const { token } = owner
const { addComment, createTask } = taskActions(service)

interface Expecting {
  readonly params: NonNullable<Call['params']>
  /** The fields that can be expected, as a client may write them. */
  readonly held: Json
  /** As they are read. */
  readonly shown: Json
  /** Another value of each. */
  readonly other: Json
}

const name = 'Caf\u00e9'
const named = { held: { name: ' Cafe\u0301 ' }, shown: { name }, other: { name: 'Other' } }
const external = { external_source: 'jira', external_id: 'A-7' }

const project = {
  held: { ...named.held, description: 'x', color: '#A0B0C0', metadata: { sprint: '5' }, ...external },
  shown: { name, description: 'x', color: '#a0b0c0', metadata: { sprint: '5' }, ...external },
  other: {
    name: 'Other',
    description: '',
    color: null,
    metadata: { sprint: null },
    external_source: null,
    external_id: 'A-8',
  },
}

const newProject = async () =>
  (await service.expect('createProject', 201, { token, body: project.shown })).body.id

const cases: Partial<Record<OperationId, () => Promise<Expecting>>> = {
  async updateComment() {
    const task = await createTask(owner)
    const comment_id = await addComment(owner, task.id, 'x')
    return { params: { comment_id }, held: { body: 'x' }, shown: { body: 'x' }, other: { body: 'y' } }
  },
  async updateProject() {
    return { params: { project_id: await newProject() }, ...project }
  },
  async updateSection() {
    const params = { project_id: await newProject() }
    const { body } = await service.expect('createSection', 201, { token, params, body: { name } })
    return { params: { ...params, section_id: body.id }, ...named }
  },
  async updateTeam() {
    const { body } = await service.expect('createTeam', 201, { token, body: { name } })
    return { params: { team_id: body.id }, ...named }
  },
  async updateWebhook() {
    const shown = {
      url: 'https://hooks.example.com/x',
      description: 'x',
      event_types: ['task.created', 'comment.created'],
      is_enabled: true,
    }
    const { body } = await service.expect('createWebhook', 201, { token, body: shown })
    return {
      params: { webhook_id: body.id },
      held: { ...shown, url: 'HTTPS://Hooks.Example.com:443/x', event_types: shown.event_types.toReversed() },
      shown,
      other: { url: 'https://other.example.com/', description: '', event_types: ['*'], is_enabled: false },
    }
  },
}

const { document, operations } = loadContract()

/** The properties of the body of an operation. */
const bodyOf = (path: string, method: string): Json => {
  const { requestBody } = asObject(asObject(asObject(document.paths)[path])[method.toLowerCase()])
  const content = asObject(asObject(resolve(document, requestBody)).content)['application/json']
  return asObject(resolve(document, asObject(content).schema).properties)
}

const taking = [...operations.values()].flatMap(({ id, path, method, mediaTypes }) => {
  const properties = mediaTypes.includes('application/json') && method !== 'POST' ? bodyOf(path, method) : {}
  return properties.expect === undefined ? [] : [{ id, method, properties }]
})

/** In the contract, an allOf with one schema adds a description to a reference. */
const unwrapped = (schema: unknown): Json => {
  const { allOf = [schema] } = asObject(schema)
  return resolve(document, asArray(allOf)[0])
}

t.test('the operations that take it, each for what it changes, with the same schemas', (t) => {
  t.strictSame(taking.map(({ id }) => id).toSorted(), ['updateTask', ...Object.keys(cases)].toSorted())
  /** Conditions, places, and objects that a patch merges. */
  const others = new Set(['version', 'expect', 'before', 'after', 'metadata', 'recurrence'])
  for (const { id, method, properties } of taking) {
    t.equal(method, 'PATCH', id)
    const expected = asObject(resolve(document, properties.expect).properties)
    const comparable = (fields: Json) =>
      Object.fromEntries(
        Object.entries(fields)
          .filter(([field, schema]) => !others.has(field) && asObject(schema).readOnly !== true)
          .map(([field, schema]) => [field, { ...unwrapped(schema), description: null }]),
      )
    t.strictSame(comparable(expected), comparable(properties), id)
    for (const field of ['metadata', 'recurrence'])
      t.equal(expected[field] === undefined, properties[field] === undefined, `${id} ${field}`)
  }
  t.end()
})

for (const [id, prepare] of Object.entries(cases)) {
  t.test(`${id}: expect`, async (t) => {
    const operation = id as keyof typeof cases
    const { params, held, shown, other } = await prepare()
    const send = (body: object, headers: Record<string, string> = {}) =>
      service.call(operation, { token, params, body, headers })
    t.strictSame(
      Object.keys(held).toSorted(),
      Object.keys(
        asObject(resolve(document, taking.find((one) => one.id === id)?.properties.expect).properties),
      ).toSorted(),
    )

    const checked = await send({ expect: held })
    t.match(checked, { status: 200, body: { ...shown, version: 1 } }, 'it holds, and nothing is changed')

    const conflicts = Object.entries(shown).map(([field, current]) =>
      field === 'metadata' ? { field: 'metadata.sprint', current: '5' } : { field, current },
    )
    for (const headers of [{}, { 'if-match': '"1"' }, { 'if-match': '"7"' }]) {
      const refused = await send({ ...other, expect: other }, headers)
      t.equal(refused.status, 412)
      t.strictSame((refused.body as { readonly conflicts?: unknown }).conflicts, conflicts)
    }
    t.equal((await send({ expect: held }, { 'if-match': '"7"' })).status, 412)
    for (const field of ['version', 'id']) {
      const { status, body } = await send({ expect: { [field]: 1 } })
      t.match({ status, body }, { status: 400, body: { errors: [{ pointer: `/expect/${field}` }] } })
    }

    const changed = await send({ ...other, expect: held })
    t.match(changed, { status: 200, body: { version: 2 } }, 'it holds, and all is changed')
    t.equal((await send({ expect: held })).status, 412)
  })
}
