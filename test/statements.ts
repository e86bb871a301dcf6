import t from 'tap'
import type { OperationId } from '../src/contract/contract.ts'
import type { Database } from '../src/db/engine/client.ts'
import { blackPng } from './fixture/images.ts'
import { rowsRead } from './fixture/plan.ts'
import { operations } from './fixture/requests.ts'
import { authenticator, secondFactorActions } from './fixture/second-factor.ts'
import { type Account, type Call, fileForm, type Reply, startService } from './fixture/service.ts'
import { taskActions } from './fixture/tasks.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from './fixture/uploads.ts'

/**
 * What a request asks of the database: how many statements, and of a read how many rows it looks at, beside thousands
 * that are other people's. An operation of the contract without a row below fails.
 */

interface Run {
  readonly text: string
  readonly values: readonly unknown[]
}

const runs: Run[] = []

const recording = (db: Database): Database => ({
  ...db,
  run(text, values, manner) {
    runs.push({ text, values })
    return db.run(text, values, manner)
  },
})

const service = await startService(t, { aroundDatabase: recording })
const { db } = service.deps
const { createTask, createTag, attachFile } = taskActions(service)
const { registerGuarded, challengeOf } = secondFactorActions(service)

/** What does not take one statement, or as a write at most two, and why. */
const exceptions: Partial<Record<OperationId, readonly [statements: number, because: string]>> = {
  completeLogin: [3, 'the secret is needed to check the code, and the attempt is counted before'],
  undoEmailChange: [3, 'a token for a new password is stored when no session can void it any more'],
  confirmSecondFactor: [3, 'the secret is needed to check the code, and the attempt is counted before'],
  disableSecondFactor: [4, 'password and code are checked here, each with its attempts'],
  listUserApiTokens: [2, 'an empty list does not tell whether there is such a user'],
  listUserTasks: [2, 'an empty list does not tell whether there is such a user'],
  listTaskAttachments: [2, 'an empty list does not tell whether there is such a task'],
  getThumbnail: [2, 'it is made when it is first asked for'],
  getUploadOptions: [0, 'it says what this version of the service can'],
  appendUpload: [
    4,
    'a lease is taken, bytes are counted as they become durable, and the last piece makes an attachment',
  ],
  deleteUser: [9, 'the first batch of each kind of rows that belong to the user is removed with it'],
  getLiveness: [0, 'it is about the process'],
  getContract: [0, 'it is a file'],
  getContractJson: [0, 'it is a file'],
}

let count = 0
const unique = (): string => `n${(count += 1)}`

const admin = await service.register('admin')
const owner = await service.register('owner')
const task = await createTask(owner, { assignee_id: admin.id })
const tag = await createTag(owner, 'a tag')
await service.expect('addTaskTag', 204, { token: owner.token, params: { task_id: task.id, tag_id: tag.id } })

const as = ({ token }: Pick<Account, 'token'>, call: Call = {}): Call => ({ token, ...call })
const ofTask = { params: { task_id: task.id } }
const ofUser = { params: { user_id: owner.id } }

const another = (): Promise<Account> => service.register(unique())

const anotherSession = async () => {
  const { email, password } = owner
  const { body } = await service.expect('login', 200, { body: { email, password } })
  const { body: sessions } = await service.expect('listSessions', 200, { token: body.access_token })
  const session_id = sessions.items.find(({ is_current }) => is_current)?.id ?? ''
  return { token: body.access_token, refresh_token: body.refresh_token, session_id }
}

const apiToken = async (): Promise<string> => {
  const body = { name: unique(), scopes: ['tasks:read'] }
  return (await service.expect('createApiToken', 201, as(owner, { body }))).body.id
}

const attachment = async (): Promise<Call> => ({ params: { attach_id: await attachFile(owner, task.id) } })

const image = async (): Promise<Call> => {
  const body = fileForm(blackPng({ width: 8, height: 8 }))
  const added = await service.expect('addTaskAttachment', 201, as(owner, { ...ofTask, body }))
  return { params: { attach_id: added.body.id } }
}

const upload = async (): Promise<Call> => {
  const { headers } = await service.expect(
    'createUpload',
    201,
    as(owner, { ...ofTask, headers: tusHeaders(5) }),
  )
  return { params: { upload_id: uploadIdIn(headers) }, headers: { 'tus-resumable': '1.0.0' } }
}

const anotherTask = async (): Promise<Call> => ({ params: { task_id: (await createTask(owner)).id } })

const trashedTask = async (): Promise<Call> => {
  const call = await anotherTask()
  await service.expect('deleteTask', 204, as(owner, call))
  return call
}

const anotherTag = async (): Promise<string> => (await createTag(owner, unique())).id

const resetToken = async ({ email }: Account): Promise<string> => {
  await service.expect('forgotPassword', 202, { body: { email } })
  return service.mails.at(-1)?.token ?? ''
}

