import t, { type Test } from 'tap'
import type { components } from '../generated/openapi.ts'
import { loadContract, type OperationId } from '../src/contract/contract.ts'
import { newId } from '../src/db/shared/ids.ts'
import type { Permission } from '../src/domain/shared/permissions.ts'
import { allScopes } from './fixture/accounts.ts'
import {
  anonymized,
  createMatrix,
  isRead,
  requestsForNothing,
  type Rule as RuleFor,
  type Scenario as ScenarioOf,
} from './fixture/matrix.ts'
import { type Operation, operations, pathParameters, prepareOperations, rows } from './fixture/operations.ts'
import { type Account, type Call, fileForm, startService } from './fixture/service.ts'
import { pieceHeaders } from './fixture/uploads.ts'
import type { World } from './fixture/world.ts'

/**
 * Every operation, called as every persona, in a session and with API tokens. The expected outcome follows from the
 * operation's x-permission and x-scope and from the tables below. They state the rules independently of the service, so that
 * a wrong rule of the service fails.
 */

type Schemas = components['schemas']

/** `former` was assigned the task, attached its file, and can no longer see it. */
const personas = ['anonymous', 'other', 'former', 'assignee', 'owner', 'admin'] as const
type Persona = (typeof personas)[number]
type Rule = RuleFor<Persona>
type Scenario = ScenarioOf<Persona, World>

const everybody = personas
const signedIn: readonly Persona[] = ['other', 'former', 'assignee', 'owner', 'admin']
const whoSeeTheTask: readonly Persona[] = ['assignee', 'owner', 'admin']
/** In requests about members, `other` is an editor of the project or a member of the team. */
const whoManage: readonly Persona[] = ['owner', 'admin']

/** `owner` owns the task, its tag, a session and an API token, and is the user in operations on users. */
const rules: Partial<Record<Permission, Rule>> = {
  anyone: { see: everybody, may: everybody },
  'session.see': { see: ['owner'], may: ['owner'] },
  'session.end': { see: signedIn, may: signedIn },
  'session.end_other': { see: ['owner'], may: ['owner'] },
  'session.reauthenticate': { see: signedIn, may: signedIn },
  'password.change': { see: signedIn, may: signedIn },
  'api_token.see': { see: ['owner'], may: ['owner'] },
  'api_token.create': { see: signedIn, may: signedIn },
  'api_token.revoke': { see: ['owner'], may: ['owner'] },
  'api_token.see_any': { see: signedIn, may: ['admin'] },
  'api_token.revoke_any': { see: signedIn, may: ['admin'] },
  'second_factor.see': { see: signedIn, may: signedIn },
  'second_factor.change': { see: signedIn, may: signedIn },
  'identity.see': { see: ['owner'], may: ['owner'] },
  'identity.link': { see: signedIn, may: signedIn },
  'identity.unlink': { see: ['owner'], may: ['owner'] },
  'audit.see': { see: signedIn, may: ['admin'] },
  'user.see': { see: signedIn, may: signedIn },
  'user.see_private': { see: signedIn, may: ['owner', 'admin'] },
  'user.create': { see: signedIn, may: ['admin'] },
  'user.change': { see: signedIn, may: ['owner', 'admin'] },
  'user.delete': { see: signedIn, may: ['owner', 'admin'] },
  'user.set_password': { see: signedIn, may: ['admin'] },
  'task.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task.create': { see: signedIn, may: signedIn },
  'task.batch': { see: signedIn, may: signedIn },
  'task.change': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task.move': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'task.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'trash.see': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'trash.restore': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'trash.delete': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'event.stream': { see: signedIn, may: signedIn },
  'event.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'notification.see': { see: ['owner'], may: ['owner'] },
  'notification.change': { see: ['owner'], may: ['owner'] },
  'export.see': { see: ['owner'], may: ['owner'] },
  'export.create': { see: signedIn, may: signedIn },
  'export.change': { see: ['owner'], may: ['owner'] },
  'import.see': { see: ['owner'], may: ['owner'] },
  'import.create': { see: signedIn, may: signedIn },
  'import.change': { see: ['owner'], may: ['owner'] },
  'reminder.see': { see: ['owner'], may: ['owner'] },
  'reminder.change': { see: ['owner'], may: ['owner'] },
  'notification.mark_read': { see: signedIn, may: signedIn },
  'notification_settings.see': { see: signedIn, may: signedIn },
  'notification_settings.change': { see: signedIn, may: signedIn },
  'attachment.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'attachment.add': { see: whoSeeTheTask, may: whoSeeTheTask },
  'attachment.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'upload.continue': { see: ['owner'], may: ['owner'] },
  'comment.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'comment.add': { see: whoSeeTheTask, may: whoSeeTheTask },
  'comment.change': { see: whoSeeTheTask, may: ['owner'] },
  'comment.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'tag.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'tag.create': { see: signedIn, may: signedIn },
  'tag.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'task_tag.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task_tag.change': { see: whoSeeTheTask, may: whoSeeTheTask },
  'project.create': { see: signedIn, may: signedIn },
  'project.see': { see: whoManage, may: whoManage },
  'project.edit': { see: whoManage, may: whoManage },
  'project.manage': { see: whoManage, may: whoManage },
  'invitation.accept': { see: signedIn, may: signedIn },
  'project_member.remove': { see: ['other', ...whoManage], may: ['other', ...whoManage] },
  'team.see': { see: whoManage, may: whoManage },
  'team.create': { see: signedIn, may: signedIn },
  'team.manage': { see: whoManage, may: whoManage },
  'team_member.remove': { see: ['other', ...whoManage], may: ['other', ...whoManage] },
  'project_trash.see': { see: whoManage, may: whoManage },
  'project_trash.restore': { see: whoManage, may: whoManage },
  'project_trash.delete': { see: whoManage, may: whoManage },
  'webhook.see': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'webhook.create': { see: signedIn, may: signedIn },
  'webhook.change': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'feed.see': { see: ['owner'], may: ['owner'] },
  'feed.create': { see: signedIn, may: signedIn },
  'feed.change': { see: ['owner'], may: ['owner'] },
  'mcp.use': { see: signedIn, may: signedIn },
  'recurrence.preview': { see: signedIn, may: signedIn },
}

