import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { changesToBeKnown, readChanges } from '../fixture/changes.ts'
import { eventually } from '../fixture/eventually.ts'
import { notificationOf } from '../fixture/notifications.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { noSeries, pointersOf, taskActions, type Task, unknownId } from '../fixture/tasks.ts'

type Event = components['schemas']['Event']
type Problem = components['schemas']['Problem']

/** Recurring tasks, through the operations of tasks. The rules themselves are in test/domain/tasks/recurrence.ts. */

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask, createTag, readTask, addComment, attachFile } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const admin = await service.register('admin')
const ada = await service.register('ada')
const bob = await service.register('bob')

const patch = async ({ token }: Account, task: { readonly id: string }, body: object): Promise<Task> =>
  (await service.expect('updateTask', 200, { token, params: { task_id: task.id }, body })).body

const refused = async ({ token }: Account, task: { readonly id: string }, body: object) => {
  const reply = await service.call('updateTask', { token, params: { task_id: task.id }, body })
  const problem = reply.body as Problem
  return { status: reply.status, code: problem.code, detail: problem.detail, at: pointersOf(problem) }
}

const read = async (account: Account, id: string | null): Promise<Task> =>
  (await readTask(account, id ?? unknownId)).task

const seriesIdOf = ({ occurrence }: Task): string => occurrence?.series_id ?? ''

const nextOf = ({ occurrence }: Task): string | null => occurrence?.next_task_id ?? null

/** Closes a task, and reads the next one. */
const close = async (account: Account, task: { readonly id: string }, status = 'done'): Promise<Task> =>
  read(account, nextOf(await patch(account, task, { status })))

/** The series that a client sees. */
const seriesOf = ({ recurrence, occurrence }: Task) => ({ recurrence, occurrence })

const idsOf = async ({ token }: Account, query: Readonly<Record<string, string>>): Promise<string[]> =>
  (await service.expect('listTasks', 200, { token, query: { sort: 'created_at', ...query } })).body.items.map(
    ({ id }) => id,
  )

/** The position of the change feed after all changes so far. */
const endOfChanges = async (): Promise<string> => {
  for (let since = ''; ;) {
    const page = await readChanges(service, ada, { limit: 200, ...(since !== '' && { since }) })
    since = page.next_cursor
    if (!page.has_more) return since
  }
}

const weekly = { rule: 'FREQ=WEEKLY' }

