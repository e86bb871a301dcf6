import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { jobTimes } from '../../src/jobs/registry.ts'
import { StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { accountActions } from '../fixture/accounts.ts'
import { eventually } from '../fixture/eventually.ts'
import { keepImports, noImportRuns, settledImport, smallTable, uploadedImport } from '../fixture/imports.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { openTestStorage, withUploadFaults } from '../fixture/storage.ts'
import { countStatuses, taskActions } from '../fixture/tasks.ts'
import { pieceHeaders, tus, tusHeaders, uploadActions, uploadIdIn } from '../fixture/uploads.ts'

/** Resumable uploads of files to import. What they share with those of files of tasks is tested in `uploads.ts`. */

const maxBytes = 1_000_000
const attachmentQuota = 1_000

const { storage, keys } = await openTestStorage(t)
const { faults, faulty } = withUploadFaults(storage)
const service = await startService(t, {
  storage: faulty,
  config: { importMaxBytes: maxBytes, attachmentMaxBytes: 500, attachmentQuotaBytes: attachmentQuota },
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 20 },
})
const { db } = service.deps
const jobDeps = jobDepsOf(service)
const { createTask } = taskActions(service)
const { createApiToken } = accountActions(service, await service.register('admin'))
const { sendChunk, startChunk, offsetOf } = uploadActions(service)

let count = 0
const newOwner = (): Promise<Account> => service.register(`owner${(count += 1)}`)

type Caller = Pick<Account, 'token'>

const metadata = { filename: 'tasks.csv', filetype: 'text/csv' }

const createUpload = async (
  { token }: Caller,
  length: number,
  headers: Readonly<Record<string, string>> = metadata,
): Promise<string> =>
  uploadIdIn(
    (await service.expect('createImportUpload', 201, { token, headers: tusHeaders(length, headers) }))
      .headers,
  )

const importsOf = async ({ token }: Caller) =>
  (await service.expect('listImports', 200, { token })).body.items

/** The id of the import in Content-Location. */
const importIdIn = (headers: Headers): string =>
  /^\/imports\/(.+)$/.exec(headers.get('content-location') ?? '')?.[1] ?? 'the response has no import'

const setAuthenticated = ({ id }: Account, time: string) =>
  db.run(`update sessions set authenticated_at = ${time} where user_id = $1`, [id])

const storageKeyOf = async (upload_id: string): Promise<string> => {
  const [row] = await db.run('select storage_key from uploads where id = $1', [upload_id])
  return String(row?.storage_key)
}

/** Expects that an attempt left no row, no import and not the file. */
const expectNothingLeft = async (t: Test, owner: Account): Promise<void> => {
  t.same(await importsOf(owner), [])
  t.same(await db.run('select from uploads where user_id = $1', [owner.id]), [])
  await eventually('no file is left', async () => (await filesOf(owner)) === 0)
}

/** The number of files that do not belong to other users. */
const filesOf = async ({ id }: Account): Promise<number> => {
  const others = await db.run(
    `select storage_key from uploads where user_id <> $1
     union select storage_key from attachments where uploaded_by <> $1
     union select storage_key from imports where user_id <> $1 and storage_key is not null`,
    [id],
  )
  const known = others.map((row) => String(row.storage_key))
  return (await keys()).filter((key) => !known.some((one) => key.includes(one))).length
}

t.test('getImportUploadOptions', async (t) => {
  t.test('204: the maximum size of a file to import, without a token', async (t) => {
    const { headers } = await service.expect('getImportUploadOptions', 204)
    t.equal(headers.get('tus-version'), '1.0.0')
    t.equal(headers.get('tus-max-size'), String(maxBytes))
    t.match(headers.get('tus-extension'), 'creation-with-upload')
  })
})

