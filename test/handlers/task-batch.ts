import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { type Account, type Call, type Reply, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, type Tag, type Task, taskActions, unknownId } from '../fixture/tasks.ts'

type Schemas = components['schemas']
type Results = Schemas['TaskBatchResults']

const { db } = await openTestDatabase(t)
/** The users on whose behalf a statement ran. */
const callers: unknown[] = []
const service = await startService(t, {
  db: {
    ...db,
    run: (text, values, ...more) => {
      callers.push(...new Set(values))
      return db.run(text, values, ...more)
    },
  },
})
const statementsOf = ({ id }: Account): number => callers.filter((caller) => caller === id).length
const { createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')

const send = ({ token }: Account, body: object, more: Call = {}): Promise<Reply> =>
  service.call('batchTasks', { token, body, ...more })

const run = async ({ token }: Account, body: object): Promise<Results> =>
  (await service.expect('batchTasks', 200, { token, body })).body

const kinds = ['create', 'update', 'delete', 'tag', 'untag'] as const

const statusesOf = (results: Results): Record<string, number[]> =>
  Object.fromEntries(
    kinds
      .filter((kind) => results[kind].length > 0)
      .map((kind) => [kind, results[kind].map(({ status }) => status)]),
  )

const isThere = async ({ token }: Account, { id }: Pick<Task, 'id'>): Promise<boolean> =>
  (await service.call('getTask', { token, params: { task_id: id } })).status === 200

/** Tasks of somebody who gave them to somebody else, one for each kind of item, with a tag that is on the last. */
const newTasks = async (name: string) => {
  const people = await peopleOf(name)
  const { owner, assignee } = people
  const tag = await createTag(owner, 'red')
  const given = { assignee_id: assignee.id }
  return {
    ...people,
    tag,
    changed: await createTask(owner, given),
    deleted: await createTask(owner, given),
    tagged: await createTask(owner, given),
    untagged: await createTask(owner, { ...given, tag_ids: [tag.id] }),
  }
}

type Tasks = Awaited<ReturnType<typeof newTasks>>

/** One item of each kind. */
const oneOfEach = ({ tag, changed, deleted, tagged, untagged }: Tasks) => ({
  create: [{ title: 'New', tag_ids: [tag.id], status: 'done' }],
  update: [{ task_id: changed.id, patch: { title: 'Changed', status: 'done', assignee_id: null } }],
  delete: [{ task_id: deleted.id }],
  tag: [{ task_id: tagged.id, tag_id: tag.id }],
  untag: [{ task_id: untagged.id, tag_id: tag.id }],
})

/** What all of it could have changed. */
const stateOf = async (tasks: Tasks): Promise<unknown> => {
  const { token } = admin
  const states = [tasks.changed, tasks.deleted, tasks.tagged, tasks.untagged].map(
    async ({ id }) => (await service.call('getTask', { token, params: { task_id: id } })).body,
  )
  const { body } = await service.expect('listUserTasks', 200, { token, params: { user_id: tasks.owner.id } })
  return [await Promise.all(states), body.items.map(({ id }) => id)]
}

t.test('200: one of each kind, in one statement', async (t) => {
  const tasks = await newTasks('each')
  const { owner, tag, changed, deleted, tagged, untagged } = tasks
  const before = statementsOf(owner)
  const results = await run(owner, oneOfEach(tasks))
  t.equal(statementsOf(owner), before + 1)
  t.strictSame(statusesOf(results), { create: [201], update: [200], delete: [204], tag: [204], untag: [204] })
  t.notOk(JSON.stringify(results).includes('problem'))

  const [created] = results.create
  const { task, etag } = await readTask(owner, created?.task_id ?? '')
  t.match(task, {
    title: 'New',
    status: 'done',
    priority: 'none',
    description: '',
    owner_id: owner.id,
    tags: [tag],
  })
  t.ok(task.completed_at)
  t.equal(created?.etag, etag)
  const after = await readTask(owner, changed.id)
  t.match(after.task, { title: 'Changed', status: 'done', assignee_id: null, version: 2 })
  t.strictSame(results.update, [{ status: 200, task_id: changed.id, etag: after.etag }])
  t.strictSame(results.delete, [{ status: 204, task_id: deleted.id, etag: null }])
  t.notOk(await isThere(owner, deleted))
  await service.expect('getTrashedTask', 200, { token: owner.token, params: { task_id: deleted.id } })
  t.match((await readTask(owner, tagged.id)).task, { tags: [tag], version: 2 })
  t.match((await readTask(owner, untagged.id)).task, { tags: [], version: 2 })
})

/** The request of the single operation that an item of the batch stands for. */
const singles: Readonly<
  Record<(typeof kinds)[number], (tasks: Tasks) => readonly [Parameters<typeof service.call>[0], Call]>
> = {
  create: (tasks) => ['createTask', { body: oneOfEach(tasks).create[0] }],
  update: ({ changed, ...tasks }) => [
    'updateTask',
    { params: { task_id: changed.id }, body: oneOfEach({ changed, ...tasks }).update[0]?.patch },
  ],
  delete: ({ deleted }) => ['deleteTask', { params: { task_id: deleted.id } }],
  tag: ({ tagged, tag }) => ['addTaskTag', { params: { task_id: tagged.id, tag_id: tag.id } }],
  untag: ({ untagged, tag }) => ['removeTaskTag', { params: { task_id: untagged.id, tag_id: tag.id } }],
}

t.test('200: everybody may do what they may do one by one', async (t) => {
  for (const who of ['owner', 'assignee', 'stranger', 'admin'] as const) {
    const personOf = (tasks: Tasks): Account => (who === 'admin' ? admin : tasks[who])
    const single = await newTasks(`single-${who}`)
    const batch = await newTasks(`batch-${who}`)
    const results = await run(personOf(batch), oneOfEach(batch))
    for (const kind of kinds) {
      const [operation, request] = singles[kind](single)
      const reply = await service.call(operation, { ...request, token: personOf(single).token })
      const [item] = results[kind]
      t.equal(item?.status, reply.status, `${who}: ${kind}`)
      if (reply.status < 300) continue
      const { code, detail } = reply.body as Schemas['Problem']
      t.match(item?.problem, { code, detail, status: reply.status, instance: '/tasks/batch' })
    }
  }
})

t.test('200: each item stands for itself', async (t) => {
  const tasks = await newTasks('itself')
  const { owner, stranger, tag, changed, deleted, tagged } = tasks
  const foreign = await createTask(stranger)
  const foreignTag = await createTag(stranger, 'foreign')
  const results = await run(owner, {
    create: [
      { title: 'For nobody', assignee_id: unknownId },
      { title: 'Late', start_at: '2027-01-02T00:00:00Z', due_at: '2027-01-01T00:00:00Z' },
      { title: 'Foreign tag', tag_ids: [tag.id, foreignTag.id] },
      { title: 'Not theirs', owner_id: stranger.id },
      { title: 'Good' },
    ],
    update: [
      { task_id: foreign.id, patch: { title: 'x' } },
      { task_id: changed.id, patch: { owner_id: unknownId } },
      { task_id: unknownId, patch: {} },
    ],
    delete: [{ task_id: deleted.id }],
    tag: [{ task_id: tagged.id, tag_id: foreignTag.id }],
    untag: [{ task_id: tasks.untagged.id, tag_id: foreignTag.id }],
  })
  t.strictSame(statusesOf(results), {
    create: [422, 400, 422, 403, 201],
    update: [404, 422, 404],
    delete: [204],
    tag: [404],
    untag: [404],
  })
  const pointers = kinds.map((kind) =>
    results[kind].flatMap(({ problem }) => (problem ? pointersOf(problem) : [])),
  )
  t.strictSame(pointers, [
    ['/create/0/assignee_id', '/create/1/due_at', '/create/2/tag_ids/1', '/create/3'],
    ['/update/0', '/update/1/patch/owner_id', '/update/2'],
    [],
    ['/tag/0'],
    ['/untag/0'],
  ])
  t.strictSame(
    results.create.map(({ task_id }) => task_id !== null),
    [false, false, false, false, true],
  )
  t.strictSame(
    { ...results.update[0]?.problem, errors: [] },
    { ...results.update[2]?.problem, errors: [] },
    'what is foreign is like what does not exist',
  )
  t.match((await readTask(owner, changed.id)).task, changed, 'what failed has changed nothing')
  t.match((await readTask(stranger, foreign.id)).task, foreign)
})

t.test('200: several tags on one task', async (t) => {
  const { owner, tag, tagged } = await newTasks('several')
  const tags: Tag[] = [tag, await createTag(owner, 'second'), await createTag(owner, 'third')]
  const items = tags.map(({ id }) => ({ task_id: tagged.id, tag_id: id }))
  t.strictSame(statusesOf(await run(owner, { tag: items })), { tag: [204, 204, 204] })
  const { task } = await readTask(owner, tagged.id)
  t.strictSame(task.tags.map(({ id }) => id).toSorted(), tags.map(({ id }) => id).toSorted())
  t.strictSame(statusesOf(await run(owner, { tag: items.slice(0, 1) })), { tag: [204] })
  t.equal(
    (await readTask(owner, tagged.id)).task.version,
    task.version,
    'what is there already changes nothing',
  )
  t.strictSame(statusesOf(await run(owner, { untag: items })), { untag: [204, 204, 204] })
  t.strictSame((await readTask(owner, tagged.id)).task.tags, [])
  t.strictSame(statusesOf(await run(owner, { untag: items.slice(0, 1) })), { untag: [404] })
})

/** What `items`, sent one after the other by the single operations, end with and leave behind. */
const oneByOne = async ({ token }: Account, batch: Partial<Schemas['TaskBatch']>) => {
  const sent = async (operation: Parameters<typeof service.call>[0], call: Call, if_match?: string) =>
    (
      await service.call(operation, {
        token,
        ...call,
        ...(if_match !== undefined && { headers: { 'if-match': if_match } }),
      })
    ).status
  const statuses: Record<string, number[]> = { update: [], tag: [], untag: [], delete: [] }
  for (const { task_id, patch, if_match } of batch.update ?? [])
    statuses.update?.push(await sent('updateTask', { params: { task_id }, body: patch }, if_match))
  for (const { task_id, tag_id } of batch.tag ?? [])
    statuses.tag?.push(await sent('addTaskTag', { params: { task_id, tag_id } }))
  for (const { task_id, tag_id, if_match } of batch.untag ?? [])
    statuses.untag?.push(await sent('removeTaskTag', { params: { task_id, tag_id } }, if_match))
  for (const { task_id, if_match } of batch.delete ?? [])
    statuses.delete?.push(await sent('deleteTask', { params: { task_id } }, if_match))
  return Object.fromEntries(Object.entries(statuses).filter(([, list]) => list.length > 0))
}

t.test('several items for one task', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('in-order')
  const red = await createTag(owner, 'red')
  const blue = await createTag(owner, 'blue')
  const foreign = await createTag(stranger, 'foreign')

  /** The same task twice, for the batch and for the single operations. */
  const pair = async (fields: object = {}) => {
    const create = () =>
      createTask(owner, { title: 'First', assignee_id: assignee.id, tag_ids: [red.id], ...fields })
    return [await create(), await create()] as const
  }
  type Items = (task_id: string) => Partial<Schemas['TaskBatch']>
  const day = (number: number) => `2027-01-0${number}T00:00:00.000Z`

  const cases: readonly (readonly [string, Items, Account?, object?])[] = [
    [
      'updates',
      (task_id) => ({
        update: [
          { task_id, patch: { title: 'a' } },
          { task_id, patch: { priority: 'low' } },
        ],
      }),
    ],
    [
      'an update of each field, one of them twice',
      (task_id) => ({
        update: [
          {
            task_id,
            patch: { title: 'a', description: 'b', status: 'done', start_at: day(1), due_at: day(2) },
          },
          { task_id, patch: { title: 'c', due_at: null, start_at: day(3), assignee_id: null } },
          { task_id, patch: { due_at: day(4) } },
        ],
      }),
    ],
    [
      'updates that change nothing',
      (task_id) => ({
        update: [
          { task_id, patch: {} },
          { task_id, patch: { title: 'First' } },
        ],
      }),
    ],
    [
      'dates that are checked with those before',
      (task_id) => ({
        update: [
          { task_id, patch: { start_at: day(3) } },
          { task_id, patch: { due_at: day(2) } },
          { task_id, patch: { start_at: day(1) } },
          { task_id, patch: { due_at: day(2) } },
        ],
      }),
    ],
    [
      'ETags of the item before',
      (task_id) => ({
        update: [
          { task_id, patch: { title: 'a' }, if_match: '"1"' },
          { task_id, patch: { title: 'b' }, if_match: '"1"' },
          { task_id, patch: { title: 'c' }, if_match: '"2"' },
          { task_id, patch: {}, if_match: '"3"' },
          { task_id, patch: { title: 'd' }, if_match: '"3"' },
        ],
        tag: [{ task_id, tag_id: blue.id }],
        untag: [
          { task_id, tag_id: red.id, if_match: '"4"' },
          { task_id, tag_id: red.id, if_match: '"5"' },
          { task_id, tag_id: blue.id, if_match: '"6"' },
        ],
        delete: [
          { task_id, if_match: '"6"' },
          { task_id, if_match: '"7"' },
        ],
      }),
    ],
    [
      'tags that are added twice and removed twice',
      (task_id) => ({
        tag: [
          { task_id, tag_id: blue.id },
          { task_id, tag_id: blue.id },
          { task_id, tag_id: red.id },
          { task_id, tag_id: foreign.id },
        ],
        untag: [
          { task_id, tag_id: blue.id },
          { task_id, tag_id: blue.id },
          { task_id, tag_id: foreign.id },
        ],
      }),
    ],
    [
      'tags that are replaced',
      (task_id) => ({
        update: [
          { task_id, patch: { tag_ids: [blue.id] } },
          { task_id, patch: { tag_ids: [foreign.id], title: 'not done' } },
          { task_id, patch: { tag_ids: [red.id, blue.id] } },
        ],
        untag: [{ task_id, tag_id: red.id }],
      }),
    ],
    [
      'nothing after a deletion',
      (task_id) => ({ tag: [{ task_id, tag_id: blue.id }], delete: [{ task_id }, { task_id }] }),
    ],
    [
      'what a caller may still do who has given the task away',
      (task_id) => ({
        update: [
          { task_id, patch: { owner_id: stranger.id, assignee_id: null, title: 'Given' } },
          { task_id, patch: { title: 'Not seen' } },
        ],
        tag: [{ task_id, tag_id: blue.id }],
        delete: [{ task_id }],
      }),
    ],
    [
      'what an assignee may do',
      (task_id) => ({
        update: [
          { task_id, patch: { title: 'Mine' } },
          { task_id, patch: { owner_id: assignee.id } },
          { task_id, patch: { assignee_id: null } },
          { task_id, patch: { title: 'Not seen' } },
        ],
        delete: [{ task_id }],
      }),
      assignee,
    ],
    [
      'a completion that is taken back',
      (task_id) => ({
        update: [
          { task_id, patch: { status: 'todo' } },
          { task_id, patch: { status: 'done' } },
        ],
      }),
      owner,
      { status: 'done' },
    ],
  ]

  for (const [name, items, caller = owner, fields] of cases) {
    t.test(`200: ${name}`, async (t) => {
      const [batched, single] = await pair(fields)
      const results = await run(caller, items(batched.id))
      t.strictSame(statusesOf(results), await oneByOne(caller, items(single.id)))
      const seen = async ({ id }: Task) => {
        const { body } = await service.call('getTask', { token: admin.token, params: { task_id: id } })
        const { completed_at, ...rest } = body as Task
        return {
          ...rest,
          id: '',
          position: '',
          instance: '',
          request_id: '',
          created_at: '',
          updated_at: '',
          isCompletedAnew: completed_at != null && completed_at !== batched.completed_at,
          isCompleted: completed_at != null,
        }
      }
      const { isCompletedAnew: __, ...left } = await seen(single)
      const { isCompletedAnew, ...done } = await seen(batched)
      t.strictSame(done, left)
      if (fields !== undefined) t.ok(isCompletedAnew)
      const etags = kinds.flatMap((kind) => results[kind].flatMap(({ etag }) => etag ?? []))
      const { tags, version } = done
      if (version !== undefined && caller === owner)
        t.equal(etags.at(-1) ?? '"1"', `"${version}"`, String(tags?.length))
    })
  }

  t.test('atomic: the item that fails is named, and nothing is done', async (t) => {
    const [task] = await pair()
    const { id: task_id } = task
    const update = [
      { task_id, patch: { title: 'a' }, if_match: '"1"' },
      { task_id, patch: { title: 'b' }, if_match: '"1"' },
    ]
    const reply = await send(owner, { atomic: true, update, delete: [{ task_id }] })
    t.equal(reply.status, 412)
    t.strictSame(pointersOf(reply.body as Schemas['Problem']), ['/update/1'])
    t.strictSame((await readTask(owner, task_id)).task, task)
    const results = await run(owner, { dry_run: true, update, delete: [{ task_id }, { task_id }] })
    t.strictSame(statusesOf(results), { update: [200, 412], delete: [204, 404] })
    t.strictSame((await readTask(owner, task_id)).task, task)
    const renamed = { atomic: true, update: [update[0], { ...update[1], if_match: '"2"' }] }
    t.strictSame(statusesOf(await run(owner, renamed)), { update: [200, 200] })
    t.match((await readTask(owner, task_id)).task, { title: 'b', version: 3 })
  })

  t.test('the counts of tags follow, whoever gets the task', async (t) => {
    const { owner, assignee } = await peopleOf('counted')
    const [one, other] = [await createTag(owner, 'one'), await createTag(owner, 'other')]
    const task = await createTask(owner, { tag_ids: [one.id] })
    const countsOf = async ({ token }: Account) =>
      (await service.expect('listTags', 200, { token })).body.items
        .map(({ name, task_count }) => `${name} ${task_count}`)
        .toSorted()
    const patch = { tag_ids: [other.id], owner_id: assignee.id }
    await run(owner, { update: [{ task_id: task.id, patch }] })
    t.strictSame(await countsOf(owner), ['one 0', 'other 0'])
    t.strictSame(await countsOf(assignee), ['other 1'])
    const { token } = assignee
    const back = { tag_ids: [], owner_id: owner.id }
    await service.expect('updateTask', 200, { token, params: { task_id: task.id }, body: back })
    t.strictSame(await countsOf(owner), ['one 0', 'other 0'])
    t.strictSame(await countsOf(assignee), [])
  })

  t.test('500 of them', async (t) => {
    const [task] = await pair({ description: 'x'.repeat(65_536) })
    const update = Array.from({ length: 500 }, (_, n) => ({
      task_id: task.id,
      if_match: `"${n + 1}"`,
      patch: { title: `${n}` },
    }))
    const started = performance.now()
    const results = await run(owner, { atomic: true, update })
    t.comment(`500 updates of one task took ${performance.now() - started} ms`)
    t.equal(results.update.at(-1)?.etag, '"501"')
    t.match((await readTask(owner, task.id)).task, { title: '499', version: 501 })
  })

  t.test('with another writer', async (t) => {
    const [task] = await pair()
    const { id: task_id } = task
    const { token } = owner
    const params = { task_id }
    const writer = async (number: number) => {
      for (let round = 0; round < 6; round += 1) {
        const { version } = (await readTask(owner, task_id)).task
        const update = [
          { task_id, if_match: `"${version}"`, patch: { title: `${number}.${round}`, tag_ids: [blue.id] } },
          { task_id, if_match: `"${version + 1}"`, patch: { description: `${number}.${round}` } },
        ]
        const reply = await send(owner, { atomic: true, update })
        t.ok([200, 412].includes(reply.status), String(reply.status))
      }
    }
    const linker = async () => {
      for (let round = 0; round < 6; round += 1) {
        await service.expect('addTaskTag', 204, { token, params: { ...params, tag_id: red.id } })
        await service.call('removeTaskTag', { token, params: { ...params, tag_id: red.id } })
      }
    }
    await Promise.all([writer(1), writer(2), linker()])
    const { task: after } = await readTask(owner, task_id)
    t.equal(after.title === 'First' ? '' : after.title, after.description, 'both parts are of one batch')
  })
})