t.test('recurrence of a task', async (t) => {
  t.test('is canonical, has defaults, and makes the task occurrence 1', async (t) => {
    const time_zone = 'America/New_York'
    const { id, token } = await service.register('zoned')
    await service.expect('updateUser', 200, { token, params: { user_id: id }, body: { time_zone } })
    const body = {
      title: 'x',
      due_on: '2090-01-06',
      recurrence: { rule: 'byday=fr,mo;INTERVAL=1;freq=weekly' },
    }
    const created = (await service.expect('createTask', 201, { token, body })).body
    t.match(created.recurrence, {
      rule: 'FREQ=WEEKLY;BYDAY=MO,FR',
      time_zone,
      from: 'schedule',
      month_end: 'last_day',
      missed: 'skip',
    })
    t.match(created.occurrence, { number: 1, on: '2090-01-06', at: null, next_task_id: null })
    t.ok(created.occurrence?.series_id)
    t.match(seriesOf(await createTask(ada)), noSeries)
    t.match(await createTask(ada, { start_at: '2090-01-06T09:00:00Z', recurrence: weekly }), {
      occurrence: { at: '2090-01-06T09:00:00.000Z', on: null },
    })
  })

  t.test('does not repeat what the date says', async (t) => {
    for (const [due_on, rule, shortest] of [
      ['2090-01-06', 'FREQ=WEEKLY;BYDAY=FR', 'FREQ=WEEKLY'],
      ['2090-01-06', 'FREQ=WEEKLY;BYDAY=MO', 'FREQ=WEEKLY;BYDAY=MO'],
      ['2090-01-31', 'FREQ=MONTHLY;BYMONTHDAY=31', 'FREQ=MONTHLY'],
      ['2090-02-28', 'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=28', 'FREQ=YEARLY'],
    ] as const) {
      const task = await createTask(ada, { due_on, recurrence: { rule } })
      t.equal(task.recurrence?.rule, shortest, rule)
      t.equal((await patch(ada, task, { recurrence: { rule } })).version, 1, 'the same again changes nothing')
    }
  })

  t.test('is merged field by field, replaced, and removed', async (t) => {
    const task = await createTask(ada, { due_on: '2090-01-06', recurrence: { ...weekly, missed: 'each' } })
    const changed = await patch(ada, task, {
      recurrence: { rule: 'FREQ=DAILY;COUNT=3', time_zone: 'europe/berlin' },
    })
    t.match(changed.recurrence, { rule: 'FREQ=DAILY;COUNT=3', time_zone: 'Europe/Berlin', missed: 'each' })
    t.equal(seriesIdOf(changed), seriesIdOf(task))
    const put = async (fields: object) =>
      (
        await service.expect('replaceTask', 200, {
          token: ada.token,
          params: { task_id: task.id },
          body: { title: 'x', due_on: '2090-01-06', ...fields },
        })
      ).body
    t.match((await put({})).recurrence, { rule: 'FREQ=DAILY;COUNT=3', missed: 'each' }, 'omitted: kept')
    t.match((await put({ recurrence: weekly })).recurrence, {
      rule: 'FREQ=WEEKLY',
      missed: 'skip',
      time_zone: 'UTC',
    })
    t.match(seriesOf(await put({ recurrence: null })), noSeries)
    t.match(await refused(ada, task, { recurrence: { missed: 'each' } }), {
      status: 400,
      at: ['/recurrence/rule'],
    })
    const again = await patch(ada, task, { recurrence: weekly })
    const moved = await put({ recurrence: again.recurrence, due_on: '2090-01-08' })
    t.match(
      moved,
      { due_on: '2090-01-08', occurrence: { on: '2090-01-06' } },
      'what a read returned is no change',
    )
  })

  t.test('400: a part that is not supported, with its name', async (t) => {
    for (const [rule, part] of [
      ['FREQ=HOURLY', 'FREQ'],
      ['FREQ=DAILY;BYHOUR=9', 'BYHOUR'],
      ['FREQ=DAILY;COUNT=2;UNTIL=20900101', 'UNTIL'],
      ['FREQ=WEEKLY;BYMONTHDAY=1', 'BYMONTHDAY'],
    ] as const) {
      const body = { title: 'x', due_on: '2090-01-06', recurrence: { rule } }
      const reply = await service.call('createTask', { token: ada.token, body })
      t.match(reply, { status: 400, body: { code: 'invalid_request' } }, rule)
      t.match((reply.body as Problem).detail, part, rule)
      t.match((reply.body as Problem).detail, /^recurrence\/rule is not valid: [A-Z].*[^.]\.$/, rule)
      t.strictSame(pointersOf(reply.body as Problem), ['/recurrence/rule'], rule)
    }
    t.match(await refused(ada, { id: unknownId }, { recurrence: { rule: 'FREQ=HOURLY' } }), {
      at: ['/recurrence/rule'],
    })
    const zone = { ...weekly, time_zone: 'Europe/Atlantis' }
    t.match(await refused(ada, { id: unknownId }, { recurrence: zone }), { at: ['/recurrence/time_zone'] })
  })

  t.test('422: without a date, and when the last date is cleared', async (t) => {
    const without = { status: 422, code: 'invalid_recurrence', at: ['/recurrence'] }
    const task = await createTask(ada)
    t.match(await refused(ada, task, { recurrence: weekly }), without)
    const dated = await patch(ada, task, { due_on: '2090-01-06', recurrence: weekly })
    t.match(await refused(ada, task, { due_on: null }), without)
    t.match(await patch(ada, task, { due_on: null, start_on: '2090-01-05' }), {
      occurrence: { series_id: seriesIdOf(dated), on: '2090-01-05' },
    })
  })

  t.test('403: for those who cannot create tasks there', async (t) => {
    const project = await createProject(ada)
    const task = await createTask(ada, {
      project_id: project.id,
      assignee_id: bob.id,
      due_on: '2090-01-06',
    })
    t.match(await refused(bob, task, { recurrence: weekly }), { status: 403 })
    await patch(ada, task, { recurrence: weekly })
    const closed = await patch(bob, task, { status: 'done' })
    t.match(await read(ada, nextOf(closed)), {
      assignee_id: bob.id,
      owner_id: ada.id,
      due_on: '2090-01-13',
    })
  })

  t.test('422: in a tree that recurs, and no more than 100 tasks in one', async (t) => {
    const parent = await createTask(ada, { due_on: '2090-01-06' })
    const child = await createTask(ada, { parent_id: parent.id, due_on: '2090-01-06' })
    const outside = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    await patch(ada, parent, { recurrence: weekly })
    const nested = { status: 422, code: 'invalid_recurrence' }
    t.match(await refused(ada, child, { recurrence: weekly }), { ...nested, at: ['/recurrence'] })
    t.match(await refused(ada, outside, { parent_id: parent.id }), { ...nested, at: ['/parent_id'] })
    await patch(ada, parent, { recurrence: null })
    await patch(ada, child, { recurrence: weekly })
    t.match(await refused(ada, parent, { recurrence: weekly }), { ...nested, at: ['/recurrence'] })
    await patch(ada, child, { recurrence: null })
    await patch(ada, parent, { recurrence: weekly })
    const subtask = { title: 'x', parent_id: child.id }
    const create = async (count: number) =>
      (
        await service.expect('batchTasks', 200, {
          token: ada.token,
          body: { create: Array.from({ length: count }, () => subtask) },
        })
      ).body.create.filter(({ status }) => status === 201).length
    t.equal(await create(60), 60)
    t.equal(await create(60), 38)
    const reply = await service.call('createTask', { token: ada.token, body: subtask })
    t.match(reply, { status: 422, body: { code: 'invalid_recurrence' } })
    t.match(await close(ada, parent), { subtask_count: 1, open_subtask_count: 1, due_on: '2090-01-13' })
  })

  t.test('422: a new, a moved or a restored task that recurs below another one', async (t) => {
    const parent = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    const nested = { title: 'x', due_on: '2090-01-06', recurrence: weekly, parent_id: parent.id }
    const created = await service.call('createTask', { token: ada.token, body: nested })
    t.match(created, { status: 422, body: { code: 'invalid_recurrence' } })
    const other = await createTask(ada, { due_on: '2090-01-06' })
    t.match(await refused(ada, other, { recurrence: weekly, parent_id: parent.id }), { status: 422 })
    const [above, below] = [
      await createTask(ada, { due_on: '2090-01-06' }),
      await createTask(ada, { due_on: '2090-01-06' }),
    ]
    await patch(ada, below, { recurrence: weekly, parent_id: above.id })
    const params = { task_id: below.id }
    await service.expect('deleteTask', 204, { token: ada.token, params })
    await patch(ada, above, { recurrence: weekly })
    const restored = (await service.expect('restoreTask', 200, { token: ada.token, params })).body
    t.match(restored, { parent_id: null, recurrence: { rule: 'FREQ=WEEKLY' } }, 'it leaves its parent')
  })

  t.test("a spent task is in nobody's way", async (t) => {
    const parent = await createTask(ada, { due_on: '2090-01-06' })
    const child = await createTask(ada, { parent_id: parent.id, due_on: '2090-01-06', recurrence: weekly })
    const next = await close(ada, child)
    await patch(ada, next, { recurrence: null })
    await patch(ada, parent, { recurrence: weekly })
    t.match(await patch(ada, child, { due_on: null }), { due_on: null })
  })
})

