import { mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { diskStorage } from '../../src/storage/disk.ts'
import { newId } from '../../src/db/engine/ids.ts'
import { takeLease, withLease } from '../../src/db/leases.ts'
import { newKey } from '../../src/storage/keys.ts'
import { FileMissing, type Storage, StorageUnavailable } from '../../src/storage/storage.ts'
import { jobsOf, jobTimes, uploadTimeout } from '../../src/jobs/registry.ts'
import { startJobs } from '../../src/jobs/runner.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { blackPng } from '../fixture/images.ts'
import { fileForm, startService } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'

const folder = await mkdtemp(join(tmpdir(), 'taskwright-jobs-'))
const storage = await diskStorage(folder)
const service = await startService(t, { storage, jobTimes })
const { db } = service.deps
const jobDeps = jobDepsOf(service)
const { token } = await service.register('ada')
t.teardown(() => rm(folder, { recursive: true, force: true }))

const stored = async (): Promise<string[]> => (await filesBelow(folder)).map((path) => basename(path))

const age = async (path: string): Promise<void> => {
  const longAgo = new Date(Date.now() - 3 * uploadTimeout)
  await utimes(path, longAgo, longAgo)
}

const pathOf = (key: string): string => join(folder, key.slice(-2), key)

t.test('what a crash left behind is removed, and nothing else', async (t) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'with a file' } })
  const upload = { token, params: { task_id: task.id }, body: fileForm(blackPng({ width: 8, height: 8 })) }
  const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
  const params = { attach_id: attachment.id }
  const { body: thumbnail } = await service.expect('getThumbnail', 200, { token, params })
  const kept = await stored()
  const orphan = await storage.put(Readable.from([Buffer.from('orphan')]), { maxBytes: 10 })
  const young = await storage.put(Readable.from([Buffer.from('young')]), { maxBytes: 10 })
  const abandoned = join(folder, 'incoming', newKey())
  await writeFile(abandoned, 'half a file')
  for (const path of [...[orphan.key, ...kept].map(pathOf), abandoned]) await age(path)

  await runJobs(jobDeps)

  t.same((await stored()).toSorted(), [...kept, young.key].toSorted())
  await service.expect('downloadAttachment', 200, { token, params })
  const again = await service.expect('getThumbnail', 200, { token, params })
  t.same(again.body, thumbnail)
})

t.test('a file whose removal failed is removed by the next run', async (t) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'to be deleted' } })
  const before = await stored()
  await service.expect('addTaskAttachment', 201, {
    token,
    params: { task_id: task.id },
    body: fileForm('bytes'),
  })
  // What a crash between the commit and the removal of the file leaves behind.
  await db.run('delete from tasks where id = $1', [task.id])
  t.equal((await stored()).length, before.length + 1)
  await runJobs(jobDeps)
  t.same((await stored()).toSorted(), before.toSorted())
})

t.test('a key can be used again after 24 hours', async (t) => {
  const request = { token, headers: { 'idempotency-key': 'daily' }, body: { title: 'daily' } }
  const first = await service.expect('createTask', 201, request)
  await db.run(`update idempotency_keys set created_at = now() - interval '23 hours 59 minutes'`, [])
  const replayed = await service.expect('createTask', 201, request)
  t.equal(replayed.body.id, first.body.id, 'just before they are over it is replayed')
  await db.run(`update idempotency_keys set created_at = now() - interval '24 hours 1 second'`, [])
  const second = await service.expect('createTask', 201, request)
  t.not(second.body.id, first.body.id, 'after them it creates')
  await db.run(`update idempotency_keys set created_at = now() - interval '24 hours 1 second'`, [])
  await runJobs(jobDeps)
  t.same(await db.run('select from idempotency_keys', []), [], 'a background job deletes it')
})

t.test('sessions end when they are over', async (t) => {
  const eve = await service.register('eve')
  const refresh = { body: { refresh_token: eve.refreshToken } }
  await db.run(`update refresh_tokens set expires_at = now() - interval '1 second'`, [])
  await service.expect('refreshToken', 401, refresh)
  const mallory = await service.register('mallory')
  await db.run(`update sessions set expires_at = now() - interval '1 second' where user_id = $1`, [
    mallory.id,
  ])
  await service.expect('refreshToken', 401, { body: { refresh_token: mallory.refreshToken } })
  const left = 'select from sessions where user_id = $1'
  await runJobs(jobDeps)
  t.same(await db.run(left, [eve.id]), [], 'showing a token that was idle for too long ends its session')
  t.same(await db.run(left, [mallory.id]), [])
})

