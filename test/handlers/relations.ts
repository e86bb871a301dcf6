import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { readChanges } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, taskActions, unknownId, withoutRequest } from '../fixture/tasks.ts'

type Kind = components['schemas']['RelationKind']

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask, readTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const admin = await service.register('admin')
const ada = await service.register('ada')
const eve = await service.register('eve')

const pathOf = (task_id: string, kind: Kind, other_task_id: string) => ({ task_id, kind, other_task_id })

const relate = (task: string, kind: Kind, other: string, { token }: Account = ada) =>
  service.expect('addTaskRelation', 204, { token, params: pathOf(task, kind, other) })

const listRelations = async (task_id: string, { token }: Account = ada, query: Record<string, string> = {}) =>
  (await service.expect('listTaskRelations', 200, { token, params: { task_id }, query })).body.items

const relationsOf = async (task_id: string, account: Account = ada): Promise<readonly string[]> =>
  (await listRelations(task_id, account)).map(({ kind, other_task_id }) => `${kind} ${other_task_id}`)

const createTasks = async (
  count: number,
  fields: object = {},
  account: Account = ada,
): Promise<readonly string[]> => {
  const tasks = []
  for (let index = 0; index < count; index += 1) tasks.push((await createTask(account, fields)).id)
  return tasks
}

const createPair = async (fields: object = {}): Promise<readonly [string, string]> => {
  const [task = '', other = ''] = await createTasks(2, fields)
  return [task, other]
}

