import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { components } from '../../generated/openapi.ts'
import { createClient } from '../../src/db/engine/connection.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { startStopped } from '../operate/configured-database.ts'
import { startServer, unreachedLimits } from '../run/processes.ts'
import { runToEnd, type Teardown, withTeardowns } from '../run/run-to-end.ts'
import { startLightMember } from './light-member.ts'
import { seedDatabase, type Seed } from './seed.ts'

/**
 * `node scripts/bench/attacks.ts`: what the most expensive requests of one member cost another one. A member with many tasks sends them
 * over 64 connections, on PostgreSQL of the service, without limits of requests; another member reads and writes a few tasks. The table
 * has their response times, beside those without an attack. `--only <part of a name>` runs some of the attacks.
 */

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seconds: { type: 'string', default: '20' },
    tasks: { type: 'string', default: '100000' },
  },
})

/** Milliseconds. */
const deadline = 1_800_000

const connections = 64

/** The response time in milliseconds that 99 of 100 requests of the other member should keep. */
const target = 250

type Task = components['schemas']['Task']

/** Sends a request of the attacker. Resolves to the parsed body, or to null without success. */
type Send = (method: string, path: string, body?: object | FormData) => Promise<unknown>

interface Attack {
  readonly name: string
  /** Prepares data. Resolves to one request, or several in turn, which connection `index` repeats. */
  readonly prepare: (send: Send, seed: Seed) => Promise<(index: number) => Promise<unknown>>
}

const idOf = (body: unknown): string => (body as { readonly id: string }).id

const lists = [
  'priority=urgent&sort=created_at&include_total=true',
  'priority=urgent&sort=title',
  `filter=${encodeURIComponent('metadata.key="none"')}`,
  `filter=${encodeURIComponent('title:"nowhere"')}`,
  'sort=title&limit=200',
  'q=nowhere&include_total=true',
].map((query) => `/tasks?${query}`)

const closings = (ids: readonly string[], status: string) => ({
  update: ids.map((id) => ({ task_id: id, patch: { status } })),
})

const attacks: readonly Attack[] = [
  {
    name: 'lists without a hit',
    prepare: async (send) => (index) => send('GET', lists[index % lists.length] ?? ''),
  },
  {
    name: 'closing a recurring tree of 100',
    prepare: async (send) => {
      const createTree = async (): Promise<string> => {
        const root = idOf(
          await send('POST', '/tasks', {
            title: 'Root',
            due_on: '2026-01-01',
            recurrence: { rule: 'FREQ=DAILY', from: 'schedule', missed: 'each' },
          }),
        )
        await send('POST', '/tasks/batch', {
          create: Array.from({ length: 99 }, (_, n) => ({ title: `Part ${n}`, parent_id: root })),
        })
        return root
      }
      const roots: string[] = []
      while (roots.length < connections) roots.push(await createTree())
      return async (index) => {
        const closed = await send('PATCH', `/tasks/${roots[index]}`, { status: 'done' })
        const next = (closed as Pick<Task, 'occurrence'> | null)?.occurrence?.next_task_id
        if (typeof next === 'string') roots[index] = next
      }
    },
  },
  {
    name: 'batches of 500 closings',
    prepare: async (send, { taskIds }) => {
      const statuses = Array.from({ length: connections }, () => 'todo')
      return async (index) => {
        const ids = taskIds.slice(index * 500, index * 500 + 500)
        statuses[index] = statuses[index] === 'done' ? 'todo' : 'done'
        await send('POST', '/tasks/batch', closings(ids, statuses[index]))
      }
    },
  },
  {
    name: 'imports of 20,000 rows',
    prepare: async (send) => {
      const rows = Array.from({ length: 20_000 }, (_, n) => `Imported ${n},2090-05-01`)
      const content = `title,due\n${rows.join('\n')}\n`
      return async (index) => {
        if (index > 3) return pause(1_000)
        const form = new FormData()
        form.append('file', new File([content], 'tasks.csv', { type: 'text/csv' }))
        const id = idOf(await send('POST', '/imports', form))
        const path = `/imports/${id}`
        const settled = async (): Promise<number> => {
          for (;;) {
            const read = (await send('GET', path)) as {
              readonly poll_after_seconds: number | null
              readonly version: number
            }
            if (read.poll_after_seconds === null) return read.version
            await pause(500)
          }
        }
        const version = await settled()
        await send('POST', `${path}/run`, { version })
        await settled()
      }
    },
  },
]

