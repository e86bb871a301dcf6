import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { accountActions } from '../fixture/accounts.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { uploadedImport } from '../fixture/imports.ts'
import { type Operation, operations, pathParameters, prepareOperations, rows } from '../fixture/operations.ts'
import { type Account, type Call, type Reply, startService } from '../fixture/service.ts'
import { pointersOf, taskActions } from '../fixture/tasks.ts'

/** `me` stands for the caller's id wherever a request names a user. */

type Schemas = components['schemas']

const service = await startService(t)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const { createTask, readTask } = taskActions(service)
const { newWorld } = await prepareOperations(service, admin)
const caller = await service.register('caller')
const { token } = caller

const userIds = /^(user|owner|assignee|actor)_id$/

/** The paths of the fields in a request's schema, such as `body.create.items.owner_id`. */
const fieldsOf = (schema: Located, path: string): [string, Located][] => {
  const properties = Object.keys(schema.node.properties ?? {}).flatMap((name) => {
    const property = member(schema, 'properties', name)
    // Read-only fields are ignored.
    if (property === undefined || property.node.readOnly === true) return []
    return [[`${path}.${name}`, property] as [string, Located]]
  })
  const items = member(schema, 'items')
  const parts = Object.keys(schema.node.allOf ?? {}).map((index) => member(schema, 'allOf', index))
  return [
    ...properties,
    ...properties.flatMap(([name, property]) => fieldsOf(property, name)),
    ...(items === undefined ? [] : fieldsOf(items, `${path}.items`)),
    ...parts.flatMap((part) => (part === undefined ? [] : fieldsOf(part, path))),
  ]
}

const parametersOf = (parent: Located): [string, Located][] =>
  Object.keys(parent.node.parameters ?? []).flatMap((index) => {
    const parameter = member(parent, 'parameters', index)
    const schema = parameter && member(parameter, 'schema')
    return schema === undefined
      ? []
      : [[`${String(parameter?.node.in)}.${String(parameter?.node.name)}`, schema] as [string, Located]]
  })

const requestFields = ({ path, method }: Operation): [string, Located][] => {
  const item = lookUp(['paths', path])
  const operation = item && member(item, method.toLowerCase())
  if (item === undefined || operation === undefined) throw new Error(`${path} is not in the contract`)
  const body = member(operation, 'requestBody', 'content', 'application/json', 'schema')
  return [
    ...parametersOf(item),
    ...parametersOf(operation),
    ...(body === undefined ? [] : fieldsOf(body, 'body')),
  ]
}

/** Where requests name users. Each place is tested below. */
const places = operations.flatMap((operation) =>
  requestFields(operation)
    .filter(([name]) => userIds.test(name.split('.').at(-1) ?? ''))
    .map(([name, schema]) => ({ operation, name, schema })),
)

const isReference = (schema: Located): boolean => {
  const one = member(schema, 'items') ?? member(schema, 'allOf', '0') ?? schema
  return one.pointer.at(-1)?.endsWith('UserIdOrMe') === true
}

t.test('every user id in a request has the schema UserIdOrMe', async (t) => {
  t.ok(places.length >= 23)
  for (const { operation, name, schema } of places) t.ok(isReference(schema), `${operation.id} ${name}`)
})

/** What the response for `me` has in common with the one for the id: ids, times and the ETag's digest of them differ. */
const outcomeOf = ({ status, headers, body }: Reply) => ({
  status,
  code: (body as { code?: string } | null)?.code,
  version: headers.get('etag')?.split('.')[0],
})

