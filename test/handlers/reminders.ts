import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { fireDueReminders } from '../../src/db/tasks/due-reminders.ts'
import { claimDigest } from '../../src/db/activity/notification-settings.ts'
import { removeOldReminders } from '../../src/db/tasks/reminders.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { createSendReminders } from '../../src/services/activity/reminder-mails.ts'
import { accountActions } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

type Reminder = components['schemas']['Reminder']

const { db } = await openTestDatabase(t)
/** Reminders fire only by `fire`. */
const service = await startService(t, {
  db,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30, retry: 2 ** 30 },
})
const { createTask } = taskActions(service)
const { createProject, setMember, removeMember } = projectActions(service)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const ada = await service.register('ada')
const bob = await service.register('bob')

/** 09:00 in UTC, the time zone of new users. */
const dueOn = '2090-01-06'
const dueMorning = '2090-01-06T09:00:00.000Z'

const changeTask = async ({ token }: Account, task_id: string, body: object) =>
  (await service.expect('updateTask', 200, { token, params: { task_id }, body })).body

/** Closes a task. Resolves to the id of the next one, or an empty text. */
const close = async (account: Account, task_id: string): Promise<string> =>
  (await changeTask(account, task_id, { status: 'done' })).occurrence?.next_task_id ?? ''

const remind = async (task_id: string, body: object = { at: dueMorning }, { token }: Account = ada) =>
  (await service.expect('createReminder', 201, { token, params: { task_id }, body })).body

const read = async ({ id: reminder_id }: Reminder, { token }: Account = ada): Promise<Reminder> =>
  (await service.expect('getReminder', 200, { token, params: { reminder_id } })).body

const change = async ({ id: reminder_id }: Reminder, body: object, { token }: Account = ada) =>
  (await service.expect('updateReminder', 200, { token, params: { reminder_id }, body })).body

const list = async (query: object = {}, { token }: Account = ada): Promise<readonly Reminder[]> =>
  (await service.expect('listReminders', 200, { token, query: { ...query } })).body.items

/** Adds more reminders of a task than requests can. */
const addReminders = ({ id }: Account, task_id: string, count: number) =>
  db.run(
    `insert into reminders (id, task_id, user_id, relative_to, offset_minutes, time_of_day)
     select event_id(now(), n), $2, $1, 'due', 0, '09:00' from generate_series(1, $3::int) n`,
    [id, task_id, count],
  )

/** Makes a reminder due `seconds` ago, and fires all that are due. */
const fire = async ({ id }: Reminder, seconds = 1): Promise<void> => {
  await db.run(`update reminders set fires_at = now() - $1 * interval '1 second' where id = $2`, [
    seconds,
    id,
  ])
  await fireDueReminders(db, new AbortController().signal)
}

const sendReminders = createSendReminders({ db, mailer: service.deps.openMailer(service.app.log) })

const inboxOf = async ({ token }: Account = ada) =>
  (await service.expect('listNotifications', 200, { token })).body.items

