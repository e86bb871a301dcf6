import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { eventually } from '../fixture/eventually.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { openTestStorage, withUploadFaults } from '../fixture/storage.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { countStatuses, type Task, taskActions, unknownId } from '../fixture/tasks.ts'
import { pieceHeaders, tus, tusHeaders, uploadActions, uploadIdIn } from '../fixture/uploads.ts'

const maxBytes = 1_000_000
const quota = 2_000_000

const { storage, keys } = await openTestStorage(t)
const { faults, faulty } = withUploadFaults(storage)
const service = await startService(t, {
  storage: faulty,
  config: { attachmentMaxBytes: maxBytes, attachmentQuotaBytes: quota },
})
const { db } = service.deps
const jobDeps = jobDepsOf(service)
const { createTask } = taskActions(service)
const { sendChunk, startChunk, offsetOf } = uploadActions(service)

let count = 0
const newOwner = async (): Promise<{ readonly owner: Account; readonly task: Task }> => {
  count += 1
  const owner = await service.register(`owner${count}`)
  return { owner, task: await createTask(owner) }
}

const digest = (algorithm: string, bytes: Uint8Array): Buffer => createHash(algorithm).update(bytes).digest()
const sha256 = (bytes: Uint8Array): string => digest('sha256', bytes).toString('hex')

const createUpload = async (
  { token }: Account,
  { id: task_id }: Task,
  length: number,
  metadata?: Readonly<Record<string, string>>,
): Promise<string> => {
  const request = { token, params: { task_id }, headers: tusHeaders(length, metadata) }
  return uploadIdIn((await service.expect('createUpload', 201, request)).headers)
}

const attachmentsOf = async ({ token }: Account, { id: task_id }: Task) =>
  (await service.expect('listTaskAttachments', 200, { token, params: { task_id } })).body.items

/** The attachment in Content-Location, and its content. */
const readAttachment = async ({ token }: Account, headers: Headers) => {
  const attach_id = headers.get('content-location')?.split('/').at(-1) ?? ''
  const { body } = await service.expect('downloadAttachment', 200, { token, params: { attach_id } })
  return { id: attach_id, content: Buffer.from((body ?? []) as unknown as Uint8Array) }
}

/** Expects that an attempt left no file, no row and no attachment. */
const expectNothingLeft = async (t: Test, owner: Account, task: Task): Promise<void> => {
  await eventually('no file is left', async () => (await filesOf(owner)) === 0)
  t.same(await attachmentsOf(owner, task), [])
  t.same(await db.run('select from uploads where user_id = $1', [owner.id]), [])
}

/** The number of files that do not belong to other users. */
const filesOf = async (owner: Account): Promise<number> => {
  const others = await db.run(
    `select storage_key from uploads where user_id <> $1 union select storage_key from attachments where uploaded_by <> $1`,
    [owner.id],
  )
  const known = new Set(others.map((row) => String(row.storage_key)))
  return (await keys()).filter((key) => ![...known].some((one) => key.includes(one))).length
}

t.test('getUploadOptions', async (t) => {
  const params = { task_id: unknownId }

  t.test('204: the version, extensions and checksums, without a token', async (t) => {
    const { headers } = await service.expect('getUploadOptions', 204, { params })
    t.equal(headers.get('tus-version'), '1.0.0')
    t.equal(headers.get('tus-max-size'), String(maxBytes))
    t.match(headers.get('tus-extension'), 'creation')
    t.match(headers.get('tus-checksum-algorithm'), 'sha1')
  })
})

