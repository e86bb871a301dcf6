import t from 'tap'
import { readChanges } from '../fixture/changes.ts'
import { accountActions } from '../fixture/accounts.ts'
import { type Account, type Call, type Reply, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, type Tag, type Task, taskActions, unknownId } from '../fixture/tasks.ts'
import type { components } from '../../generated/openapi.ts'

/** Tags in the body of a task: `tag_ids` in every write, `tag_names` in a creation. */

type Schemas = components['schemas']

const service = await startService(t)
const { createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)

const idsOf = (tags: readonly Tag[]): string[] => tags.map(({ id }) => id)
const namesOf = ({ tags }: Pick<Task, 'tags'>): string[] => tags.map(({ name }) => name)
const tagsOf = async ({ token }: Account): Promise<Schemas['CountedTag'][]> =>
  (await service.expect('listTags', 200, { token })).body.items

/** The operations that change a task and accept `tag_ids`. */
const changes: Readonly<
  Record<string, (account: Account, task: Task, fields: object, ifMatch?: string) => Promise<Reply>>
> = {
  async updateTask({ token }, { id }, fields, ifMatch) {
    const headers: Record<string, string> = ifMatch === undefined ? {} : { 'if-match': ifMatch }
    return service.call('updateTask', { token, params: { task_id: id }, body: fields, headers })
  },
  async replaceTask({ token }, { id, title }, fields, ifMatch) {
    const headers: Record<string, string> = ifMatch === undefined ? {} : { 'if-match': ifMatch }
    return service.call('replaceTask', {
      token,
      params: { task_id: id },
      body: { title, ...fields },
      headers,
    })
  },
  async batchTasks({ token }, { id }, patch, if_match) {
    const body = {
      atomic: true,
      update: [{ task_id: id, patch, ...(if_match !== undefined && { if_match }) }],
    }
    return service.call('batchTasks', { token, body })
  },
}

