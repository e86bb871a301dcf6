import t from 'tap'
import { preparedStatements } from '../../fixture/plan.ts'
import { type Account, startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

t.test('pages that are often asked for are prepared', async (t) => {
  const service = await startService(t)
  const { db } = service.deps
  await service.register('admin')
  const { createTask } = taskActions(service)
  const list = async ({ token }: Account, query: Record<string, string>): Promise<readonly string[]> => {
    const { body } = await service.expect('listTasks', 200, { token, query })
    return body.items.map(({ title }) => title)
  }
  /** The texts of lists of tasks that were prepared. */
  const prepared = async (): Promise<ReadonlySet<string>> =>
    new Set(
      (await preparedStatements(db))
        .map(({ text }) => text)
        .filter((text) => text.includes('tasks for member.list')),
    )

  const [ada, bob] = [await service.register('ada'), await service.register('bob')]
  for (const [title, status] of [
    ['Write', 'todo'],
    ['Print', 'done'],
    ['Bind', 'todo'],
  ] as const)
    await createTask(ada, { title, status })
  await createTask(bob, { title: 'Read' })

  await t.test('with the values of each request', async (t) => {
    for (let use = 0; use < 8; use += 1) {
      t.strictSame(await list(ada, { status: 'todo', sort: 'title' }), ['Bind', 'Write'])
      t.strictSame(await list(ada, { status: 'done', sort: 'title' }), ['Print'])
      t.strictSame(await list(bob, { status: 'todo', sort: 'title' }), ['Read'])
    }
    t.equal((await prepared()).size, 1)
  })

  await t.test('but not ranges, whose plan depends on the value', async (t) => {
    const before = (await prepared()).size
    for (let use = 0; use < 8; use += 1)
      t.strictSame(await list(ada, { filter: 'created_at < "2020-01-01"', sort: 'title' }), [])
    t.equal((await prepared()).size, before)
  })

  await t.test('and one caller takes only some of the places', async (t) => {
    const before = (await prepared()).size
    const fields = ['title', 'status', 'priority', 'position', 'created_at', 'updated_at', 'due', 'start']
    for (const sort of fields.flatMap((field) => [field, `-${field}`]))
      for (let use = 0; use < 4; use += 1) await list(ada, { status: 'todo', sort })
    t.equal((await prepared()).size, before + 10)
    for (let use = 0; use < 4; use += 1) await list(bob, { status: 'todo', sort: '-completed_at' })
    t.equal((await prepared()).size, before + 11)
  })
})
