import t, { type Test } from 'tap'
import { fetchedLines } from '../scripts/operate/carry-over/fetched-lines.ts'
import { copyDatabase } from '../src/db/transfer/copy.ts'
import { openDatabase } from '../src/db/engine/client.ts'
import { migrate, readSchema } from '../src/db/engine/migrate.ts'
import { countLines, type RowCounts } from '../src/db/transfer/counts.ts'
import { type ReadLines, readTables } from '../src/db/transfer/read.ts'
import { restartHistoryIfCopied } from '../src/db/activity/task-changes.ts'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'

const serverUrl = process.env.DATABASE_URL ?? ''

const openEmpty = async (t: Test) => open(t, await createEmptyDatabase(t, serverUrl))
const openMigrated = async (t: Test) => open(t, await createTestDatabase(t))

const open = (t: Test, { options }: TestDatabase) => {
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

t.test('a database that is copied twice has every event once, in order', async (t) => {
  const [first, second, third] = [await openMigrated(t), await openMigrated(t), await openEmpty(t)]
  await first.record('a1', 'a2', 'a3')
  await copyDatabase(first.options, second.options)
  await second.becomeFresh()
  await second.record('b1', 'b2', 'b3')
  await copyDatabase(second.options, third.options)
  await third.becomeFresh()
  await third.record('c1')
  t.strictSame(await third.types(), ['a1', 'a2', 'a3', 'b1', 'b2', 'b3', 'c1'])
})

t.test('a copy has every index and constraint', async (t) => {
  const [migrated, copy] = [await openMigrated(t), await openEmpty(t)]
  await copyDatabase(migrated.options, copy.options)
  const definitions = ({ db }: typeof copy) =>
    db.run(
      `select pg_get_indexdef(indexrelid) as definition from pg_index
        where indrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
      union all
      select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'public'::regnamespace and conrelid <> 0
      order by definition`,
      [],
    )
  const wanted = await definitions(migrated)
  t.match(JSON.stringify(wanted), /USING gin.*FOREIGN KEY/s)
  t.strictSame(await definitions(copy), wanted)
})

t.test('every reader of a copy goes on where it was, in the same order', async (t) => {
  const [first, second] = [await openMigrated(t), await openMigrated(t)]
  await first.record('a', 'b', 'c', 'd', 'e', 'f')
  // Transactions whose order is not that of their ordinals.
  const positions = { a: [900, 2], b: [901, 1], c: [901, 6], d: [902, 4], e: [903, 5], f: [903, 7] }
  for (const [type, [transaction = 0, ordinal = 0]] of Object.entries(positions))
    await first.db.run(
      `update events set changed_in = '${transaction}', ordinal = ${ordinal + 100} where type = '${type}'`,
      [],
    )
  for (const [name, position] of [
    ['none', `'0', 0`],
    ['early', `'901', 101`],
    ['between', `'902', 0`],
    ['late', `'903', 105`],
    ['all', `'950', 0`],
  ])
    await first.db.run(
      `insert into event_readers (name, changed_in, ordinal) values ('${name}', ${position})`,
      [],
    )
  const owner = '00000000-0000-7000-8000-000000000001'
  await first.db.run(
    `with owner as (
      insert into users (id, username, email, display_name, role) values ('${owner}', 'ada', 'ada@example.com', 'Ada', 'member')
    ) insert into webhooks (id, owner_id, url, event_types, secret) values ('${owner}', '${owner}', 'https://example.com', '{*}', '\\x00')`,
    [],
  )
  await first.db.run(
    `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, event_changed_in, event_ordinal)
    select id, '${owner}'::uuid, ordinal, id, type, changed_in, ordinal from events where type <> 'f'
    union all select gen_random_uuid(), '${owner}'::uuid, 1, gen_random_uuid(), 'test', null, null
    union all select gen_random_uuid(), '${owner}'::uuid, 2, gen_random_uuid(), 'deleted', '800', 3`,
    [],
  )
  const readings = ({ db }: typeof first) =>
    db.run(
      `select name, (select string_agg(type, ' ' order by events.changed_in, events.ordinal) from events
        where (events.changed_in, events.ordinal) > (reader.changed_in, reader.ordinal)) as unread
      from event_readers reader order by name`,
      [],
    )
  const deliveries = ({ db }: typeof first) =>
    db.run(
      `select event_type, events.type, event_changed_in is null as is_test from webhook_deliveries
      left join events on (changed_in, ordinal) = (event_changed_in, event_ordinal) order by event_type`,
      [],
    )
  const unread = await readings(first)
  t.strictSame(
    unread.map((row) => [row.name, row.unread]),
    [
      ['all', null],
      ['between', 'd e f'],
      ['early', 'c d e f'],
      ['late', 'f'],
      ['none', 'a b c d e f'],
    ],
  )
  const delivered = await deliveries(first)
  await copyDatabase(first.options, second.options)
  t.strictSame(await readings(second), unread)
  t.strictSame(await deliveries(second), delivered)
  const [newest] = await second.db.run(
    'select max(changed_in::text) as changed_in, max(ordinal) as ordinal from events',
    [],
  )
  t.strictSame(newest, { changed_in: '0', ordinal: '6' })
  await second.record('g')
  t.strictSame(await second.types(), ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
})

t.test('readers of events go on while a database is read', async (t) => {
  const source = await openMigrated(t)
  const { db, options } = source
  await source.record('before')
  const read = await readTables(options, async (tables) => {
    const lines: string[] = []
    for (const table of tables) {
      if (table.name === 'events') {
        await source.record('meanwhile')
        const [transactions] = await db.run(
          `select count(*) as count, count(backend_xid) as with_id from pg_stat_activity
          where datname = current_database() and state = 'idle in transaction'`,
          [],
        )
        t.strictSame(transactions, { count: '1', with_id: '0' }, 'its transaction has no id')
        await eventually('the event is before the horizon', async () => {
          const [event] = await db.run(
            `select from events where type = 'meanwhile' and changed_in < pg_snapshot_xmin(pg_current_snapshot())`,
            [],
          )
          return event !== undefined
        })
      }
      for await (const chunk of table.rows()) lines.push(Buffer.from(chunk).toString())
    }
    return lines.join('')
  })
  t.match(read, 'before')
  t.notMatch(read, 'meanwhile', 'the snapshot is of the beginning')
})

t.test('rows that are fetched are those that COPY reads', async (t) => {
  const { db, options } = await openEmpty(t)
  await db.run(
    'create table odd (id bigint, name text, data bytea, words text[], value jsonb, at timestamptz, is_done boolean)',
    [],
  )
  await db.run(
    `insert into odd values (1, E'tab\\t line\\n\\r\\\\ \\\\N ü', '\\x5c0a00ff', array[E'a\\tb', null, '\\"', ''], '{"a": "b\\\\n\\t"}', '2026-11-29 01:02:03.456789+02', true),
    (2, '', '', '{}', null, 'infinity', false), (null, null, null, null, null, null, null), (3, '\\N', null, null, '"\\\\N"', null, null)`,
    [],
  )
  const textOf = (lines?: ReadLines) =>
    readTables(
      options,
      async ([table]) => {
        const chunks: Uint8Array[] = []
        for await (const chunk of table?.rows() ?? []) chunks.push(chunk)
        return Buffer.concat(chunks).toString()
      },
      lines,
    )
  const copied = await textOf()
  t.match(copied, /^(?:[^\n]*\n){4}$/)
  t.equal((await textOf(fetchedLines)).replaceAll('true', 't').replaceAll('false', 'f'), copied)
})

t.test('a table is read to its end by a slow reader', async (t) => {
  const { db, options } = await openMigrated(t)
  // More than what the driver buffers, and less than what it reads at once beyond that.
  const rows = 150
  await db.run(
    `insert into events (id, type, before, after, created_at)
    select gen_random_uuid(), 'large', to_json(repeat('x', 1000)), '{}', now() from generate_series(1, ${rows})`,
    [],
  )
  const read = await readTables(options, async (tables) => {
    const counts: RowCounts = new Map()
    for (const table of tables)
      for await (const _ of countLines(table, counts).rows()) await db.run('select pg_sleep(0.02)', [])
    return counts
  })
  t.equal(read.get('events'), rows)
})

t.test('a migration mends a database that an older version has copied', async (t) => {
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
