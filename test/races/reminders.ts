import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { fireDueReminders } from '../../src/db/tasks/due-reminders.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { remindAt } from '../../src/domain/tasks/reminders.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Reminders that are computed and fired while other requests change what they depend on. */

type Reminder = components['schemas']['Reminder']

const { db, options } = await openTestDatabase(t)
/** Reminders fire only by `fireAll`. */
const service = await startService(t, {
  db,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 },
})
const otherDb = openDatabase(options)
t.teardown(() => otherDb.close())

const { createTask } = taskActions(service)
const ada = await service.register('ada')
const { token } = ada
const rounds = Array.from({ length: 15 }, (_, index) => index)

const remind = (task_id: string, body: object) =>
  service.call('createReminder', { token, params: { task_id }, body })

const patchTask = (task_id: string, body: object) =>
  service.call('updateTask', { token, params: { task_id }, body })

const patchSelf = (body: object) => service.call('updateUser', { token, params: { user_id: 'me' }, body })

const remindersOf = async (task_id: string): Promise<readonly Reminder[]> =>
  (await service.expect('listReminders', 200, { token, query: { task_id: [task_id] } })).body.items

const fireAll = async (): Promise<void> => {
  const { signal } = new AbortController()
  await Promise.all([db, otherDb, db, otherDb].map((one) => fireDueReminders(one, signal)))
}

t.test(
  'dates, the time zone and the reminder change at once: it is computed from what they are in the end',
  async (t) => {
    const zones = ['Europe/Berlin', 'America/New_York', 'Asia/Tokyo']
    for (const round of rounds) {
      const task = await createTask(ada, { due_on: '2090-01-06' })
      await remind(task.id, { relative_to: 'due', offset_minutes: -1440 })
      const [first] = await remindersOf(task.id)
      const undated = await createTask(ada)
      await remind(undated.id, { relative_to: 'due' })
      const closing = await createTask(ada, { due_on: '2090-01-06', recurrence: { rule: 'FREQ=DAILY' } })
      await remind(closing.id, { relative_to: 'due' })
      await Promise.all([
        patchTask(undated.id, { due_on: '2090-01-20' }),
        patchTask(closing.id, { status: 'done' }),
        patchTask(task.id, { due_on: `2090-02-${10 + round}` }),
        patchSelf({ time_zone: zones[round % zones.length] }),
        patchTask(task.id, { due_at: `2090-03-${10 + round}T12:00:00.000Z` }),
        patchSelf({ time_zone: zones[(round + 1) % zones.length] }),
        remind(task.id, { relative_to: 'due' }),
        service.call('updateReminder', {
          token,
          params: { reminder_id: first?.id ?? '' },
          body: { time_of_day: '07:15' },
        }),
      ])
      const { body: user } = await service.expect('getCurrentUser', 200, { token })
      const { body: closed } = await service.expect('getTask', 200, {
        token,
        params: { task_id: closing.id },
      })
      for (const task_id of [task.id, undated.id, closed.occurrence?.next_task_id ?? '']) {
        const { body: present } = await service.expect('getTask', 200, { token, params: { task_id } })
        const reminders = await remindersOf(task_id)
        t.equal(reminders.length, task_id === task.id ? 2 : 1)
        for (const { at, offset_minutes, time_of_day, remind_at, is_pending } of reminders) {
          const time = { at, relative_to: 'due', offset_minutes, time_of_day } as const
          t.equal(remind_at, remindAt(time, present, user.time_zone))
          t.equal(is_pending, true)
        }
      }
    }
  },
)

t.test('thirty reminders at once: twenty are created', async (t) => {
  const { id } = await createTask(ada)
  const replies = await Promise.all(
    Array.from({ length: 30 }, (_, minute) => remind(id, { at: `2090-01-06T09:${minute + 10}:00.000Z` })),
  )
  t.equal(replies.filter(({ status }) => status === 201).length, 20)
  t.equal(replies.filter(({ status }) => status === 413).length, 10)
})

