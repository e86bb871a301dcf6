import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import type { WebhookQueue } from '../../src/domain/activity/webhook-queues.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'
import {
  type Behaviour,
  expectedSignature,
  readerHasStarted,
  type Received,
  type Receiver,
  startReceiver,
} from '../fixture/webhooks.ts'

type WebhookWithSecret = components['schemas']['WebhookWithSecret']
type Delivery = components['schemas']['WebhookDelivery']

const { db } = await openTestDatabase(t)
const options = {
  db,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 50 },
  config: { webhookAllow: ['127.0.0.1'] },
}
// Two instances share the work in all tests.
const service = await startService(t, options)
const second = await startService(t, options)
const mailsTo = ({ email }: Account) =>
  [...service.disabledWebhooks, ...second.disabledWebhooks].filter(({ to }) => to === email)
const { createTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const admin = await service.register('admin')
let accounts = 0
const newAccount = (): Promise<Account> => service.register(`webhooks-${(accounts += 1)}`)

await readerHasStarted(db)

const create = async ({ token }: Account, url: string, fields: object = {}): Promise<WebhookWithSecret> =>
  (await service.expect('createWebhook', 201, { token, body: { url, event_types: ['*'], ...fields } })).body

const change = ({ token }: Account, task: { readonly id: string }, body: object) =>
  service.expect('updateTask', 200, { token, params: { task_id: task.id }, body })

const deliveriesOf = async (
  { token }: Account,
  { id }: { readonly id: string },
): Promise<readonly Delivery[]> =>
  (await service.expect('listWebhookDeliveries', 200, { token, params: { webhook_id: id } })).body.items

/** The deliveries of a webhook, oldest first, once there are `count` and all are settled. */
const settled = async (
  account: Account,
  webhook: { readonly id: string },
  count: number,
  isSettled: (delivery: Delivery) => boolean = ({ status }) => status !== 'pending',
): Promise<readonly Delivery[]> => {
  let found: readonly Delivery[] = []
  await eventually(`${count} deliveries are settled`, async () => {
    found = (await deliveriesOf(account, webhook)).toReversed()
    return found.length === count && found.every(isSettled)
  })
  return found
}

const isTried = ({ attempts }: Delivery): boolean => attempts > 0

const read = async ({ token }: Account, { id }: { readonly id: string }) =>
  (await service.expect('getWebhook', 200, { token, params: { webhook_id: id } })).body

const makeDue = (webhook: { readonly id: string }) =>
  db.run(
    `with due as (update webhook_deliveries set due_at = now() - interval '1 ms' where webhook_id = $1 returning webhook_id)
     update webhooks set due_at = now() - interval '1 ms' where id in (select webhook_id from due)`,
    [webhook.id],
  )

const idsOf = (received: readonly Received[]): readonly unknown[] =>
  received.map(({ headers }) => headers['webhook-id'])

t.test('events are delivered once, signed, in the order of the changes', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t, (response) => void response.writeHead(202).end('thanks'))
  const webhook = await create(owner, receiver.url)
  const task = await createTask(owner, { title: 'First' })
  for (const title of ['Second', 'Third']) await change(owner, task, { title })
  await receiver.expect(3)
  const events = await service.expect('listTaskEvents', 200, {
    token: owner.token,
    params: { task_id: task.id },
  })
  const expected = events.body.items.toReversed()
  t.strictSame(
    receiver.received.map(({ message }) => message),
    expected.map((data) => ({ type: data.type, timestamp: data.created_at, data })),
  )
  for (const [index, request] of receiver.received.entries()) {
    const { headers } = request
    t.equal(headers['content-type'], 'application/json')
    t.equal(headers['webhook-id'], expected[index]?.id)
    t.equal(headers['webhook-sequence'], String(index + 1))
    t.ok(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1_000) < 60)
    t.equal(headers['webhook-signature'], expectedSignature(webhook.secret, request))
  }
  const deliveries = await settled(owner, webhook, 3)
  t.match(deliveries[0], {
    webhook_id: webhook.id,
    sequence: 1,
    event_id: expected[0]?.id,
    event_type: 'task.created',
    status: 'delivered',
    attempts: 1,
    next_attempt_at: null,
    response_status: 202,
    response_body: 'thanks',
    error: null,
  })
  const [first] = deliveries
  const params = { webhook_id: webhook.id, delivery_id: first?.id ?? '' }
  const one = await service.expect('getWebhookDelivery', 200, { token: owner.token, params })
  t.strictSame(one.body, first)
})

