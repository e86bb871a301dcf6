import t from 'tap'
import { jobTimes } from '../../src/jobs/registry.ts'
import { removeDeletedFiles } from '../../src/jobs/stored-files.ts'
import { finishedExport } from '../fixture/exports.ts'
import { jobDepsOf } from '../fixture/jobs.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { openTestStorage } from '../fixture/storage.ts'
import { tus, tusHeaders, uploadActions, uploadIdIn } from '../fixture/uploads.ts'

/** The quota of bytes that the archives of exports and the files to import share. */

const quota = 50_000
const { storage, keys } = await openTestStorage(t)
const service = await startService(t, {
  storage,
  config: { interchangeQuotaBytes: quota },
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 20 },
})
const { db } = service.deps
const { sendChunk } = uploadActions(service)

const usageOf = async ({ id: user_id, token }: Account) =>
  (await service.expect('getUserUsage', 200, { token, params: { user_id } })).body.interchange_bytes

/** A table of so many bytes. */
const table = (size: number) => Buffer.from('title\n'.padEnd(size, 'x\n'))

/** The problem of a request that would exceed the quota. */
const exceeds = (used: number, size: number) => ({
  code: 'quota_exceeded',
  resource: 'interchange_bytes',
  quota,
  used,
  size,
})

const upload = { filename: 'tasks.csv', filetype: 'text/csv' }

t.test('files to import count, with those that are being uploaded', async (t) => {
  const ada = await service.register('ada')
  const { token } = ada
  const { body: first } = await service.expect('createImport', 201, { token, body: fileForm(table(30_000)) })
  const stored = await keys()
  const large = { token, body: fileForm(table(20_001)) }
  t.match((await service.expect('createImport', 413, large)).body, exceeds(30_000, 20_001))
  t.strictSame(await keys(), stored, 'nothing is stored')
  const tooLong = { token, headers: tusHeaders(20_001, upload) }
  t.match((await service.expect('createImportUpload', 413, tooLong)).body, exceeds(30_000, 20_001))

  const started = await service.expect('createImportUpload', 201, {
    token,
    headers: tusHeaders(20_000, upload),
  })
  t.strictSame(await usageOf(ada), { used: quota, quota })
  t.match(
    (await service.expect('createImport', 413, { token, body: fileForm('title\n') })).body,
    exceeds(quota, 6),
  )
  t.match((await service.expect('createExport', 413, { token, body: {} })).body, exceeds(quota, 1))
  const upload_id = uploadIdIn(started.headers)
  t.equal((await sendChunk(ada, upload_id, 0, table(20_000))).status, 204, 'it can be finished')
  t.strictSame(await usageOf(ada), { used: quota, quota })

  await service.expect('deleteImport', 204, { token, params: { import_id: first.id } })
  t.strictSame(await usageOf(ada), { used: 20_000, quota })
  await service.expect('createImport', 201, { token, body: fileForm(table(30_000)) })
})

t.test('an upload that is aborted does not count', async (t) => {
  const ada = await service.register('aborting')
  const { token } = ada
  const { headers } = await service.expect('createImportUpload', 201, {
    token,
    headers: tusHeaders(quota, upload),
  })
  const params = { upload_id: uploadIdIn(headers) }
  await service.expect('abortUpload', 204, { token, params, headers: tus })
  t.strictSame(await usageOf(ada), { used: 0, quota })
})

t.test('three archives are kept from the next export on', async (t) => {
  const bob = await service.register('bob')
  const first = await finishedExport(service, bob)
  // Archives of a version that kept 20.
  await db.run(
    `insert into exports (id, requested_by, user_id, status, storage_key, size, sha256, finished_at, expires_at, created_at)
    select event_id(now(), number), requested_by, user_id, status, gen_random_uuid()::text, 10, sha256, finished_at, expires_at,
      created_at - number * interval '1 minute'
    from exports, generate_series(1, 4) number where id = $1`,
    [first.id],
  )
  const [{ storage_key } = {}] = await db.run('select storage_key from exports where id = $1', [first.id])
  const key = String(storage_key)
  const before = await usageOf(bob)
  t.equal(before.used, (first.size ?? 0) + 40, 'an upgrade deletes nothing')
  const ended = [await finishedExport(service, bob), await finishedExport(service, bob)]
  const { body } = await service.expect('listExports', 200, { token: bob.token })
  t.strictSame(
    body.items.map(({ status }) => status),
    ['finished', 'finished', 'finished', 'expired', 'expired', 'expired', 'expired'],
  )
  const kept = [first, ...ended]
  t.equal(
    (await usageOf(bob)).used,
    kept.reduce((sum, { size }) => sum + (size ?? 0), 0),
  )

  await finishedExport(service, bob)
  await removeDeletedFiles(jobDepsOf(service), { retryAfter: 0, stop: new AbortController().signal })
  t.notOk((await keys()).includes(key), 'its file is removed')
  await service.expect('downloadExport', 409, { token: bob.token, params: { export_id: first.id } })
})