t.test('if_match', async (t) => {
  const tasks = await newTasks('match')
  const { owner } = tasks
  const { create: _, tag, ...items } = oneOfEach(tasks)
  const withMatch = (if_match: string) => ({
    update: [{ ...items.update[0], if_match }],
    delete: [{ ...items.delete[0], if_match }],
    untag: [{ ...items.untag[0], if_match }],
  })
  const before = await stateOf(tasks)
  const stale = { update: [412], delete: [412], untag: [412] }
  t.strictSame(statusesOf(await run(owner, withMatch('"2"'))), stale)
  t.strictSame(await stateOf(tasks), before)
  t.strictSame(statusesOf(await run(owner, withMatch('"1"'))), { update: [200], delete: [204], untag: [204] })
  const weak = { update: [{ ...items.update[0], if_match: 'W/"2"' }] }
  const { body } = await service.expect('batchTasks', 400, { token: owner.token, body: weak })
  t.strictSame(pointersOf(body), ['/update/0/if_match'])
  const notTaken = { tag: [{ ...tag[0], if_match: '"1"' }] }
  await service.expect('batchTasks', 400, { token: owner.token, body: notTaken })
})

t.test('atomic: all of it or nothing', async (t) => {
  const tasks = await newTasks('atomic')
  const { owner, assignee, changed } = tasks
  const all = oneOfEach(tasks)
  const before = await stateOf(tasks)
  const failing: readonly [number, object, readonly string[]][] = [
    [404, { ...all, delete: [{ task_id: unknownId }] }, ['/delete/0']],
    [
      412,
      {
        ...all,
        update: [{ task_id: changed.id, if_match: '"9"', patch: {} }],
        tag: [{ ...all.tag[0], tag_id: unknownId }],
      },
      ['/update/0', '/tag/0'],
    ],
    [
      422,
      { ...all, create: [...all.create, { title: 'x', assignee_id: unknownId }] },
      ['/create/1/assignee_id'],
    ],
    [422, { ...all, create: [{ title: 'x', tag_ids: [unknownId] }] }, ['/create/0/tag_ids/0']],
    [403, { ...all, create: [{ title: 'x', owner_id: assignee.id }] }, ['/create/0']],
    [
      400,
      {
        ...all,
        update: [
          {
            task_id: changed.id,
            patch: { start_at: '2027-01-02T00:00:00Z', due_at: '2027-01-01T00:00:00Z' },
          },
        ],
      },
      ['/update/0/patch/due_at'],
    ],
  ]
  for (const [status, body, pointers] of failing) {
    const reply = await send(owner, { atomic: true, ...body })
    t.equal(reply.status, status)
    t.strictSame(pointersOf(reply.body as Schemas['Problem']), pointers)
    t.strictSame(await stateOf(tasks), before, 'nothing was done')
  }
  const byAssignee = await send(assignee, { atomic: true, ...all })
  t.equal(byAssignee.status, 403, 'who may not delete does nothing else either')
  t.strictSame(await stateOf(tasks), before)
  const done = { create: [201], update: [200], delete: [204], tag: [204], untag: [204] }
  t.strictSame(statusesOf(await run(owner, { atomic: true, ...all })), done)
})