t.test('a webhook receives events of its types that its owner can see', async (t) => {
  const [owner, other, boss] = [await newAccount(), await newAccount(), admin]
  const project = await createProject(other)
  await setMember(other, project, owner, 'viewer')
  const receiver = await startReceiver(t)
  const adminReceiver = await startReceiver(t)
  await create(boss, adminReceiver.url)
  await create(owner, receiver.url, { event_types: ['task.created', 'task.updated', 'project.*'] })
  const shared = await createTask(other, { title: 'Shared', project_id: project.id })
  const assigned = await createTask(other, { title: 'Assigned', assignee_id: owner.id })
  await createTask(other, { title: 'Private' })
  const token = other.token
  await service.expect('updateProject', 200, {
    token,
    params: { project_id: project.id },
    body: { name: 'New' },
  })
  const last = await createTask(owner, { title: 'Last' })
  await receiver.expect(4)
  t.strictSame(
    receiver.received.map(({ message }) => [message.type, message.data.task_id]),
    [
      ['task.created', shared.id],
      ['task.created', assigned.id],
      ['project.updated', null],
      ['task.created', last.id],
    ],
  )
  await createTask(boss, { title: 'Own' })
  await adminReceiver.expect(1)
  t.strictSame(
    adminReceiver.types(),
    ['task.created'],
    "an administrator's webhook receives only their own events",
  )
})

t.test('a project webhook receives events of the project while its owner manages it', async (t) => {
  const [owner, other] = [await newAccount(), await newAccount()]
  const project = await createProject(other)
  await setMember(other, project, owner, 'manager')
  const receiver = await startReceiver(t)
  const webhook = await create(owner, receiver.url, { project_id: project.id })
  await createTask(owner, { title: 'Elsewhere' })
  const task = await createTask(other, { title: 'Here', project_id: project.id })
  await receiver.expect(1)
  t.strictSame(
    receiver.received.map(({ message }) => message.data.task_id),
    [task.id],
  )
  await setMember(other, project, owner, 'editor')
  await change(other, task, { title: 'Unseen' })
  const marker = await startReceiver(t)
  await create(other, marker.url, { project_id: project.id })
  await change(other, task, { title: 'Unseen as well' })
  await marker.expect(1)
  t.notOk(receiver.types().slice(1).includes('task.updated'))
  const all = await deliveriesOf(other, webhook)
  t.notOk(
    all.some(({ event_type }) => event_type === 'task.updated'),
    'no deliveries are created',
  )
})

t.test('events that the owner can no longer see are withheld', async (t) => {
  const [owner, other] = [await newAccount(), await newAccount()]
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const receiver = await startReceiver(t, async (response) => {
    await released
    response.writeHead(204).end()
  })
  const webhook = await create(owner, receiver.url)
  const task = await createTask(other, { title: 'Assigned', assignee_id: owner.id })
  await receiver.expect(1)
  // Created after the first was selected, so it is selected and its access is checked separately.
  await change(other, task, { title: 'Waits' })
  await settled(owner, webhook, 2, () => true)
  await change(other, task, { assignee_id: null })
  release()
  const deliveries = await settled(owner, webhook, 2)
  t.strictSame(
    deliveries.map(({ status, attempts }) => [status, attempts]),
    [
      ['delivered', 1],
      ['withheld', 0],
    ],
  )
  t.equal(receiver.received.length, 1)
  const params = { webhook_id: webhook.id, delivery_id: deliveries[0]?.id ?? '' }
  await service.expect('redeliverWebhook', 201, { token: owner.token, params })
  const [, , again] = await settled(owner, webhook, 3)
  t.match(again, { status: 'withheld', event_id: deliveries[0]?.event_id, sequence: 3 })
})