t.test('closing a task', async (t) => {
  t.test('creates the next one, with what belongs to it', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'editor')
    const tag = await createTag(ada, 'garden', { project_id: project.id })
    const task = await createTask(ada, {
      title: 'Water the plants',
      description: 'All of them.',
      priority: 'high',
      project_id: project.id,
      assignee_id: bob.id,
      tag_ids: [tag.id],
      start_at: '2090-03-24T07:00:00Z',
      due_at: '2090-03-25T08:00:00Z',
      recurrence: { ...weekly, time_zone: 'Europe/Berlin' },
    })
    const [open, done] = [
      await createTask(bob, { title: 'Front', parent_id: task.id, due_on: '2090-03-24' }),
      await createTask(ada, { title: 'Back', parent_id: task.id, status: 'done' }),
    ]
    const below = await createTask(ada, { title: 'Roses', parent_id: open.id, tag_ids: [tag.id] })
    const params = { task_id: task.id }
    await service.expect('unfollowTask', 204, { token: bob.token, params })
    await addComment(ada, task.id)
    await attachFile(ada, task.id)
    const closed = await patch(bob, task, { status: 'done' })
    const next = await read(bob, nextOf(closed))
    t.match(next, {
      title: 'Water the plants',
      description: 'All of them.',
      priority: 'high',
      status: 'todo',
      owner_id: ada.id,
      assignee_id: bob.id,
      project_id: project.id,
      position: task.position,
      tags: [{ id: tag.id }],
      // Daylight saving time began on 26 March.
      start_at: '2090-03-31T06:00:00.000Z',
      due_at: '2090-04-01T07:00:00.000Z',
      recurrence: task.recurrence,
      occurrence: {
        series_id: seriesIdOf(task),
        number: 2,
        at: '2090-03-31T06:00:00.000Z',
        on: null,
        next_task_id: null,
      },
      comment_count: 0,
      attachment_count: 0,
      subtask_count: 2,
      open_subtask_count: 2,
      version: 1,
    })
    t.match(closed, {
      status: 'done',
      recurrence: task.recurrence,
      occurrence: { number: 1 },
      open_subtask_count: 0,
    })
    const subtasks = async (parent: string) =>
      (
        await service.expect('listTasks', 200, {
          token: ada.token,
          query: { parent_id: parent, sort: 'title' },
        })
      ).body.items
    const [back, front] = await subtasks(next.id)
    t.match(
      [back, front],
      [
        { title: 'Back', status: 'todo', due_on: null },
        { title: 'Front', status: 'todo', due_on: '2090-03-31', owner_id: bob.id, subtask_count: 1 },
      ],
    )
    t.match(await subtasks(front?.id ?? ''), [{ title: 'Roses', tags: [{ id: tag.id }], status: 'todo' }])
    t.match(await read(ada, open.id), { status: 'cancelled' })
    t.match(await read(ada, done.id), { status: 'done' })
    t.match(await read(ada, below.id), { status: 'cancelled' })
    const followers = async (task_id: string) =>
      (await service.expect('listTaskFollowers', 200, { token: ada.token, params: { task_id } })).body.items
        .map(({ user_id }) => user_id)
        .toSorted()
    t.strictSame(await followers(next.id), await followers(task.id))
    t.strictSame(await followers(next.id), [ada.id], 'bob has unfollowed the task')
    await changesToBeKnown(db)
    const { items } = (
      await service.expect('listEvents', 200, {
        token: ada.token,
        query: { project_id: project.id, limit: 100 },
      })
    ).body
    const since = items
      .slice(
        0,
        items.findIndex(({ type }) => type === 'attachment.created'),
      )
      .toReversed()
    const said = since.map(({ type, task_id, resource_id, actor_id }: Event) => [
      type,
      task_id,
      resource_id,
      actor_id,
    ])
    t.strictSame(
      new Set(said.slice(0, 3).map(([type, id]) => `${type} ${id}`)),
      new Set([task, open, below].map(({ id }) => `task.updated ${id}`)),
    )
    t.match(
      said.slice(3, 7).map(([type]) => type),
      Array.from({ length: 4 }, () => 'task.created'),
    )
    t.match(said[3], ['task.created', next.id, null, bob.id])
    t.match(said.at(-1), ['task.recurred', task.id, next.id, bob.id])
    t.match(since.find(({ type, task_id }) => type === 'task.updated' && task_id === task.id)?.after, {
      status: 'done',
      occurrence: { next_task_id: next.id },
    })
    t.match(since[3]?.after, { recurred_from: task.id, occurrence: { number: 2 } })
    t.strictSame(since.at(-1)?.after, {
      occurrence: { number: 2, at: '2090-03-31T06:00:00.000Z', on: null },
    })
  })

  t.test('moves by the rule, not by the dates that the task was moved to', async (t) => {
    const task = await createTask(ada, {
      start_on: '2090-01-30',
      due_on: '2090-01-31',
      recurrence: { rule: 'FREQ=MONTHLY', anchor: 'due' },
    })
    await patch(ada, task, { due_on: '2090-02-02' })
    const second = await close(ada, task)
    t.match(second, {
      start_on: '2090-02-27',
      due_on: '2090-02-28',
      occurrence: { on: '2090-02-28', number: 2 },
    })
    const third = await close(ada, second, 'cancelled')
    t.match(third, { start_on: '2090-03-30', due_on: '2090-03-31', occurrence: { number: 3 } })
    const anchored = await patch(ada, third, { due_on: '2090-04-15', recurrence: third.recurrence ?? {} })
    t.match(anchored, { occurrence: { number: 1, on: '2090-04-15', series_id: seriesIdOf(task) } })
    t.match(await close(ada, anchored), { due_on: '2090-05-15' })
  })

  t.test('keeps the days between the dates of an occurrence that was moved', async (t) => {
    const dates = { start_on: '2090-01-05', due_on: '2090-01-06' }
    const nextDates = { start_on: '2090-01-12', due_on: '2090-01-13' }
    for (const anchor of ['start', 'due']) {
      const task = await createTask(ada, { ...dates, recurrence: { ...weekly, anchor } })
      await patch(ada, task, { start_on: '2090-01-10', due_on: '2090-01-11' })
      t.match(await close(ada, task), nextDates, `both, ${anchor}`)
      const postponed = await createTask(ada, { ...dates, recurrence: { ...weekly, anchor } })
      await patch(ada, postponed, { due_on: '2090-01-10' })
      // The date that the series does not count from is for the next ones too.
      const expected = anchor === 'due' ? nextDates : { ...nextDates, due_on: '2090-01-17' }
      t.match(await close(ada, postponed), expected, `the due date, ${anchor}`)
    }
    const started = await createTask(ada, { start_at: '2090-01-05T09:00:00Z', recurrence: weekly })
    t.match(await close(ada, started), { start_at: '2090-01-12T09:00:00.000Z', due_at: null })
  })

  t.test('skips what was missed, or not', async (t) => {
    const today = new Date().toISOString().slice(0, 10)
    const fields = { due_on: '2020-01-01', recurrence: { rule: 'FREQ=DAILY', time_zone: 'UTC' } }
    const skipping = await close(ada, await createTask(ada, fields))
    t.ok((skipping.due_on ?? '') >= today)
    t.ok((skipping.occurrence?.number ?? 0) > 2_000)
    const each = { ...fields, recurrence: { ...fields.recurrence, missed: 'each' } }
    t.match(await close(ada, await createTask(ada, each)), {
      due_on: '2020-01-02',
      occurrence: { number: 2 },
    })
    const early = await createTask(ada, { ...fields, due_on: '2090-01-01' })
    t.match(await close(ada, early), { due_on: '2090-01-02' })
    const afterCompletion = { rule: 'FREQ=DAILY;INTERVAL=90', time_zone: 'UTC', from: 'completion' }
    const completed = await close(ada, await createTask(ada, { ...fields, recurrence: afterCompletion }))
    const in90Days = new Date(Date.now() + 90 * 86_400_000).toISOString().slice(0, 10)
    t.ok(completed.due_on === in90Days || (completed.due_on ?? '') > in90Days)
  })

  t.test('ends with the rule, or with the request', async (t) => {
    const twice = await createTask(ada, { due_on: '2090-01-06', recurrence: { rule: 'FREQ=DAILY;COUNT=2' } })
    const last = await close(ada, twice)
    t.match(await patch(ada, last, { status: 'done' }), {
      occurrence: { next_task_id: null },
      recurrence: twice.recurrence,
    })
    const until = await createTask(ada, {
      due_on: '2090-01-06',
      recurrence: { rule: 'FREQ=DAILY;UNTIL=20900106' },
    })
    t.match(await patch(ada, until, { status: 'done' }), { occurrence: { next_task_id: null } })
    const ended = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    t.match(seriesOf(await patch(ada, ended, { status: 'done', recurrence: null })), noSeries)
    await changesToBeKnown(db)
    const history = { token: ada.token, params: { task_id: ended.id } }
    const [end, start] = (await service.expect('listTaskEvents', 200, history)).body.items
    const recorded = { series_id: seriesIdOf(ended), number: 1, on: '2090-01-06' }
    t.match([start?.before, end?.after], [{}, { recurrence: null, occurrence: null }])
    t.strictSame(start?.after.occurrence, recorded, 'a creation has only values')
    t.strictSame(end?.before.occurrence, recorded, 'a change has what differs')
  })

  t.test('is done once: a spent task has its next one for good', async (t) => {
    const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    const next = await close(ada, task)
    const spent = { status: 422, code: 'invalid_recurrence' }
    const refusal = await refused(ada, task, { recurrence: { rule: 'FREQ=DAILY' } })
    t.match(refusal, spent)
    t.match(refusal.detail, next.id)
    t.match(await refused(ada, task, { recurrence: null }), spent)
    t.match(
      await patch(ada, task, { recurrence: weekly }),
      { occurrence: { next_task_id: next.id } },
      'the same is accepted',
    )
    await patch(ada, next, { title: 'Touched' })
    t.match(
      await patch(ada, task, { status: 'todo' }),
      { occurrence: { next_task_id: next.id } },
      'both stay',
    )
    t.match(await patch(ada, task, { status: 'done' }), { occurrence: { next_task_id: next.id } })
    const params = { task_id: next.id }
    await service.expect('deleteTask', 204, { token: ada.token, params })
    await service.expect('deleteTrashedTask', 204, { token: ada.token, params })
    await patch(ada, task, { status: 'todo' })
    t.match(
      await patch(ada, task, { status: 'done' }),
      { occurrence: { next_task_id: next.id } },
      'even if it was deleted',
    )
    t.strictSame(await idsOf(ada, { series_id: seriesIdOf(task) }), [task.id])
  })

  t.test('is done with a recurrence that is set by the same request', async (t) => {
    const tag = await createTag(ada, 'at once')
    const task = await createTask(ada, { description: 'Words', due_on: '2090-01-06', tag_ids: [tag.id] })
    await createTask(ada, { title: 'Below', description: 'More words', parent_id: task.id })
    const closed = await patch(ada, task, { status: 'done', recurrence: weekly })
    const next = await read(ada, nextOf(closed))
    t.match(next, { description: 'Words', tags: [{ id: tag.id }], due_on: '2090-01-13' })
    const query = { parent_id: next.id }
    const { items } = (await service.expect('listTasks', 200, { token: ada.token, query })).body
    t.match(items, [{ description: 'More words' }])
  })

  t.test('leaves the next one alone in another project', async (t) => {
    const project = await createProject(ada)
    const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    const next = await close(ada, task)
    await patch(ada, task, { project_id: project.id })
    t.match(await patch(ada, task, { status: 'todo' }), { occurrence: { next_task_id: next.id } })
    t.match(await patch(ada, task, { status: 'done' }), { occurrence: { next_task_id: next.id } })
    t.match(await read(ada, next.id), { status: 'todo', project_id: null })
  })

  t.test('keeps dates of subtasks in order when the clock changes', async (t) => {
    const task = await createTask(ada, {
      due_on: '2027-03-21',
      recurrence: { ...weekly, time_zone: 'Europe/Berlin' },
    })
    // 02:30 to 03:00; a week later, 02:30 is 03:30.
    const dates = { start_at: '2027-03-21T01:30:00Z', due_at: '2027-03-21T02:00:00Z' }
    await createTask(ada, { parent_id: task.id, ...dates })
    await createTask(ada, { parent_id: task.id, start_at: '0001-01-01T00:00:00Z' })
    const next = await close(ada, task)
    const query = { parent_id: next.id, sort: '-start' }
    const { items } = (await service.expect('listTasks', 200, { token: ada.token, query })).body
    t.match(items[0], { start_at: '2027-03-28T01:00:00.000Z', due_at: '2027-03-28T01:00:00.000Z' })
  })

  t.test('does nothing if the item of a batch fails', async (t) => {
    const project = await createProject(ada)
    const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    const below = await createTask(ada, { parent_id: task.id })
    const update = [{ task_id: task.id, patch: { project_id: project.id, due_on: null } }]
    const { body } = await service.expect('batchTasks', 200, { token: ada.token, body: { update } })
    t.match(body.update, [{ status: 422 }])
    t.match(await read(ada, below.id), { project_id: null, version: 1 })
  })

  t.test('and reopening it in one batch', async (t) => {
    const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    const update = ['done', 'todo', 'done', 'todo'].map((status) => ({ task_id: task.id, patch: { status } }))
    await service.expect('batchTasks', 200, { token: ada.token, body: { update } })
    t.match(await read(ada, task.id), { status: 'todo', occurrence: { next_task_id: null } })
    t.strictSame(await idsOf(ada, { series_id: seriesIdOf(task) }), [task.id])
  })

  t.test('is taken back by reopening, if nobody has touched the next one', async (t) => {
    const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
    await createTask(ada, { title: 'Below', parent_id: task.id })
    const next = await close(ada, task)
    const since = await endOfChanges()
    t.match(await patch(ada, task, { status: 'in_progress' }), { occurrence: { next_task_id: null } })
    for (const operation of ['getTask', 'getTrashedTask'] as const) {
      const gone = await service.call(operation, { token: ada.token, params: { task_id: next.id } })
      t.equal(gone.status, 404, operation)
    }
    const { deleted } = await readChanges(service, ada, { since })
    t.ok(deleted.includes(next.id), 'the change feed has the deletion')
    const again = await close(ada, task)
    t.match(again, { due_on: '2090-01-13', occurrence: { number: 2 }, subtask_count: 1 })
    t.strictSame(await idsOf(ada, { series_id: seriesIdOf(task) }), [task.id, again.id])
    const relation = { task_id: again.id, kind: 'relates_to', other_task_id: next.id }
    const other = await createTask(ada)
    await service.expect('addTaskRelation', 204, {
      token: ada.token,
      params: { ...relation, other_task_id: other.id },
    })
    t.match(
      await patch(ada, task, { status: 'todo' }),
      { occurrence: { next_task_id: again.id } },
      'a relation is a touch',
    )
  })

  t.test('413: when the owner has no quota for the next one', async (t) => {
    const { token, id, ...account } = await service.register('full')
    const task = await createTask({ ...account, token, id }, { due_on: '2090-01-06', recurrence: weekly })
    const quota = { token: admin.token, params: { user_id: id }, body: { task_quota: 1 } }
    await service.expect('updateUser', 200, quota)
    const request = { token, params: { task_id: task.id } }
    const reply = await service.call('updateTask', { ...request, body: { status: 'done' } })
    t.match(reply, { status: 413, body: { code: 'quota_exceeded', detail: /"recurrence": null/ } })
    await service.expect('updateTask', 200, { ...request, body: { status: 'done', recurrence: null } })
  })

  t.test('in a batch: each task has its next one, with what the batch changed before', async (t) => {
    const tasks = [
      await createTask(ada, { title: 'One', due_on: '2090-01-06', recurrence: weekly }),
      await createTask(ada, { title: 'Two', due_on: '2090-01-07', recurrence: weekly }),
    ]
    const update = tasks.flatMap(({ id }) => [
      { task_id: id, patch: { description: 'New' } },
      { task_id: id, patch: { status: 'done' } },
    ])
    await service.expect('batchTasks', 200, { token: ada.token, body: { update } })
    for (const { id, due_on } of tasks) {
      const next = await read(ada, nextOf(await read(ada, id)))
      t.match(next, { description: 'New', occurrence: { number: 2 } })
      t.not(next.due_on, due_on)
    }
  })

  t.test('does not notify the assignee of the next one', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'editor')
    const task = await createTask(ada, {
      project_id: project.id,
      assignee_id: bob.id,
      due_on: '2090-01-06',
      recurrence: weekly,
    })
    const next = await close(ada, task)
    const other = await createTask(ada, { project_id: project.id, assignee_id: bob.id })
    await notificationOf(service, bob, other.id)
    const { items } = (await service.expect('listNotifications', 200, { token: bob.token })).body
    t.notOk(items.some(({ task_id }) => task_id === next.id))
    t.ok(items.some(({ task_id, reason }) => task_id === task.id && reason === 'assignment'))
  })
})

