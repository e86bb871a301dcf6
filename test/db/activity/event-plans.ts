import { localClient } from '../../../src/domain/activity/audit.ts'
import { createContext } from '../../../src/services/shared/context.ts'
import t, { type Test } from 'tap'
import { type Database, openDatabase } from '../../../src/db/engine/client.ts'
import type { RunMode } from '../../../src/db/engine/transaction.ts'
import {
  hasEventsAfter,
  selectEventsForCaller,
  selectEventsForViewers,
  selectStreamStart,
} from '../../../src/db/activity/event-stream.ts'
import {
  type EventFilter,
  removeOldEvents,
  selectEvents,
  selectTaskEvents,
} from '../../../src/db/activity/events.ts'
import { notifyOfEvents } from '../../../src/db/activity/notifications.ts'
import { makeNewDeliveries } from '../../../src/db/activity/webhook-deliveries.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { rowsRead } from '../../fixture/plan.ts'

/** The number of rows of `events` that statements read, among 100,000. */

const count = 100_000
const tasks = 10_000
const projects = 400
/**
 * The member sees the first 300 projects and half of the personal tasks; the guest sees the last 300 projects. Project n has
 * 50,000 * (cbrt(n / 400) - cbrt((n - 1) / 400)) events: from 6,800 down to 42, and less than 110 from the hundredth on.
 */
const memberships = 300

const people = {
  member: '00000000-0000-7000-8000-000000000001',
  admin: '00000000-0000-7000-8000-000000000002',
  guest: '00000000-0000-7000-8000-000000000003',
}
const { member, admin, guest } = people
type Person = keyof typeof people
const idOf = (kind: string, n: string) => `md5('${kind}' || (${n}))::uuid`

const { options } = await createTestDatabase(t)
const db = openDatabase(options)
t.teardown(() => db.close())

t.before(async () => {
  const run = (text: string, values: readonly unknown[] = []) => db.run(text, values, 'once')
  // Without triggers and indexes, inserting many rows is fast.
  for (const table of ['projects', 'memberships', 'tasks'])
    await run(`alter table ${table} disable trigger user`)
  const indexes = await run(
    "select indexname, indexdef from pg_indexes where tablename = 'events' and indexdef not like '%(changed_in, ordinal)'",
  )
  for (const { indexname } of indexes) await run(`drop index ${String(indexname)}`)
  await run(
    `insert into users (id, username, email, display_name, role, password_hash)
     values ($1, 'member', 'member@example.com', '', 'member', ''), ($2, 'admin', 'admin@example.com', '', 'admin', ''),
       ($3, 'guest', 'guest@example.com', '', 'member', '')`,
    [member, admin, guest],
  )
  await run(
    `insert into projects (id, name, description) select ${idOf('project', 'n')}, n, '' from generate_series(1, ${projects}) n`,
  )
  await run(
    `insert into memberships (project_id, user_id, role)
     select ${idOf('project', 'n')}, $1::uuid, 'viewer' from generate_series(1, ${memberships}) n
     union all
     select ${idOf('project', 'n')}, $2, 'viewer' from generate_series(${projects - memberships + 1}, ${projects}) n`,
    [member, guest],
  )
  for (let n = 0; n < tasks; n += 2_000)
    await run(
      `insert into tasks (id, title, description, status, priority, owner_id, project_id)
       select ${idOf('task', 'n')}, n, '', 'todo', 'none', case when n % 4 = 1 then $1::uuid else $2 end,
         case when n % 2 = 0 then ${idOf('project', `floor(${projects} * power(n / 2 % 1000 / 1000.0, 3))::int + 1`)} end
       from generate_series($3::int + 1, $3::int + 2000) n`,
      [member, admin, n],
    )
  for (let n = 0; n < count; n += 5_000)
    await run(
      `insert into events (ordinal, id, type, actor_id, task_id, project_id, owner_id, before, after, created_at)
       select n, event_id(moment, n), 'task.updated', owner_id, task.id, project_id, owner_id, '{}', '{}', moment
       from (
         select n, now() - (${count} - n) * interval '1 minute' as moment
         from generate_series($1::int + 1, $1::int + 5000) n
       ) event join tasks task on task.id = ${idOf('task', `n % ${tasks} + 1`)}`,
      [n],
    )
  for (const { indexdef } of indexes) await run(String(indexdef))
  for (const table of ['projects', 'memberships', 'tasks']) await run(`analyze ${table}`)
  await run('analyze events')
})

interface Sent {
  readonly text: string
  readonly values: readonly unknown[]
  readonly mode: RunMode | undefined
}

/** The statements that `read` sends. */
const statementsOf = async (read: (db: Database) => Promise<unknown>): Promise<readonly Sent[]> => {
  const sent: Sent[] = []
  await read({
    ...db,
    run(text, values, mode) {
      sent.push({ text, values, mode })
      return db.run(text, values, mode)
    },
  })
  return sent
}

/** Tests every statement of a read. Each runs again for its plan, after `prepare`. */
const tryRows = async (
  t: Test,
  max: number,
  read: (db: Database) => Promise<unknown>,
  prepare?: () => Promise<unknown>,
): Promise<void> => {
  await prepare?.()
  for (const statement of await statementsOf(read)) {
    await prepare?.()
    const rows = await rowsRead(db, statement, (scan) => scan['Relation Name'] === 'events')
    t.ok(rows <= max, `${rows} events`, { statement: statement.text })
  }
}

