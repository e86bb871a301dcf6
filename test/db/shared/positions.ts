import t from 'tap'
import { SerializationFailure } from '../../../src/db/engine/errors.ts'
import { makeRoomForTask } from '../../../src/db/tasks/places.ts'
import { openTestDatabase } from '../../fixture/database.ts'
import { startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

/** Making room between tasks, of which no client sees anything. */

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask } = taskActions(service)
const ada = await service.register('ada')
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

t.test('a task that was moved after it was read makes the transaction repeat', async (t) => {
  const ids: string[] = []
  for (let index = 0; index < 50; index += 1) ids.push((await createTask(ada, { title: String(index) })).id)
  /** Two pairs of tasks have equal positions: nothing fits between them. */
  const pairs: Readonly<Record<number, number>> = { 17: 16, 27: 26 }
  for (const [index, id] of ids.entries())
    await db.run('update tasks set position = $2 where id = $1', [
      id,
      index === 0 ? 'a0' : `a0${digits[(pairs[index] ?? index) + 1]}`,
    ])
  const moveAfter = (index: number) =>
    ({ list: ada.id, id: ids[49] ?? '', side: 'after', anchor: ids[index] ?? '' }) as const
  const makeRoom = (index: number, run = db.run) => {
    const tx: object = { db: { ...db, run } }
    return makeRoomForTask(tx as Parameters<typeof makeRoomForTask>[0], moveAfter(index))
  }

  // Another transaction makes room nearby after the first one has read its tasks.
  const overtaken = makeRoom(16, async (...statement) => {
    if (statement[0].includes('tasks.spread')) await makeRoom(26)
    return db.run(...statement)
  })
  await t.rejects(overtaken, SerializationFailure)
})
