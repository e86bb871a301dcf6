import t from 'tap'
import { createClient } from '../../../src/db/engine/connection.ts'
import { openTestDatabase } from '../../fixture/database.ts'
import { jobDepsOf, runJobs } from '../../fixture/jobs.ts'
import { startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

const { db, options } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask } = taskActions(service)
const owner = await service.register('owner')
const { token } = owner

const historyOf = async (task_id: string) =>
  (await service.expect('listTaskEvents', 200, { token, params: { task_id } })).body.items

t.test(
  'events of a row are in the order of its changes, even if the later transaction started first',
  async (t) => {
    const { id } = await createTask(owner, { title: '0' })
    const [early, late] = [createClient(options, {}), createClient(options, {})]
    t.teardown(() => Promise.all([early.end(), late.end()]))
    await early.begin(async (transaction) => {
      await transaction`select pg_current_xact_id()`
      for (const [session, title] of [
        [late, '1'],
        [transaction, '2'],
      ] as const)
        await session`
          with changed as (update tasks set title = ${title} where id = ${id} returning *)
          select record_event('task.updated', id, project_id, owner_id, assignee_id, null, '{}',
            jsonb_build_object('title', title))::text from changed`
    })
    const inOrder = await db.run(
      "select after ->> 'title' as title from events where task_id = $1 order by changed_in, ordinal",
      [id],
    )
    t.strictSame(
      inOrder.map(({ title }) => title),
      ['0', '1', '2'],
    )
    t.strictSame(
      (await historyOf(id)).map(({ after }) => after.title),
      ['2', '1', '0'],
    )
  },
)

t.test('events are removed after EVENT_DAYS', async (t) => {
  const { id: task_id } = await createTask(owner)
  const { eventDays } = service.deps.config
  const age = (days: number) =>
    db.run(`update events set created_at = now() - make_interval(days => ${days})`, [])
  await age(eventDays - 1)
  await runJobs(jobDepsOf(service))
  t.equal((await historyOf(task_id)).length, 1)
  await age(eventDays + 1)
  await service.expect('updateTask', 200, { token, params: { task_id }, body: { title: 'Now' } })
  await runJobs(jobDepsOf(service))
  t.strictSame(
    (await historyOf(task_id)).map(({ type }) => type),
    ['task.updated'],
  )
})

t.test('events of a permanently deleted task remain, without values', async (t) => {
  const { id: task_id } = await createTask(owner, { title: 'A secret' })
  const params = { task_id }
  await service.expect('updateTask', 200, { token, params, body: { description: 'A secret' } })
  await service.expect('deleteTask', 204, { token, params })
  await service.expect('deleteTrashedTask', 204, { token, params })
  await runJobs(jobDepsOf(service))
  const left = await db.run(
    'select type, before::text, after::text from events where task_id = $1 order by ordinal',
    [task_id],
  )
  t.strictSame(
    [...left],
    ['task.created', 'task.updated', 'task.deleted'].map((type) => ({ type, before: '{}', after: '{}' })),
  )
})
