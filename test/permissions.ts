import t, { type Test } from 'tap'
import type { components } from '../generated/openapi.ts'
import { loadContract, type OperationId } from '../src/contract/contract.ts'
import { newId } from '../src/db/engine/ids.ts'
import type { Permission } from '../src/domain/permissions.ts'
import type { Scope } from '../src/domain/scopes.ts'
import { accountActions } from './fixture/accounts.ts'
import { changesToBeKnown } from './fixture/changes.ts'
import { lookUp, member } from './fixture/contract-check.ts'
import { eventually } from './fixture/eventually.ts'
import { type Operation, operations, pathParameters, prepareOperations, rows } from './fixture/operations.ts'
import { type Account, type Call, fileForm, type Reply, startService } from './fixture/service.ts'
import type { World } from './fixture/world.ts'

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
  'project.see': { see: ['owner', 'admin'], may: ['owner', 'admin'] },
  'project.create': { see: signedIn, may: signedIn },
  'mcp.use': { see: signedIn, may: signedIn },
}

const adminOnly: Rule = { see: signedIn, may: ['admin'] }
const nobody: Rule = { see: signedIn, may: [] }
const hidden: Rule = { see: [], may: [] }
const transfer: Rule = { see: whoSeeTheTask, may: ['owner', 'admin'] }

const outcomeOf = (rule: Rule, persona: Persona): Outcome => {
  if (persona === 'anonymous' && !rule.may.includes('anonymous')) return 401
  if (!rule.see.includes(persona)) return 404
  return rule.may.includes(persona) ? 'allowed' : 403
}

/** A request in which a persona has a part. */
type Prepare = (world: World, persona: Persona) => Call | Promise<Call>

interface Scenario {
  /** What distinguishes it from the request of the registry. Without it, it amends the scenario of that request. */
  readonly what?: string
  /** Where a part of the operation has a finer rule than the operation. */
  readonly rule?: Rule
  /** Who may not do it with an API token of the right scope: all, or these personas. */
  readonly inSessionOnly?: true | readonly Persona[]
  readonly request?: Prepare
  readonly check?: (t: Test, reply: Reply, persona: Persona) => void
}

const service = await startService(t)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const { newWorld } = await prepareOperations(service, admin)

/** Who is in no world. */
const outsider = await service.register('outsider')

/** The account of the persona; for anonymous requests, the owner's. */
const targetOf = (world: World, persona: Persona): Account =>
  persona === 'anonymous' ? world.owner : world[persona]

const ofOwner = ({ owner }: World) => ({ params: { user_id: owner.id } })
const ofTask = async ({ newTask }: World) => ({ params: { task_id: (await newTask()).id } })
const ofTrashedTask = async ({ newTrashedTask }: World) => ({
  params: { task_id: (await newTrashedTask()).id },
})
const ofLooseTag = async ({ newTag, owner }: World) => ({ params: { tag_id: (await newTag(owner)).id } })
const newAddress = ({ newName }: World) => ({ email: `${newName()}@example.com` })

const allScopes: readonly Scope[] = [
  'tasks:read',
  'tasks:write',
  'tags:read',
  'tags:write',
  'projects:read',
  'projects:write',
  'attachments:read',
  'attachments:write',
  'users:read',
  'users:write',
]

const taskOwner: Rule = { see: ['owner', 'admin'], may: ['owner', 'admin'] }
const inTrash = { what: 'that is in the trash', rule: hidden, request: ofTrashedTask }

/** A user's own account, as PUT takes it. */
const replacementOf = (world: World) => ({
  username: world.newName(),
  email: world.owner.email,
  display_name: 'Replaced',
  role: 'member',
})

