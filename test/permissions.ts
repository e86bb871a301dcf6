import t, { type Test } from 'tap'
import type { components } from '../generated/openapi.ts'
import { type ContractOperation, loadContract, type OperationId } from '../src/contract/contract.ts'
import { newId } from '../src/db/engine/ids.ts'
import type { Permission } from '../src/domain/permissions.ts'
import type { RequiredScope, Scope } from '../src/domain/scopes.ts'
import { accountActions } from './fixture/accounts.ts'
import { eventually } from './fixture/eventually.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from './fixture/uploads.ts'
import { authenticator, secondFactorActions } from './fixture/second-factor.ts'
import { blackPng } from './fixture/images.ts'
import { type Account, type Call, fileForm, type Reply, startService } from './fixture/service.ts'

/**
 * Every operation of the contract, asked by everybody who could ask, in a session and with API tokens. What is expected
 * comes from the operation's x-permission and x-scope and from the tables below, which say who may do what in words of
 * their own: a rule of the service that is wrong does not agree with them.
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

/** `owner` owns the task, its tag, a session and an API token, and is the user whom the operations on a user are about. */
const rules: Readonly<Record<string, Rule>> = {
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
  'audit.see': { see: signedIn, may: ['admin'] },
  'user.see': { see: signedIn, may: signedIn },
  'user.create': { see: signedIn, may: ['admin'] },
  'user.change': { see: signedIn, may: ['owner', 'admin'] },
  'user.delete': { see: signedIn, may: ['owner', 'admin'] },
  'user.set_password': { see: signedIn, may: ['admin'] },
  'task.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task.create': { see: signedIn, may: signedIn },
  'task.batch': { see: signedIn, may: signedIn },
  'task.change': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'trash.see': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'trash.restore': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'trash.delete': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'attachment.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'attachment.add': { see: whoSeeTheTask, may: whoSeeTheTask },
  'attachment.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'upload.continue': { see: ['owner'], may: ['owner'] },
  'tag.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'tag.create': { see: signedIn, may: signedIn },
  'tag.delete': { see: whoSeeTheTask, may: ['owner', 'admin'] },
  'task_tag.see': { see: whoSeeTheTask, may: whoSeeTheTask },
  'task_tag.change': { see: whoSeeTheTask, may: whoSeeTheTask },
}

/** What the contract has to say of each operation; a scope or a rule that lets more in would else pass by its own word. */
const declared: Readonly<Record<OperationId, readonly [RequiredScope, Permission]>> = {
  register: ['none', 'anyone'],
  login: ['none', 'anyone'],
  completeLogin: ['none', 'anyone'],
  refreshToken: ['none', 'anyone'],
  logout: ['session', 'session.end'],
  reauthenticate: ['session', 'session.reauthenticate'],
  undoEmailChange: ['none', 'anyone'],
  getCurrentUser: ['users:read', 'user.see'],

  listSessions: ['session', 'session.see'],
  revokeSession: ['session', 'session.end_other'],

  changePassword: ['session', 'password.change'],
  forgotPassword: ['none', 'anyone'],
  resetPassword: ['none', 'anyone'],
  setUserPassword: ['session', 'user.set_password'],

  listApiTokens: ['session', 'api_token.see'],
  createApiToken: ['session', 'api_token.create'],
  revokeApiToken: ['session', 'api_token.revoke'],
  listUserApiTokens: ['session', 'api_token.see_any'],
  revokeUserApiToken: ['session', 'api_token.revoke_any'],

  getSecondFactor: ['session', 'second_factor.see'],
  enrolSecondFactor: ['session', 'second_factor.change'],
  confirmSecondFactor: ['session', 'second_factor.change'],
  disableSecondFactor: ['session', 'second_factor.change'],

  listAuditEvents: ['session', 'audit.see'],

  listUsers: ['users:read', 'user.see'],
  createUser: ['users:write', 'user.create'],
  getUser: ['users:read', 'user.see'],
  replaceUser: ['users:write', 'user.change'],
  updateUser: ['users:write', 'user.change'],
  deleteUser: ['users:write', 'user.delete'],
  listUserTasks: ['tasks:read', 'task.see'],

  listTasks: ['tasks:read', 'task.see'],
  listTaskChanges: ['tasks:read', 'task.see'],
  createTask: ['tasks:write', 'task.create'],
  batchTasks: ['tasks:write', 'task.batch'],
  getTask: ['tasks:read', 'task.see'],
  replaceTask: ['tasks:write', 'task.change'],
  updateTask: ['tasks:write', 'task.change'],
  deleteTask: ['tasks:write', 'task.delete'],

  listTrash: ['tasks:read', 'trash.see'],
  getTrashedTask: ['tasks:read', 'trash.see'],
  restoreTask: ['tasks:write', 'trash.restore'],
  deleteTrashedTask: ['tasks:write', 'trash.delete'],

  listTaskAttachments: ['attachments:read', 'attachment.see'],
  addTaskAttachment: ['attachments:write', 'attachment.add'],
  downloadAttachment: ['attachments:read', 'attachment.see'],
  getThumbnail: ['attachments:read', 'attachment.see'],
  deleteAttachment: ['attachments:write', 'attachment.delete'],

  getUploadOptions: ['none', 'anyone'],
  createUpload: ['attachments:write', 'attachment.add'],
  getUploadOffset: ['attachments:write', 'upload.continue'],
  appendUpload: ['attachments:write', 'upload.continue'],
  abortUpload: ['attachments:write', 'upload.continue'],

  listTags: ['tags:read', 'tag.see'],
  createTag: ['tags:write', 'tag.create'],
  getTag: ['tags:read', 'tag.see'],
  deleteTag: ['tags:write', 'tag.delete'],

  listTaskTags: ['tags:read', 'task_tag.see'],
  addTaskTag: ['tasks:write', 'task_tag.change'],
  removeTaskTag: ['tasks:write', 'task_tag.change'],

  getLiveness: ['none', 'anyone'],
  getReadiness: ['none', 'anyone'],
  getContract: ['none', 'anyone'],
  getContractJson: ['none', 'anyone'],
}