t.test('addTaskRelation', async (t) => {
  t.test('204: both tasks list the relation, once even if it is added repeatedly', async (t) => {
    const inverses = {
      blocks: 'blocked_by',
      blocked_by: 'blocks',
      duplicates: 'duplicated_by',
      duplicated_by: 'duplicates',
      relates_to: 'relates_to',
    } as const
    for (const kind of Object.keys(inverses) as (keyof typeof inverses)[]) {
      const [task, other] = await createPair()
      await relate(task, kind, other)
      await relate(task, kind, other)
      await relate(other, inverses[kind], task)
      await relate(task.toUpperCase(), kind, other.toUpperCase())
      t.strictSame(await relationsOf(task), [`${kind} ${other}`])
      t.strictSame(await relationsOf(other), [`${inverses[kind]} ${task}`])
      t.equal((await readTask(ada, task)).task.version, 1, 'the version is unchanged')
    }
  })

  t.test('204 for users who can change the task and see the other task, 403 for viewers', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, eve, 'viewer')
    const [seen = ''] = await createTasks(1, { project_id: project.id })
    const [own = ''] = await createTasks(1, {}, eve)
    await relate(own, 'blocked_by', seen, eve)
    t.strictSame(await relationsOf(own, eve), [`blocked_by ${seen}`])
    const params = pathOf(seen, 'blocks', own)
    await service.expect('addTaskRelation', 403, { token: eve.token, params })
    const [other = ''] = await createTasks(1, { project_id: project.id })
    await relate(seen, 'relates_to', other, admin)
  })

  t.test('400 for a relation to the task itself, and for an unknown kind', async (t) => {
    const [task, other] = await createPair()
    for (const [params, pointer] of [
      [{ task_id: task, kind: 'blocks', other_task_id: task }, '/other_task_id'],
      [{ task_id: task, kind: 'likes', other_task_id: other }, '/kind'],
    ] as const) {
      const { body } = await service.expect('addTaskRelation', 400, { token: ada.token, params })
      t.strictSame(pointersOf(body), [pointer])
    }
  })

  t.test('404 for unknown, invisible and trashed tasks, with the same body', async (t) => {
    const [task, trashed] = await createPair()
    const [hidden = ''] = await createTasks(1, {}, eve)
    await service.expect('deleteTask', 204, { token: ada.token, params: { task_id: trashed } })
    const problems = []
    for (const [one, other] of [
      [task, unknownId],
      [task, hidden],
      [task, trashed],
      [unknownId, task],
      [hidden, task],
    ] as const) {
      const request = { token: ada.token, params: pathOf(one, 'relates_to', other) }
      problems.push(withoutRequest((await service.expect('addTaskRelation', 404, request)).body))
    }
    for (const problem of problems) t.strictSame(problem, problems[0])
  })

  t.test('409 for a cycle, with its tasks in order', async (t) => {
    const [a = '', b = '', c = ''] = await createTasks(3)
    await relate(a, 'blocks', b)
    await relate(c, 'blocked_by', b)
    for (const params of [pathOf(c, 'blocks', a), pathOf(a, 'blocked_by', c)]) {
      const { body } = await service.expect('addTaskRelation', 409, { token: ada.token, params })
      t.match(body, { code: 'blocking_cycle' })
      t.match(body.detail, `${a}, ${b}, ${c}`)
    }
    t.strictSame(await relationsOf(c), [`blocked_by ${b}`], 'nothing has changed')
    await relate(c, 'relates_to', a)
    await relate(c, 'duplicates', a)
  })

  t.test('409 for a cycle through an invisible task, without its id', async (t) => {
    const [first = '', last = ''] = await createTasks(2, { assignee_id: eve.id })
    const [hidden = ''] = await createTasks(1)
    await relate(first, 'blocks', hidden)
    await relate(hidden, 'blocks', last)
    const request = { token: eve.token, params: pathOf(last, 'blocks', first) }
    const { body } = await service.expect('addTaskRelation', 409, request)
    t.match(body.detail, `${first}, ${last}`)
    t.notMatch(JSON.stringify(body), hidden)
  })

  t.test('409 for one of two relations that together close a cycle, added at the same time', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const [a = '', b = '', c = '', d = ''] = await createTasks(4)
      await relate(a, 'blocks', b)
      await relate(c, 'blocks', d)
      const replies = await Promise.all(
        [pathOf(b, 'blocks', c), pathOf(d, 'blocks', a)].map((params) =>
          service.call('addTaskRelation', { token: ada.token, params }),
        ),
      )
      t.strictSame(countStatuses(replies), { 204: 1, 409: 1 })
    }
  })

  t.test(
    '409 for a cycle of 1,001 tasks, and for a task that would block one that blocks 1,001 others',
    async (t) => {
      const chain = await db.run(
        `with created as (
        insert into tasks (id, title, description, status, priority, owner_id)
        select event_id(now(), number), 'Chain', '', 'todo', 'none', $1 from generate_series(1, 1002) number returning id
      ), chained as (
        select id, lead(id) over (order by id) as next from created
      ), related as (
        insert into task_relations (id, task_id, kind, other_task_id)
        select gen_random_uuid(), id, 'blocks', next from chained where next is not null
      )
      select id from created order by id`,
        [ada.id],
      )
      const ids = chain.map(({ id }) => String(id))
      const [first = '', second = ''] = ids
      const last = ids.at(-1) ?? ''
      const cycle = { token: ada.token, params: pathOf(last, 'blocks', second) }
      const { body } = await service.expect('addTaskRelation', 409, cycle)
      t.match(body, { code: 'blocking_cycle' })
      t.match(body.detail, ids.slice(1).join(', '))
      const [task = ''] = await createTasks(1)
      const refused = { token: ada.token, params: pathOf(task, 'blocks', first) }
      t.match((await service.expect('addTaskRelation', 409, refused)).body, { code: 'too_many_relations' })
      await relate(task, 'blocks', second)
      await relate(last, 'blocks', (await createTasks(1))[0] ?? '')
    },
  )

  t.test('409 in an archived project', async (t) => {
    const project = await createProject(ada)
    const [task, other] = await createPair({ project_id: project.id })
    await relate(task, 'blocks', other)
    await service.expect('archiveProject', 200, { token: ada.token, params: { project_id: project.id } })
    const params = pathOf(task, 'relates_to', other)
    const added = await service.expect('addTaskRelation', 409, { token: ada.token, params })
    t.match(added.body, { code: 'project_archived' })
    const removal = { token: ada.token, params: pathOf(task, 'blocks', other) }
    t.match((await service.expect('removeTaskRelation', 409, removal)).body, { code: 'project_archived' })
  })

  t.test('409 for more than 200 relations of either task', async (t) => {
    const [task, other] = await createPair()
    await db.run(
      `with related as (
        insert into tasks (id, title, description, status, priority, owner_id)
        select event_id(now(), number), 'Related', '', 'todo', 'none', $2 from generate_series(1, 200) number returning id
      )
      insert into task_relations (id, task_id, kind, other_task_id) select gen_random_uuid(), $1, 'duplicates', id from related`,
      [task, ada.id],
    )
    for (const params of [pathOf(task, 'blocks', other), pathOf(other, 'blocks', task)]) {
      const { body } = await service.expect('addTaskRelation', 409, { token: ada.token, params })
      t.match(body, { code: 'too_many_relations' })
    }
  })
})

