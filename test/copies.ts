import t, { type Test } from 'tap'
import { copyDatabase } from '../src/db/copy.ts'
import { openDatabase } from '../src/db/engine/client.ts'
import { migrate, readSchema } from '../src/db/engine/migrate.ts'
import { restartHistoryIfCopied } from '../src/db/task-changes.ts'
import { createEmptyDatabase } from './fixture/database.ts'

const serverUrl = process.env.DATABASE_URL
const skip = serverUrl === undefined

const openEmpty = async (t: Test) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
  const db = openDatabase(options)
  t.teardown(() => db.close())
  return {
    db,
    options,
    /** Records three events, each in a transaction of its own. */
    async record(...types: readonly string[]) {
      for (const type of types)
        await db.run(
          `select record_event('${type}', null, null, null, null, null, '{}'::jsonb, '{}'::jsonb)`,
          [],
        )
    },
    /** The types of all events, in the order of readers. */
    async types() {
      const rows = await db.run('select type from events order by changed_in, ordinal', [])
      return rows.map(({ type }) => type)
    },
    /** As if the rows came from a cluster that has had more transactions. */
    async becomeFresh() {
      for (const [table, column] of [
        ['events', 'changed_in'],
        ['webhook_deliveries', 'event_changed_in'],
      ])
        await db.run(
          `update ${table} set ${column} = (${column}::text::bigint + 1000000000)::text::xid8 where ${column} <> '0'`,
          [],
        )
      await restartHistoryIfCopied(db)
    },
  }
}

t.test('a database that is copied twice has every event once, in order', { skip }, async (t) => {
  const [first, second, third] = [await openEmpty(t), await openEmpty(t), await openEmpty(t)]
  await migrate(first.options)
  await first.record('a1', 'a2', 'a3')
  await copyDatabase(first.options, second.options)
  await second.becomeFresh()
  await second.record('b1', 'b2', 'b3')
  await copyDatabase(second.options, third.options)
  await third.becomeFresh()
  await third.record('c1')
  t.strictSame(await third.types(), ['a1', 'a2', 'a3', 'b1', 'b2', 'b3', 'c1'])
})

t.test('a migration mends a database that an older version has copied', { skip }, async (t) => {
  const schema = readSchema()
  const mending = schema.migrations.findIndex(({ sql }) => sql.some((text) => text.includes('renumbered')))
  const old = { ...schema, migrations: schema.migrations.slice(0, mending) }
  for (const events of [['b1'], ['b1', 'b2', 'b3', 'b4']]) {
    const [second, third] = [await openEmpty(t), await openEmpty(t)]
    await migrate(second.options, { schema: old })
    await second.record('a1', 'a2', 'a3')
    await second.db.run(`select setval('events_ordinal_seq', 1, false)`, [])
    await second.record(...events)
    await second.db.run(
      `alter table webhook_deliveries drop constraint webhook_deliveries_webhook_id_webhooks_id_fk`,
      [],
    )
    await second.db.run(
      `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, event_changed_in, event_ordinal)
      select id, id, 1, id, type, changed_in, ordinal from events`,
      [],
    )
    await second.db.run(
      `insert into event_readers (name, changed_in, ordinal) select 'last', changed_in, ordinal from events where type = 'b1'`,
      [],
    )
    const expected = ['a1', 'a2', 'a3', ...events]
    await migrate(second.options)
    t.strictSame(await second.types(), expected)
    const found = await second.db.run(
      `select type, event_type, (select (events.changed_in, events.ordinal) > (changed_in, ordinal) from event_readers where name = 'last') as is_unread
      from events left join webhook_deliveries on (event_changed_in, event_ordinal) = (changed_in, ordinal)
      order by changed_in, ordinal`,
      [],
    )
    t.strictSame(
      found.map((row) => row.event_type),
      expected,
      'deliveries have their events',
    )
    t.strictSame(
      found.filter((row) => row.is_unread === true).map((row) => row.type),
      events.slice(1),
      'a reader goes on where it was',
    )
    await second.db.run('truncate webhook_deliveries', [])
    await copyDatabase(second.options, third.options)
    await third.becomeFresh()
    await third.record('c1')
    t.strictSame(await third.types(), [...expected, 'c1'])
  }
})