t.test('createImportUpload', async (t) => {
  const owner = await newOwner()
  const { token } = owner

  t.test('201: an upload with offset 0, and no import', async (t) => {
    const { headers } = await service.expect('createImportUpload', 201, { token, headers: tusHeaders(5) })
    t.match(headers.get('location'), /^\/uploads\/[0-9a-f-]{36}$/)
    t.equal(headers.get('upload-offset'), '0')
    t.equal(headers.get('content-location'), null)
    const remainingMs = Date.parse(headers.get('upload-expires') ?? '') - Date.now()
    t.ok(remainingMs > 23.9 * 3_600_000 && remainingMs <= 24 * 3_600_000)
    t.same(await importsOf(owner), [])
  })

  t.test('201 with the whole file, which is imported', async (t) => {
    const content = Buffer.from('title\nWater the plants\n')
    const headers = { ...pieceHeaders(0), ...tusHeaders(content.length, metadata) }
    const complete = await service.expect('createImportUpload', 201, { token, headers, body: content })
    t.equal(complete.headers.get('upload-offset'), String(content.length))
    t.equal(complete.headers.get('task-etag'), null)
    const ready = await settledImport(service, owner, importIdIn(complete.headers))
    t.match(ready, { status: 'ready', file_name: 'tasks.csv', size: content.length, preview: { tasks: 1 } })
    t.match(await importsOf(owner), [{ id: ready.id }])
  })

  t.test('201 for an empty file, which is complete at once', async (t) => {
    const { headers } = await service.expect('createImportUpload', 201, { token, headers: tusHeaders(0) })
    t.match(await settledImport(service, owner, importIdIn(headers)), { status: 'failed', size: 0 })
  })

  t.test('400 for missing and malformed headers', async (t) => {
    for (const [pointer, headers] of [
      ['/Upload-Length', { ...tusHeaders(1), 'upload-length': '-1' }],
      ['/Upload-Metadata', tusHeaders(1, { filetype: 'text/csv' })],
      ['/Upload-Checksum', { ...tusHeaders(1), 'upload-checksum': 'md5 YQ==' }],
      ['/Upload-Concat', { ...tusHeaders(1), 'upload-concat': 'partial' }],
    ] as const) {
      const { body } = await service.expect('createImportUpload', 400, { token, headers })
      t.equal(body.errors?.[0]?.pointer, pointer)
    }
  })

  t.test('403 long after signing in, before the file is sent; not with an API token', async (t) => {
    const owner = await newOwner()
    await setAuthenticated(owner, `now() - interval '1 hour'`)
    const { body } = await service.expect('createImportUpload', 403, {
      token: owner.token,
      headers: { ...pieceHeaders(0), ...tusHeaders(5) },
      body: Buffer.from('title'),
    })
    t.equal(body.code, 'reauthentication_required')
    await expectNothingLeft(t, owner)
    await createUpload(await createApiToken(owner, { scopes: ['imports:write'] }), 5)
  })

  t.test('412 for another version of the protocol', async () => {
    const headers = { ...tusHeaders(1), 'tus-resumable': '0.2.2' }
    await service.expect('createImportUpload', 412, { token, headers })
  })

  t.test('413 for a file over the maximum size', async (t) => {
    const headers = tusHeaders(maxBytes + 1)
    const { body } = await service.expect('createImportUpload', 413, { token, headers })
    t.equal(body.code, 'content_too_large')
    await createUpload(await newOwner(), maxBytes)
  })

  t.test('413: a user keeps 20 imports, with those that are being uploaded', async (t) => {
    const owner = await newOwner()
    await keepImports(service, owner, 18)
    await createUpload(owner, 5)
    const upload_id = await createUpload(owner, 5)
    const request = { token: owner.token, headers: tusHeaders(5) }
    const { body } = await service.expect('createImportUpload', 413, request)
    t.match(body, { code: 'quota_exceeded', resource: 'imports', quota: 20, used: 20 })
    await service.expect('abortUpload', 204, { token: owner.token, params: { upload_id }, headers: tus })
    const again = await createUpload(owner, 5)
    t.equal((await sendChunk(owner, again, 0, Buffer.from('title'))).status, 204)
    await service.expect('createImportUpload', 413, request)
  })

  t.test('415 for a first chunk of another content type', async () => {
    const headers = { ...tusHeaders(1), 'content-type': 'text/csv' }
    await service.expect('createImportUpload', 415, { token, headers, body: Buffer.from('x') })
  })

  t.test('422, 460, 503 and 507: no upload, file or import is left', async (t) => {
    const owner = await newOwner()
    const content = randomBytes(1_000)
    const create = (status: 422 | 460 | 503 | 507, headers: Record<string, string>) =>
      service.expect('createImportUpload', status, {
        token: owner.token,
        headers: { ...pieceHeaders(0), ...headers },
        body: content,
      })
    const sha256 = createHash('sha256').update('another').digest('hex')
    t.match(await create(422, tusHeaders(1_000, { ...metadata, sha256 })), {
      body: { code: 'digest_mismatch' },
    })
    await expectNothingLeft(t, owner)
    const checksum = `sha1 ${createHash('sha1').update('another').digest('base64')}`
    await create(460, { ...tusHeaders(1_000), 'upload-checksum': checksum })
    await expectNothingLeft(t, owner)
    for (const [status, error] of [
      [503, new StorageUnavailable()],
      [507, new StorageFull()],
    ] as const) {
      faults.append = error
      await create(status, tusHeaders(1_000))
      faults.append = null
      await expectNothingLeft(t, owner)
    }
  })

  t.test('the quota of attachments does not count them', async () => {
    const owner = await newOwner()
    await createUpload(owner, maxBytes)
    const { id: task_id } = await createTask(owner)
    const request = { token: owner.token, params: { task_id }, headers: tusHeaders(500) }
    await service.expect('createUpload', 201, request)
  })
})