t.test('createUpload', async (t) => {
  const { owner, task } = await newOwner()
  const request = { token: owner.token, params: { task_id: task.id } }

  t.test('201: an upload with offset 0, and no attachment', async (t) => {
    const { headers } = await service.expect('createUpload', 201, { ...request, headers: tusHeaders(5) })
    t.match(headers.get('location'), /^\/uploads\/[0-9a-f-]{36}$/)
    t.equal(headers.get('upload-offset'), '0')
    t.equal(headers.get('content-location'), null)
    const remainingMs = Date.parse(headers.get('upload-expires') ?? '') - Date.now()
    t.ok(remainingMs > 23.9 * 3_600_000 && remainingMs <= 24 * 3_600_000)
    t.same(await attachmentsOf(owner, task), [])
  })

  t.test('201 with the first chunk, or the whole file', async (t) => {
    const content = randomBytes(5_000)
    const headers = { ...pieceHeaders(0), ...tusHeaders(content.length, { filename: 'a.bin' }) }
    const first = await service.expect('createUpload', 201, {
      ...request,
      headers,
      body: content.subarray(0, 99),
    })
    t.equal(first.headers.get('upload-offset'), '99')
    t.equal(first.headers.get('content-location'), null)
    const last = await sendChunk(owner, uploadIdIn(first.headers), 99, content.subarray(99))
    t.ok(content.equals((await readAttachment(owner, last.headers)).content))

    const complete = await service.expect('createUpload', 201, { ...request, headers, body: content })
    t.equal(complete.headers.get('upload-offset'), '5000')
    t.ok(content.equals((await readAttachment(owner, complete.headers)).content))
    t.equal(first.headers.get('task-etag'), null)
    const { body } = await service.expect('getTask', 200, request)
    for (const { headers: sent } of [complete, last]) t.equal(sent.get('task-etag'), `"${body.version}"`)
  })

  t.test('201 for an empty file, which is complete at once', async (t) => {
    const { headers } = await service.expect('createUpload', 201, { ...request, headers: tusHeaders(0) })
    t.equal((await readAttachment(owner, headers)).content.length, 0)
    t.equal(await offsetOf(owner, uploadIdIn(headers)), 0)
    t.equal(
      (await sendChunk(owner, uploadIdIn(headers), 0, Buffer.alloc(0), { 'content-length': '0' })).status,
      204,
    )
  })

  t.test('400 for missing and malformed headers', async (t) => {
    const { 'upload-length': _, ...withoutLength } = tusHeaders(1)
    const invalid: readonly (readonly [pointer: string, headers: Record<string, string>])[] = [
      ['/Upload-Length', withoutLength],
      ['/Upload-Length', { ...withoutLength, 'upload-defer-length': '1' }],
      ['/Upload-Length', { ...tusHeaders(1), 'upload-length': '-1' }],
      ['/Upload-Length', { ...tusHeaders(1), 'upload-length': '1.5' }],
      ['/Upload-Length', { ...tusHeaders(1), 'upload-length': '99999999999999999999' }],
      ['/Upload-Metadata', tusHeaders(1, { filetype: 'text/plain' })],
      ['/Upload-Metadata', tusHeaders(1, { filename: '' })],
      ['/Upload-Metadata', tusHeaders(1, { filename: 'a\nb' })],
      ['/Upload-Metadata', tusHeaders(1, { filename: 'a\0b' })],
      ['/Upload-Metadata', tusHeaders(1, { filename: 'x'.repeat(256) })],
      ['/Upload-Metadata', tusHeaders(1, { filename: 'a', sha256: 'abc' })],
      ['/Upload-Metadata', { ...tusHeaders(1), 'upload-metadata': 'filename YQ==,filename YQ==' }],
      ['/Upload-Metadata', { ...tusHeaders(1), 'upload-metadata': 'filename /w==' }],
      ['/Upload-Metadata', { ...tusHeaders(1), 'upload-metadata': 'filename YQ==,,' }],
      ['/Upload-Checksum', { ...tusHeaders(1), 'upload-checksum': 'md5 YQ==' }],
      ['/Upload-Checksum', { ...tusHeaders(1), 'upload-checksum': 'sha1' }],
      ['/Upload-Concat', { ...tusHeaders(1), 'upload-concat': 'partial' }],
    ]
    for (const [pointer, headers] of invalid) {
      const { body } = await service.expect('createUpload', 400, { ...request, headers })
      t.equal(body.errors?.[0]?.pointer, pointer, JSON.stringify(headers))
    }
  })

  t.test('412 for another version of the protocol, or none', async (t) => {
    for (const version of ['0.2.2', undefined]) {
      const { 'tus-resumable': _, ...others } = tusHeaders(1)
      const headers = { ...others, ...(version !== undefined && { 'tus-resumable': version }) }
      const response = await service.expect('createUpload', 412, { ...request, headers })
      t.equal(response.body.code, 'tus_version_unsupported')
      t.equal(response.headers.get('tus-version'), '1.0.0')
      t.equal(response.headers.get('tus-resumable'), '1.0.0')
    }
  })

  t.test('413 for a file over the maximum size', async (t) => {
    const headers = tusHeaders(maxBytes + 1)
    const { body } = await service.expect('createUpload', 413, { ...request, headers })
    t.equal(body.code, 'content_too_large')
    await createUpload(owner, task, maxBytes)
  })

  t.test('413 above the quota, which includes unfinished uploads at their full size', async (t) => {
    const { owner, task } = await newOwner()
    const first = await createUpload(owner, task, maxBytes)
    await createUpload(owner, task, maxBytes)
    const headers = tusHeaders(1)
    const refused = { token: owner.token, params: { task_id: task.id }, headers }
    const { body } = await service.expect('createUpload', 413, refused)
    t.match(body, { code: 'quota_exceeded', quota, used: quota, size: 1 })
    await service.expect('abortUpload', 204, {
      token: owner.token,
      params: { upload_id: first },
      headers: tus,
    })
    await createUpload(owner, task, 1)
  })

  t.test('415 for a first chunk of another content type', async () => {
    const headers = { ...tusHeaders(1), 'content-type': 'application/octet-stream' }
    await service.expect('createUpload', 415, { ...request, headers, body: Buffer.from('x') })
  })

  t.test('422, 460, 503 and 507: no upload, file or attachment is left', async (t) => {
    const { owner, task } = await newOwner()
    const content = randomBytes(1_000)
    const create = (status: 422 | 460 | 503 | 507, headers: Record<string, string>) =>
      service.expect('createUpload', status, {
        token: owner.token,
        params: { task_id: task.id },
        headers: { ...pieceHeaders(0), ...headers },
        body: content,
      })
    const other = await create(422, tusHeaders(1_000, { filename: 'a', sha256: sha256(Buffer.alloc(1)) }))
    t.equal(other.body.code, 'digest_mismatch')
    await expectNothingLeft(t, owner, task)
    const checksum = `sha1 ${digest('sha1', Buffer.alloc(1)).toString('base64')}`
    const damaged = await create(460, { ...tusHeaders(1_000), 'upload-checksum': checksum })
    t.equal(damaged.body.code, 'checksum_mismatch')
    await expectNothingLeft(t, owner, task)
    for (const [status, error] of [
      [503, new StorageUnavailable()],
      [507, new StorageFull()],
    ] as const) {
      faults.append = error
      await create(status, tusHeaders(1_000))
      faults.append = null
      await expectNothingLeft(t, owner, task)
    }
  })
})

