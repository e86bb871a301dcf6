import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { wrapRuns } from '../../src/db/engine/wrap-runs.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { type Account, type Call, type Reply, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, type Tag, type Task, taskActions, unknownId } from '../fixture/tasks.ts'

type Schemas = components['schemas']
type Results = Schemas['TaskBatchResults']

const { db } = await openTestDatabase(t)
let statements = 0
const service = await startService(t, {
  db: wrapRuns(db, (run) => (...statement) => {
    statements += 1
    return run(...statement)
  }),
  backgroundDb: db,
})

/** How many statements a batch takes. */
const statementsOf = async (account: Account, body: object): Promise<number> => {
  const before = statements
  await run(account, body)
  return statements - before
}
const { createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')

const send = ({ token }: Account, body: object, options: Call = {}): Promise<Reply> =>
  service.call('batchTasks', { token, body, ...options })

const run = async ({ token }: Account, body: object): Promise<Results> =>
  (await service.expect('batchTasks', 200, { token, body })).body

const kinds = ['create', 'update', 'delete', 'tag', 'untag'] as const

const statusesOf = (results: Results): Record<string, number[]> =>
  Object.fromEntries(
    kinds
      .filter((kind) => results[kind].length > 0)
      .map((kind) => [kind, results[kind].map(({ status }) => status)]),
  )

const exists = async ({ token }: Account, { id }: Pick<Task, 'id'>): Promise<boolean> =>
  (await service.call('getTask', { token, params: { task_id: id } })).status === 200

/** Tasks of the owner, assigned to the assignee: one for each kind of item. The last one has the tag. */
const newTasks = async (name: string) => {
  const people = await peopleOf(name)
  const { owner, assignee } = people
  const tag = await createTag(owner, 'red')
  const assigned = { assignee_id: assignee.id }
  return {
    ...people,
    tag,
    changed: await createTask(owner, assigned),
    deleted: await createTask(owner, assigned),
    tagged: await createTask(owner, assigned),
    untagged: await createTask(owner, { ...assigned, tag_ids: [tag.id] }),
  }
}

type Tasks = Awaited<ReturnType<typeof newTasks>>

const oneItemEach = ({ tag, changed, deleted, tagged, untagged }: Tasks) => ({
  create: [{ title: 'New', tag_ids: [tag.id], status: 'done' }],
  update: [{ task_id: changed.id, patch: { title: 'Changed', status: 'done', assignee_id: null } }],
  delete: [{ task_id: deleted.id }],
  tag: [{ task_id: tagged.id, tag_id: tag.id }],
  untag: [{ task_id: untagged.id, tag_id: tag.id }],
})

/** Everything that these items can change. */
const stateOf = async (tasks: Tasks): Promise<unknown> => {
  const { token } = admin
  const states = [tasks.changed, tasks.deleted, tasks.tagged, tasks.untagged].map(
    async ({ id }) => (await service.call('getTask', { token, params: { task_id: id } })).body,
  )
  const { body } = await service.expect('listUserTasks', 200, { token, params: { user_id: tasks.owner.id } })
  return [await Promise.all(states), body.items.map(({ id }) => id)]
}

t.test('200: one item of each kind', async (t) => {
  const tasks = await newTasks('each')
  const { owner, tag, changed, deleted, tagged, untagged } = tasks
  const results = await run(owner, oneItemEach(tasks))
  t.strictSame(statusesOf(results), { create: [201], update: [200], delete: [204], tag: [204], untag: [204] })
  t.notOk(JSON.stringify(results).includes('problem'))

  const [created] = results.create
  const { task } = await readTask(owner, created?.task_id ?? '')
  t.match(task, {
    title: 'New',
    status: 'done',
    priority: 'none',
    description: '',
    owner_id: owner.id,
    tags: [tag],
  })
  t.ok(task.completed_at)
  t.equal(created?.etag, '"1"')
  const after = await readTask(owner, changed.id)
  t.match(after.task, { title: 'Changed', status: 'done', assignee_id: null, version: 2 })
  t.strictSame(results.update, [{ status: 200, task_id: changed.id, etag: '"2"' }])
  t.strictSame(results.delete, [{ status: 204, task_id: deleted.id, etag: null }])
  t.notOk(await exists(owner, deleted))
  await service.expect('getTrashedTask', 200, { token: owner.token, params: { task_id: deleted.id } })
  t.match((await readTask(owner, tagged.id)).task, { tags: [tag], version: 2 })
  t.match((await readTask(owner, untagged.id)).task, { tags: [], version: 2 })
})

/** The single operation that does the same as an item of this kind, and its request. */
const singles: Readonly<
  Record<(typeof kinds)[number], (tasks: Tasks) => readonly [Parameters<typeof service.call>[0], Call]>
> = {
  create: (tasks) => ['createTask', { body: oneItemEach(tasks).create[0] }],
  update: ({ changed, ...tasks }) => [
    'updateTask',
    { params: { task_id: changed.id }, body: oneItemEach({ changed, ...tasks }).update[0]?.patch },
  ],
  delete: ({ deleted }) => ['deleteTask', { params: { task_id: deleted.id } }],
  tag: ({ tagged, tag }) => ['addTaskTag', { params: { task_id: tagged.id, tag_id: tag.id } }],
  untag: ({ untagged, tag }) => ['removeTaskTag', { params: { task_id: untagged.id, tag_id: tag.id } }],
}

t.test('200: users have the permissions of the single operations', async (t) => {
  for (const who of ['owner', 'assignee', 'stranger', 'admin'] as const) {
    const personOf = (tasks: Tasks): Account => (who === 'admin' ? admin : tasks[who])
    const single = await newTasks(`single-${who}`)
    const batch = await newTasks(`batch-${who}`)
    const results = await run(personOf(batch), oneItemEach(batch))
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

t.test('200: a failed item does not affect the others', async (t) => {
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
    'the same problem for an invisible and an unknown task',
  )
  t.match((await readTask(owner, changed.id)).task, changed, 'a failed item changes nothing')
  t.match((await readTask(stranger, foreign.id)).task, foreign)
})

t.test('items that name their parent among those before them', async (t) => {
  const { owner } = await peopleOf('tree')
  const projectId = (
    await service.expect('createProject', 201, { token: owner.token, body: { name: 'Office' } })
  ).body.id
  const treeOf = async (results: Results) =>
    Promise.all(results.create.map(async ({ task_id }) => (await readTask(owner, task_id ?? '')).task))

  await t.test('201 for a task with its subtasks, in the place of the task', async (t) => {
    const body = {
      atomic: true,
      create: [
        { title: 'Move', project_id: projectId },
        { title: 'Pack', parent: 0 },
        { title: 'Label the boxes', parent: 1, status: 'done' },
        { title: 'Sign the lease', parent: 0, status: 'done' },
      ],
    }
    const results = await run(owner, body)
    const [move, pack, label, sign] = await treeOf(results)
    t.strictSame(
      [move, pack, label, sign].map((task) => [task?.parent_id, task?.project_id]),
      [null, move?.id, pack?.id, move?.id].map((parent) => [parent, projectId]),
    )
    t.match(move, { subtask_count: 2, open_subtask_count: 1 })
    t.match(pack, { subtask_count: 1, open_subtask_count: 0 })
    const etags = [move, pack, label, sign].map((task) => `"${task?.version}"`)
    t.strictSame(
      results.create.map(({ etag }) => etag),
      etags,
      'the ETags are those of the tasks',
    )
  })

  await t.test('422 for an item that is not before, failed, or has another parent as well', async (t) => {
    const other = await createTask(owner)
    const results = await run(owner, {
      create: [
        { title: 'Itself', parent: 0 },
        { title: 'Later', parent: 2 },
        { title: 'Fails', assignee_id: unknownId },
        { title: 'Below what failed', parent: 2 },
        { title: 'Good' },
        { title: 'Two parents', parent: 4, parent_id: other.id },
        { title: 'Below what is good', parent: 4 },
      ],
    })
    t.strictSame(statusesOf(results), { create: [422, 422, 422, 422, 201, 422, 201] })
    t.strictSame(
      results.create.flatMap(({ problem }) => (problem ? pointersOf(problem) : [])),
      [
        '/create/0/parent',
        '/create/1/parent',
        '/create/2/assignee_id',
        '/create/3/parent',
        '/create/5/parent_id',
      ],
    )
    t.equal(
      (await readTask(owner, results.create[6]?.task_id ?? '')).task.parent_id,
      results.create[4]?.task_id,
    )
    const atomic = await send(owner, {
      atomic: true,
      create: [{ title: 'Alone' }, { title: 'Lost', parent: 7 }],
    })
    t.equal(atomic.status, 422)
    const { body } = await service.expect('listTasks', 200, { token: owner.token, query: { q: 'Alone' } })
    t.strictSame(body.items, [], 'nothing is created')
    for (const parent of [-1, 0.5, 500])
      t.equal((await send(owner, { create: [{ title: 'x', parent }] })).status, 400, String(parent))
  })

  await t.test('the rules of subtasks hold', async (t) => {
    const nested = await run(owner, {
      create: Array.from({ length: 9 }, (_, index) => ({
        title: `Level ${index + 1}`,
        ...(index > 0 && { parent: index - 1 }),
      })),
    })
    t.strictSame(statusesOf(nested), { create: [...Array<number>(8).fill(201), 422] })
    t.match(nested.create[8]?.problem, { code: 'invalid_parent' })
    const weekly = { due_on: '2027-01-04', recurrence: { rule: 'FREQ=WEEKLY' } }
    const recurring = await run(owner, {
      create: [
        { title: 'Clean', ...weekly },
        { title: 'Clean the sink', parent: 0, ...weekly },
      ],
    })
    t.strictSame(statusesOf(recurring), { create: [201, 422] })
  })
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
    'a tag that the task has changes nothing',
  )
  t.strictSame(statusesOf(await run(owner, { untag: items })), { untag: [204, 204, 204] })
  t.strictSame((await readTask(owner, tagged.id)).task.tags, [])
  t.strictSame(statusesOf(await run(owner, { untag: items.slice(0, 1) })), { untag: [404] })
})

/** Sends the items of a batch by the single operations, one after the other. Returns their statuses. */
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
  for (const { task_id, patch, expect, if_match } of batch.update ?? []) {
    const body = { ...patch, ...(expect && { expect }) }
    statuses.update?.push(await sent('updateTask', { params: { task_id }, body }, if_match))
  }
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

  /** Two equal tasks, for the batch and for the single operations. */
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
      'updates of several fields, some of them twice',
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
      'dates are checked against those of earlier items',
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
      'if_match is the ETag after the previous item',
      (task_id) => ({
        update: [
          { task_id, patch: { title: 'a' }, if_match: '"1"' },
          { task_id, patch: { title: 'b' }, if_match: '"1"' },
          { task_id, patch: { title: 'c' }, if_match: '"2.9"' },
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
      'expect has the values after the previous item',
      (task_id) => ({
        update: [
          {
            task_id,
            patch: { title: 'a', tag_ids: [blue.id] },
            expect: { title: 'First', tag_ids: [red.id] },
          },
          { task_id, patch: { title: 'b' }, expect: { title: 'First' } },
          { task_id, patch: { description: 'b' }, expect: { tag_ids: [red.id] } },
          { task_id, patch: { description: 'c' }, expect: { title: 'a', description: '', due_at: null } },
          { task_id, patch: { description: 'd' }, expect: { description: 'c' }, if_match: '"1"' },
          { task_id, patch: { description: 'd' }, expect: { description: 'c' }, if_match: '"3"' },
        ],
      }),
    ],
    [
      'tags are added twice and removed twice',
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
      'tags are replaced',
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
      'a task is deleted twice',
      (task_id) => ({ tag: [{ task_id, tag_id: blue.id }], delete: [{ task_id }, { task_id }] }),
    ],
    [
      'the caller transfers the task before other items',
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
      'the caller is the assignee',
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
      'a task is reopened and completed again',
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
          isCompletedAgain: completed_at != null && completed_at !== batched.completed_at,
          isCompleted: completed_at != null,
        }
      }
      const { isCompletedAgain: __, ...left } = await seen(single)
      const { isCompletedAgain, ...done } = await seen(batched)
      t.strictSame(done, left)
      if (fields !== undefined) t.ok(isCompletedAgain)
      const etags = kinds.flatMap((kind) => results[kind].flatMap(({ etag }) => etag ?? []))
      const { tags, version } = done
      if (version !== undefined && caller === owner)
        t.equal(etags.at(-1) ?? '"1"', `"${version}"`, String(tags?.length))
    })
  }

  t.test('atomic: the problem points at the failed item, and nothing changes', async (t) => {
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

  t.test('expect: the problem of the item has its conflicts', async (t) => {
    const [{ id: task_id }] = await pair({ metadata: { sprint: '5' } })
    const update = [
      { task_id, patch: { title: 'a' }, expect: { title: 'First' } },
      { task_id, patch: { title: 'b' }, expect: { title: 'First', metadata: { sprint: '4' } } },
    ]
    const conflicts = [
      { field: 'title', current: 'a' },
      { field: 'metadata.sprint', current: '5' },
    ]
    const atomic = await send(owner, { atomic: true, update })
    t.equal(atomic.status, 412)
    t.match(atomic.body, { conflicts, errors: [{ pointer: '/update/1' }] })
    const headers = { 'idempotency-key': 'conflicts' }
    for (const expected of ['1', 'replayed']) {
      const { body } = await send(owner, { update }, { headers })
      const [changed, refused] = (body as Results).update
      t.equal(changed?.status, 200, expected)
      t.strictSame(refused?.problem?.conflicts, conflicts, expected)
    }
    t.match((await readTask(owner, task_id)).task, { title: 'a', version: 2 })
    const invalid = { update: [update[0], { ...update[1], expect: { metadata: { A: '' } } }] }
    const reply = await send(owner, invalid)
    t.equal(reply.status, 400)
    t.strictSame(pointersOf(reply.body as Schemas['Problem']), ['/update/1/expect/metadata/A'])
  })

  t.test('the tag counts follow a change of tags and owner', async (t) => {
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

  t.test('500 updates of one task', async (t) => {
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

  t.test('an atomic batch is not mixed with other writes at the same time', async (t) => {
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
    t.equal(after.title === 'First' ? '' : after.title, after.description, 'both fields are from one batch')
  })
})

t.test('if_match: 412 for another version, 400 for a weak ETag and for additions of tags', async (t) => {
  const tasks = await newTasks('match')
  const { owner } = tasks
  const { create: _, tag, ...items } = oneItemEach(tasks)
  const withMatch = (if_match: string) => ({
    update: [{ ...items.update[0], if_match }],
    delete: [{ ...items.delete[0], if_match }],
    untag: [{ ...items.untag[0], if_match }],
  })
  const before = await stateOf(tasks)
  const stale = { update: [412], delete: [412], untag: [412] }
  for (const other of ['"2"', '2', '"2.1"'])
    t.strictSame(statusesOf(await run(owner, withMatch(other))), stale)
  t.strictSame(await stateOf(tasks), before)
  t.strictSame(statusesOf(await run(owner, withMatch('1'))), { update: [200], delete: [204], untag: [204] })
  const weak = { update: [{ ...items.update[0], if_match: 'W/"2"' }] }
  const { body } = await service.expect('batchTasks', 400, { token: owner.token, body: weak })
  t.strictSame(pointersOf(body), ['/update/0/if_match'])
  const notAccepted = { tag: [{ ...tag[0], if_match: '"1"' }] }
  await service.expect('batchTasks', 400, { token: owner.token, body: notAccepted })
})

t.test('atomic: all items are applied or none', async (t) => {
  const tasks = await newTasks('atomic')
  const { owner, assignee, changed } = tasks
  const all = oneItemEach(tasks)
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
    t.strictSame(await stateOf(tasks), before, 'nothing changes')
  }
  const byAssignee = await send(assignee, { atomic: true, ...all })
  t.equal(byAssignee.status, 403, 'a forbidden deletion fails the other items')
  t.strictSame(await stateOf(tasks), before)
  const done = { create: [201], update: [200], delete: [204], tag: [204], untag: [204] }
  t.strictSame(statusesOf(await run(owner, { atomic: true, ...all })), done)
})

t.test('dry_run: reports the results, and nothing changes', async (t) => {
  const tasks = await newTasks('dry')
  const { owner, assignee } = tasks
  const before = await stateOf(tasks)
  const results = await run(owner, { dry_run: true, ...oneItemEach(tasks) })
  t.strictSame(statusesOf(results), { create: [201], update: [200], delete: [204], tag: [204], untag: [204] })
  t.match(results.create, [{ task_id: null, etag: null }])
  t.match(results.update, [{ etag: null }])
  t.strictSame(statusesOf(await run(assignee, { dry_run: true, ...oneItemEach(tasks) })).delete, [403])
  t.equal((await send(assignee, { dry_run: true, atomic: true, ...oneItemEach(tasks) })).status, 403)
  t.strictSame(await stateOf(tasks), before)
})

t.test('400 for empty, too large and malformed batches', async (t) => {
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

t.test('400 for more than 262,144 indexed characters', async (t) => {
  const { token } = admin
  // The title counts as one character, and each description as its first 8,192.
  const batchOf = (descriptions: readonly string[]) => ({
    create: descriptions.slice(0, 1).map((description) => ({ title: 'a', description })),
    update: descriptions.slice(1).map((description, n) => ({
      task_id: `${unknownId.slice(0, -2)}${n + 10}`,
      patch: { description },
    })),
  })
  const isAccepted = async (descriptions: readonly string[]) => {
    const { status, body } = await service.call('batchTasks', { token, body: batchOf(descriptions) })
    if (status === 400) t.match(body, { code: 'invalid_request', detail: /not exceed 262144 characters/ })
    return status === 200
  }
  const long = 'x'.repeat(8_192)
  const almost = Array.from({ length: 31 }, () => long)
  t.ok(await isAccepted([...almost, 'x'.repeat(8_191)]))
  t.notOk(await isAccepted([...almost, long]))
  t.ok(
    await isAccepted([...almost.slice(1), 'x'.repeat(65_536), 'x'.repeat(8_191)]),
    'only the first 8,192 characters are indexed',
  )
  const costly = Array.from({ length: 7 }, () => '\u6f22'.repeat(8_192))
  t.ok(await isAccepted([...costly, '\u6f22'.repeat(8_191)]))
  t.notOk(await isAccepted([...costly, '\ufdfa'.repeat(8_192)]))
})

t.test('500 items take as many statements as two', async (t) => {
  const { owner } = await peopleOf('many')
  const create = Array.from({ length: 500 }, (_, n) => ({
    title: `task ${n}`,
    description: 'x'.repeat(500),
  }))
  const results = await run(owner, { atomic: true, create })
  const ids = results.create.map(({ task_id }) => task_id ?? '')
  t.equal(new Set(ids).size, 500)
  t.equal(
    (await readTask(owner, ids[499] ?? '')).task.title,
    'task 499',
    'results are in the order of the items',
  )
  const others = await newTasks('others')
  const two = {
    atomic: true,
    update: [{ task_id: others.changed.id, patch: { status: 'done' } }],
    delete: [{ task_id: others.deleted.id }],
  }
  const expected = await statementsOf(others.owner, two)
  const update = ids.slice(0, 250).map((task_id) => ({ task_id, patch: { status: 'done' } }))
  const remove = ids.slice(250).map((task_id) => ({ task_id }))
  t.equal(await statementsOf(owner, { atomic: true, update, delete: remove }), expected)
  const { body } = await service.expect('listTasks', 200, {
    token: owner.token,
    query: { include_total: true, status: 'done', limit: 1 },
  })
  t.equal(body.total, 250)
})

/** The same JSON object with its fields in another order. */
const inReverse = (value: object): object => {
  const reverse = (one: unknown): unknown => (typeof one === 'object' && one !== null ? inReverse(one) : one)
  if (Array.isArray(value)) return (value as unknown[]).map(reverse)
  const entries = Object.entries(value).toReversed()
  return Object.fromEntries(entries.map(([name, one]) => [name, reverse(one)]))
}

t.test('Idempotency-Key', async (t) => {
  const withKey = (key: string): Call => ({ headers: { 'idempotency-key': key } })

  t.test('a repeat gets the same response', async (t) => {
    const tasks = await newTasks('replayed')
    const { owner } = tasks
    const body = { ...oneItemEach(tasks), delete: [{ task_id: unknownId }] }
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
    t.strictSame(third.body, first.body, 'in any order of the fields of an item')
    t.strictSame(await stateOf(tasks), state)
    t.equal((await send(owner, { create: [{ title: 'x' }] }, withKey('once'))).status, 422)
  })

  t.test('ten requests at the same time are executed once', async (t) => {
    const { owner } = await peopleOf('ten')
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => send(owner, { create: [{ title: 'Once' }] }, withKey('ten'))),
    )
    t.equal(new Set(replies.map(({ body }) => JSON.stringify(body))).size, 1)
    const { body } = await service.expect('listTasks', 200, { token: owner.token })
    t.equal(body.items.length, 1)
  })

  t.test('rejections and dry runs are not stored', async (t) => {
    const { owner, assignee } = await peopleOf('not-kept')
    const failing = { atomic: true, create: [{ title: 'x', owner_id: assignee.id }] }
    t.equal((await send(owner, failing, withKey('retried'))).status, 403)
    t.equal((await send(owner, { dry_run: true, create: [{ title: 'x' }] }, withKey('retried'))).status, 200)
    const { status, headers } = await send(owner, { create: [{ title: 'x' }] }, withKey('retried'))
    t.equal(status, 200)
    t.equal(headers.get('idempotency-replayed'), null)
  })
})

t.test('batches at the same time', async (t) => {
  t.test('wait for each other if they have the same tasks, in any order', async (t) => {
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
    t.equal(new Set(titles.map(({ title }) => title)).size, 1, 'all titles are from the last batch')
    t.ok(titles.every(({ version }) => version === 7))
  })

  t.test('one of those with the same ETags succeeds', async (t) => {
    const { owner } = await peopleOf('same')
    const { create } = await run(owner, { create: [{ title: 'a' }, { title: 'b' }, { title: 'c' }] })
    const titled = (title: string) =>
      create.map(({ task_id, etag }) => ({ task_id, if_match: etag, patch: { title } }))
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, n) => send(owner, { atomic: true, update: titled(`${n}`) })),
    )
    t.strictSame(countStatuses(replies), { 200: 1, 412: 7 })
  })

  t.test('succeed while a tag and an assignee are deleted', async (t) => {
    for (let n = 0; n < 4; n += 1) {
      const tasks = await newTasks(`deleted-${n}`)
      const { owner, assignee, tag } = tasks
      const [batch] = await Promise.all([
        send(owner, {
          ...oneItemEach(tasks),
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
