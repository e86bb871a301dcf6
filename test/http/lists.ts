import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { ranImport } from '../fixture/imports.ts'
import { type Operation, operations, prepareOperations, rows } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'
import { pointersOf, taskActions } from '../fixture/tasks.ts'
import type { World } from '../fixture/world.ts'

/** The pages of every list, in both directions, and what its cursors are bound to. Paging itself is tested in `paging.ts`. */

const service = await startService(t)
const admin = await service.register('admin')
const { newWorld } = await prepareOperations(service, admin)
const { addComment, attachFile, createTag, createTask } = taskActions(service)

interface Page {
  readonly items: readonly Readonly<Record<string, unknown>>[]
  readonly next_cursor: string | null
  readonly prev_cursor: string | null
  readonly total: number | null
}

/** The ids in the items of a page. Their other fields can change, such as the attempts of a delivery. */
const idsIn = (page: Page | undefined): readonly string[] | undefined =>
  page?.items.map((item) =>
    JSON.stringify(item, (name, value: unknown) => (/^$|task|(^|_)id$/.test(name) ? value : undefined)),
  )

/** Sends a request of the owner a second time for another item in the same list. */
const again = async (id: OperationId, { owner: { token } }: World, request: Call): Promise<void> => {
  await service.call(id, { token, ...request })
}

/** Fills a list with at least two items, unless the registry does, and returns its path. */
const fillings: Partial<Record<OperationId, (world: World) => Promise<Record<string, string>>>> = {
  async listSessions({ newSession, owner }) {
    await newSession(owner)
    return {}
  },
  async listIdentities(world) {
    await world.newIdentity(world.owner)
    // An account has one identity of each provider.
    await service.deps.db.run(
      `insert into identities (id, user_id, issuer, subject) values ($1, $2, 'https://other.example', 'x')`,
      [newId(), world.owner.id],
    )
    return {}
  },
  async listApiTokens({ newApiToken, owner }) {
    for (let n = 0; n < 3; n += 1) await newApiToken(owner)
    return {}
  },
  async listUserApiTokens({ newApiToken, owner }) {
    for (let n = 0; n < 3; n += 1) await newApiToken(owner)
    return { user_id: owner.id }
  },
  async listUserTasks({ newTask, owner }) {
    for (let n = 0; n < 3; n += 1) await newTask()
    return { user_id: owner.id }
  },
  listTaskEvents: async ({ newTask }) => ({ task_id: (await newTask()).id }),
  async listTaskAttachments({ newTask, owner }) {
    const { id } = await newTask()
    for (let n = 0; n < 3; n += 1) await attachFile(owner, id)
    return { task_id: id }
  },
  async listTaskTags({ owner, newName }) {
    const tags = [await createTag(owner, newName()), await createTag(owner, newName())]
    return { task_id: (await createTask(owner, { tag_ids: tags.map(({ id }) => id) })).id }
  },
  async listImportRows({ owner }) {
    const file = { name: 'tasks.csv', content: `title\nOne\nTwo\n${newId()}\n` }
    return { import_id: (await ranImport(service, owner, file)).id }
  },
  listTaskFollowers: async ({ newTask }) => ({ task_id: (await newTask()).id }),
  async listTaskRelations(world) {
    const { task_id, kind } = await world.newRelation()
    const params = { task_id, kind, other_task_id: (await world.newTask()).id }
    await again('addTaskRelation', world, { params })
    return { task_id }
  },
  async listTaskComments({ newTask, owner }) {
    const { id } = await newTask()
    for (let n = 0; n < 3; n += 1) await addComment(owner, id)
    return { task_id: id }
  },
  async listProjectTasks({ newProject, owner }) {
    const { id: project_id } = await newProject()
    for (let n = 0; n < 3; n += 1) await createTask(owner, { project_id })
    return { project_id }
  },
  listProjectMembers: async ({ newProjectMember }) => ({ ...(await newProjectMember()).params }),
  async listProjectTeams(world) {
    const { params } = await world.newProjectTeam()
    const team_id = (await world.newTeam()).id
    await again('setProjectTeam', world, { params: { ...params, team_id }, body: { role: 'viewer' } })
    return { ...params }
  },
  listTeamMembers: async ({ newTeamMember }) => ({ ...(await newTeamMember()).params }),
  async listProjectInvitations(world) {
    const { project_id } = (await world.newInvitation()).invitation
    const body = { email: `${world.newName()}@example.com`, role: 'viewer' }
    await again('createInvitation', world, { params: { project_id }, body })
    return { project_id }
  },
  async listProjectSections(world) {
    const { project_id } = await world.newSection()
    await again('createSection', world, { params: { project_id }, body: { name: 'Another' } })
    return { project_id }
  },
  async listWebhookDeliveries(world) {
    const { webhook_id = '' } = (await world.newWebhookDelivery()).params
    await again('testWebhook', world, { params: { webhook_id } })
    return { webhook_id }
  },
}

