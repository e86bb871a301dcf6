import t from 'tap'
import type { OperationId } from '../src/contract/contract.ts'
import { lockOrder } from '../src/db/shared/lock-order.ts'
import { operations, prepareOperations, rows } from './fixture/operations.ts'
import { rowsRead } from './fixture/plan.ts'
import { recordRuns, type Run } from './fixture/recorded-runs.ts'
import { type Call, type Reply, startService } from './fixture/service.ts'
import { taskActions } from './fixture/tasks.ts'

/** The number of SQL statements or round trips per request, and of rows that a read examines among thousands of rows of other users. */

const { runs, record } = recordRuns()
const service = await startService(t, { aroundDatabase: record })
const { db } = service.deps
const { createTask } = taskActions(service)

const admin = await service.register('admin')
const { newWorld, requestTo } = await prepareOperations(service, admin)
const owner = await service.register('owner')
const { token } = owner
const task = await createTask(owner)

/** The number of rows of other users in each table. */
const others = 1_500

const seed = async (): Promise<void> => {
  const id = (kind: number) => `('0000000${kind}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  const fill = async (table: string, columns: string, values: string): Promise<void> => {
    // In batches, because triggers fire for each row and a statement must not take long.
    for (let first = 1; first <= others; first += 100)
      await db.run(
        `insert into ${table} (${columns}) select ${values} from generate_series(${first}, ${first + 99}) n`,
        [],
      )
    await db.run(`analyze ${table}`, [], 'once')
  }
  await fill(
    'users',
    'id, username, email, display_name, role, password_hash',
    `${id(1)}, 'other' || n, 'other' || n || '@example.com', 'Other', 'member', ''`,
  )
  await fill(
    'tasks',
    'id, title, description, status, priority, owner_id, deleted_at',
    `${id(2)}, 'Task ' || n, '', 'todo', 'none', ${id(1)}, case when n % 2 = 0 then now() end`,
  )
  await fill('tags', 'id, name, canonical_name, owner_id', `${id(3)}, 'tag', 'tag', ${id(1)}`)
  await fill('task_tags', 'task_id, tag_id', `${id(2)}, ${id(3)}`)
  await fill('task_followers', 'task_id, user_id', `${id(2)}, ${id(1)}`)
  await fill(
    'projects',
    'id, name, description, deleted_at',
    `${id(9)}, 'Project ' || n, '', case when n % 2 = 0 then now() end`,
  )
  await fill('project_members', 'project_id, user_id, role', `${id(9)}, ${id(1)}, 'manager'`)
  await fill('memberships', 'project_id, user_id, role', `${id(9)}, ${id(1)}, 'manager'`)
  await fill(
    'attachments',
    'id, task_id, file_name, content_type, size, sha256, storage_key',
    `${id(4)}, ${id(2)}, 'notes.txt', 'text/plain', 0, '', 'attachment ' || n`,
  )
  await fill(
    'uploads',
    'id, task_id, user_id, file_name, content_type, upload_metadata, upload_length, storage_key, expires_at',
    `${id(5)}, ${id(2)}, ${id(1)}, 'notes.txt', 'text/plain', '', 1, 'upload ' || n, now() + interval '1 day'`,
  )
  await fill('sessions', 'id, user_id, expires_at', `${id(6)}, ${id(1)}, now() + interval '1 day'`)
  await fill(
    'refresh_tokens',
    'hash, session_id, expires_at',
    `sha256(n::text::bytea), ${id(6)}, now() + interval '1 day'`,
  )
  await fill(
    'api_tokens',
    'id, user_id, name, hash, scopes',
    `${id(7)}, ${id(1)}, 'token', sha256(n::text::bytea), '{}'`,
  )
  await fill('audit_events', 'id, action, request_id', `${id(8)}, 'sign_in.succeeded', ''`)
  await fill(
    'thumbnails',
    'attachment_id, width, size, sha256, storage_key',
    `${id(4)}, 256, 0, '', 'thumbnail ' || n`,
  )
  await fill(
    'task_tombstones',
    'task_id, user_id, changed_in, placed_at',
    `${id(2)}, ${id(1)}, pg_current_xact_id(), now()`,
  )
  await fill(
    'reminders',
    'id, task_id, user_id, at, remind_at, fires_at',
    `${id(6)}, ${id(2)}, ${id(1)}, now(), now(), now() + interval '1 day'`,
  )
  await fill('exports', 'id, requested_by, user_id, status', `${id(7)}, ${id(1)}, ${id(1)}, 'failed'`)
  await fill(
    'notifications',
    'id, user_id, reason, event_id, task_id',
    `gen_random_uuid(), ${id(1)}, 'completion', gen_random_uuid(), ${id(2)}`,
  )
  await fill('second_factors', 'user_id, secret', `${id(1)}, ''`)
}

await seed()

/** The number of resources in a response. */
const shown = ({ body }: Reply): number => {
  const { items = [body] } = (body ?? {}) as { readonly items?: readonly unknown[] }
  return items.length
}

/** The maximum number of rows that a read examines, per returned resource and in addition. */
const [maxPerResource, maxOther] = [10, 100]

const readMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/** The statement that looks up a session on its first request. The result is cached for five seconds. */
const [sessionLookup] = await (async () => {
  const { email, password } = owner
  const { body } = await service.expect('login', 200, { body: { email, password } })
  runs.length = 0
  await service.expect('getCurrentUser', 200, { token: body.access_token })
  return [...runs]
})()

/**
 * The statements of a successful request, without the two for credentials: the lookup of an uncached session, and the
 * notification of a revocation.
 */
const statementsOf = async (id: OperationId, call: Call): Promise<{ statements: Run[]; reply: Reply }> => {
  runs.length = 0
  const reply = await service.call(id, call)
  if (reply.status >= 300) throw new Error(`${id}: ${JSON.stringify(reply.body)}`)
  const statements = runs.filter(({ text }) => text !== sessionLookup?.text && !text.includes('pg_notify'))
  return { statements, reply }
}

/** The kind of rows that a statement locks and waits for; null for others. */
const lockedBy = (text: string): string | null => {
  if (text.includes('lock_trees(')) return 'tasks'
  if (!/ for (no key update|update|key share|share)\b/.test(text) || text.includes('skip locked')) return null
  let outer = text
  for (let inner = ''; inner !== outer;) [inner, outer] = [outer, outer.replaceAll(/\([^()]*\)/g, '')]
  return /from "?(\w+)/.exec(outer)?.[1] ?? null
}

/** Locks of rows that come after locks of a later kind, each with that. */
const outOfOrder = (texts: readonly string[]): readonly string[] => {
  let latest = ''
  return texts.flatMap((text) => {
    const locked = text === 'commit' ? '' : lockedBy(text)
    if (locked === null || (locked !== '' && rankOf(locked) < 0)) return []
    if (locked !== '' && rankOf(locked) < rankOf(latest)) return [`${locked} after ${latest}`]
    latest = locked
    return []
  })
}

const rankOf = (kind: string): number => lockOrder.findIndex((one) => one === kind)

for (const operation of operations) {
  const { id, method } = operation
  t.test(id, async (t) => {
    // A world of its own, because the number of rows that a read examines grows with those of its caller.
    const request = await requestTo(operation, { world: await newWorld() })
    const { statements, reply } = await statementsOf(id, request)
    const texts = statements.map(({ text }) => text)
    const isRead = readMethods.has(method)
    t.strictSame(outOfOrder(texts), [], 'rows are locked in their order')
    const [expected, because = ''] = rows[id].statements ?? []
    if (expected !== undefined) t.equal(texts.length, expected, because, { texts })
    else if (isRead) t.equal(texts.length, 1, 'one statement', { texts })
    else
      t.ok(statements.filter(({ isPipelined }) => !isPipelined).length <= 4, 'four round trips at most', {
        texts,
      })
    if (!isRead) return
    for (const statement of statements) {
      const read = await rowsRead(db, statement, () => true)
      t.ok(read <= maxPerResource * shown(reply) + maxOther, `${read} rows`, { text: statement.text })
    }
  })
}

t.test('filters without an index examine at most 2,500 rows per request', async (t) => {
  const body = { url: 'http://127.0.0.1:9/', event_types: ['task.created'] }
  const { id: webhook_id } = (await service.expect('createWebhook', 201, { token, body })).body
  const numbered = `('0199c0df-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  for (let first = 1; first <= 5_000; first += 500) {
    await db.run(
      `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, status, created_at)
      select ${numbered}, $1, n, ${numbered}, 'task.created', case n when 1 then 'failed' else 'delivered' end,
        now() + n * interval '1 second'
      from generate_series($2::int, $2 + 499) n`,
      [webhook_id, first],
    )
    await db.run(
      `insert into events (changed_in, ordinal, id, type, task_id, owner_id, before, after, created_at)
      select '0', n + 1000000, ${numbered}, 'task.updated', ${numbered}, ${numbered}, '{}', '{}',
        now() + n * interval '1 second'
      from generate_series($1::int, $1 + 499) n`,
      [first],
    )
  }
  for (const table of ['webhook_deliveries', 'events']) await db.run(`analyze ${table}`, [], 'once')
  const read = async (id: OperationId, call: Call) => {
    const { statements, reply } = await statementsOf(id, call)
    let count = 0
    for (const statement of statements)
      count += await rowsRead(db, statement, ({ 'Relation Name': name }) =>
        /^(events|webhook_del)/.test(name ?? ''),
      )
    return {
      count,
      page: reply.body as { readonly items: readonly unknown[]; readonly next_cursor: string | null },
    }
  }

  const failed = { token, params: { webhook_id }, query: { status: ['failed'] } }
  const first = await read('listWebhookDeliveries', failed)
  t.strictSame([first.page.items.length, first.count <= 2_501], [0, true], `${first.count} rows`)
  const found: unknown[] = []
  for (let { next_cursor: cursor } = first.page; cursor !== null;) {
    const { page } = await read('listWebhookDeliveries', { ...failed, query: { ...failed.query, cursor } })
    found.push(...page.items)
    cursor = page.next_cursor
  }
  t.equal(found.length, 1)

  const query = { project_id: ['none'] }
  const own = await read('listEvents', { token, query })
  t.ok(own.page.items.length > 0)
  t.ok(own.count < 500, `${own.count} rows of the caller`)
  const all = await read('listEvents', { token: admin.token, query: { ...query, all: true } })
  t.ok(all.count <= 2_501, `${all.count} rows`)
})

t.test('a request with an Idempotency-Key also locks, reads and stores its key', async (t) => {
  const call = { token, body: { title: 'Once' } }
  const keyed = { ...call, headers: { 'idempotency-key': 'once' } }
  const plain = await statementsOf('createTask', call)
  const first = await statementsOf('createTask', keyed)
  t.equal(first.statements.length, plain.statements.length + 3)
  const replay = await statementsOf('createTask', keyed)
  const names = replay.statements.map(({ text }) => /\/\* (\S+)/.exec(text)?.[1] ?? text)
  t.notOk(
    names.some((name) => name.startsWith('tasks')),
    names.join(),
  )
})

t.test('the first request of a session takes one more statement', async (t) => {
  const { email, password } = owner
  const { body } = await service.expect('login', 200, { body: { email, password } })
  runs.length = 0
  await service.expect('getTask', 200, { token: body.access_token, params: { task_id: task.id } })
  t.equal(runs.length, 2)
})
