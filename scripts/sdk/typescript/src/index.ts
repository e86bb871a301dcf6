import { createClient, createConfig } from './generated/client/index.ts'
import { type Problem, Taskwright } from './generated/index.ts'
import { keyed } from './keyed.ts'

export * from './generated/index.ts'

/** Where the service is, and who uses it. */
export interface Connection {
  /** Such as `https://tasks.example.com`. */
  readonly baseUrl: string
  /** An API token or access token, or a function that returns the present one. */
  readonly auth?: string | (() => string | Promise<string>)
  /** How often a request is repeated if that is safe. */
  readonly retries?: number
}

/** Methods for all operations. They return the data of responses, and throw `TaskwrightError` for problems. */
export const connect = ({ baseUrl, auth, retries = 4 }: Connection): Taskwright => {
  const fetch = (input: RequestInfo | URL, init?: RequestInit) => send(new Request(input, init), retries)
  const client = createClient(createConfig({ baseUrl, auth, fetch, throwOnError: true }))
  client.interceptors.request.use((request, { method, url }) => {
    if (method === 'POST' && keyed.includes(url) && !request.headers.has('Idempotency-Key')) {
      request.headers.set('Idempotency-Key', crypto.randomUUID())
    }
    return request
  })
  client.interceptors.error.use((error, response) =>
    response === undefined ? error : new TaskwrightError(response, error),
  )
  return new Taskwright({ client })
}

/** The service, or a proxy in front of it, refused or failed a request. */
export class TaskwrightError extends Error {
  override readonly name = 'TaskwrightError'
  readonly response: Response
  /** What is wrong. Undefined if the response is from a proxy. */
  readonly problem: Problem | undefined

  constructor(response: Response, body: unknown) {
    const problem = isProblem(body) ? body : undefined
    super(`${response.status} ${problem?.code ?? ''}: ${problem?.detail ?? response.statusText}`)
    this.response = response
    this.problem = problem
  }
}

const isProblem = (body: unknown): body is Problem =>
  typeof body === 'object' && body !== null && 'code' in body && 'title' in body

/** All items of a list: calls `page` with the parameters of each page's position, first with none. */
export async function* each<Item>(
  page: (position: { cursor?: string }) => Promise<{ items: readonly Item[]; next_cursor: string | null }>,
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | null = null
  do {
    const { items, next_cursor } = await page(cursor === null ? {} : { cursor })
    yield* items
    cursor = next_cursor
  } while (cursor !== null)
}

/** Statuses that say that nothing was done. */
const refused = new Set([408, 423, 429, 503])

/** Statuses that leave open whether the request was processed. */
const unknown = new Set([500, 502, 504])

/** Seconds. A program that has to wait longer should know. */
const longestPause = 60

/** Whether a repeat has the same effect and response as a first request that was processed. */
const isRepeatable = ({ method, headers }: Request): boolean => {
  if (method === 'POST') return headers.has('Idempotency-Key')
  if (method === 'PUT' || method === 'PATCH') return !headers.has('If-Match') && !headers.has('If-None-Match')
  return method !== 'DELETE'
}

const send = async (request: Request, retries: number, pause = 1): Promise<Response> => {
  const repeat = async (seconds: number): Promise<Response> => {
    // Clients that failed together must not come back together.
    const milliseconds = seconds * 1_000 * (1 + Math.random() / 4)
    await new Promise((resolve) => setTimeout(resolve, milliseconds))
    return send(request, retries - 1, pause * 2)
  }
  let response: Response
  try {
    response = await fetch(request.clone())
  } catch (error) {
    if (retries === 0 || request.signal.aborted || !isRepeatable(request)) throw error
    return repeat(pause)
  }
  const { status, headers } = response
  const mayRepeat = refused.has(status) || (unknown.has(status) && isRepeatable(request))
  const seconds = Math.max(Number(headers.get('Retry-After')) || 0, pause)
  if (retries === 0 || !mayRepeat || seconds > longestPause) return response
  await response.body?.cancel()
  return repeat(seconds)
}
