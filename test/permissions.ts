import t, { type Test } from 'tap'
import type { components } from '../generated/openapi.ts'
import { type ContractOperation, loadContract, type OperationId } from '../src/contract.ts'
import { newId } from '../src/db/ids.ts'
import { type Account, type Call, fileForm, type Reply, startService } from './fixture/service.ts'

/**
 * Every operation of the contract, asked by everybody who could ask. What is expected comes from the operation's
 * x-permission and from the table below, which says who may do what in words of its own: a rule of the service that is
 * wrong does not agree with it.
 */

type Schemas = components['schemas']

/** `former` was assigned the task, attached its file, and sees the task no longer. */
const personas = ['anonymous', 'other', 'former', 'assignee', 'owner', 'admin'] as const
type Persona = (typeof personas)[number]
type Outcome = 'allowed' | 401 | 403 | 404

interface Rule {
  readonly see: readonly Persona[]
  readonly may: readonly Persona[]
}

const everybody = personas
const signedIn: readonly Persona[] = ['other', 'former', 'assignee', 'owner', 'admin']
const whoSeeTheTask: readonly Persona[] = ['assignee', 'owner', 'admin']

/** `owner` owns the task and its tag, and is the user whom the operations on a user are about. */
const rules: Readonly<Record<string, Rule>> = {
  anyone: { see: everybody, may: everybody },
  'session.end': { see: signedIn, may: signedIn },
  'user.see': { see: signedIn, may: signedIn },
  'user.create': { see: signedIn, may: ['admin'] },
  'user.change': { see: signedIn, may: ['owner', 'admin'] },
  'user.delete': { see: signedIn, may: ['owner', 'admin'] },
  'task.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task.create': { see: signedIn, may: signedIn },
  'task.change': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'attachment.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'attachment.add': { see: whoSeeTheTask, may: whoSeeTheTask },
  'attachment.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'tag.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'tag.create': { see: signedIn, may: signedIn },
  'tag.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'task_tag.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task_tag.change': { see: whoSeeTheTask, may: whoSeeTheTask },
}

const adminOnly: Rule = { see: signedIn, may: ['admin'] }
const transfer: Rule = { see: whoSeeTheTask, may: ['owner', 'admin'] }

const outcomeOf = (rule: Rule, persona: Persona): Outcome => {
  if (persona === 'anonymous' && !rule.may.includes('anonymous')) return 401
  if (!rule.see.includes(persona)) return 404
  return rule.may.includes(persona) ? 'allowed' : 403
}

/** What one cell of the matrix works on; nothing of it is shared with another cell but the people who do not own it. */
interface World {
  readonly people: Readonly<Record<Exclude<Persona, 'anonymous'>, Account>>
  readonly task: Schemas['Task']
  /** On the task. */
  readonly tag: Schemas['Tag']
  /** The owner's, and on no task. */
  readonly looseTag: Schemas['Tag']
  /** Attached by `former`. */
  readonly attachment: Schemas['Attachment']
}

interface Scenario {
  /** What is special about it. */
  readonly what?: string
  /** Where a part of the operation has a rule that is finer than the operation's own. */
  readonly rule?: Rule
  readonly request?: (world: World, persona: Persona) => Call | Promise<Call>
  /** For a list that everybody may ask for: the item that only those see who pass the operation's rule. */
  readonly lists?: (world: World) => string
  readonly check?: (t: Test, reply: Reply, persona: Persona) => void
}

const service = await startService(t)
const contract = loadContract()
const admin = await service.register('admin')
const bystanders = {
  admin,
  other: await service.register('other'),
  former: await service.register('former'),
  assignee: await service.register('assignee'),
}

let count = 0
const unique = (): string => `n${(count += 1)}`