const adminOnly: Rule = { see: signedIn, may: ['admin'] }
const nobody: Rule = { see: signedIn, may: [] }
const hidden: Rule = { see: [], may: [] }
const transfer: Rule = { see: whoSeeTheTask, may: ['owner', 'admin'] }

const membersSee: Rule = { see: ['other', ...whoManage], may: ['other', ...whoManage] }

const service = await startService(t)
const admin = await service.register('admin')
const { newWorld } = await prepareOperations(service, admin)
const world = await newWorld()

/** An account outside of all worlds. */
const outsider = await service.register('outsider')

/** The account of the persona, or for anonymous requests the owner's. */
const targetOf = (world: World, persona: Persona): Account =>
  persona === 'anonymous' ? world.owner : world[persona]

const ownerRequest = ({ owner }: World) => ({ params: { user_id: owner.id } })
const taskRequest = async ({ newTask }: World) => ({ params: { task_id: (await newTask()).id } })
const trashedTaskRequest = async ({ newTrashedTask }: World) => ({
  params: { task_id: (await newTrashedTask()).id },
})
const looseTagRequest = async ({ newTag, owner }: World) => ({ params: { tag_id: (await newTag(owner)).id } })
const newAddress = ({ newName }: World) => ({ email: `${newName()}@example.com` })

const taskOwner: Rule = { see: ['owner', 'admin'], may: ['owner', 'admin'] }

/** A PUT body for the owner's account. */
const replacementOf = (world: World) => ({
  username: world.newName(),
  email: world.owner.email,
  display_name: 'Replaced',
  role: 'member',
})

/** A comment by the assignee. */
const commentOfAssigneeRequest = async (world: World) => {
  const request = { ...(await taskRequest(world)), token: world.assignee.token, body: { body: 'A comment' } }
  return { params: { comment_id: (await service.expect('createComment', 201, request)).body.id } }
}

