import { tmpdir } from 'node:os'
import t from 'tap'
import type { Database } from '../../../src/db/engine/client.ts'
import { refuseWritesBelow } from '../../../src/db/engine/disk-guard.ts'
import { openTestDatabase } from '../../fixture/database.ts'

const { db } = await openTestDatabase(t)
await db.run('create table kept (id int primary key)', [])
const idsIn = async (database: Database) =>
  (await database.run('select id from kept order by id', [])).map(({ id }) => id)

t.test('without room, reads succeed and writes are refused before they are sent', async (t) => {
  const full = refuseWritesBelow(Number.MAX_SAFE_INTEGER, tmpdir(), db)
  t.strictSame(await idsIn(full), [])
  await t.rejects(full.run('insert into kept values (1)', []), /its disk is full/)
  await t.rejects(
    full.transaction((tx) => tx.run('insert into kept values (2)', []), null),
    /its disk is full/,
  )
  t.strictSame(await idsIn(db), [])
})

t.test('with room, nothing is refused', async (t) => {
  const roomy = refuseWritesBelow(1, tmpdir(), db)
  await roomy.run('insert into kept values (1)', [])
  await roomy.transaction((tx) => tx.run('insert into kept values (2)', []), null)
  t.strictSame(await idsIn(db), [1, 2])
})