t.test('createReminder', async (t) => {
  t.test('201: at a time, and relative to a date', async (t) => {
    const task = await createTask(ada, { due_on: dueOn })
    t.match(await remind(task.id), {
      at: dueMorning,
      relative_to: null,
      offset_minutes: null,
      time_of_day: null,
      remind_at: dueMorning,
      is_pending: true,
      fired_at: null,
      late_seconds: null,
      version: 1,
    })
    t.match(await remind(task.id, { relative_to: 'due', offset_minutes: -2880, time_of_day: '18:00' }), {
      at: null,
      relative_to: 'due',
      remind_at: '2090-01-04T18:00:00.000Z',
      is_pending: true,
    })
    const read = { token: ada.token, params: { task_id: task.id } }
    t.equal((await service.expect('getTask', 200, read)).body.version, task.version, 'the task is the same')
  })

  t.test('201: a time that has just passed fires at once, and a date that is missing may come', async (t) => {
    const task = await createTask(ada)
    const justNow = new Date(Date.now() - 5_000).toISOString()
    t.match(await remind(task.id, { at: justNow }), { is_pending: true }, 'clocks differ')
    const relative = await remind(task.id, { relative_to: 'due' })
    t.match(relative, { remind_at: null, is_pending: false })
    await changeTask(ada, task.id, { due_on: dueOn })
    t.match(await read(relative), { remind_at: dueMorning, is_pending: true, version: 1, revision: 2 })
  })

  t.test('201: by whoever sees the task, in an archived project', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'viewer')
    const task = await createTask(ada, { project_id: project.id })
    await service.expect('archiveProject', 200, { token: ada.token, params: { project_id: project.id } })
    t.match(await remind(task.id, undefined, bob), { is_pending: true })
  })

  t.test('400: neither or both kinds', async (t) => {
    const { id: task_id } = await createTask(ada)
    for (const [body, pointer] of [
      [{}, '/at'],
      [{ offset_minutes: 5 }, '/at'],
      [{ at: dueMorning, relative_to: 'due' }, '/relative_to'],
      [{ at: '2020-01-01T00:00:00.000Z' }, '/at'],
      [{ relative_to: 'completion' }, '/relative_to'],
      [{ relative_to: 'due', time_of_day: '24:00' }, '/time_of_day'],
      [{ relative_to: 'due', offset_minutes: 525_601 }, '/offset_minutes'],
    ] as const) {
      const refused = await service.expect('createReminder', 400, {
        token: ada.token,
        params: { task_id },
        body,
      })
      t.match(refused.body.errors, [{ pointer }], JSON.stringify(body))
    }
  })

  t.test('409: an equal one of the task', async (t) => {
    const { id: task_id } = await createTask(ada, { due_on: dueOn, assignee_id: bob.id })
    for (const [body, same] of [
      [{ at: dueMorning }, { at: '2090-01-06T10:00:00.000+01:00' }],
      [{ relative_to: 'due' }, { relative_to: 'due', offset_minutes: 0, time_of_day: '09:00' }],
    ] as const) {
      const { id } = await remind(task_id, body)
      const request = { token: ada.token, params: { task_id }, body: same }
      const { body: problem } = await service.expect('createReminder', 409, request)
      t.match(problem, { code: 'reminder_exists', detail: new RegExp(id) })
    }
    t.equal((await list({ task_id: [task_id] })).length, 2)
    await remind(task_id, { relative_to: 'due', time_of_day: '10:00' })
    await remind((await createTask(ada)).id, { at: dueMorning })
    t.ok(await remind(task_id, { at: dueMorning }, bob), 'another task or user has its own')
  })

  t.test('413: more than 20 of a task', async (t) => {
    const { id: task_id } = await createTask(ada, { assignee_id: bob.id })
    for (let n = 0; n < 20; n += 1) await remind(task_id, { relative_to: 'due', offset_minutes: n })
    const request = { token: ada.token, params: { task_id }, body: { at: dueMorning } }
    const { body } = await service.expect('createReminder', 413, request)
    t.match(body, { code: 'quota_exceeded', resource: 'task_reminders', quota: 20, used: 20 })
    t.match(await remind(task_id, undefined, bob), { is_pending: true }, 'others have their own')
  })

  t.test('413: more than 1,000 in all, whichever fire', async (t) => {
    const eve = await service.register('eve')
    const { id: task_id } = await createTask(eve, { due_on: dueOn })
    await addReminders(eve, (await createTask(eve)).id, 1_000)
    const request = { token: eve.token, params: { task_id }, body: { at: dueMorning } }
    const { body } = await service.expect('createReminder', 413, request)
    t.match(body, { resource: 'reminders', quota: 1_000, used: 1_000 })
    const moved = { token: eve.token, params: { user_id: 'me' }, body: { time_zone: 'Europe/Berlin' } }
    await service.expect('updateUser', 200, moved)
  })

  t.test('413: more than 10,000 with those of closed tasks, which stay when they are reopened', async (t) => {
    const eve = await service.register('closing')
    const { id: closed } = await createTask(eve, { due_on: dueOn, status: 'done' })
    await addReminders(eve, closed, 9_999)
    const task = await createTask(eve, { due_on: dueOn, recurrence: { rule: 'FREQ=DAILY' } })
    await remind(task.id, { relative_to: 'due' }, eve)
    const { id: task_id } = await createTask(eve)
    const request = { token: eve.token, params: { task_id }, body: { at: dueMorning } }
    const { body } = await service.expect('createReminder', 413, request)
    t.match(body, { resource: 'reminders', quota: 10_000, used: 10_000 })
    const next = await close(eve, task.id)
    t.strictSame(await list({ task_id: [next] }, eve), [])
    t.match(await inboxOf(eve), [{ reason: 'reminder_limit', task_id: next }])
    await changeTask(eve, closed, { status: 'todo' })
    t.match(await service.expect('createReminder', 413, request), {
      body: { quota: 1_000, used: 9_999 },
    })
    const moved = { token: eve.token, params: { user_id: 'me' }, body: { time_zone: 'Europe/Berlin' } }
    await service.expect('updateUser', 200, moved)
  })

  t.test('422: another request with the same key', async (t) => {
    const { id: task_id } = await createTask(ada)
    const request = { token: ada.token, params: { task_id }, headers: { 'idempotency-key': 'reminder-1' } }
    const first = await service.expect('createReminder', 201, { ...request, body: { at: dueMorning } })
    const again = await service.expect('createReminder', 201, { ...request, body: { at: dueMorning } })
    t.equal(again.body.id, first.body.id)
    await service.expect('createReminder', 422, { ...request, body: { relative_to: 'due' } })
    t.equal((await list({ task_id: [task_id] })).length, 1)
  })
})

