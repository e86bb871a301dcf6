import type { Load } from './wrk.ts'
import type { Seed } from './seed.ts'

/** A request that is measured on the service and on the floors. */
export interface Scenario {
  readonly name: string
  /** The status of the service's response. */
  readonly status: number
  readonly ours: Load
  /** The floor with the simplest statement, or null if the request needs none. */
  readonly raw: Load | null
  readonly bare: Load
  readonly connections: number
  /** The minimum rate of the service, as a ratio to the rate of a floor. */
  readonly target: { readonly of: 'raw' | 'bare'; readonly ratio: number }
  /** Whether a quick run measures it. It measures one of each kind. */
  readonly isQuick: boolean
}

/** Access tokens. */
export interface Tokens {
  readonly admin: string
  readonly member: string
}

const connections = 32
const json = { 'content-type': 'application/json' }

/** All scenarios for a seeded database. `etag` is the ETag of the first task. */
export const scenarios = (seed: Seed, tokens: Tokens, etag: string): readonly Scenario[] => {
  const { member, taskIds } = seed
  const as = (token: string) => ({ authorization: `Bearer ${token}` })
  const read = (
    name: string,
    paths: readonly string[],
    {
      floor = paths,
      headers = as(tokens.member),
      status = 200,
      isQuick = false,
    }: { floor?: readonly string[]; headers?: Load['headers']; status?: number; isQuick?: boolean } = {},
  ): Scenario => ({
    name,
    status,
    ours: { method: 'GET', paths, headers, bodies: [] },
    raw: { method: 'GET', paths: floor.map((path) => `/raw${path}`), headers: {}, bodies: [] },
    bare: { method: 'GET', paths: floor.map((path) => `/bare${path}`), headers: {}, bodies: [] },
    connections,
    target: { of: 'raw', ratio: 1 },
    isQuick,
  })
  const write = (name: string, method: string, paths: readonly string[], status: number): Scenario => {
    const bodies = taskIds.map((_, index) => JSON.stringify({ title: `Written by request ${index}` }))
    const to = (prefix: string, headers: Load['headers'] = {}): Load => ({
      method,
      paths: paths.map((path) => `${prefix}${path}`),
      headers: { ...json, ...headers },
      bodies,
    })
    return {
      name,
      status,
      ours: to('', as(tokens.member)),
      raw: to('/raw'),
      bare: to('/bare'),
      connections,
      target: { of: 'raw', ratio: 0.8 },
      isQuick: true,
    }
  }
  const taskPaths = taskIds.map((id) => `/tasks/${id}`)
  const firstTask = taskPaths.slice(0, 1)
  return [
    read('GET /tasks/{task_id}', taskPaths, { isQuick: true }),
    read('GET /tasks/{task_id}, 304', firstTask, {
      headers: { ...as(tokens.member), 'if-none-match': etag },
      status: 304,
    }),
    read('GET /auth/me', ['/auth/me']),
    read('GET /tasks?all=true&limit=20, an administrator', ['/tasks?all=true&limit=20'], {
      floor: ['/tasks'],
      headers: as(tokens.admin),
    }),
    read('GET /tasks?limit=20, a member', ['/tasks?limit=20'], {
      floor: [`/users/${member.id}/tasks`],
      isQuick: true,
    }),
    read('GET /users/{user_id}/tasks?limit=20', [`/users/${member.id}/tasks?limit=20`], {
      floor: [`/users/${member.id}/tasks`],
    }),
    read('GET /tags', ['/tags'], { isQuick: true }),
    write(
      'POST /tasks',
      'POST',
      taskIds.map(() => '/tasks'),
      201,
    ),
    write('PATCH /tasks/{task_id}', 'PATCH', taskPaths, 200),
    {
      name: '401 without a token',
      status: 401,
      ours: { method: 'GET', paths: ['/tasks'], headers: {}, bodies: [] },
      raw: null,
      bare: { method: 'GET', paths: ['/bare/unauthorized'], headers: {}, bodies: [] },
      connections,
      target: { of: 'bare', ratio: 0.8 },
      isQuick: true,
    },
    {
      name: 'POST /auth/login',
      status: 200,
      ours: {
        method: 'POST',
        paths: seed.emails.map(() => '/auth/login'),
        headers: json,
        bodies: seed.emails.map((email) => JSON.stringify({ email, password: seed.password })),
      },
      raw: null,
      bare: { method: 'POST', paths: ['/bare/auth/login'], headers: json, bodies: ['{}'] },
      // The number of passwords that the service hashes concurrently.
      connections: 2,
      target: { of: 'bare', ratio: 0.9 },
      isQuick: false,
    },
  ]
}
