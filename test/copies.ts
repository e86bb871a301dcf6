import t from 'tap'
import { copyDatabase } from '../src/db/copy.ts'
import { createClient } from '../src/db/engine/connection.ts'
import { migrate } from '../src/db/engine/migrate.ts'
import { createEmptyDatabase } from './fixture/database.ts'

const serverUrl = process.env.DATABASE_URL

t.test('events after a copy come after the copied ones', { skip: serverUrl === undefined }, async (t) => {
  const [first, second] = [
    await createEmptyDatabase(t, serverUrl ?? ''),
    await createEmptyDatabase(t, serverUrl ?? ''),
  ]
  const run = async (database: typeof first, statement: string) => {
    const client = createClient(database.options)
    const rows = await client.unsafe<{ ordinal: string }[]>(statement).finally(() => client.end())
    return rows.map((row) => Number(row.ordinal))
  }
  const addEvents = `insert into events (id, type, before, after, created_at)
    select gen_random_uuid(), 'task.created', '{}', '{}', now() from generate_series(1, 3) returning ordinal`
  await migrate(first.options)
  t.strictSame(await run(first, addEvents), [1, 2, 3])
  await copyDatabase(first.options, second.options)
  t.strictSame(await run(second, addEvents), [4, 5, 6])
})
