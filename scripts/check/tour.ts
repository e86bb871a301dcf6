import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect, isDeepStrictEqual } from 'node:util'
import type { components } from '../../generated/openapi.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import {
  type BodyAt,
  type Call,
  createClient,
  type Exchange,
  fileForm,
  type Reply,
} from '../../test/fixture/service.ts'

/**
 * A working session against a running service, which prints each request. Every response is checked against openapi.yaml and
 * against the values that a user expects. The first mismatch ends the tour with exit code 1.
 *
 *     node scripts/check/tour.ts [url]
 */

type Schemas = components['schemas']

/** A mismatch, or no service to connect to. The message is for the user. */
class TourError extends Error {}

/** A request body. In the generated type, fields with defaults are required. */
type NewTask = Pick<Schemas['TaskCreate'], 'title'> & Partial<Schemas['TaskCreate']>

interface Session {
  readonly token: string
  readonly refreshToken: string
}

interface Account {
  readonly id: string
  readonly username: string
  readonly email: string
  readonly password: string
}

interface TypedReply<Body> {
  readonly headers: Headers
  readonly body: Body
}

/** Sends requests, and prints each with a note about its response. */
interface Tour {
  /** Starts a section. */
  heading(text: string): void
  /** Calls an operation, and prints the note. */
  call(operation: OperationId, request: Call, describe: (reply: Reply) => string): Promise<Reply>
  /** Calls an operation, expects a status, and prints the note. */
  expect<Id extends OperationId, Status extends number>(
    operation: Id,
    status: Status,
    request: Call,
    describe?: (reply: TypedReply<BodyAt<Id, Status>>) => string,
  ): Promise<TypedReply<BodyAt<Id, Status>>>
  /** Number of responses so far. */
  count(): number
}

const pathWidth = 52
const noteWidth = 90

const createTour = (url: string): Tour => {
  let exchanges = 0
  let latest: Exchange | undefined
  const client = createClient(url, (exchange) => {
    exchanges += 1
    latest = exchange
  })
  const print = (status: number, note: string): void => {
    const { method = '', path = '' } = latest ?? {}
    const shown = note.length > noteWidth ? `${note.slice(0, noteWidth - 1)}…` : note
    console.log(`  ${method.padEnd(6)} ${shorten(path).padEnd(pathWidth)}  ${status}  ${shown}`.trimEnd())
  }
  /** Repeats a request after 429: others at this address, such as an earlier tour, may have used its limit. */
  const patiently = async <T>(send: () => Promise<T>): Promise<T> => {
    const before = exchanges
    const [outcome] = await Promise.allSettled([send()])
    if (exchanges === before || latest?.reply.status !== 429) {
      if (outcome.status === 'fulfilled') return outcome.value
      throw outcome.reason
    }
    const seconds = Number(latest.reply.headers.get('retry-after'))
    console.log(`  waiting ${seconds} s for the rate limit`)
    await pause(seconds * 1_000)
    return patiently(send)
  }
  return {
    heading: (text) => console.log(`\n${text}`),
    count: () => exchanges,
    async call(operation, request, describe) {
      const reply = await patiently(() => client.call(operation, request))
      print(reply.status, describe(reply))
      return reply
    },
    async expect(operation, status, request, describe) {
      const reply = await patiently(() => client.expect(operation, status, request))
      print(status, describe?.(reply) ?? '')
      return reply
    },
  }
}

/** Shortens ids to their last four characters and cursors to their first six. */
const shorten = (text: string): string =>
  text
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{8}([0-9a-f]{4})/g, '…$1')
    .replaceAll(/(cursor=.{6})[^&]+/g, '$1…')

const expectSame = (name: string, actual: unknown, expected: unknown): void => {
  if (isDeepStrictEqual(actual, expected)) return
  throw new TourError(`${name} is ${inspect(actual)}, not ${inspect(expected)}`)
}

const fields = (record: object, ...names: string[]): string =>
  Object.entries(record)
    .filter(([name]) => names.includes(name))
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(', ')

const etagOf = ({ headers }: { readonly headers: Headers }): string => headers.get('etag') ?? ''

const problemOf = ({ body: { code, errors = [] } }: TypedReply<Schemas['Problem']>): string =>
  [code, ...errors.map(({ pointer, detail }) => `${pointer} ${detail}`)].join(': ')