t.test('the date that a series counts from', async (t) => {
  const may = { start_on: '2090-05-01', due_on: '2090-05-31' }
  const monthly = { rule: 'FREQ=MONTHLY' }

  t.test('is the start by default, or what the request says', async (t) => {
    const byStart = await createTask(ada, { ...may, recurrence: monthly })
    t.match(byStart, { recurrence: { anchor: 'start' }, occurrence: { on: '2090-05-01' } })
    const june = await close(ada, byStart)
    t.match(june, { start_on: '2090-06-01', due_on: '2090-07-01', occurrence: { on: '2090-06-01' } })
    const byDue = await createTask(ada, { ...may, recurrence: { ...monthly, anchor: 'due' } })
    t.match(byDue, { recurrence: { anchor: 'due' }, occurrence: { on: '2090-05-31' } })
    t.match(await close(ada, byDue), { start_on: '2090-05-31', due_on: '2090-06-30' })
    const onlyDue = await createTask(ada, { due_on: '2090-05-31', recurrence: monthly })
    t.match(onlyDue.recurrence, { anchor: 'due' })
    t.match((await patch(ada, onlyDue, { start_on: '2090-05-01' })).recurrence, { anchor: 'due' })
  })

  t.test('is that of the rule: rent from the 1st to the 5th, and a night shift', async (t) => {
    const rent = await createTask(ada, {
      start_on: '2090-01-01',
      due_on: '2090-01-05',
      recurrence: { rule: 'FREQ=MONTHLY;BYMONTHDAY=1' },
    })
    t.match(await close(ada, rent), { start_on: '2090-02-01', due_on: '2090-02-05' })
    const shift = await createTask(ada, {
      start_at: '2090-03-20T21:00:00Z',
      due_at: '2090-03-21T05:00:00Z',
      recurrence: { rule: 'FREQ=WEEKLY;BYDAY=MO', time_zone: 'Europe/Berlin' },
    })
    // 22:00 to 06:00, before and after the clock changed.
    const next = await close(ada, shift)
    t.match(next, { start_at: '2090-03-27T20:00:00.000Z', due_at: '2090-03-28T04:00:00.000Z' })
  })

  t.test('counts from the completion', async (t) => {
    const today = () => new Date().toISOString().slice(0, 10)
    const task = await createTask(ada, {
      start_on: '2090-01-01',
      due_on: '2090-01-04',
      recurrence: { rule: 'FREQ=DAILY;INTERVAL=10', from: 'completion', time_zone: 'UTC' },
    })
    const days = (from: string | null, to: string | null) =>
      (Date.parse(to ?? '') - Date.parse(from ?? '')) / 86_400_000
    const before = today()
    const next = await close(ada, task)
    t.ok([before, today()].some((day) => days(day, next.start_on) === 10))
    t.equal(days(next.start_on, next.due_on), 3)
  })

  t.test('is kept by changes, of PUT too, and can be changed', async (t) => {
    const task = await createTask(ada, { ...may, recurrence: { ...monthly, anchor: 'due' } })
    t.match(await patch(ada, task, { recurrence: { anchor: 'due' } }), { version: 1 }, 'no change')
    t.match(await patch(ada, task, { recurrence: { missed: 'each' } }), { recurrence: { anchor: 'due' } })
    const put = async (fields: object) =>
      (
        await service.expect('replaceTask', 200, {
          token: ada.token,
          params: { task_id: task.id },
          body: { title: 'x', ...may, ...fields },
        })
      ).body
    t.match(await put({ recurrence: weekly }), { recurrence: { rule: 'FREQ=WEEKLY', anchor: 'due' } })
    t.match(await put({}), { recurrence: { anchor: 'due' } })
    const started = await put({ recurrence: { ...weekly, anchor: 'start' } })
    t.match(started, { recurrence: { anchor: 'start' }, occurrence: { on: '2090-05-01', number: 1 } })
    t.match(await patch(ada, task, { recurrence: { anchor: 'due' } }), { occurrence: { on: '2090-05-31' } })
    t.match(await patch(ada, task, { recurrence: null }), noSeries)
    t.match(await patch(ada, task, { recurrence: weekly }), { recurrence: { anchor: 'start' } }, 'anew')
  })

  t.test('is the other one when it is cleared, with the same number', async (t) => {
    const task = await createTask(ada, { ...may, recurrence: { rule: 'FREQ=MONTHLY;COUNT=3' } })
    const second = await close(ada, task)
    const { version, recurrence, ...series } = await patch(ada, second, { start_on: null })
    t.match(recurrence, { rule: 'FREQ=MONTHLY;COUNT=3', anchor: 'due' })
    t.match(series.occurrence, { series_id: seriesIdOf(task), number: 2, on: '2090-07-01' })
    await changesToBeKnown(db)
    const history = { token: ada.token, params: { task_id: second.id }, query: { limit: 1 } }
    const { items } = (await service.expect('listTaskEvents', 200, history)).body
    t.match(items[0], {
      before: { start_on: '2090-06-01', recurrence: { anchor: 'start' }, occurrence: { on: '2090-06-01' } },
      after: { start_on: null, recurrence: { anchor: 'due' }, occurrence: { on: '2090-07-01' } },
    })
    t.equal(version, 2)
    const third = await close(ada, second)
    t.match(third, { start_on: null, due_on: '2090-08-01', occurrence: { number: 3 } })
    t.match(
      await patch(ada, third, { status: 'done' }),
      { occurrence: { next_task_id: null } },
      'COUNT goes on',
    )

    const replaced = await createTask(ada, { ...may, recurrence: monthly })
    const body = { title: 'x', due_on: may.due_on, recurrence: replaced.recurrence }
    const request = { token: ada.token, params: { task_id: replaced.id }, body }
    const whole = (await service.expect('replaceTask', 200, request)).body
    t.match(whole, { recurrence: { anchor: 'due' }, start_on: null }, 'PUT of what was read')
    const both = await createTask(ada, { ...may, recurrence: monthly })
    const moved = await patch(ada, both, { start_on: null, recurrence: weekly })
    t.match(moved, { recurrence: { rule: 'FREQ=WEEKLY', anchor: 'due' }, occurrence: { number: 1 } })
  })

  t.test('422: when both are cleared, or the task does not have it', async (t) => {
    const task = await createTask(ada, { ...may, recurrence: monthly })
    const invalid = { status: 422, code: 'invalid_recurrence' }
    t.match(await refused(ada, task, { start_on: null, due_on: null }), { ...invalid, at: ['/recurrence'] })
    const without = { ...invalid, at: ['/recurrence/anchor'] }
    t.match(await refused(ada, task, { due_on: null, recurrence: { anchor: 'due' } }), without)
    const body = { title: 'x', due_on: '2090-05-31', recurrence: { ...monthly, anchor: 'start' } }
    const reply = await service.call('createTask', { token: ada.token, body })
    t.match(reply, { status: 422, body: { code: 'invalid_recurrence' } })
    const unknown = { ...body, recurrence: { ...monthly, anchor: 'created' } }
    t.equal((await service.call('createTask', { token: ada.token, body: unknown })).status, 400)
  })

  t.test('stays the due date in a series of before', async (t) => {
    const task = await createTask(ada, { ...may, recurrence: { ...monthly, anchor: 'due' } })
    // As it was written then: without the days to the other date.
    await db.run(`update tasks set recurrence_anchor = recurrence_anchor - 'days' where id = $1`, [task.id])
    t.match(await read(ada, task.id), { recurrence: { anchor: 'due' } })
    await patch(ada, task, { due_on: '2090-06-02' })
    t.match(await close(ada, task), { start_on: '2090-05-31', due_on: '2090-06-30' })
  })
})

