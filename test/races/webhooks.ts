import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/engine/ids.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, memberRemoved, racesOn, roleSet } from '../fixture/races.ts'
import { startService } from '../fixture/service.ts'

/** Writes to webhooks that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { skip, resultAfter } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const manager = await service.register('manager')
const { createProject, setMember } = projectActions(service)

const webhookBody = { url: 'http://127.0.0.1:9/', event_types: ['task.created'] }

/** What happens while a write to a webhook of a project waits, its status, and that of a creation. */
const changesOfWebhook = {
  'the manager becomes a viewer': {
    sql: (project: string) => roleSet({ project, user: manager.id }, 'viewer'),
    status: 404,
    ofCreation: 403,
  },
  'the manager is removed': {
    sql: (project: string) => memberRemoved({ project, user: manager.id }),
    status: 404,
    ofCreation: 422,
  },
  'the project is moved to the trash': {
    sql: (project: string) => `update projects set deleted_at = now() where id = '${project}'`,
    status: 404,
    ofCreation: 422,
  },
  'the webhook is deleted': {
    sql: (project: string) => `update webhooks set deleted_at = now() where project_id = '${project}'`,
    status: 404,
    ofCreation: null,
  },
  'the webhook is changed': {
    sql: (project: string) => `update webhooks set description = 'Changed' where project_id = '${project}'`,
    status: 412,
    ofCreation: null,
  },
  'the webhook is disabled': {
    sql: (project: string) => `update webhooks set is_enabled = false where project_id = '${project}'`,
    status: 409,
    ofCreation: null,
  },
} as const

const writesToWebhook: readonly (readonly [OperationId, object])[] = [
  ['updateWebhook', { body: { description: 'Written' } }],
  ['rotateWebhookSecret', {}],
  ['deleteWebhook', {}],
  ['testWebhook', {}],
  ['redeliverWebhook', {}],
]

for (const [what, { sql, status, ofCreation }] of Object.entries(changesOfWebhook)) {
  for (const [operation, request] of writesToWebhook) {
    const addsDelivery = operation === 'testWebhook' || operation === 'redeliverWebhook'
    if (status === (addsDelivery ? 412 : 409)) continue
    t.test(`${operation} waits while ${what}: ${status}`, { skip }, async (t) => {
      const project = await createProject(admin)
      await setMember(admin, project, manager, 'manager')
      const { token } = manager
      const body = { ...webhookBody, project_id: project.id }
      const { id } = (await service.expect('createWebhook', 201, { token, body })).body
      const deliveryId = newId()
      // Already delivered, since the sender would wait for the webhook as well.
      await db.run(
        `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, status)
        values ($1, $2, 0, $1, 'webhook.test', 'delivered')`,
        [deliveryId, id],
      )
      const params = { webhook_id: id }
      const hold = [held(`projects where id = '${project.id}'`), held(`webhooks where id = '${id}'`)]
      const reply = await resultAfter(t, { hold, change: sql(project.id) }, () =>
        service.call(operation, {
          ...request,
          token,
          params: operation === 'redeliverWebhook' ? { ...params, delivery_id: deliveryId } : params,
          headers: status === 412 ? { 'if-match': '"1"' } : {},
        }),
      )
      t.equal(reply.status, status)
    })
  }
  if (ofCreation === null) continue
  t.test(`createWebhook waits while ${what}: ${ofCreation}`, { skip }, async (t) => {
    const project = await createProject(admin)
    await setMember(admin, project, manager, 'manager')
    const hold = [held(`users where id = '${manager.id}'`), held(`projects where id = '${project.id}'`)]
    const reply = await resultAfter(t, { hold, change: sql(project.id) }, () =>
      service.call('createWebhook', {
        token: manager.token,
        body: { ...webhookBody, project_id: project.id },
      }),
    )
    t.equal(reply.status, ofCreation)
  })
}

t.test('concurrent creations of webhooks do not exceed the quota', { skip }, async (t) => {
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

t.test('a delivery that waits for another one is due after it', { skip }, async (t) => {
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