t.test('getUploadOffset', async (t) => {
  const { owner, task } = await newOwner()

  t.test('200: offset, length and metadata of the upload', async (t) => {
    const metadata = { album: '', filename: 'résumé.txt', filetype: 'text/plain' }
    const upload_id = await createUpload(owner, task, 5, metadata)
    await sendChunk(owner, upload_id, 0, Buffer.from('he'))
    const request = { token: owner.token, params: { upload_id }, headers: tus }
    const { headers } = await service.expect('getUploadOffset', 200, request)
    t.equal(headers.get('upload-offset'), '2')
    t.equal(headers.get('upload-length'), '5')
    t.equal(headers.get('upload-metadata'), tusHeaders(5, metadata)['upload-metadata'])
    t.equal(headers.get('cache-control'), 'no-store')
  })

  t.test('412 without a version', async () => {
    const params = { upload_id: await createUpload(owner, task, 5) }
    await service.expect('getUploadOffset', 412, { token: owner.token, params })
  })

  t.test('410 for an expired upload, 404 after the job has deleted it', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('he'))
    await db.run(`update uploads set expires_at = now() - interval '1 second' where id = $1`, [upload_id])
    const request = { token: owner.token, params: { upload_id }, headers: tus }
    await service.expect('getUploadOffset', 410, request)
    const { body } = await sendChunk(owner, upload_id, 2, Buffer.from('llo'))
    t.match(body, { status: 410, code: 'upload_gone' })
    await runJobs(jobDeps)
    await service.expect('getUploadOffset', 404, request)
    await expectNothingLeft(t, owner, task)
  })
})