t.test('archiving and moving', async (t) => {
  const project = await createProject(ada)
  const task = await createTask(ada, { project_id: project.id, due_on: '2090-01-06', recurrence: weekly })
  const params = { project_id: project.id }
  await service.expect('archiveProject', 200, { token: ada.token, params })
  t.match(await refused(ada, task, { status: 'done' }), { status: 409, code: 'project_archived' })
  await service.expect('unarchiveProject', 200, { token: ada.token, params })
  const personal = await patch(ada, task, { project_id: null })
  t.match(seriesOf(personal), seriesOf(task), 'a series moves with its task')
  t.match(await close(ada, task), { project_id: null, due_on: '2090-01-13' })
})

t.test('deleting the open task ends the series until it is restored', async (t) => {
  const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
  const params = { task_id: task.id }
  await service.expect('deleteTask', 204, { token: ada.token, params })
  const restored = (await service.expect('restoreTask', 200, { token: ada.token, params })).body
  t.match(seriesOf(restored), seriesOf(task))
  t.match(await close(ada, task), { due_on: '2090-01-13' })
})

t.test('a series outlives its owner and its assignee', async (t) => {
  const [owner, assignee] = [await service.register('leaver'), await service.register('leaving-assignee')]
  const project = await createProject(ada)
  await setMember(ada, project, owner, 'editor')
  await setMember(ada, project, assignee, 'editor')
  const task = await createTask(owner, {
    project_id: project.id,
    assignee_id: assignee.id,
    due_on: '2090-01-06',
    recurrence: weekly,
  })
  for (const { id } of [owner, assignee])
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id: id } })
  await eventually('the task has passed to a manager', async () => {
    const { owner_id, assignee_id } = await read(ada, task.id)
    return owner_id === ada.id && assignee_id === null
  })
  t.match(await close(ada, task), {
    occurrence: { series_id: seriesIdOf(task), number: 2 },
    owner_id: ada.id,
    assignee_id: null,
    due_on: '2090-01-13',
  })
})