t.test('failed deliveries are retried with the same id', async (t) => {
  const owner = await newAccount()
  const replies: Behaviour[] = [
    (response) => void response.writeHead(503, { 'retry-after': '3600' }).end('busy'),
    (response) => void response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(),
    (response) => void response.destroy(),
  ]
  const receiver = await startReceiver(t, (response, index) =>
    (replies[index] ?? ((one) => void one.end()))(response, index),
  )
  const webhook = await create(owner, receiver.url)
  await createTask(owner, { title: 'A task' })
  const [busy] = await settled(owner, webhook, 1, isTried)
  t.match(busy, {
    status: 'pending',
    attempts: 1,
    response_status: 503,
    response_body: 'busy',
    ended_at: null,
  })
  const wait = Date.parse(busy?.next_attempt_at ?? '') - Date.parse(busy?.attempted_at ?? '')
  t.ok(Math.abs(wait - 3_600_000) < 5_000, 'Retry-After is honoured')
  t.type((await read(owner, webhook)).failing_since, 'string')
  await makeDue(webhook)
  await receiver.expect(2)
  const [redirected] = await settled(owner, webhook, 1, ({ attempts }) => attempts === 2)
  t.match(redirected, { status: 'pending', response_status: 302 })
  await makeDue(webhook)
  await receiver.expect(3)
  const [lost] = await settled(owner, webhook, 1, ({ attempts }) => attempts === 3)
  t.match(lost, { status: 'pending', response_status: null, error: 'connection_failed' })
  await makeDue(webhook)
  await receiver.expect(4)
  const [delivered] = await settled(owner, webhook, 1)
  t.match(delivered, {
    status: 'delivered',
    attempts: 4,
    response_status: 200,
    error: null,
    next_attempt_at: null,
  })
  t.equal((await read(owner, webhook)).failing_since, null)
  t.equal(new Set(idsOf(receiver.received)).size, 1)
  t.equal(new Set(receiver.received.map(({ body }) => body)).size, 1, 'the same bytes')
})

t.test('a delivery fails permanently after three days', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t, (response) => void response.writeHead(500).end())
  const webhook = await create(owner, receiver.url)
  await createTask(owner, { title: 'A task' })
  await settled(owner, webhook, 1, isTried)
  await db.run(
    `update webhook_deliveries set created_at = created_at - interval '72 hours' where webhook_id = $1`,
    [webhook.id],
  )
  await makeDue(webhook)
  await receiver.expect(2)
  const [failed] = await settled(owner, webhook, 1)
  t.match(failed, { status: 'failed', attempts: 2, next_attempt_at: null })
  t.match(await read(owner, webhook), { is_enabled: true })
})

t.test('a webhook that fails for three days is disabled, with a mail', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t, (response) => void response.writeHead(500).end())
  const webhook = await create(owner, receiver.url)
  await createTask(owner, { title: 'A task' })
  await settled(owner, webhook, 1, isTried)
  await db.run(`update webhooks set failing_since = now() - interval '73 hours' where id = $1`, [webhook.id])
  await makeDue(webhook)
  await receiver.expect(2)
  await eventually('the webhook is disabled', async () => !(await read(owner, webhook)).is_enabled)
  t.match(await read(owner, webhook), { disabled_reason: 'failing' })
  await eventually('the owner gets a mail', async () => mailsTo(owner).length > 0)
  const params = { webhook_id: webhook.id }
  const refused = await service.expect('testWebhook', 409, { token: owner.token, params })
  t.match(refused.body, { code: 'webhook_disabled' })
  const sent = receiver.received.length
  await createTask(owner, { title: 'Not told' })
  await makeDue(webhook)
  const other = await startReceiver(t)
  const marker = await create(owner, other.url)
  await createTask(owner, { title: 'Told elsewhere' })
  await settled(owner, marker, 1)
  t.equal(receiver.received.length, sent)
  t.equal((await deliveriesOf(owner, webhook)).length, 1)
  await service.expect('updateWebhook', 200, { token: owner.token, params, body: { is_enabled: true } })
  await receiver.expect(sent + 1)
  t.pass('pending deliveries are sent after it is enabled again')
  t.strictSame(mailsTo(owner), [{ to: owner.email, url: receiver.url }], 'one mail')
})

