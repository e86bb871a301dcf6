import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import type { Database } from '../../src/db/engine/client.ts'
import { createDatabaseClock } from '../../src/db/shared/database-clock.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { confirmClock, lookAtClock } from '../../src/db/shared/retention.ts'
import { takeLease } from '../../src/db/shared/leases.ts'
import { makeNewDeliveries } from '../../src/db/activity/webhook-deliveries.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { moveClock } from '../fixture/clock.ts'
import { eventually } from '../fixture/eventually.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { notificationOf } from '../fixture/notifications.ts'
import { secondFactorActions } from '../fixture/second-factor.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'
import { startReceiver } from '../fixture/webhooks.ts'
import { jobsOf, jobTimes } from '../../src/jobs/registry.ts'
import { runOnce } from '../../src/jobs/runner.ts'

/** A clock that is wrong, and one that has been corrected. */

const { db } = await openTestDatabase(t)
// Jobs that clean up or correct times run only when a test runs them.
const service = await startService(t, {
  db,
  jobTimes: { ...jobTimes, events: 50, clock: 3_600_000, cleanupAtStart: false },
})
const { createTask } = taskActions(service)
const { registerGuarded, challengeOf } = secondFactorActions(service)
const jobDeps = jobDepsOf(service)
const never = new AbortController().signal

const admin = await service.register('admin')
// The readers of events begin with the next event.
await runJobs(jobDeps)

t.afterEach(() => confirmClock(db))

/** The access token of a new session: those before a jump of the clock have expired. */
const signIn = async ({ email, password }: Pick<Account, 'email' | 'password'>): Promise<string> => {
  const { body } = await service.expect('login', 200, { body: { email, password } })
  if (!('access_token' in body)) throw new Error('There is no second factor')
  return body.access_token
}

/** An account with data of every kind that is deleted some day. */
const newData = async (name: string) => {
  const ada = await service.register(name)
  const bob = await service.register(`${name}-2`)
  const kept = await createTask(ada, { title: 'Kept', assignee_id: bob.id })
  await notificationOf(service, bob, kept.id)
  const trashed = await createTask(ada, { title: 'Trashed' })
  await service.expect('deleteTask', 204, { token: ada.token, params: { task_id: trashed.id } })
  /** What has not been deleted. */
  const left = async () => {
    const token = await signIn(ada)
    const trash = await service.expect('listTrashedTasks', 200, { token })
    const history = await service.expect('listTaskEvents', 200, { token, params: { task_id: kept.id } })
    const audit = await service.expect('listAuditEvents', 200, {
      token: await signIn(admin),
      query: { action: 'user.registered', user_id: ada.id },
    })
    const inbox = await service.expect('listNotifications', 200, { token: await signIn(bob) })
    return {
      trash: trash.body.items.length,
      history: history.body.items.length,
      audit: audit.body.items.length,
      inbox: inbox.body.items.length,
    }
  }
  return { ada, left }
}

/** The jobs of a service that has just started, and what they log as errors. */
const startJobs = () => {
  const errors: unknown[] = []
  const log = jobDeps.log.child({})
  log.error = (...line: unknown[]) => void errors.push(line)
  const jobs = jobsOf({ ...jobDeps, log, databaseClock: createDatabaseClock() })
  return { errors, jobs, runAll: () => runOnce(jobs, log) }
}

/** Moves the clock, as the looks of a running service see it. */
const stepClock = async (by: string): Promise<void> => {
  await moveClock(db, by)
  await lookAtClock(db)
}

/** Sets the clock back, until the service has accepted it. */
const setBack = async (by: string): Promise<void> => {
  await stepClock(`-${by}`)
  await stepClock('30 seconds')
  const { correct_times_ahead } = jobsOf(jobDeps)
  await correct_times_ahead.run(never)
  await correct_times_ahead.run(never)
}

