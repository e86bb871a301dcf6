import t from 'tap'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { takeExport } from '../../src/db/interchange/exports.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { accountActions } from '../fixture/accounts.ts'
import { racesOn } from '../fixture/races.ts'
import { startService } from '../fixture/service.ts'

/** Exports that are requested, and taken, at the same time. */

const { db, options } = await openTestDatabase(t)
const { resultAfter } = racesOn({ db, options })
const service = await startService(t, {
  db,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 },
})
const { setRole } = accountActions(service, await service.register('admin'))

t.test('two run at a time, however many processes take one', async (t) => {
  const users = await Promise.all(['ada', 'bob', 'cid', 'dan', 'eve'].map((name) => service.register(name)))
  for (const { id } of users)
    await db.run('insert into exports (id, requested_by, user_id) values (gen_random_uuid(), $1, $1)', [id])
  const processes = users.map(() => openDatabase(options))
  t.teardown(() => Promise.all(processes.map((one) => one.close())))
  let most = 0
  for (let round = 0; round < 100; round += 1) {
    const take = (one: Database) => takeExport(one, { leaseId: newId(), duration: 30_000 })
    // Of those that take at the same time, one gets the lock.
    await Promise.all(processes.map(async (one) => (await take(one)) ?? take(one)))
    const running = await db.run(`select from exports where status = 'running'`, [])
    most = Math.max(most, running.length)
    await db.run(
      `update exports set status = 'waiting', lease_id = null, leased_until = null, attempts = 0`,
      [],
    )
  }
  t.ok(most <= 2, `${most} run`)
})

t.test('an administrator keeps 20, whoever they are of', async (t) => {
  const [admin, user] = [await service.register('kim'), await service.register('lee')]
  await setRole(admin, 'admin')
  await db.run(
    `insert into exports (id, requested_by, user_id, status) select gen_random_uuid(), $1, $1, 'failed' from generate_series(1, 19)`,
    [admin.id],
  )
  const bodies = [{}, { user_id: user.id }]
  const replies = await resultAfter(
    t,
    { hold: ['lock table exports in share mode'], waiting: bodies.length },
    () => Promise.all(bodies.map((body) => service.call('createExport', { token: admin.token, body }))),
  )
  t.strictSame(new Set(replies.map(({ status }) => status)), new Set([201, 413]))
})
