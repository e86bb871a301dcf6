// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { client } from './taskwright/client.gen.ts'
import {
  addTaskAttachment,
  addTaskRelation,
  addTaskTag,
  createComment,
  createProject,
  createTag,
  createTask,
  createWebhook,
  deleteProject,
  downloadAttachment,
  type Event,
  followTask,
  getComment,
  getCurrentUser,
  getTask,
  getWebhookDelivery,
  listEvents,
  listNotifications,
  listProjectTasks,
  listTaskComments,
  listTaskEvents,
  listTaskFollowers,
  listTaskRelations,
  listTasks,
  listWebhookDeliveries,
  logout,
  type Problem,
  refreshToken,
  register,
  setProjectMember,
  streamEvents,
  type TaskList,
  testWebhook,
  updateComment,
  updateNotification,
  updateTask,
  updateWebhook,
} from './taskwright/index.ts'

/** The result of a generated function. */
interface Answer<Data> {
  readonly data: Data
  readonly error?: unknown
  readonly response?: Response
}

/** The data of a response. Fails if the response is a problem. */
const success = <Data>({ data, error, response }: Answer<Data>): NonNullable<Data> => {
  if (data === undefined || data === null) {
    throw new Error(`${response?.status ?? 'no response'}: ${JSON.stringify(error)}`)
  }
  return data
}

/** The problem of a call that must fail with a status. */
const problem = (
  status: number,
  { error, response }: { error?: Problem | undefined; response?: Response },
) => {
  equal('status', response?.status, status)
  if (error === undefined) throw new Error(`expected a problem with status ${status}`)
  return error
}

const equal = (label: string, got: unknown, want: unknown): void => {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${label}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
  }
}

/** A value of an enumeration that may grow, or the unknown one that a later service sends instead. */
const grown = (value: string): string => process.env.TASKWRIGHT_UNKNOWN_VALUE ?? value

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
const username = `typescript-${randomBytes(8).toString('hex')}`
const account = { username, email: `${username}@example.com`, password: randomBytes(12).toString('hex') }
const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1_000).toISOString()

// Documentation: begin
client.setConfig({ baseUrl: url })
let { data: tokens } = await register({ body: account, throwOnError: true })
client.setConfig({ auth: () => tokens.access_token })
const { data: task } = await createTask({
  body: { title: 'Write the release notes', priority: 'high', due_at: tomorrow },
  throwOnError: true,
})
// Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, 'high')
equal('due_at', task.due_at, tomorrow)
ok('create')

const path = { task_id: task.id }
const patched = success(await updateTask({ path, body: { status: 'in_progress' } }))
equal('status', patched.status, 'in_progress')
equal('due_at', patched.due_at, tomorrow)
ok('patch')

const cleared = success(await updateTask({ path, body: { due_at: null } }))
equal('due_at', cleared.due_at, null)
equal('title', cleared.title, task.title)
ok('clear')

const tag = success(await createTag({ body: { name: 'release', color: '#d92d20' } }))
const added = await addTaskTag({ path: { ...path, tag_id: tag.id } })
equal('status', added.response?.status, 204)
const tagged = success(await getTask({ path }))
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0]?.color, '#d92d20')
ok('tag')

const sent = randomBytes(1_000)
const sha256 = createHash('sha256').update(sent).digest('hex')
const form = { file: new File([sent], 'random.bin'), sha256 }
const attachment = success(await addTaskAttachment({ path, body: form }))
// Otherwise, the client parses the file as text or JSON, depending on its media type.
const file = success(await downloadAttachment({ path: { attach_id: attachment.id }, parseAs: 'blob' }))
const received = Buffer.from(await file.arrayBuffer())
equal('file name', attachment.file_name, 'random.bin')
equal('same bytes', received.equals(sent), true)
equal('sha256', attachment.sha256, sha256)
ok('file')