t.test('a file in chunks', async (t) => {
  const title = (n: number): string => `Task ${n} ${'x'.repeat(100)}`
  const rows = 2_000
  const content = Buffer.from(`title\n${Array.from({ length: rows }, (_, n) => title(n)).join('\n')}\n`)

  t.test('204: becomes the same import as a file sent at once, and runs', async (t) => {
    const owner = await newOwner()
    const sha256 = createHash('sha256').update(content).digest('hex')
    const upload_id = await createUpload(owner, content.length, { ...metadata, sha256 })
    let offset = 0
    for (const end of [1, 70_000, content.length - 1, content.length]) {
      t.same(await importsOf(owner), [])
      const { status, headers } = await sendChunk(owner, upload_id, offset, content.subarray(offset, end))
      t.equal(status, 204)
      t.equal(await offsetOf(owner, upload_id), end)
      t.equal(headers.has('content-location'), end === content.length)
      offset = end
    }
    const { headers } = await service.expect('getUploadOffset', 200, {
      token: owner.token,
      params: { upload_id },
      headers: tus,
    })
    t.equal(headers.get('task-etag'), null)
    const ready = await settledImport(service, owner, importIdIn(headers))
    const direct = await uploadedImport(service, owner, { name: 'tasks.csv', content })
    const own = {
      id: '',
      created_at: '',
      updated_at: '',
      file_expires_at: '',
    }
    t.strictSame({ ...ready, ...own }, { ...direct, ...own })
    const params = { import_id: ready.id }
    const run = { token: owner.token, params, body: { version: ready.version } }
    await service.expect('runImport', 200, run)
    t.match(await settledImport(service, owner, ready.id), {
      status: 'finished',
      result: { created: rows },
    })
  })

  t.test('204 for an empty chunk at the end, if the response to the last chunk was lost', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 5)
    const { headers } = await sendChunk(owner, upload_id, 0, Buffer.from('title'))
    const again = await sendChunk(owner, upload_id, 5, Buffer.alloc(0), { 'content-length': '0' })
    t.equal(again.status, 204)
    t.equal(importIdIn(again.headers), importIdIn(headers))
    t.equal((await sendChunk(owner, upload_id, 4, Buffer.from('e'))).status, 409)
    t.equal((await sendChunk(owner, upload_id, 5, Buffer.from('x'))).status, 413)
    t.equal((await importsOf(owner)).length, 1)
  })

  t.test('403 for an API token without the scope of the kind', async (t) => {
    const owner = await newOwner()
    const { id: task_id } = await createTask(owner)
    const taskRequest = { token: owner.token, params: { task_id }, headers: tusHeaders(5) }
    for (const granted of ['attachments:write', 'imports:write'] as const) {
      const { token } = await createApiToken(owner, { scopes: [granted] })
      const { headers } = await service.expect('createUpload', 201, taskRequest)
      for (const [needed, upload_id] of [
        ['attachments:write', uploadIdIn(headers)],
        ['imports:write', await createUpload(owner, 5)],
      ] as const) {
        const request = { token, params: { upload_id }, headers: tus }
        for (const { status, headers } of [
          await service.call('getUploadOffset', request),
          await sendChunk({ token }, upload_id, 0, Buffer.from('title')),
          await service.call('abortUpload', request),
        ]) {
          if (needed === granted) t.ok(status < 300)
          else {
            t.equal(status, 403)
            t.match(headers.get('www-authenticate'), `scope="${needed}"`)
          }
        }
      }
      t.equal((await importsOf(owner)).length, granted === 'imports:write' ? 1 : 0)
    }
  })

  t.test('completes long after signing in, because it can take hours', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 5)
    await setAuthenticated(owner, `now() - interval '1 hour'`)
    t.equal((await sendChunk(owner, upload_id, 0, Buffer.from('ti'))).status, 204)
    const { headers } = await sendChunk(owner, upload_id, 2, Buffer.from('tle'))
    t.match(await settledImport(service, owner, importIdIn(headers)), { size: 5 })
  })

  t.test('410 once it has expired, and then nothing is left', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('ti'))
    await db.run(`update uploads set expires_at = now() - interval '1 second' where id = $1`, [upload_id])
    t.equal((await sendChunk(owner, upload_id, 2, Buffer.from('tle'))).status, 410)
    await runJobs(jobDeps)
    await expectNothingLeft(t, owner)
  })

  t.test('413 if there are 20 imports meanwhile: with room, the upload can be finished', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 5)
    await keepImports(service, owner, 20)
    t.match(await sendChunk(owner, upload_id, 0, Buffer.from('title')), {
      status: 413,
      body: { code: 'quota_exceeded', resource: 'imports', used: 20 },
    })
    const [oldest] = await importsOf(owner)
    const params = { import_id: oldest?.id ?? '' }
    await service.expect('deleteImport', 204, { token: owner.token, params })
    const last = await sendChunk(owner, upload_id, await offsetOf(owner, upload_id), Buffer.from('e'))
    t.equal(last.status, 204)
    t.equal((await importsOf(owner)).length, 20)
  })
})