t.test('appendUpload', async (t) => {
  const { owner, task } = await newOwner()

  t.test('204: chunks become the same attachment as a file sent at once', async (t) => {
    const { owner, task } = await newOwner()
    const content = Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(200_000)])
    const metadata = {
      filename: 'plan.pdf',
      filetype: 'Application/PDF',
      sha256: sha256(content).toUpperCase(),
    }
    const upload_id = await createUpload(owner, task, content.length, metadata)
    const ends = [1, 70_000, content.length - 1, content.length]
    let offset = 0
    for (const end of ends) {
      const { status, headers } = await sendChunk(owner, upload_id, offset, content.subarray(offset, end))
      t.equal(status, 204)
      t.equal(headers.get('upload-offset'), String(end))
      t.equal(await offsetOf(owner, upload_id), end)
      t.equal(headers.has('content-location'), end === content.length)
      t.equal((await attachmentsOf(owner, task)).length, end === content.length ? 1 : 0)
      offset = end
    }
    const file = fileForm(content, metadata.filename, metadata.filetype)
    const params = { task_id: task.id }
    const { body: direct } = await service.expect('addTaskAttachment', 201, {
      token: owner.token,
      params,
      body: file,
    })
    const [, uploaded] = await attachmentsOf(owner, task)
    t.same({ ...uploaded, id: '', created_at: '' }, { ...direct, id: '', created_at: '' })
    const { body: seen } = await service.expect('getTask', 200, { token: owner.token, params })
    t.equal(seen.attachment_count, 2)
  })

  t.test('204: a type that is not declared is detected, and a path is removed', async (t) => {
    const { owner, task } = await newOwner()
    for (const [content, type] of [
      ['%PDF-1.7\n', 'application/pdf'],
      ['Just text.', 'text/plain'],
    ] as const) {
      const upload_id = await createUpload(owner, task, content.length, { filename: '../plans/plan' })
      await sendChunk(owner, upload_id, 0, Buffer.from(content))
      const found = (await attachmentsOf(owner, task)).find(({ size }) => size === content.length)
      t.match(found, { content_type: type, file_name: 'plan' })
    }
  })

  t.test('204 for an empty chunk at the end, if the response to the last chunk was lost', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5)
    const { headers } = await sendChunk(owner, upload_id, 0, Buffer.from('hello'))
    const again = await sendChunk(owner, upload_id, 5, Buffer.alloc(0), { 'content-length': '0' })
    t.equal(again.status, 204)
    const { headers: offsetHeaders } = await service.expect('getUploadOffset', 200, {
      token: owner.token,
      params: { upload_id },
      headers: tus,
    })
    for (const name of ['content-location', 'task-etag']) {
      t.equal(again.headers.get(name), headers.get(name))
      t.equal(offsetHeaders.get(name), headers.get(name))
    }
    t.equal((await sendChunk(owner, upload_id, 5, Buffer.from('x'))).status, 413)
    t.equal((await attachmentsOf(owner, task)).length, 1)
  })

  t.test('204 with the checksum of the chunk', async (t) => {
    const content = Buffer.from('hello')
    const upload_id = await createUpload(owner, task, 5)
    for (const [algorithm, start, end] of [
      ['sha1', 0, 2],
      ['sha256', 2, 5],
    ] as const) {
      const chunk = content.subarray(start, end)
      const checksum = `${algorithm} ${digest(algorithm, chunk).toString('base64')}`
      t.equal((await sendChunk(owner, upload_id, start, chunk, { 'upload-checksum': checksum })).status, 204)
    }
    t.equal(await offsetOf(owner, upload_id), 5)
  })

  t.test('460 with another checksum: the chunk is discarded', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('h'))
    const checksum = {
      'upload-checksum': `sha256 ${digest('sha256', Buffer.from('ello')).toString('base64')}`,
    }
    const { status, body } = await sendChunk(owner, upload_id, 1, Buffer.from('elbo'), checksum)
    t.equal(status, 460)
    t.match(body, { code: 'checksum_mismatch' })
    t.equal(await offsetOf(owner, upload_id), 1)
    const { headers } = await sendChunk(owner, upload_id, 1, Buffer.from('ello'), checksum)
    t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
  })

  t.test('400 for malformed values, 412 for another version, 415 for another media type', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    const chunk = Buffer.from('hello')
    t.equal((await sendChunk(owner, upload_id, 0, chunk, { 'upload-offset': 'x' })).status, 400)
    t.equal((await sendChunk(owner, upload_id, 0, chunk, { 'upload-checksum': 'crc32 YQ==' })).status, 400)
    const anonymous = { params: { upload_id }, headers: pieceHeaders(0), body: chunk }
    const refused = await service.expect('appendUpload', 401, anonymous)
    t.equal(refused.headers.get('tus-resumable'), '1.0.0', 'every response has it')
    t.equal((await sendChunk(owner, upload_id, 0, chunk, { 'tus-resumable': '2.0.0' })).status, 412)
    const other = await sendChunk(owner, upload_id, 0, chunk, { 'content-type': 'application/octet-stream' })
    t.equal(other.status, 415)
    t.equal(other.headers.get('accept-patch'), 'application/offset+octet-stream')
    t.equal(await offsetOf(owner, upload_id), 0)
  })

  t.test('404 for a user who can no longer see the task', async (t) => {
    const { owner: assignee } = await newOwner()
    const shared = await createTask(owner, { assignee_id: assignee.id })
    const upload_id = await createUpload(assignee, shared, 5)
    await sendChunk(assignee, upload_id, 0, Buffer.from('he'))
    const change = { token: owner.token, params: { task_id: shared.id }, body: { assignee_id: null } }
    await service.expect('updateTask', 200, change)
    t.equal((await sendChunk(assignee, upload_id, 2, Buffer.from('llo'))).status, 404)
    t.same(await attachmentsOf(owner, shared), [])
  })

  t.test('409 for an offset that is not the current one', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('he'))
    for (const offset of [0, 1, 3, 5]) {
      const { status, body } = await sendChunk(owner, upload_id, offset, Buffer.from('llo'))
      t.equal(status, 409)
      t.match(body, { code: 'upload_conflict' })
    }
    t.equal(await offsetOf(owner, upload_id), 2)
  })

  t.test('410 if the storage has lost the bytes, then 404', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('he'))
    const [row] = await db.run('select storage_key from uploads where id = $1', [upload_id])
    await storage.removeUnfinished(String(row?.storage_key))
    t.equal((await sendChunk(owner, upload_id, 2, Buffer.from('llo'))).status, 410)
    t.equal((await sendChunk(owner, upload_id, 2, Buffer.from('llo'))).status, 404)
    await expectNothingLeft(t, owner, task)
  })

  t.test('413 for more bytes than Upload-Length', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    const { body } = await sendChunk(owner, upload_id, 0, Buffer.from('hello!'))
    t.match(body, { status: 413, code: 'content_too_large' })
    const { headers } = await sendChunk(
      owner,
      upload_id,
      await offsetOf(owner, upload_id),
      Buffer.from('hello'),
    )
    t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
  })

  t.test('413 if the quota was used up meanwhile: with room, the upload can be finished', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5)
    const params = { task_id: task.id }
    const attach = (size: number) =>
      service.expect('addTaskAttachment', 201, {
        token: owner.token,
        params,
        body: fileForm(Buffer.alloc(size)),
      })
    const { body: other } = await attach(maxBytes)
    await attach(maxBytes)
    const { body } = await sendChunk(owner, upload_id, 0, Buffer.from('hello'))
    t.match(body, { status: 413, code: 'quota_exceeded' })
    t.equal(await offsetOf(owner, upload_id), 4, 'one byte is missing, so that the client retries')
    await service.expect('deleteAttachment', 204, { token: owner.token, params: { attach_id: other.id } })
    const { headers } = await sendChunk(owner, upload_id, 4, Buffer.from('o'))
    t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
  })

  t.test('422 for another digest than in Upload-Metadata: nothing is left', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5, {
      filename: 'a',
      sha256: sha256(Buffer.from('world')),
    })
    const { body } = await sendChunk(owner, upload_id, 0, Buffer.from('hello'))
    t.match(body, { status: 422, code: 'digest_mismatch', errors: [{ pointer: '/Upload-Metadata' }] })
    const request = { token: owner.token, params: { upload_id }, headers: tus }
    await service.expect('getUploadOffset', 404, request)
    await expectNothingLeft(t, owner, task)
  })

  t.test('423 while another request writes', async (t) => {
    const upload_id = await createUpload(owner, task, 10)
    const first = await startChunk(t, owner, upload_id, 0, 10, Buffer.from('first'))
    const { status, headers, body } = await sendChunk(owner, upload_id, 0, Buffer.from('the second'))
    t.equal(status, 423)
    t.match(body, { code: 'upload_locked' })
    t.equal(headers.get('retry-after'), '5')
    first.socket.write('again')
    const response = await first.answer()
    t.equal(response.status, 204)
    t.equal((await readAttachment(owner, response.headers)).content.toString(), 'firstagain')
  })

  t.test('503 and 507: stored bytes are kept', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('he'))
    for (const [status, error] of [
      [503, new StorageUnavailable()],
      [507, new StorageFull()],
    ] as const) {
      faults.append = error
      t.equal((await sendChunk(owner, upload_id, 2, Buffer.from('llo'))).status, status)
      faults.append = null
      t.equal(await offsetOf(owner, upload_id), 2)
    }
    const { headers } = await sendChunk(owner, upload_id, 2, Buffer.from('llo'))
    t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
  })
})

