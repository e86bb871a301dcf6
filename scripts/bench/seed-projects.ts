import type postgres from 'postgres'
import { inBulk } from './bulk.ts'
import { createFunctions } from './seed-lists.ts'

/** The numbers of the compared users. Every project also has other members. */
export const people = {
  /** Owns personal tasks and is not a member of a project. */
  owner: 1,
  memberOfOne: 2,
  memberOf200: 3,
  memberOf1000: 4,
} as const

const users = 1_000
const membersPerProject = 10

/** Independent of the size of the installation, so the list of a project should take the same time in all. */
const tasksPerProject = 100

/** The number of projects for a number of tasks. */
const projectsOf = (tasks: number): number => tasks / tasksPerProject

/**
 * Fills an empty database with tasks in projects. One in fifty is personal instead: `n / 50` in the assignment spreads these over all
 * projects, because some projects would otherwise have no tasks.
 */
export const seedProjects = async (client: postgres.Sql, tasks: number): Promise<void> => {
  await createFunctions(client)
  const tables = ['projects', 'project_members', 'memberships', 'project_counts', 'tasks']
  await inBulk(client, tables, () => fillTables(client, tasks))
}

const fillTables = async (client: postgres.Sql, tasks: number): Promise<void> => {
  const projects = projectsOf(tasks)
  await client`select setseed(0.5)`
  await client`
    insert into users (id, username, email, display_name, role, password_hash)
    select uuid_at(n), 'user' || n, 'user' || n || '@example.com', 'User ' || n, 'member', ''
    from generate_series(1, ${users}) n`
  await client`
    insert into projects (id, name, name_folded, description)
    select uuid_at(n), 'project ' || n, 'project ' || n, '' from generate_series(1, ${projects}) n`
  await client`
    insert into project_members (project_id, user_id, role)
    select uuid_at(project), uuid_at(member), 'manager' from (
      select 1 as project, ${people.memberOfOne}::int as member
      union select n, ${people.memberOf200}::int from generate_series(1, least(200, ${projects})) n
      union select n, ${people.memberOf1000}::int from generate_series(1, least(1000, ${projects})) n
      union select n, 10 + floor(${users - 10} * random())::int
      from generate_series(1, ${projects}) n, generate_series(1, ${membersPerProject})
    ) members`
  await client`insert into memberships (project_id, user_id, role) select project_id, user_id, role from project_members`
  await client`
    insert into tasks (id, title, title_folded, description, search, status, priority, due_at, completed_at, owner_id,
      project_id, created_at, updated_at)
    select uuid_at(n), 'task ' || n, 'task ' || n, '', setweight(to_tsvector('simple', 'task ' || n), 'A'),
      case when n % 3 = 0 then 'done' else 'todo' end, 'none',
      case when n % 2 = 0 then created_at + random() * interval '60 days' end,
      case when n % 3 = 0 then created_at end,
      case when n % 50 = 0 then uuid_at(${people.owner}) else uuid_at(10 + n % ${users - 10}) end,
      case when n % 50 <> 0 then uuid_at(1 + (n + n / 50) % ${projects}) end,
      created_at, created_at + random() * least(now() - created_at, interval '60 days')
    from (
      select n, date_trunc('milliseconds', now()) - (${tasks} - n) * interval '700 days' / ${tasks} as created_at
      from generate_series(1, ${tasks}) n
    ) task`
  await client`
    insert into project_counts (project_id, open_tasks)
    select project_id, count(*) filter (where status = 'todo') from tasks where project_id is not null group by project_id`
}