/** A reminder that is due in a time, in milliseconds. */
const remindIn = async (account: Account, time: number) => {
  const { id: task_id } = await createTask(account)
  const { body } = await service.expect('createReminder', 201, {
    token: await signIn(account),
    params: { task_id },
    body: { at: new Date(Date.now() + time).toISOString() },
  })
  return {
    id: body.id,
    isPending: async () => {
      const request = { token: await signIn(account), params: { reminder_id: body.id } }
      return (await service.expect('getReminder', 200, request)).body.is_pending
    },
  }
}

const minute = 60_000

/** A webhook for new tasks whose receiver always fails, and is tried again an hour later at the earliest. */
const failingWebhook = async (t: Test, { token }: Pick<Account, 'token'>) => {
  const receiver = await startReceiver(
    t,
    (response) => void response.writeHead(500, { 'retry-after': '3600' }).end(),
  )
  const { body } = await service.expect('createWebhook', 201, {
    token,
    body: { url: receiver.url, event_types: ['task.created'] },
  })
  const params = { webhook_id: body.id }
  /** The first delivery. */
  const delivery = async () =>
    (await service.expect('listWebhookDeliveries', 200, { token, params })).body.items.at(-1)
  return {
    params,
    /** Resolves when its first delivery has been attempted so often. */
    tried: (attempts: number) =>
      eventually(`attempt ${attempts}`, async () => (await delivery())?.attempts === attempts),
    state: async () => {
      const { body } = await service.expect('getWebhook', 200, { token, params })
      return { status: (await delivery())?.status, disabled_reason: body.disabled_reason }
    },
    /** The number of signatures of the last request. */
    signatures: () => String(receiver.received.at(-1)?.headers['webhook-signature']).split(' ').length,
  }
}

t.test('a start with the clock 400 days ahead deletes nothing', async (t) => {
  const { ada, left } = await newData('early')
  const before = await left()
  await moveClock(db, '400 days')
  const { errors, runAll } = startJobs()
  await service.expect('refreshToken', 401, { body: { refresh_token: ada.refreshToken } })
  await runAll()
  t.strictSame(await left(), before)
  t.match(errors, [[{ days: 400 }, /not seen pass, before it started/]], 'the operator is told')

  await moveClock(db, '-400 days')
  await runAll()
  t.strictSame(await left(), before)
  t.equal(errors.length, 1, 'a corrected clock needs no confirmation')
  await service.expect('refreshToken', 200, { body: { refresh_token: ada.refreshToken } })

  await moveClock(db, '20 days')
  await runAll()
  t.match(errors[1], [{ days: 20 }, /while the service was running/], 'the operator is told of a jump')
  for (const time of ['2 days', '2 days', '20 days']) {
    await moveClock(db, time)
    await runAll()
  }
  t.strictSame((await left()).trash, before.trash, 'only the time that the service has seen counts')
})

t.test('once an operator has confirmed the clock, what is older than its retention is deleted', async (t) => {
  const { left } = await newData('confirmed')
  const before = await left()
  await moveClock(db, '400 days')
  const { errors, runAll } = startJobs()
  await runAll()
  await confirmClock(db)
  await runAll()
  t.equal(errors.length, 1)
  t.strictSame(await left(), { ...before, trash: 0, history: 0, audit: 0, inbox: 0 })
})

t.test('time that the service has seen pass counts for retention', async (t) => {
  const { left } = await newData('seen')
  for (let hours = 0; hours < 31 * 24; hours += 70) {
    await moveClock(db, '70 hours')
    await runJobs(jobDeps)
  }
  t.equal((await left()).trash, 0)
})