const principalOf = (person: Person) => ({
  userId: people[person],
  role: person === 'admin' ? ('admin' as const) : ('member' as const),
  timeZone: 'UTC',
  taskQuota: null,
  credential: { kind: 'session', sessionId: member } as const,
})
const page = { limit: 50, offset: 0, position: null, includeTotal: false }
const contextOf = (db: Database, person: Person) =>
  createContext(db, principalOf(person), localClient('test'))

t.test('GET /tasks/{task_id}/events reads few rows', async (t) => {
  const [task] = await db.run(`select ${idOf('task', '1')}::text as id`, [])
  for (const role of ['member', 'admin'] as const)
    await tryRows(t, 100, (db) =>
      selectTaskEvents(contextOf(db, role), { taskId: String(task?.['id']), request: page }),
    )
})

const filters: readonly (EventFilter & { readonly all?: boolean })[] = [
  {},
  { type: ['task.updated'] },
  { type: ['comment.*'] },
  { project_id: ['none'] },
  { actor_id: [member] },
  { created_before: '2000-01-01T00:00:00Z' },
  { created_after: '2000-01-01T00:00:00Z' },
]

/** The number of rows that a request examines: 2,500, and one to detect more. */
const examined = 2_501

/**
 * The first round of memberships reads at most twice `examined`, and personal tasks are a separate branch. The projects of the
 * member differ greatly in size, so further rounds read more of the first ones. Those of the guest hardly differ. Personal
 * tasks alone may be found among the newest of everybody, a quarter of which are the member's.
 */
const maxListed: Readonly<Record<Person, number>> = {
  member: 6 * examined,
  guest: 3 * examined,
  admin: examined,
}

t.test('GET /events reads few rows', async (t) => {
  for (const filter of filters) {
    const what = JSON.stringify(filter)
    for (const person of ['member', 'guest', 'admin'] as const)
      await t.test(`${what}, as ${person}`, (t) =>
        tryRows(t, maxListed[person], (db) =>
          selectEvents(contextOf(db, person), { ...filter, all: person === 'admin' }, page),
        ),
      )
  }
})

/** The position of the event with an ordinal. */
const positionOf = async (ordinal: number) => {
  const [row] = await db.run('select changed_in::text from events where ordinal = $1', [ordinal])
  return { epoch: 1, changedIn: BigInt(String(row?.['changed_in'])), ordinal }
}

t.test('the event stream reads few rows, from the middle and from the end', async (t) => {
  const limit = 100
  for (const ordinal of [count / 2, count]) {
    const after = await positionOf(ordinal)
    await tryRows(t, 5, (db) => selectStreamStart(db, after))
    await tryRows(t, 1, (db) => hasEventsAfter(db, after))
    // Each event is read twice: to number it, and to return it.
    const shared = { after, users: [member], forAdmins: true, limit }
    await tryRows(t, 2 * limit, (db) => selectEventsForViewers(db, shared))
    for (const role of ['member', 'admin'] as const) {
      const own = { principal: principalOf(role), all: role === 'admin', after, limit }
      await tryRows(t, 2 * limit, (db) => selectEventsForCaller(db, own))
    }
  }
})

t.test('background readers read few rows, behind and up to date', async (t) => {
  const never = new AbortController().signal
  for (const read of [notifyOfEvents, makeNewDeliveries]) {
    await read(db, never)
    for (const unread of [150, 0])
      await tryRows(
        t,
        250,
        (db) => read(db, never),
        () =>
          db.run(
            `update event_readers set (changed_in, ordinal) = (
               select event.changed_in, event.ordinal from events event where event.ordinal = $1)`,
            [count - unread],
          ),
      )
  }
})

t.test('a batch of the retention job reads few rows', async (t) => {
  const { signal } = new AbortController()
  await tryRows(t, 1_000, (db) => removeOldEvents(db, 69, signal))
})

t.test('GET /events, when the statistics know only the lists of one user', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options)
  t.teardown(() => db.close())
  const run = (text: string, values: readonly unknown[] = []) => db.run(text, values, 'once')
  for (const table of ['projects', 'memberships']) await run(`alter table ${table} disable trigger user`)
  await run(
    `insert into users (id, username, email, display_name, role, password_hash)
     select id, id, id || '@example.com', '', 'member', '' from unnest($1::uuid[]) id`,
    [`{${member},${guest}}`],
  )
  const insertEvents = (from: string, values: readonly unknown[]) =>
    run(
      `insert into events (id, type, project_id, owner_id, before, after, created_at)
       select event_id(now(), n), 'project.updated', project_id, owner_id, '{}', '{}', now() - n * interval '1 minute'
       from (${from}) item`,
      values,
    )
  await insertEvents(
    'select n, null::uuid as project_id, $1::uuid as owner_id from generate_series(1, 20000) n',
    [member],
  )
  await run('analyze')
  await run(
    `insert into projects (id, name, description) select ${idOf('project', 'n')}, n, '' from generate_series(1, 50) n`,
  )
  await run("insert into memberships (project_id, user_id, role) select id, $1, 'viewer' from projects", [
    guest,
  ])
  await insertEvents(
    'select row_number() over () as n, id as project_id, null::uuid as owner_id from projects',
    [],
  )
  const [statement] = await statementsOf((recorded) => selectEvents(contextOf(recorded, 'guest'), {}, page))
  t.ok(statement)
  const rows = await rowsRead(
    db,
    statement ?? { text: '', values: [] },
    (scan) => scan['Relation Name'] === 'events',
  )
  t.ok(rows <= 1_000, `${rows} events`)
})