const parametersOf = ({ path, method }: Operation): readonly Located[] => {
  const owner = lookUp(['paths', path, method.toLowerCase()])
  return Object.keys(owner?.node.parameters ?? []).flatMap((index) => {
    const parameter = owner && member(owner, 'parameters', index)
    return parameter === undefined ? [] : [parameter]
  })
}

/** The orders of a list that sorts by one field. */
const ordersOf = (parameters: readonly Located[]): readonly object[] => {
  const sort = parameters.find(({ node }) => node.name === 'sort')
  const pattern = sort && member(sort, 'schema')?.node.pattern
  const [, fields = ''] = /^\^-\?\(?([\w|]+)\)?\$$/.exec(String(pattern)) ?? []
  const names = fields === '' ? [] : fields.split('|')
  return [{}, ...names.flatMap((name) => [{ sort: name }, { sort: `-${name}` }])]
}

let foreign = ''

for (const operation of operations) {
  const { id } = operation
  const parameters = parametersOf(operation)
  if (!parameters.some(({ node }) => node.name === 'cursor')) continue
  t.test(id, async (t) => {
    const world = await newWorld()
    for (let n = 0; n < 3; n += 1) await rows[id].lists?.(world)
    const params = (await fillings[id]?.(world)) ?? {}
    const { token } = rows[id].caller === 'admin' ? admin : world.owner
    const read = async (query: Call['query']): Promise<Page> => {
      const { status, body } = await service.call(id, { token, params, query: { ...(query as object) } })
      if (status !== 200) throw new Error(`${id} answered ${status}`)
      return body as Page
    }

    for (const order of ordersOf(parameters)) {
      const whole = await read({ ...order, limit: 200, include_total: true })
      t.ok(whole.items.length > 1, 'the list has several items')
      t.equal(whole.total, whole.items.length)
      t.strictSame([whole.next_cursor, whole.prev_cursor], [null, null])
      const limit = Math.ceil(whole.items.length / 3)
      const pages = [await read({ ...order, limit })]
      t.equal(pages[0]?.total, null)
      for (let cursor = pages[0]?.next_cursor; cursor; cursor = pages.at(-1)?.next_cursor)
        pages.push(await read({ ...order, limit, cursor }))
      t.strictSame(
        pages.flatMap((page) => idsIn(page) ?? []),
        idsIn(whole),
        `${JSON.stringify(order)} forwards`,
      )
      const [beforeLast, last] = pages.slice(-2)
      t.strictSame(
        (await read({ ...order, limit, cursor: last?.prev_cursor ?? '' })).items,
        beforeLast?.items,
      )
    }

    const { next_cursor: cursor } = await read({ limit: 1 })
    const other = await world.doubleOf(admin)
    const asOther = { token: other.token, params, query: { cursor: cursor ?? '' } }
    const elsewhere = Object.fromEntries(Object.keys(params).map((name) => [name, newId()]))
    const refusals = [asOther, { token, params, query: { cursor: foreign } }]
    if (Object.keys(params).length > 0) refusals.push({ ...asOther, token, params: elsewhere })
    for (const refused of refusals) {
      const { status, body } = await service.call(id, refused)
      t.equal(status, 400)
      t.strictSame(pointersOf(body as object), ['/cursor'])
    }
    foreign = cursor ?? ''
  })
}