t.test('the change feed has the closed task and the next one', async (t) => {
  const task = await createTask(ada, { due_on: '2090-01-06', recurrence: weekly })
  const since = await endOfChanges()
  const next = await close(ada, task)
  const { changed, deleted } = await readChanges(service, ada, { since })
  t.strictSame(new Set(changed.map(({ id }) => id)), new Set([task.id, next.id]))
  t.strictSame(deleted, [])
})

t.test('filters', async (t) => {
  const account = await service.register('filters')
  const plain = await createTask(account)
  const task = await createTask(account, { due_on: '2090-01-06', recurrence: weekly })
  const next = await close(account, task)
  t.strictSame(await idsOf(account, { recurring: 'true' }), [task.id, next.id])
  t.strictSame(await idsOf(account, { recurring: 'false' }), [plain.id])
  t.strictSame(await idsOf(account, { series_id: seriesIdOf(task), status: 'todo' }), [next.id])
  t.strictSame(await idsOf(account, { filter: `series_id = ${seriesIdOf(task)} AND status = done` }), [
    task.id,
  ])
  t.strictSame(await idsOf(account, { filter: 'NOT series_id:*' }), [plain.id])
  t.strictSame(await idsOf(ada, { series_id: seriesIdOf(task) }), [], 'those of others are not listed')
})