t.test('dry_run: nothing is done', async (t) => {
  const tasks = await newTasks('dry')
  const { owner, assignee } = tasks
  const before = await stateOf(tasks)
  const results = await run(owner, { dry_run: true, ...oneOfEach(tasks) })
  t.strictSame(statusesOf(results), { create: [201], update: [200], delete: [204], tag: [204], untag: [204] })
  t.match(results.create, [{ task_id: null, etag: null }])
  t.match(results.update, [{ etag: null }])
  t.strictSame(statusesOf(await run(assignee, { dry_run: true, ...oneOfEach(tasks) })).delete, [403])
  t.equal((await send(assignee, { dry_run: true, atomic: true, ...oneOfEach(tasks) })).status, 403)
  t.strictSame(await stateOf(tasks), before)
})

t.test('400', async (t) => {
  const { owner, changed, tagged } = await newTasks('refused')
  const named = { task_id: changed.id }
  const titles = (count: number) => Array.from({ length: count }, () => ({ title: 'x' }))
  const refused: readonly [object, string][] = [
    [{}, ''],
    [{ atomic: true }, ''],
    [{ create: [], update: [] }, ''],
    [{ create: titles(501) }, '/create'],
    [{ create: titles(500), delete: [named] }, ''],
    [{ create: [{ title: '' }] }, '/create/0/title'],
    [{ create: [{ title: 'x', id: unknownId }] }, '/create/0/id'],
    [{ update: [{ ...named, patch: { version: 1 } }] }, '/update/0/patch/version'],
    [{ update: [{ ...named, patch: { title: null } }] }, '/update/0/patch/title'],
    [{ update: [named] }, '/update/0/patch'],
    [{ delete: [{ task_id: 'first' }] }, '/delete/0/task_id'],
    [{ tag: [named] }, '/tag/0/tag_id'],
    [{ replace: [] }, '/replace'],
    [{ atomic: 1, delete: [named] }, '/atomic'],
  ]
  for (const [body, pointer] of refused) {
    const reply = await send(owner, body)
    t.equal(reply.status, 400, JSON.stringify(body).slice(0, 80))
    t.strictSame(pointersOf(reply.body as Schemas['Problem']), [pointer])
  }
  t.match((await readTask(owner, tagged.id)).task, { version: 1 })
  const { body } = await send(owner, { update: [{ ...named, patch: { version: 1 } }] })
  t.match(body, { detail: /^update\/0\/patch\/version is not a known field\. Expected one of: title, / })
})

