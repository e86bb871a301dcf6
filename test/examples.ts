import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import type { components } from '../generated/openapi.ts'
import { type ContractOperation, loadContract, type OperationId } from '../src/contract/contract.ts'
import { isProblemCode, problemTypes } from '../src/problems/catalogue.ts'
import { type Located, lookUp, member, validate } from '../scripts/client/contract-check.ts'
import { blackPng } from './fixture/images.ts'
import { finishedExport } from './fixture/exports.ts'
import { importCopies, ranImport, smallTable } from './fixture/imports.ts'
import { codeOf } from './fixture/issuer.ts'
import { notificationOf } from './fixture/notifications.ts'
import { authenticator, secondFactorActions } from './fixture/second-factor.ts'
import { type Call, fileForm, type Reply, startService } from './fixture/service.ts'

/**
 * The examples of openapi.yaml are true: each matches its schema, and the requests made of them succeed, in the order of the
 * contract.
 */

const service = await startService(t)
const { forgetLastCode, challengeOf } = secondFactorActions(service)
type Schemas = components['schemas']
type Operation = ContractOperation & { readonly id: OperationId }

// The types are generated from this contract, so its ids are operation ids.
const operations = [...loadContract().operations.values()] as readonly Operation[]

/** The path parameter that the id in the response supplies for later operations; of a list, the id of its last item. */
const suppliedIds: Partial<Record<OperationId, string>> = {
  listSessions: 'session_id',
  createApiToken: 'token_id',
  createUser: 'user_id',
  createTask: 'task_id',
  createComment: 'comment_id',
  createReminder: 'reminder_id',
  linkIdentity: 'identity_id',
  addTaskAttachment: 'attach_id',
  createUpload: 'upload_id',
  createTag: 'tag_id',
  createProject: 'project_id',
  createInvitation: 'invitation_id',
  createTeam: 'team_id',
  createSection: 'section_id',
  createWebhook: 'webhook_id',
  createFeed: 'feed_id',
}

/** Operations whose responses have values for later requests. Other responses have fields with the same names. */
const valueSources: ReadonlySet<OperationId> = new Set([
  'login',
  'completeLogin',
  'refreshToken',
  'enrollSecondFactor',
  'confirmSecondFactor',
  'createAttachmentLink',
  'createExportLink',
  'createSection',
  'rotateFeedToken',
])

/** Values from these responses. */
type KnownValues = Partial<
  Schemas['AuthTokens'] &
    Schemas['SecondFactorSecret'] &
    Schemas['RecoveryCodeSet'] &
    Schemas['AttachmentLink'] &
    Pick<Schemas['FeedWithUrl'], 'calendar_url'> &
    Pick<Schemas['Section'], 'project_id'>
>

/** An unused code of the authenticator. */
const freshCode = async ({ secret = '', user }: KnownValues): Promise<string> => {
  if (user !== undefined) await forgetLastCode(user)
  return authenticator(secret)()
}

/** The credentials in the contract's first example of login, which has an email address. */
const credentials = () =>
  operations.filter(({ id }) => id === 'login').flatMap(bodiesOf)[0]?.value as Required<Schemas['Login']>

type Fields = Readonly<Record<string, unknown>>

/** Creates an invitation. Resolves to its token. */
const newInvitation = async (): Promise<string> => {
  const { token } = await service.register(`inviter-${service.invitations.length}`)
  const { body: project } = await service.expect('createProject', 201, { token, body: { name: 'A project' } })
  const body = { email: 'invited@example.com', role: 'editor' }
  await service.expect('createInvitation', 201, { token, params: { project_id: project.id }, body })
  return service.invitations.at(-1)?.token ?? ''
}

type LiveFields = Partial<
  Record<OperationId, (known: KnownValues, example: Fields) => object | Promise<object>>
>