t.test('listTaskOccurrences', async (t) => {
  const list = async (account: Account, task_id: string, query: Readonly<Record<string, number>> = {}) =>
    (await service.expect('listTaskOccurrences', 200, { token: account.token, params: { task_id }, query }))
      .body
  const task = await createTask(ada, {
    due_at: '2090-03-19T08:00:00Z',
    recurrence: { rule: 'FREQ=WEEKLY', time_zone: 'Europe/Berlin' },
  })
  t.strictSame(await list(ada, task.id, { limit: 2 }), {
    occurrences: [
      { at: '2090-03-26T07:00:00.000Z', on: '2090-03-26' },
      { at: '2090-04-02T07:00:00.000Z', on: '2090-04-02' },
    ],
    has_more: true,
    end_reason: null,
  })
  t.equal((await list(ada, task.id)).occurrences.length, 10)
  t.strictSame(await list(ada, (await createTask(ada)).id), {
    occurrences: [],
    has_more: false,
    end_reason: 'no_recurrence',
  })
  const hidden = await service.call('listTaskOccurrences', { token: bob.token, params: { task_id: task.id } })
  t.equal(hidden.status, 404)
})

t.test('previewRecurrence', async (t) => {
  const preview = async (body: object) =>
    (await service.expect('previewRecurrence', 200, { token: ada.token, body })).body
  const quarters = await preview({ rule: 'FREQ=MONTHLY;INTERVAL=3', on: '2026-12-31', limit: 3 })
  t.strictSame(
    quarters.occurrences.map(({ on }) => on),
    ['2026-12-31', '2027-03-31', '2027-06-30'],
  )
  t.match(await preview({ rule: 'FREQ=DAILY;COUNT=2', on: '2026-12-31' }), {
    end_reason: 'count',
    has_more: false,
  })
  const today = new Date().toISOString().slice(0, 10)
  const daily = await preview({ rule: 'FREQ=DAILY', time_zone: 'UTC' })
  t.ok((daily.occurrences[0]?.on ?? '') >= today, 'from today')
  for (const [body, at] of [
    [{ rule: 'FREQ=DAILY;BYHOUR=9', on: '2026-12-31' }, '/rule'],
    [{ rule: 'FREQ=DAILY', on: '2026-12-31', at: '2026-12-31T09:00:00Z' }, '/on'],
  ] as const) {
    const reply = await service.call('previewRecurrence', { token: ada.token, body })
    t.equal(reply.status, 400)
    t.equal(pointersOf(reply.body as Problem)[0], at)
  }
})
