import t, { type Test } from 'tap'
import { correctTimesAhead } from '../../../src/db/upkeep/times-ahead.ts'
import { createSendDigests } from '../../../src/services/activity/digests.ts'
import { jobsOf, jobTimes } from '../../../src/jobs/registry.ts'
import { noMailer } from '../../../src/mail/mailer.ts'
import { openTestDatabase } from '../../fixture/database.ts'
import { moveClock } from '../../fixture/clock.ts'
import { eventually } from '../../fixture/eventually.ts'
import { jobDepsOf } from '../../fixture/jobs.ts'
import { notificationOf } from '../../fixture/notifications.ts'
import { projectActions } from '../../fixture/projects.ts'
import { type Account, startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

const { db } = await openTestDatabase(t)
// The tests run the job themselves.
const service = await startService(t, { db, jobTimes: { ...jobTimes, retry: 3_600_000, events: 100 } })
const { createTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const admin = await service.register('admin')
const ada = await service.register('ada')

await eventually('the reader has started', async () => {
  const [row] = await db.run(`select count(*)::int as n from event_readers where name = 'notifications'`, [])
  return row?.n === 1
})

let readers = 0

/** A new account with a digest setting. */
const newReader = async (mail_digest: 'off' | 'hourly' | 'daily' = 'hourly'): Promise<Account> => {
  const account = await service.register(`reader-${(readers += 1)}`)
  await choose(account, mail_digest)
  return account
}

const choose = ({ token }: Account, mail_digest: string) =>
  service.expect('updateNotificationSettings', 200, { token, body: { mail_digest } })

/** Assigns a new task of ada to an account, and waits for the notification. */
const assign = async (account: Account, title: string, fields: object = {}) => {
  const task = await createTask(ada, { title, assignee_id: account.id, ...fields })
  return { task, notification: await notificationOf(service, account, task.id) }
}

const { send_digests: job } = jobsOf(jobDepsOf(service))
const run = () => job.run(new AbortController().signal)

const makeDue = ({ id }: Account) =>
  db.run(`update notification_settings set digest_due_at = now() - interval '1 ms' where user_id = $1`, [id])

const mailsTo = ({ email }: Account) => service.digests.filter(({ to }) => to === email)

/** Makes a digest due and sends it. Resolves to the task titles in each mail to the account so far. */
const titlesAfterDue = async (account: Account): Promise<readonly (readonly string[])[]> => {
  await makeDue(account)
  await run()
  return mailsTo(account).map(({ lines }) => lines.map(({ taskTitle }) => taskTitle))
}

/** The due time of the next digest: milliseconds from now, and the time of day in a zone. */
const dueOf = async ({ id }: Account, timeZone = 'UTC') => {
  const [row] = await db.run(
    `select (extract(epoch from digest_due_at) * 1000)::float8 as due_at from notification_settings where user_id = $1`,
    [id],
  )
  const dueAt = Number(row?.due_at)
  const time = new Intl.DateTimeFormat('en-GB', { timeZone, timeStyle: 'medium' }).format(dueAt)
  return { in: dueAt - Date.now(), time }
}

const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]

const moveTo = ({ token }: Account, time_zone: string) =>
  service.expect('updateUser', 200, { token, params: { user_id: 'me' }, body: { time_zone } })

t.test('no mail with digests off', async (t) => {
  const [never, stopped] = [await service.register('never'), await newReader()]
  await choose(stopped, 'off')
  for (const account of [never, stopped]) await assign(account, 'A task')
  const [due] = await db.run(
    'select count(*)::int as n from notification_settings where digest_due_at is not null and user_id in ($1, $2)',
    [never.id, stopped.id],
  )
  t.equal(due?.n, 0)
  await run()
  t.strictSame([...mailsTo(never), ...mailsTo(stopped)], [])
})

t.test('a digest lists notifications since the last one, newest first', async (t) => {
  const reader = await newReader('off')
  await assign(reader, 'Before')
  await choose(reader, 'hourly')
  const { task } = await assign(reader, 'First')
  const comment = {
    token: ada.token,
    params: { task_id: task.id },
    body: { body: `@${reader.user.username}?` },
  }
  await service.expect('createComment', 201, comment)
  await assign(reader, 'Second')
  await run()
  t.strictSame(mailsTo(reader), [], 'no mail before it is due')
  await makeDue(reader)
  await run()
  t.strictSame(mailsTo(reader), [
    {
      to: reader.email,
      count: 3,
      lines: [
        { reason: 'assignment', taskTitle: 'Second', actorName: ada.user.display_name },
        { reason: 'mention', taskTitle: 'First', actorName: ada.user.display_name },
        { reason: 'assignment', taskTitle: 'First', actorName: ada.user.display_name },
      ],
    },
  ])
  t.equal((await titlesAfterDue(reader)).length, 1, 'no notification is sent twice')
  await assign(reader, 'Third')
  t.strictSame((await titlesAfterDue(reader)).slice(1), [['Third']])
})

t.test('after the clock was set back, a digest has what is new, once', async (t) => {
  const reader = await newReader()
  await assign(reader, 'Sent')
  t.strictSame(await titlesAfterDue(reader), [['Sent']])
  await moveClock(db, '-1 hour')
  await correctTimesAhead(db, { webhookLease: 30_000 }, new AbortController().signal)
  t.ok((await dueOf(reader)).in <= hour, 'the next one is not late')
  await assign(reader, 'New')
  t.strictSame(await titlesAfterDue(reader), [['Sent'], ['New']])
})

t.test('due times of digests', async (t) => {
  const isIn = (t: Test, { in: left }: { readonly in: number }, [from, to]: readonly [number, number]) =>
    t.ok(left > from && left <= to, `in ${left} ms`)

  t.test('hourly: in an hour', async (t) => {
    const reader = await newReader('hourly')
    isIn(t, await dueOf(reader), [hour - minute, hour])
    await titlesAfterDue(reader)
    isIn(t, await dueOf(reader), [hour - minute, hour])
  })

  t.test('daily: at 08:00 in the time zone of the user', async (t) => {
    for (const timeZone of ['Asia/Kolkata', 'Asia/Tokyo', 'Pacific/Honolulu']) {
      const reader = await newReader('off')
      await moveTo(reader, timeZone)
      await choose(reader, 'daily')
      const due = await dueOf(reader, timeZone)
      t.equal(due.time, '08:00:00')
      isIn(t, due, [-minute, day])
      await titlesAfterDue(reader)
      t.equal((await dueOf(reader, timeZone)).time, '08:00:00', 'the next one as well')
    }
  })

  t.test('daily: at 08:00 in the new time zone after a change', async (t) => {
    const reader = await newReader('daily')
    t.equal((await dueOf(reader)).time, '08:00:00')
    await moveTo(reader, 'Asia/Kolkata')
    t.equal((await dueOf(reader, 'Asia/Kolkata')).time, '08:00:00')
    const frequent = await newReader('hourly')
    await moveTo(frequent, 'Asia/Kolkata')
    isIn(t, await dueOf(frequent), [hour - minute, hour])
  })

  t.test('repeating a setting does not change the due time', async (t) => {
    const reader = await newReader('hourly')
    await makeDue(reader)
    await choose(reader, 'hourly')
    isIn(t, await dueOf(reader), [-minute, 0])
    await choose(reader, 'daily')
    t.equal((await dueOf(reader)).time, '08:00:00')
  })
})

t.test('read notifications and invisible tasks are omitted', async (t) => {
  const reader = await newReader()
  const project = await createProject(ada)
  await setMember(ada, project, reader, 'viewer')
  const { notification } = await assign(reader, 'Read')
  await service.expect('updateNotification', 200, {
    token: reader.token,
    params: { notification_id: notification.id },
    body: { is_read: true },
  })
  const { task: lost } = await assign(reader, 'Lost', { project_id: project.id })
  const { task: trashed } = await assign(reader, 'In the trash')
  await assign(reader, 'Seen')
  const token = ada.token
  const unassign = { token, params: { task_id: lost.id }, body: { assignee_id: null } }
  await service.expect('updateTask', 200, unassign)
  const membership = { project_id: project.id, user_id: reader.id }
  await service.expect('removeProjectMember', 204, { token, params: membership })
  await service.expect('deleteTask', 204, { token, params: { task_id: trashed.id } })
  t.strictSame(await titlesAfterDue(reader), [['Seen']])
  t.equal(mailsTo(reader)[0]?.count, 1)
  await setMember(ada, project, reader, 'viewer')
  t.strictSame(await titlesAfterDue(reader), [['Seen']], 'not sent later')
})

t.test('no mail without notifications', async (t) => {
  const reader = await newReader()
  t.strictSame(await titlesAfterDue(reader), [])
  await assign(reader, 'Later')
  t.strictSame(await titlesAfterDue(reader), [['Later']])
})

t.test('the newest 50 notifications are listed, and all are counted', async (t) => {
  const reader = await newReader()
  const { notification } = await assign(reader, 'Many')
  await db.run(
    `insert into notifications (id, user_id, reason, event_id, task_id, created_at)
     select gen_random_uuid(), user_id, 'completion', gen_random_uuid(), task_id, created_at + interval '1 ms'
     from notifications, generate_series(1, 60) where id = $1`,
    [notification.id],
  )
  await titlesAfterDue(reader)
  const [mail] = mailsTo(reader)
  t.equal(mail?.count, 61)
  t.equal(mail?.lines.length, 50)
  t.match(mail?.lines[0], { reason: 'completion', actorName: null })
})

t.test('several instances send each digest once', async (t) => {
  const accounts = await Promise.all(Array.from({ length: 8 }, () => newReader()))
  for (const account of accounts) await assign(account, 'Shared')
  await Promise.all(accounts.map(makeDue))
  await Promise.all([run(), run(), run()])
  for (const account of accounts) t.equal(mailsTo(account).length, 1)
})

t.test('the mail is sent to the current address, and not to deleted accounts', async (t) => {
  const [reader, leaver] = [await newReader(), await newReader()]
  for (const account of [reader, leaver]) await assign(account, 'A task')
  const email = 'moved@example.com'
  const { token, password } = reader
  const change = { email, current_password: password }
  await service.expect('updateUser', 200, { token, params: { user_id: 'me' }, body: change })
  await service.expect('deleteUser', 204, { token: leaver.token, params: { user_id: 'me' } })
  await Promise.all([reader, leaver].map(makeDue))
  await run()
  t.strictSame([...mailsTo(reader), ...mailsTo(leaver)], [])
  t.equal(mailsTo({ ...reader, email }).length, 1)
})

t.test('the digest of a disabled user is sent after they are enabled', async (t) => {
  const reader = await newReader()
  const setDisabled = (is_disabled: boolean) =>
    service.expect('updateUser', 200, {
      token: admin.token,
      params: { user_id: reader.id },
      body: { is_disabled },
    })
  await assign(reader, 'Meanwhile')
  await setDisabled(true)
  t.strictSame(await titlesAfterDue(reader), [])
  await setDisabled(false)
  t.strictSame(await titlesAfterDue(reader), [['Meanwhile']])
})

t.test('digests stay due without a mail server', async (t) => {
  const reader = await newReader()
  await assign(reader, 'Waiting')
  await makeDue(reader)
  const mailer = noMailer(service.app.log)
  await createSendDigests({ db, mailer })(new AbortController().signal)
  t.ok((await dueOf(reader)).in <= 0)
  await run()
  t.equal(mailsTo(reader).length, 1)
})

t.test('a stop does not wait for mails', async (t) => {
  const [first, second] = [await newReader(), await newReader()]
  for (const account of [first, second]) {
    await assign(account, 'A task')
    await makeDue(account)
  }
  const stop = new AbortController()
  const sent: string[] = []
  const { promise: never } = Promise.withResolvers<void>()
  const sending = createSendDigests({
    db,
    mailer: {
      delivers: true,
      sendDigest({ to }) {
        sent.push(to)
        setImmediate(() => stop.abort())
        return never
      },
    },
  })
  await sending(stop.signal)
  t.equal(sent.length, 1)
})