const sessionOf = ({ access_token, refresh_token }: Schemas['AuthTokens']): Session => ({
  token: access_token,
  refreshToken: refresh_token,
})

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

const register = async (tour: Tour): Promise<Account> => {
  const username = `tour-${randomBytes(4).toString('hex')}`
  const email = `${username}@example.com`
  const password = randomBytes(12).toString('base64url')
  const body = { username, email, password, display_name: 'On Tour' }
  const { body: tokens } = await tour.expect('register', 201, { body }, ({ body: { user } }) =>
    fields(user, 'username', 'role'),
  )
  expectSame('the username', tokens.user.username, username)
  expectSame('the email address', tokens.user.email, email)
  return { id: tokens.user.id, username, email, password }
}

const signIn = async (tour: Tour, { email, password }: Account): Promise<Session> => {
  const { body } = await tour.expect(
    'login',
    200,
    { body: { email, password } },
    ({ body: { expires_in, refresh_expires_in } }) =>
      `access token for ${expires_in / 60} min, refresh token for ${refresh_expires_in / 86_400} days`,
  )
  return sessionOf(body)
}

const readProfile = async (tour: Tour, account: Account, { token }: Session): Promise<void> => {
  await tour.expect('getCurrentUser', 401, {}, problemOf)
  const me = await tour.expect('getCurrentUser', 200, { token }, (reply) => `ETag ${etagOf(reply)}`)
  expectSame('the signed-in user', me.body.id, account.id)
  const headers = { 'if-none-match': etagOf(me) }
  await tour.expect('getCurrentUser', 304, { token, headers }, () => 'not modified')
}

const createTag = async (
  tour: Tour,
  { token }: Session,
  tag: Schemas['TagCreate'],
): Promise<Schemas['Tag']> => {
  const { body } = await tour.expect('createTag', 201, { token, body: tag }, (reply) =>
    fields(reply.body, 'name', 'color'),
  )
  expectSame('the tag', { name: body.name, color: body.color }, tag)
  return body
}

const createTask = async (tour: Tour, { token }: Session, task: NewTask): Promise<Schemas['Task']> => {
  const reply = await tour.expect('createTask', 201, { token, body: task }, ({ body }) =>
    fields(body, 'title', 'due_at'),
  )
  const { tag_ids: tagIds = [], ...written } = task
  expectSame('the new task', reply.body, { ...reply.body, ...written })
  expectSame('its tags', reply.body.tags.map(({ id }) => id).toSorted(), tagIds.toSorted())
  const location = reply.headers.get('location') ?? ''
  expectSame('whether Location is its URL', location.endsWith(`/tasks/${reply.body.id}`), true)
  return reply.body
}

const createTasks = async (tour: Tour, session: Session) => {
  const release = await createTag(tour, session, { name: 'release', color: '#d92d20' })
  const home = await createTag(tour, session, { name: 'home', color: null })
  const notes = await createTask(tour, session, {
    title: 'Write the release notes',
    priority: 'high',
    start_at: '2027-01-04T09:00:00.000Z',
    due_at: '2027-01-08T17:00:00.000Z',
    tag_ids: [release.id],
  })
  const train = await createTask(tour, session, {
    title: 'Book the train',
    due_at: '2027-01-05T12:00:00.000Z',
  })
  const plants = await createTask(tour, session, { title: 'Water the plants', tag_ids: [home.id] })
  const { token } = session
  await tour.expect(
    'addTaskTag',
    204,
    { token, params: { task_id: train.id, tag_id: home.id } },
    () => `"${train.title}" is tagged ${home.name}`,
  )
  return { release, home, notes, train, plants }
}

type CreatedTasks = Awaited<ReturnType<typeof createTasks>>

const titles = ({ body }: TypedReply<Schemas['TaskList']>): string =>
  body.items.map(({ title }) => `"${title}"`).join(', ') || 'none'