t.test('removeTaskRelation', async (t) => {
  t.test('204 from either task, then 404', async (t) => {
    const [task, other] = await createPair()
    for (const params of [pathOf(task, 'blocks', other), pathOf(other, 'blocked_by', task)]) {
      await relate(task, 'blocks', other)
      await relate(task, 'relates_to', other)
      await service.expect('removeTaskRelation', 204, { token: ada.token, params })
      await service.expect('removeTaskRelation', 404, { token: ada.token, params })
      t.strictSame(await relationsOf(task), [`relates_to ${other}`], 'the other relation stays')
    }
  })

  t.test('404 if the caller cannot see the other task', async () => {
    const [task = ''] = await createTasks(1, { assignee_id: eve.id })
    const [other = ''] = await createTasks(1)
    await relate(task, 'blocks', other)
    const params = pathOf(task, 'blocks', other)
    await service.expect('removeTaskRelation', 404, { token: eve.token, params })
  })
})

t.test('listTaskRelations', async (t) => {
  t.test('200: newest first, filtered by kind, with expanded tasks', async (t) => {
    const [task = '', a = '', b = '', c = ''] = await createTasks(4)
    await relate(task, 'blocks', a)
    await relate(task, 'duplicated_by', b)
    await relate(task, 'relates_to', c)
    t.strictSame(await relationsOf(task), [`relates_to ${c}`, `duplicated_by ${b}`, `blocks ${a}`])
    t.strictSame(
      (await listRelations(task, ada, { kind: 'duplicated_by' })).map(({ other_task_id }) => other_task_id),
      [b],
    )
    const [expanded] = await listRelations(task, ada, { expand: 'task' })
    t.strictSame(expanded?.task, (await readTask(ada, c)).task)
  })

  t.test('200: excludes tasks that the caller cannot see, also from the total', async (t) => {
    const [task = ''] = await createTasks(1, { assignee_id: eve.id })
    const [hidden, trashed] = await createPair()
    await relate(task, 'blocked_by', hidden)
    await relate(task, 'relates_to', trashed)
    await service.expect('deleteTask', 204, { token: ada.token, params: { task_id: trashed } })
    t.strictSame(await relationsOf(task), [`blocked_by ${hidden}`])
    const request = { token: eve.token, params: { task_id: task }, query: { include_total: true } }
    t.match((await service.expect('listTaskRelations', 200, request)).body, { items: [], total: 0 })
    t.equal((await readTask(eve, task)).task.is_blocked, false, 'an invisible task does not block')
    t.equal((await readTask(ada, task)).task.is_blocked, true)
    await service.expect('restoreTask', 200, { token: ada.token, params: { task_id: trashed } })
    t.equal((await listRelations(task)).length, 2, 'a restored task is listed again')
  })
})