t.test('a webhook that recovers is not disabled', async (t) => {
  const owner = await newAccount()
  const replies = [500, 200, 500]
  const receiver = await startReceiver(
    t,
    (response, index) => void response.writeHead(replies[index] ?? 200).end(),
  )
  const webhook = await create(owner, receiver.url)
  await createTask(owner, { title: 'Fails' })
  await settled(owner, webhook, 1, isTried)
  await db.run(`update webhooks set failing_since = now() - interval '73 hours' where id = $1`, [webhook.id])
  await makeDue(webhook)
  await receiver.expect(2)
  await settled(owner, webhook, 1)
  await createTask(owner, { title: 'Fails again' })
  await receiver.expect(3)
  await settled(owner, webhook, 2, isTried)
  const { is_enabled: isEnabled, failing_since: since } = await read(owner, webhook)
  t.ok(isEnabled)
  t.ok(Date.now() - Date.parse(since ?? '') < 3_600_000, 'failing_since is after the last success')
  t.strictSame(mailsTo(owner), [])
})

t.test('attempts are stored in one batch up to the first failure', async (t) => {
  const owner = await newAccount()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const receiver = await startReceiver(t, async (response, index) => {
    if (index === 0) await released
    response.writeHead(index === 2 ? 500 : index === 3 ? 410 : 204).end()
  })
  const webhook = await create(owner, receiver.url, { event_types: ['task.created'] })
  await createTask(owner, { title: 'First' })
  await receiver.expect(1)
  for (const title of ['Second', 'Third', 'Fourth', 'Fifth']) await createTask(owner, { title })
  await settled(owner, webhook, 5, () => true)
  release()
  await receiver.expect(4)
  await eventually('the webhook is disabled', async () => !(await read(owner, webhook)).is_enabled)
  const deliveries = (await deliveriesOf(owner, webhook)).toReversed()
  t.strictSame(
    deliveries.map(({ status, attempts, response_status: answer }) => [status, attempts, answer]),
    [
      ['delivered', 1, 204],
      ['delivered', 1, 204],
      ['pending', 1, 500],
      ['failed', 1, 410],
      ['pending', 0, null],
    ],
  )
  t.equal(receiver.received.length, 4)
})

t.test('a webhook is disabled after 410', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t, (response) => void response.writeHead(410).end())
  const webhook = await create(owner, receiver.url)
  await createTask(owner, { title: 'A task' })
  const [delivery] = await settled(owner, webhook, 1)
  t.match(delivery, { status: 'failed', attempts: 1, response_status: 410 })
  t.match(await read(owner, webhook), { is_enabled: false, disabled_reason: 'gone' })
})

t.test('test deliveries and redeliveries are sent', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t)
  const webhook = await create(owner, receiver.url, { event_types: ['project.*'] })
  const params = { webhook_id: webhook.id }
  const headers = { 'idempotency-key': 'a-test' }
  const { body: tested, headers: received } = await service.expect('testWebhook', 201, {
    token: owner.token,
    params,
    headers,
  })
  t.equal(received.get('location'), `/webhooks/${webhook.id}/deliveries/${tested.id}`)
  const again = await service.expect('testWebhook', 201, { token: owner.token, params, headers })
  t.equal(again.body.id, tested.id)
  const [delivered] = await settled(owner, webhook, 1)
  t.match(delivered, { id: tested.id, event_type: 'webhook.test', status: 'delivered', event_id: tested.id })
  t.match(receiver.received[0]?.message, { type: 'webhook.test', data: { webhook_id: webhook.id } })
  const path = { ...params, delivery_id: tested.id }
  const { body: repeated } = await service.expect('redeliverWebhook', 201, {
    token: owner.token,
    params: path,
  })
  t.match(repeated, { event_id: tested.id, sequence: 2, attempts: 0 })
  await settled(owner, webhook, 2)
  t.strictSame(idsOf(receiver.received), [tested.id, tested.id])
  const unknown = { ...params, delivery_id: webhook.id }
  await service.expect('redeliverWebhook', 404, { token: owner.token, params: unknown })
  await service.expect('getWebhookDelivery', 404, { token: owner.token, params: unknown })
  await service.expect('getWebhookDelivery', 404, { token: (await newAccount()).token, params: path })
  const query = { status: ['failed', 'withheld'] }
  const none = await service.expect('listWebhookDeliveries', 200, { token: owner.token, params, query })
  t.strictSame(none.body.items, [])
})