const adminOnly: Rule = { see: signedIn, may: ['admin'] }
const whoHaveTheTask: readonly Persona[] = ['assignee', 'owner']
const nobody: Rule = { see: signedIn, may: [] }
const transfer: Rule = { see: whoSeeTheTask, may: ['owner', 'admin'] }

const outcomeOf = (rule: Rule, persona: Persona): Outcome => {
  if (persona === 'anonymous' && !rule.may.includes('anonymous')) return 401
  if (!rule.see.includes(persona)) return 404
  return rule.may.includes(persona) ? 'allowed' : 403
}

/** What cells of the matrix work on: what `owner` has, among the people who do not own it. */
interface World {
  readonly people: Readonly<Record<Exclude<Persona, 'anonymous'>, Account>>
  readonly task: Schemas['Task']
  /** On the task. */
  readonly tag: Schemas['Tag']
  /** The owner's, and on no task. */
  readonly looseTag: Schemas['Tag']
  /** An image; attached by `former`. */
  readonly attachment: Schemas['Attachment']
}

interface Scenario {
  /** What is special about it. */
  readonly what?: string
  /** Where a part of the operation has a rule that is finer than the operation's own. */
  readonly rule?: Rule
  /** No API token may do it, or none of these personas', although its scope is right. */
  readonly inSessionOnly?: true | readonly Persona[]
  /** What is no use to another cell once it is done: who may do it has one of their own. */
  readonly spoils?: Part
  readonly request?: (world: World, persona: Persona) => Call | Promise<Call>
  /** For a list that everybody may ask for: the item that only those see who pass the operation's rule. */
  readonly lists?: (world: World) => string | Promise<string>
  /** Whose list holds the item, if not that of everybody who passes the operation's rule. */
  readonly listedFor?: readonly Persona[]
  readonly check?: (t: Test, reply: Reply, persona: Persona) => void | Promise<void>
}

const service = await startService(t)
const contract = loadContract()
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const { guard, challengeOf } = secondFactorActions(service)
const bystanders = {
  admin,
  other: await service.register('other'),
  former: await service.register('former'),
  assignee: await service.register('assignee'),
}
/** Who is in no world. */
const outsider = await service.register('outsider')

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
  const upload = { token: former.token, params, body: fileForm(blackPng({ width: 8, height: 8 })) }
  const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
  const { body: task } = await service.expect('updateTask', 200, {
    token,
    params,
    body: { assignee_id: assignee.id },
  })
  return { people: { ...bystanders, owner }, task, tag, looseTag, attachment }
}

/** What a world can have another one of. */
type Part = 'owner' | 'task' | 'tag' | 'looseTag' | 'attachment'

/** The same world with another one of a part. */
const renewed: Readonly<Record<Part, (world: World) => Promise<World>>> = {
  owner: () => newWorld(),
  async task(world) {
    const { owner, assignee } = world.people
    const body = { title: 'Another of the owner', assignee_id: assignee.id, tag_ids: [world.tag.id] }
    const { body: task } = await service.expect('createTask', 201, { token: owner.token, body })
    return { ...world, task }
  },
  async tag(world) {
    const { token } = world.people.owner
    const { body: tag } = await service.expect('createTag', 201, { token, body: { name: unique() } })
    const params = { task_id: world.task.id, tag_id: tag.id }
    await service.expect('addTaskTag', 204, { token, params })
    return { ...world, tag }
  },
  async looseTag(world) {
    const { token } = world.people.owner
    const { body: looseTag } = await service.expect('createTag', 201, { token, body: { name: unique() } })
    return { ...world, looseTag }
  },
  async attachment(world) {
    const upload = { ...ofTask(world), token: world.people.assignee.token, body: fileForm('another') }
    const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
    return { ...world, attachment }
  },
}

