import t, { type Test } from 'tap'
import { type Database, openDatabase } from '../../../src/db/engine/client.ts'
import { restampEvents } from '../../../src/db/activity/events.ts'
import {
  claimWebhooks,
  makeNewDeliveries,
  selectDeliveries,
  selectNextDeliveries,
} from '../../../src/db/activity/webhook-deliveries.ts'
import { changesToBeKnown } from '../../fixture/changes.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { rowsRead } from '../../fixture/plan.ts'

/** The number of rows that the statements for deliveries read, among 2,000 webhooks and 100,000 deliveries. */

const webhooks = 2_000
const owners = 500
const perOwner = webhooks / owners
const deliveries = 100_000

/** The number of deliveries of the first webhook. A fifth of them is pending. */
const busy = 50_000

/** The number of webhooks with due deliveries. */
const due = 40

const idOf = (kind: string, n: string) => `md5('${kind}' || (${n}))::uuid`

const { options } = await createTestDatabase(t)
const db = openDatabase(options)
t.teardown(() => db.close())

const run = (text: string, values: readonly unknown[] = []) => db.run(text, values, 'once')
const textOf = async (expression: string): Promise<string> =>
  String((await run(`select (${expression})::text as value`))[0]?.['value'])

t.before(async () => {
  // Without triggers, which would count the inserted rows.
  for (const table of ['webhook_deliveries', 'webhooks', 'tasks'])
    await run(`alter table ${table} disable trigger user`)
  await run(
    `insert into users (id, username, email, display_name, role, password_hash)
     select ${idOf('user', 'n')}, 'user' || n, 'user' || n || '@example.com', '', 'member', ''
     from generate_series(1, ${owners}) n`,
  )
  await run(
    `insert into webhooks (id, owner_id, url, description, event_types, secret, is_enabled, due_at, created_at)
     select ${idOf('webhook', 'n')}, ${idOf('user', `n % ${owners} + 1`)}, 'https://example.com/', '', '{*}', '', true,
       case when n <= ${due} then now() - interval '1 minute' when n <= 2 * ${due} then now() + interval '1 hour' end,
       now() - interval '1 day'
     from generate_series(1, ${webhooks}) n`,
  )
  await run(
    `insert into tasks (id, title, description, status, priority, owner_id)
     select ${idOf('task', 'n')}, n, '', 'todo', 'none', ${idOf('user', 'n')} from generate_series(1, ${owners}) n`,
  )
  for (let n = 0; n < deliveries; n += 10_000)
    await run(
      `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, status, due_at, created_at)
       select ${idOf('delivery', 'n')},
         case when n <= ${busy} then ${idOf('webhook', '1')} else ${idOf('webhook', `n % (${webhooks} - 1) + 2`)} end, n,
         ${idOf('event', 'n')}, 'webhook.test',
         case when n <= ${busy} and n % 5 = 0 then 'pending' else 'delivered' end, now() - interval '1 minute',
         now() - (${deliveries} - n) * interval '1 second'
       from generate_series($1::int + 1, $1::int + 10000) n`,
      [n],
    )
  for (const table of ['webhook_deliveries', 'webhooks', 'tasks'])
    await run(`alter table ${table} enable trigger user`)
  for (const table of ['users', 'webhook_deliveries', 'webhooks', 'tasks']) await run(`analyze ${table}`)
})

/** Tests how many rows of each table the statements of `read` read at most. Each runs again for its plan, after `prepare`. */
const tryRows = async (
  t: Test,
  limits: Readonly<Record<string, number>>,
  read: (db: Database) => Promise<unknown>,
  prepare: () => Promise<unknown> = async () => undefined,
): Promise<void> => {
  const sent: { readonly text: string; readonly values: readonly unknown[] }[] = []
  await prepare()
  await read({
    ...db,
    run(text, values, mode) {
      sent.push({ text, values })
      return db.run(text, values, mode)
    },
  })
  t.ok(sent.length > 0)
  for (const statement of sent)
    for (const [table, max] of Object.entries(limits)) {
      await prepare()
      const rows = await rowsRead(db, statement, (scan) => scan['Relation Name'] === table)
      t.ok(rows <= max, `${rows} ${table}`, { statement: statement.text })
    }
}

