import t from 'tap'
import { openDatabase } from '../../src/db/engine/client.ts'
import { newId } from '../../src/db/engine/ids.ts'
import { takeExport } from '../../src/db/exports.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { racesOn } from '../fixture/races.ts'
import { startService } from '../fixture/service.ts'

/** Exports that are requested, and taken, at the same time. */

const { db, options } = await openTestDatabase(t)
const { skip } = racesOn({ db, options })
const service = await startService(t, {
  db,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 },
})

t.test('two run at a time, however many processes take one', { skip }, async (t) => {
  const users = await Promise.all(['ada', 'bob', 'cid', 'dan', 'eve'].map((name) => service.register(name)))
  for (const { id } of users)
    await db.run('insert into exports (id, requested_by, user_id) values (gen_random_uuid(), $1, $1)', [id])
  const processes = users.map(() => openDatabase(options))
  t.teardown(() => Promise.all(processes.map((one) => one.close())))
  let most = 0
  for (let round = 0; round < 100; round += 1) {
    await Promise.all(processes.map((one) => takeExport(one, { leaseId: newId(), duration: 30_000 })))
    const running = await db.run(`select from exports where status = 'running'`, [])
    most = Math.max(most, running.length)
    await db.run(
      `update exports set status = 'waiting', lease_id = null, leased_until = null, attempts = 0`,
      [],
    )
  }
  t.equal(most, 2)
})
