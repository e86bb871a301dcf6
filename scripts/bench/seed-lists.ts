import type postgres from 'postgres'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { inBulk } from './bulk.ts'

/** Words in titles. Descriptions also contain rarer words. */
const vocabulary = [
  'release notes draft review invoice meeting budget customer report server backup contract design order',
  'payment holiday training security update website campaign research interview schedule supplier',
]
  .join(' ')
  .split(' ')

/** The id of a user or tag by its number. User 0 is the administrator, and user 1 has the most tasks. */
export const idAt = (n: number): string => `00000000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`

/** The database with this number of tasks on a server. It is created and seeded if missing. */
export const seededDatabase = async (url: string, count: number): Promise<ServerConnection> => {
  const name = `lists_${count}`
  const own = new URL(url)
  own.pathname = `/${name}`
  const connection: ServerConnection = { kind: 'server', url: own.href }
  const admin = createClient({ kind: 'server', url })
  const [known] = await admin`select from pg_database where datname = ${name}`
  if (known === undefined) await admin.unsafe(`create database ${name}`)
  await admin.end()
  await migrate(connection)
  const seeder = createClient(connection, { connection: { statement_timeout: 0 } })
  const [task] = await seeder`select from tasks limit 1`
  if (task === undefined) {
    const start = performance.now()
    await seedTasks(seeder, count)
    console.log(`${name} seeded in ${((performance.now() - start) / 1_000).toFixed(0)} s`)
  }
  await seeder.end()
  return connection
}

/**
 * Fills an empty database with tasks of 1,000 users and 30 tags, created in the last 700 days. The distribution is skewed, as in real
 * installations: few users have many tasks, and few tags are on many tasks.
 */
const seedTasks = async (client: postgres.Sql, count: number): Promise<void> => {
  await createFunctions(client)
  await inBulk(client, ['tasks', 'task_tags'], () => fillTables(client, count))
}

const fillTables = async (client: postgres.Sql, count: number): Promise<void> => {
  await client`select setseed(0.5)`
  await client`
    insert into users (id, username, email, display_name, role, password_hash)
    select uuid_at(n), 'user' || n, 'user' || n || '@example.com', 'User ' || n,
      case n when 0 then 'admin' else 'member' end, ''
    from generate_series(0, 1000) n`
  await client`
    insert into tags (id, name, canonical_name, name_folded, owner_id)
    select uuid_at(n), 'tag ' || n, 'tag ' || n, 'tag ' || n, uuid_at(0) from generate_series(1, 30) n`
  await client`
    insert into tasks (id, title, title_folded, description, search, status, priority, start_at, due_at, due_on,
      completed_at, owner_id, assignee_id, attachment_count, created_at, updated_at)
    select uuid_at(n), title, title, description,
      setweight(to_tsvector('simple', title), 'A') || setweight(to_tsvector('simple', description), 'D') || bigram_lexemes(title),
      status, priority, start_at,
      case when due_kind < 0.4 then coalesce(start_at, created_at) + random() * interval '60 days' end,
      case when due_kind between 0.4 and 0.6 then (coalesce(start_at, created_at) + random() * interval '60 days')::date end,
      case status when 'done' then created_at + random() * least(now() - created_at, interval '30 days') end,
      uuid_at(1 + floor(1000 * random() ^ 2)::int),
      case when random() < 0.6 then uuid_at(1 + floor(1000 * random() ^ 2)::int) end,
      case when random() < 0.1 then 1 else 0 end, created_at,
      created_at + random() * least(now() - created_at, interval '60 days')
    from (
      select n,
        word(n) || ' ' || word(n / 7) || ' ' || word(n / 31) || ' ' || n as title,
        word(n / 3) || ' ' || word(n / 11) || ' w' || floor(20000 * random() ^ 3) || ' w' || floor(20000 * random() ^ 3) as description,
        (array['todo', 'todo', 'todo', 'todo', 'todo', 'todo', 'todo', 'in_progress', 'in_progress', 'done', 'done', 'done',
          'done', 'done', 'done', 'done', 'done', 'done', 'done', 'cancelled'])[1 + floor(20 * random())::int] as status,
        (array['none', 'none', 'none', 'none', 'none', 'low', 'medium', 'medium', 'high', 'urgent'])[1 + floor(10 * random())::int] as priority,
        created_at, case when random() < 0.3 then created_at + random() * interval '30 days' end as start_at,
        random() as due_kind
      from (
        select n, date_trunc('milliseconds', now()) - (${count} - n) * interval '700 days' / ${count} as created_at
        from generate_series(1, ${count}) n
      ) task
    ) task`
  await client`
    insert into task_tags (task_id, tag_id)
    select distinct uuid_at(n), uuid_at(1 + floor(30 * random() ^ 2)::int)
    from generate_series(1, ${count}) n, generate_series(1, 3) again
    where random() < 0.3`
}

/** Creates SQL functions for the seed. */
const createFunctions = async (client: postgres.Sql): Promise<void> => {
  await client.unsafe(`
    create function uuid_at(n int) returns uuid language sql immutable
    return ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`)
  await client.unsafe(`
    create function word(n int) returns text language sql immutable
    return (array['${vocabulary.join("','")}'])[1 + n % ${vocabulary.length}]`)
}