const main = async (t: Teardown): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-attacks-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const dataDir = join(folder, 'data')
  const seed = await seedFolder(dataDir)
  const server = await startServer(t, {
    environment: {
      DATA_DIR: dataDir,
      LOG_LEVEL: 'warn',
      TASK_QUOTA: '0',
      INTERCHANGE_QUOTA_BYTES: '0',
      ...unreachedLimits,
    },
    folder,
  })
  const rows: Record<string, object> = {}
  for (const attack of attacks) {
    if (!attack.name.includes(options.only)) continue
    rows[attack.name] = await measure(server.url, seed, attack)
    console.log(attack.name, JSON.stringify(rows[attack.name]))
  }
  await server.stop()
  console.log(`\nResponse times of the other member in ms; the target is a p99 of ${target}`)
  console.table(rows)
}

const seedFolder = (dataDir: string): Promise<Seed> =>
  withTeardowns(async (t) => {
    await mkdir(dataDir)
    const connection = await startStopped(t, { dataDir, postgresBin: null })
    await migrate(connection)
    const sql = createClient(connection, { connection: {} })
    t.teardown(() => sql.end())
    const seed = await seedDatabase(sql, Number(options.tasks))
    await sql`alter table tasks disable trigger user`
    await sql`update tasks set owner_id = ${seed.member.id}`
    await sql`alter table tasks enable trigger user`
    await sql`vacuum analyze`
    const own = await sql<{ id: string }[]>`select id from tasks limit ${connections * 500}`
    return { ...seed, taskIds: own.map(({ id }) => id) }
  })

const percentile = (times: readonly number[], share: number): number => {
  const sorted = times.toSorted((a, b) => a - b)
  return Math.round(sorted[Math.floor(sorted.length * share)] ?? 0)
}

const measure = async (url: string, seed: Seed, { prepare }: Attack): Promise<object> => {
  const statuses = new Map<number, number>()
  const sendAs =
    (token: string): Send =>
    async (method, path, body) => {
      const isForm = body instanceof FormData
      const response = await fetch(`${url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
      })
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      const text = await response.text()
      return response.ok ? (JSON.parse(text) as unknown) : null
    }
  const signIn = async (email: string): Promise<string> => {
    const body = (await sendAs('')('POST', '/auth/login', { email, password: seed.password })) as {
      readonly access_token: string
    }
    return body.access_token
  }
  const send = sendAs(await signIn(seed.member.email))
  const lightToken = await signIn(seed.emails[0] ?? '')
  const light = async (seconds: number, during?: () => Promise<void>) => {
    const id = idOf(await sendAs(lightToken)('POST', '/tasks', { title: 'Go on working' }))
    const request = (method: string, path: string, body?: object) => ({
      url: `${url}${path}`,
      method,
      token: lightToken,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const stop = await startLightMember([
      request('GET', `/tasks/${id}`),
      request('GET', '/tasks?limit=20'),
      request('POST', '/tasks', { title: 'Another' }),
      request('PATCH', `/tasks/${id}`, { priority: 'high' }),
    ])
    await (during?.() ?? pause(seconds * 1_000))
    const results = await stop()
    const [read, list, create, update] = results.map(({ times }) => percentile(times, 0.99))
    const times = results.flatMap((result) => result.times)
    return {
      requests: times.length,
      p50: percentile(times, 0.5),
      p99: percentile(times, 0.99),
      each: [read, list, create, update].join(' '),
      failed: results.reduce((sum, { failed }) => sum + failed, 0),
    }
  }

  const seconds = Number(options.seconds)
  const attackOnce = await prepare(send, seed)
  const floor = await light(seconds)
  statuses.clear()
  const attacked = await light(seconds, async () => {
    const end = performance.now() + seconds * 1_000
    const repeat = async (index: number): Promise<void> => {
      while (performance.now() < end) await attackOnce(index)
    }
    const running = Promise.all(Array.from({ length: connections }, (_, index) => repeat(index)))
    await Promise.race([running, pause(seconds * 1_000)])
    running.catch(() => undefined)
  })
  const responses = [...statuses].map(([status, count]) => `${count} x ${status}`).join(', ')
  const after = await light(seconds / 2)
  return {
    'floor p50': floor.p50,
    'floor p99': floor.p99,
    'floor of each': floor.each,
    p50: attacked.p50,
    p99: attacked.p99,
    'p99 of each': attacked.each,
    failed: attacked.failed,
    requests: attacked.requests,
    responses,
    'after p99': after.p99,
  }
}

await runToEnd('attacks', deadline, main)
