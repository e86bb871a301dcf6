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
} from '../client/client.ts'

/**
 * A working session against a running service, which prints each request. Every response is checked against openapi.yaml and
 * against the values that a user expects. The first mismatch ends the tour with exit code 1.
 *
 *     node scripts/check/tour.ts [url]
 */

type Schemas = components['schemas']

/** A request body. In the generated type, fields with defaults are required. */
type NewTask = Pick<Schemas['TaskCreate'], 'title'> & Partial<Schemas['TaskCreate']>

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

/** Printed after a request: a text, or the names of fields of the response. By default, the problem in the response. */
type Note<Body> = string | readonly string[] | ((reply: TypedReply<Body>) => string)

/** Sends the requests of a user, and prints each with a note about its response. */
interface Caller {
  /** Calls an operation, and expects a status. */
  expect<Id extends OperationId, Status extends number>(
    operation: Id,
    status: Status,
    request: Call,
    note?: Note<BodyAt<Id, Status>>,
  ): Promise<TypedReply<BodyAt<Id, Status>>>
}

interface Session extends Caller {
  readonly token: string
  readonly refreshToken: string
}

/** Calls operations without a token. */
interface Tour extends Caller {
  /** Starts a section. */
  heading(text: string): void
  /** The notes of the caller begin with a name. */
  as(token: string, name?: string): Caller
  /** Calls an operation that may return a problem. */
  call(operation: OperationId, request: Call): Promise<Reply>
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
  const as = (token?: string, name = ''): Caller => ({
    async expect(operation, status, request, note) {
      const reply = await patiently(() => client.expect(operation, status, { token, ...request }))
      print(status, `${name}${textOf(note, reply)}`)
      return reply
    },
  })
  return {
    ...as(),
    as,
    heading: (text) => console.log(`\n${text}`),
    count: () => exchanges,
    async call(operation, request) {
      const reply = await patiently(() => client.call(operation, request))
      print(reply.status, textOf(undefined, reply))
      return reply
    },
  }
}

const textOf = <Body>(note: Note<Body> | undefined, reply: TypedReply<Body>): string => {
  if (typeof note === 'string') return note
  if (typeof note === 'function') return note(reply)
  const { body } = reply
  if (note === undefined) return isProblem(body) ? problemText(body) : ''
  return typeof body === 'object' && body !== null ? fields(body, ...note) : ''
}

/** Shortens ids to their last four characters. */
const shorten = (text: string): string =>
  text.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{8}([0-9a-f]{4})/g, '…$1')

const expectSame = (name: string, actual: unknown, expected: unknown): void => {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Error(`${name} is ${inspect(actual)}, not ${inspect(expected)}`)
}

const fields = (record: object, ...names: string[]): string =>
  Object.entries(record)
    .filter(([name]) => names.includes(name))
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(', ')

const etagOf = ({ headers }: { readonly headers: Headers }): string => headers.get('etag') ?? ''

const isProblem = (body: unknown): body is Schemas['Problem'] =>
  typeof body === 'object' && body !== null && 'code' in body && 'title' in body && 'status' in body

const problemText = ({ code, errors = [] }: Schemas['Problem']): string =>
  [code, ...errors.map(({ pointer, detail }) => `${pointer} ${detail}`)].join(': ')

const idsOf = (items: readonly { readonly id: string }[]): string[] => items.map(({ id }) => id)

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

const signIn = async (tour: Tour, { email, password }: Account, name?: string): Promise<Session> => {
  const { body: tokens } = await tour.expect(
    'login',
    200,
    { body: { email, password } },
    ({ body: { expires_in, refresh_expires_in } }) =>
      `access token for ${expires_in / 60} min, refresh token for ${refresh_expires_in / 86_400} days`,
  )
  const { access_token: token, refresh_token: refreshToken } = tokens
  return { token, refreshToken, ...tour.as(token, name) }
}

const readProfile = async (tour: Tour, account: Account, session: Session): Promise<void> => {
  await tour.expect('getCurrentUser', 401, {})
  const me = await session.expect('getCurrentUser', 200, {}, (reply) => `ETag ${etagOf(reply)}`)
  expectSame('the signed-in user', me.body.id, account.id)
  await session.expect('getCurrentUser', 304, { headers: { 'if-none-match': etagOf(me) } }, 'not modified')
}

const createTag = async (session: Session, tag: Schemas['TagCreate']): Promise<Schemas['Tag']> => {
  const { body } = await session.expect('createTag', 201, { body: tag }, ['name', 'color'])
  expectSame('the tag', { name: body.name, color: body.color }, tag)
  return body
}

