import { hash } from 'argon2'
import type { Sql } from 'postgres'

/** The data that scenarios request. */
export interface Seed {
  readonly password: string
  readonly passwordHash: string
  readonly admin: { readonly email: string }
  /** A member who owns tasks, tags and links. */
  readonly member: { readonly id: string; readonly email: string }
  /** Accounts to sign in to. */
  readonly emails: readonly string[]
  /** Tasks of the member. */
  readonly taskIds: readonly string[]
}

const password = 'the password of the benchmark'
const users = 1_000

/** Fills an empty, migrated database: 1,000 users with the same password, and their `tasks` tasks with two tags each. */
export const seedDatabase = async (sql: Sql, tasks: number): Promise<Seed> => {
  const passwordHash = await hash(password, { memoryCost: 19_456, timeCost: 2, parallelism: 1 })
  await inBulk(sql, ['users', 'tags', 'tasks', 'task_tags'], () => fillTables(sql, tasks, passwordHash))
  const [member] = await sql<{ id: string }[]>`select id from users where username = 'user1'`
  if (member === undefined) throw new Error('The seed created no users')
  const own = await sql<{ id: string }[]>`select id from tasks where owner_id = ${member.id}`
  return {
    password,
    passwordHash,
    admin: { email: 'user0@example.com' },
    member: { id: member.id, email: 'user1@example.com' },
    emails: Array.from({ length: 100 }, (_, n) => `user${n + 2}@example.com`),
    taskIds: own.map(({ id }) => id),
  }
}

const fillTables = async (sql: Sql, tasks: number, passwordHash: string): Promise<void> => {
  await sql`insert into installation (singleton) values (true)`
  await sql`
    insert into users (id, username, email, display_name, role, password_hash)
    select ${idOf(sql, 1)}, 'user' || n, 'user' || n || '@example.com', 'User ' || n,
      case when n = 0 then 'admin' else 'member' end, ${passwordHash}
    from generate_series(0, ${users - 1}::int) n`
  await sql`
    insert into tags (id, name, canonical_name, name_folded, color, owner_id)
    select ${idOf(sql, 2)}, 'tag ' || n, 'tag ' || n, 'tag ' || n, '#00aa88', users.id
    from generate_series(0, ${users * 5 - 1}::int) n join users on users.username = 'user' || n % ${users}::int`
  await sql`
    insert into tasks (id, title, title_folded, description, search, status, priority, due_at, owner_id, created_at)
    select ${idOf(sql, 3)}, 'Task ' || n, 'task ' || n, description,
      setweight(to_tsvector('simple', 'task ' || n), 'A') || setweight(to_tsvector('simple', description), 'D')
        || bigram_lexemes('task ' || n),
      (array['todo', 'in_progress', 'cancelled'])[n % 3 + 1], (array['none', 'low', 'high'])[n % 3 + 1],
      now() + n * interval '1 minute', users.id, now() - (${tasks}::int - n) * interval '1 second'
    from generate_series(0, ${tasks - 1}::int) n
      join users on users.username = 'user' || n % ${users}::int,
      repeat('What is to be done. ', 10) description`
  await sql`
    insert into task_tags (task_id, tag_id)
    select tasks.id, tags.id
    from tasks join tags using (owner_id) where tags.name_folded < 'tag 2' or tags.name_folded > 'tag 8'`
}

/** Ascending ids, like those of the service. `kind` makes them unique across tables. */
const idOf = (sql: Sql, kind: number) =>
  sql`('0190000' || ${String(kind)}::text || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`

/**
 * Fills tables over one connection. Indexes are created after the rows, and triggers do not fire, so that `fill` must write what
 * triggers would.
 */
const inBulk = async (
  client: Sql,
  tables: readonly string[],
  fill: () => Promise<unknown>,
): Promise<void> => {
  const indexes = await client<{ indexname: string; indexdef: string }[]>`
    select indexname, indexdef from pg_indexes
    where tablename in ${client(tables)} and indexname not like '%pkey' and indexname not like '%_pk'`
  for (const { indexname } of indexes) await client.unsafe(`drop index "${indexname}"`)
  const setTriggers = async (state: 'enable' | 'disable'): Promise<void> => {
    for (const table of tables) await client.unsafe(`alter table "${table}" ${state} trigger user`)
  }
  await setTriggers('disable')
  await client`set maintenance_work_mem = '256MB'`
  await fill()
  for (const { indexdef } of indexes) await client.unsafe(indexdef)
  await setTriggers('enable')
  await client`vacuum analyze`
}
