// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { connect, each, type Event, type Problem, TaskwrightError } from 'taskwright'

/** The problem of a call that must fail with a status. */
const problem = async (status: number, call: Promise<unknown>): Promise<Problem> => {
  const error: unknown = await call.catch((reason: unknown) => reason)
  if (!(error instanceof TaskwrightError) || error.problem === undefined)
    throw new Error(`expected a problem with status ${status}, got ${String(error)}`)
  equal('status', error.response.status, status)
  return error.problem
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
let tokens = await connect({ baseUrl: url }).register({ body: account })
const taskwright = connect({ baseUrl: url, auth: () => tokens.access_token })
const task = await taskwright.createTask({
  body: { title: 'Write the release notes', priority: 'high', due_at: tomorrow },
})
// Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, 'high')
equal('due_at', task.due_at, tomorrow)
ok('create')

const path = { task_id: task.id }
const patched = await taskwright.updateTask({ path, body: { status: 'in_progress' } })
equal('status', patched.status, 'in_progress')
equal('due_at', patched.due_at, tomorrow)
ok('patch')

const reminder = await taskwright.createReminder({ path, body: { relative_to: 'due', offset_minutes: -60 } })
equal('remind_at', reminder.remind_at, new Date(Date.parse(tomorrow) - 60 * 60 * 1_000).toISOString())
const reminders = async () => (await taskwright.listReminders({ query: { task_id: [task.id] } })).items
equal('reminders', await reminders(), [reminder])
const reminderPath = { reminder_id: reminder.id }
const snooze = { path: reminderPath, body: { snoozed_until: tomorrow } }
equal('snoozed', (await taskwright.updateReminder(snooze)).remind_at, tomorrow)
await taskwright.deleteReminder({ path: reminderPath })
equal('deleted', await reminders(), [])
ok('remind')

const weekly = { rule: 'FREQ=WEEKLY', time_zone: 'Europe/Berlin' }
const recurring = await taskwright.updateTask({ path, body: { recurrence: weekly } })
equal('rule', recurring.recurrence?.rule, weekly.rule)
equal('occurrence', [recurring.occurrence?.number, recurring.occurrence?.at], [1, tomorrow])
const changed = await taskwright.updateTask({ path, body: { recurrence: { missed: 'each' } } })
equal('time_zone', changed.recurrence?.time_zone, weekly.time_zone)
equal('missed', changed.recurrence?.missed, 'each')
const single = await taskwright.updateTask({ path, body: { recurrence: null } })
equal('recurrence', [single.recurrence, single.occurrence], [null, null])
ok('recur')

const noted = await taskwright.updateTask({ path, body: { metadata: { customer_id: '42', ticket: 'A-7' } } })
equal('two keys', noted.metadata, { customer_id: '42', ticket: 'A-7' })
const merged = await taskwright.updateTask({ path, body: { metadata: { ticket: null } } })
equal('one key', merged.metadata, { customer_id: '42' })
ok('metadata')

const cleared = await taskwright.updateTask({ path, body: { due_at: null } })
equal('due_at', cleared.due_at, null)
equal('title', cleared.title, task.title)
ok('clear')

const tag = await taskwright.createTag({ body: { name: 'release', color: '#d92d20' } })
await taskwright.addTaskTag({ path: { ...path, tag_id: tag.id } })
const tagged = await taskwright.getTask({ path })
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0]?.color, '#d92d20')
ok('tag')

const sent = randomBytes(1_000)
const sha256 = createHash('sha256').update(sent).digest('hex')
const form = { file: new File([sent], 'random.bin'), sha256 }
const attachment = await taskwright.addTaskAttachment({ path, body: form })
// Otherwise, the client parses the file as text or JSON, depending on its media type.
const file = await taskwright.downloadAttachment({ path: { attach_id: attachment.id }, parseAs: 'blob' })
const received = Buffer.from(await file.arrayBuffer())
equal('file name', attachment.file_name, 'random.bin')
equal('same bytes', received.equals(sent), true)
equal('sha256', attachment.sha256, sha256)
ok('file')