const createTask = async (session: Session, task: NewTask): Promise<Schemas['Task']> => {
  const reply = await session.expect('createTask', 201, { body: task }, ['title', 'due_at'])
  const { tag_ids: tagIds = [], ...written } = task
  expectSame('the new task', reply.body, { ...reply.body, ...written })
  expectSame('its tags', idsOf(reply.body.tags).toSorted(), tagIds.toSorted())
  const location = reply.headers.get('location') ?? ''
  expectSame('whether Location is its URL', location.endsWith(`/tasks/${reply.body.id}`), true)
  return reply.body
}

const createTasks = async (session: Session) => {
  const release = await createTag(session, { name: 'release', color: '#d92d20' })
  const home = await createTag(session, { name: 'home', color: null })
  const notes = await createTask(session, {
    title: 'Write the release notes',
    priority: 'high',
    start_at: '2027-01-04T09:00:00.000Z',
    due_at: '2027-01-08T17:00:00.000Z',
    tag_ids: [release.id],
  })
  const train = await createTask(session, { title: 'Book the train', due_at: '2027-01-05T12:00:00.000Z' })
  const plants = await createTask(session, { title: 'Water the plants', tag_ids: [home.id] })
  const params = { task_id: train.id, tag_id: home.id }
  await session.expect('addTaskTag', 204, { params }, `"${train.title}" is tagged ${home.name}`)
  return { release, home, notes, train, plants }
}

type CreatedTasks = Awaited<ReturnType<typeof createTasks>>

const titles = ({ body }: TypedReply<Schemas['TaskList']>): string =>
  body.items.map(({ title }) => `"${title}"`).join(', ') || 'none'

const filterTasks = async (session: Session, { home, release, notes, train, plants }: CreatedTasks) => {
  const find = async (query: NonNullable<Call['query']>, expected: readonly Schemas['Task'][]) => {
    const { body } = await session.expect('listTasks', 200, { query }, titles)
    expectSame('the list', idsOf(body.items), idsOf(expected))
    return body
  }
  const counted = await find({ tag_id: home.id, include_total: true }, [plants, train])
  expectSame('the total', counted.total, 2)
  await find({ tag_id: [home.id, release.id], q: 'THE RELEASE' }, [notes])
  await find({ tag_id: release.id, priority: ['high', 'urgent'] }, [notes])
  await find({ tag_id: release.id, status: 'done' }, [])
}

const attachFile = async (session: Session, { notes }: CreatedTasks): Promise<void> => {
  const bytes = await readFile(new URL('../../openapi.yaml', import.meta.url))
  const digest = sha256(bytes)
  const creation = {
    params: { task_id: notes.id },
    body: fileForm(bytes, 'openapi.yaml', 'application/yaml'),
  }
  const shown = ['file_name', 'size', 'sha256']
  const { body: attachment } = await session.expect('addTaskAttachment', 201, creation, shown)
  expectSame('the size', attachment.size, bytes.length)
  expectSame('the SHA-256', attachment.sha256, digest)

  const params = { attach_id: attachment.id }
  const whole = await session.expect('downloadAttachment', 200, { params }, 'the whole file')
  expectSame('the SHA-256 of the download', sha256(bytesOf(whole.body)), digest)
  const range = { params, headers: { range: 'bytes=0-13' } }
  const part = await session.expect('downloadAttachment', 206, range, ({ body }) =>
    Buffer.from(bytesOf(body)).toString(),
  )
  expectSame('the range', Buffer.from(bytesOf(part.body)), bytes.subarray(0, 14))
}

/** In the generated types, binary content is a string. */
const bytesOf = (body: unknown): Uint8Array => {
  if (body instanceof Uint8Array) return body
  throw new Error('the download is not binary')
}

