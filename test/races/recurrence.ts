import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { createClient } from '../../src/db/engine/connection.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, racesOn } from '../fixture/races.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

type Task = components['schemas']['Task']

/** Completions of one recurring task that race each other and other writes, on two instances. */

const { db, options } = await openTestDatabase(t)
const one = await startService(t, { db })
const otherDb = openDatabase(options)
t.teardown(() => otherDb.close())
const two = await startService(t, { db: otherDb })

const ada = await one.register('ada')
const { createTask } = taskActions(one)
const { createProject, setMember } = projectActions(one)
const { resultAfter } = racesOn({ db, options })
const { token } = ada

const newTask = (fields: object = {}) =>
  createTask(ada, { due_on: '2090-01-06', recurrence: { rule: 'FREQ=DAILY' }, ...fields })

const instance = (index: number) => (index % 2 === 0 ? one : two)

const patch = (index: number, id: string, body: object) =>
  instance(index).call('updateTask', { token, params: { task_id: id }, body })

/** The tasks of a series that are not in the trash. */
const seriesOf = async ({ occurrence }: Task) => {
  const query = { series_id: occurrence?.series_id ?? '', sort: 'created_at' }
  return (await one.expect('listTasks', 200, { token, query })).body.items
}

const rounds = Array.from({ length: 10 }, (_, index) => index)

t.test('fifty completions at once create one next task', async (t) => {
  const task = await newTask()
  const replies = await Promise.all(
    Array.from({ length: 50 }, (_, index) => patch(index, task.id, { status: 'done' })),
  )
  t.ok(replies.every(({ status }) => status === 200))
  const nextIds = new Set(replies.map(({ body }) => (body as Task).occurrence?.next_task_id))
  t.equal(nextIds.size, 1)
  t.strictSame(
    (await seriesOf(task)).map(({ id }) => id),
    [task.id, ...nextIds],
  )
})

t.test('done, reopened and done again: the next one is there exactly if the task is closed', async (t) => {
  for (const _round of rounds) {
    const task = await newTask()
    const statuses = ['done', 'todo', 'cancelled', 'in_progress', 'done', 'todo']
    await Promise.all(statuses.map((status, index) => patch(index, task.id, { status })))
    const [first, ...others] = await seriesOf(task)
    const isClosed = first?.status === 'done' || first?.status === 'cancelled'
    t.strictSame(
      others.map(({ id }) => id),
      isClosed ? [first.occurrence?.next_task_id] : [],
    )
    t.equal(first?.occurrence?.next_task_id === null, !isClosed)
  }
})

t.test('completion against another write', async (t) => {
  const project = await createProject(ada)
  const others = {
    deletion: (id: string) => two.call('deleteTask', { token, params: { task_id: id } }),
    'the end of the series': (id: string) => patch(1, id, { recurrence: null }),
    'a move to a project': (id: string) => patch(1, id, { project_id: project.id }),
    'a new subtask': (id: string) => two.call('createTask', { token, body: { title: 'x', parent_id: id } }),
  }
  for (const [name, write] of Object.entries(others))
    for (const _round of rounds) {
      const task = await newTask()
      await createTask(ada, { parent_id: task.id })
      const [closed, other] = await Promise.all([patch(0, task.id, { status: 'done' }), write(task.id)])
      t.ok([200, 404].includes(closed.status), `${name}: ${closed.status}`)
      t.ok([200, 201, 204, 404, 422].includes(other.status), `${name}: ${other.status}`)
      const live = await seriesOf(task)
      const next = live.filter(({ id }) => id !== task.id)
      t.ok(next.length <= 1, name)
      for (const { subtask_count, open_subtask_count, project_id, id } of next) {
        t.equal(open_subtask_count, subtask_count, name)
        const { items } = (await one.expect('listTasks', 200, { token, query: { parent_id: id } })).body
        t.equal(items.length, subtask_count, name)
        t.ok(
          items.every((subtask) => subtask.project_id === project_id),
          name,
        )
      }
    }
})

t.test('closing does not wait for a user who attaches a file, and is reminded of the task', async (t) => {
  const bob = await one.register('bob')
  const project = await createProject(ada)
  await setMember(ada, project, bob, 'editor')
  const task = await newTask({ project_id: project.id })
  const body = { relative_to: 'due', offset_minutes: -1440 }
  await one.expect('createReminder', 201, { token: bob.token, params: { task_id: task.id }, body })
  const attaching = createClient(options)
  t.teardown(() => attaching.end())
  await attaching.unsafe(`begin; select from users where id = '${bob.id}' for no key update`)
  const { status, body: closed } = await patch(0, task.id, { status: 'done' })
  t.equal(status, 200)
  await attaching.unsafe('rollback')
  const query = { task_id: [(closed as Task).occurrence?.next_task_id ?? ''] }
  const { body: reminders } = await one.expect('listReminders', 200, { token: bob.token, query })
  t.equal(reminders.items.length, 1, 'the next one has the reminder')
})

t.test('a follower who comes while users are locked is locked as well', async (t) => {
  const [carl, project] = [await one.register('carl'), await createProject(ada)]
  await setMember(ada, project, carl, 'editor')
  const task = await newTask({ project_id: project.id })
  const params = { task_id: task.id }
  const closed = await resultAfter(
    t,
    {
      hold: [held(`tasks where id = '${task.id}'`)],
      change: `insert into task_followers (task_id, user_id) values ('${task.id}', '${carl.id}')`,
    },
    () => one.expect('updateTask', 200, { token, params, body: { status: 'done' } }),
  )
  const next = { token, params: { task_id: closed.body.occurrence?.next_task_id ?? '' } }
  const { body: followers } = await one.expect('listTaskFollowers', 200, next)
  t.ok(followers.items.some(({ user_id }) => user_id === carl.id))
})

t.test('a subtask in the trash does not keep a recurring task from being closed', async (t) => {
  const task = await newTask()
  const subtask = await createTask(ada, { parent_id: task.id, assignee_id: (await one.register('dora')).id })
  await one.expect('deleteTask', 204, { token, params: { task_id: subtask.id } })
  const update = [task.id, subtask.id].map((task_id) => ({ task_id, patch: { status: 'done' } }))
  const reply = await one.call('batchTasks', { token, body: { update } })
  t.not(reply.status, 503)
  t.equal((await patch(0, task.id, { status: 'done' })).status, 200)
})

t.test('six close and reopen at once, and none has to come again', async (t) => {
  const task = await newTask()
  for (const _round of rounds) {
    const statuses = ['done', 'todo', 'done', 'todo', 'done', 'todo']
    const replies = await Promise.all(statuses.map((status, index) => patch(index, task.id, { status })))
    t.strictSame([...new Set(replies.map(({ status }) => status))], [200])
  }
})
