import t from 'tap'
import { analyzeChanged } from '../../../src/db/engine/maintenance.ts'
import { recordRuns } from '../../fixture/recorded-runs.ts'
import { openTestDatabase } from '../../fixture/database.ts'

/** What the embedded database has to do for itself. */

const { db, options } = await openTestDatabase(t)
const { runs, record } = recordRuns()

const analyzed = async (): Promise<readonly string[]> => {
  runs.length = 0
  await analyzeChanged(record(db))
  return runs.map(({ text }) => text).filter((text) => text.startsWith('analyze '))
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

t.test('a table with many new rows is analyzed, and not again after a few more', { skip }, async (t) => {
  await db.run('vacuum (analyze)', [], 'maintenance')
  t.strictSame(await analyzed(), [])
  await insertDepartures(100)
  await untilCounted(100)
  t.strictSame(await analyzed(), ['analyze membership_tombstones'])
  const [row] = await db.run(
    `select reltuples::int as rows from pg_class where relname = 'membership_tombstones'`,
    [],
  )
  t.equal(Number(row?.['rows']), 100)
  await insertDepartures(20)
  await untilCounted(20)
  t.strictSame(await analyzed(), [])
})