const tokenOf = ({ people }: World, persona: Persona): string | undefined =>
  persona === 'anonymous' ? undefined : people[persona].token

const ofTask = ({ task }: World) => ({ params: { task_id: task.id } })
const ofTag = ({ tag }: World) => ({ params: { tag_id: tag.id } })
const ofLink = ({ task, tag }: World) => ({ params: { task_id: task.id, tag_id: tag.id } })
const ofAttachment = ({ attachment }: World) => ({ params: { attach_id: attachment.id } })
/** An upload that the owner has begun. */
const ofUpload = async (world: World) => {
  const { owner } = world.people
  const begun = { ...ofTask(world), token: owner.token, headers: tusHeaders(5) }
  const { headers } = await service.expect('createUpload', 201, begun)
  return { params: { upload_id: uploadIdIn(headers) }, headers: { 'tus-resumable': '1.0.0' } }
}
const ofOwner = ({ people }: World) => ({ params: { user_id: people.owner.id } })

/** Another task of the owner's with the same assignee, which is in the trash. */
const ofTrashedTask = async ({ people: { owner, assignee } }: World) => {
  const { token } = owner
  const body = { title: 'Deleted', assignee_id: assignee.id }
  const { id } = (await service.expect('createTask', 201, { token, body })).body
  const params = { task_id: id }
  await service.expect('deleteTask', 204, { token, params })
  return { params }
}

/** What `all=true` makes of a list. */
const ofEverything = { what: 'of everything', rule: adminOnly, request: () => ({ query: { all: true } }) }

const newUser = () => {
  const username = unique()
  return { username, email: `${username}@example.com`, password: 'a good password' }
}

/** A session that may end without taking the others of the account with it. */
const newSession = async ({ email, password }: Account) =>
  (await service.expect('login', 200, { body: { email, password } })).body

/** An account that nobody else needs. */
const newAccount = (): Promise<Account> => service.register(unique())

/** Somebody like the persona, who may change how they sign in. */
const doubleOf = async (persona: Persona): Promise<Account> => {
  const double = await newAccount()
  if (persona === 'admin') {
    const promotion = { params: { user_id: double.id }, body: { role: 'admin' } }
    await service.expect('updateUser', 200, { token: admin.token, ...promotion })
  }
  return double
}

/** A request that changes how the one who makes it signs in, and is made by a double of the persona. */
const byDouble =
  (request: (account: Account) => Call | Promise<Call>) =>
  async (_world: World, persona: Persona): Promise<Call> => {
    const double = await doubleOf(persona)
    return { ...(await request(double)), token: persona === 'anonymous' ? undefined : double.token }
  }

const allScopes: readonly Scope[] = [
  'tasks:read',
  'tasks:write',
  'tags:read',
  'tags:write',
  'attachments:read',
  'attachments:write',
  'users:read',
  'users:write',
]

/** The id of the newest item of a list of the owner's. */
const newestOf =
  (operation: 'listSessions' | 'listApiTokens' | 'listTrash') =>
  async ({ people: { owner } }: World): Promise<string> => {
    const { body } = await service.expect(operation, 200, { token: owner.token })
    return body.items[0]?.id ?? ''
  }

/** A code for a second factor that waits to be confirmed. */
const enrol = async ({ token, password }: Account): Promise<string> => {
  const { body } = await service.expect('enrolSecondFactor', 201, { token, body: { password } })
  return authenticator(body.secret)()
}

