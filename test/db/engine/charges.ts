import t from 'tap'
import { runAs } from '../../../src/concurrency/work.ts'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { createClient } from '../../../src/db/engine/connection.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { eventually } from '../../fixture/eventually.ts'

const asUser = <T>(caller: string, task: () => Promise<T>): Promise<T> =>
  runAs({ caller, isUser: true, isAbandoned: () => false, sent: [] }, task)

t.test('who has waited long for the lock of another still has several connections', async (t) => {
  const { options } = await createTestDatabase(t)
  let skipped = 0
  const now = performance.now.bind(performance)
  t.intercept(performance, 'now', { value: () => now() + skipped })
  const db = openDatabase(options)
  const holder = createClient(options, { connection: {} })
  t.teardown(() => Promise.all([db.close(), holder.end()]))
  const lock = 'select pg_advisory_xact_lock(1)'
  const waitUntil = (waiting: number) =>
    eventually(
      `${waiting} wait`,
      async () => {
        const rows = await holder`
          select from pg_stat_activity where wait_event = 'advisory' and datname = current_database()`
        return rows.length === waiting
      },
      10_000,
    )

  await holder`select pg_advisory_lock(1)`
  const change = asUser('victim', () => db.transaction(({ run }) => run(lock, []), null))
  await waitUntil(1)
  skipped = 7_000
  await holder`select pg_advisory_unlock(1)`
  await change

  await asUser('other', () => db.run('select', []))
  await holder`select pg_advisory_lock(1)`
  const reads = [1, 2].map(() => asUser('victim', () => db.run(lock, [])).catch(() => undefined))
  await waitUntil(2)
  await holder`select pg_advisory_unlock(1)`
  await Promise.all(reads)
})