const created = [task.id]
for (let number = 1; number <= 5; number += 1) {
  created.push((await taskwright.createTask({ body: { title: `Task ${number}` } })).id)
}
const listed: string[] = []
for await (const { id } of each((next) => taskwright.listTasks({ query: { limit: 2, ...next } })))
  listed.push(id)
equal('every task once', listed.toSorted(), created.toSorted())
ok('page')

// The service behind this proxy fails twice, and works at last.
const patient = connect({ baseUrl: process.env.TASKWRIGHT_UNRELIABLE ?? '', auth: () => tokens.access_token })
const once = await patient.createTask({ body: { title: 'Only once' } })
const found = each((next) => taskwright.listTasks({ query: { q: '"Only once"', ...next } }))
equal(
  'one task',
  (await Array.fromAsync(found)).map(({ id }) => id),
  [once.id],
)
ok('retry')

const project = await taskwright.createProject({ body: { name: 'Launch' } })
const launch = { title: 'Plan the launch', project_id: project.id, assignee_id: tokens.user.id }
const plan = await taskwright.createTask({ body: launch })
equal('assignee', plan.assignee_id, tokens.user.id)
const another = { ...account, username: `${username}2`, email: `2${account.email}` }
const { user, access_token: auth } = await taskwright.register({ body: another })
const colleague = connect({ baseUrl: url, auth })
const place = { project_id: project.id }
const member = await taskwright.setProjectMember({
  path: { ...place, user_id: user.id },
  body: { role: 'editor' },
})
equal('role', member.role, grown('editor'))
const shared = await colleague.getTask({ path: { task_id: plan.id } })
equal('project', shared.project_id, project.id)
const planned = await colleague.listProjectTasks({ path: place })
equal('tasks of the project', planned.items, [shared])
ok('project')

const planPath = { task_id: plan.id }
const question = { body: `Is the date right, @${user.username}?` }
const comment = await taskwright.createComment({ path: planPath, body: question })
equal('mentions', comment.mentions, [user.id])
const read = await taskwright.getComment({ path: { comment_id: comment.id } })
equal('the same comment', read, comment)
const edit = {
  path: { comment_id: comment.id },
  headers: { 'If-Match': `"${read.version}"` },
  body: { body: `Is the time right, @${user.username}?` },
}
const edited = await taskwright.updateComment(edit)
equal('version', edited.version, 2)
await problem(412, taskwright.updateComment(edit))
const answer = await colleague.createComment({ path: planPath, body: { body: 'It is.' } })
const comments = each((next) => taskwright.listTaskComments({ path: planPath, query: { limit: 1, ...next } }))
equal('comments', await Array.fromAsync(comments), [edited, answer])
ok('comment')

const step = { title: 'Choose the date', parent_id: plan.id }
const subtask = await taskwright.createTask({ body: step })
equal('parent', subtask.parent_id, plan.id)
equal('project', subtask.project_id, project.id)
equal('subtasks', (await taskwright.getTask({ path: planPath })).subtask_count, 1)
ok('subtask')

const relation = { ...planPath, kind: 'blocked_by' as const, other_task_id: subtask.id }
await taskwright.addTaskRelation({ path: relation })
const related = (await taskwright.listTaskRelations({ path: planPath })).items
equal(
  'relations',
  related.map(({ kind, other_task_id }) => [kind, other_task_id]),
  [[grown('blocked_by'), subtask.id]],
)
equal('is blocked', (await taskwright.getTask({ path: planPath })).is_blocked, true)
ok('relation')

await colleague.followTask({ path: { task_id: subtask.id } })
const followers = (await taskwright.listTaskFollowers({ path: { task_id: subtask.id } })).items
equal('followers', followers.map(({ user_id }) => user_id).toSorted(), [tokens.user.id, user.id].toSorted())
const unread = { query: { unread: true } }
const notification = await eventually(
  'notification',
  async () => (await colleague.listNotifications(unread)).items[0],
)
equal('reason', notification.reason, grown('mention'))
const { type, id } = notification.subject
equal('subject', [type, id], [grown('comment'), comment.id])
const marking = { path: { notification_id: notification.id }, body: { is_read: true } }
equal('is read', (await colleague.updateNotification(marking)).read_at !== null, true)
equal('unread', (await colleague.listNotifications(unread)).items, [])
ok('inbox')