/** Ids of other resources. The first example of an operation has none, so that everybody can send it as it is. */
const references: LiveFields = {
  async moveTask({ access_token: token }, { after }) {
    if (after === undefined) return { section_id: null }
    const { body } = await service.expect('createTask', 201, { token, body: { title: 'Another task' } })
    return { after: body.id }
  },
  async updateSection({ access_token: token, project_id = '' }, { before }) {
    if (before === undefined) return {}
    const request = { token, params: { project_id }, body: { name: 'Another section' } }
    return { before: (await service.expect('createSection', 201, request)).body.id }
  },
  async updateImport({ access_token: token }, { project_id }) {
    if (project_id === undefined) return {}
    const { body } = await service.expect('createProject', 201, { token, body: { name: 'A project' } })
    return { project_id: body.id }
  },
  async createWebhook({ access_token: token }) {
    const { body } = await service.expect('createProject', 201, { token, body: { name: 'A project' } })
    return { project_id: body.id }
  },
}

/** Fields that cannot be literal, because the service or an authenticator generates their values. */
const live: LiveFields = {
  register: async (_known, { invitation_token }) =>
    invitation_token === undefined ? {} : { invitation_token: await newInvitation() },
  refreshToken: ({ refresh_token }) => ({ refresh_token }),
  lookUpInvitation: async () => ({ token: await newInvitation() }),
  acceptInvitation: async () => ({ token: await newInvitation() }),
  exchangeOidcCode: () =>
    codeOf(service, 'sign_in', { sub: 'example', email: 'example@example.com', email_verified: true }),
  async logoutOidc(known) {
    // logout has ended the session.
    known.access_token = (await service.register('signing-out')).token
    return {}
  },
  linkIdentity: () => codeOf(service, 'link', { sub: 'linked' }),
  resetPassword: () => ({ token: service.mails.at(-1)?.token }),
  confirmSecondFactor: async (known) => ({ code: await freshCode(known) }),
  completeLogin: async (known, { code }) => ({
    challenge: await challengeOf(credentials()),
    code: /^\d+$/.test(String(code)) ? await freshCode(known) : known.recovery_codes?.[0],
  }),
  async reauthenticate(known, { code, oidc }) {
    if (oidc !== undefined) return { oidc: await codeOf(service, 'reauthenticate', { sub: 'linked' }) }
    return code === undefined ? {} : { code: await freshCode(known) }
  },
  async undoEmailChange() {
    const { id, token } = await service.register('moved')
    const change = { params: { user_id: id }, body: { email: 'moved-by-another@example.com' } }
    await service.expect('updateUser', 200, { token, ...change })
    return { token: service.emailChanges.at(-1)?.undoToken }
  },
  disableSecondFactor: async (known) => ({ code: await freshCode(known) }),
}

/** The path of an existing relation between two new tasks. */
const newRelation = async ({ access_token: token }: KnownValues) => {
  const create = () => service.expect('createTask', 201, { token, body: { title: 'A task' } })
  const [{ body: task }, { body: other }] = [await create(), await create()]
  const params = { task_id: task.id, kind: 'blocks', other_task_id: other.id }
  await service.expect('addTaskRelation', 204, { token, params })
  return params
}

let assigners = 0

/** The path of a notification of an assignment. */
const newNotification = async ({ access_token = '', user }: KnownValues) => {
  const { token } = await service.register(`assigner-${(assigners += 1)}`)
  const body = { title: 'A task', assignee_id: user?.id }
  const { body: task } = await service.expect('createTask', 201, { token, body })
  return { notification_id: (await notificationOf(service, { token: access_token }, task.id)).id }
}

/** The path of a finished export. */
const newExport = async ({ access_token = '', user }: KnownValues) => {
  const { id } = await finishedExport(service, { token: access_token, id: user?.id ?? '' })
  return { export_id: id }
}

const copyImport = importCopies(service)

/** The path of an import that is ready. */
const newImport = async ({ access_token: token = '', user }: KnownValues) => ({
  import_id: (await copyImport({ token, id: user?.id ?? '' })).id,
})

/** The path of an import that has run. */
const newRanImport = async ({ access_token: token = '' }: KnownValues) => ({
  import_id: (await ranImport(service, { token }, smallTable)).id,
})