t.test('abortUpload', async (t) => {
  const { owner, task } = await newOwner()
  const abort = (upload_id: string, token: string | undefined = owner.token) =>
    service.call('abortUpload', { token, params: { upload_id }, headers: tus })

  t.test('204: the upload and its bytes are deleted', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    await sendChunk(owner, upload_id, 0, Buffer.from('he'))
    t.equal((await abort(upload_id)).status, 204)
    t.equal((await abort(upload_id)).status, 404)
    t.equal((await sendChunk(owner, upload_id, 2, Buffer.from('llo'))).status, 404)
    await expectNothingLeft(t, owner, task)
  })

  t.test('204 for a complete upload, whose attachment stays', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5)
    const { headers } = await sendChunk(owner, upload_id, 0, Buffer.from('hello'))
    t.equal((await abort(upload_id, owner.token)).status, 204)
    await runJobs(jobDeps)
    t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
  })

  t.test('412 without a version', async (t) => {
    const upload_id = await createUpload(owner, task, 5)
    await service.expect('abortUpload', 412, { token: owner.token, params: { upload_id } })
    t.equal(await offsetOf(owner, upload_id), 0)
  })
})

t.test('X-HTTP-Method-Override: a POST can change or delete an upload, and nothing else', async (t) => {
  const { owner, task } = await newOwner()
  const upload_id = await createUpload(owner, task, 5)
  const post = async (path: string, headers: Readonly<Record<string, string>>, body?: string) => {
    const authorization = `Bearer ${owner.token}`
    const request = { method: 'POST', headers: { ...tus, authorization, ...headers } }
    const { status } = await fetch(`${service.url}${path}`, {
      ...request,
      ...(body !== undefined && { body }),
    })
    return status
  }
  const as = (method: string) => ({ 'x-http-method-override': method })
  const upload = `/uploads/${upload_id}`
  t.equal(await post(upload, { ...as('PATCH'), ...pieceHeaders(0) }, 'he'), 204)
  t.equal(await offsetOf(owner, upload_id), 2)
  t.equal(await post(upload, pieceHeaders(2), 'll'), 405, 'a POST without the header is not allowed')
  for (const method of ['HEAD', 'GET', 'OPTIONS', 'patch', '']) t.equal(await post(upload, as(method)), 405)
  t.equal(await post(`/tasks/${task.id}`, as('DELETE')), 405, 'only uploads accept the header')
  t.equal(await post(upload, as('DELETE')), 204)
  t.equal(await post(upload, as('DELETE')), 404)
  await expectNothingLeft(t, owner, task)
})