const scenarios: Readonly<Record<OperationId, readonly Scenario[]>> = {
  register: [{ request: () => ({ body: newUser() }) }],
  login: [
    { request: ({ people: { owner } }) => ({ body: { email: owner.email, password: owner.password } }) },
  ],
  refreshToken: [
    {
      request: async ({ people: { owner } }) => ({
        body: { refresh_token: (await newSession(owner)).refresh_token },
      }),
    },
  ],
  completeLogin: [
    {
      async request() {
        const { codeAt, ...account } = await guard(await newAccount())
        return { body: { challenge: await challengeOf(account), code: codeAt() } }
      },
    },
  ],
  logout: [
    {
      request: async ({ people }, persona) =>
        persona === 'anonymous' ? {} : { token: (await newSession(people[persona])).access_token },
    },
  ],
  reauthenticate: [{ request: byDouble(({ password }) => ({ body: { password } })) }],
  undoEmailChange: [
    {
      async request() {
        const { id, token } = await newAccount()
        await service.expect('updateUser', 200, { token, params: { user_id: id }, body: newAddress() })
        return { body: { token: service.emailChanges.at(-1)?.undoToken } }
      },
    },
  ],
  getCurrentUser: [{}],

  listSessions: [{ lists: newestOf('listSessions') }],
  revokeSession: [
    {
      async request(world) {
        await newSession(world.people.owner)
        return { params: { session_id: await newestOf('listSessions')(world) } }
      },
    },
  ],

  changePassword: [
    {
      request: byDouble(({ password }) => ({
        body: { current_password: password, new_password: 'another password' },
      })),
    },
  ],
  forgotPassword: [{ request: ({ people: { owner } }) => ({ body: { email: owner.email } }) }],
  resetPassword: [
    {
      async request() {
        const { email } = await newAccount()
        await service.expect('forgotPassword', 202, { body: { email } })
        return { body: { token: service.mails.at(-1)?.token, new_password: 'another password' } }
      },
    },
  ],
  setUserPassword: [
    { spoils: 'owner', request: (world) => ({ ...ofOwner(world), body: { password: 'another password' } }) },
    {
      what: 'of their own',
      rule: nobody,
      request: (world, persona) => ({
        params: { user_id: world.people[persona === 'anonymous' ? 'owner' : persona].id },
        body: { password: 'another password' },
      }),
    },
  ],

  listApiTokens: [
    {
      async request({ people: { owner } }) {
        await createApiToken(owner)
        return {}
      },
      lists: newestOf('listApiTokens'),
    },
  ],
  createApiToken: [{ request: () => ({ body: { name: 'A program', scopes: ['tasks:read'] } }) }],
  revokeApiToken: [
    {
      request: async ({ people: { owner } }) => ({
        params: { token_id: (await createApiToken(owner)).id },
      }),
    },
  ],
  listUserApiTokens: [
    { request: ofOwner },
    {
      what: 'of their own',
      request: ({ people }, persona) => ({
        params: { user_id: people[persona === 'anonymous' ? 'owner' : persona].id },
      }),
    },
  ],
  revokeUserApiToken: [
    {
      request: async (world) => {
        const { owner } = world.people
        return { params: { user_id: owner.id, token_id: (await createApiToken(owner)).id } }
      },
    },
  ],

  getSecondFactor: [{}],
  enrolSecondFactor: [{ request: byDouble(({ password }) => ({ body: { password } })) }],
  confirmSecondFactor: [{ request: byDouble(async (account) => ({ body: { code: await enrol(account) } })) }],
  disableSecondFactor: [
    {
      request: byDouble(async (account) => ({
        body: { password: account.password, code: (await guard(account)).codeAt() },
      })),
    },
  ],

  listAuditEvents: [{}],

  listUsers: [{ lists: ({ people }) => people.owner.id }],
  createUser: [
    { request: () => ({ body: newUser() }) },
    {
      what: 'who is an administrator',
      inSessionOnly: true,
      request: () => ({ body: { ...newUser(), role: 'admin' } }),
    },
  ],
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
    { request: (world) => ({ ...ofOwner(world), body: { ...nameOf(world), role: 'member' } }) },
    {
      what: 'with another address',
      inSessionOnly: true,
      spoils: 'owner',
      request: (world) => ({
        ...ofOwner(world),
        body: { ...nameOf(world), ...newAddress(), role: 'member' },
      }),
    },
    {
      what: 'with another role',
      rule: adminOnly,
      inSessionOnly: true,
      spoils: 'owner',
      request: (world) => ({ ...ofOwner(world), body: { ...nameOf(world), role: 'admin' } }),
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
      what: 'with the address that it has',
      request: (world) => ({ ...ofOwner(world), body: { email: world.people.owner.email } }),
    },
    {
      what: 'with another address',
      inSessionOnly: true,
      spoils: 'owner',
      request: (world) => ({ ...ofOwner(world), body: newAddress() }),
    },
    {
      what: 'with another role',
      rule: adminOnly,
      inSessionOnly: true,
      spoils: 'owner',
      request: (world) => ({ ...ofOwner(world), body: { role: 'admin' } }),
    },
  ],
  deleteUser: [{ inSessionOnly: ['owner'], spoils: 'owner', request: ofOwner }],
  listUserTasks: [{ request: ofOwner, lists: ({ task }) => task.id }],

  listTasks: [
    { lists: ({ task }) => task.id, listedFor: whoHaveTheTask },
    { ...ofEverything, lists: ({ task }) => task.id },
  ],
  listTaskChanges: [
    {
      rule: { see: signedIn, may: signedIn },
      request: () => ({ query: { limit: 200 } }),
      check: async (t, { body }, persona) => {
        const { task } = await shared
        const { changed } = body as Schemas['TaskChanges']
        const isTold = changed.some(({ id }) => id === task.id)
        t.equal(isTold, whoHaveTheTask.includes(persona), 'their feed has what is theirs')
      },
    },
    {
      ...ofEverything,
      request: () => ({ query: { limit: 200, all: true } }),
      check: async (t, { body }) => {
        const { task } = await shared
        const { changed } = body as Schemas['TaskChanges']
        t.ok(changed.some(({ id }) => id === task.id))
      },
    },
  ],
  createTask: [
    { request: () => ({ body: { title: 'Mine' } }) },
    {
      what: 'assigned to somebody else',
      request: ({ people }) => ({ body: { title: 'Yours', assignee_id: people.former.id } }),
    },
    {
      what: 'that somebody else is to own',
      rule: adminOnly,
      request: () => ({ body: { title: 'Yours', owner_id: outsider.id } }),
    },
  ],
  batchTasks: [
    { request: () => ({ body: { create: [{ title: 'Mine' }] } }) },
    {
      what: 'of which one is changed',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      request: ({ task }) => ({
        body: { atomic: true, update: [{ task_id: task.id, patch: { status: 'done' } }] },
      }),
    },
    {
      what: 'of which one is passed on',
      rule: transfer,
      spoils: 'task',
      request: ({ task, people }) => ({
        body: { atomic: true, update: [{ task_id: task.id, patch: { owner_id: people.assignee.id } }] },
      }),
    },
    {
      what: 'of which one is deleted',
      rule: { see: whoSeeTheTask, may: ['owner', 'admin'] },
      spoils: 'task',
      request: ({ task }) => ({ body: { atomic: true, delete: [{ task_id: task.id }] } }),
    },
    {
      what: 'of which one is in the trash',
      rule: { see: [], may: [] },
      request: async (world) => ({ body: { atomic: true, delete: [(await ofTrashedTask(world)).params] } }),
    },
    {
      what: 'of which one gets a tag that is on no task',
      rule: { see: ['owner', 'admin'], may: ['owner', 'admin'] },
      spoils: 'looseTag',
      request: ({ task, looseTag }) => ({
        body: { atomic: true, tag: [{ task_id: task.id, tag_id: looseTag.id }] },
      }),
    },
    {
      what: 'of which one loses its tag',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      spoils: 'task',
      request: ({ task, tag }) => ({ body: { atomic: true, untag: [{ task_id: task.id, tag_id: tag.id }] } }),
    },
    {
      what: 'that somebody else is to own',
      rule: adminOnly,
      request: () => ({ body: { atomic: true, create: [{ title: 'Yours', owner_id: outsider.id }] } }),
    },
  ],
  getTask: [
    { request: ofTask },
    { what: 'that is in the trash', rule: { see: [], may: [] }, request: ofTrashedTask },
  ],
  replaceTask: [
    { spoils: 'task', request: (world) => ({ ...ofTask(world), body: { title: 'Replaced' } }) },
    {
      what: 'with the owner that it has',
      spoils: 'task',
      request: (world) => ({ ...ofTask(world), body: { title: 'Same', owner_id: world.people.owner.id } }),
    },
    {
      what: 'with another owner',
      rule: transfer,
      spoils: 'task',
      request: (world) => ({ ...ofTask(world), body: { title: 'Mine', owner_id: world.people.assignee.id } }),
    },
  ],
  updateTask: [
    { request: (world) => ({ ...ofTask(world), body: { status: 'done' } }) },
    {
      what: 'to unassigned',
      spoils: 'task',
      request: (world) => ({ ...ofTask(world), body: { assignee_id: null } }),
    },
    {
      what: 'with the owner that it has',
      request: (world) => ({ ...ofTask(world), body: { owner_id: world.people.owner.id } }),
    },
    {
      what: 'with another owner',
      rule: transfer,
      spoils: 'task',
      request: (world) => ({ ...ofTask(world), body: { owner_id: world.people.assignee.id } }),
    },
  ],
  deleteTask: [
    { spoils: 'task', request: ofTask },
    { what: 'that is in the trash', rule: { see: [], may: [] }, request: ofTrashedTask },
  ],

  listTrash: [
    {
      async request(world) {
        await ofTrashedTask(world)
        return {}
      },
      lists: newestOf('listTrash'),
      listedFor: ['owner'],
    },
    {
      ...ofEverything,
      async request(world) {
        await ofTrashedTask(world)
        return { query: { all: true } }
      },
      lists: newestOf('listTrash'),
    },
  ],
  getTrashedTask: [
    { request: ofTrashedTask },
    { what: 'that is not in the trash', rule: { see: [], may: [] }, request: ofTask },
  ],
  restoreTask: [{ request: ofTrashedTask }],
  deleteTrashedTask: [{ request: ofTrashedTask }],

  listTaskAttachments: [{ request: ofTask }],
  addTaskAttachment: [{ request: (world) => ({ ...ofTask(world), body: fileForm('more') }) }],
  downloadAttachment: [{ request: ofAttachment }],
  getThumbnail: [{ request: ofAttachment }],
  deleteAttachment: [
    { spoils: 'attachment', request: ofAttachment },
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

  getUploadOptions: [{ request: ofTask }],
  createUpload: [{ request: (world) => ({ ...ofTask(world), headers: tusHeaders(5) }) }],
  getUploadOffset: [{ request: ofUpload }],
  appendUpload: [
    {
      async request(world) {
        const { params, headers } = await ofUpload(world)
        return { params, headers: { ...headers, ...pieceHeaders(0) }, body: Buffer.from('hello') }
      },
    },
  ],
  abortUpload: [{ request: ofUpload }],

  listTags: [
    { lists: ({ tag }) => tag.id, listedFor: whoHaveTheTask },
    { ...ofEverything, lists: ({ tag }) => tag.id },
  ],
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
    { spoils: 'tag', request: ofTag },
    {
      what: 'that is on no task',
      spoils: 'looseTag',
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
      spoils: 'looseTag',
      request: ({ task, looseTag }) => ({ params: { task_id: task.id, tag_id: looseTag.id } }),
    },
  ],
  removeTaskTag: [{ spoils: 'task', request: ofLink }],

  getLiveness: [{}],
  getReadiness: [{}],
  getContract: [{}],
  getContractJson: [{}],
}