const editConcurrently = async (laptop: Session, phone: Session, { notes }: CreatedTasks) => {
  const params = { task_id: notes.id }
  const describe = (reply: TypedReply<Schemas['Task']>) =>
    `ETag ${etagOf(reply)}, ${fields(reply.body, 'status', 'priority')}`
  const read = (session: Session) => session.expect('getTask', 200, { params }, describe)
  const onLaptop = await read(laptop)
  const onPhone = await read(phone)
  expectSame('the ETag on the phone', etagOf(onPhone), etagOf(onLaptop))

  const change = (body: Schemas['TaskPatch'], current: TypedReply<unknown>): Call => ({
    params,
    body,
    headers: { 'if-match': etagOf(current) },
  })
  await laptop.expect('updateTask', 200, change({ status: 'in_progress' }, onLaptop), describe)
  const rejected = await phone.expect('updateTask', 412, change({ priority: 'urgent' }, onPhone))
  expectSame('the code', rejected.body.code, 'precondition_failed')
  const reread = await read(phone)
  expectSame('the status that the laptop set', reread.body.status, 'in_progress')
  expectSame('the priority after the rejected change', reread.body.priority, 'high')
  const resolved = await phone.expect('updateTask', 200, change({ priority: 'urgent' }, reread), describe)
  expectSame('the status after both changes', resolved.body.status, 'in_progress')
  expectSame('the priority after both changes', resolved.body.priority, 'urgent')
}

const retryCreation = async (session: Session): Promise<void> => {
  const headers = { 'idempotency-key': randomUUID() }
  const send = (note: string) =>
    session.expect(
      'createTask',
      201,
      { headers, body: { title: 'Order a cake' } },
      (reply) =>
        `${note} …${reply.body.id.slice(-4)}, Idempotency-Replayed: ${reply.headers.get('idempotency-replayed')}`,
    )
  const first = await send('created')
  const second = await send('same response:')
  expectSame('the replayed response', second.body, first.body)
  expectSame('Idempotency-Replayed', second.headers.get('idempotency-replayed'), 'true')
  const other = await session.expect('createTask', 422, { headers, body: { title: 'Order two cakes' } })
  expectSame('the code', other.body.code, 'idempotency_key_reused')
}

const createProject = async (manager: Session, name: string): Promise<Schemas['Project']> => {
  const shown = ['name', 'role', 'member_count']
  const { body: project } = await manager.expect('createProject', 201, { body: { name } }, shown)
  expectSame('the role of its creator', project.role, 'manager')
  return project
}

/** Deletes a project, which also hides a task in it. */
const deleteProject = async (
  manager: Session,
  { id, name }: Schemas['Project'],
  task: Schemas['Task'],
): Promise<void> => {
  const params = { project_id: id }
  await manager.expect('deleteProject', 204, { params }, `${name} moved to the trash`)
  await manager.expect('getTask', 404, { params: { task_id: task.id } })
  await manager.expect('deleteTrashedProject', 204, { params }, `${name} deleted permanently`)
}

const shareProject = async (
  manager: Session,
  colleague: Session,
  { id: user_id }: Account,
): Promise<void> => {
  const project = await createProject(manager, 'Offsite')
  const params = { project_id: project.id }
  const plan = await createTask(manager, { title: 'Plan the offsite', ...params })
  const planned = { params: { task_id: plan.id } }
  await colleague.expect('getTask', 404, planned)

  const addAs = (role: Schemas['ProjectRole'], status: 200 | 201) =>
    manager.expect('setProjectMember', status, { params: { ...params, user_id }, body: { role } }, [
      'user_id',
      'role',
    ])
  const started = { ...planned, body: { status: 'in_progress' } }
  await addAs('viewer', 201)
  await colleague.expect('getTask', 200, planned, ['title'])
  await colleague.expect('updateTask', 403, started)
  await addAs('editor', 200)
  await colleague.expect('updateTask', 200, started, ['status'])

  const { body } = await colleague.expect('listProjectTasks', 200, { params }, titles)
  expectSame('the tasks of the project', idsOf(body.items), [plan.id])
  await colleague.expect('removeProjectMember', 204, { params: { ...params, user_id: 'me' } }, 'left')
  await colleague.expect('getProject', 404, { params })
  await deleteProject(manager, project, plan)
}

/** Waits for the notification of a comment, which is created about a second later. */
const notificationOf = async (session: Session, commentId: string): Promise<Schemas['Notification']> => {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const { body } = await session.expect(
      'listNotifications',
      200,
      { query: { unread: true } },
      ({ body: { items } }) => items.map(({ reason }) => reason).join(', ') || 'nothing yet',
    )
    const found = body.items.find(({ subject }) => subject.id === commentId)
    if (found !== undefined) return found
    await pause(500)
  }
  throw new Error('There was no notification of the comment after 10 seconds')
}

