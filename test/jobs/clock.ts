import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Database } from '../../src/db/engine/client.ts'
import { newId } from '../../src/db/engine/ids.ts'
import { confirmClock } from '../../src/db/engine/retention.ts'
import { takeLease } from '../../src/db/leases.ts'
import { makeNewDeliveries } from '../../src/db/webhook-deliveries.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { moveClock } from '../fixture/clock.ts'
import { eventually } from '../fixture/eventually.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { notificationOf } from '../fixture/notifications.ts'
import { fileForm, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'
import { startReceiver } from '../fixture/webhooks.ts'
import { jobTimes } from '../../src/jobs/registry.ts'

/** A clock that is wrong, and one that has been corrected. */

/** A service whose jobs for cleaning up run only when a test runs them, with data of every kind that is deleted some day. */
const startWithData = async (t: Test) => {
  const { db } = await openTestDatabase(t)
  const service = await startService(t, { db, jobTimes: { ...jobTimes, events: 50, cleanupAtStart: false } })
  const { createTask } = taskActions(service)
  const jobDeps = jobDepsOf(service)
  const ada = await service.register('ada')
  const bob = await service.register('bob')
  // The readers of events begin with the next event.
  await runJobs(jobDeps)
  const kept = await createTask(ada, { title: 'Kept', assignee_id: bob.id })
  await notificationOf(service, bob, kept.id)
  const trashed = await createTask(ada, { title: 'Trashed' })
  await service.expect('deleteTask', 204, { token: ada.token, params: { task_id: trashed.id } })
  const { email, password } = ada
  /** The access token of a new session: those before a jump of the clock have expired. */
  const signIn = async (account: { readonly email: string; readonly password: string }): Promise<string> => {
    const { body } = await service.expect('login', 200, { body: account })
    if (!('access_token' in body)) throw new Error('There is no second factor')
    return body.access_token
  }
  /** What has not been deleted. */
  const left = async () => {
    const token = await signIn({ email, password })
    const trash = await service.expect('listTrash', 200, { token })
    const history = await service.expect('listTaskEvents', 200, { token, params: { task_id: kept.id } })
    const audit = await service.expect('listAuditEvents', 200, {
      token,
      query: { action: 'user.registered' },
    })
    const inbox = await service.expect('listNotifications', 200, {
      token: await signIn({ email: bob.email, password: bob.password }),
    })
    return {
      trash: trash.body.items.length,
      history: history.body.items.length,
      audit: audit.body.items.length,
      inbox: inbox.body.items.length,
    }
  }
  return { db, service, ada, jobDeps, left }
}

/** Records what a job logs as an error. */
const recordErrors = (jobDeps: ReturnType<typeof jobDepsOf>) => {
  const errors: unknown[] = []
  const log = jobDeps.log.child({})
  log.error = (line: unknown) => void errors.push(line)
  return { errors, deps: { ...jobDeps, log } }
}

t.test('a start with the clock 400 days ahead deletes nothing', async (t) => {
  const { db, service, ada, jobDeps, left } = await startWithData(t)
  const { errors, deps } = recordErrors(jobDeps)
  const before = await left()
  await moveClock(db, '400 days')
  await service.expect('refreshToken', 401, { body: { refresh_token: ada.refreshToken } })
  await runJobs(deps)
  t.strictSame(await left(), before)
  t.match(errors, [{ days: 400 }], 'the operator is told')

  await moveClock(db, '-400 days')
  await runJobs(deps)
  t.strictSame(await left(), before)
  t.equal(errors.length, 1, 'a corrected clock needs no confirmation')
  await service.expect('refreshToken', 200, { body: { refresh_token: ada.refreshToken } })

  await moveClock(db, '20 days')
  await runJobs(deps)
  await moveClock(db, '2 days')
  await runJobs(deps)
  await moveClock(db, '2 days')
  await runJobs(deps)
  await moveClock(db, '20 days')
  await runJobs(deps)
  t.strictSame((await left()).trash, before.trash, 'only the time that the service has seen counts')
})

t.test('once an operator has confirmed the clock, what is older than its retention is deleted', async (t) => {
  const { db, jobDeps, left } = await startWithData(t)
  const { errors, deps } = recordErrors(jobDeps)
  const before = await left()
  await moveClock(db, '400 days')
  await runJobs(deps)
  await confirmClock(db)
  await runJobs(deps)
  t.equal(errors.length, 1)
  t.strictSame(await left(), { ...before, trash: 0, history: 0, audit: 0, inbox: 0 })
})

t.test('time that the service has seen pass counts for retention', async (t) => {
  const { db, jobDeps, left } = await startWithData(t)
  for (let days = 0; days < 31; days += 2) {
    await moveClock(db, '2 days')
    await runJobs(jobDeps)
  }
  t.equal((await left()).trash, 0)
})

const never = new AbortController().signal

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
  const { db } = await openTestDatabase(t)
  const lease = { name: 'a_job', holder: newId(), duration: 30_000 }
  t.ok(await takeLease(db, lease))
  await moveClock(db, '-1 hour')
  t.notOk(await takeLease(db, { ...lease, holder: newId() }), 'the holder can renew it')
  await moveClock(db, '31 seconds')
  t.ok(await takeLease(db, { ...lease, holder: newId() }))
})

t.test('nobody is locked out after the clock was set back', async (t) => {
  const { db } = await openTestDatabase(t)
  const service = await startService(t, { db })
  const { email, password } = await service.register('ada')
  for (let failures = 0; failures < 5; failures += 1)
    await service.expect('login', 401, { body: { email, password: 'wrong' } })
  await service.expect('login', 429, { body: { email, password } })
  await moveClock(db, '-1 hour')
  await service.expect('login', 200, { body: { email, password } })
})

t.test('instances accept the tokens and links of one whose clock is an hour ahead', async (t) => {
  const { db } = await openTestDatabase(t)
  const service = await startService(t, { db })
  const { email, password, token } = await service.register('ada')
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