t.test('ten equal reminders at once: one is created', async (t) => {
  const { id } = await createTask(ada)
  const replies = await Promise.all(Array.from({ length: 10 }, () => remind(id, { relative_to: 'due' })))
  t.strictSame(
    replies.map(({ status }) => status).toSorted((a, b) => a - b),
    [201, ...Array.from({ length: 9 }, () => 409)],
  )
})

t.test('two closings at once do not use the same room', async (t) => {
  for (const round of rounds) {
    const eve = await service.register(`eve${round}`)
    const eveRequest = { token: eve.token }
    const full = await createTask(eve)
    await db.run(
      `insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
       select event_id(now(), n), $2, $1, 'due', n, '09:00' from generate_series(1, 999) n`,
      [eve.id, full.id],
    )
    const tasks = await Promise.all(
      [1, 2].map(async () => {
        const task = await createTask(eve, { due_on: '2090-01-06', recurrence: { rule: 'FREQ=DAILY' } })
        const subtask = await createTask(eve, { parent_id: task.id, due_on: '2090-01-06', status: 'done' })
        const params = { task_id: subtask.id }
        await service.expect('createReminder', 201, { ...eveRequest, params, body: { relative_to: 'due' } })
        return task
      }),
    )
    const close = (task_id: string) =>
      service.expect('updateTask', 200, { ...eveRequest, params: { task_id }, body: { status: 'done' } })
    await Promise.all(tasks.map(({ id }) => close(id)))
    const [live] = await db.run(
      `select count(*)::int as n from reminders join tasks on tasks.id = task_id and status = 'todo' where user_id = $1`,
      [eve.id],
    )
    t.equal(live?.n, 1_000)
  }
})

t.test('four processes fire at once, while tasks are deleted, closed and moved', async (t) => {
  for (const _round of rounds) {
    const tasks = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const task = await createTask(ada, { due_on: '2090-01-06' })
        await Promise.all([
          remind(task.id, { relative_to: 'due' }),
          remind(task.id, { relative_to: 'due', time_of_day: '10:00' }),
        ])
        return task
      }),
    )
    const ids = tasks.map(({ id }) => id)
    await db.run(
      `update reminders set fires_at = now() - interval '1 second' where task_id in (${ids.map((id) => `'${id}'`).join()})`,
      [],
      'once',
    )
    const [deleted = '', closed = '', moved = '', ...untouched] = ids
    const deletedTaskRequest = { token, params: { task_id: deleted } }
    const [, replies] = await Promise.all([
      fireAll(),
      Promise.all([
        patchTask(closed, { status: 'done' }),
        patchTask(moved, { due_on: '2090-01-07' }),
        service
          .call('deleteTask', deletedTaskRequest)
          .then(async (reply) =>
            reply.status === 204 ? service.call('deleteTrashedTask', deletedTaskRequest) : reply,
          ),
      ]),
    ])
    t.strictSame(
      replies.map(({ status }) => status),
      [200, 200, 204],
    )
    await fireAll()
    const counts = await db.run(
      `select task_id::text, count(*)::int as records, count(distinct reminder_id)::int as reminders from notifications
       where task_id in (${ids.map((id) => `'${id}'`).join()}) group by task_id`,
      [],
      'once',
    )
    const byTask = new Map(counts.map(({ task_id, records, reminders }) => [task_id, [records, reminders]]))
    for (const id of untouched) t.strictSame(byTask.get(id), [2, 2], 'each exactly once')
    for (const [records = 0, reminders] of byTask.values()) t.equal(records, reminders, 'none twice')
    t.equal(byTask.has(deleted), false)
    for (const { remind_at, is_pending } of await remindersOf(moved)) {
      t.match(remind_at, /^2090-01-0[67]T.*/)
      t.equal(is_pending, true, 'one that was moved is still to come')
    }
  }
})