t.test('in the path', async (t) => {
  /** The registry's request, from an account about itself. */
  const requestBy = async ({ id }: Operation, account: Account, user_id: string): Promise<Call> => {
    const world = { ...(await newWorld()), owner: account }
    const request = await rows[id].request(world, account)
    return { ...request, params: { ...request.params, user_id } }
  }
  const about = operations.filter((operation) => pathParameters(operation).includes('user_id'))
  t.ok(about.length >= 7)
  for (const operation of about) {
    t.test(operation.id, async (t) => {
      for (const role of ['member', 'admin'] as const) {
        for (const credential of ['session', 'token'] as const) {
          const sendAs = async (userIdOf: (account: Account) => string): Promise<Reply> => {
            const { doubleOf } = await newWorld()
            const double = await doubleOf(role === 'admin' ? admin : caller)
            const request = await requestBy(operation, double, userIdOf(double))
            const scopes = ['users:read', 'users:write', 'tasks:read']
            const sent = credential === 'session' ? double : await createApiToken(double, { scopes })
            return service.call(operation.id, { ...request, token: sent.token })
          }
          const [byMe, byId] = [await sendAs(() => 'me'), await sendAs(({ id }) => id)]
          t.strictSame(outcomeOf(byMe), outcomeOf(byId), `${role}, ${credential}: ${byId.status}`)
        }
      }
      const anonymous = await requestBy(operation, caller, 'me')
      t.equal((await service.call(operation.id, anonymous)).status, 401)
    })
  }

  t.test('the response has the id', async (t) => {
    const params = { user_id: 'me' }
    const byMe = await service.expect('getUser', 200, { token, params })
    t.strictSame(byMe.body, caller.user)
    const headers = { 'if-none-match': byMe.headers.get('etag') ?? '' }
    await service.expect('getUser', 304, { token, params: { user_id: caller.id }, headers })
    await service.expect('getUser', 304, { token, params, headers })
  })

  t.test('If-Match works as with the id', async (t) => {
    const change = { token, params: { user_id: 'me' }, body: { display_name: 'Me' } }
    await service.expect('updateUser', 412, { ...change, headers: { 'if-match': '"99"' } })
    const { body } = await service.expect('updateUser', 200, { ...change, headers: { 'if-match': '"1"' } })
    t.match(body, { id: caller.id, display_name: 'Me', version: 2 })
  })

  t.test('400 for anything else', async (t) => {
    for (const user_id of ['ME', 'Me', 'me ', 'mee', 'self', caller.id.slice(1), `${caller.id}0`]) {
      const { body } = await service.expect('getUser', 400, { token, params: { user_id } })
      t.strictSame(body.errors, [{ pointer: '/user_id', detail: 'must be a UUID or me' }], user_id)
    }
  })
})

t.test('in a query', async (t) => {
  const { body: project } = await service.expect('createProject', 201, { token, body: { name: 'Mine' } })
  const project_id = project.id
  for (const n of [1, 2]) await createTask(caller, { title: `mine ${n}`, assignee_id: 'me' })
  await createTask(caller, { title: 'mine 3', assignee_id: 'me', project_id })
  await createTask(caller, { title: 'of nobody' })
  const queried = places.filter(({ name }) => name.startsWith('query.'))
  const requests: Partial<Record<OperationId, Call>> = {
    listTasks: { token },
    listUserTasks: { token, params: { user_id: 'me' } },
    listProjectTasks: { token, params: { project_id } },
    listTaskChanges: { token },
    listEvents: { token },
    listAuditEvents: { token: admin.token },
  }
  await changesToBeKnown(service.deps.db)
  for (const { operation, name } of queried) {
    const parameter = name.replace('query.', '')
    const request = requests[operation.id]
    if (request === undefined) throw new Error(`${operation.id} has no request here`)
    const self = request.token === token ? caller : admin
    const itemsOf = async (value: string) => {
      const { body } = await service.call(operation.id, { ...request, query: { [parameter]: [value] } })
      const page = body as Record<'items' | 'changed', readonly { id: string }[]>
      return page.items ?? page.changed
    }
    const expected = await itemsOf(self.id)
    t.ok(expected.length > 0, `${operation.id} ${parameter}`)
    t.strictSame(await itemsOf('me'), expected)
    const refused = await service.call(operation.id, { ...request, query: { [parameter]: 'you' } })
    t.match(refused, { status: 400, body: { errors: [{ detail: 'must be a UUID or me' }] } })
  }

  t.test('in a filter', async (t) => {
    const titles = async (filter: string) => {
      const { body } = await service.expect('listTasks', 200, { token, query: { filter, sort: 'title' } })
      return body.items.map(({ title }) => title)
    }
    const mine = ['mine 1', 'mine 2', 'mine 3']
    t.strictSame(await titles('assignee_id = me'), mine)
    t.strictSame(await titles('owner_id = me AND assignee_id:*'), mine)
    t.strictSame(await titles('assignee_id != me'), [])
  })

  t.test('a cursor from a list with me works with the id', async (t) => {
    const list = { token, params: { user_id: 'me' } }
    const query = { assignee_id: ['me'], limit: 2 }
    const { headers, body } = await service.expect('listUserTasks', 200, { ...list, query })
    const link = headers.get('link') ?? ''
    t.ok(link.includes(`/users/${caller.id}/tasks?assignee_id=${caller.id}&`), link)
    const rest = await service.expect('listUserTasks', 200, {
      token,
      params: { user_id: caller.id },
      query: { assignee_id: [caller.id], cursor: body.next_cursor ?? '' },
    })
    t.equal(rest.body.items.length, 1)
  })
})

