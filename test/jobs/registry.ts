import { mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { diskStorage } from '../../src/storage/disk.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { FileHoldLost, hasFileHold, holdFiles } from '../../src/db/files/holds.ts'
import { takeLease, withLease } from '../../src/db/shared/leases.ts'
import { newKey } from '../../src/storage/keys.ts'
import { FileMissing, type Storage, StorageUnavailable } from '../../src/storage/storage.ts'
import { uploadTimeout } from '../../src/jobs/inventory.ts'
import { jobsOf, jobTimes } from '../../src/jobs/registry.ts'
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

t.test('files left behind by a crash are removed, and no others', async (t) => {
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

t.test('a file is as old as the clock of the storage says, not that of the process', async (t) => {
  const behind = 3 * uploadTimeout
  const byClockOfStorage = async function* (files: ReturnType<Storage['list']>) {
    for await (const { key, modifiedAt } of files)
      yield { key, modifiedAt: new Date(modifiedAt.getTime() - behind) }
  }
  const young = await storage.put(Readable.from([Buffer.from('young')]), { maxBytes: 10 })
  const orphan = await storage.put(Readable.from([Buffer.from('orphan')]), { maxBytes: 10 })
  await age(pathOf(orphan.key))
  const halfDone = join(folder, 'incoming', newKey())
  await writeFile(halfDone, 'half a file')
  await runJobs({
    ...jobDeps,
    storage: {
      ...storage,
      now: async () => new Date((await storage.now()).getTime() - behind),
      list: () => byClockOfStorage(storage.list()),
      listUnfinished: () => byClockOfStorage(storage.listUnfinished()),
    },
  })
  const left = await stored()
  t.ok(left.includes(young.key))
  t.ok(left.includes(basename(halfDone)))
  t.notOk(left.includes(orphan.key))
  await storage.remove(young.key)
  await rm(halfDone)
})

t.test('a file that was not removed is removed by the next run', async (t) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'to be deleted' } })
  const before = await stored()
  await service.expect('addTaskAttachment', 201, {
    token,
    params: { task_id: task.id },
    body: fileForm('bytes'),
  })
  // As after a crash between the commit and the removal of the file.
  await db.run('delete from tasks where id = $1', [task.id])
  t.equal((await stored()).length, before.length + 1)
  await runJobs(jobDeps)
  t.same((await stored()).toSorted(), before.toSorted())
})

t.test('an idempotency key can be used again after 24 hours', async (t) => {
  const request = { token, headers: { 'idempotency-key': 'daily' }, body: { title: 'daily' } }
  const first = await service.expect('createTask', 201, request)
  await db.run(`update idempotency_keys set created_at = now() - interval '23 hours 59 minutes'`, [])
  const replayed = await service.expect('createTask', 201, request)
  t.equal(replayed.body.id, first.body.id, 'replayed within 24 hours')
  await db.run(`update idempotency_keys set created_at = now() - interval '24 hours 1 second'`, [])
  const second = await service.expect('createTask', 201, request)
  t.not(second.body.id, first.body.id, 'executed after 24 hours')
  await db.run(`update idempotency_keys set created_at = now() - interval '24 hours 1 second'`, [])
  await runJobs(jobDeps)
  t.same(await db.run('select from idempotency_keys', []), [], 'a background job deletes it')
})

t.test('expired sessions are refused and deleted', async (t) => {
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
  t.same(await db.run(left, [eve.id]), [], 'the use of an expired refresh token ends its session')
  t.same(await db.run(left, [mallory.id]), [])
})

/** A task with files, and the ids of its attachments and keys of its files in the same order. */
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

/** Starts the jobs of another instance, with some functions of its storage replaced. They are stopped when the test ends. */
const startBeside = (t: Test, replaced: Partial<Storage>, times: Partial<typeof jobTimes> = {}) => {
  const deps = { ...jobDeps, storage: { ...storage, ...replaced }, times: { ...jobTimes, ...times } }
  const jobs = startJobs(jobsOf(deps), { db, log: deps.log, lease: deps.times.lease })
  t.teardown(() => jobs.close())
  return jobs
}

/** Records the keys of removed files. */
const recorder = (removed: string[]): Partial<Storage> => ({
  remove: async (key) => {
    removed.push(key)
    await storage.remove(key)
  },
})

const isIdle = async (): Promise<boolean> =>
  (await db.run('select from leases union all select from file_deletions', [])).length === 0