for (const [operation, change] of Object.entries(changes)) {
  t.test(`tag_ids in ${operation}`, async (t) => {
    const { owner, assignee, stranger } = await peopleOf(`in-${operation.toLowerCase()}`)
    const [a, b, c] = [
      await createTag(owner, 'a'),
      await createTag(owner, 'b'),
      await createTag(owner, 'c'),
    ] as const
    const newTask = (tags: readonly Tag[]) =>
      createTask(owner, { assignee_id: assignee.id, tag_ids: idsOf(tags) })

    t.test('200: replaces the tags, in one version', async (t) => {
      const task = await newTask([a, b])
      const { status, body } = await change(owner, task, { tag_ids: idsOf([c, b]), assignee_id: assignee.id })
      t.equal(status, 200)
      const after = await readTask(owner, task.id)
      t.strictSame(after.task.tags, [b, c])
      t.equal(after.task.version, 2)
      if (operation === 'batchTasks') t.match(body, { update: [{ etag: '"2"' }] })
      else t.strictSame(body, after.task)
    })

    t.test('200: the same tags change nothing, [] removes all, an omitted list keeps all', async (t) => {
      const task = await newTask([a, b])
      const same = { assignee_id: assignee.id }
      await change(owner, task, { ...same, tag_ids: [b.id, a.id.toUpperCase()] })
      t.strictSame((await readTask(owner, task.id)).task, task, 'the version is unchanged')
      await change(owner, task, { ...same, title: 'Other' })
      t.match((await readTask(owner, task.id)).task, { tags: [a, b], version: 2 })
      await change(owner, task, { ...same, title: 'Other', tag_ids: [] })
      t.match((await readTask(owner, task.id)).task, { tags: [], version: 3 })
    })

    t.test('200 for an assignee, with tags of the task and their own', async (t) => {
      const task = await newTask([a])
      const own = await createTag(assignee, 'own')
      t.equal(
        (await change(assignee, task, { assignee_id: assignee.id, tag_ids: [a.id, own.id] })).status,
        200,
      )
      t.strictSame((await readTask(owner, task.id)).task.tags, [a, own])
    })

    t.test('200: the change feed reports the task, and the tag counts follow', async (t) => {
      const { owner } = await peopleOf(`feed-${operation.toLowerCase()}`)
      const [x, y] = [await createTag(owner, 'x'), await createTag(owner, 'y')]
      const task = await createTask(owner, { tag_ids: [x.id] })
      const { next_cursor } = await readChanges(service, owner)
      await change(owner, task, { tag_ids: [y.id] })
      t.strictSame((await readChanges(service, owner, { since: next_cursor })).changed, [
        (await readTask(owner, task.id)).task,
      ])
      const counts = (await tagsOf(owner)).map(({ name, task_count }) => [name, task_count])
      t.strictSame(counts, [
        ['y', 1],
        ['x', 0],
      ])
    })

    t.test('400 for malformed, repeated and too many ids', async (t) => {
      const task = await newTask([])
      const many = Array.from({ length: 101 }, (_, n) => `${unknownId.slice(0, -3)}${100 + n}`)
      for (const tag_ids of [['x'], [a.id, a.id], many, 7, a.id, [null]]) {
        const { status, body } = await change(owner, task, { tag_ids })
        t.equal(status, 400)
        t.match(pointersOf(body as Schemas['Problem'])[0], /tag_ids/)
      }
      t.equal(
        (await change(owner, task, { tag_names: ['x'] })).status,
        400,
        'tag_names are for new tasks only',
      )
    })

    t.test('404 and 403 before 422 for an unknown tag', async (t) => {
      const task = await newTask([a])
      t.equal((await change(stranger, task, { tag_ids: [unknownId] })).status, 404)
      const transfer = { owner_id: assignee.id, tag_ids: [unknownId] }
      t.equal((await change(assignee, task, transfer)).status, 403)
    })

    t.test('412 if If-Match is not the current ETag', async (t) => {
      const task = await newTask([a])
      t.equal((await change(owner, task, { tag_ids: [unknownId] }, '"2"')).status, 412)
      t.strictSame((await readTask(owner, task.id)).task, task)
    })

    t.test('422 for an unknown or invisible tag, with its index', async (t) => {
      const task = await newTask([a])
      const foreign = await createTag(stranger, 'foreign')
      for (const { id } of [foreign, { id: unknownId }]) {
        const { status, body } = await change(owner, task, { title: 'Not done', tag_ids: [b.id, id, c.id] })
        t.equal(status, 422)
        const [pointer = ''] = pointersOf(body as Schemas['Problem'])
        t.ok(pointer.endsWith('/tag_ids/1'), pointer)
      }
      t.strictSame((await readTask(owner, task.id)).task, task)
    })

    t.test('changes at the same time leave the tags of one of them', async (t) => {
      const task = await newTask([])
      const sets = [[a], [b], [c], [a, b], [b, c], []]
      const replies = await Promise.all(sets.map((tags) => change(owner, task, { tag_ids: idsOf(tags) })))
      t.strictSame(countStatuses(replies), { 200: sets.length })
      const remaining = namesOf((await readTask(owner, task.id)).task).join()
      t.ok(
        sets.some((tags) => namesOf({ tags }).join() === remaining),
        remaining,
      )
    })

    t.test('a tag added at the same time is replaced, or added after the change', async (t) => {
      for (let round = 0; round < 5; round += 1) {
        const task = await newTask([])
        const link = { token: owner.token, params: { task_id: task.id, tag_id: b.id } }
        const [replaced, linked] = await Promise.all([
          change(owner, task, { tag_ids: [a.id] }),
          service.expect('addTaskTag', 204, link),
        ])
        t.equal(replaced.status, 200)
        const { task: after } = await readTask(owner, task.id)
        const isLast = linked.headers.get('etag') === `"${after.version}"`
        t.strictSame(after.tags, isLast ? [a, b] : [a])
      }
    })

    t.test('a tag deleted at the same time is rejected, or removed from the task', async (t) => {
      for (let round = 0; round < 5; round += 1) {
        const tag = await createTag(owner, `deleted ${round}`)
        const task = await newTask([a])
        const [replaced] = await Promise.all([
          change(owner, task, { tag_ids: [tag.id, b.id] }),
          service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: tag.id } }),
        ])
        const { task: after } = await readTask(owner, task.id)
        t.ok([200, 422].includes(replaced.status), String(replaced.status))
        t.strictSame(after.tags, replaced.status === 200 ? [b] : [a])
      }
    })
  })
}