const filterTasks = async (
  tour: Tour,
  { token }: Session,
  { home, release, notes, train, plants }: CreatedTasks,
) => {
  const find = async (query: NonNullable<Call['query']>, expected: readonly Schemas['Task'][]) => {
    const { body } = await tour.expect('listTasks', 200, { token, query }, titles)
    expectSame(
      'the list',
      body.items.map(({ id }) => id),
      expected.map(({ id }) => id),
    )
    return body
  }
  const counted = await find({ tag_id: home.id, include_total: true }, [plants, train])
  expectSame('the total', counted.total, 2)
  await find({ tag_id: [home.id, release.id], q: 'THE RELEASE' }, [notes])
  await find({ tag_id: release.id, priority: ['high', 'urgent'] }, [notes])
  await find({ tag_id: release.id, status: 'done' }, [])
}

const updateTask = async (tour: Tour, { token }: Session, { train }: CreatedTasks): Promise<void> => {
  const params = { task_id: train.id }
  const cleared = await tour.expect(
    'updateTask',
    200,
    { token, params, body: { due_at: null } },
    ({ body }) => `null clears a field: ${fields(body, 'title', 'due_at')}`,
  )
  expectSame('due_at', cleared.body.due_at, null)
  expectSame('the title', cleared.body.title, train.title)
  const finished = await tour.expect(
    'updateTask',
    200,
    { token, params, body: { status: 'done' } },
    ({ body }) => fields(body, 'status', 'completed_at'),
  )
  expectSame('whether completed_at is set', finished.body.completed_at !== null, true)
  const reopened = await tour.expect(
    'updateTask',
    200,
    { token, params, body: { status: 'todo' } },
    ({ body }) => fields(body, 'status', 'completed_at'),
  )
  expectSame('completed_at', reopened.body.completed_at, null)
}

const attachFile = async (tour: Tour, { token }: Session, { notes }: CreatedTasks): Promise<void> => {
  const bytes = await readFile(new URL('../../openapi.yaml', import.meta.url))
  const digest = sha256(bytes)
  const params = { task_id: notes.id }
  const body = fileForm(bytes, 'openapi.yaml', 'application/yaml')
  const { body: attachment } = await tour.expect(
    'addTaskAttachment',
    201,
    { token, params, body },
    ({ body }) => `${body.file_name}, ${body.size} bytes, SHA-256 ${body.sha256.slice(0, 8)}…`,
  )
  expectSame('the size', attachment.size, bytes.length)
  expectSame('the SHA-256', attachment.sha256, digest)

  const download = { token, params: { attach_id: attachment.id } }
  const whole = await tour.expect(
    'downloadAttachment',
    200,
    download,
    ({ body }) => `${body.length} bytes, SHA-256 ${sha256(bytesOf(body)).slice(0, 8)}…`,
  )
  expectSame('the SHA-256 of the download', sha256(bytesOf(whole.body)), digest)
  const part = await tour.expect(
    'downloadAttachment',
    206,
    { ...download, headers: { range: 'bytes=0-13' } },
    ({ headers, body }) => `${headers.get('content-range')}: ${Buffer.from(bytesOf(body)).toString()}`,
  )
  expectSame('the range', Buffer.from(bytesOf(part.body)), bytes.subarray(0, 14))
}

/** In the generated types, binary content is a string. */
const bytesOf = (body: unknown): Uint8Array => {
  if (body instanceof Uint8Array) return body
  throw new TourError('the download is not binary')
}

const editConcurrently = async (tour: Tour, laptop: Session, phone: Session, { notes }: CreatedTasks) => {
  const params = { task_id: notes.id }
  const describe = (reply: TypedReply<Schemas['Task']>) =>
    `ETag ${etagOf(reply)}, ${fields(reply.body, 'status', 'priority')}`
  const read = ({ token }: Session) => tour.expect('getTask', 200, { token, params }, describe)
  const onLaptop = await read(laptop)
  const onPhone = await read(phone)
  expectSame('the ETag on the phone', etagOf(onPhone), etagOf(onLaptop))

  const change = ({ token }: Session, body: Schemas['TaskPatch'], current: TypedReply<unknown>) =>
    ({ token, params, body, headers: { 'if-match': etagOf(current) } }) satisfies Call
  await tour.expect(
    'updateTask',
    200,
    change(laptop, { status: 'in_progress' }, onLaptop),
    (reply) => `laptop: ${describe(reply)}`,
  )
  const rejected = await tour.expect(
    'updateTask',
    412,
    change(phone, { priority: 'urgent' }, onPhone),
    (reply) => `phone: ${problemOf(reply)}`,
  )
  expectSame('the code', rejected.body.code, 'precondition_failed')
  const reread = await read(phone)
  expectSame('the status that the laptop set', reread.body.status, 'in_progress')
  expectSame('the priority after the rejected change', reread.body.priority, 'high')
  const resolved = await tour.expect(
    'updateTask',
    200,
    change(phone, { priority: 'urgent' }, reread),
    (reply) => `phone: ${describe(reply)}`,
  )
  expectSame('the status after both changes', resolved.body.status, 'in_progress')
  expectSame('the priority after both changes', resolved.body.priority, 'urgent')
}

