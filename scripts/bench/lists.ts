import type { Database } from '../../src/db/engine/client.ts'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { maxSorted } from '../../src/db/lists/rows.ts'
import { selectTasks } from '../../src/db/task-list.ts'
import type { Position } from '../../src/domain/cursors.ts'
import type { Principal } from '../../src/domain/permissions.ts'
import { type TaskList, taskList, type TaskListQuery, taskSortFields } from '../../src/domain/task-filter.ts'
import { rowsRead } from '../../test/fixture/plan.ts'
import { withPostgres } from '../run/postgres.ts'
import { idAt, seededDatabase } from './seed-lists.ts'

/**
 * `node scripts/bench/lists.ts [tasks] [milliseconds per measurement]`: each filter and each sort order of task lists on a new PostgreSQL
 * server, for an administrator, who sees everything, and for the member with the most tasks. With DATABASE_URL, it seeds databases on
 * that server and keeps them for the next run.
 */

const [large = 1_000_000, budget = 250] = process.argv.slice(2).map(Number)
const firstPage = { limit: 50, offset: 0, position: null, includeTotal: false }
const depth = 100_000

/** A filter and a sort order. */
interface ListCase {
  readonly name: string
  readonly query: TaskListQuery
}

const orders = taskSortFields.flatMap((field) => [field, `-${field}`])

/** Whether the sort order has an index. Other orders sort all visible tasks. */
const isIndexed = ({ query: { sort = '-created_at' } }: ListCase): boolean =>
  /^-?(created_at|updated_at|due)\b/.test(sort)

const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString()

const filters: readonly (readonly [string, TaskListQuery])[] = [
  ['status=todo', { status: ['todo'] }],
  ['status=cancelled', { status: ['cancelled'] }],
  ['priority=urgent', { priority: ['urgent'] }],
  ['owner_id, of many tasks', { owner_id: [idAt(1)] }],
  ['owner_id, of fewer tasks', { owner_id: [idAt(8)] }],
  ['assignee_id, of many tasks', { assignee_id: [idAt(1)] }],
  ['assignee_id, of fewer tasks', { assignee_id: [idAt(3)] }],
  ['tag_id', { tag_id: [idAt(3)] }],
  ['tag_id of two, all', { tag_id: [idAt(3), idAt(4)], tag_match: 'all' }],
  ['untagged', { untagged: true }],
  ['overdue', { overdue: true }],
  ['due_after, due_before: a week', { due_after: daysAgo(267), due_before: daysAgo(260) }],
  ['created_before: a year ago', { created_before: daysAgo(365) }],
  ['updated_after: the last days', { updated_after: daysAgo(3) }],
  ['completed_before: a year ago', { completed_before: daysAgo(365) }],
  ['has_attachments', { has_attachments: true }],
  ['filter=status = todo AND priority >= high', { filter: 'status = todo AND priority >= high' }],
  ['q, a word of one task in ten', { q: 'invoice' }],
  ['q, a rare word', { q: 'w19999' }],
  ['q, a part of one title in ten', { q: 'voice' }],
  ['q, a rarer part of a title', { q: 'voice meet' }],
]

const listCases: readonly ListCase[] = [
  ...orders.map((sort) => ({ name: `sort=${sort}`, query: { sort } })),
  ...filters.flatMap(([name, query]) => [
    { name: `${name}, sort=-created_at`, query: { ...query, sort: '-created_at' } },
    { name: `${name}, sort=due`, query: { ...query, sort: 'due' } },
  ]),
  ...filters
    .filter(([, { q }]) => q !== undefined)
    .map(([name, query]) => ({ name: `${name}, titles first`, query })),
]

const principalOf = (n: number, role: Principal['role']): Principal => ({
  userId: idAt(n),
  role,
  timeZone: 'Europe/Berlin',
  taskQuota: null,
  credential: { kind: 'session', sessionId: idAt(n) },
})

const callers = { admin: principalOf(0, 'admin'), member: principalOf(1, 'member') }