t.test('listReminders', async (t) => {
  t.test('200: the next first, by task, time, and whether they are to come', async (t) => {
    const [one, two] = [await createTask(bob), await createTask(bob, { due_on: dueOn })]
    const later = await remind(one.id, { at: '2090-03-01T00:00:00.000Z' }, bob)
    const third = await createTask(bob, { due_on: '2020-03-01' })
    const past = await remind(third.id, { relative_to: 'due' }, bob)
    const undated = await remind(one.id, { relative_to: 'due' }, bob)
    const next = await remind(two.id, { relative_to: 'due' }, bob)
    const idsOf = async (query: object) => (await list(query, bob)).map(({ id }) => id)
    const eitherTask = { task_id: [one.id, two.id, third.id] }
    t.strictSame(await idsOf(eitherTask), [past.id, next.id, later.id, undated.id])
    t.strictSame(await idsOf({ ...eitherTask, is_pending: true }), [next.id, later.id])
    t.strictSame(await idsOf({ ...eitherTask, is_pending: false }), [past.id, undated.id])
    t.strictSame(await idsOf({ task_id: [two.id] }), [next.id])
    t.strictSame(await idsOf({ ...eitherTask, remind_after: dueOn, remind_before: '2090-02-01' }), [next.id])

    const pages = []
    for (let cursor: string | null | undefined; cursor !== null;) {
      const query = { ...eitherTask, limit: 1, ...(cursor !== undefined && { cursor }) }
      const { body } = await service.expect('listReminders', 200, { token: bob.token, query })
      pages.push(...body.items.map(({ id }) => id))
      cursor = body.next_cursor
    }
    t.strictSame(pages, [past.id, next.id, later.id, undated.id])
  })

  t.test('200: not those of tasks in the trash or out of sight, which come back with them', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'viewer')
    const { id: task_id } = await createTask(ada, { project_id: project.id })
    const reminder = await remind(task_id, undefined, bob)
    const isListed = async () => (await list({ task_id: [task_id] }, bob)).length === 1
    t.equal(await isListed(), true)
    await removeMember(ada, project, bob)
    t.equal(await isListed(), false)
    const request = { token: bob.token, params: { reminder_id: reminder.id } }
    await service.expect('getReminder', 404, request)
    await service.expect('updateReminder', 404, { ...request, body: { at: dueMorning } })
    await service.expect('deleteReminder', 404, request)
    await setMember(ada, project, bob, 'viewer')
    t.equal(await isListed(), true)
    await service.expect('deleteTask', 204, { token: ada.token, params: { task_id } })
    t.equal(await isListed(), false)
    await service.expect('restoreTask', 200, { token: ada.token, params: { task_id } })
    t.equal(await isListed(), true)
  })
})

t.test('getReminder', async (t) => {
  t.test('404: that of somebody else, for an administrator as well', async (t) => {
    const { id } = await remind((await createTask(ada)).id)
    for (const { token } of [bob, admin])
      await service.expect('getReminder', 404, { token, params: { reminder_id: id } })
    t.equal((await list({}, admin)).length, 0)
  })

  t.test('403: an API token without notifications:read', async () => {
    const { id: reminder_id } = await remind((await createTask(ada)).id)
    const { token } = await createApiToken(ada, { scopes: ['tasks:write'] })
    await service.expect('getReminder', 403, { token, params: { reminder_id } })
  })
})