t.test('a start with the clock 400 days ahead fires no reminder before its time', async (t) => {
  const ada = await service.register('reminded')
  const reminder = await remindIn(ada, 90 * minute)
  await lookAtClock(db)
  await moveClock(db, '400 days')
  const { jobs } = startJobs()
  await jobs.fire_reminders.run(never)
  t.equal(await reminder.isPending(), true, 'no job runs before the look at the clock')
  await stepClock('10 seconds')
  await jobs.fire_reminders.run(never)
  t.equal(await reminder.isPending(), true)
  const written = await remindIn(ada, 0)
  await jobs.fire_reminders.run(never)
  t.equal(await written.isPending(), false, 'one that is written after the jump fires')

  await stepClock('-400 days')
  await jobs.fire_reminders.run(never)
  t.equal(await reminder.isPending(), true, 'the clock is right again')
  await stepClock('91 minutes')
  await jobs.fire_reminders.run(never)
  t.equal(await reminder.isPending(), false)
  const inbox = await service.expect('listNotifications', 200, { token: await signIn(ada) })
  t.equal(inbox.body.items.length, 2, 'each fires once')
})

t.test('once an operator has confirmed the clock, reminders from before fire late', async (t) => {
  const ada = await service.register('reminded-late')
  await lookAtClock(db)
  const reminder = await remindIn(ada, 48 * 60 * minute)
  await moveClock(db, '20 days')
  const { jobs } = startJobs()
  await jobs.fire_reminders.run(never)
  t.equal(await reminder.isPending(), true)
  await confirmClock(db)
  await jobs.fire_reminders.run(never)
  t.equal(await reminder.isPending(), false)
})

for (const back of ['10 seconds', '1 hour', '400 days'])
  t.test(`a clock that is ${back} back for ten seconds changes nothing`, async (t) => {
    const { ada, left } = await newData(`back-${back.replace(' ', '-')}`)
    const held = await remindIn(ada, 90 * minute)
    const due = await remindIn(ada, minute / 2)
    const { errors, jobs, runAll } = startJobs()
    await runAll()
    const before = await left()
    await stepClock(`-${back}`)
    await runAll()
    t.strictSame(await left(), before)
    await stepClock('10 seconds')
    await moveClock(db, back)
    await runAll()
    t.strictSame(await left(), before)
    t.strictSame(errors, [])
    await service.expect('refreshToken', 200, { body: { refresh_token: ada.refreshToken } })
    await stepClock('30 seconds')
    await runAll()
    t.strictSame([await due.isPending(), await held.isPending()], [false, true], 'reminders fire in time')

    await moveClock(db, '400 days')
    await jobs.fire_reminders.run(never)
    await runAll()
    t.strictSame(await left(), before, 'the clock is watched as before')
    t.match(errors, [[{ days: 400 }]])
    t.equal(await held.isPending(), true)
    await stepClock('-400 days')
  })

t.test('a clock that stays set back is accepted, and watched', async (t) => {
  const { ada, left } = await newData('accepted')
  const reminder = await remindIn(ada, 90 * minute)
  const { errors, runAll } = startJobs()
  await runAll()
  const before = await left()
  await setBack('400 days')
  await stepClock('400 days')
  await runAll()
  t.strictSame(await left(), before)
  t.match(errors, [[{ days: 400 }]])
  t.equal(await reminder.isPending(), true)
})

t.test('webhooks are not silent after the clock was set back', async (t) => {
  const { db } = await openTestDatabase(t)
  const idle = await startService(t, { db, jobTimes: { ...jobTimes, events: 3_600_000 } })
  const { createTask } = taskActions(idle)
  const ada = await idle.register('ada')
  await makeNewDeliveries(db, never)
  const receiver = await startReceiver(t, (response) => void response.writeHead(204).end())
  const create = async () => {
    const body = { url: receiver.url, event_types: ['task.created'] }
    return (await idle.expect('createWebhook', 201, { token: ada.token, body })).body
  }
  await create()
  const crashed = await create()
  await createTask(ada, { title: 'Before' })
  await changesToBeKnown(db)
  await makeNewDeliveries(db, never)
  await db.run(`update webhooks set lease_id = $1, leased_until = now() + interval '30 s' where id = $2`, [
    newId(),
    crashed.id,
  ])
  await moveClock(db, '-1 hour')

  await startService(t, { db, jobTimes: { ...jobTimes, events: 50, clock: 50 } })
  await eventually('the delivery of before arrives', async () => receiver.received.length === 1)
  await createTask(ada, { title: 'After' })
  await eventually('a webhook from the future gets events', async () => receiver.received.length === 2)
  await eventually('a crashed process does not block a webhook for longer than a lease', async () => {
    const [row] = await db.run(
      `select (leased_until <= now() + interval '30 s')::int as is_short from webhooks where id = $1`,
      [crashed.id],
    )
    return row?.is_short === 1
  })
})

