import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import type { components } from '../generated/openapi.ts'
import { type ContractOperation, loadContract, type OperationId } from '../src/contract/contract.ts'
import { isProblemCode, problemTypes } from '../src/problems/catalogue.ts'
import { type Located, lookUp, member, validate } from './fixture/contract-check.ts'
import { blackPng } from './fixture/images.ts'
import { notificationOf } from './fixture/notifications.ts'
import { authenticator, secondFactorActions } from './fixture/second-factor.ts'
import { type Call, fileForm, type Reply, startService } from './fixture/service.ts'

/**
 * The examples of openapi.yaml are true: every one is as its schema says, every request that they make up is sent as it
 * stands, in the order of the contract, and succeeds.
 */

const service = await startService(t)
const { forgetLastCode, challengeOf } = secondFactorActions(service)
type Schemas = components['schemas']
type Operation = ContractOperation & { readonly id: OperationId }

// The generated types were made of this contract, so its operations are theirs.
const operations = [...loadContract().operations.values()] as readonly Operation[]

/** By operation, the path parameter that later operations fill with the id of what it answers with, the last item of a list. */
const finds: Partial<Record<OperationId, string>> = {
  listSessions: 'session_id',
  createApiToken: 'token_id',
  createUser: 'user_id',
  createTask: 'task_id',
  createComment: 'comment_id',
  addTaskAttachment: 'attach_id',
  createUpload: 'upload_id',
  createTag: 'tag_id',
  createProject: 'project_id',
  createInvitation: 'invitation_id',
  createTeam: 'team_id',
  createSection: 'section_id',
  createWebhook: 'webhook_id',
}

/** Operations whose answers hold what later requests need. Fields of other answers have the same names. */
const teachers: ReadonlySet<OperationId> = new Set([
  'login',
  'completeLogin',
  'refreshToken',
  'enrolSecondFactor',
  'confirmSecondFactor',
  'createAttachmentLink',
  'createSection',
])

/** What these answers so far hold. */
type Learned = Partial<
  Schemas['AuthTokens'] &
    Schemas['SecondFactorSecret'] &
    Schemas['RecoveryCodeSet'] &
    Schemas['AttachmentLink'] &
    Pick<Schemas['Section'], 'project_id'>
>

/** A code that has not been used, as the authenticator shows it. */
const freshCode = async ({ secret = '', user }: Learned): Promise<string> => {
  if (user !== undefined) await forgetLastCode(user)
  return authenticator(secret)()
}

/** Who signs in by the contract's example. */
const credentials = (): Schemas['Login'] =>
  operations.filter(({ id }) => id === 'login').flatMap(bodiesOf)[0]?.value as Schemas['Login']

type Fields = Readonly<Record<string, unknown>>

/** The token of an invitation. */
const newInvitation = async (): Promise<string> => {
  const { token } = await service.register(`inviter-${service.invitations.length}`)
  const { body: project } = await service.expect('createProject', 201, { token, body: { name: 'A project' } })
  const body = { email: 'invited@example.com', role: 'editor' }
  await service.expect('createInvitation', 201, { token, params: { project_id: project.id }, body })
  return service.invitations.at(-1)?.token ?? ''
}

/** The fields that cannot be literal, since the service or an authenticator makes their values up. */
const live: Partial<Record<OperationId, (learned: Learned, example: Fields) => object | Promise<object>>> = {
  register: async (_learned, { invitation_token }) =>
    invitation_token === undefined ? {} : { invitation_token: await newInvitation() },
  refreshToken: ({ refresh_token }) => ({ refresh_token }),
  lookUpInvitation: async () => ({ token: await newInvitation() }),
  acceptInvitation: async () => ({ token: await newInvitation() }),
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
  async createWebhook({ access_token: token }, { project_id }) {
    if (project_id === undefined) return {}
    const { body } = await service.expect('createProject', 201, { token, body: { name: 'A project' } })
    return { project_id: body.id }
  },
  resetPassword: () => ({ token: service.mails.at(-1)?.token }),
  confirmSecondFactor: async (learned) => ({ code: await freshCode(learned) }),
  completeLogin: async (learned, { code }) => ({
    challenge: await challengeOf(credentials()),
    code: /^\d+$/.test(String(code)) ? await freshCode(learned) : learned.recovery_codes?.[0],
  }),
  async reauthenticate(learned, { code }) {
    return code === undefined ? {} : { code: await freshCode(learned) }
  },
  async undoEmailChange() {
    const { id, token } = await service.register('moved')
    const change = { params: { user_id: id }, body: { email: 'moved-by-another@example.com' } }
    await service.expect('updateUser', 200, { token, ...change })
    return { token: service.emailChanges.at(-1)?.undoToken }
  },
  disableSecondFactor: async (learned) => ({ code: await freshCode(learned) }),
}

/** The path of a relation between two new tasks, which are related in that way. */
const newRelation = async ({ access_token: token }: Learned) => {
  const create = () => service.expect('createTask', 201, { token, body: { title: 'A task' } })
  const [{ body: task }, { body: other }] = [await create(), await create()]
  const params = { task_id: task.id, kind: 'blocks', other_task_id: other.id }
  await service.expect('addTaskRelation', 204, { token, params })
  return params
}

let assigners = 0

/** The path of a notification: somebody has assigned a task. */
const newNotification = async ({ access_token = '', user }: Learned) => {
  const { token } = await service.register(`assigner-${(assigners += 1)}`)
  const body = { title: 'A task', assignee_id: user?.id }
  const { body: task } = await service.expect('createTask', 201, { token, body })
  return { notification_id: (await notificationOf(service, { token: access_token }, task.id)).id }
}

