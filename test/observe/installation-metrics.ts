import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Database } from '../../src/db/engine/client.ts'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { DatabaseUnavailable } from '../../src/db/engine/errors.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { notifyOfEvents } from '../../src/db/activity/notifications.ts'
import { makeNewDeliveries } from '../../src/db/activity/webhook-deliveries.ts'
import { createInstallationMetrics, mergeMetrics } from '../../src/observe/installation-metrics.ts'
import { serveMetrics } from '../../src/observe/metrics-server.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { createEmptyDatabase, environmentFor, openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { readMetrics } from '../fixture/observe.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'

/** Metrics of the whole installation: its disks, and the backlog of background work. */

const never = new AbortController().signal

/** The value of a series, or null. Throws if there are several. */
const valueOf = (text: string, series: string): number | null => {
  const lines = text.split('\n').filter((line) => line.startsWith(`${series} `))
  if (lines.length > 1) throw new Error(`${series} occurs ${lines.length} times`)
  return lines[0] === undefined ? null : Number(lines[0].slice(series.length))
}

/** Serves the metrics of a database. Statements fail while `isAway`, and hang while `isStuck`. */
const serve = async (t: Test, db: Database, memory = 0) => {
  const state = { isAway: false, isStuck: false, statements: 0 }
  const source = createInstallationMetrics({
    db: {
      ...db,
      async run(...parameters) {
        state.statements += 1
        if (state.isAway) throw new DatabaseUnavailable({ cause: new Error('connect ECONNREFUSED') })
        if (state.isStuck) return new Promise(() => undefined)
        return db.run(...parameters)
      },
    },
    folders: { attachments: await temporaryFolder(t), database: '/nonexistent' },
    times: { memory, wait: 2_000 },
  })
  const rest = { contentType: source.contentType, metrics: async () => 'the_rest 1\n' }
  const server = await serveMetrics(mergeMetrics(rest, source), { host: '127.0.0.1', port: 0, token: null })
  t.teardown(() => server.close())
  const scrape = async (): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${server.port}/metrics`)
    if (response.status !== 200) throw new Error(`The status of the scrape is ${response.status}`)
    return response.text()
  }
  return { state, scrape }
}

const insertOwner = async (db: Database): Promise<string> => {
  const owner = newId()
  await db.run(
    `insert into users (id, username, email, display_name, role, password_hash) values ($1, 'ada', 'ada', 'ada', 'member', '')`,
    [owner],
  )
  return owner
}

/** A new task, with its event. */
const createTask = (db: Database, owner: string) =>
  db.run(
    `with added as (
       insert into tasks (id, title, description, status, priority, owner_id)
       values (gen_random_uuid(), 'A task', '', 'todo', 'none', $1) returning *
     ), followed as (
       insert into task_followers (task_id, user_id) select id, owner_id from added
     )
     select record_event('task.created', id, null, owner_id, null, null, '{}', '{}')::text from added`,
    [owner],
  )

t.test('the backlog, free space and failed sign-ins are measured', async (t) => {
  const environment = await environmentFor(t)
  const service = await startProcess(t, {
    ...environment,
    METRICS_PORT: '0',
    METRICS_HOST: '127.0.0.1',
    LOG_LEVEL: 'info',
    WORKERS: '2',
  })
  const { expect, register } = createClient(service.url)
  const ada = await register('ada')
  const bob = await register('bob')
  await expect('updateUser', 200, {
    token: ada.token,
    params: { user_id: bob.id },
    body: { is_disabled: true },
  })
  await expect('login', 401, { body: { email: ada.email, password: 'wrong' } })
  await expect('login', 403, { body: { email: bob.email, password: bob.password } })
  await expect('completeLogin', 401, { body: { challenge: 'none', code: '123456' } })

  let text = ''
  await eventually('the backlog has been read', async () => {
    text = await readMetrics(service, '')
    return valueOf(text, 'taskwright_webhook_lag_seconds') !== null
  })
  const expected: Readonly<Record<string, number>> = {
    taskwright_webhook_lag_seconds: 0,
    taskwright_webhook_deliveries_pending: 0,
    taskwright_exports_pending: 0,
    taskwright_imports_pending: 0,
  }
  for (const [series, value] of Object.entries(expected)) t.equal(valueOf(text, series), value, series)
  const free = valueOf(text, 'taskwright_disk_free_bytes{holds="attachments"}') ?? 0
  const size = valueOf(text, 'taskwright_disk_size_bytes{holds="attachments"}') ?? 0
  t.ok(0 < free && free <= size, 'the disk with the attachments')
  await eventually('events have been read', async () => {
    text = await readMetrics(service, '')
    const lags = ['notifications', 'webhooks'].map((reader) =>
      valueOf(text, `taskwright_outbox_lag_seconds{reader="${reader}"}`),
    )
    return lags.every((lag) => lag === 0)
  })
  const failures = (reason: string): number =>
    [
      ...text.matchAll(
        new RegExp(`^taskwright_sign_in_failures_total\\{reason="${reason}".*\\} (\\d+)$`, 'gm'),
      ),
    ]
      .map(([, count]) => Number(count))
      .reduce((sum, count) => sum + count, 0)
  t.equal(failures('invalid_credentials'), 2)
  t.equal(failures('account_disabled'), 1)
  t.match(text, /^taskwright_sign_in_failures_total\{reason="too_many_requests".*\} 0$/m)
  t.match(text, /^taskwright_mails_pending.* 0$/m)
})

t.test('a transaction in another database that holds back events has an age', async (t) => {
  const { db } = await openTestDatabase(t)
  const { options } = await createEmptyDatabase(t, process.env.DATABASE_URL ?? '')
  const { scrape } = await serve(t, db)
  const lag = async () => valueOf(await scrape(), 'taskwright_horizon_lag_seconds')
  const other = createSqlClient(options)
  t.teardown(() => other.end())
  await other.begin(async (transaction) => {
    await transaction`select pg_current_xact_id()`
    await insertOwner(db)
    await eventually('the lag grows', async () => ((await lag()) ?? 0) > 0.05)
  })
  // Other tests write on the same server.
  await eventually('the lag ends', async () => ((await lag()) ?? 1) < 0.05)
})

t.test('lags are the age of the oldest waiting item', async (t) => {
  const { db } = await openTestDatabase(t)
  const { scrape } = await serve(t, db)
  const owner = await insertOwner(db)
  const read = async (): Promise<void> => {
    await changesToBeKnown(db)
    await notifyOfEvents(db, never)
    await makeNewDeliveries(db, never)
  }
  await read()
  await db.run(
    `insert into webhooks (id, owner_id, url, event_types, secret, created_at)
     values ($1, $2, 'https://example.com', array['*'], '', now() - interval '1 hour')`,
    [newId(), owner],
  )
  await createTask(db, owner)
  for (const status of ['reading', 'running', 'ready'])
    await db.run(
      `insert into imports (id, user_id, status, file_name, size, sha256, file_expires_at)
       values (gen_random_uuid(), $1, $2, 'tasks.csv', 1, '', now())`,
      [owner, status],
    )
  await pause(20)
  const before = await scrape()
  t.equal(valueOf(before, 'taskwright_imports_pending'), 2)
  for (const reader of ['notifications', 'webhooks'])
    t.ok((valueOf(before, `taskwright_outbox_lag_seconds{reader="${reader}"}`) ?? 0) >= 0.02, reader)
  t.equal(valueOf(before, 'taskwright_webhook_lag_seconds'), 0)

  // An event from before the clock was set back, and one from after.
  await db.run(`update events set created_at = now() + interval '1 hour'`, [])
  await createTask(db, owner)
  await pause(20)
  const setBack = await scrape()
  for (const reader of ['notifications', 'webhooks'])
    t.ok((valueOf(setBack, `taskwright_outbox_lag_seconds{reader="${reader}"}`) ?? 0) >= 0.02, reader)

  await read()
  for (const table of ['webhook_deliveries', 'webhooks'])
    await db.run(`update ${table} set due_at = now() - interval '90 seconds'`, [])
  const after = await scrape()
  for (const reader of ['notifications', 'webhooks'])
    t.equal(valueOf(after, `taskwright_outbox_lag_seconds{reader="${reader}"}`), 0, reader)
  const lag = valueOf(after, 'taskwright_webhook_lag_seconds') ?? 0
  t.ok(lag >= 90 && lag < 150, `${lag} s`)
  t.equal(valueOf(after, 'taskwright_webhook_deliveries_pending'), 2)

  await db.run(`update webhook_deliveries set due_at = now() - interval '1 ms'`, [])
  const lagWhileServed = valueOf(await scrape(), 'taskwright_webhook_lag_seconds') ?? Infinity
  t.ok(lagWhileServed < 60, 'the lag is that of the delivery, even if due_at of the webhook is older')

  await db.run('update webhooks set is_enabled = false', [])
  t.equal(valueOf(await scrape(), 'taskwright_webhook_lag_seconds'), 0, 'disabled webhooks have no lag')
})

t.test('scrapes run no statements while the results are cached', async (t) => {
  const { db } = await openTestDatabase(t)
  const { state, scrape } = await serve(t, db, 60_000)
  await scrape()
  t.equal(state.statements, 1)
  await Promise.all([scrape(), scrape(), scrape()])
  t.equal(state.statements, 1)
})

t.test('other metrics are served without the database or a disk', async (t) => {
  const { db } = await openTestDatabase(t)
  const { state, scrape } = await serve(t, db)
  t.match(await scrape(), /^taskwright_webhook_lag_seconds 0$/m)
  for (const failure of ['isAway', 'isStuck'] as const) {
    state[failure] = true
    const text = await scrape()
    t.match(text, /^the_rest 1$/m, failure)
    t.match(text, /^taskwright_disk_free_bytes\{holds="attachments"\} [1-9]/m)
    t.notMatch(text, 'holds="database"')
    t.notMatch(text, /^taskwright_(webhook|outbox)\w* /m)
    state[failure] = false
  }
})