t.test('updateReminder', async (t) => {
  t.test('200: one kind replaces the other', async (t) => {
    const reminder = await remind((await createTask(ada, { due_on: dueOn })).id)
    const relative = await change(reminder, { relative_to: 'due', offset_minutes: -60 })
    t.match(relative, { at: null, remind_at: '2090-01-06T08:00:00.000Z', version: 2 })
    t.match(await change(reminder, { time_of_day: '12:00' }), { remind_at: '2090-01-06T11:00:00.000Z' })
    t.match(await change(reminder, { at: dueMorning }), { relative_to: null, time_of_day: null, version: 4 })
    t.match(await change(reminder, { at: dueMorning }), { version: 4 }, 'nothing changes')
    const sentBack = await read(reminder)
    t.strictSame(await change(reminder, sentBack), sentBack, 'what was read is accepted')
  })

  t.test('200: snoozing reminds again, until the date of the task changes', async (t) => {
    const task = await createTask(ada, { due_on: dueOn })
    const reminder = await remind(task.id, { relative_to: 'due' })
    await fire(reminder)
    t.match(await read(reminder), { is_pending: false, fired_at: /Z$/, remind_at: dueMorning })
    const later = '2090-01-06T10:00:00.000Z'
    const snoozed = await change(reminder, { snoozed_until: later })
    t.match(snoozed, { is_pending: true, remind_at: later, snoozed_until: later, fired_at: /Z$/ })
    await fire(reminder)
    t.equal((await inboxOf()).filter(({ reminder_id }) => reminder_id === reminder.id).length, 2)
    await changeTask(ada, task.id, { due_on: '2090-01-07' })
    t.match(await read(reminder), {
      snoozed_until: null,
      remind_at: '2090-01-07T09:00:00.000Z',
      is_pending: true,
    })
    await change(reminder, { snoozed_until: later })
    t.match(await change(reminder, { snoozed_until: null }), { remind_at: '2090-01-07T09:00:00.000Z' })
  })

  t.test('200: what was read and is sent back with one change changes that', async (t) => {
    const task = await createTask(ada, { due_at: dueMorning })
    const reminder = await remind(task.id, { relative_to: 'due', offset_minutes: -60 })
    const later = '2090-01-06T10:00:00.000Z'
    const snoozed = await change(reminder, { snoozed_until: later })
    const same = await change(reminder, { ...snoozed, time_of_day: '10:00' })
    t.match(same, { snoozed_until: later, version: 3 }, 'the due date has a time of its own')
    const earlier = await change(reminder, { ...same, offset_minutes: -120 })
    t.match(earlier, { snoozed_until: null, remind_at: '2090-01-06T07:00:00.000Z' })
    t.match(await change(reminder, { ...earlier, at: later }), { at: later, relative_to: null })
  })

  t.test('200: the other date of the task neither ends a snooze nor fires again', async (t) => {
    const task = await createTask(ada, { due_on: '2090-01-09' })
    const [snoozed, fired] = [
      await remind(task.id, { relative_to: 'due' }),
      await remind(task.id, { relative_to: 'due', offset_minutes: 60 }),
    ]
    await fire(fired)
    await change(snoozed, { snoozed_until: dueMorning })
    await changeTask(ada, task.id, { start_on: '2090-01-08' })
    t.match(await read(snoozed), { snoozed_until: dueMorning, is_pending: true })
    t.match(await read(fired), { is_pending: false, version: 1, revision: 2 })
  })

  t.test('400: it loses its time, or is snoozed until a time in the past', async (t) => {
    const { id: reminder_id } = await remind((await createTask(ada)).id)
    const request = { token: ada.token, params: { reminder_id } }
    for (const [body, pointer] of [
      [{ at: null }, '/at'],
      [{ snoozed_until: '2020-01-01T00:00:00.000Z' }, '/snoozed_until'],
    ] as const)
      t.match((await service.expect('updateReminder', 400, { ...request, body })).body.errors, [{ pointer }])
  })

  t.test('409: it would be equal to another of the task', async (t) => {
    const { id: task_id } = await createTask(ada, { due_on: dueOn })
    const [one, other] = [await remind(task_id), await remind(task_id, { relative_to: 'due' })]
    const request = { token: ada.token, params: { reminder_id: other.id }, body: { at: dueMorning } }
    const { body: problem } = await service.expect('updateReminder', 409, request)
    t.match(problem, { code: 'reminder_exists', detail: new RegExp(one.id) })
    t.match(await read(other), { relative_to: 'due', version: 1 })
    const later = '2090-01-06T10:00:00.000Z'
    t.match(await change(other, { snoozed_until: later }), { version: 2 }, 'the time is the same')
  })

  t.test('412: it has changed', async (t) => {
    const reminder = await remind((await createTask(ada)).id)
    await change(reminder, { snoozed_until: dueMorning })
    const request = { token: ada.token, params: { reminder_id: reminder.id } }
    const body = { version: 1, snoozed_until: null }
    await service.expect('updateReminder', 412, { ...request, body })
    await service.expect('deleteReminder', 412, { ...request, headers: { 'if-match': '"1"' } })
    t.match(await read(reminder), { snoozed_until: dueMorning })
  })
})

