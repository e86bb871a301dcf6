// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { session } from './http.ts'
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
} from './taskwright.ts'

/** The result of a generated function. */
interface Answer {
  readonly status: number
  readonly data: unknown
}

/** The data of a response, which must have the expected status. */
const expect = <Given extends Answer, Status extends Given['status']>(
  status: Status,
  answer: Given,
): Extract<Given, { status: Status }>['data'] => {
  if (answer.status !== status) throw new Error(`${answer.status}: ${JSON.stringify(answer.data)}`)
  return answer.data as Extract<Given, { status: Status }>['data']
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
const username = `orval-${randomBytes(8).toString('hex')}`
const account = { username, email: `${username}@example.com`, password: randomBytes(12).toString('hex') }
const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1_000).toISOString()

// Documentation: begin
session.url = url
let tokens = expect(201, await register(account))
session.token = tokens.access_token
const task = expect(
  201,
  await createTask({ title: 'Write the release notes', priority: 'high', due_at: tomorrow }),
)
// Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, 'high')
equal('due_at', task.due_at, tomorrow)
ok('create')

const patched = expect(200, await updateTask(task.id, { status: 'in_progress' }))
equal('status', patched.status, 'in_progress')
equal('due_at', patched.due_at, tomorrow)
ok('patch')

const cleared = expect(200, await updateTask(task.id, { due_at: null }))
equal('due_at', cleared.due_at, null)
equal('title', cleared.title, task.title)
ok('clear')

const tag = expect(201, await createTag({ name: 'release', color: '#d92d20' }))
expect(204, await addTaskTag(task.id, tag.id))
const tagged = expect(200, await getTask(task.id))
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0]?.color, '#d92d20')
ok('tag')

const sent = randomBytes(1_000)
const sha256 = createHash('sha256').update(sent).digest('hex')
const upload = await addTaskAttachment(task.id, { file: new File([sent], 'random.bin'), sha256 })
const attachment = expect(201, upload)
const file = expect(200, await downloadAttachment(attachment.id))
const received = Buffer.from(await file.arrayBuffer())
equal('file name', attachment.file_name, 'random.bin')
equal('same bytes', received.equals(sent), true)
equal('sha256', attachment.sha256, sha256)
ok('file')

const created = [task.id]
for (let number = 1; number <= 5; number += 1) {
  created.push(expect(201, await createTask({ title: `Task ${number}` })).id)
}
const listed: string[] = []
let cursor: string | null = null
do {
  const page: TaskList = expect(200, await listTasks({ limit: 2, ...(cursor === null ? {} : { cursor }) }))
  equal('at most two', page.items.length <= 2, true)
  listed.push(...page.items.map(({ id }) => id))
  cursor = page.next_cursor
} while (cursor !== null)
equal('every task once', listed.toSorted(), created.toSorted())
ok('page')

const project = expect(201, await createProject({ name: 'Launch' }))
const plan = expect(201, await createTask({ title: 'Plan the launch', project_id: project.id }))
const another = { ...account, username: `${username}2`, email: `2${account.email}` }
const { user, access_token } = expect(201, await register(another))
const member = expect(201, await setProjectMember(project.id, user.id, { role: 'editor' }))
equal('role', member.role, 'editor')
session.token = access_token
const shared = expect(200, await getTask(plan.id))
equal('project', shared.project_id, project.id)
equal('tasks of the project', expect(200, await listProjectTasks(project.id)).items, [shared])
session.token = tokens.access_token
ok('project')

const question = { body: `Is the date right, @${user.username}?` }
const comment = expect(201, await createComment(plan.id, question))
equal('mentions', comment.mentions, [user.id])
const read = await getComment(comment.id)
equal('the same comment', expect(200, read), comment)
const edit = { body: `Is the time right, @${user.username}?` }
const ifUnchanged = { 'If-Match': read.headers.get('ETag') ?? '' }
const edited = expect(200, await updateComment(comment.id, edit, ifUnchanged))
equal('version', edited.version, 2)
expect(412, await updateComment(comment.id, edit, ifUnchanged))
session.token = access_token
const answer = expect(201, await createComment(plan.id, { body: 'It is.' }))
session.token = tokens.access_token
const first = expect(200, await listTaskComments(plan.id, { limit: 1 }))
const last = expect(200, await listTaskComments(plan.id, { limit: 1, cursor: first.next_cursor ?? '' }))
equal('comments', [...first.items, ...last.items], [edited, answer])
equal('no more', last.next_cursor, null)
ok('comment')