/** The path of an enabled webhook, with a URL that refuses connections. */
const newWebhook = async ({ access_token: token }: KnownValues) => {
  const body = { url: 'http://127.0.0.1:9/', event_types: ['project.restored'] }
  return { webhook_id: (await service.expect('createWebhook', 201, { token, body })).body.id }
}

/** The path of a delivery of such a webhook. */
const newWebhookDelivery = async (known: KnownValues) => {
  const params = await newWebhook(known)
  const { body } = await service.expect('testWebhook', 201, { token: known.access_token, params })
  return { ...params, delivery_id: body.id }
}

/** Operations whose path needs other resources. */
const paths: Partial<Record<OperationId, (known: KnownValues) => Promise<Call['params']>>> = {
  async getThumbnail({ access_token: token }) {
    const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'A picture' } })
    const upload = { params: { task_id: task.id }, body: fileForm(blackPng({ width: 8, height: 8 })) }
    const { body: attachment } = await service.expect('addTaskAttachment', 201, { token, ...upload })
    return { attach_id: attachment.id }
  },
  authorizeOidc: async () => ({ provider: 'mock' }),
  addTaskRelation: newRelation,
  removeTaskRelation: newRelation,
  updateNotification: newNotification,
  getExport: newExport,
  deleteExport: newExport,
  cancelExport: newExport,
  downloadExport: newExport,
  createExportLink: newExport,
  downloadLinkedExport: async ({ url = '' }) => ({ export_id: /exports\/([^/]+)/.exec(url)?.[1] ?? '' }),
  getImport: newImport,
  updateImport: newImport,
  deleteImport: newImport,
  runImport: newImport,
  cancelImport: newImport,
  undoImport: newRanImport,
  listImportRows: newRanImport,
  // The example of updateWebhook disables the webhook.
  testWebhook: newWebhook,
  getWebhookDelivery: newWebhookDelivery,
  redeliverWebhook: newWebhookDelivery,
  async revokeUserApiToken({ access_token: token, user }) {
    const body = { name: 'A program', scopes: ['tasks:read'] }
    const { body: made } = await service.expect('createApiToken', 201, { token, body })
    return { user_id: user?.id ?? '', token_id: made.id }
  },
}

/** Operations whose query cannot be the example. */
const queries: Partial<Record<OperationId, (known: KnownValues) => Required<Pick<Call, 'query'>>>> = {
  downloadLinkedAttachment: ({ url = '' }) => ({ query: new URL(url, service.url).search.slice(1) }),
  downloadLinkedExport: ({ url = '' }) => ({ query: new URL(url, service.url).search.slice(1) }),
  getFeedCalendar: ({ calendar_url: url = '' }) => ({ query: new URL(url, service.url).search.slice(1) }),
}

/** Operations that run first, because others need what they create. */
const first: readonly OperationId[] = ['register', 'login', 'createUser']

/** Operations that run last, because they remove what others need, or need what the contract creates later. */
const last: readonly OperationId[] = [
  'setProjectTeam',
  'getProjectTeam',
  'removeProjectTeam',
  'getTeamMember',
  'removeTeamMember',
  'deleteTeam',
  'getProjectMember',
  'removeProjectMember',
  'deleteAttachment',
  'addTaskTag',
  'removeTaskTag',
  'deleteTag',
  'deleteTask',
  'getTrashedTask',
  'restoreTask',
  'deleteTask',
  'deleteTrashedTask',
  'deleteProject',
  'getTrashedProject',
  'restoreProject',
  'deleteProject',
  'deleteTrashedProject',
  'deleteWebhook',
  'getFeedCalendar',
  'deleteFeed',
  'deleteUser',
  'completeLogin',
  'reauthenticate',
  'unlinkIdentity',
  'disableSecondFactor',
  'changePassword',
  'logout',
  'logoutOidc',
  'forgotPassword',
  'resetPassword',
]

interface Example {
  readonly name: string
  readonly value: unknown
}

const operationNode = ({ id, path, method }: Operation): Located => {
  const node = lookUp(['paths', path, method.toLowerCase()])
  if (node === undefined) throw new Error(`${id} is not in the contract`)
  return node
}