/** A request to each operation that succeeds; what it needs is there already, or made for it. */
const requests: Readonly<Record<OperationId, () => Call | Promise<Call>>> = {
  register: () => ({
    body: { username: unique(), email: `${unique()}@example.com`, password: 'a password of nobody' },
  }),
  login: () => ({ body: { email: owner.email, password: owner.password } }),
  async completeLogin() {
    const account = await registerGuarded(unique())
    return { body: { challenge: await challengeOf(account), code: account.codeAt() } }
  },
  refreshToken: async () => ({ body: { refresh_token: (await anotherSession()).refresh_token } }),
  logout: async () => as(await anotherSession()),
  reauthenticate: () => as(owner, { body: { password: owner.password } }),
  async undoEmailChange() {
    const account = await another()
    const body = { email: `${unique()}@example.com` }
    await service.expect('updateUser', 200, as(account, { params: { user_id: account.id }, body }))
    return { body: { token: service.emailChanges.at(-1)?.undoToken } }
  },
  getCurrentUser: () => as(owner),

  listSessions: () => as(owner),
  async revokeSession() {
    const { session_id } = await anotherSession()
    return as(owner, { params: { session_id } })
  },

  async changePassword() {
    const account = await another()
    const { password } = account
    return as(account, { body: { current_password: password, new_password: 'another password' } })
  },
  forgotPassword: () => ({ body: { email: owner.email } }),
  resetPassword: async () => ({
    body: { token: await resetToken(await another()), new_password: 'another password' },
  }),
  setUserPassword: async () =>
    as(admin, { params: { user_id: (await another()).id }, body: { password: 'another password' } }),

  listApiTokens: () => as(owner),
  createApiToken: () => as(owner, { body: { name: unique(), scopes: ['tasks:read'] } }),
  revokeApiToken: async () => as(owner, { params: { token_id: await apiToken() } }),
  listUserApiTokens: () => as(admin, ofUser),
  revokeUserApiToken: async () => as(admin, { params: { user_id: owner.id, token_id: await apiToken() } }),

  getSecondFactor: () => as(owner),
  async enrolSecondFactor() {
    const account = await another()
    return as(account, { body: { password: account.password } })
  },
  async confirmSecondFactor() {
    const account = await another()
    const { token, password } = account
    const { body } = await service.expect('enrolSecondFactor', 201, { token, body: { password } })
    return as(account, { body: { code: authenticator(body.secret)() } })
  },
  async disableSecondFactor() {
    const account = await registerGuarded(unique())
    return as(account, { body: { password: account.password, code: account.codeAt() } })
  },

  listAuditEvents: () => as(admin),

  listUsers: () => as(owner),
  createUser: () =>
    as(admin, {
      body: { username: unique(), email: `${unique()}@example.com`, password: 'a password of nobody' },
    }),
  getUser: () => as(owner, ofUser),
  replaceUser: async () => {
    const { id, email } = await another()
    const body = { username: unique(), email, display_name: 'Replaced', role: 'member' }
    return as(admin, { params: { user_id: id }, body })
  },
  updateUser: () => as(owner, { ...ofUser, body: { display_name: 'Changed' } }),
  deleteUser: async () => as(admin, { params: { user_id: (await another()).id } }),
  listUserTasks: () => as(owner, ofUser),

  listTasks: () => as(owner),
  listTaskChanges: () => as(owner),
  createTask: () => as(owner, { body: { title: 'A task', tag_ids: [tag.id] } }),
  batchTasks: () => as(owner, { body: { create: [{ title: 'A task' }] } }),
  getTask: () => as(owner, ofTask),
  replaceTask: () => as(owner, { ...ofTask, body: { title: 'Replaced' } }),
  updateTask: () => as(owner, { ...ofTask, body: { title: 'Changed' } }),
  deleteTask: async () => as(owner, await anotherTask()),

  listTrash: () => as(owner),
  getTrashedTask: async () => as(owner, await trashedTask()),
  restoreTask: async () => as(owner, await trashedTask()),
  deleteTrashedTask: async () => as(owner, await trashedTask()),

  listTaskAttachments: () => as(owner, ofTask),
  addTaskAttachment: () => as(owner, { ...ofTask, body: fileForm('hello') }),
  downloadAttachment: async () => as(owner, await attachment()),
  getThumbnail: async () => as(owner, await image()),
  deleteAttachment: async () => as(owner, await attachment()),

  getUploadOptions: () => ofTask,
  createUpload: () => as(owner, { ...ofTask, headers: tusHeaders(5) }),
  getUploadOffset: async () => as(owner, await upload()),
  async appendUpload() {
    const { params, headers } = await upload()
    return as(owner, {
      ...(params && { params }),
      headers: { ...headers, ...pieceHeaders(0) },
      body: Buffer.from('hello'),
    })
  },
  abortUpload: async () => as(owner, await upload()),

  listTags: () => as(owner),
  createTag: () => as(owner, { body: { name: unique() } }),
  getTag: () => as(owner, { params: { tag_id: tag.id } }),
  deleteTag: async () => as(owner, { params: { tag_id: await anotherTag() } }),

  listTaskTags: () => as(owner, ofTask),
  addTaskTag: async () => as(owner, { params: { task_id: task.id, tag_id: await anotherTag() } }),
  removeTaskTag: () => as(owner, { params: { task_id: task.id, tag_id: tag.id } }),

  getLiveness: () => ({}),
  getReadiness: () => ({}),
  getContract: () => ({}),
  getContractJson: () => ({}),
}