t.test('in a body', async (t) => {
  const other = await service.register('other')
  const idOf = async (fields: object) => (await createTask(other, fields)).id
  const patch = async (fields: object): Promise<Schemas['Task']> => {
    const params = { task_id: await idOf({}) }
    return (await service.expect('updateTask', 200, { token: other.token, params, body: fields })).body
  }
  const replace = async (fields: object): Promise<Schemas['Task']> => {
    const params = { task_id: await idOf({}) }
    const body = { title: 'Replaced', ...fields }
    return (await service.expect('replaceTask', 200, { token: other.token, params, body })).body
  }
  const batch = async (body: object): Promise<Schemas['Task']> => {
    const reply = await service.expect('batchTasks', 200, { token: other.token, body })
    const [result] = [...(reply.body.create ?? []), ...(reply.body.update ?? [])]
    return (await readTask(other, result?.task_id ?? '')).task
  }
  const map = async (fields: object) => {
    const { id: import_id } = await uploadedImport(service, other)
    const body = { users: [{ source_id: 'ada', ...fields }] }
    const request = { token: other.token, params: { import_id }, body }
    return (await service.expect('updateImport', 200, request)).body.users[0]
  }
  const tries: Readonly<Record<string, (fields: object) => Promise<object | undefined>>> = {
    'createTask body': (fields) => createTask(other, fields),
    'replaceTask body': replace,
    'updateTask body': patch,
    'batchTasks body.create.items': (fields) => batch({ create: [{ title: 'In a batch', ...fields }] }),
    'batchTasks body.update.items.patch': async (fields) =>
      batch({ update: [{ task_id: await idOf({}), patch: fields }] }),
    'updateTask body.expect': async (expect) => {
      const params = { task_id: await idOf({ assignee_id: 'me' }) }
      return (await service.expect('updateTask', 200, { token: other.token, params, body: { expect } })).body
    },
    'batchTasks body.update.items.expect': async (expect) => {
      const update = [{ task_id: await idOf({ assignee_id: 'me' }), patch: {}, expect }]
      return batch({ atomic: true, update })
    },
    'updateImport body.users.items': map,
  }
  t.test('createExport body.user_id', async (t) => {
    for (const user_id of ['me', other.id.toUpperCase()]) {
      const { body } = await service.expect('createExport', 201, { token: other.token, body: { user_id } })
      t.equal(body.user_id, other.id)
    }
    const body = { user_id: 'you' }
    await service.expect('createExport', 400, { token: other.token, body })
  })

  const inBodies = places.filter(
    ({ name, operation }) => name.startsWith('body.') && operation.id !== 'createExport',
  )
  for (const { operation, name } of inBodies) {
    t.test(`${operation.id} ${name}`, async (t) => {
      const [, where = '', field = ''] = /^(.*)\.(\w+)$/.exec(name) ?? []
      const write = tries[`${operation.id} ${where}`]
      if (write === undefined) throw new Error('This place has no test')
      t.match(await write({ [field]: 'me' }), { [field]: other.id })
      t.match(await write({ [field]: other.id.toUpperCase() }), { [field]: other.id })
    })
  }

  const refused = async (t: Test, body: object, pointers: readonly string[]) => {
    const reply = await service.expect('createTask', 400, { token, body: { title: 'A task', ...body } })
    t.strictSame(pointersOf(reply.body), pointers)
  }
  t.test('400 for anything else', async (t) => {
    await refused(t, { assignee_id: 'Me', owner_id: 'myself' }, ['/owner_id', '/assignee_id'])
    await refused(t, { assignee_id: '', owner_id: 7 }, ['/owner_id', '/assignee_id'])
    await refused(t, { assignee_id: ['me'] }, ['/assignee_id'])
  })

  t.test('an Idempotency-Key used with me is replayed with the id', async (t) => {
    const create = async (assignee_id: string) =>
      service.expect('createTask', 201, {
        token: other.token,
        headers: { 'idempotency-key': 'mine' },
        body: { title: 'Once', assignee_id },
      })
    const first = await create('me')
    t.equal(first.headers.get('location'), `/tasks/${first.body.id}`)
    for (const same of [other.id, other.id.toUpperCase(), 'me']) {
      const repeated = await create(same)
      t.strictSame(repeated.body, first.body)
      t.equal(repeated.headers.get('idempotency-replayed'), 'true')
    }
  })

  t.test('me for the current assignee changes nothing', async (t) => {
    const task = await createTask(other, { assignee_id: 'me' })
    const change = { token: other.token, params: { task_id: task.id } }
    const byId = await service.expect('updateTask', 200, { ...change, body: { assignee_id: other.id } })
    const byMe = await service.expect('updateTask', 200, { ...change, body: { assignee_id: 'me' } })
    t.equal(byMe.headers.get('etag'), byId.headers.get('etag'))
  })
})