const subscription = { ...place, url: process.env.TASKWRIGHT_RECEIVER ?? '', event_types: ['project.*'] }
const webhook = await taskwright.createWebhook({ body: subscription })
const webhookPath = { webhook_id: webhook.id }
const { id: delivery_id } = await taskwright.testWebhook({ path: webhookPath })
const delivery = await eventually('delivery', async () => {
  const sending = await taskwright.getWebhookDelivery({ path: { ...webhookPath, delivery_id } })
  return sending.ended_at === null ? undefined : sending
})
equal('delivery', [delivery.status, delivery.response_status], [grown('delivered'), 204])
equal('deliveries', (await taskwright.listWebhookDeliveries({ path: webhookPath })).items, [delivery])
ok('webhook')

const history = (await taskwright.listTaskEvents({ path: planPath })).items
equal('history', history.at(-1)?.type, grown('task.created'))
const search = { project_id: [project.id], type: ['comment.*'] }
const events = (await taskwright.listEvents({ query: search })).items
equal(
  'events',
  events.map(({ type, subject }) => [type, subject.id]),
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
  const { stream } = await taskwright.streamEvents({
    headers,
    signal: stop.signal,
    onSseEvent: ({ id = '', event = '', data }) => (newest = { id, event, data }),
  })
  for await (const _ of stream) if (newest.event === wanted) break
  stop.abort()
  return newest
}
const { id: position } = await nextEvent('ready')
const missed = await taskwright.createComment({ path: planPath, body: { body: 'Nobody is listening.' } })
const resumed = await nextEvent('comment.created', position)
// The client parses data, which is text in the contract.
equal('resumed', (resumed.data as Event).subject.id, missed.id)
ok('stream')

await taskwright.deleteProject({ path: place })
await problem(404, colleague.getTask({ path: planPath }))
ok('delete')

const { version } = await taskwright.getTask({ path })
const rename = { path, headers: { 'If-Match': `"${version}"` }, body: { title: 'Publish the release notes' } }
await taskwright.updateTask(rename)
const conflict = await problem(412, taskwright.updateTask(rename))
equal('code', conflict.code, grown('precondition_failed'))
ok('conflict')

const invalid = await problem(400, taskwright.createTask({ body: { title: 'x'.repeat(501) } }))
equal('pointer', invalid.errors?.[0]?.pointer, '/title')
ok('validation')

const table = new File(['title\nOrder the cake\n'], 'tasks.csv')
const { id: import_id } = await taskwright.createImport({ body: { file: table } })
const settled = () =>
  eventually('the import', async () => {
    const present = await taskwright.getImport({ path: { import_id } })
    return present.poll_after_seconds === null ? present : undefined
  })
const previewed = await settled()
equal('previewed tasks', previewed.preview?.tasks, 1)
await taskwright.runImport({ path: { import_id }, body: { version: previewed.version } })
equal('created', (await settled()).result?.created, 1)
const imported = await taskwright.listTasks({ query: { q: '"Order the cake"' } })
equal(
  'imported',
  imported.items.map(({ title }) => title),
  ['Order the cake'],
)
ok('import')

const { id: export_id } = await taskwright.createExport({ body: {} })
const finished = await eventually('the export', async () => {
  const present = await taskwright.getExport({ path: { export_id } })
  return present.poll_after_seconds === null ? present : undefined
})
equal('status', finished.status, grown('finished'))
const archive = await taskwright.downloadExport({ path: { export_id }, parseAs: 'blob' })
equal('size', archive.size, finished.size)
equal('signature', await archive.slice(0, 2).text(), 'PK')
ok('export')

const before = tokens.access_token
tokens = await taskwright.refreshToken({ body: { refresh_token: tokens.refresh_token } })
equal('a new token', tokens.access_token !== before, true)
equal('me', (await taskwright.getCurrentUser()).username, username)
ok('refresh')

await taskwright.logout()
const rejected = await problem(401, taskwright.getCurrentUser())
equal('code', rejected.code, grown('unauthorized'))
ok('logout')