/** How many rows of other people each table gets. */
const others = 1_500

const seed = async (): Promise<void> => {
  const id = (kind: number) => `('0000000${kind}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  const fill = async (table: string, columns: string, values: string): Promise<void> => {
    await db.run(
      `insert into ${table} (${columns}) select ${values} from generate_series(1, ${others}) n`,
      [],
    )
    await db.run(`analyze ${table}`, [], 'once')
  }
  await fill(
    'users',
    'id, username, email, display_name, role, password_hash',
    `${id(1)}, 'other' || n, 'other' || n || '@example.com', 'Other', 'member', ''`,
  )
  await fill(
    'tasks',
    'id, title, description, status, priority, owner_id, deleted_at',
    `${id(2)}, 'Task ' || n, '', 'todo', 'none', ${id(1)}, case when n % 2 = 0 then now() end`,
  )
  await fill('tags', 'id, name, name_folded, owner_id', `${id(3)}, 'tag', 'tag', ${id(1)}`)
  await fill('task_tags', 'task_id, tag_id', `${id(2)}, ${id(3)}`)
  await fill(
    'attachments',
    'id, task_id, file_name, content_type, size, sha256, storage_key',
    `${id(4)}, ${id(2)}, 'notes.txt', 'text/plain', 0, '', 'attachment ' || n`,
  )
  await fill(
    'uploads',
    'id, task_id, user_id, file_name, content_type, upload_metadata, upload_length, storage_key, expires_at',
    `${id(5)}, ${id(2)}, ${id(1)}, 'notes.txt', 'text/plain', '', 1, 'upload ' || n, now() + interval '1 day'`,
  )
  await fill('sessions', 'id, user_id, expires_at', `${id(6)}, ${id(1)}, now() + interval '1 day'`)
  await fill(
    'api_tokens',
    'id, user_id, name, hash, scopes',
    `${id(7)}, ${id(1)}, 'token', sha256(n::text::bytea), '{}'`,
  )
  await fill('audit_events', 'id, action, request_id', `${id(8)}, 'sign_in.succeeded', ''`)
  await fill(
    'thumbnails',
    'attachment_id, width, size, sha256, storage_key',
    `${id(4)}, 256, 0, '', 'thumbnail ' || n`,
  )
  await fill('task_departures', 'task_id, user_id, changed_in', `${id(2)}, ${id(1)}, pg_current_xact_id()`)
  await fill('second_factors', 'user_id, secret', `${id(1)}, ''`)
}

await seed()

/** How many resources an answer shows. */
const shown = ({ body }: Reply): number => {
  const { items = [body] } = (body ?? {}) as { readonly items?: readonly unknown[] }
  return items.length
}

/** The most rows that a read may look at: for each resource that it shows, and besides. */
const [mostForEach, mostBesides] = [10, 100]

const readMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/** What the first request of a session asks besides: whose it is, which is remembered for five seconds. */
const [askWhose] = await (async () => {
  const { email, password } = owner
  const { body } = await service.expect('login', 200, { body: { email, password } })
  runs.length = 0
  await service.expect('getCurrentUser', 200, { token: body.access_token })
  return [...runs]
})()

/** What a request that succeeds asks of the database, whether or not it is known whose it is. */
const statementsOf = async (id: OperationId, call: Call): Promise<{ statements: Run[]; reply: Reply }> => {
  runs.length = 0
  const reply = await service.call(id, call)
  if (reply.status >= 300) throw new Error(`${id}: ${JSON.stringify(reply.body)}`)
  return { statements: runs.filter(({ text }) => text !== askWhose?.text), reply }
}

for (const { id, method } of operations) {
  t.test(id, async (t) => {
    const { statements, reply } = await statementsOf(id, await requests[id]())
    const texts = statements.map(({ text }) => text)
    const isRead = readMethods.has(method)
    const [expected, because = ''] = exceptions[id] ?? []
    if (expected !== undefined) t.equal(texts.length, expected, because, { texts })
    else if (isRead) t.equal(texts.length, 1, 'one statement', { texts })
    else t.ok(texts.length <= 2, 'one statement or two', { texts })
    if (!isRead) return
    for (const statement of statements) {
      const rows = await rowsRead(db, statement, () => true)
      t.ok(rows <= mostForEach * shown(reply) + mostBesides, `${rows} rows`, { text: statement.text })
    }
  })
}

t.test(
  'a request with an Idempotency-Key takes one statement more, and one that repeats it one',
  async (t) => {
    const call = as(owner, { body: { title: 'Once' }, headers: { 'idempotency-key': 'once' } })
    for (const expected of [2, 1]) {
      const { statements } = await statementsOf('createTask', call)
      t.equal(statements.length, expected)
    }
  },
)

t.test('the first request of a session takes one statement more', async (t) => {
  const { email, password } = owner
  const { body } = await service.expect('login', 200, { body: { email, password } })
  runs.length = 0
  await service.expect('getTask', 200, { token: body.access_token, ...ofTask })
  t.equal(runs.length, 2)
})
