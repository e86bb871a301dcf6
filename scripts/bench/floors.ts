import { verify } from 'argon2'
import Fastify from 'fastify'
import type { AddressInfo } from 'node:net'
import { createClient } from '../../src/db/connection.ts'

/**
 * The floors: bare Fastify routes, with no token, permission, validation, ETag, problem or log. Under /raw they run the
 * plainest prepared statement that yields the resource, with the driver and the connections of the service; under /bare
 * they serialize the same resource from memory, by its schema.
 */

const { DATABASE_URL = '', PASSWORD = '', PASSWORD_HASH = '', USER_ID = '', PORT = '0' } = process.env

const sql = createClient({ kind: 'server', url: DATABASE_URL })
const app = Fastify()

interface ById {
  Params: { id: string }
}

const orNull = { type: 'string', nullable: true } as const
const text = { type: 'string' } as const
const task = {
  type: 'object',
  properties: {
    ...Object.fromEntries(['id', 'title', 'description', 'status', 'priority'].map((name) => [name, text])),
    ...Object.fromEntries(
      ['start_at', 'due_at', 'completed_at', 'owner_id', 'assignee_id'].map((name) => [name, orNull]),
    ),
    attachment_count: { type: 'integer' },
    version: { type: 'integer' },
    created_at: text,
    updated_at: text,
  },
} as const
const user = {
  type: 'object',
  properties: {
    ...Object.fromEntries(
      ['id', 'username', 'email', 'display_name', 'role', 'created_at', 'updated_at'].map((name) => [
        name,
        text,
      ]),
    ),
    version: { type: 'integer' },
  },
} as const
const serialize = (schema: object) => ({ schema: { response: { 200: schema } } })
const listOf = (items: object) => ({ type: 'object', properties: { items: { type: 'array', items } } })

// --- raw
app.get<ById>('/raw/tasks/:id', async ({ params }) => {
  const [row] = await sql`select * from tasks where id = ${params.id}`
  return row
})
app.get('/raw/auth/me', async () => {
  const [row] = await sql`select * from users where id = ${USER_ID}`
  return row
})
app.get('/raw/tasks', async () => ({
  items: await sql`select * from tasks order by created_at desc, id desc limit 20`,
}))
app.get<ById>('/raw/users/:id/tasks', async ({ params }) => ({
  items: await sql`
    select * from tasks where owner_id = ${params.id} or assignee_id = ${params.id}
    order by created_at desc, id desc limit 20`,
}))
app.get('/raw/tags', async () => ({
  items: await sql`select * from tags where owner_id = ${USER_ID} order by created_at desc, id desc limit 50`,
}))
app.post<{ Body: { title: string } }>('/raw/tasks', async ({ body }, reply) => {
  const [row] = await sql`
    insert into tasks (id, title, description, status, priority, owner_id)
    values (gen_random_uuid(), ${body.title}, '', 'todo', 'none', ${USER_ID}) returning *`
  return reply.code(201).send(row)
})
app.patch<ById & { Body: { title: string } }>('/raw/tasks/:id', async ({ params, body }) => {
  const [row] = await sql`
    update tasks set title = ${body.title} where id = ${params.id} returning *`
  return row
})

// --- bare
const [anyTask] = await sql`select * from tasks limit 1`
const [anyUser] = await sql`select * from users limit 1`
const tasks = await sql`select * from tasks order by created_at desc, id desc limit 20`
const tags = await sql`select * from tags limit 5`
app.get('/bare/tasks/:id', serialize(task), async () => anyTask)
app.get('/bare/auth/me', serialize(user), async () => anyUser)
app.get('/bare/tasks', serialize(listOf(task)), async () => ({ items: tasks }))
app.get('/bare/users/:id/tasks', serialize(listOf(task)), async () => ({ items: tasks }))
app.get(
  '/bare/tags',
  serialize(
    listOf({
      type: 'object',
      properties: { id: text, name: text, color: text, owner_id: text, created_at: text },
    }),
  ),
  async () => ({ items: tags }),
)
app.post('/bare/tasks', serialize(task), async () => anyTask)
app.patch('/bare/tasks/:id', serialize(task), async () => anyTask)
app.get('/bare/unauthorized', async (_request, reply) =>
  reply.code(401).send({ status: 401, title: 'No token' }),
)
app.post('/bare/auth/login', async () => ({ valid: await verify(PASSWORD_HASH, PASSWORD) }))

await app.listen({ host: '127.0.0.1', port: Number(PORT) })
console.log(`listening at http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
process.on('SIGTERM', () => process.exit(0))