t.test('requests at the same time', async (t) => {
  t.test('the last chunk twice: one import', async (t) => {
    const owner = await newOwner()
    const content = Buffer.from('title\nWater the plants\n')
    const upload_id = await createUpload(owner, content.length)
    await sendChunk(owner, upload_id, 0, content.subarray(0, 7))
    const last = () => sendChunk(owner, upload_id, 7, content.subarray(7))
    const replies = await Promise.all([last(), last()])
    const { 204: stored = 0, 409: conflict = 0, 423: locked = 0 } = countStatuses(replies)
    t.strictSame([stored, conflict + locked], [1, 1])
    t.equal((await importsOf(owner)).length, 1)
    t.equal(await offsetOf(owner, upload_id), content.length)
  })

  t.test('five requests with the last byte, after a failed completion: one import', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 5)
    faults.complete = new StorageUnavailable()
    t.equal((await sendChunk(owner, upload_id, 0, Buffer.from('title'))).status, 503)
    faults.complete = null
    t.equal(await offsetOf(owner, upload_id), 4)
    await Promise.all(Array.from({ length: 5 }, () => sendChunk(owner, upload_id, 4, Buffer.from('e'))))
    t.equal((await importsOf(owner)).length, 1)
    t.equal(await offsetOf(owner, upload_id), 5)
  })

  t.test('a request whose lease has expired loses the upload to the next one: one import', async (t) => {
    const owner = await newOwner()
    const content = Buffer.from('title\nWater the plants\n')
    const upload_id = await createUpload(owner, content.length)
    const stalled = await startChunk(t, owner, upload_id, 0, content.length, content.subarray(0, 5))
    await db.run(`update uploads set leased_until = now() - interval '1 ms' where id = $1`, [upload_id])
    t.equal((await sendChunk(owner, upload_id, 0, content)).status, 204)
    stalled.socket.write(content.subarray(5))
    t.equal((await stalled.answer()).status, 423)
    t.equal((await importsOf(owner)).length, 1)
  })

  t.test('the last room for an import twice: one upload', async (t) => {
    const owner = await newOwner()
    await keepImports(service, owner, 19)
    const request = { token: owner.token, headers: tusHeaders(5) }
    const create = () => service.call('createImportUpload', request)
    t.match(countStatuses(await Promise.all([create(), create(), create()])), { 201: 1, 413: 2 })
  })

  t.test('404 if the user is deleted while a chunk arrives', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 10)
    const chunk = await startChunk(t, owner, upload_id, 0, 10, Buffer.from('title'))
    await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
    await eventually('the user is purged', async () => {
      const rows = await db.run('select from uploads where id = $1', [upload_id])
      return rows.length === 0
    })
    chunk.socket.write('again')
    t.equal((await chunk.answer()).status, 404)
    await eventually('no file is left', async () => (await filesOf(owner)) === 0)
  })
})