t.test('both secrets sign during a rotation', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t)
  const webhook = await create(owner, receiver.url)
  const params = { webhook_id: webhook.id }
  const { body: rotated } = await service.expect('rotateWebhookSecret', 200, { token: owner.token, params })
  await createTask(owner, { title: 'Signed twice' })
  await receiver.expect(1)
  const [both] = receiver.received
  if (both === undefined) throw new Error('Nothing was received')
  t.equal(
    both.headers['webhook-signature'],
    `${expectedSignature(rotated.secret, both)} ${expectedSignature(webhook.secret, both)}`,
  )
  await db.run(`update webhooks set previous_secret_until = now() - interval '1 ms' where id = $1`, [
    webhook.id,
  ])
  await createTask(owner, { title: 'Signed once' })
  await receiver.expect(2)
  const [, once] = receiver.received
  if (once === undefined) throw new Error('Nothing was received')
  t.equal(once.headers['webhook-signature'], expectedSignature(rotated.secret, once))
})

/** What receivers do to occupy a request for as long as they can. */
const stalls: readonly Behaviour[] = [
  // No response.
  () => undefined,
  // A body of a byte per second.
  (response) => {
    response.writeHead(200)
    const timer = setInterval(() => response.write('x'), 1_000)
    response.once('close', () => clearInterval(timer))
  },
  // A response before the time limit.
  async (response) => {
    await pause(6_000, undefined, { ref: false })
    response.writeHead(204).end()
  },
  // Nothing after switching to another protocol.
  (response) =>
    void response.socket?.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    ),
]

/** Starts a receiver that stalls in all of these ways. `urls` has a URL for each, and `most` counts the concurrent requests of a URL. */
const startStalling = async (t: Test, isStalling = (): boolean => true) => {
  const open = new Map<string, number>()
  let most = 0
  const receiver: Receiver = await startReceiver(t, (response, index) => {
    if (!isStalling()) return void response.writeHead(204).end()
    const url = receiver.received[index]?.url ?? ''
    const count = (open.get(url) ?? 0) + 1
    open.set(url, count)
    most = Math.max(most, count)
    response.once('close', () => open.set(url, (open.get(url) ?? 0) - 1))
    return stalls[Number(url.at(-1))]?.(response, index)
  })
  const urls = (name: string, count: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => `${receiver.url}?${name}-${index}-${index % stalls.length}`)
  return { received: receiver.received, urls, most: () => most, expect: receiver.expect }
}

const createEach = (account: Account, urls: readonly string[]) =>
  Promise.all(urls.map((url) => create(account, url, { event_types: ['task.created'] })))

const createTasks = async ({ token }: Account, count: number): Promise<void> => {
  const create = Array.from({ length: count }, (_, index) => ({ title: `Task ${index}` }))
  await service.expect('batchTasks', 200, { token, body: { create } })
}

const newAccounts = async (count: number): Promise<readonly Account[]> => {
  const found: Account[] = []
  while (found.length < count) found.push(await newAccount())
  return found
}

/** Disables the webhooks of a user, so that they do not disturb other tests. */
const disable = ({ id }: Account) =>
  db.run('update webhooks set is_enabled = false where owner_id = $1', [id])

t.test('dozens of stalling receivers do not delay other users', async (t) => {
  const [owners, other] = [await newAccounts(10), await newAccount()]
  const stalling = await startStalling(t)
  const healthy = await startReceiver(t)
  for (const owner of owners) {
    t.teardown(() => disable(owner))
    await createEach(owner, stalling.urls(owner.id, 8))
  }
  await createEach(other, [healthy.url])
  for (const owner of owners) await createTasks(owner, 4)
  await stalling.expect(32)
  for (let count = 1; count <= 5; count += 1) {
    await createTasks(other, 1)
    await healthy.expect(count)
  }
  // A webhook that is created meanwhile has not proven itself, but need not wait for those that stall.
  const [late] = await newAccounts(1)
  const latecomer = await startReceiver(t)
  if (late !== undefined) await createEach(late, [latecomer.url])
  if (late !== undefined) await createTasks(late, 1)
  await latecomer.expect(1)
  t.equal(stalling.most(), 1, 'a failing webhook has one request at a time')
})