t.test('a lease does not outlast the clock being set back, and a live holder keeps it', async (t) => {
  const lease = { name: 'a_job', holder: newId(), duration: 30_000 }
  t.ok(await takeLease(db, lease))
  await moveClock(db, '-1 hour')
  t.notOk(await takeLease(db, { ...lease, holder: newId() }), 'the holder can renew it')
  await moveClock(db, '31 seconds')
  t.ok(await takeLease(db, { ...lease, holder: newId() }))
})

t.test('nobody is locked out after the clock was set back', async () => {
  const { email, password } = await service.register('locked-out')
  const tryOften = async () => {
    for (let failures = 0; failures < 5; failures += 1)
      await service.expect('login', 401, { body: { email, password: 'wrong' } })
    await service.expect('login', 429, { body: { email, password } })
  }
  await tryOften()
  await moveClock(db, '-1 hour')
  await service.expect('login', 200, { body: { email, password } })
  await tryOften()
  await setBack('10 minutes')
  await moveClock(db, '6 seconds')
  await service.expect('login', 200, { body: { email, password } })
})

t.test('an authenticator is accepted after the clock was set back', async (t) => {
  const { id, token, password, codeAt } = await registerGuarded('guarded-ahead')
  await db.run(
    'update second_factors set last_step = last_step + extract(epoch from now())::int / 30 + 1000 where user_id = $1',
    [id],
  )
  const disable = async () =>
    (await service.call('disableSecondFactor', { token, body: { password, code: codeAt(1) } })).status
  t.equal(await disable(), 422)
  await setBack('10 minutes')
  t.equal(await disable(), 204)
})

t.test('credentials expire no later than usual after the clock was set back', async (t) => {
  const ada = await service.register('ada')
  const bob = await service.register('bob')
  const guarded = await registerGuarded('guarded')
  const changeEmail = async ({ token, id }: Account, email: string) => {
    const { status } = await service.call('updateUser', { token, params: { user_id: id }, body: { email } })
    return { status, undoToken: service.emailChanges.at(-1)?.undoToken }
  }
  const { undoToken: earlier } = await changeEmail(ada, 'second@example.com')
  const { undoToken: later } = await changeEmail(ada, 'third@example.com')
  const { undoToken: expiring } = await changeEmail(bob, 'other@example.com')
  const requestReset = async ({ email }: Pick<Account, 'email'>) => {
    await service.expect('forgotPassword', 202, { body: { email } })
    return service.mails.length
  }
  for (let mails = 0; mails < 3; mails += 1) await requestReset({ email: 'other@example.com' })
  await requestReset(guarded)
  const reset = service.mails.at(-1)
  const challenge = await challengeOf(guarded)
  await service.expect('refreshToken', 200, { body: { refresh_token: guarded.refreshToken } })
  await setBack('10 days')

  const isRefused = async (operation: OperationId, body: object) =>
    t.match(await service.call(operation, { body }), { status: 401 }, operation)
  await isRefused('refreshToken', { refresh_token: guarded.refreshToken })
  await moveClock(db, '6 minutes')
  await isRefused('completeLogin', { challenge, code: guarded.codeAt() })
  await moveClock(db, '25 minutes')
  await isRefused('resetPassword', { token: reset?.token, new_password: 'another password' })
  await moveClock(db, '30 minutes')
  const sent = service.mails.length
  t.equal(
    await requestReset({ email: 'other@example.com' }),
    sent + 1,
    'the hourly limit counts no longer than an hour',
  )
  // The order of the changes has stayed: undoing the later one does not end the token of the earlier one.
  for (const token of [later, earlier])
    t.match(await service.call('undoEmailChange', { body: { token } }), { status: 200 })
  await moveClock(db, '7 days')
  await isRefused('undoEmailChange', { token: expiring })
  await moveClock(db, '71 hours')
  t.match(await changeEmail(bob, 'again@example.com'), { status: 403 }, 'the sign-in does not become recent')
})

