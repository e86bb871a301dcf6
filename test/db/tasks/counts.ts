import t from 'tap'
import { checkDerived } from '../../fixture/derived.ts'
import { startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

const count = 10_000

t.test('one statement can change the counts of thousands of tasks', async (t) => {
  const service = await startService(t)
  const { db } = service.deps
  const ada = await service.register('ada')
  const { token } = ada
  const { createTag } = taskActions(service)
  const project = (await service.expect('createProject', 201, { token, body: { name: 'Moving' } })).body
  const tag = await createTag(ada, 'box', { project_id: project.id })
  for (let first = 1; first <= count; first += 1_000)
    await db.run(
      `with added as (
         insert into tasks (id, title, description, status, priority, owner_id, project_id)
         select gen_random_uuid(), 'Box ' || n, '', 'todo', 'none', $1, $2 from generate_series($3::int, $3 + 999) n returning id
       ), counted as (
         insert into task_counts (user_id, tasks) values ($1, 1000)
         on conflict (user_id) do update set tasks = task_counts.tasks + excluded.tasks
       )
       insert into task_tags (task_id, tag_id) select id, $4 from added where id < '20000000-0000-0000-0000-000000000000'`,
      [ada.id, project.id, first, tag.id],
      'once',
    )
  const openTasks = async (): Promise<number> => {
    const { body } = await service.expect('getProject', 200, { token, params: { project_id: project.id } })
    return body.open_task_count
  }
  t.equal(await openTasks(), count)

  await db.run('update tasks set deleted_at = now() where project_id = $1', [project.id], 'once')
  t.equal(await openTasks(), 0)
  await checkDerived(t, db)

  await db.run('update tasks set deleted_at = null where project_id = $1', [project.id], 'once')
  t.equal(await openTasks(), count)
  await checkDerived(t, db)
})