t.test("dozens of stalling receivers do not delay their owner's other webhooks", async (t) => {
  const owner = await newAccount()
  const stalling = await startStalling(t)
  const healthy = await startReceiver(t)
  t.teardown(() => disable(owner))
  await createEach(owner, stalling.urls(owner.id, 16))
  await createEach(
    owner,
    Array.from({ length: 10 }, (_, index) => `${healthy.url}?${index}`),
  )
  await createTasks(owner, 10)
  await healthy.expect(100)
  t.equal(stalling.most(), 1)
})

t.test("dozens of one user's receivers that stall do not delay others", async (t) => {
  // A single instance, so that one user's requests could occupy all of its slots.
  const own = await openTestDatabase(t)
  const alone = await startService(t, { ...options, db: own.db })
  await readerHasStarted(own.db)
  const [owner, ...others] = [
    await alone.register('stalling'),
    await alone.register('slow'),
    await alone.register('new'),
  ]
  const createOwn = async ({ token }: Account, url: string, queue: WebhookQueue) => {
    const body = { url, event_types: ['task.created'] }
    const { id } = (await alone.expect('createWebhook', 201, { token, body })).body
    await own.db.run('update webhooks set queue = $1 where id = $2', [queue, id])
  }
  const createOwnTask = ({ token }: Account) =>
    alone.expect('createTask', 201, { token, body: { title: 'A task' } })
  let ended = 0
  const stalling = await startReceiver(t, (response) => void response.once('close', () => (ended += 1)))
  const healthy = await startReceiver(t)
  for (let index = 0; index < 40; index += 1)
    await createOwn(owner, stalling.url, index % 2 === 0 ? 'prompt' : 'unproven')
  for (const [index, other] of others.entries())
    await createOwn(other, healthy.url, index === 0 ? 'slow' : 'unproven')
  await createOwnTask(owner)
  await stalling.expect(40)
  for (const other of others) await createOwnTask(other)
  await healthy.expect(2)
  t.equal(ended, 0, 'before the first stalled request ends')
})

t.test('receivers that all begin to stall do not delay others', async (t) => {
  const [owners, other] = [await newAccounts(5), await newAccount()]
  let isStalling = false
  const stalling = await startStalling(t, () => isStalling)
  const healthy = await startReceiver(t)
  for (const owner of owners) {
    t.teardown(() => disable(owner))
    await createEach(owner, stalling.urls(owner.id, 8))
    await createEach(owner, [`${healthy.url}?${owner.id}`])
  }
  await createEach(other, [healthy.url])
  for (const owner of [...owners, other]) await createTasks(owner, 2)
  await stalling.expect(owners.length * 8 * 2)
  await healthy.expect((owners.length + 1) * 2)
  isStalling = true
  for (const owner of owners) await createTasks(owner, 4)
  await stalling.expect(owners.length * 8 * 2 + 20)
  await createTasks(other, 4)
  await healthy.expect((owners.length + 1) * 6)
  t.equal(stalling.most(), 1)
})

t.test('receivers that fail do not delay others, and are tried once a second', async (t) => {
  const [owners, other] = [await newAccounts(3), await newAccount()]
  const failing = await startReceiver(t, (response) => void response.writeHead(500).end())
  const healthy = await startReceiver(t)
  for (const owner of owners) {
    t.teardown(() => disable(owner))
    await createEach(
      owner,
      Array.from({ length: 8 }, () => failing.url),
    )
    await createEach(owner, [healthy.url])
  }
  const once = await newAccount()
  const own = await startReceiver(t, (response) => void response.writeHead(500).end())
  const [webhook] = await createEach(once, [own.url])
  if (webhook === undefined) throw new Error('There is no webhook')
  t.teardown(() => disable(once))
  await createEach(other, [healthy.url])
  for (const owner of [...owners, other]) await createTasks(owner, 20)
  await healthy.expect(80)
  await createTasks(once, 3)
  await own.expect(3)
  const tried = await settled(once, webhook, 3, isTried)
  const times = tried.map(({ attempted_at: at }) => Date.parse(at ?? '')).toSorted((a, b) => a - b)
  for (const [index, time] of times.entries())
    if (index > 0) t.ok(time - (times[index - 1] ?? 0) >= 999, 'a second after the one before')
})