const created = [task.id]
for (let number = 1; number <= 5; number += 1) {
  created.push(success(await createTask({ body: { title: `Task ${number}` } })).id)
}
const listed: string[] = []
let cursor: string | undefined
do {
  const page: TaskList = success(await listTasks({ query: { limit: 2, cursor } }))
  equal('at most two', page.items.length <= 2, true)
  listed.push(...page.items.map(({ id }) => id))
  cursor = page.next_cursor ?? undefined
} while (cursor !== undefined)
equal('every task once', listed.toSorted(), created.toSorted())
ok('page')

const project = success(await createProject({ body: { name: 'Launch' } }))
const plan = success(await createTask({ body: { title: 'Plan the launch', project_id: project.id } }))
const another = { ...account, username: `${username}2`, email: `2${account.email}` }
const { user, access_token: auth } = success(await register({ body: another }))
const place = { project_id: project.id }
const member = success(
  await setProjectMember({ path: { ...place, user_id: user.id }, body: { role: 'editor' } }),
)
equal('role', member.role, 'editor')
const shared = success(await getTask({ path: { task_id: plan.id }, auth }))
equal('project', shared.project_id, project.id)
const planned = success(await listProjectTasks({ path: place, auth }))
equal('tasks of the project', planned.items, [shared])
ok('project')

const ofPlan = { task_id: plan.id }
const question = { body: `Is the date right, @${user.username}?` }
const comment = success(await createComment({ path: ofPlan, body: question }))
equal('mentions', comment.mentions, [user.id])
const read = await getComment({ path: { comment_id: comment.id } })
equal('the same comment', success(read), comment)
const edit = {
  path: { comment_id: comment.id },
  headers: { 'If-Match': read.response?.headers.get('ETag') ?? '' },
  body: { body: `Is the time right, @${user.username}?` },
}
const edited = success(await updateComment(edit))
equal('version', edited.version, 2)
problem(412, await updateComment(edit))
const answer = success(await createComment({ path: ofPlan, body: { body: 'It is.' }, auth }))
const first = success(await listTaskComments({ path: ofPlan, query: { limit: 1 } }))
const next = { limit: 1, cursor: first.next_cursor ?? undefined }
const last = success(await listTaskComments({ path: ofPlan, query: next }))
equal('comments', [...first.items, ...last.items], [edited, answer])
equal('no more', last.next_cursor, null)
ok('comment')

const step = { title: 'Choose the date', parent_id: plan.id }
const subtask = success(await createTask({ body: step }))
equal('parent', subtask.parent_id, plan.id)
equal('project', subtask.project_id, project.id)
equal('subtasks', success(await getTask({ path: ofPlan })).subtask_count, 1)
ok('subtask')

const relation = { ...ofPlan, kind: 'blocked_by' as const, other_task_id: subtask.id }
equal('status', (await addTaskRelation({ path: relation })).response?.status, 204)
const related = success(await listTaskRelations({ path: ofPlan })).items
equal(
  'relations',
  related.map(({ kind, other_task_id }) => [kind, other_task_id]),
  [['blocked_by', subtask.id]],
)
equal('is blocked', success(await getTask({ path: ofPlan })).is_blocked, true)
ok('relation')

equal('status', (await followTask({ path: { task_id: subtask.id }, auth })).response?.status, 204)
const followers = success(await listTaskFollowers({ path: { task_id: subtask.id } })).items
equal('followers', followers.map(({ user_id }) => user_id).toSorted(), [tokens.user.id, user.id].toSorted())
const unread = { query: { unread: true }, auth }
const notification = await eventually(
  'notification',
  async () => success(await listNotifications(unread)).items[0],
)
equal('reason', notification.reason, grown('mention'))
equal('comment', notification.comment_id, comment.id)
const marking = { path: { notification_id: notification.id }, body: { is_read: true }, auth }
equal('is read', success(await updateNotification(marking)).read_at !== null, true)
equal('unread', success(await listNotifications(unread)).items, [])
ok('inbox')