const lease = { id: '00000000-0000-7000-8000-000000000001', duration: 30_000 }
const release = () =>
  run('update webhooks set lease_id = null, leased_until = null where lease_id is not null')

t.test('claiming webhooks reads those that are due', async (t) => {
  const limit = 16
  // For each due webhook, the other ones of its owner are counted. Claimed webhooks are found, locked and changed.
  const max = due * (1 + perOwner) + 5 * limit
  await tryRows(
    t,
    { webhooks: max, webhook_deliveries: 0 },
    (db) => claimWebhooks(db, lease, { prompt: limit, unproven: limit, slow: limit }),
    release,
  )
  await release()
})

t.test('the next deliveries are the first pending ones', async (t) => {
  const id = await textOf(idOf('webhook', '1'))
  await run(`update webhooks set lease_id = $1, leased_until = now() + interval '1 hour' where id = $2`, [
    lease.id,
    id,
  ])
  const next = (limit: number) => (db: Database) => selectNextDeliveries(db, id, lease, limit)
  t.strictSame(
    (await next(3)(db)).map(({ sequence }) => sequence),
    [5, 10, 15],
  )
  await tryRows(t, { webhook_deliveries: 20, webhooks: 1, users: 1 + 20 }, next(20))
  await release()
})

t.test('GET /webhooks/{webhook_id}/deliveries reads few rows', async (t) => {
  const id = await textOf(idOf('webhook', '1'))
  const userId = await textOf(idOf('user', '2'))
  const principal = {
    userId,
    role: 'member',
    timeZone: 'UTC',
    taskQuota: null,
    credential: { kind: 'session', sessionId: userId },
  }
  const page = { limit: 50, offset: 0, position: null, includeTotal: false }
  const list = (filter: object) => (db: Database) =>
    selectDeliveries({ db, principal } as never, id, filter, page)
  t.not(await list({})(db), null, 'the webhook is seen')
  await tryRows(t, { webhook_deliveries: 51, webhooks: 1 }, list({}))
  // For a common and for a rare status.
  for (const status of ['pending', 'failed'])
    await tryRows(t, { webhook_deliveries: 2_501, webhooks: 1 }, list({ status: [status] }))
})

t.test('a start reads no deliveries', async (t) => {
  await tryRows(t, { webhook_deliveries: 0 }, restampEvents)
})

t.test('creating deliveries reads only webhooks of users who see the events', async (t) => {
  const never = new AbortController().signal
  await makeNewDeliveries(db, never)
  const begin = () =>
    run(`update event_readers set (changed_in, ordinal) = (
      select min(changed_in), min(ordinal) - 1 from events)`)
  await run(`
    with changed as (select * from tasks order by id limit 100)
    select count(record_event('task.updated', id, project_id, owner_id, assignee_id, null, '{}', '{"title": "New"}')::text)
    from changed`)
  const [events] = await run('select count(*)::int as n from events')
  t.equal(events?.['n'], 100)
  await begin()
  await changesToBeKnown(db)
  await makeNewDeliveries(db, never)
  const [made] = await run(
    `select count(*)::int as n from webhook_deliveries where event_type = 'task.updated'`,
  )
  t.equal(made?.['n'], 100 * perOwner, 'one per event and webhook of the owner')
  // Webhooks are read to find and to count them. A trigger, which is not in the plan, makes them due.
  const found = 100 * perOwner
  await tryRows(
    t,
    { webhooks: 3 * found, tasks: 20 * found, users: 3 * found },
    (db) => makeNewDeliveries(db, never),
    begin,
  )
})