/** Dependencies, comments, notifications and the history of tasks in a shared project. */
const collaborate = async (
  manager: Session,
  colleague: Session,
  { id: user_id, username }: Account,
): Promise<void> => {
  const project = await createProject(manager, 'Move')
  const projectPath = { project_id: project.id }
  const membership = { params: { ...projectPath, user_id }, body: { role: 'commenter' } }
  await manager.expect('setProjectMember', 201, membership, ['user_id', 'role'])
  const keys = await createTask(manager, { title: 'Fetch the keys', ...projectPath })
  const boxes = await createTask(manager, { title: 'Carry the boxes', ...projectPath })
  const params = { task_id: boxes.id }
  const relation = { ...params, kind: 'blocked_by', other_task_id: keys.id }
  await manager.expect('addTaskRelation', 204, { params: relation }, `blocked by "${keys.title}"`)
  const expectBlocked = async (expected: boolean) => {
    const { body } = await manager.expect('getTask', 200, { params }, ['is_blocked'])
    expectSame('is_blocked', body.is_blocked, expected)
  }
  await expectBlocked(true)
  const asking = { params, body: { body: `@${username}, please ask for the keys.` } }
  const { body: question } = await manager.expect('createComment', 201, asking, ['mentions'])
  expectSame('the mentions', question.mentions, [user_id])
  await colleague.expect('createComment', 201, { params, body: { body: 'They are here.' } }, ['body'])
  const { id: notification_id } = await notificationOf(colleague, question.id)
  const mark = { params: { notification_id }, body: { is_read: true } }
  await colleague.expect('updateNotification', 200, mark, ['reason', 'read_at'])
  const closing = { params: { task_id: keys.id }, body: { status: 'done' } }
  await manager.expect('updateTask', 200, closing, ['title', 'status'])
  await expectBlocked(false)
  const types = ({ body }: TypedReply<{ readonly items: readonly Schemas['Event'][] }>): string =>
    body.items.map(({ type }) => type).join(', ')
  const history = await colleague.expect('listTaskEvents', 200, { params }, types)
  expectSame(
    'the authors of comments, newest first',
    history.body.items.filter(({ type }) => type === 'comment.created').map(({ actor_id }) => actor_id),
    [user_id, question.author_id],
  )
  const activity = { query: { project_id: [project.id], type: ['task.*'] } }
  await colleague.expect('listEvents', 200, activity, types)
  await deleteProject(manager, project, boxes)
}

const recur = async (session: Session): Promise<void> => {
  const recurrence = { rule: 'FREQ=MONTHLY', time_zone: 'Europe/Berlin' }
  const preview = { body: { ...recurrence, on: '2027-01-31', limit: 3 } }
  const { body } = await session.expect('previewRecurrence', 200, preview, 'the last days of months')
  const days = body.occurrences.map(({ on }) => on)
  expectSame('the last days of months', days, ['2027-01-31', '2027-02-28', '2027-03-31'])
  const task = { title: 'Pay the rent', due_at: '2090-03-01T08:00:00.000Z', recurrence }
  const created = await session.expect('createTask', 201, { body: task }, ['due_at', 'occurrence'])
  const closing = { params: { task_id: created.body.id }, body: { status: 'done' } }
  const closed = await session.expect('updateTask', 200, closing, ['status', 'occurrence'])
  const params = { task_id: closed.body.occurrence?.next_task_id ?? '' }
  const shown = ['status', 'due_at', 'occurrence']
  const next = await session.expect('getTask', 200, { params }, shown)
  // Daylight saving time began in between.
  expectSame('the next due date', next.body.due_at, '2090-04-01T07:00:00.000Z')
}

const importTable = async (session: Session): Promise<void> => {
  const table = fileForm('title,due\nWater the plants,2090-05-01\n,2090-05-02\n', 'tasks.csv')
  const { body: uploaded } = await session.expect('createImport', 201, { body: table }, ['status'])
  const params = { import_id: uploaded.id }
  const settled = async (shown: string): Promise<Schemas['Import']> => {
    for (;;) {
      const { body } = await session.expect('getImport', 200, { params }, ['status', shown])
      if (body.poll_after_seconds === null) return body
      await pause(body.poll_after_seconds * 1_000)
    }
  }
  const { preview, version } = await settled('preview')
  expectSame('the tasks and what is refused', [preview?.tasks, preview?.refused], [1, 1])
  await session.expect('runImport', 200, { params, body: { version } }, ['status'])
  expectSame('what was created', (await settled('result')).result?.created, 1)
  await session.expect('undoImport', 200, { params }, ['status'])
  expectSame('what was undone', (await settled('result')).result?.undone, 1)
  await session.expect('deleteImport', 204, { params }, 'import deleted')
}