const newWorld = async (): Promise<World> => {
  const { former, assignee } = bystanders
  const owner = await service.register(unique())
  const { token } = owner
  const newTag = async (name: string) =>
    (await service.expect('createTag', 201, { token, body: { name } })).body
  const [tag, looseTag] = [await newTag('carried'), await newTag('loose')]
  const draft = { title: 'Of the owner', assignee_id: former.id, tag_ids: [tag.id] }
  const { body: drafted } = await service.expect('createTask', 201, { token, body: draft })
  const params = { task_id: drafted.id }
  const upload = { token: former.token, params, body: fileForm('content') }
  const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
  const { body: task } = await service.expect('updateTask', 200, {
    token,
    params,
    body: { assignee_id: assignee.id },
  })
  return { people: { ...bystanders, owner }, task, tag, looseTag, attachment }
}

const tokenOf = ({ people }: World, persona: Persona): string | undefined =>
  persona === 'anonymous' ? undefined : people[persona].token

const ofTask = ({ task }: World) => ({ params: { task_id: task.id } })
const ofTag = ({ tag }: World) => ({ params: { tag_id: tag.id } })
const ofLink = ({ task, tag }: World) => ({ params: { task_id: task.id, tag_id: tag.id } })
const ofAttachment = ({ attachment }: World) => ({ params: { attach_id: attachment.id } })
const ofOwner = ({ people }: World) => ({ params: { user_id: people.owner.id } })

const newUser = () => {
  const username = unique()
  return { username, email: `${username}@example.com`, password: 'a good password' }
}

/** A session that may end without taking the others of the account with it. */
const newSession = async ({ email, password }: Account) =>
  (await service.expect('login', 200, { body: { email, password } })).body

