import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { copyTemplate, openDatabaseOf, type ServiceEnvironment } from '../fixture/database.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { type Account, createClient } from '../fixture/service.ts'

/**
 * Kills the service while many clients change the same tasks. Each change has its event and each event its change, in the order
 * of the changes: replaying the events yields the current task.
 */

type Task = components['schemas']['Task']
type Values = Readonly<Record<string, unknown>>

interface Change {
  readonly type: string
  readonly before: Values
  readonly after: Values
}

const changes = 1_000
const kills = 3
const writers = 8
/** Fewer than the writers, so that these wait for each other. */
const taskCount = 3

const fields = ['title', 'description', 'status', 'priority', 'assignee_id'] as const

/** Replays changes to a state. Fails if a change does not continue the one before. */
const replay = (t: Test, events: readonly Change[]): Values => {
  const state: Record<string, unknown> = {}
  for (const { type, before, after } of events) {
    const current = Object.keys(before).map((name) => [name, state[name] ?? null])
    t.strictSame(Object.fromEntries(current), before, `${type} continues the state before it`)
    Object.assign(state, after)
  }
  return Object.fromEntries(fields.map((name) => [name, state[name] ?? null]))
}

const changeTasks = async (t: Test, environment: ServiceEnvironment): Promise<void> => {
  const acknowledged: string[] = []
  let tasks: readonly string[] = []
  let next = 0

  const write = async (
    { call }: ReturnType<typeof createClient>,
    { id, token }: Account,
    target: number,
  ): Promise<void> => {
    while (acknowledged.length < target) {
      const number = (next += 1)
      const title = `Change ${number}`
      const body = {
        title,
        ...(number % 2 === 0 && { status: number % 4 === 0 ? 'done' : 'todo' }),
        ...(number % 3 === 0 && { assignee_id: number % 6 === 0 ? id : null }),
      }
      const params = { task_id: tasks[number % taskCount] ?? '' }
      const { status } = await call('updateTask', { token, params, body })
      if (status === 200) acknowledged.push(title)
      else if (status !== 503) throw new Error(`updateTask answered ${status}`)
    }
  }

  const present = new Map<string, Values>()
  const compareHistories = async (
    t: Test,
    { expect }: ReturnType<typeof createClient>,
    { token }: Account,
  ): Promise<void> => {
    const titles: unknown[] = []
    for (const task_id of tasks) {
      const events: Change[] = []
      for (let cursor: string | null | undefined; cursor !== null;) {
        const query = { limit: 200, ...(cursor !== undefined && { cursor }) }
        const { body } = await expect('listTaskEvents', 200, { token, params: { task_id }, query })
        events.unshift(...body.items.toReversed())
        cursor = body.next_cursor
      }
      const { body } = await expect('getTask', 200, { token, params: { task_id } })
      const task: Task = body
      present.set(task_id, Object.fromEntries(fields.map((name) => [name, task[name]])))
      t.strictSame(replay(t, events), present.get(task_id), 'the history replays to the task')
      titles.push(...events.map(({ after }) => after['title']))
    }
    const unique = new Set(titles)
    t.equal(titles.length - taskCount, unique.size - 1, 'no change has two events')
    t.ok(
      acknowledged.every((title) => unique.has(title)),
      'no acknowledged change is missing',
    )
    t.ok(acknowledged.length >= changes, `${acknowledged.length} changes, ${kills} kills`)
  }

  let account: Account | null = null
  for (let round = 1; round <= kills + 1; round += 1) {
    await t.test(round > kills ? 'after the last kill' : `kill ${round}`, async (t) => {
      const service = await startProcess(t, { ...environment })
      const client = createClient(service.url)
      if (account === null) {
        account = await client.register('ada')
        const { token } = account
        const created = Array.from({ length: taskCount }, () =>
          client.expect('createTask', 201, { token, body: { title: 'A task' } }),
        )
        tasks = (await Promise.all(created)).map(({ body }) => body.id)
      }
      const writer = account
      const target = Math.ceil((changes * round) / (kills + 1))
      const writing = Array.from({ length: writers }, () => write(client, writer, target))
      if (round > kills) {
        await Promise.all(writing)
        await t.test('each history replays to its task', (t) => compareHistories(t, client, writer))
        t.equal(await service.end('SIGTERM'), 0)
        return
      }
      // The other writers are in the middle of a change.
      await Promise.race(writing)
      t.equal(await service.end('SIGKILL'), null)
      await Promise.allSettled(writing)
    })
  }

  await t.test('the outbox replays to each task', async (t) => {
    const database = await openDatabaseOf(environment)
    const db = openDatabase(database.options)
    for (const task_id of tasks) {
      const events = await db.run(
        'select type, before::text, after::text from events where task_id = $1 order by changed_in, ordinal',
        [task_id],
      )
      const parsed = events.map(({ type, before, after }) => ({
        type: String(type),
        before: JSON.parse(String(before)) as Values,
        after: JSON.parse(String(after)) as Values,
      }))
      t.strictSame(replay(t, parsed), present.get(task_id), 'the outbox replays to the task')
    }
    await db.close()
    await database.close()
  })
}

t.test('with PostgreSQL of the service', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await changeTasks(t, { DATA_DIR })
})

t.test('on a server', async (t) =>
  changeTasks(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) }),
)