const childrenOf = (parent: Located | undefined, ...names: string[]): (readonly [string, Located])[] => {
  const node = parent && member(parent, ...names)
  return Object.keys(node?.node ?? {}).flatMap((name) => {
    const child = node && member(node, name)
    return child === undefined ? [] : [[name, child] as const]
  })
}

/** The examples of a parameter, a header or a media type, each validated against its schema. */
const examplesOf = (where: string, described: Located): Example[] => {
  const schema = member(described, 'schema')
  if (schema === undefined) throw new Error(`${where} has no schema`)
  const single = described.node.example
  const named = childrenOf(described, 'examples').map(([name, { node }]) => ({ name, value: node.value }))
  const examples = single === undefined ? named : [{ name: 'example', value: single }, ...named]
  for (const { name, value } of examples) validate(`${where}, example ${name}`, schema, value)
  return examples
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** The examples of problems have the status, type and title of the catalogue. */
const checkProblem = (t: Test, where: string, status: number, value: unknown): void => {
  const { type, title, code, status: stated } = value as Readonly<Record<string, unknown>>
  t.equal(stated, status, `${where}: the status`)
  t.equal(type, `/problems/${String(code)}`, `${where}: the type`)
  const entry = typeof code === 'string' && isProblemCode(code) ? problemTypes[code] : null
  t.strictSame([title, stated], [entry?.title, entry?.status], `${where}: the title`)
}

t.test('every response has examples that match its schema', async (t) => {
  const missing: string[] = []
  for (const operation of operations) {
    for (const [status, response] of childrenOf(operationNode(operation), 'responses')) {
      for (const [name, header] of childrenOf(response, 'headers'))
        examplesOf(`${operation.id} ${status} header ${name}`, header)
      for (const [mediaType, content] of childrenOf(response, 'content')) {
        const where = `${operation.id} ${status} ${mediaType}`
        const examples = examplesOf(where, content)
        if (examples.length === 0) missing.push(where)
        if (mediaType === 'application/problem+json')
          for (const { name, value } of examples)
            checkProblem(t, `${where}, example ${name}`, Number(status), value)
      }
    }
  }
  t.strictSame(missing, [])
})

t.test('every request body has examples', async (t) => {
  const missing = operations.flatMap((operation) =>
    childrenOf(operationNode(operation), 'requestBody', 'content')
      .filter(([mediaType, content]) => examplesOf(`${operation.id} ${mediaType}`, content).length === 0)
      .map(([mediaType]) => `${operation.id} ${mediaType}`),
  )
  t.strictSame(missing, [])
})

// Swagger UI sends the examples, and a list with all filters at once is empty.
t.test('no optional query parameter has an example', async (t) => {
  const found = operations.flatMap((operation) =>
    childrenOf(operationNode(operation), 'parameters')
      .filter(([, { node }]) => node.in === 'query' && node.required !== true)
      .filter(([, { node }]) => 'example' in node || 'examples' in node)
      .map(([, { node }]) => `${operation.id} ${String(node.name)}`),
  )
  t.strictSame(found, [])
})

interface BodyExample {
  readonly name: string
  /** Null when the operation takes no body. */
  readonly mediaType: string | null
  /** The bytes of an upload chunk are a string. */
  readonly value: Fields | string
}

/** The example bodies of an operation. */
const bodiesOf = (operation: Operation): BodyExample[] => {
  const contents = childrenOf(operationNode(operation), 'requestBody', 'content')
  if (contents.length === 0) return [{ name: 'no body', mediaType: null, value: {} }]
  return contents.flatMap(([mediaType, content]) =>
    examplesOf(`${operation.id} ${mediaType}`, content).map(({ name, value }) => ({
      name: `${mediaType}, example ${name}`,
      mediaType,
      value: value as BodyExample['value'],
    })),
  )
}

/** A form has one part, the file. All other bodies are JSON or bytes. */
const callWith = (mediaType: string | null, value: object | string): Call => {
  if (mediaType === null) return {}
  if (mediaType === 'multipart/form-data') return { body: fileForm(...(Object.values(value) as [string])) }
  const body = typeof value === 'string' ? Buffer.from(value) : value
  return { body, headers: { 'content-type': mediaType } }
}

/** The parameters of a request: query and headers from the examples, the path from known ids. */
const parametersOf = (operation: Operation, ids: ReadonlyMap<string, string>): Call => {
  const parameters = [
    ...childrenOf(lookUp(['paths', operation.path]), 'parameters'),
    ...childrenOf(operationNode(operation), 'parameters'),
  ].map(([, { node, pointer }]) => ({
    name: String(node.name),
    place: node.in,
    value: examplesOf(`${operation.id} ${String(node.name)}`, { node, pointer })[0]?.value,
  }))
  const at = (place: string) =>
    Object.fromEntries(
      parameters
        .filter((parameter) => parameter.place === place && parameter.value !== undefined)
        .map(({ name, value }) => [name, String(value)] as const),
    )
  const params = parameters
    .filter(({ place }) => place === 'path')
    .map(({ name }) => [name, ids.get(name) ?? `nothing has created the ${name}`] as const)
  return { params: Object.fromEntries(params), query: at('query'), headers: at('header') }
}

const byId = (ids: readonly OperationId[]) => ids.flatMap((one) => operations.filter(({ id }) => id === one))

/** The operations in the order of the contract, with those of `first` and `last` at its ends. */
const inOrder = [
  ...byId(first),
  ...operations.filter(({ id }) => !first.includes(id) && !last.includes(id)),
  ...byId(last),
]

t.test('every example request succeeds', async (t) => {
  const ids = new Map<string, string>()
  const known: KnownValues = {}
  for (const operation of inOrder) {
    for (const [index, { name, mediaType, value }] of bodiesOf(operation).entries()) {
      const { headers, ...parameters } = parametersOf(operation, ids)
      const fieldsOf = (index === 0 ? undefined : references[operation.id]) ?? live[operation.id]
      const body = typeof value === 'string' ? value : { ...value, ...(await fieldsOf?.(known, value)) }
      const call = callWith(mediaType, body)
      const reply = await service.call(operation.id, {
        ...parameters,
        ...queries[operation.id]?.(known),
        ...call,
        params: { ...parameters.params, ...(await paths[operation.id]?.(known)) },
        headers: { ...headers, ...call.headers },
        token: operation.isOpen ? undefined : known.access_token,
      })
      t.ok(isSuccess(reply.status), `${operation.id}: ${name}`, { reply: reply.body })
      if (!isSuccess(reply.status)) continue
      if (valueSources.has(operation.id)) Object.assign(known, reply.body)
      const supplied = suppliedIds[operation.id]
      if (supplied !== undefined) ids.set(supplied, idIn(reply))
    }
  }
})

/** The id of a resource, or of the last item of a list; without a body, the id in Location. */
const idIn = ({ body, headers }: Reply): string => {
  if (body === null) return headers.get('location')?.split('/').at(-1) ?? 'the response has no location'
  const { id, items } = body as { readonly id?: string; readonly items?: readonly { readonly id: string }[] }
  return id ?? items?.at(-1)?.id ?? 'the response has no id'
}

t.test('the example of a stored attachment has the size and digest of the example file', async (t) => {
  const upload = operations.find(({ id }) => id === 'addTaskAttachment')
  if (upload === undefined) throw new Error('addTaskAttachment is not in the contract')
  const node = operationNode(upload)
  const media = lookUp([...node.pointer, 'requestBody', 'content', 'multipart/form-data'])
  const response = lookUp([...node.pointer, 'responses', '201', 'content', 'application/json'])
  if (media === undefined || response === undefined)
    throw new Error('addTaskAttachment has other media types')
  const [sent] = examplesOf('the upload', media)
  const [stored] = examplesOf('the response', response)
  const { file } = (sent?.value ?? { file: '' }) as { readonly file: string }
  t.match(stored?.value, {
    size: Buffer.byteLength(file),
    sha256: createHash('sha256').update(file).digest('hex'),
  })
})