/** A task with as many files, whose keys and attachments are given in one order. */
const newFiles = async (count: number) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'with files' } })
  const attachments: string[] = []
  for (let index = 0; index < count; index += 1) {
    const upload = { token, params: { task_id: task.id }, body: fileForm(`file ${index}`) }
    attachments.push((await service.expect('addTaskAttachment', 201, upload)).body.id)
  }
  const rows = await db.run('select storage_key from attachments where task_id = $1 order by id', [task.id])
  return { task, attachments, keys: rows.map((row) => String(row.storage_key)) }
}

const putOrphans = async (count: number): Promise<string[]> => {
  const keys: string[] = []
  for (let index = 0; index < count; index += 1) {
    const { key } = await storage.put(Readable.from([Buffer.from('orphan')]), { maxBytes: 10 })
    await age(pathOf(key))
    keys.push(key)
  }
  return keys
}

/** Background jobs of another instance, with some functions of its storage replaced. They end with the test. */
const startBeside = (t: Test, replaced: Partial<Storage>, times: Partial<typeof jobTimes> = {}) => {
  const deps = { ...jobDeps, storage: { ...storage, ...replaced }, times: { ...jobTimes, ...times } }
  const jobs = startJobs(jobsOf(deps), { db, log: deps.log, lease: deps.times.lease })
  t.teardown(() => jobs.close())
  return jobs
}

/** Takes down what is removed. */
const recorder = (removed: string[]): Partial<Storage> => ({
  remove: async (key) => {
    removed.push(key)
    await storage.remove(key)
  },
})

const isIdle = async (): Promise<boolean> =>
  (await db.run('select from leases union all select from file_deletions', [])).length === 0

t.test('instances that race remove each file once', async (t) => {
  await eventually('the first runs are over', isIdle)
  const kept = await stored()
  const { task, keys } = await newFiles(20)
  const orphans = await putOrphans(20)
  // Past the service, whose own job would be woken.
  await db.run('delete from tasks where id = $1', [task.id])
  const removed: string[] = []
  for (let index = 0; index < 4; index += 1) startBeside(t, recorder(removed), { lease: 1_000 })
  await eventually('all is removed', async () => removed.length >= 40 && (await isIdle()))
  t.same(removed.toSorted(), [...keys, ...orphans].toSorted())
  t.same((await stored()).toSorted(), kept.toSorted())
})

t.test('one instance at a time runs an exclusive job, for as long as it lives', async (t) => {
  const lease = { name: 'remove_orphans', duration: 1_200 }
  const expiry = async (): Promise<unknown> =>
    (await db.run('select expires_at::text from leases where name = $1', [lease.name]))[0]?.expires_at
  const [key = ''] = await putOrphans(1)
  const alive = Promise.withResolvers<void>()
  t.ok(await takeLease(db, { ...lease, holder: newId() }))

  const crashed = await expiry()
  const listing = Promise.withResolvers<void>()
  const first = startBeside(
    t,
    {
      async *list() {
        listing.resolve()
        await alive.promise
        yield* storage.list()
      },
    },
    { lease: lease.duration },
  )
  await listing.promise
  const begun = await expiry()
  t.ok(String(begun) > String(crashed), 'it begins when the lease of one that crashed has expired')

  let isListed = false
  startBeside(t, { list: () => ((isListed = true), storage.list()) }, { lease: lease.duration })
  const renewedTo = async (after: unknown): Promise<unknown> => {
    await eventually('it is renewed', async () => (await expiry()) !== after)
    return expiry()
  }
  let renewed = begun
  // Each time by a third of its duration: after four of them it would have expired.
  for (let times = 0; times < 5; times += 1) renewed = await renewedTo(renewed)
  t.notOk(isListed, 'another one waits')
  t.ok((await stored()).includes(key))

  alive.resolve()
  await eventually('the orphan is removed', async () => !(await stored()).includes(key))
  await eventually('then it is the turn of the other', async () => isListed)
  await first.close()
})