const subscription = { ...place, url: process.env.TASKWRIGHT_RECEIVER ?? '', event_types: ['project.*'] }
const webhook = success(await createWebhook({ body: subscription }))
const ofWebhook = { webhook_id: webhook.id }
// The receiver in the guide rejects messages that are not signed with the secret.
const receiver = spawn(process.execPath, [`${process.env.TASKWRIGHT_RECEIVERS}/typescript/main.ts`], {
  env: { ...process.env, WEBHOOK_SECRET: webhook.secret, PORT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
process.once('exit', () => receiver.kill())
const [listening] = await once(receiver.stdout, 'data')
const receiverUrl = String(listening).trim().replace('listening at ', '')
success(await updateWebhook({ path: ofWebhook, body: { url: receiverUrl } }))
const { id: delivery_id } = success(await testWebhook({ path: ofWebhook }))
const delivery = await eventually('delivery', async () => {
  const sending = success(await getWebhookDelivery({ path: { ...ofWebhook, delivery_id } }))
  return sending.ended_at === null ? undefined : sending
})
receiver.kill()
equal('delivery', [delivery.status, delivery.response_status], [grown('delivered'), 204])
equal('deliveries', success(await listWebhookDeliveries({ path: ofWebhook })).items, [delivery])
ok('webhook')

const history = success(await listTaskEvents({ path: ofPlan })).items
equal('history', history.at(-1)?.type, grown('task.created'))
const search = { project_id: [project.id], type: ['comment.*'] }
const events = success(await listEvents({ query: search })).items
equal(
  'events',
  events.map(({ type, resource_id }) => [type, resource_id]),
  [
    [grown('comment.created'), answer.id],
    [grown('comment.updated'), comment.id],
    [grown('comment.created'), comment.id],
  ],
)
ok('events')

/** Reads the event stream after an id up to the next event of a type. */
const nextEvent = async (wanted: string, after?: string): Promise<{ id: string; data: unknown }> => {
  const stop = new AbortController()
  const headers = after === undefined ? {} : { 'Last-Event-ID': after }
  let newest = { id: '', event: '', data: {} as unknown }
  const { stream } = await streamEvents({
    headers,
    signal: stop.signal,
    onSseEvent: ({ id = '', event = '', data }) => (newest = { id, event, data }),
  })
  for await (const _ of stream) if (newest.event === wanted) break
  stop.abort()
  return newest
}
const { id: position } = await nextEvent('ready')
const missed = success(await createComment({ path: ofPlan, body: { body: 'Nobody is listening.' } }))
const resumed = await nextEvent('comment.created', position)
// The client parses data, which is text in the contract.
equal('resumed', (resumed.data as Event).resource_id, missed.id)
ok('stream')

equal('status', (await deleteProject({ path: place })).response?.status, 204)
problem(404, await getTask({ path: ofPlan, auth }))
ok('delete')

const etag = (await getTask({ path })).response?.headers.get('ETag') ?? ''
const rename = { path, headers: { 'If-Match': etag }, body: { title: 'Publish the release notes' } }
success(await updateTask(rename))
const conflict = problem(412, await updateTask(rename))
equal('code', conflict.code, grown('precondition_failed'))
ok('conflict')

const invalid = problem(400, await createTask({ body: { title: 'x'.repeat(501) } }))
equal('pointer', invalid.errors?.[0]?.pointer, '/title')
ok('validation')

const before = tokens.access_token
tokens = success(await refreshToken({ body: { refresh_token: tokens.refresh_token } }))
equal('a new token', tokens.access_token !== before, true)
equal('me', success(await getCurrentUser()).username, username)
ok('refresh')

equal('status', (await logout()).response?.status, 204)
const rejected = problem(401, await getCurrentUser())
equal('code', rejected.code, grown('unauthorized'))
ok('logout')