/** What the request of the registry does not cover. */
const scenarios: Partial<Record<OperationId, readonly Scenario[]>> = {
  setUserPassword: [
    {
      what: 'of their own',
      rule: nobody,
      request: (world, persona) => ({
        params: { user_id: targetOf(world, persona).id },
        body: { password: 'another password' },
      }),
    },
  ],
  listUserApiTokens: [
    {
      what: 'of their own',
      request: (world, persona) => ({ params: { user_id: targetOf(world, persona).id } }),
    },
  ],
  createUser: [
    {
      what: 'who is an administrator',
      inSessionOnly: true,
      request: (world) => ({
        body: { ...replacementOf(world), ...newAddress(world), role: 'admin', password: 'a good password' },
      }),
    },
  ],
  getUser: [
    {
      check: (t, { body }, persona) => {
        const { email } = body as Schemas['User']
        t.equal(email !== null, ['owner', 'admin'].includes(persona), 'the address is for self and admin')
      },
    },
  ],
  replaceUser: [
    {
      what: 'with another address',
      inSessionOnly: true,
      request: (world) => ({
        ...ofOwner(world),
        body: { ...replacementOf(world), ...newAddress(world) },
      }),
    },
    {
      what: 'with another role',
      rule: adminOnly,
      inSessionOnly: true,
      request: (world) => ({ ...ofOwner(world), body: { ...replacementOf(world), role: 'admin' } }),
    },
  ],
  updateUser: [
    {
      what: 'its username',
      request: (world) => ({ ...ofOwner(world), body: { username: world.newName() } }),
    },
    {
      what: 'with the role that it has',
      request: (world) => ({ ...ofOwner(world), body: { display_name: 'Changed', role: 'member' } }),
    },
    {
      what: 'with the address that it has',
      request: (world) => ({ ...ofOwner(world), body: { email: world.owner.email } }),
    },
    {
      what: 'with another address',
      inSessionOnly: true,
      request: (world) => ({ ...ofOwner(world), body: newAddress(world) }),
    },
    {
      what: 'with another role',
      rule: adminOnly,
      inSessionOnly: true,
      request: (world) => ({ ...ofOwner(world), body: { role: 'admin' } }),
    },
  ],
  deleteUser: [{ inSessionOnly: ['owner'] }],

  createTask: [
    {
      what: 'assigned to somebody else',
      request: ({ former }) => ({ body: { title: 'Assigned', assignee_id: former.id } }),
    },
    {
      what: 'that somebody else is to own',
      rule: adminOnly,
      request: () => ({ body: { title: 'Owned', owner_id: outsider.id } }),
    },
  ],
  batchTasks: [
    {
      what: 'that changes a task',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      request: async (world) => ({
        body: { atomic: true, update: [{ ...(await ofTask(world)).params, patch: { status: 'done' } }] },
      }),
    },
    {
      what: 'that transfers a task',
      rule: transfer,
      request: async (world) => ({
        body: {
          atomic: true,
          update: [{ ...(await ofTask(world)).params, patch: { owner_id: world.assignee.id } }],
        },
      }),
    },
    {
      what: 'that deletes a task',
      rule: { see: whoSeeTheTask, may: ['owner', 'admin'] },
      request: async (world) => ({ body: { atomic: true, delete: [(await ofTask(world)).params] } }),
    },
    {
      what: 'that deletes a task in the trash',
      rule: hidden,
      request: async (world) => ({ body: { atomic: true, delete: [(await ofTrashedTask(world)).params] } }),
    },
    {
      what: 'that adds a tag that is on no task',
      rule: taskOwner,
      request: async (world) => ({
        body: {
          atomic: true,
          tag: [{ ...(await ofTask(world)).params, ...(await ofLooseTag(world)).params }],
        },
      }),
    },
    {
      what: 'that removes a tag',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      async request({ newLinkedTag }) {
        const { task, tag } = await newLinkedTag()
        return { body: { atomic: true, untag: [{ task_id: task.id, tag_id: tag.id }] } }
      },
    },
    {
      what: 'that creates a task for somebody else',
      rule: adminOnly,
      request: () => ({ body: { atomic: true, create: [{ title: 'Owned', owner_id: outsider.id }] } }),
    },
  ],
  getTask: [inTrash],
  replaceTask: [
    {
      what: 'with the owner that it has',
      request: async (world) => ({
        ...(await ofTask(world)),
        body: { title: 'Same', owner_id: world.owner.id },
      }),
    },
    {
      what: 'with another owner',
      rule: transfer,
      request: async (world) => ({
        ...(await ofTask(world)),
        body: { title: 'Transferred', owner_id: world.assignee.id },
      }),
    },
  ],
  updateTask: [
    {
      what: 'to unassigned',
      request: async (world) => ({ ...(await ofTask(world)), body: { assignee_id: null } }),
    },
    {
      what: 'with the owner that it has',
      request: async (world) => ({ ...(await ofTask(world)), body: { owner_id: world.owner.id } }),
    },
    {
      what: 'with another owner',
      rule: transfer,
      request: async (world) => ({ ...(await ofTask(world)), body: { owner_id: world.assignee.id } }),
    },
  ],
  deleteTask: [inTrash],
  getTrashedTask: [{ what: 'that is not in the trash', rule: hidden, request: ofTask }],

  deleteAttachment: [
    {
      what: 'that the assignee attached',
      rule: { see: whoSeeTheTask, may: whoSeeTheTask },
      async request(world) {
        const upload = { ...(await ofTask(world)), token: world.assignee.token, body: fileForm('own') }
        const { body } = await service.expect('addTaskAttachment', 201, upload)
        return { params: { attach_id: body.id } }
      },
    },
  ],

  getTag: [{ what: 'that is on no task', rule: taskOwner, request: ofLooseTag }],
  deleteTag: [{ what: 'that is on no task', rule: taskOwner, request: ofLooseTag }],
  addTaskTag: [
    {
      what: 'of their own',
      async request(world, persona) {
        const { id: tag_id } = await world.newTag(targetOf(world, persona))
        return { params: { ...(await ofTask(world)).params, tag_id } }
      },
    },
    {
      what: 'that is on no task',
      rule: taskOwner,
      request: async (world) => ({
        params: { ...(await ofTask(world)).params, ...(await ofLooseTag(world)).params },
      }),
    },
  ],
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
  'task_tombstones',
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

const isRead = ({ method }: Operation): boolean => method === 'GET' || method === 'HEAD'

/** The row of the table for an operation. */
const ruleOf = ({ permission }: Operation): Rule => {
  const rule = rules[permission]
  if (rule === undefined) throw new Error(`No row of the table says what ${permission} means`)
  return rule
}

/** With what somebody signs in: an access token, or an API token with the operation's scope and no other. */
type Credential = 'session' | 'API token'

/** One who has no relation to what it is about, one who owns it, and one for whom the role is enough. */
const holders = ['other', 'owner', 'admin'] as const

const apiTokens = new Map<string, Promise<Schemas['CreatedApiToken']>>()

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
  { scope }: Operation,
  credential: Credential,
): Promise<string | undefined> => {
  if (persona === 'anonymous') return undefined
  const account = world[persona]
  if (credential === 'session' || scope === 'none' || scope === 'session' || scope === 'link')
    return account.token
  return apiTokenWith(account, [scope === 'any' ? 'tags:read' : scope])
}

