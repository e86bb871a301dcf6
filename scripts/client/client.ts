import { buffer } from 'node:stream/consumers'
import type { components, operations } from '../../generated/openapi.ts'
import { loadContract, type OperationId } from '../../src/contract/contract.ts'
import { checkResponse } from './contract-check.ts'
import { excerpt } from './excerpt.ts'
import { type Answer, type Sent, sendRequest } from './http-client.ts'

/** A client that checks every response against openapi.yaml. The tour and the tests use it. It needs no tools of developers. */

type Schemas = components['schemas']

/** A request to an operation. */
export interface Call {
  readonly params?: Readonly<Record<string, string>>
  /** An array repeats the parameter. A string is sent unchanged. */
  readonly query?: string | Readonly<Record<string, string | number | boolean | readonly string[]>>
  /** Sent as JSON, unless it is a string, bytes or a form. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** An access token. */
  readonly token?: string | undefined
  /** HEAD instead of the contract's GET. */
  readonly method?: 'HEAD'
}

type JsonOf<Response> = Response extends { content: infer Content } ? Content[keyof Content] : null

/** The type of the response body of an operation with a status. */
export type BodyAt<Id extends OperationId, Status extends number> = operations[Id] extends {
  responses: infer Responses
}
  ? Status extends keyof Responses
    ? JsonOf<Responses[Status]>
    : never
  : never

/** A response that matches the contract. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  /** Parsed JSON, bytes, or null when there is none. */
  readonly body: unknown
}

/** A request and its response. */
export interface Exchange {
  readonly operation: OperationId
  readonly method: string
  /** Includes the query. */
  readonly path: string
  readonly reply: Reply
}

/** A registered account with a session. */
export interface Account {
  readonly id: string
  readonly token: string
  readonly refreshToken: string
  readonly user: Schemas['User']
  readonly email: string
  readonly password: string
}

/** A client that validates every response. */
export interface Client {
  readonly url: string
  /** Calls an operation. Rejects when the response does not match the contract. */
  readonly call: (operation: OperationId, request?: Call) => Promise<Reply>
  /** Calls an operation. Rejects when the status is not the expected one. */
  readonly expect: <Id extends OperationId, Status extends number>(
    operation: Id,
    status: Status,
    request?: Call,
  ) => Promise<{ readonly headers: Headers; readonly body: BodyAt<Id, Status> }>
  /** Registers an account. The first one of a service is its administrator. */
  readonly register: (name: string) => Promise<Account>
}

const contract = loadContract()

/** A client of the service at `url`. `onExchange` receives each exchange that matches the contract. */
export const createClient = (url: string, onExchange: (exchange: Exchange) => void): Client => {
  const call: Client['call'] = async (operation, request = {}) => {
    const { method, path } = contract.operations.get(operation) ?? { method: '', path: '' }
    const sent = request.method ?? method
    const target = `${fill(path, request.params)}${queryText(request.query)}`
    const answer = await sendRequest(`${url}${target}`, { method: sent, ...bodyOf(request) })
    const reply = { status: answer.status, headers: answer.headers, body: await readBody(answer) }
    checkResponse(operation, sent, reply)
    onExchange({ operation, method: sent, path: target, reply })
    return reply
  }

  const expect: Client['expect'] = async (operation, status, request) => {
    const reply = await call(operation, request)
    if (reply.status !== status) {
      throw new Error(
        `${operation} answered ${reply.status}, not ${status}: ${excerpt(JSON.stringify(reply.body))}`,
      )
    }
    return reply as never
  }

  return {
    url,
    call,
    expect,
    async register(name) {
      const email = `${name}@example.com`
      const password = `password of ${name}`
      const { body } = await expect('register', 201, { body: { username: name, email, password } })
      const { access_token: token, refresh_token: refreshToken, user } = body
      return { id: user.id, token, refreshToken, user, email, password }
    },
  }
}

const fill = (path: string, params: Call['params'] = {}): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? `{${name}}`))

const queryText = (query: Call['query']): string => {
  if (query === undefined) return ''
  if (typeof query === 'string') return `?${query}`
  const entries = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one): [string, string] => [name, String(one)]),
  )
  return `?${new URLSearchParams(entries).toString()}`
}

const bodyOf = ({ body, headers, token }: Call): Omit<Sent, 'method'> => {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
  if (body === undefined) return { headers: { ...authorization, ...headers } }
  const isPlain = typeof body === 'string' || body instanceof Uint8Array || body instanceof FormData
  const type = isPlain ? {} : { 'content-type': 'application/json' }
  return { headers: { ...authorization, ...type, ...headers }, body: isPlain ? body : JSON.stringify(body) }
}

const readBody = async ({ headers, body }: Answer): Promise<unknown> => {
  const type = headers.get('content-type') ?? ''
  if (type === 'text/event-stream') return readBeginning(body)
  const bytes = await buffer(body)
  if (bytes.length === 0) return null
  if (type.startsWith('text/calendar')) return bytes.toString()
  return /^application\/(problem\+)?json/.test(type) ? JSON.parse(bytes.toString()) : new Uint8Array(bytes)
}

/** The first chunk of an event stream, which does not end by itself. */
const readBeginning = async (body: Answer['body']): Promise<string | null> => {
  for await (const chunk of body) return String(chunk)
  return null
}

/** A form with one file, in the part that the contract names. */
export const fileForm = (content: string | Uint8Array, name = 'notes.txt', type = 'text/plain'): FormData => {
  const form = new FormData()
  form.set('file', new File([Buffer.from(content)], name, { type }))
  return form
}
