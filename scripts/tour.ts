import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect, isDeepStrictEqual } from 'node:util'
import type { components } from '../generated/openapi.ts'
import type { OperationId } from '../src/contract/contract.ts'
import {
  type BodyAt,
  type Call,
  createClient,
  type Exchange,
  fileForm,
  type Reply,
} from '../test/fixture/service.ts'

/**
 * A working session against a running service, told request by request. Every answer is held against openapi.yaml, and
 * its values against what a user would expect; the first difference ends the tour with 1.
 *
 *     node scripts/tour.ts [url]
 */

type Schemas = components['schemas']

/** What went differently than it should have, in words for whoever reads the tour. */
class Difference extends Error {}

/** What a client must and may send; the generated type wants the fields with defaults too. */
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

interface Answered<Body> {
  readonly headers: Headers
  readonly body: Body
}

/** Sends requests and prints each of them with its answer. */
interface Guide {
  /** Begins a chapter. */
  title(text: string): void
  /** Calls an operation, and prints what `tell` finds worth telling about the answer. */
  send(operation: OperationId, request: Call, tell: (reply: Reply) => string): Promise<Reply>
  /** Calls an operation, requires a status, and prints what `tell` finds worth telling about the answer. */
  ask<Id extends OperationId, Status extends number>(
    operation: Id,
    status: Status,
    request: Call,
    tell?: (answer: Answered<BodyAt<Id, Status>>) => string,
  ): Promise<Answered<BodyAt<Id, Status>>>
  /** How many requests were answered so far. */
  count(): number
}

const pathWidth = 52
const noteWidth = 90

const createGuide = (url: string): Guide => {
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
  return {
    title: (text) => console.log(`\n${text}`),
    count: () => exchanges,
    async send(operation, request, tell) {
      const reply = await client.call(operation, request)
      print(reply.status, tell(reply))
      return reply
    },
    async ask(operation, status, request, tell) {
      const answer = await client.expect(operation, status, request)
      print(status, tell?.(answer) ?? '')
      return answer
    },
  }
}

/** Ids as their last four characters, cursors as their first six: enough to recognise them. */
const shorten = (text: string): string =>
  text
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{8}([0-9a-f]{4})/g, '…$1')
    .replaceAll(/(cursor=.{6})[^&]+/g, '$1…')

const expectSame = (what: string, actual: unknown, expected: unknown): void => {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Difference(`${what} is ${inspect(actual)}, not ${inspect(expected)}`)
}

const fields = (record: object, ...names: string[]): string =>
  Object.entries(record)
    .filter(([name]) => names.includes(name))
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(', ')

const etagOf = ({ headers }: { readonly headers: Headers }): string => headers.get('etag') ?? ''

const problemOf = ({ body: { code, errors = [] } }: Answered<Schemas['Problem']>): string =>
  [code, ...errors.map(({ pointer, detail }) => `${pointer} ${detail}`)].join(': ')

const sessionOf = ({ access_token, refresh_token }: Schemas['AuthTokens']): Session => ({
  token: access_token,
  refreshToken: refresh_token,
})

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

const register = async (guide: Guide): Promise<Account> => {
  const username = `tour-${randomBytes(4).toString('hex')}`
  const email = `${username}@example.com`
  const password = randomBytes(12).toString('base64url')
  const body = { username, email, password, display_name: 'On Tour' }
  const { body: tokens } = await guide.ask('register', 201, { body }, ({ body: { user } }) =>
    fields(user, 'username', 'role'),
  )
  expectSame('the username', tokens.user.username, username)
  expectSame('the address', tokens.user.email, email)
  return { id: tokens.user.id, username, email, password }
}

const signIn = async (guide: Guide, { email, password }: Account): Promise<Session> => {
  const { body } = await guide.ask(
    'login',
    200,
    { body: { email, password } },
    ({ body: { expires_in, refresh_expires_in } }) =>
      `access token for ${expires_in / 60} min, refresh token for ${refresh_expires_in / 86_400} days`,
  )
  return sessionOf(body)
}