const listOf = (principal: Principal, query: TaskListQuery): TaskList => {
  const list = taskList({ all: principal.role === 'admin', ...query }, { now: new Date(), ...principal })
  if (list === null) throw new Error('A list sorts by a field twice')
  return list
}

interface Measurement {
  readonly returned: number
  readonly p50: number
  readonly p99: number
  /** Rows of tasks that were read per returned task. */
  readonly rowsRead: number
}

const quantile = (times: readonly number[], q: number): number => times[Math.ceil(times.length * q) - 1] ?? 0

interface PageOfList {
  readonly db: Database
  readonly principal: Principal
  readonly query: TaskListQuery
  readonly position: Position | null
}

/** Reads a page, and records its statement and the times. */
const readerOf = ({ db, principal, query, position }: PageOfList) => {
  let statement: Parameters<typeof rowsRead>[1] = { text: '', values: [] }
  const recording: Database = {
    ...db,
    run: (text, values, mode) => {
      statement = { text, values }
      return db.run(text, values, mode)
    },
  }
  const list = listOf(principal, query)
  const read = () => selectTasks(recording, principal, list, { ...firstPage, position })
  const countRowsRead = () => rowsRead(db, statement, ({ Alias: alias = '' }) => alias.startsWith('item'))
  return { read, countRowsRead, times: [] as number[] }
}

/**
 * Measures pages after a warm-up; slow pages are read fewer times. Pages are read in turn, so that other load on the machine affects
 * all of them.
 */
const measure = async (pages: readonly PageOfList[]): Promise<Measurement[]> => {
  const readers = pages.map(readerOf)
  const readAll = async () => {
    for (const { read, times } of readers) {
      const start = performance.now()
      await read()
      times.push(performance.now() - start)
    }
  }
  // PostgreSQL decides at the sixth execution of a prepared statement whether to use a generic plan.
  const warmUpEnd = performance.now() + budget * readers.length
  for (let n = 0; n < 6 && (n === 0 || performance.now() < warmUpEnd); n += 1) await readAll()
  for (const { times } of readers) times.length = 0
  const end = performance.now() + budget * readers.length
  for (let n = 0; n < 5 || (n < 200 && performance.now() < end); n += 1) await readAll()

  const measurements: Measurement[] = []
  for (const { read, countRowsRead, times } of readers) {
    const returned = countItems((await read()).items)
    times.sort((a, b) => a - b)
    measurements.push({
      returned,
      p50: quantile(times, 0.5),
      p99: quantile(times, 0.99),
      rowsRead: (await countRowsRead()) / Math.max(returned, 1),
    })
  }
  return measurements
}

const countItems = (json: string): number => (JSON.parse(json) as unknown[]).length

/** The position after 100,000 tasks (`depth`), or after nine tenths of the tasks if there are fewer. */
const deepPosition = async (
  db: Database,
  principal: Principal,
  query: TaskListQuery,
): Promise<Position | null> => {
  const list = listOf(principal, query)
  const read = (offset: number) =>
    selectTasks(db, principal, list, { limit: 1, offset, position: null, includeTotal: offset === 0 })
  const { total } = await read(0)
  return (await read(Math.min(depth, Math.floor((total ?? 0) * 0.9)))).next
}

interface Result extends ListCase {
  readonly caller: keyof typeof callers
  /** Number of tasks that the caller can see. */
  readonly visible: number
  readonly first: Measurement
  /** Null if the list has one page. */
  readonly deep: Measurement | null
  /** The first page in a database with a hundredth of the tasks. Compared only if it returns as many tasks. */
  readonly small: Measurement
}

const measureCase = async (
  db: Database,
  smallDb: Database,
  principal: Principal,
  { query }: ListCase,
): Promise<Pick<Result, 'first' | 'deep' | 'small'>> => {
  const firstOf = (db: Database): PageOfList => ({ db, principal, query, position: null })
  const position = await deepPosition(db, principal, query)
  const pages = [firstOf(db), firstOf(smallDb), ...(position === null ? [] : [{ ...firstOf(db), position }])]
  const [first, small, deep = null] = await measure(pages)
  if (first === undefined || small === undefined) throw new Error('A page was not measured')
  return { first, deep, small }
}