/** A comment by somebody who can no longer see the task. */
const commentOfFormerRequest = async ({ newComment, former }: World) => ({
  params: { comment_id: (await newComment(former)).id },
})

/** Scenarios beyond the registry's requests. */
const scenarios: Partial<Record<OperationId, readonly Scenario[]>> = {
  getProjectMember: [{ rule: membersSee }],
  getTeamMember: [{ rule: membersSee }],
  setTeamMember: [{ rule: { see: ['other', ...whoManage], may: whoManage } }],
  setProjectMember: [{ rule: { see: ['other', ...whoManage], may: whoManage } }],
  setUserPassword: [
    {
      what: 'own password',
      rule: nobody,
      request: (world, persona) => ({
        params: { user_id: targetOf(world, persona).id },
        body: { password: 'another password' },
      }),
    },
  ],
  listUserApiTokens: [
    {
      what: 'own tokens',
      request: (world, persona) => ({ params: { user_id: targetOf(world, persona).id } }),
    },
  ],
  createUser: [
    {
      what: 'an administrator',
      inSessionOnly: true,
      request: (world) => ({
        body: { ...replacementOf(world), ...newAddress(world), role: 'admin', password: 'a good password' },
      }),
    },
  ],
  // The owner is not among the newest users.
  listUsers: [{ request: () => ({ query: { limit: 200 } }) }],
  getUser: [
    {
      check: (t, { body }, persona) => {
        const { email } = body as Schemas['User']
        t.equal(
          email !== null,
          ['owner', 'admin'].includes(persona),
          'only the user and administrators see the email address',
        )
      },
    },
  ],
  replaceUser: [
    {
      what: 'another email address',
      inSessionOnly: true,
      request: (world) => ({
        ...ownerRequest(world),
        body: { ...replacementOf(world), ...newAddress(world) },
      }),
    },
    {
      what: 'another role',
      rule: adminOnly,
      inSessionOnly: true,
      request: (world) => ({ ...ownerRequest(world), body: { ...replacementOf(world), role: 'admin' } }),
    },
  ],
  updateUser: [
    {
      what: 'another username',
      request: (world) => ({ ...ownerRequest(world), body: { username: world.newName() } }),
    },
    {
      what: 'the same role',
      request: (world) => ({ ...ownerRequest(world), body: { display_name: 'Changed', role: 'member' } }),
    },
    {
      what: 'the same email address',
      request: (world) => ({ ...ownerRequest(world), body: { email: world.owner.email } }),
    },
    {
      what: 'another email address',
      inSessionOnly: true,
      request: (world) => ({ ...ownerRequest(world), body: newAddress(world) }),
    },
    {
      what: 'another role',
      rule: adminOnly,
      inSessionOnly: true,
      request: (world) => ({ ...ownerRequest(world), body: { role: 'admin' } }),
    },
  ],
  deleteUser: [{ inSessionOnly: ['owner'] }],

  createTask: [
    {
      what: 'assigned to somebody else',
      request: ({ former }) => ({ body: { title: 'Assigned', assignee_id: former.id } }),
    },
    {
      what: 'owned by somebody else',
      rule: adminOnly,
      request: () => ({ body: { title: 'Owned', owner_id: outsider.id } }),
    },
  ],
  batchTasks: [
    {
      what: 'changes a task',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      request: async (world) => ({
        body: { atomic: true, update: [{ ...(await taskRequest(world)).params, patch: { status: 'done' } }] },
      }),
    },
    {
      what: 'transfers a task',
      rule: transfer,
      request: async (world) => ({
        body: {
          atomic: true,
          update: [{ ...(await taskRequest(world)).params, patch: { owner_id: world.assignee.id } }],
        },
      }),
    },
    {
      what: 'deletes a task',
      rule: { see: whoSeeTheTask, may: ['owner', 'admin'] },
      request: async (world) => ({ body: { atomic: true, delete: [(await taskRequest(world)).params] } }),
    },
    {
      what: 'deletes a task in the trash',
      rule: hidden,
      request: async (world) => ({
        body: { atomic: true, delete: [(await trashedTaskRequest(world)).params] },
      }),
    },
    {
      what: 'adds a tag that is on no task',
      rule: taskOwner,
      request: async (world) => ({
        body: {
          atomic: true,
          tag: [{ ...(await taskRequest(world)).params, ...(await looseTagRequest(world)).params }],
        },
      }),
    },
    {
      what: 'removes a tag',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      async request({ newLinkedTag }) {
        const { task, tag } = await newLinkedTag()
        return { body: { atomic: true, untag: [{ task_id: task.id, tag_id: tag.id }] } }
      },
    },
    {
      what: 'creates a task owned by somebody else',
      rule: adminOnly,
      request: () => ({ body: { atomic: true, create: [{ title: 'Owned', owner_id: outsider.id }] } }),
    },
  ],
  replaceTask: [
    {
      what: 'the same owner',
      request: async (world) => ({
        ...(await taskRequest(world)),
        body: { title: 'Same', owner_id: world.owner.id },
      }),
    },
    {
      what: 'another owner',
      rule: transfer,
      request: async (world) => ({
        ...(await taskRequest(world)),
        body: { title: 'Transferred', owner_id: world.assignee.id },
      }),
    },
  ],
  updateTask: [
    {
      what: 'no assignee',
      request: async (world) => ({ ...(await taskRequest(world)), body: { assignee_id: null } }),
    },
    {
      what: 'the same owner',
      request: async (world) => ({ ...(await taskRequest(world)), body: { owner_id: world.owner.id } }),
    },
    {
      what: 'another owner',
      rule: transfer,
      request: async (world) => ({ ...(await taskRequest(world)), body: { owner_id: world.assignee.id } }),
    },
  ],
  getUploadOffset: [{ what: 'of a file to import', request: ({ newImportUpload }) => newImportUpload() }],
  appendUpload: [
    {
      what: 'of a file to import',
      async request({ newImportUpload }) {
        const { params } = await newImportUpload()
        return { params, headers: pieceHeaders(0), body: Buffer.from('title') }
      },
    },
  ],
  abortUpload: [{ what: 'of a file to import', request: ({ newImportUpload }) => newImportUpload() }],

  getTrashedTask: [{ what: 'not in the trash', rule: hidden, request: taskRequest }],

  deleteAttachment: [
    {
      what: 'attached by the assignee',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      async request(world) {
        const upload = { ...(await taskRequest(world)), token: world.assignee.token, body: fileForm('own') }
        const { body } = await service.expect('addTaskAttachment', 201, upload)
        return { params: { attach_id: body.id } }
      },
    },
  ],

  updateComment: [
    {
      what: 'by the assignee',
      rule: { see: whoSeeTheTask, may: ['assignee'] },
      request: async (world) => ({ ...(await commentOfAssigneeRequest(world)), body: { body: 'An edit' } }),
    },
    {
      what: 'by a former assignee',
      rule: { see: whoSeeTheTask, may: [] },
      request: async (world) => ({ ...(await commentOfFormerRequest(world)), body: { body: 'An edit' } }),
    },
  ],
  deleteComment: [
    {
      what: 'by the assignee',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      request: commentOfAssigneeRequest,
    },
    { what: 'by a former assignee', request: commentOfFormerRequest },
  ],

  getTag: [{ what: 'a tag that is on no task', rule: taskOwner, request: looseTagRequest }],
  deleteTag: [{ what: 'a tag that is on no task', rule: taskOwner, request: looseTagRequest }],
  addTaskTag: [
    {
      what: 'own tag',
      async request(world, persona) {
        const { id: tag_id } = await world.newTag(targetOf(world, persona))
        return { params: { ...(await taskRequest(world)).params, tag_id } }
      },
    },
    {
      what: 'a tag that is on no task',
      rule: taskOwner,
      request: async (world) => ({
        params: { ...(await taskRequest(world)).params, ...(await looseTagRequest(world)).params },
      }),
    },
  ],
}