t.test('a slow job does not delay the others', async (t) => {
  await eventually('the earlier jobs are done', isIdle)
  await service.expect('createTask', 201, {
    token,
    headers: { 'idempotency-key': 'expired' },
    body: { title: 'with a key that expires' },
  })
  await db.run(`update idempotency_keys set created_at = now() - interval '25 hours'`, [])
  const end = Promise.withResolvers<void>()
  const jobs = startBeside(t, {
    async *list() {
      await end.promise
      yield* storage.list()
    },
  })
  await eventually('the key is deleted', async () => {
    return (await db.run('select from idempotency_keys', [])).length === 0
  })
  await eventually('only the listing goes on', async () => {
    const [lease, ...others] = await db.run('select name from leases', [])
    return lease?.name === 'remove_orphans' && others.length === 0
  })
  end.resolve()
  await jobs.close()
})

t.test('who has lost the lease stops, and leaves it to who has it', async (t) => {
  await eventually('nobody has it', isIdle)
  const lease = { name: 'remove_orphans', holder: newId(), duration: 1_500 }
  const other = { ...lease, holder: newId() }
  t.ok(await takeLease(db, lease))
  t.notOk(await takeLease(db, other))
  await withLease(db, lease, new AbortController().signal, async (stop) => {
    const stopped = new Promise((resolve) => stop.addEventListener('abort', resolve))
    await db.run('update leases set holder = $1', [other.holder])
    await stopped
  })
  t.same(await db.run('select holder::text from leases', []), [{ holder: other.holder }])
  await db.run('delete from leases', [])
})

t.test('a file that cannot be removed does not keep the others', async (t) => {
  await eventually('the earlier jobs are done', isIdle)
  const { task, keys } = await newFiles(3)
  const orphans = await putOrphans(3)
  const stuck = new Set([keys[0] ?? '', orphans[0] ?? ''])
  const remove: Storage['remove'] = async (key) => {
    if (stuck.has(key)) throw new StorageUnavailable()
    await storage.remove(key)
  }
  await db.run('delete from tasks where id = $1', [task.id])
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, storage: { ...storage, remove }, log })
  const left = async (): Promise<string[]> =>
    (await stored()).filter((key) => [...keys, ...orphans].includes(key))
  t.same(new Set(await left()), stuck)
  t.equal(lines.length, 2, 'it is said, once for the outbox and once for the orphans')

  await runJobs({ ...jobDeps, storage: { ...storage, remove }, log })
  t.equal(lines.length, 3, 'one of the outbox is not tried again at once')
  stuck.clear()
  await db.run(`update file_deletions set due_at = now() - interval '1 ms'`, [])
  await runJobs(jobDeps)
  t.same(await left(), [])
  t.ok(await isIdle())
})

/** A log that keeps the warnings and errors. */
const recordLog = () => {
  const lines: (object | string)[] = []
  const recording = service.app.log.child({})
  recording.warn = (line: object) => void lines.push(line)
  recording.error = (line: object) => void lines.push(line)
  return { lines, log: recording }
}

t.test('a step that fails does not keep the others', async (t) => {
  const [key = ''] = await putOrphans(1)
  await db.run(`update idempotency_keys set created_at = now() - interval '25 hours'`, [])
  const { lines, log } = recordLog()
  const fail = (): never => {
    throw new StorageUnavailable()
  }
  await runJobs({ ...jobDeps, storage: { ...storage, list: fail, listUnfinished: fail, missing: fail }, log })
  t.equal(lines.length, 3)
  t.same(await db.run('select from idempotency_keys', []), [], 'what the database does is done')
  await runJobs(jobDeps)
  t.notOk((await stored()).includes(key))
})

t.test('an attachment that has lost its file is reported, and kept', async (t) => {
  const { attachments, keys } = await newFiles(3)
  await storage.remove(keys[1] ?? '')
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, log })
  t.same(lines, [{ attachment_id: attachments[1] }], 'by its id, and no other')
  await runJobs({ ...jobDeps, log })
  t.equal(lines.length, 2, 'once a run')
  const params = { attach_id: attachments[1] ?? '' }
  await t.rejects(storage.open(keys[1] ?? ''), FileMissing)
  await service.expect('deleteAttachment', 204, { token, params })
  await runJobs({ ...jobDeps, log })
  t.equal(lines.length, 2, 'no longer when it is deleted')
})