/** A column of the matrix, and the expected outcome. */
interface Asker {
  readonly persona: Persona
  readonly credential: Credential
  readonly who: string
  readonly expected: Outcome
}

const askersOf = (operation: Operation, scenario: Scenario): readonly Asker[] => {
  const { scope } = operation
  const isList = rows[operation.id].lists !== undefined
  const rule = scenario.rule ?? (isList ? { see: signedIn, may: signedIn } : ruleOf(operation))
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
  if (scope === 'none' || scope === 'session' || scope === 'link') return inSession
  return [...inSession, ...holders.map((persona) => ask(persona, 'API token'))]
}

/** A cell of the matrix with its prepared request. */
interface Cell extends Asker {
  readonly request: Call
  /** What a list must show to those who may see it. */
  readonly item: string | null
}

const takesAll = ({ path, method }: Operation): boolean => {
  const parameters = lookUp(['paths', path, method.toLowerCase(), 'parameters'])
  return Object.keys(parameters?.node ?? {}).some(
    (index) => parameters !== undefined && member(parameters, index)?.node.name === 'all',
  )
}

/** The request of the registry, what `all=true` makes of it, and what else there is. */
const scenariosOf = (operation: Operation): readonly Scenario[] => {
  const ofRegistry: Prepare = (world, persona) => {
    const caller = persona === 'anonymous' ? world.other : world[persona]
    return rows[operation.id].request(world, caller)
  }
  const special = scenarios[operation.id] ?? []
  const base = { request: ofRegistry, ...special.find(({ what }) => what === undefined) }
  const ofEverything: Scenario = {
    what: everything,
    rule: adminOnly,
    async request(world, persona) {
      const { query, ...request } = await ofRegistry(world, persona)
      return { ...request, query: { ...(typeof query === 'object' && query), all: true } }
    },
  }
  return [
    base,
    ...(takesAll(operation) ? [ofEverything] : []),
    ...special.filter(({ what }) => what !== undefined),
  ]
}

const everything = 'of everything'

/** Whether a request that succeeds may change the account that the world belongs to. */
const changesOwner = (operation: Operation): boolean =>
  !isRead(operation) && pathParameters(operation).includes('user_id')