/** An unrelated user, the owner, and an administrator. */
const holders = ['other', 'owner', 'admin'] as const

const { scenariosOf, tryScenario, snapshot, apiTokenWith } = createMatrix<Persona, World>({
  service,
  admin,
  world,
  newWorld,
  personas,
  accountOf: (world, persona) => (persona === 'anonymous' ? null : world[persona]),
  rules,
  scenarios,
  holders,
  administrator: 'admin',
})

/** A request with malformed path, query and body. The path keeps its length, because the response has it. */
const malformed = (operation: Operation, { params = {} }: Call): Call => ({
  params: Object.fromEntries(Object.entries(params).map(([name, value]) => [name, 'x'.repeat(value.length)])),
  query: 'bogus=%ff',
  ...(!isRead(operation) && { body: '{', headers: { 'content-type': 'text/nonsense' } }),
})

const callerOf = ({ id }: Operation): Account => (rows[id].caller === 'admin' ? admin : world.owner)

/** Sends the request of a permitted caller with an API token that has every scope but the operation's. */
const tryWithoutScope = async (t: Test, operation: Operation, permitted: Call) => {
  const { id, scope } = operation
  const required: readonly string[] = [scope].flat()
  const scopes = allScopes.filter(
    (one) => !required.includes(one) && !required.includes(one.replace(':write', ':read')),
  )
  const token = await apiTokenWith(callerOf(operation), scopes)
  const request = { ...permitted, token }

  const before = await snapshot()
  const reply = await service.call(id, request)
  t.equal(reply.status, 403)
  if (operation.method !== 'HEAD') t.match(reply.body, { code: 'insufficient_scope' })
  const named = scope === 'session' ? '' : `, scope="${required.join(' ')}"`
  t.equal(
    reply.headers.get('www-authenticate'),
    `Bearer realm="taskwright", error="insufficient_scope"${named}`,
  )
  for (const other of [...requestsForNothing(request), { ...malformed(operation, request), token }]) {
    t.equal(
      anonymized(await service.call(id, other)),
      anonymized(reply),
      'same response for missing resources and malformed requests',
    )
  }
  t.strictSame(await snapshot(), before, 'nothing was changed')
}