const retryCreation = async (tour: Tour, { token }: Session): Promise<Schemas['Task']> => {
  const headers = { 'idempotency-key': randomUUID() }
  const body = { title: 'Order a cake' }
  const first = await tour.expect(
    'createTask',
    201,
    { token, headers, body },
    (reply) => `created …${reply.body.id.slice(-4)}`,
  )
  const second = await tour.expect(
    'createTask',
    201,
    { token, headers, body },
    (reply) =>
      `same response: …${reply.body.id.slice(-4)}, Idempotency-Replayed: ${reply.headers.get('idempotency-replayed')}`,
  )
  expectSame('the replayed response', second.body, first.body)
  expectSame('Idempotency-Replayed', second.headers.get('idempotency-replayed'), 'true')
  const other = await tour.expect(
    'createTask',
    422,
    { token, headers, body: { title: 'Order two cakes' } },
    problemOf,
  )
  expectSame('the code', other.body.code, 'idempotency_key_reused')
  return first.body
}

const sendInvalidBodies = async (tour: Tour, { token }: Session): Promise<void> => {
  const expectInvalid = async (body: object, pointer: string) => {
    const { body: problem } = await tour.expect('createTask', 400, { token, body }, problemOf)
    expectSame('the code', problem.code, 'invalid_request')
    expectSame('the pointer', problem.errors?.[0]?.pointer, pointer)
  }
  await expectInvalid({ title: 'x'.repeat(501) }, '/title')
  await expectInvalid({ title: 'Swim', priority: 'huge' }, '/priority')
  await expectInvalid({ title: 'Swim', dueAt: '2027-01-05T12:00:00.000Z' }, '/dueAt')
  const backwards = { start_at: '2027-01-05T12:00:00.000Z', due_at: '2027-01-04T12:00:00.000Z' }
  await expectInvalid({ title: 'Swim', ...backwards }, '/due_at')
}

const readPages = async (
  tour: Tour,
  { token }: Session,
  account: Account,
  existing: readonly Schemas['Task'][],
): Promise<void> => {
  const params = { user_id: account.id }
  const seen: string[] = []
  let query: string | undefined = 'limit=2'
  while (query !== undefined) {
    const page: TypedReply<Schemas['TaskList']> = await tour.expect(
      'listUserTasks',
      200,
      { token, params, query },
      titles,
    )
    seen.push(...page.body.items.map(({ id }) => id))
    query = nextQuery(page)
  }
  expectSame('the tasks of all pages, newest first', seen, existing.map(({ id }) => id).toReversed())
}