t.test('webhooks fail and rotate no later than usual after the clock was set back', async (t) => {
  const ada = await service.register('rotating')
  const failing = await failingWebhook(t, ada)
  await service.expect('rotateWebhookSecret', 200, { token: ada.token, params: failing.params })
  await createTask(ada, { title: 'Before' })
  await failing.tried(1)
  await setBack('10 days')
  await stepClock('71 hours')
  await failing.tried(2)
  t.equal(failing.signatures(), 1, 'the previous secret no longer signs')
  t.match(await failing.state(), { status: 'failed', disabled_reason: null })
  await createTask(ada, { title: 'After' })
  await stepClock('2 hours')
  await eventually('it has failed for too long', async () => {
    const { disabled_reason } = await failing.state()
    return disabled_reason === 'failing'
  })
})

t.test('an unconfirmed jump of the clock neither ends retries early nor prolongs them', async (t) => {
  const ada = await service.register('retrying')
  await lookAtClock(db)
  const before = await failingWebhook(t, ada)
  await createTask(ada, { title: 'Before' })
  await before.tried(1)
  await moveClock(db, '4 days')
  await lookAtClock(db)
  await before.tried(2)
  t.match(await before.state(), { status: 'pending', disabled_reason: null })

  const bob = await service.register('retrying-later')
  const after = await failingWebhook(t, bob)
  await createTask(bob, { title: 'After' })
  await after.tried(1)
  // An hour and a half before the webhooks have failed for too long.
  await moveClock(db, '70 hours 30 minutes')
  await lookAtClock(db)
  await before.tried(3)
  await after.tried(2)
  await stepClock('3 hours')
  await before.tried(4)
  await after.tried(3)
  for (const webhook of [before, after])
    t.match(await webhook.state(), { status: 'failed', disabled_reason: 'failing' })
})

t.test('instances accept the tokens and links of one whose clock is an hour ahead', async (t) => {
  const { email, password, token } = await service.register('linking')
  t.teardown(() => mock.timers.reset())
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 3_600_000 })
  let isFollowing = false
  const backgroundDb: Database = {
    ...db,
    async run(...parameters) {
      const rows = await db.run(...parameters)
      isFollowing ||= parameters[0].includes('clock.select')
      return rows
    },
  }
  const ahead = await startService(t, { db, backgroundDb, storage: service.deps.storage })
  await eventually('it has read the clock of the database', async () => isFollowing)
  await ahead.expect('getCurrentUser', 200, { token })
  const { body } = await ahead.expect('login', 200, { body: { email, password } })
  t.ok('access_token' in body && body.expires_in >= 899)
  const tokenOfAhead = 'access_token' in body ? body.access_token : ''
  await service.expect('getCurrentUser', 200, { token: tokenOfAhead })

  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With a file' } })
  const upload = { token, params: { task_id: task.id }, body: fileForm('content') }
  const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
  const params = { attach_id: attachment.id }
  const { body: link } = await service.expect('createAttachmentLink', 201, { token, params, body: {} })
  const { pathname, search } = new URL(link.url, service.url)
  t.equal((await fetch(`${ahead.url}${pathname}${search}`)).status, 200)
})
