import { mkdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { lockFolder } from '../../../src/db/engine/folder-lock.ts'
import { createAnalyzeChanged } from '../../../src/db/engine/maintenance.ts'
import { recordRuns } from '../../fixture/recorded-runs.ts'
import { openTestDatabase } from '../../fixture/database.ts'
import { temporaryFolder } from '../../fixture/process.ts'

/** What the embedded database has to do for itself. */

const { db, options } = await openTestDatabase(t)
const { runs, record } = recordRuns()
const analyzeChanged = createAnalyzeChanged(record(db))

/** The tables that are analyzed now. */
const analyzed = async (): Promise<readonly string[]> => {
  runs.length = 0
  await analyzeChanged()
  return runs.flatMap(({ text }) => /^analyze (\w+) \(/.exec(text)?.[1] ?? [])
}

const insertDepartures = (count: number) =>
  db.run(
    `insert into membership_tombstones (project_id, left_in, created_at)
     select gen_random_uuid(), '1', now() from generate_series(1, $1::int)`,
    [count],
  )

/** The statistics count a change shortly after it. */
const untilCounted = async (count: number): Promise<void> => {
  for (;;) {
    const [row] = await db.run(
      `select n_mod_since_analyze >= $1::int as counted from pg_stat_user_tables where relname = 'membership_tombstones'`,
      [count],
    )
    if (row?.['counted'] === true || row?.['counted'] === 't') return
  }
}

const skip = options.kind === 'server' && 'a server has autovacuum'

const countedRows = async (table: string): Promise<number> => {
  const [row] = await db.run(`select reltuples::int as rows from pg_class where relname = $1`, [table])
  return Number(row?.['rows'])
}

t.test('statistics follow the growth of a table, however large it is', { skip }, async (t) => {
  await analyzed()
  t.strictSame(await analyzed(), [])
  await insertDepartures(100)
  await untilCounted(100)
  t.strictSame(await analyzed(), ['membership_tombstones'])
  t.equal(await countedRows('membership_tombstones'), 100)
  await insertDepartures(20)
  await untilCounted(120)
  t.strictSame(await analyzed(), [], 'not after a few more rows')
  for (const rows of [10_000, 20_000]) {
    await insertDepartures(rows - (await countedRows('membership_tombstones')))
    await untilCounted(rows)
    t.strictSame(await analyzed(), ['membership_tombstones'])
    t.ok(Math.abs((await countedRows('membership_tombstones')) - rows) < rows / 20)
  }
})

t.test('words are analyzed by themselves, since each row has many', { skip }, async (t) => {
  const userId = '00000000-0000-7000-8000-000000000001'
  await db.run(
    `insert into users (id, username, email, display_name, role, password_hash) values ($1, 'ada', 'ada', 'ada', 'member', '')`,
    [userId],
  )
  await db.run(
    `insert into tasks (id, title, description, status, priority, owner_id)
     select gen_random_uuid(), 'A task', '', 'todo', 'none', $1 from generate_series(1, 100)`,
    [userId],
  )
  const tables = await analyzed()
  t.equal(tables.filter((name) => name === 'tasks').length, 2)
  t.ok(runs.some(({ text }) => text === 'analyze tasks (search)'))
})

t.test('a process that was killed before the clock was set back does not keep the folder', async (t) => {
  const folder = await temporaryFolder(t)
  const lock = join(folder, 'lock')
  await mkdir(lock)
  const inAnHour = new Date(Date.now() + 3_600_000)
  await utimes(lock, inAnHour, inAnHour)
  const release = await lockFolder(folder, { info() {} }, (error) => t.fail(error))
  await release()
})