/** The query of the next page in Link. Its cursor must be next_cursor. */
const nextQuery = ({ headers, body }: TypedReply<Schemas['TaskList']>): string | undefined => {
  const query = /<[^>]*\?([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  const cursor = new URLSearchParams(query).get('cursor')
  expectSame('the cursor of Link', cursor, body.next_cursor)
  return query
}

const shareProject = async (
  tour: Tour,
  manager: Session,
  colleague: Account,
  other: Schemas['Task'],
): Promise<void> => {
  const { token } = manager
  const colleagueToken = (await signIn(tour, colleague)).token
  const { body: project } = await tour.expect(
    'createProject',
    201,
    { token, body: { name: 'Offsite' } },
    ({ body }) => fields(body, 'name', 'role', 'member_count'),
  )
  expectSame('the role of its creator', project.role, 'manager')
  const params = { project_id: project.id }
  const plan = await createTask(tour, manager, { title: 'Plan the offsite', project_id: project.id })
  const planned = { token: colleagueToken, params: { task_id: plan.id } }
  await tour.expect('getTask', 404, planned, (reply) => `colleague: ${problemOf(reply)}`)

  const addAs = (role: Schemas['ProjectRole'], status: 200 | 201) =>
    tour.expect(
      'setProjectMember',
      status,
      { token, params: { ...params, user_id: colleague.id }, body: { role } },
      ({ body }) => `colleague: ${fields(body, 'role')}`,
    )
  const started = { ...planned, body: { status: 'in_progress' } }
  await addAs('viewer', 201)
  await tour.expect('getTask', 200, planned, ({ body }) => `colleague sees "${body.title}"`)
  await tour.expect('updateTask', 403, started, (reply) => `colleague: ${problemOf(reply)}`)
  await addAs('editor', 200)
  await tour.expect('updateTask', 200, started, ({ body }) => `colleague: ${fields(body, 'status')}`)

  const move = (to: string | null) =>
    tour.expect(
      'updateTask',
      200,
      { token, params: { task_id: other.id }, body: { project_id: to } },
      ({ body }) => `"${body.title}" moved ${body.project_id === null ? 'out of' : 'into'} the project`,
    )
  const expectTasks = async (...expected: readonly Schemas['Task'][]) => {
    const { body } = await tour.expect('listProjectTasks', 200, { token: colleagueToken, params }, titles)
    expectSame('the tasks of the project', ids(body.items), ids(expected))
  }
  await move(project.id)
  await expectTasks(plan, other)
  await move(null)
  await expectTasks(plan)

  const own = { token: colleagueToken, params: { ...params, user_id: 'me' } }
  await tour.expect('removeProjectMember', 204, own, () => 'colleague left')
  await tour.expect(
    'getProject',
    404,
    { token: colleagueToken, params },
    (reply) => `colleague: ${problemOf(reply)}`,
  )
  await tour.expect('deleteProject', 204, { token, params }, () => `${project.name} moved to the trash`)
  await tour.expect('getTask', 404, { ...planned, token }, problemOf)
  await tour.expect(
    'deleteTrashedProject',
    204,
    { token, params },
    () => `${project.name} deleted permanently`,
  )
}

/** Waits for the notification of a comment, which is created about a second later. */
const notificationOf = async (
  tour: Tour,
  token: string,
  commentId: string,
): Promise<Schemas['Notification']> => {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const inbox = { token, query: { unread: true } }
    const { body } = await tour.expect(
      'listNotifications',
      200,
      inbox,
      ({ body }) => `colleague: ${body.items.map(({ reason }) => reason).join(', ') || 'nothing yet'}`,
    )
    const found = body.items.find(({ comment_id }) => comment_id === commentId)
    if (found !== undefined) return found
    await pause(500)
  }
  throw new TourError('There was no notification of the comment after 10 seconds')
}

/** Creates and deletes a webhook. Its event type does not occur, so that nothing is sent. */
const tryWebhook = async (tour: Tour, { token }: Session, project: { project_id: string }): Promise<void> => {
  const url = 'https://hooks.example.com/tour'
  const body = { ...project, url, event_types: ['project.restored'] }
  const { body: webhook } = await tour.expect('createWebhook', 201, { token, body }, ({ body }) =>
    fields(body, 'url', 'event_types'),
  )
  const params = { webhook_id: webhook.id }
  const rotated = await tour.expect(
    'rotateWebhookSecret',
    200,
    { token, params },
    ({ body }) => `signed with both secrets until ${body.previous_secret_until}`,
  )
  expectSame('whether the secret is a new one', rotated.body.secret !== webhook.secret, true)
  const deliveries = await tour.expect('listWebhookDeliveries', 200, { token, params }, () => 'no deliveries')
  expectSame('the deliveries', deliveries.body.items, [])
  await tour.expect('deleteWebhook', 204, { token, params }, () => 'webhook deleted')
}

/** Dependencies, subtasks, comments, notifications, followers and the history of tasks in a shared project. */
const collaborate = async (tour: Tour, manager: Session, colleague: Account): Promise<void> => {
  const { token } = manager
  const colleagueToken = (await signIn(tour, colleague)).token
  const { body: project } = await tour.expect(
    'createProject',
    201,
    { token, body: { name: 'Move' } },
    ({ body }) => fields(body, 'name'),
  )
  const ofProject = { project_id: project.id }
  await tour.expect(
    'setProjectMember',
    201,
    { token, params: { ...ofProject, user_id: colleague.id }, body: { role: 'commenter' } },
    ({ body }) => `colleague: ${fields(body, 'role')}`,
  )
  const keys = await createTask(tour, manager, { title: 'Fetch the keys', ...ofProject })
  const boxes = await createTask(tour, manager, { title: 'Carry the boxes', ...ofProject })
  const params = { task_id: boxes.id }
  const relation = { ...params, kind: 'blocked_by', other_task_id: keys.id }
  await tour.expect('addTaskRelation', 204, { token, params: relation }, () => `blocked by "${keys.title}"`)
  const expectBlocked = async (expected: boolean) => {
    const { body } = await tour.expect('getTask', 200, { token, params }, (reply) =>
      fields(reply.body, 'is_blocked'),
    )
    expectSame('is_blocked', body.is_blocked, expected)
  }
  await expectBlocked(true)
  const cycle = { token, params: { ...relation, kind: 'blocks' } }
  await tour.expect('addTaskRelation', 409, cycle, problemOf)
  const books = await createTask(tour, manager, { title: 'Pack the books', parent_id: boxes.id })
  expectSame('the project of the subtask', books.project_id, project.id)

  const text = `@${colleague.username}, please ask for the keys.`
  const { body: question } = await tour.expect(
    'createComment',
    201,
    { token, params, body: { body: text } },
    ({ body }) => `mentions ${body.mentions.length} user`,
  )
  expectSame('the mentions', question.mentions, [colleague.id])
  const reply = { token: colleagueToken, params, body: { body: 'They are here.' } }
  await tour.expect('createComment', 201, reply, ({ body }) => `colleague: ${fields(body, 'body')}`)
  const edit = { token: colleagueToken, params: { comment_id: question.id }, body: { body: 'Never mind.' } }
  await tour.expect('updateComment', 403, edit, (reply) => `colleague: ${problemOf(reply)}`)
  const { id: notification_id } = await notificationOf(tour, colleagueToken, question.id)
  const mark = { token: colleagueToken, params: { notification_id }, body: { is_read: true } }
  await tour.expect(
    'updateNotification',
    200,
    mark,
    ({ body }) => `colleague: ${fields(body, 'reason', 'read_at')}`,
  )
  const followers = await tour.expect(
    'listTaskFollowers',
    200,
    { token, params },
    ({ body }) => `${body.items.length} followers: the owner and a commenter`,
  )
  expectSame(
    'the followers',
    followers.body.items.map(({ user_id }) => user_id).toSorted(),
    [colleague.id, boxes.owner_id].toSorted(),
  )
  const change = { token, params: { task_id: keys.id }, body: { status: 'done' } }
  await tour.expect('updateTask', 200, change, ({ body }) => fields(body, 'title', 'status'))
  await expectBlocked(false)
  const history = await tour.expect('listTaskEvents', 200, { token: colleagueToken, params }, ({ body }) =>
    body.items.map(({ type }) => type).join(', '),
  )
  expectSame(
    'the authors of comments, newest first',
    history.body.items.filter(({ type }) => type === 'comment.created').map(({ actor_id }) => actor_id),
    [colleague.id, question.author_id],
  )
  const activity = { token: colleagueToken, query: { project_id: [project.id], type: ['task.*'] } }
  await tour.expect('listEvents', 200, activity, ({ body }) => body.items.map(({ type }) => type).join(', '))
  await tryWebhook(tour, manager, ofProject)
  await tour.expect(
    'deleteProject',
    204,
    { token, params: ofProject },
    () => `${project.name} moved to the trash`,
  )
  await tour.expect(
    'deleteTrashedProject',
    204,
    { token, params: ofProject },
    () => `${project.name} deleted permanently`,
  )
}

/** The sorted ids of resources. */
const ids = (items: readonly { readonly id: string }[]): string[] => items.map(({ id }) => id).toSorted()

const recur = async (tour: Tour, { token }: Session): Promise<void> => {
  const recurrence = { rule: 'FREQ=MONTHLY', time_zone: 'Europe/Berlin' }
  const preview = await tour.expect(
    'previewRecurrence',
    200,
    { token, body: { ...recurrence, on: '2027-01-31', limit: 3 } },
    ({ body }) => body.occurrences.map(({ on }) => on).join(', '),
  )
  const days = preview.body.occurrences.map(({ on }) => on)
  expectSame('the last days of months', days, ['2027-01-31', '2027-02-28', '2027-03-31'])
  const task = { title: 'Pay the rent', due_at: '2090-03-01T08:00:00.000Z', recurrence }
  const created = await tour.expect('createTask', 201, { token, body: task }, ({ body }) =>
    fields(body, 'due_at', 'occurrence_number'),
  )
  const closing = { token, params: { task_id: created.body.id }, body: { status: 'done' } }
  const closed = await tour.expect('updateTask', 200, closing, ({ body }) =>
    fields(body, 'status', 'next_task_id'),
  )
  const task_id = closed.body.next_task_id ?? ''
  const next = await tour.expect('getTask', 200, { token, params: { task_id } }, ({ body }) =>
    fields(body, 'status', 'due_at', 'occurrence_number'),
  )
  // Daylight saving time began in between.
  expectSame('the next due date', next.body.due_at, '2090-04-01T07:00:00.000Z')
}

const refresh = async (tour: Tour, old: Session): Promise<void> => {
  const request = { body: { refresh_token: old.refreshToken } }
  const { body } = await tour.expect('refreshToken', 200, request, () => 'new tokens')
  const renewed = sessionOf(body)
  await tour.expect('getCurrentUser', 200, { token: renewed.token }, () => 'the new access token works')
  const { body: again } = await tour.expect('refreshToken', 200, request, () => 'retry: the same tokens')
  expectSame('the refresh token of the retry', again.refresh_token, renewed.refreshToken)
  const next = { body: { refresh_token: renewed.refreshToken } }
  const { body: newest } = await tour.expect('refreshToken', 200, next, () => 'new tokens again')
  await tour.expect('refreshToken', 401, request, (reply) => `reused: ${problemOf(reply)}; the session ends`)
  await tour.expect('getCurrentUser', 401, { token: newest.access_token }, problemOf)
}

const signOut = async (tour: Tour, { token, refreshToken }: Session): Promise<void> => {
  await tour.expect('logout', 204, { token }, () => 'signed out')
  await tour.expect('getCurrentUser', 401, { token }, problemOf)
  await tour.expect('refreshToken', 401, { body: { refresh_token: refreshToken } }, problemOf)
}

/** All sections between registration and cleanup. */
const runSections = async (tour: Tour, account: Account, colleague: Account): Promise<void> => {
  const laptop = await signIn(tour, account)
  await readProfile(tour, account, laptop)

  tour.heading('Creating two tags and three tasks')
  const list = await createTasks(tour, laptop)
  tour.heading('Filtering: filters are combined with AND, repeated values with OR')
  await filterTasks(tour, laptop, list)
  tour.heading('Updating: a patch contains only the fields that change')
  await updateTask(tour, laptop, list)
  tour.heading('Attaching and downloading a file')
  await attachFile(tour, laptop, list)
  tour.heading('Concurrent updates: If-Match prevents a lost update')
  const phone = await signIn(tour, account)
  await editConcurrently(tour, laptop, phone, list)
  tour.heading('Retrying a creation: the Idempotency-Key prevents a duplicate')
  const cake = await retryCreation(tour, laptop)
  tour.heading('Invalid input: the problem points to the error')
  await sendInvalidBodies(tour, laptop)
  tour.heading('Pagination: following the Link header, two tasks per page')
  await readPages(tour, laptop, account, [list.notes, list.train, list.plants, cake])
  tour.heading('Sharing a project: members see its tasks, and their roles determine what they can change')
  await shareProject(tour, laptop, colleague, cake)
  tour.heading('Collaborating: dependencies, subtasks, comments, notifications, history and webhooks')
  await collaborate(tour, laptop, colleague)
  tour.heading('Recurring tasks: closing one creates the next, at the same time of day')
  await recur(tour, laptop)
  tour.heading('Refreshing tokens: a used refresh token ends the session, unless it is a retry')
  await refresh(tour, phone)
  tour.heading('Signing out: the tokens stop working immediately')
  await signOut(tour, laptop)
}

/** Deletes the account with all its data. Resolves to a note about what remains. */
const cleanUp = async (tour: Tour, account: Account): Promise<string> => {
  const { token } = await signIn(tour, account)
  const params = { user_id: account.id }
  const { status } = await tour.call('deleteUser', { token, params }, (reply) =>
    reply.status === 204 ? 'deleted with all its data' : problemOf(reply as TypedReply<Schemas['Problem']>),
  )
  if (status === 409) return clearLastAdmin(tour, account, token)
  expectSame('the status of the deletion', status, 204)
  await tour.expect('getCurrentUser', 401, { token }, problemOf)
  return "The tour's accounts were deleted."
}

/** Deletes the data of the account. The first account is an administrator, and the last administrator cannot be deleted. */
const clearLastAdmin = async (tour: Tour, account: Account, token: string): Promise<string> => {
  const isOwn = (item: { owner_id: string }) => item.owner_id === account.id
  const params = { user_id: account.id }
  const { body: tasks } = await tour.expect('listUserTasks', 200, { token, params }, titles)
  for (const { id, title } of tasks.items.filter(isOwn))
    await tour.expect(
      'deleteTask',
      204,
      { token, params: { task_id: id } },
      () => `"${title}" moved to the trash`,
    )
  const { body: trash } = await tour.expect('listTrash', 200, { token }, titles)
  for (const { id, title } of trash.items.filter(isOwn))
    await tour.expect(
      'deleteTrashedTask',
      204,
      { token, params: { task_id: id } },
      () => `"${title}" deleted permanently`,
    )
  const { body: tags } = await tour.expect('listTags', 200, { token }, ({ body }) =>
    body.items.map(({ name }) => name).join(', '),
  )
  for (const { id, name } of tags.items.filter(isOwn))
    await tour.expect('deleteTag', 204, { token, params: { tag_id: id } }, () => `${name} deleted`)
  return [
    "The tour's first account is the only administrator of this installation and cannot be deleted.",
    `It remains, without tasks and tags: ${account.email}, password ${account.password}`,
  ].join('\n')
}

/** Runs the tour, and deletes its accounts even after an error. Resolves to a summary. */
const runTour = async (url: string): Promise<string> => {
  const tour = createTour(url)
  console.log(`Taskwright at ${url} (showing the last four characters of ids)`)
  tour.heading('Registering two accounts')
  const account = await register(tour)
  const colleague = await register(tour)
  const failure = await runSections(tour, account, colleague).then(
    () => null,
    (error: unknown) => ({ error }),
  )
  tour.heading('Cleaning up')
  const note = await cleanUp(tour, colleague)
    .then(() => cleanUp(tour, account))
    .catch((error: unknown) => {
      throw failure === null ? error : failure.error
    })
  console.log(`\n${note}`)
  if (failure !== null) throw failure.error
  return `${tour.count()} requests; all responses match openapi.yaml.`
}

/** The URL of the service without a trailing slash. */
const readUrl = (text: string): string => {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol)) return url.href.replace(/\/+$/, '')
  throw new TourError(`${text} is not an http:// or https:// URL`)
}

/** The most likely error, no running service, gets a clear message. */
const expectReady = async (url: string): Promise<void> => {
  const signal = AbortSignal.timeout(10_000)
  const response = await fetch(`${url}/health/ready`, { signal }).catch((error: unknown) => {
    throw new TourError(`No service is running at ${url} (${reasonOf(error)}). Start one with: npm start`)
  })
  if (response.ok) return
  throw new TourError(
    `${url}/health/ready returned ${response.status}: it is not Taskwright, or it is not ready`,
  )
}

/** The network error, which is the cause of the error of fetch. */
const reasonOf = (error: unknown): string => {
  const cause: unknown = error instanceof Error ? (error.cause ?? error) : error
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code
  return cause instanceof Error ? cause.message : String(cause)
}

try {
  const url = readUrl(process.argv[2] ?? (process.env.TASKWRIGHT_URL || 'http://localhost:3000'))
  await expectReady(url)
  console.log(await runTour(url))
} catch (error) {
  console.error(`tour: ${error instanceof TypeError ? `${error.message}: ` : ''}${reasonOf(error)}`)
  process.exitCode = 1
}
