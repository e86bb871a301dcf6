import t from 'tap'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import { selectTasks } from '../../src/db/task-list.ts'
import type { Position } from '../../src/domain/cursors.ts'
import type { Principal } from '../../src/domain/permissions.ts'
import { taskList, type TaskListQuery } from '../../src/domain/task-filter.ts'
import { createTestDatabase } from '../fixture/database.ts'
import { rowsRead } from '../fixture/plan.ts'

const count = 30_000
const userId = '00000000-0000-7000-8000-000000000000'
const principal: Principal = { userId, role: 'admin', credential: { kind: 'session', sessionId: userId } }

const { options } = await createTestDatabase(t)
const db = openDatabase(options)
t.teardown(() => db.close())

const minute = 60_000
const start = Date.parse('2026-01-01T00:00:00Z')
const createdAt = (n: number): string => new Date(start + n * minute).toISOString()
/** A day later, when it is changed too. */
const dueAt = (n: number): string => createdAt(n + 1_440)

t.before(async () => {
  // So many rows are inserted in little time without what these lists do not need.
  await db.run('alter table tasks disable trigger all', [])
  const indexes = await db.run(
    `select indexname from pg_indexes
     where tablename = 'tasks' and indexname not in
       ('tasks_pkey', 'tasks_newest', 'tasks_due', 'tasks_updated', 'tasks_title_pairs')`,
    [],
  )
  for (const { indexname } of indexes) await db.run(`drop index ${String(indexname)}`, [])
  await db.run(
    `insert into users (id, username, email, display_name, role, password_hash)
     values ($1, 'admin', 'admin@example.com', 'Admin', 'admin', '')`,
    [userId],
  )
  for (let n = 0; n < count; n += 5_000)
    await db.run(
      `insert into tasks (id, title, description, search, status, priority, owner_id, created_at, updated_at, due_at)
       select lpad(to_hex(n), 32, '0')::uuid, n, '', setweight(to_tsvector('simple', n || ' title'), 'A')
         || setweight('description', 'D'), 'todo', 'none', $1::uuid, created_at,
         created_at + interval '1 day', created_at + interval '1 day'
       from (select n, timestamptz(3) '2026-01-01Z' + n * interval '1 minute' as created_at
         from generate_series($2::int + 1, $2::int + 5000) n) task`,
      [userId, n],
    )
  await db.run('analyze tasks', [])
})

const read = async (query: TaskListQuery, position: Position | null) => {
  const statements: Parameters<typeof rowsRead>[1][] = []
  const recording: Database = {
    ...db,
    run: (text, values, manner) => {
      statements.push({ text, values })
      return db.run(text, values, manner)
    },
  }
  const list = taskList({ all: true, ...query }, { now: new Date(), userId })
  if (list === null) throw new Error('The list sorts by a field twice')
  const page = await selectTasks(recording, principal, list, {
    limit: 50,
    offset: 0,
    position,
    includeTotal: false,
  })
  const titles = (JSON.parse(page.items) as { readonly title: string }[]).map(({ title }) => Number(title))
  return { titles, next: page.next, statements }
}

/** How many rows the statement of a list looks at. */
const countRows = async ([statement]: readonly Parameters<typeof rowsRead>[1][]): Promise<number> => {
  if (statement === undefined) throw new Error('A list takes a statement')
  return rowsRead(db, statement, () => true)
}

const countDown = (from: number, to: number): number[] =>
  Array.from({ length: from - to + 1 }, (_, index) => from - index)

/** Each range holds the tasks between two numbers, and is asked for in the order of another field. */
const ranges = [
  { name: 'most of the tasks, where the order begins', above: 100, below: count + 1 },
  { name: 'few tasks, where the order ends', above: 100, below: 301 },
  { name: 'nearly all tasks, none of them where the order begins', above: 0, below: 26_001 },
  { name: 'fewer tasks than a page has', above: 10, below: 31 },
  { name: 'no task', above: count, below: count + 10 },
]