const subtask = expect(201, await createTask({ title: 'Choose the date', parent_id: plan.id }))
equal('parent', subtask.parent_id, plan.id)
equal('project', subtask.project_id, project.id)
equal('subtasks', expect(200, await getTask(plan.id)).subtask_count, 1)
ok('subtask')

expect(204, await addTaskRelation(plan.id, 'blocked_by', subtask.id))
const related = expect(200, await listTaskRelations(plan.id)).items
equal(
  'relations',
  related.map(({ kind, other_task_id }) => [kind, other_task_id]),
  [['blocked_by', subtask.id]],
)
equal('is blocked', expect(200, await getTask(plan.id)).is_blocked, true)
ok('relation')

session.token = access_token
expect(204, await followTask(subtask.id))
const followers = expect(200, await listTaskFollowers(subtask.id)).items
equal('followers', followers.map(({ user_id }) => user_id).toSorted(), [tokens.user.id, user.id].toSorted())
const notification = await eventually(
  'notification',
  async () => expect(200, await listNotifications({ unread: true })).items[0],
)
equal('reason', notification.reason, 'mention')
equal('comment', notification.comment_id, comment.id)
const seen = expect(200, await updateNotification(notification.id, { is_read: true }))
equal('is read', seen.read_at !== null, true)
equal('unread', expect(200, await listNotifications({ unread: true })).items, [])
session.token = tokens.access_token
ok('inbox')

const subscription = { url: process.env.TASKWRIGHT_RECEIVER ?? '', event_types: ['project.*'] }
const webhook = expect(201, await createWebhook({ ...subscription, project_id: project.id }))
equal('secret', webhook.secret.startsWith('whsec_'), true)
const testing = expect(201, await testWebhook(webhook.id))
const delivery = await eventually('delivery', async () => {
  const sending = expect(200, await getWebhookDelivery(webhook.id, testing.id))
  return sending.status === 'pending' ? undefined : sending
})
equal('delivery', [delivery.status, delivery.response_status], ['delivered', 204])
equal('deliveries', expect(200, await listWebhookDeliveries(webhook.id)).items, [delivery])
ok('webhook')

const history = expect(200, await listTaskEvents(plan.id)).items
equal('history', history.at(-1)?.type, 'task.created')
const events = expect(200, await listEvents({ project_id: [project.id], type: ['comment.*'] })).items
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
  const headers = after === undefined ? {} : { 'Last-Event-ID': after }
  // The generated type is text, but http.ts returns the stream to its caller.
  const stream = expect(
    200,
    await streamEvents({}, headers, { signal: stop.signal }),
  ) as unknown as ReadableStream<BufferSource>
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
const missed = expect(201, await createComment(plan.id, { body: 'Nobody is listening.' }))
const resumed = await nextEvent('comment.created', position)
equal('resumed', (resumed.data as Event).resource_id, missed.id)
ok('stream')

expect(204, await deleteProject(project.id))
expect(404, await getTask(plan.id))
ok('delete')

const etag = (await getTask(task.id)).headers.get('ETag') ?? ''
const rename = { title: 'Publish the release notes' }
expect(200, await updateTask(task.id, rename, { 'If-Match': etag }))
const conflict: Problem = expect(412, await updateTask(task.id, rename, { 'If-Match': etag }))
equal('code', conflict.code, 'precondition_failed')
ok('conflict')

const invalid: Problem = expect(400, await createTask({ title: 'x'.repeat(501) }))
equal('pointer', invalid.errors?.[0]?.pointer, '/title')
ok('validation')

const before = tokens.access_token
tokens = expect(200, await refreshToken({ refresh_token: tokens.refresh_token }))
session.token = tokens.access_token
equal('a new token', tokens.access_token !== before, true)
equal('me', expect(200, await getCurrentUser()).username, username)
ok('refresh')

expect(204, await logout())
const rejected: Problem = expect(401, await getCurrentUser())
equal('code', rejected.code, 'unauthorized')
ok('logout')