const prepareCells = async (operation: Operation, scenario: Scenario): Promise<readonly Cell[]> => {
  const usual = await newWorld()
  const cells: Cell[] = []
  for (const asker of askersOf(operation, scenario)) {
    const { persona, credential, expected } = asker
    const world = expected === 'allowed' && changesOwner(operation) ? await newWorld() : usual
    const { token: own, ...request } = (await scenario.request?.(world, persona)) ?? {}
    const token = persona === 'anonymous' ? undefined : own
    const item = expected === 'allowed' ? ((await rows[operation.id].lists?.(world)) ?? null) : null
    cells.push({
      ...asker,
      request: { ...request, token: token ?? (await credentialOf(world, persona, operation, credential)) },
      item,
    })
  }
  if (takesAll(operation)) await changesToBeKnown(service.deps.db)
  return cells
}

const ask = async (t: Test, id: OperationId, { who, expected, request }: Cell): Promise<Reply> => {
  const reply = await service.call(id, request)
  const outcome = reply.status < 300 ? 'allowed' : reply.status
  t.equal(outcome, expected, `${who}: ${expected}`, outcome === expected ? {} : { body: reply.body })
  return reply
}

const tryRefused = async (t: Test, id: OperationId, cell: Cell): Promise<void> => {
  const { who, expected, request } = cell
  const reply = await ask(t, id, cell)
  if (expected === 403) t.match(reply.body, { code: 'forbidden' }, `${who}: the rule refuses`)
  if (expected !== 404) return
  for (const forNothing of requestsForNothing(request)) {
    const answer = await service.call(id, forNothing)
    t.equal(anonymized(answer), anonymized(reply), `${who}: as if it did not exist`)
  }
}

/** The ids on the first page of a list, which is newest first, or on all pages of a feed, which is oldest first. */
const listedIds = async (id: OperationId, request: Call, { body }: Reply): Promise<string[]> => {
  const page = body as { readonly items: readonly { readonly id: string }[] } | Schemas['TaskChanges']
  if ('items' in page) return page.items.map((item) => item.id)
  const ids = page.changed.map((task) => task.id)
  if (!page.has_more) return ids
  const query = { ...(typeof request.query === 'object' && request.query), since: page.next_cursor }
  const next = await service.call(id, { ...request, query })
  return [...ids, ...(await listedIds(id, request, next))]
}

const tryAllowed = async (t: Test, operation: Operation, scenario: Scenario, cell: Cell): Promise<void> => {
  const { who, persona, item } = cell
  const reply = await ask(t, operation.id, cell)
  if (reply.status >= 300) return
  scenario.check?.(t, reply, persona)
  if (item === null) return
  const isListed = (await listedIds(operation.id, cell.request, reply)).includes(item)
  // A list that takes `all` shows administrators their own items unless they ask for all.
  const isOwnOnly = takesAll(operation) && scenario.what !== everything
  const mayBeListed = ruleOf(operation).may.includes(persona) && !(isOwnOnly && persona === 'admin')
  t.equal(isListed, mayBeListed, `${who}: the list holds what they may see`)
}

/** Tries everybody who is refused, then everybody who is not. */
const tryScenario = async (t: Test, operation: Operation, scenario: Scenario): Promise<void> => {
  const { id } = operation
  const cells = await prepareCells(operation, scenario)
  const refused = cells.filter(({ expected }) => expected !== 'allowed')
  const isWatched = refused.length > 0 && !isRead(operation)

  const before = isWatched ? await snapshot() : null
  for (const cell of refused) await tryRefused(t, id, cell)
  if (isWatched) t.strictSame(await snapshot(), before, 'refused requests have changed nothing')
  for (const cell of cells) if (cell.expected === 'allowed') await tryAllowed(t, operation, scenario, cell)
}

/** What cannot be read, wherever something stands; the path is as long as before, since the answer names it. */
const unreadable = (operation: Operation, { params = {} }: Call): Call => ({
  params: Object.fromEntries(Object.entries(params).map(([name, value]) => [name, 'x'.repeat(value.length)])),
  query: 'bogus=%ff',
  ...(!isRead(operation) && { body: '{', headers: { 'content-type': 'text/nonsense' } }),
})