for (const { name, above, below } of ranges) {
  const queries: Readonly<Record<string, TaskListQuery>> = {
    'parameters, newest first': { due_after: dueAt(above), due_before: dueAt(below), sort: '-created_at' },
    'filter, newest first': {
      filter: `due_at > ${dueAt(above)} AND (status = todo AND due_at < ${dueAt(below)})`,
      sort: '-created_at',
    },
    'parameters, last due first': {
      created_after: createdAt(above),
      created_before: createdAt(below),
      sort: '-due_at',
    },
    'changes, newest first': {
      updated_after: dueAt(above),
      updated_before: dueAt(below),
      sort: '-created_at',
    },
    'parameters, last changed first': {
      created_after: createdAt(above),
      created_before: createdAt(below),
      sort: '-updated_at',
    },
    'two fields': { due_after: dueAt(above), created_before: createdAt(below), sort: '-updated_at,-due_at' },
  }
  t.test(`${name}: a search examines so many tasks for a page, and all of its pages find all`, async (t) => {
    const filter = `(title = none OR due_at > ${dueAt(above)}) AND (title = none OR due_at < ${dueAt(below)})`
    const expected = countDown(below - 1, above + 1).filter((n) => n <= count)
    const found: number[] = []
    let pages = 0
    let position: Position | null = null
    do {
      const { titles, next, statements } = await read({ filter, sort: '-created_at' }, position)
      if (pages < 3) t.ok((await countRows(statements)) < 4_000)
      found.push(...titles)
      position = next
      pages += 1
    } while (position !== null && found.length < 200)
    t.strictSame(found.slice(0, 200), expected.slice(0, 200))
    t.ok(pages <= 4 + count / 2_500, `${pages} pages`)
  })
  for (const [form, query] of Object.entries(queries)) {
    t.test(`${name}: ${form}`, async (t) => {
      const expected = countDown(below - 1, above + 1).filter((n) => n <= count)
      const first = await read(query, null)
      t.strictSame(first.titles, expected.slice(0, 50))
      t.equal(first.statements.length, 1)
      t.equal(first.next === null, expected.length <= 50)
      if (first.next === null) return
      const second = await read(query, first.next)
      t.strictSame(second.titles, expected.slice(50, 100))
    })
  }
}

t.test('what was changed before a time is looked for among what was created before it', async (t) => {
  const { titles, statements } = await read({ updated_before: dueAt(20_001), sort: '-created_at' }, null)
  t.strictSame(titles, countDown(20_000, 19_951))
  const rows = await countRows(statements)
  t.ok(rows < 1_600, `${rows} rows, of which those of a day come first`)
})

t.test('what is in many tasks is found without reading them all', async (t) => {
  for (const [q, found] of [
    ['title', 'in all titles'],
    ['description', 'in all descriptions and no title'],
  ] as const) {
    const { titles, statements } = await read({ q }, null)
    t.strictSame(titles, countDown(count, count - 49), found)
    const rows = await countRows(statements)
    t.ok(rows < 4_000, `${rows} rows`)
  }
})

t.test('of what lists are filtered by most, only what passes is read', async (t) => {
  // In pieces, like the insertion: the embedded database has ten seconds for each.
  for (let n = 0; n < count; n += 5_000)
    await db.run(
      `update tasks set
         status = case when title::int % 100 = 1 then 'cancelled' else status end,
         priority = case when title::int % 100 = 2 then 'urgent' else priority end,
         attachment_count = case when title::int % 100 = 3 then 1 else 0 end,
         due_at = case when title::int % 100 = 4 then due_at else due_at + interval '100 years' end
       where title::int > $1::int and title::int <= $1::int + 5000`,
      [n],
    )
  await db.run('analyze tasks', [])
  const queries: Readonly<Record<string, readonly [rest: number, query: TaskListQuery]>> = {
    status: [1, { status: ['cancelled'] }],
    'status in a filter': [1, { filter: 'status = cancelled' }],
    priority: [2, { priority: ['urgent'] }],
    attachments: [3, { has_attachments: true }],
    overdue: [4, { overdue: true }],
  }
  for (const [name, [rest, query]] of Object.entries(queries)) {
    const expected = countDown(count - 1, 0).filter((n) => n % 100 === rest)
    for (const sort of ['-created_at', '-due_at', '-updated_at']) {
      const { titles, statements } = await read({ ...query, sort }, null)
      t.strictSame(titles, expected.slice(0, 50), `${name}, ${sort}`)
      const rows = await countRows(statements)
      t.ok(rows < 500, `${rows} rows for 50, ${name}, ${sort}`)
    }
  }
})