/** What only the operations of the trash find. */
const trashed: Readonly<Record<string, string>> = {
  task_id: (await world.newTrashedTask()).id,
  project_id: (await world.newTrashedProject()).id,
}

/** Sends the request of a permitted caller with unknown ids, and with those of a task and a project in the trash. */
const tryNothing = async (t: Test, operation: Operation, { params = {}, ...request }: Call) => {
  const path = Object.fromEntries(pathParameters(operation).map((name) => [name, params[name] ?? '']))
  const isOfTrash = /^(project_)?trash/.test(operation.permission)
  const inTrash = Object.entries(path).flatMap(([name]) => {
    const id = isOfTrash ? undefined : trashed[name]
    return id === undefined ? [] : [{ ...request, params: { ...path, [name]: id } }]
  })
  for (const forNothing of [...requestsForNothing({ ...request, params: path }), ...inTrash]) {
    const { status } = await service.call(operation.id, { token: callerOf(operation).token, ...forNothing })
    t.equal(status, 404, JSON.stringify(forNothing.params))
  }
}

for (const operation of operations) {
  t.test(operation.id, async (t) => {
    const { id, scope, permission } = operation
    t.strictSame([scope, permission], rows[id].access, 'the contract agrees with the registry')
    for (const scenario of scenariosOf(operation)) {
      await t.test(scenario.what ?? 'request of the registry', (t) => tryScenario(t, operation, scenario))
    }
    if (scope === 'none' || scope === 'any' || scope === 'link') return
    const request = await rows[id].request(world, callerOf(operation))
    await t.test('404 for nothing and for what is in the trash', (t) => tryNothing(t, operation, request))
    await t.test('403 for an API token without the scope', (t) => tryWithoutScope(t, operation, request))
  })
}

