import t from 'tap'
import { smallTable, ranImport, rowsOf, uploadedImport } from '../fixture/imports.ts'
import { startService } from '../fixture/service.ts'
import { jobTimes } from '../../src/jobs/registry.ts'

/** What an import makes of a file. */

const service = await startService(t, { jobTimes: { ...jobTimes, events: 20 } })
const ada = await service.register('ada')
const { token } = ada

t.test('a table is previewed, then becomes personal tasks', async (t) => {
  const ready = await uploadedImport(service, ada, {
    name: 'tasks.csv',
    content: 'title,due,tags\nWater the plants,2090-05-01,home\n,2090-01-01,\nBuy milk,never,\n',
  })
  t.match(ready, {
    status: 'ready',
    format: 'csv',
    csv: { delimiter: ',', columns: ['title', 'due', 'tags'], names: ['title', 'due', 'tags'] },
    preview: { tasks: 2, refused: 1, altered: 1, tags: 1 },
    result: null,
  })
  const previewed = await rowsOf(service, ada, ready.id)
  t.match(previewed, [
    { outcome: 'refused', row: 3, code: 'invalid' },
    { outcome: 'altered', row: 4, code: 'invalid_value' },
  ])
  t.equal((await service.expect('listTasks', 200, { token })).body.items.length, 0, 'nothing is imported')
})

t.test('running', async (t) => {
  const ran = await ranImport(service, ada, smallTable)
  t.match(ran, { status: 'finished', result: { created: 1, skipped: 0, refused: 0 } })
  const [row] = await rowsOf(service, ada, ran.id)
  const task_id = row?.resource_id ?? ''
  const { body: task } = await service.expect('getTask', 200, { token, params: { task_id } })
  t.match(task, { title: 'Water the plants', owner_id: ada.id, version: 1 })
  const { body: history } = await service.expect('listTaskEvents', 200, { token, params: { task_id } })
  t.match(history.items, [{ type: 'task.imported', actor_id: ada.id }])
})