t.test('401, 413 and 415', async (t) => {
  await service.expect('batchTasks', 401, { body: { create: [{ title: 'x' }] } })
  const large = {
    create: Array.from({ length: 17 }, () => ({ title: 'x', description: 'x'.repeat(65_536) })),
  }
  await service.expect('batchTasks', 413, { token: admin.token, body: large })
  const text = { token: admin.token, body: 'x', headers: { 'content-type': 'text/plain' } }
  t.equal((await service.call('batchTasks', text)).status, 415)
})

t.test('the text of all items is bounded', async (t) => {
  const { token } = admin
  // A title of one character, and what counts of a description.
  const of = (descriptions: readonly string[]) => ({
    create: descriptions.slice(0, 1).map((description) => ({ title: 'a', description })),
    update: descriptions.slice(1).map((description, n) => ({
      task_id: `${unknownId.slice(0, -2)}${n + 10}`,
      patch: { description },
    })),
  })
  const isTaken = async (descriptions: readonly string[]) => {
    const { status, body } = await service.call('batchTasks', { token, body: of(descriptions) })
    if (status === 400) t.match(body, { code: 'invalid_request', detail: /not exceed 262144 characters/ })
    return status === 200
  }
  const long = 'x'.repeat(8_192)
  const almost = Array.from({ length: 31 }, () => long)
  t.ok(await isTaken([...almost, 'x'.repeat(8_191)]))
  t.notOk(await isTaken([...almost, long]))
  t.ok(await isTaken([...almost.slice(1), 'x'.repeat(65_536), 'x'.repeat(8_191)]), 'the rest is not indexed')
  const costly = Array.from({ length: 7 }, () => '\u6f22'.repeat(8_192))
  t.ok(await isTaken([...costly, '\u6f22'.repeat(8_191)]))
  t.notOk(await isTaken([...costly, '\ufdfa'.repeat(8_192)]))
})