t.test('403 or 422 for ids in a body', async (t) => {
  const world = await newWorld()
  const { owner, assignee, other } = world
  const { task, tag } = await world.newLinkedTag()
  const taskRequest = { params: { task_id: task.id } }
  const strangers = { token: other.token, body: { name: 'of a stranger' } }
  const { body: foreignTag } = await service.expect('createTag', 201, strangers)

  const refuse = async (
    name: string,
    id: OperationId,
    status: 403 | 404 | 422,
    request: Call,
    pointer = '',
  ) => {
    const before = await snapshot()
    const { status: received, body } = await service.call(id, { token: owner.token, ...request })
    t.equal(received, status, name)
    if (pointer !== '') t.equal((body as Schemas['Problem']).errors?.[0]?.pointer, pointer)
    t.strictSame(await snapshot(), before, `${name}: nothing was changed`)
    return body as Schemas['Problem']
  }

  for (const [id, rest] of [
    ['createTask', {}],
    ['replaceTask', taskRequest],
    ['updateTask', taskRequest],
  ] as const) {
    const body = { title: 'Refused', assignee_id: newId() }
    await refuse(`${id} for an assignee who does not exist`, id, 422, { ...rest, body }, '/assignee_id')
  }
  for (const id of ['replaceTask', 'updateTask'] as const) {
    const body = { title: 'Refused', owner_id: newId() }
    const nobody = { ...taskRequest, body }
    await refuse(`${id} to an owner who does not exist`, id, 422, nobody, '/owner_id')
    await refuse(`${id} by the assignee`, id, 403, { ...nobody, token: assignee.token })
  }
  const forNobody = { token: admin.token, body: { title: 'Refused', owner_id: newId() } }
  await refuse('createTask by an administrator for nobody', 'createTask', 422, forNobody, '/owner_id')

  const foreign = await refuse(
    'createTask with a tag that the caller cannot see',
    'createTask',
    422,
    { body: { title: 'Refused', tag_ids: [tag.id, foreignTag.id] } },
    '/tag_ids/1',
  )
  const missing = await refuse(
    'createTask with a tag that does not exist',
    'createTask',
    422,
    { body: { title: 'Refused', tag_ids: [tag.id, newId()] } },
    '/tag_ids/1',
  )
  t.equal(foreign.detail, missing.detail, 'same detail as for a missing tag')
})

t.test('400 for read-only fields in a creation', async (t) => {
  const world = await newWorld()
  const { owner } = world
  const { task, tag } = await world.newLinkedTag()
  const user = {
    ...owner.user,
    username: 'refused',
    email: 'refused@example.com',
    password: 'a good password',
  }
  const rows = [
    { id: 'register', request: {}, read: { ...user, role: 'admin' }, schema: 'Registration' },
    { id: 'createUser', request: { token: admin.token }, read: user, schema: 'UserCreate' },
    { id: 'createTask', request: {}, read: task, schema: 'TaskCreate' },
    { id: 'createTag', request: {}, read: { ...tag, name: 'refused' }, schema: 'TagCreate' },
    { id: 'createApiToken', request: {}, read: await world.newApiToken(owner), schema: 'ApiTokenCreate' },
  ] as const

  for (const { id, request, read, schema } of rows) {
    await t.test(id, async (t) => {
      const writable = writableFields(schema)
      const entries: [string, unknown][] = Object.entries(read)
      const good = Object.fromEntries(entries.filter(([name]) => writable.has(name)))
      const readOnly = entries.filter(([name]) => !writable.has(name))
      t.ok(readOnly.length > 0, 'there are read-only fields')
      const before = await snapshot()
      for (const [name, value] of readOnly) {
        const token = id === 'register' ? undefined : owner.token
        const body = { ...good, [name]: value }
        const reply = await service.call(id, { token, ...request, body })
        t.equal(reply.status, 400, name)
        t.equal((reply.body as Schemas['Problem']).errors?.[0]?.pointer, `/${name}`)
      }
      t.strictSame(await snapshot(), before, 'nothing was changed')
    })
  }
})

function writableFields(schema: string): Set<string> {
  const { components } = loadContract().document as {
    components: { schemas: Record<string, { properties: object }> }
  }
  return new Set(Object.keys(components.schemas[schema]?.properties ?? {}))
}