const scenarios: Readonly<Record<OperationId, readonly Scenario[]>> = {
  register: [{ request: () => ({ body: newUser() }) }],
  login: [
    { request: ({ people: { owner } }) => ({ body: { email: owner.email, password: owner.password } }) },
  ],
  refreshToken: [{ request: ({ people: { owner } }) => ({ body: { refresh_token: owner.refreshToken } }) }],
  logout: [
    {
      request: async ({ people }, persona) =>
        persona === 'anonymous' ? {} : { token: (await newSession(people[persona])).access_token },
    },
  ],
  getCurrentUser: [{}],

  listUsers: [{ lists: ({ people }) => people.owner.id }],
  createUser: [{ request: () => ({ body: newUser() }) }],
  getUser: [
    {
      request: ofOwner,
      check: (t, { body }, persona) => {
        const { email } = body as Schemas['User']
        t.equal(email !== null, ['owner', 'admin'].includes(persona), 'the address is for self and admin')
      },
    },
  ],
  replaceUser: [
    { request: (world) => ({ ...ofOwner(world), body: { ...newName(), role: 'member' } }) },
    {
      what: 'with another role',
      rule: adminOnly,
      request: (world) => ({ ...ofOwner(world), body: { ...newName(), role: 'admin' } }),
    },
  ],
  updateUser: [
    { request: (world) => ({ ...ofOwner(world), body: { display_name: 'Changed' } }) },
    { what: 'its username', request: (world) => ({ ...ofOwner(world), body: { username: unique() } }) },
    {
      what: 'with the role that it has',
      request: (world) => ({ ...ofOwner(world), body: { display_name: 'Changed', role: 'member' } }),
    },
    {
      what: 'with another role',
      rule: adminOnly,
      request: (world) => ({ ...ofOwner(world), body: { role: 'admin' } }),
    },
  ],
  deleteUser: [{ request: ofOwner }],
  listUserTasks: [{ request: ofOwner, lists: ({ task }) => task.id }],

  listTasks: [{ lists: ({ task }) => task.id }],
  createTask: [
    { request: () => ({ body: { title: 'Mine' } }) },
    {
      what: 'assigned to somebody else',
      request: ({ people }) => ({ body: { title: 'Yours', assignee_id: people.former.id } }),
    },
    {
      what: 'that somebody else is to own',
      rule: adminOnly,
      request: async () => ({ body: { title: 'Yours', owner_id: (await service.register(unique())).id } }),
    },
  ],
  getTask: [{ request: ofTask }],
  replaceTask: [
    { request: (world) => ({ ...ofTask(world), body: { title: 'Replaced' } }) },
    {
      what: 'with the owner that it has',
      request: (world) => ({ ...ofTask(world), body: { title: 'Same', owner_id: world.people.owner.id } }),
    },
    {
      what: 'with another owner',
      rule: transfer,
      request: (world) => ({ ...ofTask(world), body: { title: 'Mine', owner_id: world.people.assignee.id } }),
    },
  ],
  updateTask: [
    { request: (world) => ({ ...ofTask(world), body: { status: 'done' } }) },
    { what: 'to unassigned', request: (world) => ({ ...ofTask(world), body: { assignee_id: null } }) },
    {
      what: 'with the owner that it has',
      request: (world) => ({ ...ofTask(world), body: { owner_id: world.people.owner.id } }),
    },
    {
      what: 'with another owner',
      rule: transfer,
      request: (world) => ({ ...ofTask(world), body: { owner_id: world.people.assignee.id } }),
    },
  ],
  deleteTask: [{ request: ofTask }],

  listTaskAttachments: [{ request: ofTask }],
  addTaskAttachment: [{ request: (world) => ({ ...ofTask(world), body: fileForm('more') }) }],
  downloadAttachment: [{ request: ofAttachment }],
  deleteAttachment: [
    { request: ofAttachment },
    {
      what: 'that the assignee attached',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      async request(world) {
        const upload = { ...ofTask(world), token: world.people.assignee.token, body: fileForm('own') }
        const { body } = await service.expect('addTaskAttachment', 201, upload)
        return { params: { attach_id: body.id } }
      },
    },
  ],

  listTags: [{ lists: ({ tag }) => tag.id }],
  createTag: [{ request: () => ({ body: { name: unique() } }) }],
  getTag: [
    { request: ofTag },
    {
      what: 'that is on no task',
      rule: { see: ['owner', 'admin'], may: ['owner', 'admin'] },
      request: ({ looseTag }) => ({ params: { tag_id: looseTag.id } }),
    },
  ],
  deleteTag: [
    { request: ofTag },
    {
      what: 'that is on no task',
      rule: { see: ['owner', 'admin'], may: ['owner', 'admin'] },
      request: ({ looseTag }) => ({ params: { tag_id: looseTag.id } }),
    },
  ],

  listTaskTags: [{ request: ofTask }],
  addTaskTag: [
    { what: 'that is there already', request: ofLink },
    {
      what: 'of their own',
      async request(world, persona) {
        if (persona === 'anonymous') return ofLink(world)
        const { token } = world.people[persona]
        const { body } = await service.expect('createTag', 201, { token, body: { name: unique() } })
        return { params: { task_id: world.task.id, tag_id: body.id } }
      },
    },
    {
      what: 'that is on no task',
      rule: { see: ['owner', 'admin'], may: ['owner', 'admin'] },
      request: ({ task, looseTag }) => ({ params: { task_id: task.id, tag_id: looseTag.id } }),
    },
  ],
  removeTaskTag: [{ request: ofLink }],

  getLiveness: [{}],
  getReadiness: [{}],
  getContract: [{}],
  getContractJson: [{}],
}

function newName() {
  const username = unique()
  return { username, email: `${username}@example.com`, display_name: 'Replaced' }
}

