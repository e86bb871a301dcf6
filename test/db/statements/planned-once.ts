import t from 'tap'
import { preparedStatements } from '../../fixture/plan.ts'
import { startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

/**
 * PostgreSQL plans a prepared statement for its values five times, and then once for all, unless plans for its values look cheaper. It plans
 * a few times more when statistics change meanwhile.
 */
const trials = 5

t.test('the statements of common writes are planned once by each session', async (t) => {
  const service = await startService(t)
  const { db } = service.deps
  const account = await service.register('ada')
  const { token } = account
  const { createTask } = taskActions(service)
  const { id: tag } = (await service.expect('createTag', 201, { token, body: { name: 'errand' } })).body
  const { id } = await createTask(account)
  const params = { task_id: id }
  for (let round = 0; round < 40; round += 1) {
    const title = `Task ${round}`
    await createTask(account, { title, tag_ids: [tag], due_at: '2027-03-01T09:00:00Z' })
    await service.expect('updateTask', 200, { token, params, body: { title, tag_ids: [tag] } })
    await service.expect('updateTask', 200, { token, params, body: { tag_ids: [], status: 'done' } })
    await service.expect('updateTask', 200, { token, params, body: { status: 'todo' } })
    await service.expect('createComment', 201, { token, params, body: { body: title } })
  }

  const rows = await preparedStatements(db)
  const often = rows.filter(({ runs }) => runs > 3 * trials)
  t.ok(often.length > 0, 'sessions have repeated statements')
  const anew = often.filter(({ planned, runs }) => planned > runs / 2)
  t.strictSame([...new Set(anew.map(({ text }) => text))], [], 'no statement is planned again and again')
})