/** Sends an API token that has every scope but the one of the operation, for somebody who may do it. */
const tryWithoutScope = async (t: Test, operation: Operation) => {
  const { id, scope } = operation
  const world = await newWorld()
  const caller = rows[id].caller === 'admin' ? admin : world.owner
  const scopes = allScopes.filter((one) => one !== scope && one.replace(':write', ':read') !== scope)
  const token = await apiTokenWith(caller, scopes)
  const request = { ...(await rows[id].request(world, caller)), token }

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

for (const operation of operations) {
  t.test(operation.id, async (t) => {
    const { id, scope, permission } = operation
    t.strictSame([scope, permission], rows[id].access, 'the contract agrees with the registry')
    for (const scenario of scenariosOf(operation)) {
      await t.test(scenario.what ?? 'as it is', (t) => tryScenario(t, operation, scenario))
    }
    if (scope === 'none' || scope === 'any' || scope === 'link') return
    await t.test('with an API token without the scope', (t) => tryWithoutScope(t, operation))
  })
}

t.test('ids in a body', async (t) => {
  const world = await newWorld()
  const { owner, assignee, other } = world
  const { task, tag } = await world.newLinkedTag()
  const ofTask = { params: { task_id: task.id } }
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
    ['replaceTask', ofTask],
    ['updateTask', ofTask],
  ] as const) {
    const body = { title: 'Refused', assignee_id: newId() }
    await refuse(`${id} for an assignee who does not exist`, id, 422, { ...rest, body }, '/assignee_id')
  }
  for (const id of ['replaceTask', 'updateTask'] as const) {
    const body = { title: 'Refused', owner_id: newId() }
    const nobody = { ...ofTask, body }
    await refuse(`${id} to an owner who does not exist`, id, 422, nobody, '/owner_id')
    await refuse(`${id} by the assignee`, id, 403, { ...nobody, token: assignee.token })
  }
  const forNobody = { token: admin.token, body: { title: 'Refused', owner_id: newId() } }
  await refuse('createTask by an administrator for nobody', 'createTask', 422, forNobody, '/owner_id')

  const foreign = await refuse(
    'createTask with a tag that is not seen',
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
  t.equal(foreign.detail, missing.detail, 'a foreign tag is like none')
})

t.test('fields that the server alone writes', async (t) => {
  const world = await newWorld()
  const { owner } = world
  const { task, tag } = await world.newLinkedTag()
  const ofTask = { params: { task_id: task.id } }
  const user = {
    ...owner.user,
    username: 'refused',
    email: 'refused@example.com',
    password: 'a good password',
  }
  const rows = [
    { id: 'register', request: {}, read: { ...user, role: 'admin' }, schema: 'Registration' },
    { id: 'createUser', request: { token: admin.token }, read: user, schema: 'UserCreate' },
    { id: 'updateUser', request: ofOwner(world), read: user, schema: 'UserPatch' },
    { id: 'createTask', request: {}, read: task, schema: 'TaskCreate' },
    { id: 'updateTask', request: ofTask, read: task, schema: 'TaskPatch' },
    { id: 'createTag', request: {}, read: { ...tag, name: 'refused' }, schema: 'TagCreate' },
    { id: 'createApiToken', request: {}, read: await world.newApiToken(owner), schema: 'ApiTokenCreate' },
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

t.test('PUT takes the fields that the server alone writes, and ignores their values', async (t) => {
  const world = await newWorld()
  const { owner } = world
  const { task } = await world.newLinkedTag()
  const invented = {
    id: newId(),
    created_at: '2020-01-01T00:00:00.000Z',
    updated_at: '2020-01-01T00:00:00.000Z',
  }

  const { body: read } = await service.expect('getTask', 200, {
    token: owner.token,
    params: { task_id: task.id },
  })
  const { body: replaced } = await service.expect('replaceTask', 200, {
    token: owner.token,
    params: { task_id: task.id },
    body: { ...read, ...invented, title: 'Replaced', attachment_count: 7, completed_at: invented.created_at },
  })
  t.strictSame(replaced, {
    ...read,
    title: 'Replaced',
    version: read.version + 1,
    updated_at: replaced.updated_at,
  })
  t.not(replaced.updated_at, invented.updated_at)

  const { body: user } = await service.expect('replaceUser', 200, {
    token: owner.token,
    ...ofOwner(world),
    body: { ...owner.user, ...invented, display_name: 'Replaced' },
  })
  t.strictSame(user, {
    ...owner.user,
    display_name: 'Replaced',
    version: owner.user.version + 1,
    updated_at: user.updated_at,
  })
  t.not(user.updated_at, invented.updated_at)
})

function writableFields(schema: string): Set<string> {
  const { components } = loadContract().document as {
    components: { schemas: Record<string, { properties: object }> }
  }
  return new Set(Object.keys(components.schemas[schema]?.properties ?? {}))
}