/** Everything that a refused write could have touched, as the administrator sees it. */
const snapshot = async (world: World): Promise<unknown> => {
  const { token } = admin
  const read = async (operation: OperationId, request: Call = {}) => {
    const { status, headers, body } = await service.call(operation, { token, ...request })
    return [operation, status, headers.get('etag'), body]
  }
  const totalOf = async (operation: 'listUsers' | 'listTasks' | 'listTags') =>
    (await service.expect(operation, 200, { token, query: { include_total: true, limit: 1 } })).body.total
  return Promise.all([
    read('getTask', ofTask(world)),
    read('getTag', ofTag(world)),
    read('getTag', { params: { tag_id: world.looseTag.id } }),
    read('getUser', ofOwner(world)),
    read('downloadAttachment', ofAttachment(world)),
    read('listTaskAttachments', ofTask(world)),
    read('listTaskTags', ofTask(world)),
    totalOf('listUsers'),
    totalOf('listTasks'),
    totalOf('listTags'),
  ])
}

/** A problem as bytes would show it, without what names the request. */
const anonymized = ({ status, headers, body }: Reply): string => {
  const { instance: _instance, request_id: _requestId, ...problem } = body as Schemas['Problem']
  const fields = [...headers].filter(([name]) => name !== 'date')
  return JSON.stringify([status, fields, problem])
}

/** The same request for things that are not there: every choice of its path parameters, each with an id of nothing. */
const requestsForNothing = (request: Call): Call[] => {
  const names = Object.keys(request.params ?? {})
  return Array.from({ length: 2 ** names.length - 1 }, (_, index) => {
    const chosen = names.filter((_name, bit) => ((index + 1) >> bit) & 1)
    return {
      ...request,
      params: { ...request.params, ...Object.fromEntries(chosen.map((name) => [name, newId()])) },
    }
  })
}

const tryCell = async (t: Test, operation: ContractOperation, scenario: Scenario, persona: Persona) => {
  const own = rules[operation.permission]
  if (own === undefined) throw new Error(`No row of the table says what ${operation.permission} means`)
  const id = operation.id as OperationId
  const world = await newWorld()
  const request = { token: tokenOf(world, persona), ...(await scenario.request?.(world, persona)) }
  const rule = scenario.rule ?? (scenario.lists ? { see: signedIn, may: signedIn } : own)
  const expected = outcomeOf(rule, persona)

  const before = expected !== 'allowed' && operation.method !== 'GET' ? await snapshot(world) : null
  const reply = await service.call(id, request)
  const outcome = reply.status < 300 ? 'allowed' : reply.status
  t.equal(outcome, expected, `${persona}: ${expected}`)
  if (outcome !== expected) t.comment(JSON.stringify(reply.body))

  if (before !== null) t.strictSame(await snapshot(world), before, `${persona}: nothing has changed`)
  if (expected === 404) {
    for (const forNothing of requestsForNothing(request)) {
      const answer = await service.call(id, forNothing)
      t.equal(anonymized(answer), anonymized(reply), `${persona}: as if it did not exist`)
    }
  }
  if (outcome !== 'allowed') return
  scenario.check?.(t, reply, persona)
  if (scenario.lists) {
    const { items } = reply.body as { items: { id: string }[] }
    const listed = items.some((item) => item.id === scenario.lists?.(world))
    t.equal(listed, own.may.includes(persona), `${persona}: the list holds what they may see`)
  }
}

for (const operation of contract.operations.values()) {
  t.test(operation.id, async (t) => {
    const rows = Object.hasOwn(scenarios, operation.id) ? scenarios[operation.id as OperationId] : []
    t.ok(rows.length > 0, 'it has a row in the matrix')
    for (const scenario of rows) {
      await t.test(scenario.what ?? 'as it is', async (t) => {
        for (const persona of personas) await tryCell(t, operation, scenario, persona)
      })
    }
  })
}