t.test('a webhook that cannot be served does not delay others', async (t) => {
  const [broken, other] = [await newAccount(), await newAccount()]
  const stalling = await startStalling(t)
  const healthy = await startReceiver(t)
  const [stalled] = await createEach(broken, stalling.urls('stalls', 1))
  const [unsigned] = await createEach(broken, [healthy.url])
  await db.run(`update webhooks set secret = '' where id = $1`, [unsigned?.id])
  await createEach(other, [healthy.url])
  await createTasks(broken, 1)
  await stalling.expect(1)
  for (let count = 1; count <= 5; count += 1) {
    await createTasks(other, 1)
    await healthy.expect(count)
  }
  const [delivery] = await deliveriesOf(broken, stalled ?? { id: '' })
  t.equal(delivery?.attempts, 0, 'before the stalled request ends')
})

t.test('a user has four requests to prompt receivers at a time', async (t) => {
  const owner = await newAccount()
  const held: (() => void)[] = []
  let isHolding = false
  let max = 0
  const receiver = await startReceiver(t, (response) => {
    const answer = (): void => void response.writeHead(204).end()
    if (isHolding) max = Math.max(max, held.push(answer))
    else answer()
  })
  const webhooks = await createEach(
    owner,
    Array.from({ length: 6 }, () => receiver.url),
  )
  await createTask(owner, { title: 'One' })
  for (const webhook of webhooks) await settled(owner, webhook, 1)
  isHolding = true
  await createTask(owner, { title: 'Two' })
  await createTask(owner, { title: 'Three' })
  await receiver.expect(6 + 4)
  t.equal(new Set(idsOf(receiver.received.slice(6))).size, 1, 'the same event of four webhooks')
  await eventually('all requests have arrived', async () => {
    for (const answer of held.splice(0)) answer()
    return receiver.received.length === 18
  })
  t.equal(max, 4)
})

t.test('events of concurrent writers arrive once each', async (t) => {
  const owner = await newAccount()
  const receiver = await startReceiver(t)
  const webhook = await create(owner, receiver.url, { event_types: ['task.created'] })
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      for (let index = 0; index < 5; index += 1) await createTask(owner, { title: `${writer} ${index}` })
    }),
  )
  await receiver.expect(40)
  await eventually('nothing is pending', async () => {
    const query = { status: 'pending', include_total: true }
    const { body } = await service.expect('listWebhookDeliveries', 200, {
      token: owner.token,
      params: { webhook_id: webhook.id },
      query,
    })
    return body.total === 0
  })
  t.equal(receiver.received.length, 40)
  t.equal(new Set(receiver.received.map(({ message }) => message.data.task_id)).size, 40)
  t.strictSame(
    // A retried delivery may arrive after later ones.
    receiver.received.map(({ headers }) => Number(headers['webhook-sequence'])).toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index + 1),
  )
})

t.test('deliveries are sent even if the database is slow to select them', async (t) => {
  const own = await openTestDatabase(t)
  const slow: typeof own.db = {
    ...own.db,
    async run(...parameters) {
      if (parameters[0].includes('webhook_deliveries.select_next')) await pause(600)
      return own.db.run(...parameters)
    },
  }
  const slowService = await startService(t, { ...options, db: own.db, backgroundDb: slow })
  const { token } = await slowService.register('ada')
  const receiver = await startReceiver(t)
  const body = { url: receiver.url, event_types: ['*'] }
  const { body: webhook } = await slowService.expect('createWebhook', 201, { token, body })
  await slowService.expect('testWebhook', 201, { token, params: { webhook_id: webhook.id } })
  await receiver.expect(1)
})