t.test('is_blocked', async (t) => {
  const listIds = async (query: Record<string, string>, account = ada): Promise<readonly string[]> =>
    (
      await service.expect('listTasks', 200, { token: account.token, query: { ...query, limit: '200' } })
    ).body.items.map(({ id }) => id)

  t.test('is true while a blocking task is open: in the task, its ETag, lists and filters', async (t) => {
    const [blocker, task] = await createPair()
    const etagBefore = (await readTask(ada, task)).etag
    await relate(blocker, 'blocks', task)
    const blocked = await readTask(ada, task)
    t.equal(blocked.task.is_blocked, true)
    t.not(blocked.etag, etagBefore)
    for (const query of [
      { is_blocked: 'true' },
      { filter: 'is_blocked = true' },
      { filter: 'NOT is_blocked != true' },
    ]) {
      t.ok((await listIds(query)).includes(task))
      t.notOk((await listIds(query)).includes(blocker))
    }
    t.ok((await listIds({ is_blocked: 'false' })).includes(blocker))
    t.notOk((await listIds({ filter: 'is_blocked = false' })).includes(task))

    const change = { token: ada.token, params: { task_id: blocker } }
    await service.expect('updateTask', 200, { ...change, body: { status: 'done' } })
    t.strictSame(await readTask(ada, task), {
      task: { ...blocked.task, is_blocked: false },
      etag: etagBefore,
    })
    await service.expect('updateTask', 200, { ...change, body: { status: 'todo' } })
    t.strictSame(await readTask(ada, task), blocked)
    await service.expect('deleteTask', 204, change)
    t.equal((await readTask(ada, task)).task.is_blocked, false)
    await service.expect('restoreTask', 200, change)
    t.equal((await readTask(ada, task)).task.is_blocked, true)
    await service.expect('updateTask', 200, {
      token: ada.token,
      params: { task_id: task },
      headers: { 'if-match': blocked.etag },
      body: { title: 'Changed on the condition of its ETag' },
    })
  })

  t.test('the change feed delivers a task again when it is unblocked', async (t) => {
    const [blocker, task] = await createPair()
    await relate(blocker, 'blocks', task)
    const read = (since: string) => readChanges(service, ada, { since, limit: 200 })
    let page = await readChanges(service, ada, { limit: 200 })
    while (page.has_more) page = await read(page.next_cursor)
    const change = { token: ada.token, params: { task_id: blocker } }
    await service.expect('updateTask', 200, { ...change, body: { status: 'cancelled' } })
    const { changed } = await read(page.next_cursor)
    t.match(
      changed.find(({ id }) => id === task),
      { is_blocked: false, version: 1 },
    )
  })

  t.test('is false once the blocking task is deleted permanently, which ends the relation', async (t) => {
    const [blocker, task] = await createPair()
    await relate(blocker, 'blocks', task)
    const params = { task_id: blocker }
    await service.expect('deleteTask', 204, { token: ada.token, params })
    await service.expect('deleteTrashedTask', 204, { token: ada.token, params })
    t.equal((await readTask(ada, task)).task.is_blocked, false)
    const [event] = await db.run(
      `select actor_id, resource_id, before from events where task_id = $1 and type = 'task.unrelated'`,
      [task],
    )
    t.strictSame(event, { actor_id: ada.id, resource_id: blocker, before: { kind: 'blocked_by' } })
    const [row] = await db.run('select blocker_count from tasks where id = $1', [task])
    t.strictSame(row, { blocker_count: 0 })
  })

  t.test('400 for other values and operators in a filter', async (t) => {
    for (const filter of ['is_blocked = maybe', 'is_blocked > true', 'is_blocked:*'])
      t.match(
        (await service.expect('listTasks', 400, { token: ada.token, query: { filter } })).body.errors?.[0]
          ?.pointer,
        '/filter',
      )
  })
})