t.test('deleteReminder', async (t) => {
  t.test('204: its notifications stay', async (t) => {
    const reminder = await remind((await createTask(ada)).id)
    await fire(reminder)
    const request = { token: ada.token, params: { reminder_id: reminder.id } }
    await service.expect('deleteReminder', 204, request)
    await service.expect('getReminder', 404, request)
    t.equal((await inboxOf()).filter(({ reminder_id }) => reminder_id === reminder.id).length, 1)
  })

  t.test('204: with the task, and with the user', async (t) => {
    const zoe = await service.register('zoe')
    const mine = await createTask(ada)
    await remind(mine.id)
    const shared = await createTask(ada, { assignee_id: zoe.id })
    await remind(shared.id, undefined, zoe)
    await service.expect('deleteUser', 204, { token: zoe.token, params: { user_id: 'me' } })
    const ownTaskRequest = { token: ada.token, params: { task_id: mine.id } }
    await service.expect('deleteTask', 204, ownTaskRequest)
    await service.expect('deleteTrashedTask', 204, ownTaskRequest)
    const [row] = await db.run('select count(*)::int as n from reminders where task_id in ($1, $2)', [
      mine.id,
      shared.id,
    ])
    t.match(row, { n: 0 })
  })
})

t.test('firing', async (t) => {
  t.test('a notification, an event with the id of the notification, and a late one', async (t) => {
    const task = await createTask(ada)
    const reminder = await remind(task.id)
    await fire(reminder, 90)
    const [notification] = await inboxOf()
    t.match(notification, {
      reason: 'reminder',
      task_id: task.id,
      reminder_id: reminder.id,
      actor_id: null,
      comment_id: null,
      read_at: null,
    })
    const fired = await read(reminder)
    t.match(fired, { is_pending: false, fired_at: /Z$/, version: 1, revision: 2 })
    t.ok((fired.late_seconds ?? 0) >= 90 && (fired.late_seconds ?? 0) < 120)
    const [event] = await db.run(
      `select events.type, recipient_id from notifications join events on events.id = event_id where reminder_id = $1`,
      [reminder.id],
    )
    t.match(event, { type: 'task.reminder', recipient_id: ada.id })
    const history = { token: ada.token, params: { task_id: task.id } }
    const types = (await service.expect('listTaskEvents', 200, history)).body.items.map(({ type }) => type)
    t.strictSame(types, ['task.created'])
  })

  t.test('after 24 hours, only a notification', async (t) => {
    const reminder = await remind((await createTask(ada)).id)
    await fire(reminder, 90_000)
    t.match(await inboxOf(), [{ reminder_id: reminder.id }])
    const events = await db.run(`select from events where resource_id = $1`, [reminder.id])
    t.equal(events.length, 0)
  })

  t.test('not for a closed task, a user who cannot see it any more, or a disabled one', async (t) => {
    const kim = await service.register('kim')
    const project = await createProject(ada)
    await setMember(ada, project, kim, 'editor')
    const inProject = { project_id: project.id }
    const closed = await createTask(kim, inProject)
    const trashed = await createTask(kim, inProject)
    const open = await createTask(kim, inProject)
    const reminders = []
    for (const { id } of [closed, trashed, open]) reminders.push(await remind(id, undefined, kim))
    const [closedReminder, trashedReminder, openReminder] = reminders
    if (closedReminder === undefined || trashedReminder === undefined || openReminder === undefined)
      throw new Error()
    await changeTask(kim, closed.id, { status: 'done' })
    await fire(closedReminder)
    await changeTask(kim, closed.id, { status: 'todo' })
    t.match(await read(closedReminder, kim), { is_pending: false, fired_at: null, late_seconds: null })
    await service.expect('deleteTask', 204, { token: kim.token, params: { task_id: trashed.id } })
    await fire(trashedReminder)
    await removeMember(ada, project, kim)
    await fire(openReminder)
    await setMember(ada, project, kim, 'editor')
    const disabled = { token: admin.token, params: { user_id: kim.id } }
    const last = await change(openReminder, { snoozed_until: dueMorning }, kim)
    await service.expect('updateUser', 200, { ...disabled, body: { is_disabled: true } })
    await fire(last)
    const made = await db.run('select from notifications where user_id = $1', [kim.id])
    t.equal(made.length, 0)
  })

  t.test('an email with the due time in a zone whose name is also an abbreviation', async (t) => {
    const zoe = await service.register('zoe')
    const { token, email } = zoe
    await service.expect('updateNotificationSettings', 200, { token, body: { mail_reminders: true } })
    const zone = { token, params: { user_id: 'me' }, body: { time_zone: 'CET' } }
    await service.expect('updateUser', 200, zone)
    const task = await createTask(zoe, { due_at: '2090-07-06T09:00:00.000Z' })
    await fire(await remind(task.id, { relative_to: 'due' }, zoe))
    await sendReminders(new AbortController().signal)
    const mail = service.reminders.find(({ to }) => to === email)
    t.equal(mail?.lines[0]?.due, '2090-07-06 11:00 (CET)', 'with daylight saving time')
  })

  t.test('an email, if wanted; digests have no reminders', async (t) => {
    const lee = await service.register('lee')
    const settings = { token: lee.token, body: { mail_reminders: true, mail_digest: 'hourly' } }
    const { body } = await service.expect('updateNotificationSettings', 200, settings)
    t.match(body, { mail_reminders: true, mail_digest: 'hourly', version: 2 })
    const task = await createTask(lee, { title: 'Water the plants', due_at: dueMorning })
    const [first, second] = [
      await remind(task.id, { relative_to: 'due' }, lee),
      await remind(task.id, { relative_to: 'due', offset_minutes: -1 }, lee),
    ]
    await fire(first)
    await fire(await remind((await createTask(ada)).id))
    const stop = new AbortController().signal
    await sendReminders(stop)
    await sendReminders(stop)
    const line = { taskTitle: 'Water the plants', due: '2090-01-06 09:00 (UTC)' }
    const mails = () => service.reminders.filter(({ to }) => to === lee.email)
    t.strictSame(mails(), [{ to: lee.email, lines: [line], count: 1 }])
    await fire(second)
    await fire(await change(first, { snoozed_until: dueMorning }, lee))
    await sendReminders(stop)
    t.equal(mails().length, 1, 'not within ten minutes')
    const wait = `update notification_settings set reminders_mailed_at = now() - interval '11 minutes' where user_id = $1`
    await db.run(wait, [lee.id])
    await sendReminders(stop)
    t.strictSame(mails().slice(1), [{ to: lee.email, lines: [line, line], count: 2 }], 'then together')
    await fire(await change(first, { snoozed_until: '2090-01-06T11:00:00.000Z' }, lee))
    await service.expect('updateNotificationSettings', 200, {
      token: lee.token,
      body: { mail_reminders: false },
    })
    await db.run(wait, [lee.id])
    await sendReminders(stop)
    t.equal(mails().length, 2, 'nor after the choice was taken back')
    await db.run(
      `update notification_settings set digest_due_at = now() - interval '1 ms' where user_id = $1`,
      [lee.id],
    )
    t.equal((await claimDigest(db))?.count, 0)
  })
})