t.test('500 items are one statement', async (t) => {
  const { owner } = await peopleOf('many')
  const create = Array.from({ length: 500 }, (_, n) => ({
    title: `task ${n}`,
    description: 'x'.repeat(500),
  }))
  const results = await run(owner, { atomic: true, create })
  const ids = results.create.map(({ task_id }) => task_id ?? '')
  t.equal(new Set(ids).size, 500)
  t.equal((await readTask(owner, ids[499] ?? '')).task.title, 'task 499', 'each is in its place')
  const before = statementsOf(owner)
  const update = ids.slice(0, 250).map((task_id) => ({ task_id, patch: { status: 'done' } }))
  const remove = ids.slice(250).map((task_id) => ({ task_id }))
  await run(owner, { atomic: true, update, delete: remove })
  t.equal(statementsOf(owner), before + 1)
  const { body } = await service.expect('listTasks', 200, {
    token: owner.token,
    query: { include_total: true, status: 'done', limit: 1 },
  })
  t.equal(body.total, 250)
})

/** The same JSON object with its fields in another order. */
const inReverse = (value: object): object => {
  const within = (one: unknown): unknown => (typeof one === 'object' && one !== null ? inReverse(one) : one)
  if (Array.isArray(value)) return (value as unknown[]).map(within)
  const entries = Object.entries(value).toReversed()
  return Object.fromEntries(entries.map(([name, one]) => [name, within(one)]))
}