const lookAround = async (guide: Guide, account: Account, { token }: Session): Promise<void> => {
  await guide.ask('getCurrentUser', 401, {}, problemOf)
  const me = await guide.ask('getCurrentUser', 200, { token }, (answer) => `ETag ${etagOf(answer)}`)
  expectSame('the signed-in user', me.body.id, account.id)
  const headers = { 'if-none-match': etagOf(me) }
  await guide.ask('getCurrentUser', 304, { token, headers }, () => 'not modified')
}

const createTag = async (
  guide: Guide,
  { token }: Session,
  tag: Schemas['TagCreate'],
): Promise<Schemas['Tag']> => {
  const { body } = await guide.ask('createTag', 201, { token, body: tag }, (answer) =>
    fields(answer.body, 'name', 'color'),
  )
  expectSame('the tag', { name: body.name, color: body.color }, tag)
  return body
}

const createTask = async (guide: Guide, { token }: Session, task: NewTask): Promise<Schemas['Task']> => {
  const answer = await guide.ask('createTask', 201, { token, body: task }, ({ body }) =>
    fields(body, 'title', 'due_at'),
  )
  const { tag_ids: tagIds = [], ...written } = task
  expectSame('the new task', answer.body, { ...answer.body, ...written })
  expectSame('its tags', answer.body.tags.map(({ id }) => id).toSorted(), tagIds.toSorted())
  const location = answer.headers.get('location') ?? ''
  expectSame('whether Location names it', location.endsWith(`/tasks/${answer.body.id}`), true)
  return answer.body
}

const fillTheList = async (guide: Guide, session: Session) => {
  const release = await createTag(guide, session, { name: 'release', color: '#d92d20' })
  const home = await createTag(guide, session, { name: 'home', color: null })
  const notes = await createTask(guide, session, {
    title: 'Write the release notes',
    priority: 'high',
    start_at: '2027-01-04T09:00:00.000Z',
    due_at: '2027-01-08T17:00:00.000Z',
    tag_ids: [release.id],
  })
  const train = await createTask(guide, session, {
    title: 'Book the train',
    due_at: '2027-01-05T12:00:00.000Z',
  })
  const plants = await createTask(guide, session, { title: 'Water the plants', tag_ids: [home.id] })
  const { token } = session
  await guide.ask(
    'addTaskTag',
    204,
    { token, params: { task_id: train.id, tag_id: home.id } },
    () => `"${train.title}" is tagged ${home.name}`,
  )
  return { release, home, notes, train, plants }
}

type List = Awaited<ReturnType<typeof fillTheList>>

const titles = ({ body }: Answered<Schemas['TaskList']>): string =>
  body.items.map(({ title }) => `"${title}"`).join(', ') || 'none'