t.test('what moves a reminder', async (t) => {
  t.test('the dates of its task, by PATCH, PUT and batch', async (t) => {
    const task = await createTask(ada, { due_on: dueOn })
    const reminder = await remind(task.id, { relative_to: 'due' })
    await changeTask(ada, task.id, { due_at: '2090-01-08T12:00:00.000Z' })
    t.match(await read(reminder), { remind_at: '2090-01-08T12:00:00.000Z', version: 1, revision: 2 })
    const { token } = ada
    const body = { atomic: true, update: [{ task_id: task.id, patch: { due_on: '2090-01-09' } }] }
    await service.expect('batchTasks', 200, { token, body })
    t.match(await read(reminder), { remind_at: '2090-01-09T09:00:00.000Z', version: 1, revision: 3 })
    await changeTask(ada, task.id, { title: 'The same dates' })
    t.match(await read(reminder), { revision: 3 })
    await changeTask(ada, task.id, { due_on: null })
    t.match(await read(reminder), { remind_at: null, is_pending: false, version: 1, revision: 4 })
    await changeTask(ada, task.id, { due_on: '2020-01-01' })
    t.match(await read(reminder), { remind_at: '2020-01-01T09:00:00.000Z', is_pending: false })
  })

  t.test('the time zone of its user, if it is still to come', async (t) => {
    const max = await service.register('max')
    const task = await createTask(max, { due_on: dueOn })
    const pending = await remind(task.id, { relative_to: 'due' }, max)
    const atTime = await remind(task.id, { at: dueMorning }, max)
    const fired = await remind(task.id, { relative_to: 'due', time_of_day: '10:00' }, max)
    await fire(fired)
    const moved = { token: max.token, params: { user_id: 'me' }, body: { time_zone: 'America/New_York' } }
    await service.expect('updateUser', 200, moved)
    t.match(await read(pending, max), { remind_at: '2090-01-06T14:00:00.000Z', version: 1, revision: 2 })
    t.match(await read(atTime, max), { remind_at: dueMorning, version: 1 })
    t.match(await read(fired, max), { remind_at: '2090-01-06T10:00:00.000Z', is_pending: false })
  })

  t.test('a time zone in which its time has passed: it fires at once', async (t) => {
    const ana = await service.register('ana')
    const move = (time_zone: string) =>
      service.expect('updateUser', 200, { token: ana.token, params: { user_id: 'me' }, body: { time_zone } })
    await move('Pacific/Honolulu')
    const local = new Date(Date.now() - 10 * 3_600_000 + 3_600_000)
    const task = await createTask(ana, { due_on: local.toISOString().slice(0, 10) })
    const body = { relative_to: 'due', time_of_day: local.toISOString().slice(11, 16) }
    const reminder = await remind(task.id, body, ana)
    t.equal(reminder.is_pending, true)
    await move('Asia/Tokyo')
    t.match(await read(reminder, ana), { is_pending: true })
    await fireDueReminders(db, new AbortController().signal)
    t.match(await read(reminder, ana), { is_pending: false, fired_at: /Z$/ })
    await move('Pacific/Honolulu')
    t.match(await read(reminder, ana), { is_pending: false }, 'and not again')
  })

  t.test(
    'a task that recurs takes its relative reminders along, those of others and of subtasks too',
    async (t) => {
      const recurrence = { rule: 'FREQ=WEEKLY' }
      const task = await createTask(ada, { due_on: dueOn, assignee_id: bob.id, recurrence })
      const subtask = await createTask(ada, { parent_id: task.id, due_on: '2090-01-05' })
      await remind(task.id, { relative_to: 'due', offset_minutes: -60 })
      await remind(task.id, { at: dueMorning })
      await remind(task.id, { relative_to: 'due' }, bob)
      await remind(subtask.id, { relative_to: 'due' })
      const next = await close(ada, task.id)
      t.match(await list({ task_id: [next] }), [
        { relative_to: 'due', offset_minutes: -60, remind_at: '2090-01-13T08:00:00.000Z', is_pending: true },
      ])
      t.match(await list({ task_id: [next] }, bob), [{ remind_at: '2090-01-13T09:00:00.000Z' }])
      const subtaskRequest = { token: ada.token, query: { parent_id: [next] } }
      const [copy] = (await service.expect('listTasks', 200, subtaskRequest)).body.items
      t.match(await list({ task_id: [copy?.id] }), [
        { remind_at: '2090-01-12T09:00:00.000Z', is_pending: true },
      ])
    },
  )

  t.test('for as long as it recurs, whatever the closed occurrences had', async (t) => {
    const eve = await service.register('recurring')
    const first = await createTask(eve, { due_on: dueOn, recurrence: { rule: 'FREQ=DAILY' } })
    for (let n = 0; n < 20; n += 1) await remind(first.id, { relative_to: 'due', offset_minutes: n }, eve)
    await addReminders(eve, (await createTask(eve)).id, 980)
    const { id: other } = await createTask(eve)
    const refused = { token: eve.token, params: { task_id: other }, body: { at: dueMorning } }
    const second = await close(eve, first.id)
    t.match(await service.expect('createReminder', 413, refused), { body: { used: 1_000 } })
    const third = await close(eve, second)
    t.equal((await list({ task_id: [third], limit: 100 }, eve)).length, 20, 'all of them')
    await changeTask(eve, third, { status: 'cancelled', recurrence: null })
    t.match(await remind(other, undefined, eve), { is_pending: true }, 'closed tasks leave room')
  })

  t.test('equal ones, which earlier versions have accepted, once', async (t) => {
    const task = await createTask(ada, { due_on: dueOn, recurrence: { rule: 'FREQ=DAILY' } })
    await addReminders(ada, task.id, 3)
    await remind(task.id, { relative_to: 'start' })
    const next = await close(ada, task.id)
    t.strictSame(
      (await list({ task_id: [next] })).map(({ relative_to }) => relative_to),
      ['due', 'start'],
    )
  })

  t.test('as far as there is room, if those of done subtasks come back', async (t) => {
    const eve = await service.register('crowded')
    const task = await createTask(eve, { due_on: dueOn, recurrence: { rule: 'FREQ=DAILY' } })
    const subtask = await createTask(eve, { parent_id: task.id, due_on: dueOn })
    for (let n = 0; n < 20; n += 1) await remind(subtask.id, { relative_to: 'due', offset_minutes: n }, eve)
    await changeTask(eve, subtask.id, { status: 'done' })
    await addReminders(eve, (await createTask(eve)).id, 999)
    const next = await close(eve, task.id)
    const subtaskRequest = { token: eve.token, query: { parent_id: [next] } }
    const [copy] = (await service.expect('listTasks', 200, subtaskRequest)).body.items
    t.equal((await list({ task_id: [copy?.id] }, eve)).length, 1)
    const inbox = await inboxOf(eve)
    t.match(inbox, [
      {
        reason: 'reminder_limit',
        subject: { type: 'task', id: copy?.id },
        task_id: copy?.id,
        actor_id: null,
        reminder_id: null,
      },
    ])
    t.equal(inbox.length, 1, 'once, not for each reminder')
    const events = await db.run(
      `select task_id::text, resource_id::text from events where type = 'task.reminder_limit' and recipient_id = $1`,
      [eve.id],
    )
    t.strictSame([...events], [{ task_id: copy?.id, resource_id: subtask.id }])
  })

  t.test('not those of users who cannot see the next task', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'viewer')
    const fields = { project_id: project.id, due_on: dueOn, recurrence: { rule: 'FREQ=WEEKLY' } }
    const task = await createTask(ada, fields)
    await remind(task.id, { relative_to: 'due' }, bob)
    await removeMember(ada, project, bob)
    const next = await close(ada, task.id)
    const [row] = await db.run('select count(*)::int as n from reminders where task_id = $1', [next])
    t.equal(row?.n, 0)
  })

  t.test('an occurrence with a reminder that somebody made is not taken back', async (t) => {
    const fields = { due_on: dueOn, recurrence: { rule: 'FREQ=WEEKLY' } }
    const [untouched, touched] = [await createTask(ada, fields), await createTask(ada, fields)]
    await remind(untouched.id, { relative_to: 'due' })
    await close(ada, untouched.id)
    t.match(await changeTask(ada, untouched.id, { status: 'todo' }), { occurrence: { next_task_id: null } })
    const next = await close(ada, touched.id)
    const reminder = await remind(next)
    t.match(await changeTask(ada, touched.id, { status: 'todo' }), { occurrence: { next_task_id: next } })
    t.match(await read(reminder), { is_pending: true })
  })

  t.test('old ones are deleted', async (t) => {
    const past = await createTask(ada, { due_on: '2020-01-01' })
    const [old, other] = [await remind(past.id, { relative_to: 'due' }), await remind(past.id)]
    await removeOldReminders(db, { days: 30 }, new AbortController().signal)
    t.same(
      (await list({ task_id: [past.id] })).map(({ id }) => id),
      [other.id],
    )
    await service.expect('getReminder', 404, { token: ada.token, params: { reminder_id: old.id } })
  })
})