t.test('requests at the same time', async (t) => {
  t.test('ten requests with the same chunk: one is stored', async (t) => {
    const { owner, task } = await newOwner()
    const content = randomBytes(300_000)
    const upload_id = await createUpload(owner, task, content.length)
    const requests = Array.from({ length: 10 }, () => sendChunk(owner, upload_id, 0, content))
    const replies = await Promise.all(requests)
    const { 204: stored = 0, 409: conflict = 0, 423: locked = 0 } = countStatuses(replies)
    t.equal(stored, 1)
    t.equal(conflict + locked, 9)
    const headers = replies.find(({ status }) => status === 204)?.headers ?? new Headers()
    t.ok(content.equals((await readAttachment(owner, headers)).content))
    t.equal((await attachmentsOf(owner, task)).length, 1)
  })

  t.test('five requests with the last byte, after a failed completion: one attachment', async (t) => {
    const { owner, task } = await newOwner()
    const upload_id = await createUpload(owner, task, 5)
    faults.complete = new StorageUnavailable()
    t.equal((await sendChunk(owner, upload_id, 0, Buffer.from('hello'))).status, 503)
    faults.complete = null
    t.equal(await offsetOf(owner, upload_id), 4)
    const last = Array.from({ length: 5 }, () => sendChunk(owner, upload_id, 4, Buffer.from('o')))
    const replies = await Promise.all(last)
    const headers = replies.find(({ status }) => status === 204)?.headers ?? new Headers()
    t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
    t.equal((await attachmentsOf(owner, task)).length, 1)
    t.equal(await offsetOf(owner, upload_id), 5)
  })

  t.test('a client continues after its connection was lost', async (t) => {
    const { owner, task } = await newOwner()
    const content = randomBytes(300_000)
    const upload_id = await createUpload(owner, task, content.length)
    for (const leave of ['destroy', 'resetAndDestroy'] as const) {
      const offset = await offsetOf(owner, upload_id)
      const chunk = content.subarray(offset, offset + 100_000)
      const { socket } = await startChunk(t, owner, upload_id, offset, content.length - offset, chunk)
      socket[leave]()
      await eventually(
        'the received bytes are stored',
        async () => (await offsetOf(owner, upload_id)) > offset,
      )
      t.ok((await offsetOf(owner, upload_id)) <= offset + chunk.length)
    }
    // The lease of an interrupted request ends after its bytes are recorded.
    let headers = new Headers()
    await eventually('the upload is complete', async () => {
      const offset = await offsetOf(owner, upload_id)
      const reply = await sendChunk(owner, upload_id, offset, content.subarray(offset))
      headers = reply.headers
      return reply.status === 204
    })
    t.ok(content.equals((await readAttachment(owner, headers)).content))
  })

  t.test('a request whose lease has expired loses the upload to the next one', async (t) => {
    const { owner, task } = await newOwner()
    const content = randomBytes(1_000)
    const upload_id = await createUpload(owner, task, 1_000)
    const stalled = await startChunk(t, owner, upload_id, 0, 1_000, content.subarray(0, 10))
    await db.run(`update uploads set leased_until = now() - interval '1 ms' where id = $1`, [upload_id])
    const { status, headers } = await sendChunk(owner, upload_id, 0, content)
    t.equal(status, 204)
    stalled.socket.write(content.subarray(10))
    t.equal((await stalled.answer()).status, 423)
    t.ok(content.equals((await readAttachment(owner, headers)).content))
    t.equal((await attachmentsOf(owner, task)).length, 1)
  })

  t.test('404 if the upload, its task or its user is deleted while a chunk arrives', async (t) => {
    const ends: readonly (readonly [
      string,
      (owner: Account, task: Task, upload_id: string) => Promise<unknown>,
    ])[] = [
      [
        'upload',
        ({ token }, _task, upload_id) =>
          service.expect('abortUpload', 204, { token, params: { upload_id }, headers: tus }),
      ],
      [
        'task',
        async ({ token }, { id: task_id }) => {
          await service.expect('deleteTask', 204, { token, params: { task_id } })
          await service.expect('deleteTrashedTask', 204, { token, params: { task_id } })
        },
      ],
      ['user', ({ token, id: user_id }) => service.expect('deleteUser', 204, { token, params: { user_id } })],
    ]
    for (const [what, end] of ends) {
      const { owner, task } = await newOwner()
      const upload_id = await createUpload(owner, task, 10)
      const chunk = await startChunk(t, owner, upload_id, 0, 10, Buffer.from('first'))
      await end(owner, task, upload_id)
      chunk.socket.write('again')
      t.equal((await chunk.answer()).status, 404, what)
      await eventually('no file is left', async () => (await filesOf(owner)) === 0)
      t.same(await db.run('select from uploads where id = $1', [upload_id]), [])
    }
  })
})

t.test('background jobs keep an upload that can be continued, however old its files are', async (t) => {
  const { owner, task } = await newOwner()
  const content = Buffer.from('hello')
  const upload_id = await createUpload(owner, task, 5)
  await sendChunk(owner, upload_id, 0, content.subarray(0, 2))
  const aged = async function* (files: ReturnType<typeof storage.list>) {
    for await (const { key } of files) yield { key, modifiedAt: new Date(0) }
  }
  const old = { list: () => aged(storage.list()), listUnfinished: () => aged(storage.listUnfinished()) }
  await runJobs({ ...jobDeps, storage: { ...storage, ...old } })
  const { headers } = await sendChunk(owner, upload_id, 2, content.subarray(2))
  await runJobs({ ...jobDeps, storage: { ...storage, ...old } })
  t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')

  await db.run(`update uploads set expires_at = now() - interval '1 second' where id = $1`, [upload_id])
  await runJobs(jobDeps)
  t.same(await db.run('select from uploads where id = $1', [upload_id]), [], 'the expired upload is deleted')
  t.equal((await readAttachment(owner, headers)).content.toString(), 'hello')
})