/** All of the owner but the role, with a new name. */
function nameOf({ people: { owner } }: World) {
  return { username: unique(), email: owner.email, display_name: 'Replaced' }
}

function newAddress() {
  return { email: `${unique()}@example.com` }
}

/** Tables whose rows a refused write leaves as they are. */
const untouchedTables = [
  'users',
  'tasks',
  'tags',
  'task_tags',
  'attachments',
  'uploads',
  'thumbnails',
  'task_departures',
  'one_time_tokens',
  'second_factors',
  'recovery_codes',
  'audit_events',
]

/** And those that note when they were last used. */
const usedTables = ['sessions', 'api_tokens']

/** Every write of a row gives it the number of its transaction as `xmin`. */
const lastWritten = 'max(r.xmin::text::bigint)'
const whichRows = 'bit_xor(hashtextextended(r.id::text, 0))'

const digestOf = (table: string, digest: string): string =>
  `(select count(*) || ' ' || coalesce(${digest}, 0) from ${table} r) as ${table}`

const selectDigests = `select ${[
  ...untouchedTables.map((table) => digestOf(table, lastWritten)),
  ...usedTables.map((table) => digestOf(table, whichRows)),
].join()}`

/** A digest for each table that a refused write could have touched, once earlier deletions have been finished. */
const snapshot = async (): Promise<unknown> => {
  await eventually('deletions are finished', async () => {
    const [row] = await service.deps.db.run(
      `select exists (select from users where deleted_at is not null)
         or exists (select from tags where deleted_at is not null) as awaited`,
      [],
    )
    return row?.awaited === false
  })
  return service.deps.db.run(selectDigests, [])
}

