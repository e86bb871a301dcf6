import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { type ContractOperation, loadContract, type OperationId } from '../src/contract.ts'
import { isProblemCode, problemTypes } from '../src/problems.ts'
import { type Located, lookUp, member, validate } from './fixture/contract-check.ts'
import { type Account, type Call, fileForm, startService } from './fixture/service.ts'

/**
 * The examples of openapi.yaml are true: every one is as its schema says, every request that they make up is sent as it
 * stands, in the order of the contract, and succeeds.
 */

const service = await startService(t)
type Operation = ContractOperation & { readonly id: OperationId }

// The generated types were made of this contract, so its operations are theirs.
const operations = [...loadContract().operations.values()] as readonly Operation[]

/** By operation, the path parameter that later operations fill with the id of what it created last. */
const creates: Partial<Record<OperationId, string>> = {
  createUser: 'user_id',
  createTask: 'task_id',
  addTaskAttachment: 'attach_id',
  createTag: 'tag_id',
}

/** The fields that cannot be literal, since the service makes their values up. */
const live: Partial<Record<OperationId, (account: Session) => Readonly<Record<string, string>>>> = {
  refreshToken: ({ refreshToken }) => ({ refresh_token: refreshToken }),
}

/** What ends something that others need, and what needs something that the contract has later. */
const last: readonly OperationId[] = [
  'addTaskTag',
  'removeTaskTag',
  'deleteTag',
  'deleteTask',
  'deleteUser',
  'logout',
]

type Session = Pick<Account, 'token' | 'refreshToken'>

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
        if (!isSuccess(Number(status)))
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

/** The bodies that the examples of an operation make up; one without a body when it takes none. */
const bodiesOf = (operation: Operation, session: Session | null): { name: string; call: Call }[] => {
  const contents = childrenOf(operationNode(operation), 'requestBody', 'content')
  if (contents.length === 0) return [{ name: 'no body', call: {} }]
  return contents.flatMap(([mediaType, content]) =>
    examplesOf(`${operation.id} ${mediaType}`, content).map(({ name, value }) => ({
      name: `${mediaType}, example ${name}`,
      call: bodyOf(mediaType, { ...(value as object), ...(session && live[operation.id]?.(session)) }),
    })),
  )
}

/** A form has one part, the file; all else is JSON. */
const bodyOf = (mediaType: string, value: object): Call =>
  mediaType === 'multipart/form-data'
    ? { body: fileForm(...(Object.values(value) as [string])) }
    : { body: value, headers: { 'content-type': mediaType } }

/** What the examples of the parameters make up; the path is filled with what there is. */
const parametersOf = (operation: Operation, ids: ReadonlyMap<string, string>): Call => {
  const parameters = childrenOf(operationNode(operation), 'parameters').map(([, { node, pointer }]) => ({
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

/** The session that an answer starts or renews, if it does. */
const sessionOf = (body: unknown): Session | null =>
  typeof body === 'object' && body !== null && 'access_token' in body && 'refresh_token' in body
    ? { token: String(body.access_token), refreshToken: String(body.refresh_token) }
    : null

t.test('every request is answered as success', async (t) => {
  const ids = new Map<string, string>()
  let session: Session | null = null
  for (const operation of inOrder) {
    for (const { name, call } of bodiesOf(operation, session)) {
      const { headers, ...parameters } = parametersOf(operation, ids)
      const reply = await service.call(operation.id, {
        ...parameters,
        ...call,
        headers: { ...headers, ...call.headers },
        token: operation.isOpen ? undefined : session?.token,
      })
      t.ok(isSuccess(reply.status), `${operation.id}: ${name}`, { reply: reply.body })
      session = sessionOf(reply.body) ?? session
      const created = creates[operation.id]
      if (created !== undefined && isSuccess(reply.status))
        ids.set(created, (reply.body as { readonly id: string }).id)
    }
  }
})

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
