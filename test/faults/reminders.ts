import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { copyTemplate, type ServiceEnvironment } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'
import { startReceiver } from '../fixture/webhooks.ts'

/** Kills the service while a thousand reminders fall due: each is recorded once, and delivered to webhooks under one id. */

const taskCount = 500
/** Few at a time, which one caller can send without a refusal on a busy machine. */
const batchSize = 20
const reminders = [{ relative_to: 'start' }, { relative_to: 'due' }] as const
const total = taskCount * reminders.length
/** How many reminders have fired at a kill, at least. */
const kills = [200, 600]

const remind = async (t: Test, environment: ServiceEnvironment): Promise<void> => {
  const receiver = await startReceiver(t)
  const start = () => startProcess(t, { ...environment, WEBHOOK_ALLOW: '127.0.0.1' })
  let service = await start()
  let client = createClient(service.url)
  const { token } = await client.register('ada')
  await client.expect('createWebhook', 201, {
    token,
    body: { url: receiver.url, event_types: ['task.reminder'] },
  })
  const tasks: string[] = []
  for (let first = 0; first < taskCount; first += batchSize) {
    const create = Array.from({ length: batchSize }, (_, n) => ({ title: `Task ${first + n}` }))
    const { body } = await client.expect('batchTasks', 200, { token, body: { create } })
    const created = body.create.map(({ task_id }) => task_id ?? '')
    tasks.push(...created)
    for (const body of reminders)
      await Promise.all(
        created.map((task_id) => client.expect('createReminder', 201, { token, params: { task_id }, body })),
      )
  }
  // They fall due within four seconds, and after all of them have been set.
  const now = Date.now()
  const update = tasks.map((task_id, n) => {
    const start = now + 20_000 + n * 8
    const patch = { start_at: new Date(start).toISOString(), due_at: new Date(start + 1).toISOString() }
    return { task_id, patch }
  })
  for (let first = 0; first < taskCount; first += batchSize) {
    const body = { atomic: true, update: update.slice(first, first + batchSize) }
    await client.expect('batchTasks', 200, { token, body })
  }

  const pending = async (): Promise<number> => {
    const query = { is_pending: true, limit: 1, include_total: true }
    return (await client.expect('listReminders', 200, { token, query })).body.total ?? total
  }
  for (const fired of kills) {
    await eventually(`${fired} reminders have fired`, async () => total - (await pending()) >= fired)
    t.comment(`killed with ${await pending()} of ${total} to come`)
    t.equal(await service.end('SIGKILL'), null)
    service = await start()
    client = createClient(service.url)
  }
  await eventually('all reminders have fired', async () => (await pending()) === 0)
  // A webhook waits for the lease of the process that was killed.
  await eventually('all are delivered', async () => idsOf().size === total, 90_000)

  function idsOf(): ReadonlyMap<string, ReadonlySet<string>> {
    const byReminder = Map.groupBy(receiver.received, ({ message }) => message.data.resource_id ?? '')
    return new Map(
      [...byReminder].map(([id, sent]) => [
        id,
        new Set(sent.map(({ headers }) => String(headers['webhook-id']))),
      ]),
    )
  }
  t.ok(
    [...idsOf().values()].every((ids) => ids.size === 1),
    'each is delivered under one id',
  )
  // No further ones follow.
  await pause(1_000)
  const recorded: (string | null)[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const query = { limit: 200, ...(cursor !== undefined && { cursor }) }
    const { body } = await client.expect('listNotifications', 200, { token, query })
    recorded.push(...body.items.map(({ reminder_id }) => reminder_id))
    cursor = body.next_cursor
  }
  t.equal(recorded.length, total, 'as many notifications as reminders')
  t.equal(new Set(recorded).size, total, 'each reminder has its own')
  t.equal(await service.end('SIGTERM'), 0)
}

t.test('with PostgreSQL of the service', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await remind(t, { DATA_DIR })
})

t.test('on a server', async (t) =>
  remind(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) }),
)