/** A problem as bytes would show it, without what names the request. */
const anonymized = ({ status, headers, body }: Reply): string => {
  const { instance: _instance, request_id: _requestId, ...problem } = (body ?? {}) as Schemas['Problem']
  const fields = [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id')
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

/** The row of the table for an operation. */
const ruleOf = ({ permission }: ContractOperation): Rule => {
  const rule = rules[permission]
  if (rule === undefined) throw new Error(`No row of the table says what ${permission} means`)
  return rule
}

/** With what somebody signs in: an access token, or an API token with the operation's scope and no other. */
type Credential = 'session' | 'API token'

/** One who has no relation to what it is about, one who owns it, and one for whom the role is enough. */
const holders = ['other', 'owner', 'admin'] as const

const apiTokens = new Map<string, Promise<Schemas['NewApiToken']>>()

/** An API token of an account with these scopes, one for all cells. */
const apiTokenWith = async (account: Account, scopes: readonly Scope[]): Promise<string> => {
  const key = [account.id, ...scopes].join()
  const made = apiTokens.get(key) ?? createApiToken(account, { scopes })
  apiTokens.set(key, made)
  return (await made).token
}

const credentialOf = async (
  world: World,
  persona: Persona,
  { scope }: ContractOperation,
  credential: Credential,
): Promise<string | undefined> =>
  credential === 'session' || persona === 'anonymous' || scope === 'none' || scope === 'session'
    ? tokenOf(world, persona)
    : apiTokenWith(world.people[persona], [scope])

/** The world of all cells that leave it as good as it was; the last test sees that they did. */
let shared = newWorld()

/** A column of the matrix, and what it is expected to be answered. */
interface Asker {
  readonly persona: Persona
  readonly credential: Credential
  readonly who: string
  readonly expected: Outcome
}

const askersOf = (operation: ContractOperation, scenario: Scenario): readonly Asker[] => {
  const { scope } = operation
  const rule = scenario.rule ?? (scenario.lists ? { see: signedIn, may: signedIn } : ruleOf(operation))
  const ask = (persona: Persona, credential: Credential): Asker => {
    const inSession = outcomeOf(rule, persona)
    const { inSessionOnly = [] } = scenario
    const isForSession = inSessionOnly === true || inSessionOnly.includes(persona)
    const isRefused = inSession === 'allowed' && credential === 'API token' && isForSession
    return {
      persona,
      credential,
      who: `${persona} (${credential})`,
      expected: isRefused ? 403 : inSession,
    }
  }
  const inSession = personas.map((persona) => ask(persona, 'session'))
  if (scope === 'none' || scope === 'session') return inSession
  return [...inSession, ...holders.map((persona) => ask(persona, 'API token'))]
}

/** A cell of the matrix with all that its request is about. */
interface Cell extends Asker {
  readonly world: World
  readonly request: Call
}

const prepareCells = async (operation: ContractOperation, scenario: Scenario): Promise<readonly Cell[]> => {
  // A list is newest first: on its first page is what has just been made.
  const usual = await (scenario.lists ? newWorld() : shared)
  const cells: Cell[] = []
  for (const asker of askersOf(operation, scenario)) {
    const { persona, credential, expected } = asker
    const world = scenario.spoils && expected === 'allowed' ? await renewed[scenario.spoils](usual) : usual
    const token = await credentialOf(world, persona, operation, credential)
    const request = { token, ...(await scenario.request?.(world, persona)) }
    cells.push({ ...asker, world, request })
  }
  return cells
}

/** Asks, and tells whether the answer is the one that is expected. */
const ask = async (t: Test, id: OperationId, { who, expected, request }: Cell): Promise<Reply> => {
  const reply = await service.call(id, request)
  const outcome = reply.status < 300 ? 'allowed' : reply.status
  t.equal(outcome, expected, `${who}: ${expected}`)
  if (outcome !== expected) {
    t.comment(JSON.stringify(reply.body))
    // The next cells are to fail by faults of their own.
    shared = newWorld()
  }
  return reply
}

const tryRefused = async (t: Test, id: OperationId, cell: Cell): Promise<void> => {
  const { who, expected, request } = cell
  const reply = await ask(t, id, cell)
  if (expected === 403) t.match(reply.body, { code: 'forbidden' }, `${who}: it is the rule that refuses`)
  if (expected !== 404) return
  for (const forNothing of requestsForNothing(request)) {
    const answer = await service.call(id, forNothing)
    t.equal(anonymized(answer), anonymized(reply), `${who}: as if it did not exist`)
  }
}

const tryAllowed = async (
  t: Test,
  operation: ContractOperation,
  scenario: Scenario,
  cell: Cell,
): Promise<void> => {
  const { who, persona, world } = cell
  const reply = await ask(t, operation.id as OperationId, cell)
  if (reply.status >= 300) return
  await scenario.check?.(t, reply, persona)
  if (scenario.lists) {
    const { items } = reply.body as { items: { id: string }[] }
    const item = await scenario.lists(world)
    t.ok(item, 'there is something to list')
    const listed = items.some(({ id }) => id === item)
    t.equal(
      listed,
      (scenario.listedFor ?? ruleOf(operation).may).includes(persona),
      `${who}: the list holds what they may see`,
    )
  }
}

/** Everybody who is refused, and after that everybody who is not. */
const tryScenario = async (t: Test, operation: ContractOperation, scenario: Scenario): Promise<void> => {
  const id = operation.id as OperationId
  const cells = await prepareCells(operation, scenario)
  const refused = cells.filter(({ expected }) => expected !== 'allowed')
  const reads = operation.method === 'GET' || operation.method === 'HEAD'
  const isWatched = refused.length > 0 && !reads

  const before = isWatched ? await snapshot() : null
  for (const cell of refused) await tryRefused(t, id, cell)
  if (isWatched) t.strictSame(await snapshot(), before, 'who is refused has changed nothing')
  for (const cell of cells) if (cell.expected === 'allowed') await tryAllowed(t, operation, scenario, cell)
}

/** What cannot be read, wherever something stands; the path is as long as before, since the answer names it. */
const unreadable = ({ method }: ContractOperation, { params = {} }: Call): Call => ({
  params: Object.fromEntries(Object.entries(params).map(([name, value]) => [name, 'x'.repeat(value.length)])),
  query: 'bogus=%ff',
  ...(method !== 'GET' && method !== 'HEAD' && { body: '{', headers: { 'content-type': 'text/nonsense' } }),
})

/** Someone who may do it, with an API token that has every scope but the one for it. */
const tryWithoutScope = async (t: Test, operation: ContractOperation, scenario: Scenario) => {
  const { scope } = operation
  const id = operation.id as OperationId
  const persona = ruleOf(operation).may.includes('owner') ? 'owner' : 'admin'
  const world = await shared
  const scopes = allScopes.filter((one) => one !== scope && one.replace(':write', ':read') !== scope)
  const token = await apiTokenWith(world.people[persona], scopes)
  const request = { ...(await scenario.request?.(world, persona)), token }

  const before = await snapshot()
  const reply = await service.call(id, request)
  t.equal(reply.status, 403)
  if (operation.method !== 'HEAD') t.match(reply.body, { code: 'insufficient_scope' })
  const named = scope === 'session' ? '' : `, scope="${scope}"`
  t.equal(
    reply.headers.get('www-authenticate'),
    `Bearer realm="taskwright", error="insufficient_scope"${named}`,
  )
  for (const other of [...requestsForNothing(request), { ...unreadable(operation, request), token }]) {
    t.equal(anonymized(await service.call(id, other)), anonymized(reply), 'whatever is asked for')
  }
  t.strictSame(await snapshot(), before, 'nothing has changed')
}

for (const operation of contract.operations.values()) {
  t.test(operation.id, async (t) => {
    const { scope, permission } = operation
    const id = operation.id as OperationId
    const rows = Object.hasOwn(scenarios, id) ? scenarios[id] : []
    t.ok(rows.length > 0, 'it has a row in the matrix')
    t.strictSame([scope, permission], declared[id], 'the contract says what it takes')
    for (const scenario of rows) {
      await t.test(scenario.what ?? 'as it is', (t) => tryScenario(t, operation, scenario))
    }
    const [first] = rows
    if (scope === 'none' || first === undefined) return
    await t.test('with an API token without the scope', (t) => tryWithoutScope(t, operation, first))
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
    const before = await snapshot()
    const { status: answered, body } = await service.call(id, { token: owner.token, ...request })
    t.equal(answered, status, name)
    if (pointer !== '') t.equal((body as Schemas['Problem']).errors?.[0]?.pointer, pointer)
    t.strictSame(await snapshot(), before, `${name}: nothing has changed`)
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
    { id: 'createApiToken', request: {}, read: await createApiToken(owner), schema: 'ApiTokenCreate' },
  ] as const

  for (const { id, request, read, schema } of rows) {
    await t.test(id, async (t) => {
      const writable = writableFields(schema)
      const entries: [string, unknown][] = Object.entries(read)
      const good = Object.fromEntries(entries.filter(([name]) => writable.has(name)))
      const readOnly = entries.filter(([name]) => !writable.has(name))
      t.ok(readOnly.length > 0, 'there are such fields')
      const before = await snapshot()
      for (const [name, value] of readOnly) {
        const token = id === 'register' ? undefined : owner.token
        const body = { ...good, [name]: value }
        const reply = await service.call(id, { token, ...request, body })
        t.equal(reply.status, 400, name)
        t.equal((reply.body as Schemas['Problem']).errors?.[0]?.pointer, `/${name}`)
      }
      t.strictSame(await snapshot(), before, 'nothing has changed')
    })
  }
})

function writableFields(schema: string): Set<string> {
  const { components } = contract.document as {
    components: { schemas: Record<string, { properties: object }> }
  }
  return new Set(Object.keys(components.schemas[schema]?.properties ?? {}))
}

t.test('the world that the cells shared has lasted', async (t) => {
  const { people, task, tag, looseTag, attachment } = await shared
  const { owner, assignee, former } = people
  const { body: user } = await service.expect('getCurrentUser', 200, { token: owner.token })
  t.match(user, { id: owner.id, role: 'member', email: owner.email })
  const ofTask = { token: owner.token, params: { task_id: task.id } }
  const { body: found } = await service.expect('getTask', 200, ofTask)
  t.match(found, { owner_id: owner.id, assignee_id: assignee.id })
  const tags = new Set(found.tags.map(({ id }) => id))
  t.ok(tags.has(tag.id))
  t.notOk(tags.has(looseTag.id))
  const { body: attachments } = await service.expect('listTaskAttachments', 200, ofTask)
  t.equal(attachments.items.find(({ id }) => id === attachment.id)?.uploaded_by, former.id)
  await service.expect('getTag', 200, { token: owner.token, params: { tag_id: looseTag.id } })
})
