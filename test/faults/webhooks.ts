import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { copyTemplate, openDatabaseOf, type ServiceEnvironment } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { type Account, createClient } from '../fixture/service.ts'
import { expectedSignature, type Received, startReceiver } from '../fixture/webhooks.ts'

/**
 * Kills the service while it sends to an unreliable receiver and many clients make changes. The receiver still accepts every
 * event, and the sequence counts each event once.
 */

type Client = ReturnType<typeof createClient>
type Event = components['schemas']['Event']
type Delivery = components['schemas']['WebhookDelivery']

const changes = 300
const kills = 3
const writers = 6

/** Ends all leases and delays of a stopped service, so that the test need not wait for them. */
const skipDelays = async (environment: ServiceEnvironment): Promise<void> => {
  const database = await openDatabaseOf(environment)
  const db = openDatabase(database.options)
  await db.run(`update webhooks set leased_until = now() - interval '1 ms' where leased_until > now()`, [])
  await db.run(
    `with due as (update webhook_deliveries set due_at = now() - interval '1 ms' where status = 'pending' returning webhook_id)
     update webhooks set due_at = now() - interval '1 ms' where id in (select webhook_id from due)`,
    [],
  )
  await db.close()
  await database.close()
}

/** Accepts requests, some of them late. While it is unreliable, it refuses some first attempts and disconnects others. */
const startUnreliableReceiver = async (t: Test) => {
  const seen = new Set<string>()
  const accepted = new Set<string>()
  let isReliable = false
  let next: ((response: ServerResponse, id: string) => void) | null = null

  const accept = (response: ServerResponse, id: string): void => {
    accepted.add(id)
    response.writeHead(204).end()
  }
  const receiver = await startReceiver(t, async (response, index) => {
    const id = String(receiver.received[index]?.headers['webhook-id'])
    const isFirst = !seen.has(id)
    seen.add(id)
    if (next !== null) {
      next(response, id)
      next = null
      return
    }
    const chance = Math.random()
    if (chance < 0.1) await pause(Math.random() * 100)
    else if (chance < 0.2 && isFirst && !isReliable) return void response.writeHead(500).end()
    else if (chance < 0.3 && isFirst && !isReliable) return void response.destroy()
    accept(response, id)
  })
  return {
    url: receiver.url,
    received: receiver.received,
    /** The ids of accepted messages. */
    accepted,
    becomeReliable: () => void (isReliable = true),
    /** Resolves when the next request was accepted, or has arrived and gets no response. */
    nextRequest: (reply: 'accepted' | 'none') =>
      new Promise<void>((resolve) => {
        next = (response, id) => {
          if (reply === 'none') return resolve()
          void once(response, 'finish').then(() => resolve())
          accept(response, id)
        }
      }),
  }
}

/** Waits for the first delivery: the reader of events skips events from before its start. */
const readerHasStarted = async (t: Test, { expect, register }: Client): Promise<void> => {
  const { token } = await register('ada')
  const { url, received } = await startReceiver(t)
  await expect('createWebhook', 201, { token, body: { url, event_types: ['task.created'] } })
  await eventually('an event arrives', async () => {
    await expect('createTask', 201, { token, body: { title: 'A task' } })
    return received.length > 0
  })
}

/** Makes changes, and repeats each until it is acknowledged. */
const startWriters = ({ token }: Account, service: () => Promise<Client>) => {
  const acknowledged = new Set<string>()
  const waiting: { readonly count: number; readonly resolve: () => void }[] = []
  let started = 0

  const untilAcknowledged = async (operation: 'createTask' | 'updateTask', title: string, id = '') => {
    for (;;) {
      const { call } = await service()
      const headers = operation === 'createTask' ? { 'idempotency-key': title.replace(' ', '-') } : {}
      const request = { token, headers, params: { task_id: id }, body: { title } }
      const reply = await call(operation, request).catch(() => null)
      if (reply?.status === 200 || reply?.status === 201) {
        acknowledged.add(title)
        for (const { count, resolve } of waiting) if (acknowledged.size >= count) resolve()
        return (reply.body as components['schemas']['Task']).id
      }
      if (reply !== null && reply.status < 500) throw new Error(`${operation} answered ${reply.status}`)
    }
  }
  const write = async (): Promise<void> => {
    let id = ''
    while (started < changes) {
      const number = (started += 1)
      const isCreation = id === '' || number % 3 === 0
      id = await untilAcknowledged(isCreation ? 'createTask' : 'updateTask', `Change ${number}`, id)
    }
  }
  const done = Promise.all(Array.from({ length: writers }, write))
  return {
    acknowledged,
    /** Resolves after `count` acknowledged changes. Rejects if a writer fails. */
    reach: async (count: number): Promise<void> => {
      const reached = new Promise<void>((resolve) => waiting.push({ count, resolve }))
      await Promise.race([reached, done])
    },
    done,
  }
}