t.test('Idempotency-Key', async (t) => {
  const withKey = (key: string): Call => ({ headers: { 'idempotency-key': key } })

  t.test('the answer is replayed to the byte', async (t) => {
    const tasks = await newTasks('replayed')
    const { owner } = tasks
    const body = { ...oneOfEach(tasks), delete: [{ task_id: unknownId }] }
    const first = await send(owner, body, withKey('once'))
    t.equal(first.status, 200)
    t.equal(first.headers.get('idempotency-replayed'), null)
    const state = await stateOf(tasks)
    const second = await send(owner, body, withKey('once'))
    t.equal(second.headers.get('idempotency-replayed'), 'true')
    t.strictSame(second.body, first.body)
    const shuffled = inReverse(body)
    t.not(JSON.stringify(shuffled), JSON.stringify(body))
    const third = await send(owner, shuffled, withKey('once'))
    t.strictSame(third.body, first.body, 'whatever the order of the fields in an item')
    t.strictSame(await stateOf(tasks), state)
    t.equal((await send(owner, { create: [{ title: 'x' }] }, withKey('once'))).status, 422)
  })

  t.test('ten at once do it once', async (t) => {
    const { owner } = await peopleOf('ten')
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => send(owner, { create: [{ title: 'Once' }] }, withKey('ten'))),
    )
    t.equal(new Set(replies.map(({ body }) => JSON.stringify(body))).size, 1)
    const { body } = await service.expect('listTasks', 200, { token: owner.token })
    t.equal(body.items.length, 1)
  })

  t.test('what was not done is not kept', async (t) => {
    const { owner, assignee } = await peopleOf('not-kept')
    const failing = { atomic: true, create: [{ title: 'x', owner_id: assignee.id }] }
    t.equal((await send(owner, failing, withKey('retried'))).status, 403)
    t.equal((await send(owner, { dry_run: true, create: [{ title: 'x' }] }, withKey('retried'))).status, 200)
    const { status, headers } = await send(owner, { create: [{ title: 'x' }] }, withKey('retried'))
    t.equal(status, 200)
    t.equal(headers.get('idempotency-replayed'), null)
  })
})