t.test('concurrent instances remove each file once', async (t) => {
  await eventually('the first runs have finished', isIdle)
  const kept = await stored()
  const { task, keys } = await newFiles(20)
  const orphans = await putOrphans(20)
  // By SQL, because the service would wake its own job.
  await db.run('delete from tasks where id = $1', [task.id])
  const removed: string[] = []
  for (let index = 0; index < 4; index += 1) startBeside(t, recorder(removed), { lease: 1_000 })
  await eventually('all files are removed', async () => removed.length >= 40 && (await isIdle()))
  t.same(removed.toSorted(), [...keys, ...orphans].toSorted())
  // A job that looks at the clock of the storage has a file for a moment.
  await eventually(
    'only what is kept is stored',
    async () => (await stored()).toSorted().join() === kept.toSorted().join(),
  )
})

t.test('one instance at a time runs an exclusive job, and renews its lease', async (t) => {
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
  const taken = await expiry()
  t.ok(String(taken) > String(crashed), 'the job starts after the lease of a crashed instance has expired')

  let isListed = false
  startBeside(t, { list: () => ((isListed = true), storage.list()) }, { lease: lease.duration })
  const renewedTo = async (after: unknown): Promise<unknown> => {
    await eventually('the lease is renewed', async () => (await expiry()) !== after)
    return expiry()
  }
  let renewed = taken
  // The lease is renewed every third of its duration. Without renewals, it would expire before the fourth.
  for (let times = 0; times < 5; times += 1) renewed = await renewedTo(renewed)
  t.notOk(isListed, 'the other instance waits')
  t.ok((await stored()).includes(key))

  alive.resolve()
  await eventually('the orphan is removed', async () => !(await stored()).includes(key))
  await eventually('the other instance runs the job', async () => isListed)
  await first.close()
})

t.test('a slow job does not delay other jobs', async (t) => {
  await eventually('the earlier jobs have finished', isIdle)
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
  await eventually('only the slow job is running', async () => {
    const [lease, ...others] = await db.run('select name from leases', [])
    return lease?.name === 'remove_orphans' && others.length === 0
  })
  end.resolve()
  await jobs.close()
})

t.test('an instance that has lost its lease stops, and does not release the lease of another', async (t) => {
  await eventually('no lease is held', isIdle)
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

t.test('a file that cannot be removed does not block others', async (t) => {
  await eventually('the earlier jobs have finished', isIdle)
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
  t.equal(lines.length, 2, 'logged once for the outbox and once for the orphans')

  await runJobs({ ...jobDeps, storage: { ...storage, remove }, log })
  t.equal(lines.length, 3, 'the file in the outbox is not retried immediately')
  stuck.clear()
  await db.run(`update file_deletions set due_at = now() - interval '1 ms'`, [])
  await runJobs(jobDeps)
  t.same(await left(), [])
  t.ok(await isIdle())
})

/** A log that records warnings and errors. */
const recordLog = () => {
  const lines: (object | string)[] = []
  const recording = service.app.log.child({})
  recording.warn = (line: object) => void lines.push(line)
  recording.error = (line: object) => void lines.push(line)
  return { lines, log: recording }
}

t.test('a failed step does not block others', async (t) => {
  const [key = ''] = await putOrphans(1)
  await db.run(`update idempotency_keys set created_at = now() - interval '25 hours'`, [])
  const { lines, log } = recordLog()
  const fail = (): never => {
    throw new StorageUnavailable()
  }
  await runJobs({ ...jobDeps, storage: { ...storage, list: fail, listUnfinished: fail, missing: fail }, log })
  t.equal(lines.length, 3)
  t.same(await db.run('select from idempotency_keys', []), [], 'steps in the database succeed')
  await runJobs(jobDeps)
  t.notOk((await stored()).includes(key))
})

t.test('an attachment without its file is reported, and kept', async (t) => {
  const { attachments, keys } = await newFiles(3)
  await storage.remove(keys[1] ?? '')
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, log })
  t.same(lines, [{ attachment_id: attachments[1] }], 'only this attachment, by its id')
  await runJobs({ ...jobDeps, log })
  t.equal(lines.length, 2, 'once per run')
  const params = { attach_id: attachments[1] ?? '' }
  await t.rejects(storage.open(keys[1] ?? ''), FileMissing)
  await service.expect('deleteAttachment', 204, { token, params })
  await runJobs({ ...jobDeps, log })
  t.equal(lines.length, 2, 'not after its deletion')
})

