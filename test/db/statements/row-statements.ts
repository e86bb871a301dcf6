import t from 'tap'
import { builtStatement } from '../../../src/db/statements/built-statement.ts'
import { expectRow } from '../../../src/db/statements/row-statements.ts'
import { statement } from '../../../src/db/statements/statement.ts'
import { sql } from '../../../src/db/schema/drizzle.ts'
import { tags } from '../../../src/db/schema/tables.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { openDatabase } from '../../../src/db/engine/client.ts'

t.test('a missing row is that of a statement with a name', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options)
  t.teardown(() => db.close())
  const byHand = statement('test.by_hand', {}, { id: 'text' }, () => sql`select id::text from tags`)
  const built = builtStatement('test.built', {}, (builder) => builder.select({ id: tags.id }).from(tags))
  await t.rejects(byHand(db, {}).then(expectRow), { message: 'test.by_hand has no row' })
  await t.rejects(built(db, {}).then(expectRow), { message: 'test.built has no row' })
})
