import { verify } from 'argon2'
import Fastify from 'fastify'
import type { AddressInfo } from 'node:net'
import { maxConnections } from '../../src/db/engine/pool.ts'
import { createClient } from '../../src/db/engine/connection.ts'

/**
 * The floors: Fastify routes without authentication, permissions, validation, ETags, problems or a log.
 *
 * - /raw executes the simplest prepared statement for the resource (a task with its tags, a tag with its task count), with the driver
 *   and the number of connections of the service.
 * - /bare serializes the resource from memory, with its schema.
 */

const { DATABASE_URL = '', PASSWORD = '', PASSWORD_HASH = '', USER_ID = '', PORT = '0' } = process.env

const sql = createClient({ url: DATABASE_URL }, { max: maxConnections })
const app = Fastify()

interface ById {
  Params: { id: string }
}

const text = { type: 'string' } as const
const orNull = { type: 'string', nullable: true } as const
const count = { type: 'integer' } as const
const withFields = (type: object, ...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, type]))

const tagFields = { ...withFields(text, 'id', 'name', 'owner_id', 'created_at'), color: orNull }
const tag = { type: 'object', properties: { ...tagFields, task_count: count } }
const task = {
  type: 'object',
  properties: {
    ...withFields(text, 'id', 'title', 'description', 'status', 'priority', 'owner_id', 'created_at'),
    ...withFields(orNull, 'start_at', 'start_on', 'due_at', 'due_on', 'completed_at', 'assignee_id'),
    ...withFields(count, 'attachment_count', 'version'),
    updated_at: text,
    tags: { type: 'array', items: { type: 'object', properties: tagFields } },
  },
}
const user = {
  type: 'object',
  properties: {
    ...withFields(
      text,
      'id',
      'username',
      'email',
      'display_name',
      'role',
      'time_zone',
      'created_at',
      'updated_at',
    ),
    version: count,
  },
}
const serialize = (schema: object) => ({ schema: { response: { 200: schema } } })
const listOf = (items: object) => ({ type: 'object', properties: { items: { type: 'array', items } } })

const run = (statement: string, ...values: readonly string[]) =>
  sql.unsafe(statement, [...values], { prepare: true })

const tagsOfTask = `
  coalesce((
    select json_agg(json_build_object(
      'id', tags.id, 'name', name, 'color', color, 'owner_id', tags.owner_id, 'created_at', tags.created_at
    ) order by name_folded)
    from task_tags join tags on tags.id = tag_id where task_id = tasks.id
  ), '[]') as tags`
const taskColumns = `
  id, title, description, status, priority, start_at, start_on, due_at, due_on, completed_at, owner_id, assignee_id, attachment_count,
  version, created_at, updated_at`
const newestTasks = (condition: string) => `
  select ${taskColumns}, ${tagsOfTask} from tasks where deleted_at is null and ${condition}
  order by created_at desc nulls last, id desc nulls last limit 20`
const ownTags = `
  select id, name, color, owner_id, created_at, (
    select count(*)::int from task_tags join tasks on tasks.id = task_id
    where tag_id = tags.id and deleted_at is null and (tasks.owner_id = $1 or assignee_id = $1)
  ) as task_count
  from tags where owner_id = $1 order by created_at desc nulls last, id desc nulls last limit 50`

const statements = {
  task: `select ${taskColumns}, ${tagsOfTask} from tasks where id = $1`,
  user: `
    select id, username, email, display_name, role, created_at, updated_at, version from users where id = $1`,
  tasks: newestTasks('true'),
  tasksOfUser: newestTasks('(owner_id = $1 or assignee_id = $1)'),
  tags: ownTags,
  // A new task has no tags.
  create: `
    insert into tasks (id, title, description, status, priority, owner_id)
    values (gen_random_uuid(), $1, '', 'todo', 'none', $2) returning ${taskColumns}, '[]'::json as tags`,
  update: `update tasks set title = $1 where id = $2 returning ${taskColumns}, ${tagsOfTask}`,
}

// --- raw
app.get<ById>('/raw/tasks/:id', async ({ params }) => (await run(statements.task, params.id))[0])
app.get('/raw/auth/me', async () => (await run(statements.user, USER_ID))[0])
app.get('/raw/tasks', async () => ({ items: await run(statements.tasks) }))
app.get<ById>('/raw/users/:id/tasks', async ({ params }) => ({
  items: await run(statements.tasksOfUser, params.id),
}))
app.get('/raw/tags', async () => ({ items: await run(statements.tags, USER_ID) }))
app.post<{ Body: { title: string } }>('/raw/tasks', async ({ body }, reply) => {
  const [row] = await run(statements.create, body.title, USER_ID)
  return reply.code(201).send(row)
})
app.patch<ById & { Body: { title: string } }>(
  '/raw/tasks/:id',
  async ({ params, body }) => (await run(statements.update, body.title, params.id))[0],
)

// --- bare
const tasks = await run(statements.tasks)
const tags = await run(statements.tags, USER_ID)
const [anyTask] = tasks
const [anyUser] = await run(statements.user, USER_ID)
app.get('/bare/tasks/:id', serialize(task), async () => anyTask)
app.get('/bare/auth/me', serialize(user), async () => anyUser)
app.get('/bare/tasks', serialize(listOf(task)), async () => ({ items: tasks }))
app.get('/bare/users/:id/tasks', serialize(listOf(task)), async () => ({ items: tasks }))
app.get('/bare/tags', serialize(listOf(tag)), async () => ({ items: tags }))
app.post('/bare/tasks', serialize(task), async () => anyTask)
app.patch('/bare/tasks/:id', serialize(task), async () => anyTask)
app.get('/bare/unauthorized', async (_request, reply) =>
  reply.code(401).send({ status: 401, title: 'No token' }),
)
app.post('/bare/auth/login', async () => ({ valid: await verify(PASSWORD_HASH, PASSWORD) }))

await app.listen({ host: '127.0.0.1', port: Number(PORT) })
console.log(`listening at http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
process.on('SIGTERM', () => process.exit(0))
