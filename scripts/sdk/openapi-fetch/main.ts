// The SDK scenario: every step goes through the generated types, and the first difference ends the program.
import { createHash, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import createClient from 'openapi-fetch'
import type { components, paths } from './taskwright.ts'

type Problem = components['schemas']['Problem']

/** What every call resolves with. */
interface Answer<Data> {
  readonly data?: Data
  readonly error?: Problem
  readonly response: Response
}

/** The data of an answer, unless it is a problem. */
const success = <Data>({ data, error, response }: Answer<Data>): NonNullable<Data> => {
  if (data === undefined || data === null) throw new Error(`${response.status}: ${JSON.stringify(error)}`)
  return data
}

/** The problem that a call is refused with. */
const problem = (status: number, { error, response }: Answer<unknown>): Problem => {
  equal('status', response.status, status)
  if (error === undefined) throw new Error(`not refused with ${status}`)
  return error
}

const equal = (what: string, got: unknown, want: unknown): void => {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
  }
}

const ok = (step: string): void => console.log('ok', step)

const url = process.env.TASKWRIGHT_URL ?? ''
const username = `openapi-fetch-${randomBytes(8).toString('hex')}`
const account = { username, email: `${username}@example.com`, password: randomBytes(12).toString('hex') }
const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1_000).toISOString()

// Documentation: begin
const client = createClient<paths>({ baseUrl: url })
let tokens = success(await client.POST('/auth/register', { body: account }))
client.use({
  onRequest: ({ request }) => request.headers.set('Authorization', `Bearer ${tokens.access_token}`),
})
const task = success(
  await client.POST('/tasks', {
    body: { title: 'Write the release notes', priority: 'high', due_at: tomorrow },
  }),
)
// Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, 'high')
equal('due_at', task.due_at, tomorrow)
ok('create')

const params = { path: { task_id: task.id } }
const patched = success(await client.PATCH('/tasks/{task_id}', { params, body: { status: 'in_progress' } }))
equal('status', patched.status, 'in_progress')
equal('due_at', patched.due_at, tomorrow)
ok('patch')

const cleared = success(await client.PATCH('/tasks/{task_id}', { params, body: { due_at: null } }))
equal('due_at', cleared.due_at, null)
equal('title', cleared.title, task.title)
ok('clear')

const tag = success(await client.POST('/tags', { body: { name: 'release', color: '#d92d20' } }))
const link = { path: { task_id: task.id, tag_id: tag.id } }
equal('status', (await client.POST('/tasks/{task_id}/tags/{tag_id}', { params: link })).response.status, 204)
const tagged = success(await client.GET('/tasks/{task_id}', { params }))
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0]?.color, '#d92d20')
ok('tag')

const sent = randomBytes(1_000)
const sha256 = createHash('sha256').update(sent).digest('hex')
const form = new FormData()
form.set('sha256', sha256)
form.set('file', new File([sent], 'random.bin'))
const attachment = success(
  await client.POST('/tasks/{task_id}/attachments', {
    params,
    // The types say text where the contract says bytes, so the form takes the place of this body.
    body: { file: '' },
    bodySerializer: () => form,
  }),
)
const file = success(
  await client.GET('/attachments/{attach_id}', {
    params: { path: { attach_id: attachment.id } },
    parseAs: 'arrayBuffer',
  }),
)
equal('file name', attachment.file_name, 'random.bin')
equal('same bytes', Buffer.from(file).equals(sent), true)
equal('sha256', attachment.sha256, sha256)
ok('file')

const created = [task.id]
for (let number = 1; number <= 5; number += 1) {
  created.push(success(await client.POST('/tasks', { body: { title: `Task ${number}` } })).id)
}
const listed: string[] = []
let cursor: string | undefined
do {
  const query = { limit: 2, ...(cursor === undefined ? {} : { cursor }) }
  const page: components['schemas']['TaskList'] = success(await client.GET('/tasks', { params: { query } }))
  equal('at most two', page.items.length <= 2, true)
  listed.push(...page.items.map(({ id }) => id))
  cursor = page.next_cursor ?? undefined
} while (cursor !== undefined)
equal('every task once', listed.toSorted(), created.toSorted())
ok('page')

const project = success(await client.POST('/projects', { body: { name: 'Launch' } }))
const newPlan = { title: 'Plan the launch', project_id: project.id }
const plan = success(await client.POST('/tasks', { body: newPlan }))
const another = { ...account, username: `${username}2`, email: `2${account.email}` }
const colleague = success(await client.POST('/auth/register', { body: another }))
const place = { project_id: project.id }
const member = success(
  await client.PUT('/projects/{project_id}/members/{user_id}', {
    params: { path: { ...place, user_id: colleague.user.id } },
    body: { role: 'editor' },
  }),
)
equal('role', member.role, 'editor')
const headers = { Authorization: `Bearer ${colleague.access_token}` }
const theirs = createClient<paths>({ baseUrl: url, headers })
const shared = success(await theirs.GET('/tasks/{task_id}', { params: { path: { task_id: plan.id } } }))
equal('project', shared.project_id, project.id)
const planned = success(await theirs.GET('/projects/{project_id}/tasks', { params: { path: place } }))
equal('tasks of the project', planned.items, [shared])
const removed = await client.DELETE('/projects/{project_id}', { params: { path: place } })
equal('status', removed.response.status, 204)
problem(404, await theirs.GET('/tasks/{task_id}', { params: { path: { task_id: plan.id } } }))
ok('project')

const etag = (await client.GET('/tasks/{task_id}', { params })).response.headers.get('ETag') ?? ''
const rename = {
  params: { ...params, header: { 'If-Match': etag } },
  body: { title: 'Publish the release notes' },
}
success(await client.PATCH('/tasks/{task_id}', rename))
const conflict = problem(412, await client.PATCH('/tasks/{task_id}', rename))
equal('code', conflict.code, 'precondition_failed')
ok('conflict')

const invalid = problem(400, await client.POST('/tasks', { body: { title: 'x'.repeat(501) } }))
equal('pointer', invalid.errors?.[0]?.pointer, '/title')
ok('validation')

const before = tokens.access_token
tokens = success(await client.POST('/auth/refresh', { body: { refresh_token: tokens.refresh_token } }))
equal('a new token', tokens.access_token !== before, true)
equal('me', success(await client.GET('/auth/me')).username, username)
ok('refresh')

equal('status', (await client.POST('/auth/logout')).response.status, 204)
const refused = problem(401, await client.GET('/auth/me'))
equal('code', refused.code, 'unauthorized')
ok('logout')