/** The path of an enabled webhook. Nothing listens at its URL. */
const newWebhook = async ({ access_token: token }: Learned) => {
  const body = { url: 'http://127.0.0.1:9/', event_types: ['project.restored'] }
  return { webhook_id: (await service.expect('createWebhook', 201, { token, body })).body.id }
}

/** The path of a delivery of such a webhook. */
const newWebhookDelivery = async (learned: Learned) => {
  const params = await newWebhook(learned)
  const { body } = await service.expect('testWebhook', 201, { token: learned.access_token, params })
  return { ...params, delivery_id: body.id }
}

/** Operations that need something else in their path than what is there. */
const paths: Partial<Record<OperationId, (learned: Learned) => Promise<Call['params']>>> = {
  async getThumbnail({ access_token: token }) {
    const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'A picture' } })
    const upload = { params: { task_id: task.id }, body: fileForm(blackPng({ width: 8, height: 8 })) }
    const { body: attachment } = await service.expect('addTaskAttachment', 201, { token, ...upload })
    return { attach_id: attachment.id }
  },
  addTaskRelation: newRelation,
  removeTaskRelation: newRelation,
  updateNotification: newNotification,
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

/** Operations that need something else in their query than the examples. */
const queries: Partial<Record<OperationId, (learned: Learned) => Required<Pick<Call, 'query'>>>> = {
  downloadLinkedAttachment: ({ url = '' }) => ({ query: new URL(url, service.url).search.slice(1) }),
}

/** What ends something that others need, and what needs something that the contract has later. */
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
  'deleteUser',
  'completeLogin',
  'reauthenticate',
  'disableSecondFactor',
  'changePassword',
  'logout',
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

/** The examples of a parameter, a header or a media type, each held against the schema beside it. */
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

/** Problems say the same in the contract as in the answers and on the page of their type. */
const checkProblem = (t: Test, where: string, status: number, value: unknown): void => {
  const { type, title, code, status: told } = value as Readonly<Record<string, unknown>>
  t.equal(told, status, `${where}: the status`)
  t.equal(type, `/problems/${String(code)}`, `${where}: the type`)
  const known = typeof code === 'string' && isProblemCode(code) ? problemTypes[code] : null
  t.strictSame([title, told], [known?.title, known?.status], `${where}: the title`)
}

t.test('every response has examples, as its schema says', async (t) => {
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

// Swagger UI fills them in, and all filters at once leave nothing of a list.
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
  /** The bytes of a piece of a file are text. */
  readonly value: Fields | string
}

/** The bodies that the examples of an operation make up. */
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

/** A form has one part, the file; all else is JSON. */
const callWith = (mediaType: string | null, value: object | string): Call => {
  if (mediaType === null) return {}
  if (mediaType === 'multipart/form-data') return { body: fileForm(...(Object.values(value) as [string])) }
  const body = typeof value === 'string' ? Buffer.from(value) : value
  return { body, headers: { 'content-type': mediaType } }
}

/** What the examples of the parameters make up; the path is filled with what there is. */
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

/** First all in the order of the contract, but for what has to wait. */
const inOrder = [
  ...operations.filter(({ id }) => !last.includes(id)),
  ...last.flatMap((one) => operations.filter(({ id }) => id === one)),
]

t.test('every request is answered as success', async (t) => {
  const ids = new Map<string, string>()
  const learned: Learned = {}
  for (const operation of inOrder) {
    for (const { name, mediaType, value } of bodiesOf(operation)) {
      const { headers, ...parameters } = parametersOf(operation, ids)
      const body =
        typeof value === 'string' ? value : { ...value, ...(await live[operation.id]?.(learned, value)) }
      const call = callWith(mediaType, body)
      const reply = await service.call(operation.id, {
        ...parameters,
        ...queries[operation.id]?.(learned),
        ...call,
        params: { ...parameters.params, ...(await paths[operation.id]?.(learned)) },
        headers: { ...headers, ...call.headers },
        token: operation.isOpen ? undefined : learned.access_token,
      })
      t.ok(isSuccess(reply.status), `${operation.id}: ${name}`, { reply: reply.body })
      if (!isSuccess(reply.status)) continue
      if (teachers.has(operation.id)) Object.assign(learned, reply.body)
      const found = finds[operation.id]
      if (found !== undefined) ids.set(found, idIn(reply))
    }
  }
})

/** The id of a resource, or of the last item of a list; where there is no body, the one in Location. */
const idIn = ({ body, headers }: Reply): string => {
  if (body === null) return headers.get('location')?.split('/').at(-1) ?? 'the answer has no location'
  const { id, items } = body as { readonly id?: string; readonly items?: readonly { readonly id: string }[] }
  return id ?? items?.at(-1)?.id ?? 'the answer has no id'
}

t.test('the example of a stored file is that of the example of an upload', async (t) => {
  const upload = operations.find(({ id }) => id === 'addTaskAttachment')
  if (upload === undefined) throw new Error('addTaskAttachment is not in the contract')
  const node = operationNode(upload)
  const media = lookUp([...node.pointer, 'requestBody', 'content', 'multipart/form-data'])
  const answer = lookUp([...node.pointer, 'responses', '201', 'content', 'application/json'])
  if (media === undefined || answer === undefined) throw new Error('addTaskAttachment has other media types')
  const [sent] = examplesOf('the upload', media)
  const [stored] = examplesOf('the answer', answer)
  const { file } = (sent?.value ?? { file: '' }) as { readonly file: string }
  t.match(stored?.value, {
    size: Buffer.byteLength(file),
    sha256: createHash('sha256').update(file).digest('hex'),
  })
})
