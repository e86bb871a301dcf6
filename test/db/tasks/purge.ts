import t, { type Test } from 'tap'
import type { Database } from '../../../src/db/engine/client.ts'
import { wrapRuns } from '../../../src/db/engine/wrap-runs.ts'
import { openTestDatabase } from '../../fixture/database.ts'
import { eventually } from '../../fixture/eventually.ts'
import { projectActions } from '../../fixture/projects.ts'
import { startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

/** A service whose background jobs wait until `release`. Their statements are recorded. */
const startHeld = async (t: Test) => {
  const { db } = await openTestDatabase(t)
  const released = Promise.withResolvers<void>()
  const ran: string[] = []
  const recorded = wrapRuns(db, (run) => (...parameters) => {
    ran.push(parameters[0])
    return run(...parameters)
  })
  const backgroundDb: Database = {
    ...recorded,
    run: async (...parameters) => {
      await released.promise
      return recorded.run(...parameters)
    },
    transaction: async (...parameters) => {
      await released.promise
      return recorded.transaction(...parameters)
    },
  }
  const service = await startService(t, { db, backgroundDb })
  t.teardown(() => released.resolve())
  const count = async (from: string) => {
    const [row] = await db.run(`select count(*)::int as count from ${from}`, [])
    return row?.count
  }
  /** Copies of a task, with its tags. */
  const multiply = async (id: string, times: number) => {
    await db.run(
      `insert into tasks (id, title, description, status, priority, owner_id, assignee_id)
       select gen_random_uuid(), title, description, status, priority, owner_id, assignee_id
       from tasks, generate_series(1, ${times}) where id = '${id}'`,
      [],
    )
    await db.run(
      `insert into task_tags (task_id, tag_id)
       select tasks.id, link.tag_id from tasks, task_tags link where link.task_id = '${id}' and tasks.id <> '${id}'
       on conflict do nothing`,
      [],
    )
  }
  return { db, service, ran, release: () => released.resolve(), count, multiply, ...taskActions(service) }
}

const many = 450

t.test(
  'a deleted tag on many tasks disappears immediately, and is removed from them in batches',
  async (t) => {
    const { service, ran, release, count, multiply, createTask, createTag } = await startHeld(t)
    const owner = await service.register('owner')
    const { token } = owner
    const tag = await createTag(owner, 'Urgent')
    const task = await createTask(owner, { tag_ids: [tag.id] })
    await multiply(task.id, many)
    const params = { tag_id: tag.id }

    await service.expect('deleteTag', 204, { token, params })
    await service.expect('getTag', 404, { token, params })
    await service.expect('deleteTag', 404, { token, params })
    await service.expect('addTaskTag', 404, { token, params: { task_id: task.id, tag_id: tag.id } })
    t.strictSame((await service.expect('listTags', 200, { token })).body.items, [])
    const { body: seen } = await service.expect('getTask', 200, { token, params: { task_id: task.id } })
    t.strictSame(seen.tags, [])
    const byName = await service.expect('listTasks', 200, { token, query: { filter: 'tags:urgent' } })
    t.strictSame(byName.body.items, [])
    const { body: list } = await service.expect('listTaskTags', 200, { token, params: { task_id: task.id } })
    t.strictSame(list.items, [])
    t.equal(await count('task_tags'), many + 1 - 100, 'the first batch was deleted with it')
    const again = await createTag(owner, 'urgent')
    t.not(again.id, tag.id, 'its name can be used again')

    release()
    await eventually('the rest is deleted', async () => (await count(`tags where id = '${tag.id}'`)) === 0)
    t.equal(await count('task_tags'), 0)
    t.equal(await count('tasks where version <> 2'), 0, 'each task was changed once')
    t.ok(ran.filter((text) => text.includes('task_tags')).length >= (many - 100) / 100)
  },
)

t.test('a deleted user with many tasks disappears immediately, and is removed in batches', async (t) => {
  const { db, service, ran, release, count, multiply, createTask, createTag } = await startHeld(t)
  const admin = await service.register('admin')
  const owner = await service.register('owner')
  const other = await service.register('other')
  const tag = await createTag(owner, 'Theirs')
  const task = await createTask(owner, { assignee_id: other.id, tag_ids: [tag.id] })
  await multiply(task.id, many)
  const kept = await createTask(other, { assignee_id: owner.id })
  await service.expect('addTaskTag', 204, {
    token: owner.token,
    params: { task_id: kept.id, tag_id: tag.id },
  })
  const params = { user_id: owner.id }

  await service.expect('deleteUser', 204, { token: admin.token, params })
  t.equal(await count('tasks'), many + 2 - 100, 'the first batch was deleted with it')
  for (const { token } of [admin, other]) {
    await service.expect('getUser', 404, { token, params })
    await service.expect('getTask', 404, { token, params: { task_id: task.id } })
    await service.expect('getTag', 404, { token, params: { tag_id: tag.id } })
    const { body } = await service.expect('listTasks', 200, { token, query: { include_total: true } })
    t.ok((body.total ?? 0) <= 1)
  }
  const { body: seen } = await service.expect('getTask', 200, {
    token: other.token,
    params: { task_id: kept.id },
  })
  t.strictSame(seen.tags, [], 'also before it was removed')
  const { body: users } = await service.expect('listUsers', 200, { token: admin.token })
  t.equal(users.items.length, 2)
  await service.expect('deleteUser', 404, { token: admin.token, params })

  await service.expect('getCurrentUser', 401, { token: owner.token })
  await service.expect('refreshToken', 401, { body: { refresh_token: owner.refreshToken } })
  await service.expect('login', 401, { body: { email: owner.email, password: owner.password } })
  const next = await service.register('owner')
  t.not(next.id, owner.id, 'the username and the email address can be used again')

  const mine = await createTask(other)
  for (const field of ['owner_id', 'assignee_id']) {
    const { body } = await service.expect('updateTask', 422, {
      token: other.token,
      params: { task_id: mine.id },
      body: { [field]: owner.id },
      headers: { 'content-type': 'application/merge-patch+json' },
    })
    t.match(body, { code: 'unknown_reference', errors: [{ pointer: `/${field}` }] })
  }
  await service.expect('createTask', 422, { token: admin.token, body: { title: 'x', assignee_id: owner.id } })
  const batch = await service.expect('batchTasks', 200, {
    token: other.token,
    body: { create: [{ title: 'x', assignee_id: owner.id }] },
  })
  t.equal(batch.body.create[0]?.status, 422)

  release()
  await eventually('the rest is deleted', async () => (await count(`users where id = '${owner.id}'`)) === 0)
  t.equal(await count('tasks'), 2)
  t.equal(await count('task_tags'), 0)
  const { body: left } = await service.expect('getTask', 200, {
    token: other.token,
    params: { task_id: kept.id },
  })
  t.equal(left.assignee_id, null)
  t.equal(left.version, 4, 'after it was tagged, untagged and unassigned')
  t.ok(ran.filter((text) => /delete from tasks/.test(text)).length >= many / 100)
  const [row] = await db.run('select count(*)::int as count from users where deleted_at is not null', [])
  t.equal(row?.count, 0)
})

t.test('a deletion that was interrupted by a stop continues at the next start', async (t) => {
  const { db, service, count, multiply, createTask, createTag } = await startHeld(t)
  const owner = await service.register('owner')
  const tag = await createTag(owner, 'Urgent')
  const task = await createTask(owner, { tag_ids: [tag.id] })
  await multiply(task.id, many)
  await service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: tag.id } })
  t.ok(Number(await count('task_tags')) > 0)
  const next = await startService(t, { db })
  await next.expect('getTag', 404, { token: owner.token, params: { tag_id: tag.id } })
  await eventually('the rest is deleted', async () => (await count('task_tags')) === 0)
})

t.test('a purged project takes its tags from tasks elsewhere', async (t) => {
  const { service, release, count, createTask } = await startHeld(t)
  const { token, ...owner } = await service.register('owner')
  const { createProject } = projectActions(service)
  const project = await createProject({ token, ...owner })
  const { body: tag } = await service.expect('createTag', 201, {
    token,
    body: { name: 'Theirs', project_id: project.id },
  })
  const task = await createTask({ token, ...owner })
  await service.expect('addTaskTag', 204, { token, params: { task_id: task.id, tag_id: tag.id } })
  const params = { project_id: project.id }
  await service.expect('deleteProject', 204, { token, params })
  await service.expect('deleteTrashedProject', 204, { token, params })
  release()
  await eventually('the project is removed', async () => (await count('projects')) === 0)
  const { body: after } = await service.expect('getTask', 200, { token, params: { task_id: task.id } })
  t.match(after, { tags: [], version: 3 })
  const { body: events } = await service.expect('listTaskEvents', 200, {
    token,
    params: { task_id: task.id },
  })
  t.match(events.items[0], { type: 'task.untagged', actor_id: null, resource_id: tag.id })
})
