// The scenario for generated clients. Each step uses the generated types; the first mismatch ends the program.
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import createClient from 'openapi-fetch'
import type { components, paths } from './taskwright.ts'

type Problem = components['schemas']['Problem']
type Event = components['schemas']['Event']

/** The result of a call. */
interface Answer<Data> {
  readonly data?: Data
  readonly error?: Problem
  readonly response: Response
}

/** The data of a response. Fails if the response is a problem. */
const success = <Data>({ data, error, response }: Answer<Data>): NonNullable<Data> => {
  if (data === undefined || data === null) throw new Error(`${response.status}: ${JSON.stringify(error)}`)
  return data
}

/** The problem of a call that must fail with a status. */
const problem = (status: number, { error, response }: Answer<unknown>): Problem => {
  equal('status', response.status, status)
  if (error === undefined) throw new Error(`expected a problem with status ${status}`)
  return error
}

const equal = (label: string, got: unknown, want: unknown): void => {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${label}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
  }
}

/** Polls until `find` returns a result, because the service works in the background. */
const eventually = async <Found>(label: string, find: () => Promise<Found | undefined>): Promise<Found> => {
  for (let attempt = 0; attempt < 600; attempt += 1) {
    const found = await find()
    if (found !== undefined) return found
    await pause(50)
  }
  throw new Error(`${label}: timed out after 30 seconds`)
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
    // The type of the body is text instead of bytes, so bodySerializer replaces it by the form.
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
const colleagueClient = createClient<paths>({ baseUrl: url, headers })
const shared = success(
  await colleagueClient.GET('/tasks/{task_id}', { params: { path: { task_id: plan.id } } }),
)
equal('project', shared.project_id, project.id)
const planned = success(
  await colleagueClient.GET('/projects/{project_id}/tasks', { params: { path: place } }),
)
equal('tasks of the project', planned.items, [shared])
ok('project')

const ofPlan = { path: { task_id: plan.id } }
const { user } = colleague
const comment = success(
  await client.POST('/tasks/{task_id}/comments', {
    params: ofPlan,
    body: { body: `Is the date right, @${user.username}?` },
  }),
)
equal('mentions', comment.mentions, [user.id])
const ofComment = { path: { comment_id: comment.id } }
const read = await client.GET('/comments/{comment_id}', { params: ofComment })
equal('the same comment', success(read), comment)
const edit = {
  params: { ...ofComment, header: { 'If-Match': read.response.headers.get('ETag') ?? '' } },
  body: { body: `Is the time right, @${user.username}?` },
}
const edited = success(await client.PATCH('/comments/{comment_id}', edit))
equal('version', edited.version, 2)
problem(412, await client.PATCH('/comments/{comment_id}', edit))
const reply = { params: ofPlan, body: { body: 'It is.' } }
const answer = success(await colleagueClient.POST('/tasks/{task_id}/comments', reply))
const first = success(
  await client.GET('/tasks/{task_id}/comments', { params: { ...ofPlan, query: { limit: 1 } } }),
)
const next = { limit: 1, cursor: first.next_cursor ?? '' }
const last = success(await client.GET('/tasks/{task_id}/comments', { params: { ...ofPlan, query: next } }))
equal('comments', [...first.items, ...last.items], [edited, answer])
equal('no more', last.next_cursor, null)
ok('comment')

const step = { title: 'Choose the date', parent_id: plan.id }
const subtask = success(await client.POST('/tasks', { body: step }))
equal('parent', subtask.parent_id, plan.id)
equal('project', subtask.project_id, project.id)
equal('subtasks', success(await client.GET('/tasks/{task_id}', { params: ofPlan })).subtask_count, 1)
ok('subtask')

const relation = { ...ofPlan.path, kind: 'blocked_by' as const, other_task_id: subtask.id }
const relating = await client.PUT('/tasks/{task_id}/relations/{kind}/{other_task_id}', {
  params: { path: relation },
})
equal('status', relating.response.status, 204)
const related = success(await client.GET('/tasks/{task_id}/relations', { params: ofPlan })).items
equal(
  'relations',
  related.map(({ kind, other_task_id }) => [kind, other_task_id]),
  [['blocked_by', subtask.id]],
)
equal('is blocked', success(await client.GET('/tasks/{task_id}', { params: ofPlan })).is_blocked, true)
ok('relation')

const ofSubtask = { path: { task_id: subtask.id } }
equal(
  'status',
  (await colleagueClient.PUT('/tasks/{task_id}/followers/me', { params: ofSubtask })).response.status,
  204,
)
const followers = success(await client.GET('/tasks/{task_id}/followers', { params: ofSubtask })).items
equal('followers', followers.map(({ user_id }) => user_id).toSorted(), [tokens.user.id, user.id].toSorted())
const unread = { params: { query: { unread: true } } }
const notification = await eventually(
  'notification',
  async () => success(await colleagueClient.GET('/notifications', unread)).items[0],
)
equal('reason', notification.reason, 'mention')
equal('comment', notification.comment_id, comment.id)
const seen = success(
  await colleagueClient.PATCH('/notifications/{notification_id}', {
    params: { path: { notification_id: notification.id } },
    body: { is_read: true },
  }),
)
equal('is read', seen.read_at !== null, true)
equal('unread', success(await colleagueClient.GET('/notifications', unread)).items, [])
ok('inbox')

const subscription = { ...place, url: process.env.TASKWRIGHT_RECEIVER ?? '', event_types: ['project.*'] }
const webhook = success(await client.POST('/webhooks', { body: subscription }))
equal('secret', webhook.secret.startsWith('whsec_'), true)
const ofWebhook = { webhook_id: webhook.id }
const testing = success(await client.POST('/webhooks/{webhook_id}/test', { params: { path: ofWebhook } }))
const delivery = await eventually('delivery', async () => {
  const sending = success(
    await client.GET('/webhooks/{webhook_id}/deliveries/{delivery_id}', {
      params: { path: { ...ofWebhook, delivery_id: testing.id } },
    }),
  )
  return sending.status === 'pending' ? undefined : sending
})
equal('delivery', [delivery.status, delivery.response_status], ['delivered', 204])
const deliveries = success(
  await client.GET('/webhooks/{webhook_id}/deliveries', { params: { path: ofWebhook } }),
)
equal('deliveries', deliveries.items, [delivery])
ok('webhook')

const history = success(await client.GET('/tasks/{task_id}/events', { params: ofPlan })).items
equal('history', history.at(-1)?.type, 'task.created')
const search = { project_id: [project.id], type: ['comment.*'] }
const events = success(await client.GET('/events', { params: { query: search } })).items
equal(
  'events',
  events.map(({ type, resource_id }) => [type, resource_id]),
  [
    ['comment.created', answer.id],
    ['comment.updated', comment.id],
    ['comment.created', comment.id],
  ],
)
ok('events')

/** Reads the event stream after an id up to the next event of a type. */
const nextEvent = async (wanted: string, after?: string): Promise<{ id: string; data: unknown }> => {
  const stop = new AbortController()
  const header = after === undefined ? {} : { 'Last-Event-ID': after }
  const stream = success(
    await client.GET('/events/stream', { params: { header }, parseAs: 'stream', signal: stop.signal }),
  )
  let received = ''
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    received += text
    const event = new RegExp(`id: (.+)\nevent: ${wanted}\ndata: (.+)\n\n`).exec(received)
    const [, id, data] = event ?? []
    if (id === undefined || data === undefined) continue
    stop.abort()
    return { id, data: JSON.parse(data) }
  }
  throw new Error(`The stream ended before ${wanted}`)
}
const { id: position } = await nextEvent('ready')
const unheard = { params: ofPlan, body: { body: 'Nobody is listening.' } }
const missed = success(await client.POST('/tasks/{task_id}/comments', unheard))
const resumed = await nextEvent('comment.created', position)
equal('resumed', (resumed.data as Event).resource_id, missed.id)
ok('stream')

const removed = await client.DELETE('/projects/{project_id}', { params: { path: place } })
equal('status', removed.response.status, 204)
problem(404, await colleagueClient.GET('/tasks/{task_id}', { params: ofPlan }))
ok('delete')

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
const rejected = problem(401, await client.GET('/auth/me'))
equal('code', rejected.code, 'unauthorized')
ok('logout')