t.test('the file of an import that was uploaded in chunks', async (t) => {
  const uploadWhole = async (owner: Account) => {
    const content = Buffer.from(smallTable.content)
    const upload_id = await createUpload(owner, content.length)
    const { headers } = await sendChunk(owner, upload_id, 0, content)
    const ready = await settledImport(service, owner, importIdIn(headers))
    return { upload_id, ready, key: await storageKeyOf(upload_id) }
  }
  const run = async (owner: Account, { id: import_id, version }: { id: string; version: number }) => {
    await service.expect('runImport', 200, { token: owner.token, params: { import_id }, body: { version } })
    return settledImport(service, owner, import_id)
  }
  const aged = async function* (files: ReturnType<typeof storage.list>) {
    for await (const { key } of files) yield { key, modifiedAt: new Date(0) }
  }
  const old = {
    ...storage,
    list: () => aged(storage.list()),
    listUnfinished: () => aged(storage.listUnfinished()),
  }

  t.test('stays when the upload is deleted or expires, and the file is old', async (t) => {
    const owner = await newOwner()
    for (const end of ['delete', 'expire'] as const) {
      const { upload_id, ready } = await uploadWhole(owner)
      if (end === 'delete') {
        const request = { token: owner.token, params: { upload_id }, headers: tus }
        await service.expect('abortUpload', 204, request)
      } else await db.run(`update uploads set expires_at = now() - interval '1 s' where id = $1`, [upload_id])
      await runJobs({ ...jobDeps, storage: old })
      t.same(await db.run('select from uploads where id = $1', [upload_id]), [])
      t.match(await run(owner, ready), { status: 'finished' })
    }
  })

  t.test('is removed with the import, and the upload too', async (t) => {
    const owner = await newOwner()
    const { upload_id, ready, key } = await uploadWhole(owner)
    await service.expect('deleteImport', 204, { token: owner.token, params: { import_id: ready.id } })
    const request = { token: owner.token, params: { upload_id }, headers: tus }
    await service.expect('getUploadOffset', 404, request)
    await noImportRuns(service)
    await runJobs(jobDeps)
    t.notOk((await keys()).some((one) => one.includes(key)))
  })

  t.test('background jobs keep an unfinished one, however old its bytes are', async (t) => {
    const owner = await newOwner()
    const upload_id = await createUpload(owner, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('ti'))
    await runJobs({ ...jobDeps, storage: old })
    t.equal((await sendChunk(owner, upload_id, 2, Buffer.from('tle'))).status, 204)
  })
})

t.test('a file in one request needs no room of uploads that are not complete', async () => {
  const owner = await newOwner()
  await keepImports(service, owner, 19)
  await createUpload(owner, 5)
  await service.expect('createImport', 201, { token: owner.token, body: fileForm('title\n') })
})
