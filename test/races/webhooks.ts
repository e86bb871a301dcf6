import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, type Outcomes, racesOn } from '../fixture/races.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'
import { readerHasStarted } from '../fixture/webhooks.ts'

/** Writes to webhooks that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, expectOutcomes } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const manager = await service.register('manager')
const { createProject, setMember } = projectActions(service)
const { createTask } = taskActions(service)

const webhookBody = { url: 'http://127.0.0.1:9/', event_types: ['task.created'] }

const projectOutcomes = {
  'the caller becomes a viewer': 404,
  'the caller is removed': 404,
  'the project is moved to the trash': 404,
} as const

const webhookOutcomes = {
  ...projectOutcomes,
  'the webhook is deleted': 404,
  'the webhook is changed': 412,
} as const
const deliveryOutcomes = {
  ...projectOutcomes,
  'the webhook is deleted': 404,
  'the webhook is disabled': 409,
} as const

const writes: {
  readonly [Operation in OperationId]?: { readonly body?: object; readonly outcomes: Outcomes }
} = {
  updateWebhook: { body: { description: 'Written' }, outcomes: webhookOutcomes },
  rotateWebhookSecret: { outcomes: webhookOutcomes },
  deleteWebhook: { outcomes: webhookOutcomes },
  testWebhook: { outcomes: deliveryOutcomes },
  redeliverWebhook: { outcomes: deliveryOutcomes },
}

const newProject = async (): Promise<string> => {
  const project = await createProject(admin)
  await setMember(admin, project, manager, 'manager')
  return project.id
}

/** A webhook of a project that the caller manages, with a delivery. */
const prepare = async () => {
  const project = await newProject()
  const body = { ...webhookBody, project_id: project }
  const { id: webhook } = (await service.expect('createWebhook', 201, { token: manager.token, body })).body
  const delivery = newId()
  // Already delivered, since the sender would wait for the webhook as well.
  await db.run(
    `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, status)
    values ($1, $2, 0, $1, 'webhook.test', 'delivered')`,
    [delivery, webhook],
  )
  return { delivery, ids: { caller: manager.id, project, webhook } }
}

for (const [operation, { outcomes, ...request }] of Object.entries(writes))
  t.test(`${operation} waits`, (t) =>
    expectOutcomes(t, outcomes, {
      prepare,
      send: ({ ids, delivery }) => {
        const params = { webhook_id: ids.webhook }
        return service.call(operation as OperationId, {
          ...request,
          token: manager.token,
          params: operation === 'redeliverWebhook' ? { ...params, delivery_id: delivery } : params,
          headers: outcomes === webhookOutcomes ? { 'if-match': '"1"' } : {},
        })
      },
    }),
  )

t.test('createWebhook waits', (t) =>
  expectOutcomes(
    t,
    {
      'the caller becomes a viewer': 403,
      'the caller is removed': 422,
      'the project is moved to the trash': 422,
    },
    {
      prepare: async () => ({ ids: { caller: manager.id, project: await newProject() } }),
      send: ({ ids: { project } }) =>
        service.call('createWebhook', {
          token: manager.token,
          body: { ...webhookBody, project_id: project },
        }),
    },
  ),
)

t.test('concurrent creations of webhooks do not exceed the quota', async (t) => {
  const { id, token } = await service.register('owner-of-many')
  await db.run(
    `insert into webhooks (id, owner_id, url, event_types, secret)
    select gen_random_uuid(), $1, 'https://example.com/', '{*}', '' from generate_series(1, 99)`,
    [id],
  )
  const create = async () => (await service.call('createWebhook', { token, body: webhookBody })).status
  // One user has three connections.
  const statuses = await resultAfter(t, { hold: [held(`users where id = '${id}'`)], waiting: 3 }, () =>
    Promise.all(Array.from({ length: 20 }, create)),
  )
  t.strictSame(
    statuses.toSorted((one, other) => one - other),
    [201, ...Array.from({ length: 19 }, () => 413)],
  )
})

t.test('a delivery that waits for another one is due after it', async (t) => {
  const { token } = manager
  const { id } = (await service.expect('createWebhook', 201, { token, body: webhookBody })).body
  const change = `
    with webhook as (
      update webhooks set last_sequence = last_sequence + 1 where id = '${id}' returning *
    )
    insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, status, due_at)
    select gen_random_uuid(), id, last_sequence, gen_random_uuid(), 'task.created', 'delivered', clock_timestamp()
    from webhook`
  const reply = await resultAfter(t, { hold: [held(`webhooks where id = '${id}'`)], change }, () =>
    service.expect('testWebhook', 201, { token, params: { webhook_id: id } }),
  )
  const { sequence, next_attempt_at } = reply.body
  t.equal(sequence, 2)
  const [row] = await db.run(
    'select $2::timestamptz >= due_at as is_after from webhook_deliveries where webhook_id = $1 and sequence = 1',
    [id, next_attempt_at],
  )
  t.equal(row?.is_after, true)
})

t.test('a webhook that is created while deliveries are made receives only later events', async (t) => {
  const owner = await service.register('owner')
  const { token } = owner
  // Deliveries are made only if there are webhooks.
  await service.expect('createWebhook', 201, { token, body: webhookBody })
  await readerHasStarted(db)
  const id = newId()
  const change = `insert into webhooks (id, owner_id, url, event_types, secret, created_at)
    values ('${id}', '${owner.id}', 'https://example.com/', '{*}', '', clock_timestamp())`
  // A stronger lock would get a transaction id, and the reader would wait for its end before it reads the event.
  const hold = ['lock table webhook_deliveries in exclusive mode']
  await resultAfter(t, { hold, change }, () => createProject(owner, 'Earlier'))
  await createTask(owner, { title: 'Later' })
  const params = { webhook_id: id }
  await eventually('there are deliveries', async () => {
    const { items } = (await service.expect('listWebhookDeliveries', 200, { token, params })).body
    if (items.length === 0) return false
    t.strictSame(
      items.map(({ event_type }) => event_type),
      ['task.created'],
    )
    return true
  })
})