const exportAll = async (session: Session): Promise<void> => {
  let { body: present } = await session.expect('createExport', 201, { body: {} }, ['status'])
  const params = { export_id: present.id }
  while (present.poll_after_seconds !== null) {
    await pause(present.poll_after_seconds * 1_000)
    present = (await session.expect('getExport', 200, { params }, ['status', 'size'])).body
  }
  const { body } = await session.expect('downloadExport', 200, { params }, 'the archive')
  expectSame('the SHA-256 of the archive', sha256(bytesOf(body)), present.sha256)
  await session.expect('deleteExport', 204, { params }, 'export deleted')
}

const signOut = async (tour: Tour, session: Session): Promise<void> => {
  await session.expect('logout', 204, {}, 'signed out')
  await session.expect('getCurrentUser', 401, {})
  await tour.expect('refreshToken', 401, { body: { refresh_token: session.refreshToken } })
}

/** All sections between registration and cleanup. */
const runSections = async (tour: Tour, account: Account, colleague: Account): Promise<void> => {
  const laptop = await signIn(tour, account)
  await readProfile(tour, account, laptop)

  tour.heading('Creating two tags and three tasks')
  const list = await createTasks(laptop)
  tour.heading('Filtering: filters are combined with AND, repeated values with OR')
  await filterTasks(laptop, list)
  tour.heading('Attaching and downloading a file')
  await attachFile(laptop, list)
  tour.heading('Concurrent updates: If-Match prevents a lost update')
  const phone = await signIn(tour, account, 'phone: ')
  await editConcurrently(laptop, phone, list)
  tour.heading('Retrying a creation: the Idempotency-Key prevents a duplicate')
  await retryCreation(laptop)
  tour.heading('Sharing a project: members see its tasks, and their roles determine what they can change')
  const member = await signIn(tour, colleague, 'colleague: ')
  await shareProject(laptop, member, colleague)
  tour.heading('Collaborating: dependencies, comments, notifications and history')
  await collaborate(laptop, member, colleague)
  tour.heading('Recurring tasks: closing one creates the next, at the same time of day')
  await recur(laptop)
  tour.heading('Importing a table: it is looked at before it is run, and can be undone')
  await importTable(laptop)
  tour.heading('Exporting everything: an archive, made in the background')
  await exportAll(laptop)
  tour.heading('Signing out: the tokens stop working immediately')
  await signOut(tour, laptop)
}

/** Deletes the account with all its data. Resolves to a note about what remains. */
const cleanUp = async (tour: Tour, account: Account): Promise<string> => {
  const session = await signIn(tour, account)
  const deletion = { token: session.token, params: { user_id: account.id } }
  const { status } = await tour.call('deleteUser', deletion)
  if (status === 409) return clearLastAdmin(account, session)
  expectSame('the status of the deletion', status, 204)
  await session.expect('getCurrentUser', 401, {})
  return "The tour's accounts were deleted."
}

/** Deletes the data of the account. The first account is an administrator, and the last administrator cannot be deleted. */
const clearLastAdmin = async (account: Account, session: Session): Promise<string> => {
  const isOwn = (item: { owner_id: string }) => item.owner_id === account.id
  const params = { user_id: account.id }
  const { body: tasks } = await session.expect('listUserTasks', 200, { params }, titles)
  for (const { id, title } of tasks.items.filter(isOwn))
    await session.expect('deleteTask', 204, { params: { task_id: id } }, `"${title}" moved to the trash`)
  const { body: trash } = await session.expect('listTrashedTasks', 200, {}, titles)
  for (const { id, title } of trash.items.filter(isOwn))
    await session.expect('deleteTrashedTask', 204, { params: { task_id: id } }, `"${title}" deleted`)
  const { body: tags } = await session.expect('listTags', 200, {}, ({ body }) =>
    body.items.map(({ name }) => name).join(', '),
  )
  for (const { id, name } of tags.items.filter(isOwn))
    await session.expect('deleteTag', 204, { params: { tag_id: id } }, `${name} deleted`)
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
  throw new Error(`${text} is not an http:// or https:// URL`)
}

/** The most likely error, no running service, gets a clear message. */
const expectReady = async (url: string): Promise<void> => {
  const signal = AbortSignal.timeout(10_000)
  const response = await fetch(`${url}/health/ready`, { signal }).catch((error: unknown) => {
    throw new Error(`No service is running at ${url} (${reasonOf(error)}). Start one with: npm start`)
  })
  if (response.ok) return
  throw new Error(`${url}/health/ready returned ${response.status}: it is not Taskwright, or it is not ready`)
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