t.test('a storage whose folder is gone has not lost its files one by one', async (t) => {
  const { keys } = await newFiles(1)
  const [key = ''] = keys
  const away = `${folder}-away`
  await rename(folder, away)
  t.teardown(() => rename(away, folder))
  await t.rejects(storage.missing([key]), StorageUnavailable)
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, log })
  t.same(
    lines.filter((line) => typeof line === 'object' && 'attachment_id' in line),
    [],
  )
})

t.test('files that belong to another database stay, whatever this one says', async (t) => {
  await eventually('the earlier jobs are done', isIdle)
  const own = (await storage.readOwner()) ?? ''
  t.teardown(() => storage.writeOwner(own))
  const { task, keys } = await newFiles(2)
  const orphans = await putOrphans(2)
  const half = join(folder, 'incoming', newKey())
  await writeFile(half, 'half a file')
  await age(half)
  await db.run('delete from tasks where id = $1', [task.id])
  const wanted = [...keys, ...orphans, basename(half)]
  const { database, transaction } = JSON.parse(own) as Record<string, string>
  const owners = {
    'another database': {
      owner: { database: `${database}1`, transaction },
      told: /another database.*doctor/,
    },
    'a later time': { owner: { database, transaction: `${transaction}000` }, told: /later state.*doctor/ },
    'a damaged file': { owner: database, told: /another database/ },
  }
  for (const [name, { owner, told }] of Object.entries(owners)) {
    await storage.writeOwner(JSON.stringify(owner))
    await db.run(`update file_deletions set due_at = now() - interval '1 ms'`, [])
    const { lines, log } = recordLog()
    await runJobs({ ...jobDeps, log })
    t.match(lines, [told], name)
    const left = await stored()
    t.ok(
      wanted.every((key) => left.includes(key)),
      `${name}: nothing is removed`,
    )
    t.equal(await storage.readOwner(), JSON.stringify(owner), `${name}: and nothing claimed`)
  }

  await storage.writeOwner(own)
  await db.run(`update file_deletions set due_at = now() - interval '1 ms'`, [])
  await runJobs(jobDeps)
  const left = await stored()
  t.same(
    wanted.filter((key) => left.includes(key)),
    [],
    'its own are removed',
  )
  const { transaction: later } = JSON.parse((await storage.readOwner()) ?? '') as Record<string, string>
  t.ok(BigInt(later ?? 0) > BigInt(transaction ?? 0), 'and it is noted how far the database has come')
})

t.test('files of which nothing is said are of a database that names one of them', async (t) => {
  const stranger = await mkdtemp(join(tmpdir(), 'taskwright-jobs-'))
  t.teardown(() => rm(stranger, { recursive: true, force: true }))
  const other = await diskStorage(stranger)
  const { key } = await other.put(Readable.from([Buffer.from('of somebody else')]), { maxBytes: 20 })
  await age(join(stranger, key.slice(-2), key))
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, storage: { ...other, missing: async () => [] }, log })
  t.match(lines, [/another database/])
  t.equal(await other.readOwner(), null)
  t.equal((await filesBelow(stranger)).length, 1)

  const { keys } = await newFiles(1)
  const [named = ''] = keys
  await rename(pathOf(named), join(stranger, named.slice(-2), named))
  t.teardown(() => rename(join(stranger, named.slice(-2), named), pathOf(named)))
  await runJobs({ ...jobDeps, storage: { ...other, missing: async () => [] } })
  t.equal((await other.readOwner())?.includes('transaction'), true, 'an installation from before goes on')
  t.same(
    (await filesBelow(stranger)).map((path) => basename(path)),
    [named],
  )
})

const skip = process.env.DATABASE_URL === undefined && 'copies of one embedded database are one'

t.test('a mistyped address of the database costs no files', { skip }, async (t) => {
  const { db: otherDb } = await openTestDatabase(t)
  const [orphan = ''] = await putOrphans(1)
  const { keys } = await newFiles(1)
  for (const key of keys) await age(pathOf(key))
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, db: otherDb, log })
  t.match(lines, [/another database/])
  const left = await stored()
  for (const key of [orphan, ...keys]) t.ok(left.includes(key))
  await runJobs(jobDeps)
  t.notOk((await stored()).includes(orphan), 'the right one goes on')
})