/** The operations that create a task and accept `tag_names`. */
const creations: Readonly<
  Record<string, (account: Pick<Account, 'token'>, fields: object, options?: Call) => Promise<Reply>>
> = {
  createTask: ({ token }, fields, options) =>
    service.call('createTask', { token, body: { title: 'Named', ...fields }, ...options }),
  batchTasks: ({ token }, fields, options) =>
    service.call('batchTasks', {
      token,
      body: { atomic: true, create: [{ title: 'Named', ...fields }] },
      ...options,
    }),
}

/** The task that a response to a creation refers to. */
const createdTask = async (account: Account, { headers, body }: Reply): Promise<Task> => {
  const location = headers.get('location')
  const id = location?.split('/').at(-1) ?? (body as Schemas['TaskBatchResults']).create[0]?.task_id ?? ''
  return (await readTask(account, id)).task
}

for (const [operation, create] of Object.entries(creations)) {
  t.test(`tag_names in ${operation}`, async (t) => {
    const { owner, assignee, stranger } = await peopleOf(`named-${operation.toLowerCase()}`)
    const success = operation === 'createTask' ? 201 : 200

    t.test(`${success}: uses or creates tags, whose names are compared as by createTag`, async (t) => {
      const home = await createTag(owner, 'Home')
      await createTag(stranger, 'garden')
      const reply = await create(owner, { tag_names: ['garden', '  HOME ', 'Gärten', 'Garden'] })
      t.equal(reply.status, success)
      const task = await createdTask(owner, reply)
      const tags = await tagsOf(owner)
      t.strictSame(namesOf(task).toSorted(), ['Gärten', 'Home', 'garden'])
      t.ok(task.tags.some(({ id }) => id === home.id))
      t.ok(task.tags.every(({ owner_id, color }) => owner_id === owner.id && color === null))
      t.equal(task.version, 1)
      t.strictSame(tags.map(({ name }) => name).toSorted(), ['Gärten', 'Home', 'garden'])
      t.ok(tags.every(({ task_count }) => task_count === 1))
      if (success === 201) t.strictSame(reply.body, task)
      const next = await createdTask(
        owner,
        await create(owner, { tag_names: ['garden'], tag_ids: [home.id] }),
      )
      t.strictSame(namesOf(next), ['garden', 'Home'])
      t.equal((await tagsOf(owner)).length, 3)
      const twice = await createdTask(owner, await create(owner, { tag_names: ['home'], tag_ids: [home.id] }))
      t.strictSame(twice.tags, [home])
    })

    t.test(`${success}: the caller owns the tags, whoever owns the task`, async (t) => {
      const reply = await create(admin, { owner_id: assignee.id, tag_names: ['by admin'] })
      const task = await createdTask(assignee, reply)
      t.match(task, { owner_id: assignee.id, tags: [{ name: 'by admin', owner_id: admin.id }] })
    })

    t.test('400 for names that createTag rejects, and for repeated and too many names', async (t) => {
      const before = await tagsOf(owner)
      const invalid = ['', ' ', 'x'.repeat(51), 'a\u0000', '\u200b', 7]
      for (const name of invalid) {
        const { status, body } = await create(owner, { tag_names: ['fine', name] })
        t.equal(status, 400, JSON.stringify(name))
        t.match(pointersOf(body as Schemas['Problem'])[0], /tag_names\/1$/)
      }
      const many = Array.from({ length: 101 }, (_, n) => `tag ${n}`)
      for (const tag_names of [many, ['a', 'a'], 7, 'a'])
        t.equal((await create(owner, { tag_names })).status, 400)
      t.strictSame(await tagsOf(owner), before)
    })

    t.test('403 for an API token without the scope tags:write', async (t) => {
      const writer = await createApiToken(owner, { scopes: ['tasks:write'] })
      const { status, body } = await create(writer, { tag_names: ['scoped'] })
      t.equal(status, 403)
      t.match(body, { code: 'insufficient_scope', detail: /tags:write/ })
      t.equal((await create(writer, { tag_names: [] })).status, success)
      const both = await createApiToken(owner, { scopes: ['tasks:write', 'tags:write'] })
      t.equal((await create(both, { tag_names: ['scoped'] })).status, success)
    })

    t.test('422: a rejected task creates no tags', async (t) => {
      const fields = { tag_names: ['never made'], assignee_id: unknownId }
      t.equal((await create(owner, fields)).status, 422)
      t.notOk((await tagsOf(owner)).some(({ name }) => name === 'never made'))
    })

    t.test('a repeat with an Idempotency-Key creates nothing', async (t) => {
      const { owner } = await peopleOf(`repeated-${operation.toLowerCase()}`)
      const send = () => create(owner, { tag_names: ['once'] }, { headers: { 'idempotency-key': 'once' } })
      const first = await send()
      const [tag] = await tagsOf(owner)
      await service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: tag?.id ?? '' } })
      const second = await send()
      t.equal(second.headers.get('idempotency-replayed'), 'true')
      t.strictSame(second.body, first.body)
      t.strictSame(await tagsOf(owner), [])
    })

    t.test('requests at the same time succeed, and create each tag once', async (t) => {
      const { owner } = await peopleOf(`racing-${operation.toLowerCase()}`)
      for (let round = 0; round < 4; round += 1) {
        const names = ['x', 'y', 'z'].map((name) => `${name}${round}`)
        const replies = await Promise.all(
          Array.from({ length: 8 }, (_, n) =>
            create(owner, { tag_names: n % 2 === 0 ? names : names.toReversed() }),
          ),
        )
        t.strictSame(countStatuses(replies), { [success]: 8 })
        for (const reply of replies) t.strictSame(namesOf(await createdTask(owner, reply)), names)
      }
      const counts = (await tagsOf(owner)).map(({ task_count }) => task_count)
      t.strictSame(
        counts,
        Array.from({ length: 3 * 4 }, () => 8),
      )
    })

    t.test('a tag deleted at the same time is created again, or removed from the task', async (t) => {
      const { owner } = await peopleOf(`deleting-${operation.toLowerCase()}`)
      for (let round = 0; round < 5; round += 1) {
        const { id } = await createTag(owner, 'short-lived')
        const [reply] = await Promise.all([
          create(owner, { tag_names: ['short-lived'] }),
          service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: id } }),
        ])
        t.equal(reply.status, success)
        const { tags } = await createdTask(owner, reply)
        t.notOk(tags.some((tag) => tag.id === id))
        for (const tag of tags)
          await service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: tag.id } })
      }
    })
  })
}

t.test('a batch creates a tag once, even if several items name it', async (t) => {
  const { owner } = await peopleOf('same-name')
  const { token } = owner
  const create = [
    { title: 'a', tag_names: ['Shared', 'only a'] },
    { title: 'b', tag_names: ['shared'] },
    { title: 'c', tag_names: ['not made'], assignee_id: unknownId },
  ]
  const dry = await service.expect('batchTasks', 200, { token, body: { dry_run: true, create } })
  t.strictSame(
    dry.body.create.map(({ status }) => status),
    [201, 201, 422],
  )
  t.strictSame(await tagsOf(owner), [], 'a dry run creates none')
  const { body } = await service.expect('batchTasks', 200, { token, body: { create } })
  t.strictSame(
    body.create.map(({ status }) => status),
    [201, 201, 422],
  )
  const counts = (await tagsOf(owner)).map(({ name, task_count }) => [name, task_count])
  t.strictSame(
    new Map(counts.map(([name, count]) => [name, count])),
    new Map([
      ['Shared', 2],
      ['only a', 1],
    ]),
  )
})