t.test('ids in a body', async (t) => {
  const world = await newWorld()
  const { owner, assignee, other } = world.people
  const strangers = { token: other.token, body: { name: 'of a stranger' } }
  const { body: foreignTag } = await service.expect('createTag', 201, strangers)

  const refuse = async (
    name: string,
    id: OperationId,
    status: 403 | 404 | 422,
    request: Call,
    pointer = '',
  ) => {
    const before = await snapshot(world)
    const { status: answered, body } = await service.call(id, { token: owner.token, ...request })
    t.equal(answered, status, name)
    if (pointer !== '') t.equal((body as Schemas['Problem']).errors?.[0]?.pointer, pointer)
    t.strictSame(await snapshot(world), before, `${name}: nothing has changed`)
    return body as Schemas['Problem']
  }

  for (const [id, rest] of [
    ['createTask', {}],
    ['replaceTask', ofTask(world)],
    ['updateTask', ofTask(world)],
  ] as const) {
    const body = { title: 'Refused', assignee_id: newId() }
    await refuse(`${id} for an assignee who does not exist`, id, 422, { ...rest, body }, '/assignee_id')
  }
  for (const id of ['replaceTask', 'updateTask'] as const) {
    const body = { title: 'Refused', owner_id: newId() }
    const nobody = { ...ofTask(world), body }
    await refuse(`${id} to an owner who does not exist`, id, 422, nobody, '/owner_id')
    await refuse(`${id} by the assignee`, id, 403, { ...nobody, token: assignee.token })
  }
  const forNobody = { token: admin.token, body: { title: 'Refused', owner_id: newId() } }
  await refuse('createTask by an administrator for nobody', 'createTask', 422, forNobody, '/owner_id')

  const foreign = await refuse(
    'createTask with a tag that is not seen',
    'createTask',
    422,
    { body: { title: 'Refused', tag_ids: [world.tag.id, foreignTag.id] } },
    '/tag_ids/1',
  )
  const missing = await refuse(
    'createTask with a tag that does not exist',
    'createTask',
    422,
    { body: { title: 'Refused', tag_ids: [world.tag.id, newId()] } },
    '/tag_ids/1',
  )
  t.equal(foreign.detail, missing.detail, 'a foreign tag is like none')
})

t.test('fields that the server alone writes', async (t) => {
  const world = await newWorld()
  const { owner } = world.people
  const user = {
    ...owner.user,
    username: 'refused',
    email: 'refused@example.com',
    password: 'a good password',
  }
  const rows = [
    { id: 'register', request: {}, read: { ...user, role: 'admin' }, schema: 'Registration' },
    { id: 'createUser', request: { token: admin.token }, read: user, schema: 'UserCreate' },
    { id: 'replaceUser', request: ofOwner(world), read: user, schema: 'UserReplace' },
    { id: 'updateUser', request: ofOwner(world), read: user, schema: 'UserPatch' },
    { id: 'createTask', request: {}, read: world.task, schema: 'TaskCreate' },
    { id: 'replaceTask', request: ofTask(world), read: world.task, schema: 'TaskReplace' },
    { id: 'updateTask', request: ofTask(world), read: world.task, schema: 'TaskPatch' },
    { id: 'createTag', request: {}, read: { ...world.tag, name: 'refused' }, schema: 'TagCreate' },
  ] as const

  for (const { id, request, read, schema } of rows) {
    await t.test(id, async (t) => {
      const writable = writableFields(schema)
      const entries = Object.entries(read)
      const good = Object.fromEntries(entries.filter(([name]) => writable.has(name)))
      const readOnly = entries.filter(([name]) => !writable.has(name))
      t.ok(readOnly.length > 0, 'there are such fields')
      const before = await snapshot(world)
      for (const [name, value] of readOnly) {
        const token = id === 'register' ? undefined : owner.token
        const body = { ...good, [name]: value }
        const reply = await service.call(id, { token, ...request, body })
        t.equal(reply.status, 400, name)
        t.equal((reply.body as Schemas['Problem']).errors?.[0]?.pointer, `/${name}`)
      }
      t.strictSame(await snapshot(world), before, 'nothing has changed')
    })
  }
})

function writableFields(schema: string): Set<string> {
  const { components } = contract.document as {
    components: { schemas: Record<string, { properties: object }> }
  }
  return new Set(Object.keys(components.schemas[schema]?.properties ?? {}))
}