t.test('a missing storage folder is not reported as missing files', async (t) => {
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

t.test('no file is removed while a backup reads them', async (t) => {
  await eventually('the earlier jobs have finished', isIdle)
  const { task, keys } = await newFiles(2)
  const orphans = await putOrphans(2)
  const half = join(folder, 'incoming', newKey())
  await writeFile(half, 'half a file')
  await age(half)
  const wanted = [...keys, ...orphans, basename(half)]
  const left = async (): Promise<string[]> => (await stored()).filter((key) => wanted.includes(key))
  await db.run('delete from tasks where id = $1', [task.id])
  const [first, second] = [await holdFiles(db), await holdFiles(db)]
  await runJobs(jobDeps)
  t.strictSame(new Set(await left()), new Set(wanted))
  await second.end()
  await runJobs(jobDeps)
  t.strictSame(new Set(await left()), new Set(wanted), 'nor while another one does')
  await first.confirm()
  await first.end()
  await runJobs(jobDeps)
  t.strictSame(await left(), [])
  t.ok(await isIdle())
})

t.test('a backup without a sign of life keeps no file after an hour', async (t) => {
  await eventually('the earlier jobs have finished', isIdle)
  const [orphan = ''] = await putOrphans(1)
  const hold = await holdFiles(db)
  t.teardown(() => hold.end())
  for (const [sign, isHeld] of [
    ['30 minutes', true],
    ['61 minutes', false],
    ['-2 hours', false],
  ] as const) {
    await db.run(`update leases set expires_at = now() + interval '1 hour' - interval '${sign}'`, [])
    t.equal(await hasFileHold(db), isHeld, sign)
  }
  await db.run(`update leases set expires_at = now() - interval '1 second'`, [])
  await runJobs(jobDeps)
  t.notOk((await stored()).includes(orphan))
  await t.rejects(hold.confirm(), FileHoldLost, 'the backup fails')
  await hold.end()
  t.ok(await isIdle())
})

t.test('files of another database are not removed', async (t) => {
  await eventually('the earlier jobs have finished', isIdle)
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
      message: /another database.*doctor/,
    },
    'a later time': { owner: { database, transaction: `${transaction}000` }, message: /later state.*doctor/ },
    'a damaged file': { owner: database, message: /another database/ },
  }
  for (const [name, { owner, message }] of Object.entries(owners)) {
    await storage.writeOwner(JSON.stringify(owner))
    await db.run(`update file_deletions set due_at = now() - interval '1 ms'`, [])
    const { lines, log } = recordLog()
    await runJobs({ ...jobDeps, log })
    t.match(lines, [message], name)
    const left = await stored()
    t.ok(
      wanted.every((key) => left.includes(key)),
      `${name}: no file is removed`,
    )
    t.equal(await storage.readOwner(), JSON.stringify(owner), `${name}: the marker is unchanged`)
  }

  await storage.writeOwner(own)
  await db.run(`update file_deletions set due_at = now() - interval '1 ms'`, [])
  await runJobs(jobDeps)
  const left = await stored()
  t.same(
    wanted.filter((key) => left.includes(key)),
    [],
    'files of this database are removed',
  )
  const { transaction: later } = JSON.parse((await storage.readOwner()) ?? '') as Record<string, string>
  t.ok(BigInt(later ?? 0) > BigInt(transaction ?? 0), 'the marker records the progress of the database')
})

t.test('files without a marker are adopted by a database that references one of them', async (t) => {
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
  t.equal(
    (await other.readOwner())?.includes('transaction'),
    true,
    'an installation from before the marker is adopted',
  )
  t.same(
    (await filesBelow(stranger)).map((path) => basename(path)),
    [named],
  )
})

t.test('a file whose attachment is not committed yet belongs to this database', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-jobs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const fresh = await diskStorage(folder)
  await fresh.put(Readable.from([Buffer.from('uploaded just now')]), { maxBytes: 20 })
  const { lines, log } = recordLog()
  await runJobs({ ...jobDeps, storage: { ...fresh, missing: async () => [] }, log })
  t.strictSame(lines, [])
  t.ok((await fresh.readOwner())?.includes('transaction'))
})

t.test('no files are removed with a mistyped DATABASE_URL', async (t) => {
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
  t.notOk((await stored()).includes(orphan), 'the right database removes it')
})