const bench = async (db: Database, smallDb: Database): Promise<Result[]> => {
  const results: Result[] = []
  for (const [caller, principal] of Object.entries(callers) as [keyof typeof callers, Principal][]) {
    const { total } = await selectTasks(db, principal, listOf(principal, {}), {
      ...firstPage,
      limit: 1,
      includeTotal: true,
    })
    for (const listCase of listCases) {
      // The service rejects such a request, because there are too many tasks to sort.
      if (!isIndexed(listCase) && (total ?? 0) > maxSorted) continue
      const measured = await measureCase(db, smallDb, principal, listCase)
      results.push({ ...listCase, caller, visible: total ?? 0, ...measured })
    }
  }
  return results
}

interface Column {
  readonly title: string
  readonly target: number
  readonly value: (result: Result) => number | null
}

/** For a member, reading up to twice the visible tasks meets the target. */
const rowsForOne = ({ caller, visible }: Result, { returned, rowsRead: rows }: Measurement): number =>
  caller === 'member' && rows * returned <= 2 * visible ? Math.min(rows, 10) : rows

const columns: readonly Column[] = [
  { title: 'p99/p50', target: 5, value: ({ first }) => first.p99 / first.p50 },
  { title: 'rows/row', target: 10, value: (result) => rowsForOne(result, result.first) },
  { title: 'deep/first', target: 1.3, value: ({ first, deep }) => deep && deep.p50 / first.p50 },
  { title: 'deep rows/row', target: 10, value: (result) => result.deep && rowsForOne(result, result.deep) },
  {
    title: 'growth',
    target: 1.5,
    value: (result) =>
      isIndexed(result) && result.first.returned === result.small.returned
        ? result.first.p50 / result.small.p50
        : null,
  },
  {
    title: 'ms to sort 30,000',
    target: 150,
    value: (result) => (isIndexed(result) ? null : (result.first.p50 * 30_000) / result.visible),
  },
]

/** Prints a line for each case with missed targets marked, and the number of cases that meet each target. */
const print = (results: readonly Result[]): void => {
  const hits = columns.map(() => ({ met: 0, of: 0 }))
  console.log(
    ['caller', 'list', 'p50 ms', ...columns.map(({ title, target }) => `${title} <= ${target}`)].join(' | '),
  )
  for (const result of results) {
    const { caller, name, first } = result
    const cells = columns.map(({ target, value }, index) => {
      const number = value(result)
      const hit = hits[index]
      if (number === null || hit === undefined) return '-'
      const isMet = number <= target
      hit.of += 1
      if (isMet) hit.met += 1
      return `${number.toFixed(1)}${isMet ? '' : ' missed'}`
    })
    console.log([caller, name, first.p50.toFixed(2), ...cells].join(' | '))
  }
  for (const [index, { title, target }] of columns.entries())
    console.log(`${title} <= ${target}: met by ${hits[index]?.met} of ${hits[index]?.of}`)
}

/** Opens a database without a statement timeout, so that slow statements are measured, too. */
const openWithoutTimeout = (connection: ServerConnection): Database => {
  const settings = { statement_timeout: 0, timezone: 'UTC', jit: 'off' }
  const client = createClient(connection, { connection: settings })
  return {
    run: (text, values, mode) =>
      client.unsafe<Record<string, unknown>[]>(text, values as never[], { prepare: mode !== 'once' }),
    transaction: () => Promise.reject(new Error('The benchmark has no transactions')),
    listen: () => undefined,
    pending: () => 0,
    close: () => client.end(),
  }
}

const run = async (url: string): Promise<void> => {
  const open = async (count: number) => openWithoutTimeout(await seededDatabase(url, count))
  const smallDb = await open(large / 100)
  const db = await open(large)
  print(await bench(db, smallDb))
  await db.close()
  await smallDb.close()
}

const { DATABASE_URL } = process.env
await (DATABASE_URL === undefined ? withPostgres(run, { fast: true }) : run(DATABASE_URL))
