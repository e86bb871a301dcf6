import t from 'tap'
import { type Database, openDatabase } from '../../../src/db/engine/client.ts'
import { selectTasks } from '../../../src/db/tasks/list.ts'
import type { Principal } from '../../../src/domain/shared/permissions.ts'
import { taskList, type TaskListQuery } from '../../../src/domain/tasks/filter.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { rowsRead } from '../../fixture/plan.ts'

const count = 50_001
const userId = '00000000-0000-7000-8000-000000000000'
const principal: Principal = {
  userId,
  role: 'member',
  timeZone: 'UTC',
  taskQuota: null,
  credential: { kind: 'session', sessionId: userId },
}

const { options } = await createTestDatabase(t)
const db = openDatabase(options)
t.teardown(() => db.close())

t.before(async () => {
  // Without triggers, and without indexes that these lists do not use, inserting many rows is fast.
  await db.run('alter table tasks disable trigger user', [])
  const indexes = await db.run(
    `select indexname from pg_indexes where tablename = 'tasks' and indexname not in
       ('tasks_pkey', 'tasks_owner_newest', 'tasks_assignee_newest', 'tasks_owner_due', 'tasks_assignee_due')`,
    [],
  )
  for (const { indexname } of indexes) await db.run(`drop index ${String(indexname)}`, [])
  await db.run(
    `insert into users (id, username, email, display_name, role, password_hash)
     values ($1, 'member', 'member@example.com', 'Member', 'member', '')`,
    [userId],
  )
  // The user is the owner and the assignee of each task.
  for (let n = 0; n < count; n += 5_000)
    await db.run(
      `insert into tasks (id, title, title_folded, description, search, status, priority, owner_id, assignee_id,
         created_at, updated_at, due_at)
       select lpad(to_hex(n), 32, '0')::uuid, n, n, '', setweight(to_tsvector('simple', n || ' title'), 'A')
         || setweight('description', 'D') || bigram_lexemes(n::text), case when n % 5000 = 0 then 'cancelled' else 'todo' end,
         'none', $1::uuid, $1::uuid, created_at, created_at, created_at
       from (select n, timestamptz(3) '2026-01-01Z' + n * interval '1 minute' as created_at
         from generate_series($2::int + 1, least($2::int + 5000, ${count})) n) task`,
      [userId, n],
    )
  await db.run('create index tasks_search on tasks using gin (search)', [])
  await db.run('analyze tasks', [])
})

const read = async (query: TaskListQuery, includeTotal = false) => {
  const statements: Parameters<typeof rowsRead>[1][] = []
  const recording: Database = {
    ...db,
    run: (text, values, mode) => {
      statements.push({ text, values })
      return db.run(text, values, mode)
    },
  }
  const list = taskList(query, { now: new Date(), ...principal })
  if (list === null) throw new Error('The list sorts by a field twice')
  const page = { limit: 50, offset: 0, position: null, includeTotal }
  const { items, total } = await selectTasks(recording, principal, list, page)
  const titles = (JSON.parse(items) as { readonly title: string }[]).map(({ title }) => Number(title))
  const [statement] = statements
  if (statement === undefined || statements.length > 1) throw new Error('A list takes one statement')
  return { titles, total, countRows: () => rowsRead(db, statement, () => true) }
}

const countDown = (from: number, to: number): number[] =>
  Array.from({ length: from - to + 1 }, (_, index) => from - index)

t.test('a page in index order reads few rows, although both access branches have all rows', async (t) => {
  for (const sort of ['-created_at', '-due_at']) {
    const { titles, countRows } = await read({ sort })
    t.strictSame(titles, countDown(count, count - 49))
    const rows = await countRows()
    t.ok(rows < 400, `${rows} rows`)
  }
  // One task per minute is due, from 00:01.
  const first = Array.from({ length: 50 }, (_, index) => index + 1)
  const dueQueries: readonly (readonly [TaskListQuery, readonly number[]])[] = [
    [{ sort: 'due', overdue: true }, first],
    [{ sort: 'due', due_before: '2026-01-02' }, first],
    [{ sort: '-due', due_before: '2026-01-02' }, countDown(1_439, 1_390)],
    [{ sort: 'due', due_after: '2026-01-02' }, first.map((minute) => 1_439 + minute)],
    [{ sort: '-due', due_before: '2026-01-01T00:00:30Z' }, []],
    [{ sort: 'due', filter: 'due_at > 2026-01-01T00:00:30Z AND due_at < 2026-01-02' }, first],
    [{ sort: 'due', filter: 'due = 2026-01-01' }, first],
    [{ sort: 'due', filter: 'due_at = 2026-01-01' }, first],
    [{ sort: '-due', filter: 'due <= 2026-01-01' }, countDown(1_439, 1_390)],
  ]
  for (const [query, expected] of dueQueries) {
    const { titles, countRows } = await read(query)
    t.strictSame(titles, expected)
    const rows = await countRows()
    t.ok(rows < 400, `${rows} rows for ${JSON.stringify(query)}`)
  }
})

t.test('a list in another order is sorted, with its filters and searches', async (t) => {
  const byTitle = (titles: readonly number[]) => titles.toSorted((a, b) => (String(a) < String(b) ? -1 : 1))
  const { titles, total } = await read({ sort: 'title' }, true)
  t.strictSame(titles, byTitle(countDown(count, 1)).slice(0, 50))
  t.equal(total, count)
  t.strictSame((await read({ sort: 'title', filter: 'description:"none"' })).titles, [])
  const cancelled = Array.from({ length: 10 }, (_, n) => (n + 1) * 5_000)
  const narrowed = await read({ sort: '-title', status: ['cancelled'] }, true)
  t.strictSame(narrowed.titles, byTitle(cancelled).toReversed())
  t.equal(narrowed.total, cancelled.length)
  t.strictSame((await read({ sort: 'title', q: '12345' })).titles, [12_345], 'found by the search index')
})

t.test('a search with many matches does not read them all', async (t) => {
  for (const q of ['title', 'description']) {
    const { titles, countRows } = await read({ q })
    t.strictSame(titles, countDown(count, count - 49))
    const rows = await countRows()
    t.ok(rows < 8_000, `${rows} rows`)
  }
})