const filterTheList = async (
  guide: Guide,
  { token }: Session,
  { home, release, notes, train, plants }: List,
) => {
  const find = async (query: NonNullable<Call['query']>, expected: readonly Schemas['Task'][]) => {
    const { body } = await guide.ask('listTasks', 200, { token, query }, titles)
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

const changeATask = async (guide: Guide, { token }: Session, { train }: List): Promise<void> => {
  const params = { task_id: train.id }
  const cleared = await guide.ask(
    'updateTask',
    200,
    { token, params, body: { due_at: null } },
    ({ body }) => `null clears: ${fields(body, 'title', 'due_at')}`,
  )
  expectSame('due_at', cleared.body.due_at, null)
  expectSame('the title', cleared.body.title, train.title)
  const finished = await guide.ask(
    'updateTask',
    200,
    { token, params, body: { status: 'done' } },
    ({ body }) => fields(body, 'status', 'completed_at'),
  )
  expectSame('whether it has a time of completion', finished.body.completed_at !== null, true)
  const reopened = await guide.ask(
    'updateTask',
    200,
    { token, params, body: { status: 'todo' } },
    ({ body }) => fields(body, 'status', 'completed_at'),
  )
  expectSame('completed_at', reopened.body.completed_at, null)
}

const attachAFile = async (guide: Guide, { token }: Session, { notes }: List): Promise<void> => {
  const bytes = await readFile(new URL('../openapi.yaml', import.meta.url))
  const digest = sha256(bytes)
  const params = { task_id: notes.id }
  const body = fileForm(bytes, 'openapi.yaml', 'application/yaml')
  const { body: attachment } = await guide.ask(
    'addTaskAttachment',
    201,
    { token, params, body },
    ({ body }) => `${body.file_name}, ${body.size} bytes, SHA-256 ${body.sha256.slice(0, 8)}…`,
  )
  expectSame('the size', attachment.size, bytes.length)
  expectSame('the SHA-256', attachment.sha256, digest)

  const download = { token, params: { attach_id: attachment.id } }
  const whole = await guide.ask(
    'downloadAttachment',
    200,
    download,
    ({ body }) => `${body.length} bytes, SHA-256 ${sha256(bytesOf(body)).slice(0, 8)}…`,
  )
  expectSame('the SHA-256 of the download', sha256(bytesOf(whole.body)), digest)
  const part = await guide.ask(
    'downloadAttachment',
    206,
    { ...download, headers: { range: 'bytes=0-13' } },
    ({ headers, body }) => `${headers.get('content-range')}: ${Buffer.from(bytesOf(body)).toString()}`,
  )
  expectSame('the range', Buffer.from(bytesOf(part.body)), bytes.subarray(0, 14))
}

/** The contract's types call a file's bytes a string. */
const bytesOf = (body: unknown): Uint8Array => {
  if (body instanceof Uint8Array) return body
  throw new Difference('the download is not bytes')
}

const editAtTheSameTime = async (guide: Guide, laptop: Session, phone: Session, { notes }: List) => {
  const params = { task_id: notes.id }
  const tell = (answer: Answered<Schemas['Task']>) =>
    `ETag ${etagOf(answer)}, ${fields(answer.body, 'status', 'priority')}`
  const read = ({ token }: Session) => guide.ask('getTask', 200, { token, params }, tell)
  const seenByLaptop = await read(laptop)
  const seenByPhone = await read(phone)
  expectSame('what the two have seen', etagOf(seenByPhone), etagOf(seenByLaptop))

  const change = ({ token }: Session, body: Schemas['TaskPatch'], seen: Answered<unknown>) =>
    ({ token, params, body, headers: { 'if-match': etagOf(seen) } }) satisfies Call
  await guide.ask(
    'updateTask',
    200,
    change(laptop, { status: 'in_progress' }, seenByLaptop),
    (answer) => `laptop: ${tell(answer)}`,
  )
  const refused = await guide.ask(
    'updateTask',
    412,
    change(phone, { priority: 'urgent' }, seenByPhone),
    (answer) => `phone: ${problemOf(answer)}`,
  )
  expectSame('the code', refused.body.code, 'precondition_failed')
  const seenAgain = await read(phone)
  expectSame('the status that the laptop set', seenAgain.body.status, 'in_progress')
  expectSame('the priority, which the refused change left alone', seenAgain.body.priority, 'high')
  const resolved = await guide.ask(
    'updateTask',
    200,
    change(phone, { priority: 'urgent' }, seenAgain),
    (answer) => `phone: ${tell(answer)}`,
  )
  expectSame('the status after both changes', resolved.body.status, 'in_progress')
  expectSame('the priority after both changes', resolved.body.priority, 'urgent')
}

const retryACreation = async (guide: Guide, { token }: Session): Promise<Schemas['Task']> => {
  const headers = { 'idempotency-key': randomUUID() }
  const body = { title: 'Order a cake' }
  const first = await guide.ask(
    'createTask',
    201,
    { token, headers, body },
    (answer) => `created …${answer.body.id.slice(-4)}`,
  )
  const second = await guide.ask(
    'createTask',
    201,
    { token, headers, body },
    (answer) =>
      `…${answer.body.id.slice(-4)} again, Idempotency-Replayed: ${answer.headers.get('idempotency-replayed')}`,
  )
  expectSame('the repeated answer', second.body, first.body)
  expectSame('Idempotency-Replayed', second.headers.get('idempotency-replayed'), 'true')
  const other = await guide.ask(
    'createTask',
    422,
    { token, headers, body: { title: 'Order two cakes' } },
    problemOf,
  )
  expectSame('the code', other.body.code, 'idempotency_key_reused')
  return first.body
}

const makeMistakes = async (guide: Guide, { token }: Session): Promise<void> => {
  const tryOut = async (body: object, pointer: string) => {
    const { body: problem } = await guide.ask('createTask', 400, { token, body }, problemOf)
    expectSame('the code', problem.code, 'invalid_request')
    expectSame('the pointer', problem.errors?.[0]?.pointer, pointer)
  }
  await tryOut({ title: 'x'.repeat(501) }, '/title')
  await tryOut({ title: 'Swim', priority: 'huge' }, '/priority')
  await tryOut({ title: 'Swim', dueAt: '2027-01-05T12:00:00.000Z' }, '/dueAt')
  const backwards = { start_at: '2027-01-05T12:00:00.000Z', due_at: '2027-01-04T12:00:00.000Z' }
  await tryOut({ title: 'Swim', ...backwards }, '/due_at')
}

const turnPages = async (
  guide: Guide,
  { token }: Session,
  account: Account,
  existing: readonly Schemas['Task'][],
): Promise<void> => {
  const params = { user_id: account.id }
  const seen: string[] = []
  let query: string | undefined = 'limit=2'
  while (query !== undefined) {
    const page: Answered<Schemas['TaskList']> = await guide.ask(
      'listUserTasks',
      200,
      { token, params, query },
      titles,
    )
    seen.push(...page.body.items.map(({ id }) => id))
    query = nextQuery(page)
  }
  expectSame('what all pages show, newest first', seen, existing.map(({ id }) => id).toReversed())
}

/** The query of the page that Link calls next, which must be where next_cursor leads too. */
const nextQuery = ({ headers, body }: Answered<Schemas['TaskList']>): string | undefined => {
  const query = /<[^>]*\?([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  const cursor = new URLSearchParams(query).get('cursor')
  expectSame('the cursor of Link', cursor, body.next_cursor)
  return query
}

const shareAProject = async (
  guide: Guide,
  manager: Session,
  colleague: Account,
  other: Schemas['Task'],
): Promise<void> => {
  const { token } = manager
  const theirs = (await signIn(guide, colleague)).token
  const { body: project } = await guide.ask(
    'createProject',
    201,
    { token, body: { name: 'Offsite' } },
    ({ body }) => fields(body, 'name', 'role', 'member_count'),
  )
  expectSame('the role of whoever created it', project.role, 'manager')
  const params = { project_id: project.id }
  const plan = await createTask(guide, manager, { title: 'Plan the offsite', project_id: project.id })
  const planned = { token: theirs, params: { task_id: plan.id } }
  await guide.ask('getTask', 404, planned, (answer) => `colleague: ${problemOf(answer)}`)

  const addAs = (role: Schemas['ProjectRole'], status: 200 | 201) =>
    guide.ask(
      'setProjectMember',
      status,
      { token, params: { ...params, user_id: colleague.id }, body: { role } },
      ({ body }) => `colleague: ${fields(body, 'role')}`,
    )
  const started = { ...planned, body: { status: 'in_progress' } }
  await addAs('viewer', 201)
  await guide.ask('getTask', 200, planned, ({ body }) => `colleague sees "${body.title}"`)
  await guide.ask('updateTask', 403, started, (answer) => `colleague: ${problemOf(answer)}`)
  await addAs('editor', 200)
  await guide.ask('updateTask', 200, started, ({ body }) => `colleague: ${fields(body, 'status')}`)

  const move = (to: string | null) =>
    guide.ask(
      'updateTask',
      200,
      { token, params: { task_id: other.id }, body: { project_id: to } },
      ({ body }) => `"${body.title}" moved ${body.project_id === null ? 'out of' : 'into'} the project`,
    )
  const expectTasks = async (...expected: readonly Schemas['Task'][]) => {
    const { body } = await guide.ask('listProjectTasks', 200, { token: theirs, params }, titles)
    expectSame('the tasks of the project', ids(body.items), ids(expected))
  }
  await move(project.id)
  await expectTasks(plan, other)
  await move(null)
  await expectTasks(plan)

  const own = { token: theirs, params: { ...params, user_id: 'me' } }
  await guide.ask('removeProjectMember', 204, own, () => 'colleague left')
  await guide.ask('getProject', 404, { token: theirs, params }, (answer) => `colleague: ${problemOf(answer)}`)
  await guide.ask('deleteProject', 204, { token, params }, () => `${project.name} moved to the trash`)
  await guide.ask('getTask', 404, { ...planned, token }, problemOf)
  await guide.ask('deleteTrashedProject', 204, { token, params }, () => `${project.name} deleted permanently`)
}

/** The unread notification of a comment, which arrives about a second after it. */
const notificationOf = async (
  guide: Guide,
  token: string,
  commentId: string,
): Promise<Schemas['Notification']> => {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const inbox = { token, query: { unread: true } }
    const { body } = await guide.ask(
      'listNotifications',
      200,
      inbox,
      ({ body }) => `colleague: ${body.items.map(({ reason }) => reason).join(', ') || 'nothing yet'}`,
    )
    const found = body.items.find(({ comment_id }) => comment_id === commentId)
    if (found !== undefined) return found
    await pause(500)
  }
  throw new Difference('No notification of the comment has arrived within 10 seconds')
}

/** A webhook for a type of event that does not happen, so that nothing is sent to anybody. */
const subscribe = async (guide: Guide, { token }: Session, place: { project_id: string }): Promise<void> => {
  const url = 'https://hooks.example.com/tour'
  const body = { ...place, url, event_types: ['project.restored'] }
  const { body: webhook } = await guide.ask('createWebhook', 201, { token, body }, ({ body }) =>
    fields(body, 'url', 'event_types'),
  )
  const params = { webhook_id: webhook.id }
  const rotated = await guide.ask(
    'rotateWebhookSecret',
    200,
    { token, params },
    ({ body }) => `signed with both secrets until ${body.previous_secret_until}`,
  )
  expectSame('whether the secret is another one', rotated.body.secret !== webhook.secret, true)
  const deliveries = await guide.ask('listWebhookDeliveries', 200, { token, params }, () => 'no deliveries')
  expectSame('the deliveries', deliveries.body.items, [])
  await guide.ask('deleteWebhook', 204, { token, params }, () => 'webhook deleted')
}

/** A task in a project of both: its subtask, who waits for what, what is said about it, and what has happened. */
const workTogether = async (guide: Guide, manager: Session, colleague: Account): Promise<void> => {
  const { token } = manager
  const theirs = (await signIn(guide, colleague)).token
  const { body: project } = await guide.ask(
    'createProject',
    201,
    { token, body: { name: 'Move' } },
    ({ body }) => fields(body, 'name'),
  )
  const place = { project_id: project.id }
  await guide.ask(
    'setProjectMember',
    201,
    { token, params: { ...place, user_id: colleague.id }, body: { role: 'commenter' } },
    ({ body }) => `colleague: ${fields(body, 'role')}`,
  )
  const keys = await createTask(guide, manager, { title: 'Fetch the keys', ...place })
  const boxes = await createTask(guide, manager, { title: 'Carry the boxes', ...place })
  const params = { task_id: boxes.id }
  const relation = { ...params, kind: 'blocked_by', other_task_id: keys.id }
  await guide.ask('addTaskRelation', 204, { token, params: relation }, () => `blocked by "${keys.title}"`)
  const isBlocked = async (expected: boolean) => {
    const { body } = await guide.ask('getTask', 200, { token, params }, (answer) =>
      fields(answer.body, 'is_blocked'),
    )
    expectSame('is_blocked', body.is_blocked, expected)
  }
  await isBlocked(true)
  const cycle = { token, params: { ...relation, kind: 'blocks' } }
  await guide.ask('addTaskRelation', 409, cycle, problemOf)
  const books = await createTask(guide, manager, { title: 'Pack the books', parent_id: boxes.id })
  expectSame('the project of the subtask', books.project_id, project.id)

  const text = `@${colleague.username}, please ask for the keys.`
  const { body: question } = await guide.ask(
    'createComment',
    201,
    { token, params, body: { body: text } },
    ({ body }) => `mentions ${body.mentions.length} user`,
  )
  expectSame('the mentions', question.mentions, [colleague.id])
  const reply = { token: theirs, params, body: { body: 'They are here.' } }
  await guide.ask('createComment', 201, reply, ({ body }) => `colleague: ${fields(body, 'body')}`)
  const edit = { token: theirs, params: { comment_id: question.id }, body: { body: 'Never mind.' } }
  await guide.ask('updateComment', 403, edit, (answer) => `colleague: ${problemOf(answer)}`)
  const { id: notification_id } = await notificationOf(guide, theirs, question.id)
  const mark = { token: theirs, params: { notification_id }, body: { is_read: true } }
  await guide.ask(
    'updateNotification',
    200,
    mark,
    ({ body }) => `colleague: ${fields(body, 'reason', 'read_at')}`,
  )
  const followers = await guide.ask(
    'listTaskFollowers',
    200,
    { token, params },
    ({ body }) => `${body.items.length} followers: who created it, and who has commented`,
  )
  expectSame(
    'the followers',
    followers.body.items.map(({ user_id }) => user_id).toSorted(),
    [colleague.id, boxes.owner_id].toSorted(),
  )
  const change = { token, params: { task_id: keys.id }, body: { status: 'done' } }
  await guide.ask('updateTask', 200, change, ({ body }) => fields(body, 'title', 'status'))
  await isBlocked(false)
  const history = await guide.ask('listTaskEvents', 200, { token: theirs, params }, ({ body }) =>
    body.items.map(({ type }) => type).join(', '),
  )
  expectSame(
    'who has commented, the last one first',
    history.body.items.filter(({ type }) => type === 'comment.created').map(({ actor_id }) => actor_id),
    [colleague.id, question.author_id],
  )
  const activity = { token: theirs, query: { project_id: [project.id], type: ['task.*'] } }
  await guide.ask('listEvents', 200, activity, ({ body }) => body.items.map(({ type }) => type).join(', '))
  await subscribe(guide, manager, place)
  await guide.ask('deleteProject', 204, { token, params: place }, () => `${project.name} moved to the trash`)
  await guide.ask(
    'deleteTrashedProject',
    204,
    { token, params: place },
    () => `${project.name} deleted permanently`,
  )
}

/** The ids of resources, in an order of their own. */
const ids = (items: readonly { readonly id: string }[]): string[] => items.map(({ id }) => id).toSorted()

const refresh = async (guide: Guide, old: Session): Promise<void> => {
  const request = { body: { refresh_token: old.refreshToken } }
  const { body } = await guide.ask('refreshToken', 200, request, () => 'a new pair of tokens')
  const renewed = sessionOf(body)
  await guide.ask('getCurrentUser', 200, { token: renewed.token }, () => 'the new access token works')
  const { body: again } = await guide.ask('refreshToken', 200, request, () => 'retry: the same pair')
  expectSame('the repeated refresh token', again.refresh_token, renewed.refreshToken)
  const next = { body: { refresh_token: renewed.refreshToken } }
  const { body: newest } = await guide.ask('refreshToken', 200, next, () => 'the next pair')
  await guide.ask('refreshToken', 401, request, (answer) => `reused: ${problemOf(answer)}; the session ends`)
  await guide.ask('getCurrentUser', 401, { token: newest.access_token }, problemOf)
}

const signOut = async (guide: Guide, { token, refreshToken }: Session): Promise<void> => {
  await guide.ask('logout', 204, { token }, () => 'signed out')
  await guide.ask('getCurrentUser', 401, { token }, problemOf)
  await guide.ask('refreshToken', 401, { body: { refresh_token: refreshToken } }, problemOf)
}

/** Everything between registering and tidying up. */
const work = async (guide: Guide, account: Account, colleague: Account): Promise<void> => {
  const laptop = await signIn(guide, account)
  await lookAround(guide, account, laptop)

  guide.title('Two tags and three tasks')
  const list = await fillTheList(guide, laptop)
  guide.title('Filtering: filters are combined with AND, repeated values with OR')
  await filterTheList(guide, laptop, list)
  guide.title('Updating: a patch contains only the fields that change')
  await changeATask(guide, laptop, list)
  guide.title('Attaching and downloading a file')
  await attachAFile(guide, laptop, list)
  guide.title('Concurrent updates: If-Match prevents a lost update')
  const phone = await signIn(guide, account)
  await editAtTheSameTime(guide, laptop, phone, list)
  guide.title('Retrying a creation: the Idempotency-Key prevents a duplicate')
  const cake = await retryACreation(guide, laptop)
  guide.title('Invalid input: the problem points to the error')
  await makeMistakes(guide, laptop)
  guide.title('Pagination: following the Link header, two tasks per page')
  await turnPages(guide, laptop, account, [list.notes, list.train, list.plants, cake])
  guide.title('Sharing a project: members see its tasks, and their roles say what they can change')
  await shareAProject(guide, laptop, colleague, cake)
  guide.title(
    'Working together: what blocks a task, what is said about it, who is told, and what has happened',
  )
  await workTogether(guide, laptop, colleague)
  guide.title('Refreshing tokens: a used refresh token ends the session, unless it is a retry')
  await refresh(guide, phone)
  guide.title('Signing out: the tokens stop working immediately')
  await signOut(guide, laptop)
}

/** Deletes the account with everything it made; says what is left of it. */
const tidyUp = async (guide: Guide, account: Account): Promise<string> => {
  const { token } = await signIn(guide, account)
  const params = { user_id: account.id }
  const { status } = await guide.send('deleteUser', { token, params }, (reply) =>
    reply.status === 204 ? 'deleted with all its data' : problemOf(reply as Answered<Schemas['Problem']>),
  )
  if (status === 409) return emptyLastAdmin(guide, account, token)
  expectSame('the status of the deletion', status, 204)
  await guide.ask('getCurrentUser', 401, { token }, problemOf)
  return "The tour's accounts were deleted."
}

/** The first account of an installation is its administrator, and the last administrator stays. */
const emptyLastAdmin = async (guide: Guide, account: Account, token: string): Promise<string> => {
  const isOwn = (item: { owner_id: string }) => item.owner_id === account.id
  const params = { user_id: account.id }
  const { body: tasks } = await guide.ask('listUserTasks', 200, { token, params }, titles)
  for (const { id, title } of tasks.items.filter(isOwn))
    await guide.ask(
      'deleteTask',
      204,
      { token, params: { task_id: id } },
      () => `"${title}" moved to the trash`,
    )
  const { body: trash } = await guide.ask('listTrash', 200, { token }, titles)
  for (const { id, title } of trash.items.filter(isOwn))
    await guide.ask(
      'deleteTrashedTask',
      204,
      { token, params: { task_id: id } },
      () => `"${title}" deleted permanently`,
    )
  const { body: tags } = await guide.ask('listTags', 200, { token }, ({ body }) =>
    body.items.map(({ name }) => name).join(', '),
  )
  for (const { id, name } of tags.items.filter(isOwn))
    await guide.ask('deleteTag', 204, { token, params: { tag_id: id } }, () => `${name} deleted`)
  return [
    "The tour's first account is the only administrator of this installation and cannot be deleted.",
    `It remains, without tasks and tags: ${account.email}, password ${account.password}`,
  ].join('\n')
}

/** Runs the tour; its account is tidied up after a difference too. Answers with what is to be said at the end. */
const runTour = async (url: string): Promise<string> => {
  const guide = createGuide(url)
  console.log(`Taskwright at ${url} (showing the last four characters of ids)`)
  guide.title('Registering two accounts')
  const account = await register(guide)
  const colleague = await register(guide)
  const difference = await work(guide, account, colleague).then(
    () => null,
    (error: unknown) => ({ error }),
  )
  guide.title('Cleaning up')
  const farewell = await tidyUp(guide, colleague)
    .then(() => tidyUp(guide, account))
    .catch((error: unknown) => {
      throw difference === null ? error : difference.error
    })
  console.log(`\n${farewell}`)
  if (difference !== null) throw difference.error
  return `${guide.count()} requests; all responses match openapi.yaml.`
}

/** The address to go to, without a slash at its end. */
const readUrl = (text: string): string => {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol)) return url.href.replace(/\/+$/, '')
  throw new Difference(`${text} is not an http:// or https:// URL`)
}

/** Asked before anything else, so that the most likely trouble has a message of its own. */
const expectReady = async (url: string): Promise<void> => {
  const signal = AbortSignal.timeout(10_000)
  const response = await fetch(`${url}/health/ready`, { signal }).catch((error: unknown) => {
    throw new Difference(`No service is running at ${url} (${reasonOf(error)}). Start one with: npm start`)
  })
  if (response.ok) return
  throw new Difference(
    `${url}/health/ready returned ${response.status}: it is not Taskwright, or it is not ready`,
  )
}

/** What the network said, which fetch hides in the cause of its error. */
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