t.test('a repeated request gets its first answer, even after the time', async (t) => {
  const task = await createTask(ada)
  const at = Date.now() - 59_500
  // The past is accepted for a minute.
  const request = {
    token: ada.token,
    params: { task_id: task.id },
    body: { at: new Date(at).toISOString() },
  }
  const headers = { 'idempotency-key': 'soon-too-late' }
  const { body } = await service.expect('createReminder', 201, { ...request, headers })
  await eventually('the time is too long ago', async () => Date.now() - at > 60_000)
  await service.expect('createReminder', 400, request)
  const again = await service.expect('createReminder', 201, { ...request, headers })
  t.equal(again.body.id, body.id)
})

t.test('a reminder that has fired does not keep the next occurrence', async (t) => {
  const { token } = ada
  const task = await createTask(ada, { due_at: dueMorning, recurrence: { rule: 'FREQ=DAILY' } })
  await remind(task.id, { relative_to: 'due' })
  const params = { task_id: task.id }
  const close = { token, params, body: { status: 'done' } }
  const { body: closed } = await service.expect('updateTask', 200, close)
  const next = closed.occurrence?.next_task_id ?? ''
  const [copy] = await list({ task_id: [next] })
  if (copy === undefined) throw new Error('The next occurrence has no reminder')
  await fire(copy)
  t.ok((await read(copy)).fired_at)
  const reopen = { token, params, body: { status: 'todo' } }
  const { body: reopened } = await service.expect('updateTask', 200, reopen)
  t.equal(reopened.occurrence?.next_task_id, null)
  await service.expect('getTask', 404, { token, params: { task_id: next } })
})