/** All items of a list, oldest first. */
const walk = async <Item>(
  page: (query: Readonly<Record<string, string | number>>) => Promise<{
    readonly items: readonly Item[]
    readonly next_cursor: string | null
  }>,
): Promise<readonly Item[]> => {
  const all: Item[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const { items, next_cursor } = await page({ limit: 200, ...(cursor !== undefined && { cursor }) })
    all.push(...items)
    cursor = next_cursor
  }
  return all.toReversed()
}

const sequenceOf = ({ headers }: Received): number => Number(headers['webhook-sequence'])

const sendThroughKills = async (t: Test, environment: ServiceEnvironment): Promise<void> => {
  const receiver = await startUnreliableReceiver(t)
  const start = () => startProcess(t, { ...environment, WEBHOOK_ALLOW: '127.0.0.1' })
  let service = await start()
  let client = createClient(service.url)
  await readerHasStarted(t, client)
  const owner = await client.register('grace')
  const { token } = owner
  const { body: webhook } = await client.expect('createWebhook', 201, {
    token,
    body: { url: receiver.url, event_types: ['task.*'] },
  })

  let restart = Promise.withResolvers<Client>()
  restart.resolve(client)
  const writing = startWriters(owner, () => restart.promise)
  for (let kill = 1; kill <= kills; kill += 1) {
    await writing.reach(Math.ceil((changes * kill) / (kills + 1)))
    await receiver.nextRequest(kill % 2 === 0 ? 'accepted' : 'none')
    restart = Promise.withResolvers()
    t.equal(await service.end('SIGKILL'), null, `kill ${kill}`)
    await skipDelays(environment)
    if (kill === kills) receiver.becomeReliable()
    service = await start()
    client = createClient(service.url)
    restart.resolve(client)
  }
  await writing.done

  const params = { webhook_id: webhook.id }
  await eventually(
    'every event is delivered',
    async () => {
      const count = async (query: Readonly<Record<string, string | number | boolean>>) =>
        (await client.expect('listWebhookDeliveries', 200, { token, params, query })).body.total ?? 0
      const total = await count({ limit: 1, include_total: true })
      return total >= changes && (await count({ limit: 1, include_total: true, status: 'pending' })) === 0
    },
    90_000,
  )
  const events = await walk<Event>(
    async (query) => (await client.expect('listEvents', 200, { token, query })).body,
  )
  const deliveries = await walk<Delivery>(
    async (query) => (await client.expect('listWebhookDeliveries', 200, { token, params, query })).body,
  )

  const taskEvents = events.filter(({ type }) => type.startsWith('task.'))
  t.strictSame(
    taskEvents.map(({ after }) => String(after['title'])).toSorted(),
    [...writing.acknowledged].toSorted(),
    'each change has one event',
  )
  const { received, accepted } = receiver
  t.strictSame(
    taskEvents.filter(({ id }) => !accepted.has(id)),
    [],
    'every event was accepted',
  )
  const byId = new Map(
    taskEvents.map((data) => [data.id, { type: data.type, timestamp: data.created_at, data }]),
  )
  for (const request of received) {
    const id = String(request.headers['webhook-id'])
    t.strictSame(request.message, byId.get(id), 'a message contains its event')
    t.equal(request.headers['webhook-signature'], expectedSignature(webhook.secret, request))
  }
  const ids = deliveries.toSorted((a, b) => a.sequence - b.sequence).map(({ event_id }) => event_id)
  t.strictSame(ids.toSorted(), [...byId.keys()].toSorted(), 'each event has one delivery')
  t.strictSame(
    deliveries.map(({ sequence }) => sequence).toSorted((a, b) => a - b),
    Array.from({ length: taskEvents.length }, (_, index) => index + 1),
    'the sequence has no gaps and no duplicates',
  )
  t.strictSame(
    received.filter((request) => ids[sequenceOf(request) - 1] !== request.headers['webhook-id']),
    [],
    'all requests for an event have its sequence number',
  )
  const byTask = (one: readonly (string | undefined)[]) =>
    Object.groupBy(one, (id) => byId.get(id ?? '')?.data.task_id ?? '')
  t.strictSame(
    byTask(ids),
    byTask(taskEvents.map(({ id }) => id)),
    'the sequence has the changes of a task in order',
  )
  t.strictSame(
    deliveries.filter(({ status }) => status !== 'delivered'),
    [],
    'every delivery has succeeded',
  )
  t.ok(
    received.length > taskEvents.length,
    `${taskEvents.length} events, ${received.length} requests, ${kills} kills`,
  )
  t.equal(await service.end('SIGTERM'), 0)
}

t.test('with PostgreSQL of the service', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await sendThroughKills(t, { DATA_DIR })
})

t.test('on a server', async (t) =>
  sendThroughKills(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) }),
)