t.test('at the same time', async (t) => {
  t.test('batches over the same tasks wait for each other, whatever their order', async (t) => {
    const { owner } = await peopleOf('waiting')
    const { create } = await run(owner, { create: Array.from({ length: 20 }, (_, n) => ({ title: `${n}` })) })
    const ids = create.map(({ task_id }) => task_id ?? '')
    const replies = await Promise.all(
      Array.from({ length: 6 }, (_, n) => {
        const order = n % 2 === 0 ? ids : ids.toReversed()
        const update = order.map((task_id) => ({ task_id, patch: { title: `by ${n}` } }))
        return send(owner, { atomic: true, update })
      }),
    )
    t.strictSame(
      replies.map(({ status }) => status),
      replies.map(() => 200),
    )
    const titles = await Promise.all(ids.map(async (id) => (await readTask(owner, id)).task))
    t.equal(new Set(titles.map(({ title }) => title)).size, 1, 'one came last, with all of it')
    t.ok(titles.every(({ version }) => version === 7))
  })

  t.test('of those with the same ETags one is done', async (t) => {
    const { owner } = await peopleOf('same')
    const { create } = await run(owner, { create: [{ title: 'a' }, { title: 'b' }, { title: 'c' }] })
    const titled = (title: string) =>
      create.map(({ task_id, etag }) => ({ task_id, if_match: etag, patch: { title } }))
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, n) => send(owner, { atomic: true, update: titled(`${n}`) })),
    )
    t.strictSame(countStatuses(replies), { 200: 1, 412: 7 })
  })

  t.test('what a batch names may be deleted', async (t) => {
    for (let n = 0; n < 4; n += 1) {
      const tasks = await newTasks(`deleted-${n}`)
      const { owner, assignee, tag } = tasks
      const [batch] = await Promise.all([
        send(owner, {
          ...oneOfEach(tasks),
          create: [{ title: 'x', assignee_id: assignee.id, tag_ids: [tag.id] }],
        }),
        service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: tag.id } }),
        service.expect('deleteUser', 204, { token: assignee.token, params: { user_id: assignee.id } }),
      ])
      t.equal(batch.status, 200)
      const { create } = batch.body as Results
      t.ok([201, 422].includes(create[0]?.status ?? 0))
    }
  })
})
