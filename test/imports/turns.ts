import t from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { takeExport } from '../../src/db/interchange/exports.ts'
import { takeImport } from '../../src/db/interchange/imports.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { startService } from '../fixture/service.ts'

/** Whose exports and imports go first. The jobs of the service run once, before there are any. */

const hour = 3_600_000
const service = await startService(t, { jobTimes: { ...jobTimes, events: hour, retry: hour } })
const { db } = service.deps
let people = 0

/** Ids of new users. */
const newPeople = (count: number): Promise<readonly string[]> =>
  Promise.all(
    Array.from({ length: count }, async () => (await service.register(`person-${(people += 1)}`)).id),
  )

/** Something that waits for a job, for so many seconds already. */
const insertImport = async (userId: string, waits: number, status = 'reading', renewals = 0) => {
  const id = newId()
  await db.run(
    `insert into imports (id, user_id, file_name, size, sha256, file_expires_at, status, renewals, updated_at)
     values ($1, $2, 'tasks.csv', 1, '', now(), $3, $4, now() - $5 * interval '1 second')`,
    [id, userId, status, renewals, waits],
  )
  return id
}

const insertExport = async (userId: string, waits: number) => {
  const id = newId()
  await db.run(
    `insert into exports (id, requested_by, user_id, created_at) values ($1, $2, $2, now() - $3 * interval '1 second')`,
    [id, userId, waits],
  )
  return id
}

const lease = { duration: 60_000, onlyUserId: null }
const nextImport = async () => (await takeImport(db, { ...lease, leaseId: newId() }))?.id
const nextExport = async () => (await takeExport(db, { ...lease, leaseId: newId() }))?.id

t.afterEach(async () => {
  await db.run('delete from imports', [])
  await db.run('delete from exports', [])
})

t.test('users whose exports and imports were worked on least go first', async (t) => {
  const [ada = '', bob = '', carol = ''] = await newPeople(3)
  await insertImport(ada, 10, 'finished', 5)
  await insertImport(bob, 7_200, 'finished', 50)
  const [adasImport, bobsImport] = [await insertImport(ada, 300), await insertImport(bob, 200)]
  await insertExport(ada, 300)
  const carolsExport = await insertExport(carol, 100)
  t.equal(await nextExport(), carolsExport)
  t.equal(await nextImport(), bobsImport, 'what was worked on an hour ago does not count')
  t.equal(await nextImport(), adasImport)
})

t.test('what is worked on now counts', async (t) => {
  const [ada = '', bob = ''] = await newPeople(2)
  const adasImport = await insertImport(ada, 300)
  t.equal(await nextImport(), adasImport)
  await db.run('update imports set leased_until = now() where id = $1', [adasImport])
  const bobsImport = await insertImport(bob, 100)
  t.equal(await nextImport(), bobsImport)
  t.equal(await nextImport(), adasImport)
})

t.test('imports leave a place for exports, and exports one for imports', async (t) => {
  const people = await newPeople(7)
  for (const person of people.slice(0, 3)) await insertImport(person, 100)
  t.ok(await nextImport())
  t.ok(await nextImport())
  t.equal(await nextImport(), undefined)
  for (const person of people.slice(3)) await insertExport(person, 100)
  t.ok(await nextExport())
  t.equal(await nextExport(), undefined, 'three run')
  await db.run('delete from imports', [])
  t.ok(await nextExport())
  t.equal(await nextExport(), undefined, 'two exports run')
  await insertImport(people[0] ?? '', 100)
  t.ok(await nextImport())
})
