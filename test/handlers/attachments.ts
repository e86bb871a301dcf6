import { parse as parseDisposition } from 'content-disposition'
import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { accountActions } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { head, openRaw, sendRaw } from '../fixture/raw.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { type Account, type Call, fileForm, startService } from '../fixture/service.ts'
import { openTestStorage } from '../fixture/storage.ts'

type Schemas = components['schemas']

const maxBytes = 100_000
/** Two and a half files of the maximum size. */
const quota = 250_000
const { storage: files, keys } = await openTestStorage(t)

/** The error that the storage throws; null while it works. */
let fault: Error | null = null

/** Runs before a file is opened. */
let beforeOpen = async (): Promise<void> => {}

/** The last source that was passed to the storage. */
let incoming: Parameters<Storage['put']>[0] | null = null

/** A real storage that can fail after the first bytes of a file, or when a file is opened. */
const storage: Storage = {
  ...files,
  put: (source, options) => {
    incoming = source
    return files.put(fault === null ? source : interrupted(source), options)
  },
  open: async (key, range) => {
    if (fault !== null) throw fault
    await beforeOpen()
    return files.open(key, range)
  },
}

async function* interrupted(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    yield chunk.subarray(0, 1)
    if (fault !== null) throw fault
  }
}

const service = await startService(t, {
  storage,
  config: { attachmentMaxBytes: maxBytes, attachmentQuotaBytes: quota },
})
const admin = await service.register('admin')
const { setRole } = accountActions(service, admin)

let count = 0
const register = (): Promise<Account> => service.register(`user${(count += 1)}`)

const newTask = async ({ token }: Account, more: object = {}): Promise<Schemas['Task']> =>
  (await service.expect('createTask', 201, { token, body: { title: 'With files', ...more } })).body

/** A user with a task of their own. */
const newOwner = async () => {
  const owner = await register()
  return { owner, task: await newTask(owner) }
}

const attach = async ({ token }: Account, task: Schemas['Task'], form = fileForm('First release.')) =>
  service.expect('addTaskAttachment', 201, { token, params: { task_id: task.id }, body: form })

const download = async ({ token }: Account, attachment: Schemas['Attachment'], more: Call = {}) =>
  service.call('downloadAttachment', { token, params: { attach_id: attachment.id }, ...more })

const text = (body: unknown): string => Buffer.from((body ?? []) as Uint8Array).toString()

/** Runs `action`, which must store exactly one file, and returns its key. */
const fileStoredBy = async <T>(action: () => Promise<T>): Promise<{ result: T; key: string }> => {
  const before = new Set(await keys())
  const result = await action()
  const [key, ...more] = (await keys()).filter((file) => !before.has(file))
  if (key === undefined || more.length > 0) throw new Error('Exactly one new file was expected')
  return { result, key }
}

const isRemoved = (key: string) => async () => !(await keys()).includes(key)

/** Runs `action`, in which uploads fail, and checks that neither rows nor files remain. */
const expectNothingStored = async (
  t: Test,
  owner: Account,
  task: Schemas['Task'],
  action: () => Promise<unknown>,
) => {
  const before = await keys()
  await action()
  const params = { task_id: task.id }
  const { body } = await service.expect('listTaskAttachments', 200, { token: owner.token, params })
  t.same(body.items, [], 'no row remains')
  await eventually('no file remains', async () => String(await keys()) === String(before))
}

/** The bytes of a multipart form, for forms that FormData cannot create. */
const rawForm = (...parts: readonly { readonly head: string; readonly content: string | Uint8Array }[]) => {
  const pieces = parts.flatMap((part) => [`--limit\r\n${part.head}\r\n\r\n`, part.content, '\r\n'])
  return Buffer.concat([...pieces, '--limit--\r\n'].map((piece) => Buffer.from(piece as string)))
}

const formType = { 'content-type': 'multipart/form-data; boundary=limit' }
const partHead = (parameters: string) => `Content-Disposition: form-data; ${parameters}`
const fileHead = partHead('name="file"; filename="a.txt"')

t.test('listTaskAttachments, 200: newest first', async (t) => {
  const { owner, task } = await newOwner()
  const attachments: Schemas['Attachment'][] = []
  for (const name of ['one', 'two', 'three'])
    attachments.push((await attach(owner, task, fileForm(name, name))).body)
  const request = { token: owner.token, params: { task_id: task.id } }
  const { body } = await service.expect('listTaskAttachments', 200, request)
  t.same(body, { items: attachments.toReversed(), next_cursor: null, prev_cursor: null, total: null })
})

t.test('addTaskAttachment', async (t) => {
  t.test('201: describes the stored file, and increments the attachment count of the task', async (t) => {
    const { owner, task } = await newOwner()
    const content = 'First release.'
    const { body, headers } = await attach(owner, task, fileForm(content, 'notes.md', 'text/markdown'))
    const sha256 = createHash('sha256').update(content).digest('hex')
    t.match(body, {
      task_id: task.id,
      file_name: 'notes.md',
      content_type: 'text/markdown',
      detected_content_type: null,
      size: content.length,
      sha256,
      uploaded_by: owner.id,
    })
    t.equal(headers.get('location'), `/attachments/${body.id}`)
    t.equal(headers.get('etag'), `"${sha256}"`)
    const after = await service.expect('getTask', 200, { token: owner.token, params: { task_id: task.id } })
    t.equal(after.body.attachment_count, 1)
    t.match(after.body, { version: task.version, revision: task.revision + 1 })
    t.equal(headers.get('task-etag'), `"${task.version}"`)
  })

  t.test('201: an empty file', async (t) => {
    const { owner, task } = await newOwner()
    const { body } = await attach(owner, task, fileForm('', 'empty'))
    t.equal(body.size, 0)
    t.equal(body.sha256, createHash('sha256').digest('hex'))
    const got = await download(owner, body)
    t.equal(got.status, 200)
    t.equal(got.headers.get('content-length'), '0')
  })

  t.test('201: a file of the maximum size is downloaded unchanged', async (t) => {
    const { owner, task } = await newOwner()
    const content = randomBytes(maxBytes)
    const { body } = await attach(owner, task, fileForm(content, 'random', 'application/x-random'))
    t.equal(body.size, content.length)
    t.equal(body.sha256, createHash('sha256').update(content).digest('hex'))
    const got = await download(owner, body)
    t.ok(content.equals(got.body as Uint8Array))
    t.equal(got.headers.get('content-type'), 'application/x-random')
  })

  t.test('201: an invalid media type is replaced', async (t) => {
    const { owner, task } = await newOwner()
    for (const claimed of ['nonsense', 'text/html, text/plain', 'a/b/c', `a/${'b'.repeat(200)}`]) {
      const body = rawForm({ head: `${fileHead}\r\nContent-Type: ${claimed}`, content: 'x' })
      const { body: attachment } = await service.expect('addTaskAttachment', 201, {
        token: owner.token,
        params: { task_id: task.id },
        headers: formType,
        body,
      })
      t.match(attachment.content_type, /^[a-z]+\/[a-z-]+$/, claimed)
      t.equal((await download(owner, attachment)).status, 200)
    }
  })

  t.test('400: anything but a form with one file named file', async (t) => {
    const { owner, task } = await newOwner()
    const whole = rawForm({ head: fileHead, content: 'x' }).toString()
    const file = { head: fileHead, content: 'x' }
    const field = { head: partHead('name="note"'), content: 'x' }
    const forms: readonly { name: string; body: string | Uint8Array; pointer?: string; type?: string }[] = [
      { name: 'two files', body: rawForm(file, file), pointer: '/file' },
      { name: '20 files', body: rawForm(...Array.from({ length: 20 }, () => file)), pointer: '/file' },
      {
        name: '1,001 fields',
        body: rawForm(...Array.from({ length: 1_001 }, () => field)),
        pointer: '/note',
      },
      {
        name: '1,001 fields after a file',
        body: rawForm(file, ...Array.from({ length: 1_001 }, () => field)),
      },
      { name: 'a field before the file', body: rawForm(field, file), pointer: '/note' },
      { name: 'a field after the file', body: rawForm(file, field), pointer: '/note' },
      { name: 'a huge field', body: rawForm({ ...field, content: 'x'.repeat(maxBytes) }) },
      {
        name: 'a huge field name',
        body: rawForm({ ...field, head: partHead(`name="${'x'.repeat(10_000)}"`) }),
      },
      { name: 'no part', body: '--limit--\r\n', pointer: '/file' },
      { name: 'an empty form', body: '\r\n' },
      {
        name: 'another name',
        body: rawForm({ ...file, head: partHead('name="upload"; filename="a"') }),
        pointer: '/upload',
      },
      {
        name: 'a prototype for a name',
        body: rawForm({ ...file, head: partHead('name="__proto__"; filename="a"') }),
      },
      { name: 'no name', body: rawForm({ ...file, head: partHead('filename="a"') }) },
      { name: 'a field instead of a file', body: rawForm({ ...file, head: partHead('name="file"') }) },
      { name: 'a part without headers', body: '--limit\r\n\r\nx\r\n--limit--\r\n' },
      { name: 'a form that ends inside the file', body: whole.slice(0, -12) },
      { name: 'a form that ends inside the headers of a part', body: whole.slice(0, 30) },
      { name: 'no boundary in the body', body: 'just text' },
      { name: 'another boundary', body: whole, type: 'multipart/form-data; boundary=other' },
      { name: 'no boundary in the type', body: whole, type: 'multipart/form-data' },
      { name: 'an empty boundary', body: whole, type: 'multipart/form-data; boundary=' },
      { name: 'a huge boundary', body: whole, type: `multipart/form-data; boundary=${'x'.repeat(5_000)}` },
    ]
    await expectNothingStored(t, owner, task, async () => {
      for (const { name, body, pointer, type } of forms) {
        const { body: problem } = await service.expect('addTaskAttachment', 400, {
          token: owner.token,
          params: { task_id: task.id },
          headers: { 'content-type': type ?? formType['content-type'] },
          body,
        })
        t.equal(problem.code, 'invalid_request', name)
        if (pointer !== undefined) t.equal(problem.errors?.[0]?.pointer, pointer, name)
      }
    })
    t.equal(Object.getPrototypeOf({}), Object.prototype)
    t.equal((await attach(owner, task)).body.size, 14, 'a valid form is accepted afterwards')
  })

  t.test('400: no body', async (t) => {
    const { owner, task } = await newOwner()
    const lines = [
      `POST /tasks/${task.id}/attachments HTTP/1.1`,
      'Host: x',
      `Authorization: Bearer ${owner.token}`,
    ]
    const answer = await sendRaw(
      t,
      service.url,
      head(...lines, 'Content-Type: multipart/form-data; boundary=x'),
    )
    t.equal(answer.status, 400)
  })

  t.test('413: one byte over the limit', async (t) => {
    const { owner, task } = await newOwner()
    const params = { task_id: task.id }
    await expectNothingStored(t, owner, task, async () => {
      const body = fileForm(randomBytes(maxBytes + 1))
      const { body: problem } = await service.expect('addTaskAttachment', 413, {
        token: owner.token,
        params,
        body,
      })
      t.match(problem.detail, String(maxBytes))
    })
    await expectNothingStored(t, owner, task, async () => {
      const body = rawForm({ head: fileHead, content: randomBytes(maxBytes + 1) })
      const chunks = ReadableStream.from([body.subarray(0, 70_000), body.subarray(70_000)])
      const response = await fetch(`${service.url}/tasks/${task.id}/attachments`, {
        method: 'POST',
        headers: { ...formType, authorization: `Bearer ${owner.token}` },
        body: chunks,
        duplex: 'half',
      })
      t.equal(response.status, 413, 'without a Content-Length as well')
      t.match(await response.json(), { code: 'content_too_large' })
    })
    t.equal((await attach(owner, task, fileForm(randomBytes(maxBytes)))).body.size, maxBytes)
  })

  t.test('413: a Content-Length over the limit is rejected before the body is sent', async (t) => {
    const { owner, task } = await newOwner()
    await expectNothingStored(t, owner, task, async () => {
      const answer = await sendRaw(
        t,
        service.url,
        head(
          `POST /tasks/${task.id}/attachments HTTP/1.1`,
          'Host: x',
          `Authorization: Bearer ${owner.token}`,
          'Content-Type: multipart/form-data; boundary=limit',
          'Content-Length: 100000000000',
        ),
      )
      t.equal(answer.status, 413)
      t.match(answer.body, { code: 'content_too_large' })
    })
  })

  t.test('415: another media type, or none', async (t) => {
    const { owner, task } = await newOwner()
    await expectNothingStored(t, owner, task, async () => {
      for (const type of ['application/json', 'application/x-www-form-urlencoded', 'multipart/mixed', '']) {
        const { body } = await service.expect('addTaskAttachment', 415, {
          token: owner.token,
          params: { task_id: task.id },
          headers: { 'content-type': type },
          body: '{}',
        })
        t.match(body.detail, 'multipart/form-data', type)
      }
    })
  })

  t.test('503, 507: nothing remains after a storage failure, and a retry succeeds', async (t) => {
    t.teardown(() => (fault = null))
    const { owner, task } = await newOwner()
    const upload = () => ({
      token: owner.token,
      params: { task_id: task.id },
      body: fileForm(randomBytes(maxBytes)),
    })
    for (const [status, error, code] of [
      [507, new StorageFull({ cause: new Error('/secret/path') }), 'insufficient_storage'],
      [503, new StorageUnavailable({ cause: new Error('/secret/path') }), 'service_unavailable'],
    ] as const) {
      await expectNothingStored(t, owner, task, async () => {
        fault = error
        const { body } = await service.expect('addTaskAttachment', status, upload())
        fault = null
        t.equal(body.code, code)
        t.notMatch(JSON.stringify(body), 'secret')
      })
    }
    const { body } = await service.expect('addTaskAttachment', 201, upload())
    t.equal(body.size, maxBytes)
  })
})

const sha256Of = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex')

const digestField = (value: string) => ({ head: partHead('name="sha256"'), content: value })

const digestHeader = (content: Uint8Array, algorithm: 'sha256' | 'sha512' = 'sha256') =>
  `${algorithm.replace('sha', 'sha-')}=:${createHash(algorithm).update(content).digest('base64')}:`

/** A request that uploads the bytes of a form. */
const formUpload = ({ token }: Account, { id }: Schemas['Task'], body: Uint8Array, headers = {}): Call => ({
  token,
  params: { task_id: id },
  headers: { ...formType, ...headers },
  body,
})

t.test('addTaskAttachment: digests', async (t) => {
  const { owner, task } = await newOwner()
  const content = randomBytes(maxBytes)
  const sha256 = sha256Of(content)
  const file = { head: fileHead, content }

  t.test('201: a sha256 field before or after the file, with Content-Digest', async (t) => {
    const uploader = await newOwner()
    const small = { head: fileHead, content: 'small' }
    const forms = [
      rawForm(digestField(sha256Of('small')), small),
      rawForm(small, digestField(sha256Of('small'))),
      rawForm(small, digestField(sha256Of('small').toUpperCase())),
      rawForm(digestField(''), small),
      rawForm(small),
      Buffer.concat([rawForm(small), Buffer.from('an epilogue\r\n')]),
    ]
    for (const form of forms) {
      const digests = [
        digestHeader(form),
        digestHeader(form, 'sha512'),
        `md5=:AAAA:, ${digestHeader(form)},\t${digestHeader(form, 'sha512')}`,
      ]
      for (const digest of digests) {
        const upload = formUpload(uploader.owner, uploader.task, form, { 'content-digest': digest })
        t.equal((await service.expect('addTaskAttachment', 201, upload)).body.sha256, sha256Of('small'))
      }
    }
  })

  t.test('201: Content-Digest covers the whole body, including a late epilogue', async (t) => {
    const { owner, task } = await newOwner()
    const form = rawForm({ head: fileHead, content: 'small' })
    const epilogue = Buffer.from('an epilogue')
    const stored = async () => (await Array.fromAsync(files.list())).length
    const before = await stored()
    const { socket, answer } = await openRaw(t, service.url)
    socket.write(
      head(
        `POST /tasks/${task.id}/attachments HTTP/1.1`,
        'Host: x',
        `Authorization: Bearer ${owner.token}`,
        `Content-Type: ${formType['content-type']}`,
        `Content-Length: ${form.length + epilogue.length}`,
        `Content-Digest: ${digestHeader(Buffer.concat([form, epilogue]))}`,
      ),
    )
    socket.write(form)
    await eventually('the file is stored', async () => (await stored()) > before)
    const params = { task_id: task.id }
    const { body } = await service.expect('listTaskAttachments', 200, { token: owner.token, params })
    t.same(body.items, [], 'no attachment exists before the end of the body')
    socket.write(epilogue)
    t.equal((await answer()).status, 201)
  })

  t.test('422: a wrong digest, and nothing is stored', async (t) => {
    const other = randomBytes(maxBytes)
    const form = rawForm(file)
    const cases: readonly (readonly [name: string, pointer: string, body: Uint8Array, digest?: string])[] = [
      ['field before the file', '/sha256', rawForm(digestField(sha256Of(other)), file)],
      ['field after the file', '/sha256', rawForm(file, digestField(sha256Of(other)))],
      ['header', '/Content-Digest', form, digestHeader(other)],
      [
        'header with the digest of the file instead of the body',
        '/Content-Digest',
        form,
        digestHeader(content),
      ],
      [
        'header with one right and one wrong digest',
        '/Content-Digest',
        form,
        `${digestHeader(form)}, ${digestHeader(other, 'sha512')}`,
      ],
      ['wrong field, right header', '/sha256', ...withDigest(rawForm(file, digestField(sha256Of(other))))],
      [
        'an epilogue that the header does not cover',
        '/Content-Digest',
        Buffer.concat([form, Buffer.from('more')]),
        digestHeader(form),
      ],
    ]
    await expectNothingStored(t, owner, task, async () => {
      for (const [name, pointer, body, digest] of cases) {
        const headers = digest === undefined ? {} : { 'content-digest': digest }
        const upload = formUpload(owner, task, body, headers)
        const { body: problem } = await service.expect('addTaskAttachment', 422, upload)
        t.equal(problem.code, 'digest_mismatch', name)
        t.equal(problem.errors?.[0]?.pointer, pointer, name)
      }
    })
  })

  t.test('400: a malformed digest', async (t) => {
    const fields = [
      [digestField(sha256.slice(1))],
      [digestField(`${sha256.slice(1)}g`)],
      [digestField(sha256), digestField(sha256)],
      [{ head: partHead('name="sha256"; filename="a"'), content: sha256 }],
      [{ head: `${partHead('name="sha256"')}\r\nContent-Type: application/json`, content: '{"a":1}' }],
    ]
    const fieldForms = fields.flatMap((parts) => [rawForm(...parts, file), rawForm(file, ...parts)])
    const form = rawForm(file)
    const base64 = createHash('sha256').update(form).digest('base64')
    const digests = [
      '',
      'sha-256',
      base64,
      `sha-256=${base64}`,
      `sha-256=:${base64}`,
      `sha-256=:${base64.slice(1)}:`,
      `sha-512=:${base64}:`,
      `sha-256=:${base64.replace('=', '')}:`,
      `sha-256=:${base64}:;a=1,`,
      `SHA-256=:${base64}:`,
      'md5=:AAAA:',
      '__proto__=:AAAA:',
      `sha-256=:${base64}:, sha-512=:AAAA:`,
    ]
    await expectNothingStored(t, owner, task, async () => {
      for (const body of fieldForms) {
        const { body: problem } = await service.expect(
          'addTaskAttachment',
          400,
          formUpload(owner, task, body),
        )
        t.equal(problem.errors?.[0]?.pointer, '/sha256')
      }
      for (const digest of digests) {
        const upload = formUpload(owner, task, form, { 'content-digest': digest })
        const { body: problem } = await service.expect('addTaskAttachment', 400, upload)
        t.equal(problem.errors?.[0]?.pointer, '/Content-Digest', digest)
      }
    })
  })
})

/** A form and its digest. */
const withDigest = (form: Uint8Array) => [form, digestHeader(form)] as const

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

t.test('201: a type that is not declared is detected', async (t) => {
  const { owner, task } = await newOwner()
  const files = [
    [png, 'image/png', 'image/png'],
    ['Grüße', 'text/plain', null],
    ['<!doctype html><p>Hello', 'text/plain', null],
    ['', 'text/plain', null],
    [Buffer.from([0, 1, 2, 3]), 'application/octet-stream', null],
  ] as const
  for (const [content, type, detected] of files) {
    // Python's requests sends no type. curl and others send none for a name without an extension that they know.
    for (const head of [fileHead, `${fileHead}\r\nContent-Type: `]) {
      const { body } = await service.expect('addTaskAttachment', 201, {
        token: owner.token,
        params: { task_id: task.id },
        headers: formType,
        body: rawForm({ head, content }),
      })
      t.match(body, { content_type: type, detected_content_type: detected })
      t.match((await download(owner, body)).headers.get('content-type'), type)
    }
  }
})

t.test('201: the detected type comes from the first bytes, not from the claimed type', async (t) => {
  const { owner, task } = await newOwner()
  const files = [
    [png, 'text/html', 'image/png'],
    [Buffer.concat([png, randomBytes(maxBytes - png.length)]), 'image/png', 'image/png'],
    [Buffer.from('%PDF-1.7\n'), 'image/png', 'application/pdf'],
    [Buffer.from('<!doctype html><p>Hello'), 'image/png', null],
    [Buffer.from('Just text.'), 'text/plain', null],
    [Buffer.from('GIF89a'), 'image/gif', 'image/gif'],
    // The first Ogg page of an Opus stream. The detector adds a parameter to its type.
    [
      Buffer.concat([Buffer.from('OggS'), Buffer.alloc(24), Buffer.from('OpusHead')]),
      'audio/ogg',
      'audio/ogg',
    ],
    [Buffer.alloc(0), 'image/png', null],
    [Buffer.from([0x50, 0x4b, 0x03, 0x04]), 'application/zip', 'application/zip'],
  ] as const
  for (const [content, claimed, detected] of files) {
    const { body } = await attach(owner, task, fileForm(content, 'file', claimed))
    t.equal(body.content_type, claimed)
    t.equal(body.detected_content_type, detected)
  }
  const { body } = await service.expect('listTaskAttachments', 200, {
    token: owner.token,
    params: { task_id: task.id },
  })
  t.same(
    body.items.map((item) => item.detected_content_type),
    files.map(([, , detected]) => detected).toReversed(),
  )
})

t.test('addTaskAttachment: the quota for the attachments of a user', async (t) => {
  const upload = ({ token }: Account, { id }: Schemas['Task'], size: number, headers = {}): Call => ({
    token,
    params: { task_id: id },
    body: fileForm(randomBytes(size)),
    headers,
  })

  /** Fills the quota of the uploader with two files of the maximum size and a smaller one. */
  const fill = async (uploader: Account, task: Schemas['Task']) => {
    for (const size of [maxBytes, maxBytes, quota - 2 * maxBytes])
      await service.expect('addTaskAttachment', 201, upload(uploader, task, size))
  }

  const expectFull = async (t: Test, uploader: Account, task: Schemas['Task']) => {
    const { body } = await service.expect('addTaskAttachment', 413, upload(uploader, task, 1))
    t.match(body, { code: 'quota_exceeded', quota, used: quota, size: 1 })
  }

  t.test('201 up to the last byte, 413 after it', async (t) => {
    const { owner, task } = await newOwner()
    await fill(owner, task)
    const before = await keys()
    await expectFull(t, owner, task)
    t.same(await keys(), before, 'nothing is stored')
    await service.expect('addTaskAttachment', 201, upload(owner, task, 0))
  })

  t.test('413: a file that does not fit is rejected before it is sent', async (t) => {
    const { owner, task } = await newOwner()
    await fill(owner, task)
    const answer = await sendRaw(
      t,
      service.url,
      head(
        `POST /tasks/${task.id}/attachments HTTP/1.1`,
        'Host: x',
        `Authorization: Bearer ${owner.token}`,
        `Content-Type: ${formType['content-type']}`,
        `Content-Length: ${maxBytes}`,
      ),
    )
    t.equal(answer.status, 413)
    t.match(answer.body, { code: 'quota_exceeded', quota, used: quota })
  })

  t.test('413: concurrent uploads cannot exceed the quota', async (t) => {
    const { owner, task } = await newOwner()
    // Each has its own task, since the lock of a shared task would serialize them.
    const tasks = await Promise.all(Array.from({ length: 10 }, () => newTask(owner)))
    const before = (await keys()).length
    const uploads = tasks.map((one) => service.call('addTaskAttachment', upload(owner, one, maxBytes)))
    const statuses = (await Promise.all(uploads)).map(({ status }) => status)
    t.same(
      statuses.filter((status) => status !== 413),
      [201, 201],
    )
    await service.expect('addTaskAttachment', 201, upload(owner, task, quota - 2 * maxBytes))
    await expectFull(t, owner, task)
    t.equal((await keys()).length, before + 3, 'rejected uploads leave no file')
  })

  t.test('413: an upload that waited for another one sees the space that it took', async (t) => {
    const { db, options } = await openTestDatabase(t)
    const sql = createSqlClient(options, { max: 2 })
    const other = await startService(t, { db, config: { attachmentQuotaBytes: quota } })
    t.teardown(() => sql.end())
    const owner = await other.register('waits')
    const body = { title: 'With files' }
    // As many as a member can run at once: their share of the connections.
    const tasks = await Promise.all(
      Array.from({ length: 3 }, () => other.expect('createTask', 201, { token: owner.token, body })),
    )
    const allWait = async () => {
      const waiting = await sql`
        select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
      return waiting.length === tasks.length
    }
    const { uploads } = await sql.begin(async (transaction) => {
      await transaction`select from users where id = ${owner.id} for update`
      const begun = tasks.map((task) => other.call('addTaskAttachment', upload(owner, task.body, maxBytes)))
      await eventually('all wait for the lock on the uploader', allWait)
      return { uploads: begun }
    })
    const statuses = (await Promise.all(uploads)).map(({ status }) => status)
    t.same(
      statuses.filter((status) => status !== 413),
      [201, 201],
    )
  })

  t.test('files count towards the quota of the uploader, not of the owner of the task', async (t) => {
    const { owner } = await newOwner()
    const assignee = await register()
    const task = await newTask(owner, { assignee_id: assignee.id })
    await fill(assignee, task)
    await expectFull(t, assignee, task)
    await fill(owner, task)
    await service.expect('deleteUser', 204, { token: assignee.token, params: { user_id: assignee.id } })
    await expectFull(t, owner, task)
  })

  t.test('deleting an attachment, its task permanently, or the owner of its task frees space', async (t) => {
    const { owner, task } = await newOwner()
    const uploader = await register()
    const shared = await newTask(owner, { assignee_id: uploader.id })
    const own = await newTask(uploader)
    const { body: attachment } = await attach(uploader, own, fileForm(randomBytes(maxBytes)))
    await attach(uploader, own, fileForm(randomBytes(quota - 2 * maxBytes)))
    await attach(uploader, shared, fileForm(randomBytes(maxBytes)))
    await expectFull(t, uploader, shared)
    await attach(owner, task)

    await service.expect('deleteAttachment', 204, {
      token: uploader.token,
      params: { attach_id: attachment.id },
    })
    await attach(uploader, own, fileForm(randomBytes(maxBytes)))
    await expectFull(t, uploader, own)

    await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
    await attach(uploader, own, fileForm(randomBytes(maxBytes)))
    await expectFull(t, uploader, own)

    const removal = { token: uploader.token, params: { task_id: own.id } }
    await service.expect('deleteTask', 204, removal)
    const next = await newTask(uploader)
    await expectFull(t, uploader, next)
    await service.expect('deleteTrashedTask', 204, removal)
    await fill(uploader, next)
    await expectFull(t, uploader, next)
    // Later tests compare the files before and after.
    await eventually('the files are removed', async () => {
      const rows = await service.deps.db.run('select from attachments', [])
      return (await keys()).length === rows.length
    })
  })
})

t.test('addTaskAttachment: Idempotency-Key', async (t) => {
  const content = randomBytes(maxBytes)
  const upload = (
    { token }: Account,
    { id }: Schemas['Task'],
    key: string,
    form = fileForm(content),
  ): Call => ({
    token,
    params: { task_id: id },
    headers: { 'idempotency-key': key },
    body: form,
  })
  const listOf = async ({ token }: Account, { id }: Schemas['Task']) =>
    (await service.expect('listTaskAttachments', 200, { token, params: { task_id: id } })).body.items

  t.test('422: the key was used for another file, name, type or task', async (t) => {
    const { owner, task } = await newOwner()
    const { body } = await service.expect('addTaskAttachment', 201, upload(owner, task, 'a'))
    const second = await newTask(owner)
    const before = await keys()
    for (const [target, form] of [
      [task, fileForm(randomBytes(maxBytes))],
      [task, fileForm(content, 'other.txt')],
      [task, fileForm(content, 'notes.txt', 'text/html')],
      [second, fileForm(content)],
    ] as const) {
      const refused = await service.expect('addTaskAttachment', 422, upload(owner, target, 'a', form))
      t.equal(refused.body.code, 'idempotency_key_reused')
    }
    t.same(await listOf(owner, task), [body])
    t.same(await listOf(owner, second), [])
    t.same(await keys(), before, 'no file remains')
  })

  t.test('201: concurrent repeats create one attachment, even if it fills the quota', async (t) => {
    const { owner, task } = await newOwner()
    await attach(owner, task, fileForm(randomBytes(quota - 2 * maxBytes)))
    await attach(owner, task, fileForm(randomBytes(maxBytes)))
    const before = (await keys()).length
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => service.expect('addTaskAttachment', 201, upload(owner, task, 'race'))),
    )
    t.equal(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1)
    t.equal(answers.filter(({ headers }) => headers.get('idempotency-replayed') === null).length, 1)
    t.equal((await listOf(owner, task)).length, 3)
    t.equal((await keys()).length, before + 1, 'the files of the repeats are removed')
    const late = await service.expect('addTaskAttachment', 201, upload(owner, task, 'race'))
    t.equal(late.body.id, answers[0]?.body.id, 'a repeat needs no space')
    const refused = await service.expect('addTaskAttachment', 413, upload(owner, task, 'more'))
    t.equal(refused.body.code, 'quota_exceeded')
    t.equal((await keys()).length, before + 1)
  })

  t.test('201: a rejected request does not use up its key', async (t) => {
    const { owner, task } = await newOwner()
    const form = fileForm(content)
    form.set('sha256', sha256Of('something else'))
    await service.expect('addTaskAttachment', 422, upload(owner, task, 'a', form))
    const { headers } = await service.expect('addTaskAttachment', 201, upload(owner, task, 'a'))
    t.equal(headers.get('idempotency-replayed'), null)
  })
})

t.test('addTaskAttachment: file names', async (t) => {
  const { owner, task } = await newOwner()
  const upload = (parameters: string): Call => ({
    token: owner.token,
    params: { task_id: task.id },
    headers: formType,
    body: rawForm({ head: partHead(`name="file"; ${parameters}`), content: 'x' }),
  })

  t.test('201: the name without its path is stored, and returned with the download', async (t) => {
    const names: readonly (readonly [sent: string, kept: string])[] = [
      ['filename="plain.txt"', 'plain.txt'],
      ['filename="a \\"quoted\\" name.txt"', 'a "quoted" name.txt'],
      ['filename="semi;colon, comma.txt"', 'semi;colon, comma.txt'],
      ['filename="it\'s 100%.txt"', "it's 100%.txt"],
      ['filename="Grüße ☃ 🎉.txt"', 'Grüße ☃ 🎉.txt'],
      ['filename="e\u0301.txt"', '\u00e9.txt'],
      ["filename*=UTF-8''na%C3%AFve%20%E2%82%AC.txt", 'naïve €.txt'],
      ['filename="../../../etc/passwd"', 'passwd'],
      ['filename="/etc/passwd"', 'passwd'],
      ['filename="C:\\\\Windows\\\\win.ini"', 'win.ini'],
      ['filename="CON"', 'CON'],
      ['filename=".htaccess"', '.htaccess'],
      [`filename="${'é'.repeat(255)}"`, 'é'.repeat(255)],
      [`filename="${'🎉'.repeat(255)}"`, '🎉'.repeat(255)],
      // Browsers, Node's fetch, curl, Python's requests and OkHttp escape quotes in percents, and nothing else.
      ['filename="a%22b%20c.txt"', 'a"b%20c.txt'],
      [String.raw`filename="C:\temp\a.txt"`, 'a.txt'],
      [String.raw`filename="C:\temp\\a.txt"`, 'a.txt'],
      // Go, Apache HttpClient, and curl with --form-escape escape with backslashes; HTTPX does both.
      [String.raw`filename="na\"ï €.txt"`, 'na"ï €.txt'],
      [String.raw`filename="dir\\a%22b.txt"`, 'a"b.txt'],
      // The other name wins, whatever the order and the form of the fallback.
      [`filename="na?ve.txt"; filename*=UTF-8''na%C3%AFve.txt`, 'naïve.txt'],
      [`filename*=UTF-8''na%C3%AFve.txt; filename="na?ve.txt"`, 'naïve.txt'],
      [`filename=na_ve.txt; filename*=utf-8'en'na%C3%AFve.txt`, 'naïve.txt'],
      [`filename="=?utf-8?B?bmHDr3ZlLnR4dA==?="; filename*=utf-8''na%C3%AFve.txt`, 'naïve.txt'],
      [`filename="a.txt"; FileName*=iso-8859-1''na%EFve.txt`, 'naïve.txt'],
      [`filename="a.txt"; filename*="UTF-8''na%C3%AFve.txt"`, 'naïve.txt'],
      [`filename="a.txt"; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd`, 'passwd'],
      // What cannot be decoded does not count.
      [`filename="fallback.txt"; filename*=UTF-8''%FF.txt`, 'fallback.txt'],
      [`filename="fallback.txt"; filename*=utf-16''a%00`, 'fallback.txt'],
      [`filename="fallback.txt"; filename*=naive.txt`, 'fallback.txt'],
      // Encoded words, as sent by older versions of .NET and by Spring.
      ['filename="=?utf-8?B?bmHDr3ZlIOKCrC50eHQ=?="', 'naïve €.txt'],
      ['filename="=?UTF-8?Q?na=C3=AFve_?=\r\n =?UTF-8?Q?=E2=82=AC.txt?="', 'naïve €.txt'],
      ['filename="is =?utf-8?Q?this?= it.txt"', 'is =?utf-8?Q?this?= it.txt'],
      ['filename=token.txt', 'token.txt'],
      ['FILENAME = "spaces.txt" ', 'spaces.txt'],
    ]
    for (const [sent, kept] of names) {
      const { body } = await service.expect('addTaskAttachment', 201, upload(sent))
      t.equal(body.file_name, kept, sent)
      const { headers } = await download(owner, body)
      const { type, parameters } = parseDisposition(headers.get('content-disposition') ?? '')
      t.equal(type, 'attachment')
      t.equal(parameters.filename, kept)
    }
    for (const key of await keys()) t.match(key, /^[0-9a-f-]{36}$/, 'the file has a generated name')
  })

  t.test('400: names that are too long or empty, or have control characters', async (t) => {
    const before = await keys()
    for (const sent of [
      `filename="${'x'.repeat(256)}"`,
      `filename="${'🎉'.repeat(256)}"`,
      "filename*=UTF-8''a%0D%0AX-Evil:%20yes.txt",
      "filename*=UTF-8''a%00b.txt",
      "filename*=UTF-8''a%1Bb.txt",
      'filename="a\u0007.txt"',
      'filename=""',
      'filename=".."',
      'filename="../"',
      'filename="a%0D%0Ab.txt"',
      'filename="a%0ab.txt"',
      `filename="a.txt"; filename*=UTF-8''a%0Ab.txt`,
      'filename="=?utf-8?B?YQpi?="',
      "filename*=UTF-8''%FF.txt",
      'filename="not closed',
      'filename="a\r\nX-Evil: yes.txt"',
    ]) {
      const { body } = await service.expect('addTaskAttachment', 400, upload(sent))
      t.equal(body.errors?.[0]?.pointer, '/file', sent)
    }
    t.same(await keys(), before)
  })

  t.test('400: a name that is not in UTF-8', async (t) => {
    const latin1 = Buffer.from(partHead('name="file"; filename="naïve.txt"'), 'latin1')
    const body = Buffer.concat([
      Buffer.from('--limit\r\n'),
      latin1,
      Buffer.from('\r\n\r\nx\r\n--limit--\r\n'),
    ])
    t.match(await service.call('addTaskAttachment', { ...upload(''), body }), isInvalid('/file'))
  })

  t.test('201: the header of the part may come in pieces, and after other parts', async (t) => {
    const field = { head: partHead('name="sha256"'), content: '' }
    const file = {
      head: partHead(`name="file"; filename="a"; filename*=UTF-8''na%C3%AFve.txt`),
      content: png,
    }
    const bytes = rawForm(field, file)
    const { token, params } = upload('')
    const response = await fetch(`${service.url}/tasks/${task.id}/attachments`, {
      method: 'POST',
      headers: { ...formType, authorization: `Bearer ${token}` },
      body: ReadableStream.from(Array.from(bytes, (byte) => Uint8Array.of(byte))),
      duplex: 'half',
    })
    t.match(await response.json(), { ...params, file_name: 'naïve.txt', content_type: 'image/png' })
  })
})

t.test('downloadAttachment', async (t) => {
  const { owner, task } = await newOwner()
  const content = '0123456789'
  const stored = await fileStoredBy(() => attach(owner, task, fileForm(content, 'digits.txt')))
  const attachment = stored.result.body
  const etag = stored.result.headers.get('etag') ?? ''
  const digest = `sha-256=:${createHash('sha256').update(content).digest('base64')}:`
  const get = (headers: Readonly<Record<string, string>>, more: Call = {}) =>
    download(owner, attachment, { headers, ...more })

  t.test('200: the whole file, with its headers', async (t) => {
    const { status, headers, body } = await get({})
    t.equal(status, 200)
    t.equal(text(body), content)
    t.equal(headers.get('content-length'), '10')
    t.equal(headers.get('etag'), etag)
    t.equal(headers.get('repr-digest'), digest)
    t.equal(headers.get('accept-ranges'), 'bytes')
    t.match(headers.get('content-type'), /^text\/plain/)
    t.equal(
      Date.parse(headers.get('last-modified') ?? ''),
      Math.floor(Date.parse(attachment.created_at) / 1000) * 1000,
    )
  })

  t.test('200: HEAD has the headers of GET and no body', async (t) => {
    const { status, headers, body } = await get({}, { method: 'HEAD' })
    t.equal(status, 200)
    t.equal(body, null)
    t.equal(headers.get('content-length'), '10')
    t.equal(headers.get('repr-digest'), digest)
    const ranged = await get({ range: 'bytes=2-4' }, { method: 'HEAD' })
    t.equal(ranged.status, 200, 'Range applies to GET only (RFC 9110 §14.2)')
    t.equal(ranged.headers.get('content-length'), '10')
  })

  t.test('200: malformed and multiple ranges are ignored', async (t) => {
    for (const range of ['bytes=0-1,3-4', 'bytes=5-2', 'lines=0-1']) {
      const { status, headers, body } = await get({ range })
      t.equal(status, 200, range)
      t.equal(headers.get('content-range'), null)
      t.equal(text(body), content)
    }
  })

  t.test('206: a single range', async (t) => {
    for (const [range, part, first, last] of [
      ['bytes=0-3', '0123', 0, 3],
      ['bytes=7-', '789', 7, 9],
      ['bytes=-2', '89', 8, 9],
      ['bytes=5-99999', '56789', 5, 9],
    ] as const) {
      const { status, headers, body } = await get({ range })
      t.equal(status, 206, range)
      t.equal(text(body), part)
      t.equal(headers.get('content-range'), `bytes ${first}-${last}/10`)
      t.equal(headers.get('content-length'), String(part.length))
      t.equal(headers.get('repr-digest'), digest, 'of the whole file')
    }
  })

  t.test('200, 206: If-Range', async (t) => {
    const range = 'bytes=0-3'
    const modified = (await get({})).headers.get('last-modified') ?? ''
    for (const current of [etag, modified]) t.equal((await get({ range, 'if-range': current })).status, 206)
    const later = new Date(Date.parse(modified) + 1_000).toUTCString()
    const earlier = new Date(Date.parse(modified) - 1_000).toUTCString()
    for (const other of ['"other"', `W/${etag}`, later, earlier, etag.slice(1, -1), '*']) {
      const { status, body } = await get({ range, 'if-range': other })
      t.equal(status, 200, other)
      t.equal(text(body), content)
    }
    t.equal((await get({ range: 'bytes=99-', 'if-range': '"other"' })).status, 200)
  })

  t.test('412: If-Unmodified-Since', async (t) => {
    const modified = (await get({})).headers.get('last-modified') ?? ''
    const earlier = new Date(Date.parse(modified) - 1_000).toUTCString()
    const { status, body } = await get({ 'if-unmodified-since': earlier })
    t.equal(status, 412)
    t.match(body, { detail: /If-Unmodified-Since/ })
    for (const since of [modified, 'not a date'])
      t.equal((await get({ 'if-unmodified-since': since })).status, 200, since)
    const both = { 'if-unmodified-since': earlier, 'if-match': etag }
    t.equal((await get(both)).status, 200, 'If-Match takes precedence')
    t.equal((await get({ 'if-match': '"other"', range: 'bytes=99-' })).status, 412, 'evaluated before Range')
  })

  t.test('304: If-None-Match', async (t) => {
    for (const list of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const { status, headers, body } = await get({ 'if-none-match': list })
      t.equal(status, 304, list)
      t.equal(body, null)
      t.equal(headers.get('etag'), etag)
      t.equal(headers.get('content-length'), null)
    }
    t.equal((await get({ 'if-none-match': '"other"' })).status, 200)
    t.equal((await get({ 'if-none-match': etag }, { method: 'HEAD' })).status, 304)
    t.equal((await get({ 'if-none-match': etag, range: 'bytes=0-1' })).status, 304)
    const late = await get({ 'if-none-match': etag, range: 'bytes=99-' })
    t.equal(late.status, 304, 'evaluated before Range (RFC 9110 §13.2.2)')
  })

  t.test('304: If-Modified-Since', async (t) => {
    const modified = (await get({})).headers.get('last-modified') ?? ''
    const at = (milliseconds: number) => new Date(Date.parse(modified) + milliseconds)
    for (const since of [modified, at(86_400_000).toUTCString()]) {
      const { status, headers, body } = await get({ 'if-modified-since': since })
      t.equal(status, 304, since)
      t.equal(body, null)
      t.equal(headers.get('etag'), etag)
    }
    t.equal((await get({ 'if-modified-since': modified }, { method: 'HEAD' })).status, 304)
    for (const since of [at(-1_000).toUTCString(), 'not a date'])
      t.equal((await get({ 'if-modified-since': since })).status, 200, since)
    t.equal(
      (await get({ 'if-modified-since': modified, 'if-none-match': '"other"' })).status,
      200,
      'If-None-Match takes precedence',
    )
  })

  t.test('200: inline only for safe types that match the content', async (t) => {
    const dispositionOf = async (content: Uint8Array, type: string, disposition?: string) => {
      const form = fileForm(content, 'naïve file.png', type)
      const { body: file } = await attach(owner, task, form)
      const query = disposition === undefined ? {} : { disposition }
      const { status, headers } = await download(owner, file, { query })
      t.equal(status, 200)
      t.equal(headers.get('x-content-type-options'), 'nosniff')
      t.match(headers.get('content-security-policy'), /^sandbox\b/)
      const { type: kind, parameters } = parseDisposition(headers.get('content-disposition') ?? '')
      t.equal(parameters.filename, 'naïve file.png')
      return kind
    }
    const html = Buffer.from('<!doctype html><script>alert(1)</script>')
    const svg = Buffer.from('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>')
    const pdf = Buffer.from('%PDF-1.7\n')
    const zip = Buffer.from([0x50, 0x4b, 0x03, 0x04])
    for (const [content, type] of [
      [png, 'image/png'],
      [png, 'image/jpeg'],
      [pdf, 'application/pdf'],
      [Buffer.from('GIF89a'), 'image/gif'],
      [html, 'text/plain'],
    ] as const) {
      t.equal(await dispositionOf(content, type, 'inline'), 'inline', type)
      t.equal(await dispositionOf(content, type, 'attachment'), 'attachment', type)
      t.equal(await dispositionOf(content, type), 'attachment', type)
    }
    for (const [content, type] of [
      [html, 'text/html'],
      [html, 'image/png'],
      [html, 'application/octet-stream'],
      [svg, 'image/svg+xml'],
      [svg, 'image/png'],
      [png, 'text/html'],
      [png, 'text/plain'],
      [png, 'image/svg+xml'],
      [zip, 'image/png'],
      [zip, 'text/plain'],
      [zip, 'application/zip'],
    ] as const)
      t.equal(await dispositionOf(content, type, 'inline'), 'attachment', type)
  })

  t.test('206: a player seeks in a video', async (t) => {
    // The first box of an MP4 file, followed by random data.
    const video = Buffer.concat([Buffer.from('\0\0\0\u0018ftypisom\0\0\0\0isommp42'), randomBytes(50_000)])
    const { body: file } = await attach(owner, task, fileForm(video, 'film.mp4', 'video/mp4'))
    t.equal(file.detected_content_type, 'video/mp4')
    const query = { disposition: 'inline' }
    const play = (headers: Readonly<Record<string, string>>) => download(owner, file, { query, headers })
    const begin = await play({ range: 'bytes=0-' })
    t.equal(begin.status, 206)
    t.equal(begin.headers.get('content-type'), 'video/mp4')
    t.equal(begin.headers.get('content-range'), `bytes 0-${video.length - 1}/${video.length}`)
    t.match(begin.headers.get('content-disposition'), /^inline/)
    t.ok(video.equals(begin.body as Uint8Array))
    const seek = await play({ range: 'bytes=40000-', 'if-range': begin.headers.get('etag') ?? '' })
    t.equal(seek.status, 206)
    t.ok(video.subarray(40_000).equals(seek.body as Uint8Array))
  })

  t.test('400: a malformed id, an unknown disposition, a malformed If-None-Match', async (t) => {
    const unknown = await get({}, { query: { disposition: 'form-data' } })
    t.equal(unknown.status, 400)
    t.match(unknown.body, { errors: [{ pointer: '/disposition' }] })
    const malformed = await download(owner, { ...attachment, id: 'x' })
    t.equal(malformed.status, 400)
    const { status, headers, body } = await get({ 'if-none-match': 'no quotes' })
    t.equal(status, 400)
    t.match(body, { errors: [{ pointer: '/If-None-Match' }] })
    t.equal(headers.get('content-disposition'), null, 'a problem has no headers of the file')
    t.equal(headers.get('etag'), null)
  })

  t.test('404: deleted before its file is opened', async (t) => {
    const { result, key } = await fileStoredBy(() => attach(owner, task))
    t.teardown(() => (beforeOpen = async () => {}))
    beforeOpen = async () => {
      const deletion = { token: owner.token, params: { attach_id: result.body.id } }
      await service.expect('deleteAttachment', 204, deletion)
      await eventually('the file is removed', async () => !(await keys()).includes(key))
    }
    t.match(await download(owner, result.body), { status: 404, body: { code: 'not_found' } })
  })

  t.test('410: the file is missing from the storage', async (t) => {
    const { result, key } = await fileStoredBy(() => attach(owner, task))
    await files.remove(key)
    const { status, headers, body } = await download(owner, result.body)
    t.equal(status, 410)
    t.match(body, { code: 'file_lost' })
    t.notMatch(JSON.stringify(body), key)
    for (const name of ['etag', 'repr-digest', 'content-disposition', 'last-modified'])
      t.equal(headers.get(name), null, `a problem has no ${name}`)
    const ranged = await download(owner, result.body, { headers: { range: 'bytes=0-1' } })
    t.equal(ranged.status, 410)
    t.equal(ranged.headers.get('content-range'), null)
    t.equal(
      (await download(owner, result.body, { method: 'HEAD' })).status,
      410,
      'HEAD returns the same status',
    )
  })

  t.test('416: a range after the end', async (t) => {
    for (const range of ['bytes=10-', 'bytes=99-100', 'bytes=-0']) {
      const { status, headers, body } = await get({ range })
      t.equal(status, 416, range)
      t.equal(headers.get('content-range'), 'bytes */10')
      t.match(body, { code: 'range_not_satisfiable' })
      t.equal(headers.get('repr-digest'), null)
    }
  })

  t.test('503: the storage is unavailable', async (t) => {
    t.teardown(() => (fault = null))
    fault = new StorageUnavailable({ cause: new Error('/secret/path') })
    const { status, headers, body } = await get({})
    t.equal(status, 503)
    t.ok(Number(headers.get('retry-after')) > 0)
    t.notMatch(JSON.stringify(body), 'secret')
  })
})

t.test('deleteAttachment', async (t) => {
  const remove = ({ token }: Account, attachment: Schemas['Attachment'], headers = {}) =>
    service.call('deleteAttachment', { token, params: { attach_id: attachment.id }, headers })

  t.test('204: removes the file, and decrements the attachment count of the task', async (t) => {
    const { owner, task } = await newOwner()
    const { result, key } = await fileStoredBy(() => attach(owner, task))
    const read = { token: owner.token, params: { task_id: task.id } }
    const before = await service.expect('getTask', 200, read)
    const { status, headers } = await remove(owner, result.body)
    t.equal(status, 204)
    t.equal((await download(owner, result.body)).status, 404)
    const after = await service.expect('getTask', 200, read)
    t.equal(headers.get('task-etag'), `"${after.body.version}"`)
    t.equal(after.body.attachment_count, 0)
    t.match(after.body, { version: before.body.version, revision: before.body.revision + 1 })
    await eventually('the file is removed', isRemoved(key))
  })
})

t.test('files are removed with their task and user', async (t) => {
  t.test('deleting a task keeps its files until the task is deleted from the trash', async (t) => {
    const { owner, task } = await newOwner()
    const { result, key } = await fileStoredBy(() => attach(owner, task))
    const request = { token: owner.token, params: { task_id: task.id } }
    await service.expect('deleteTask', 204, request)
    t.equal((await download(owner, result.body)).status, 404)
    t.notOk(await isRemoved(key)(), 'the file remains while the task can be restored')
    await service.expect('deleteTrashedTask', 204, request)
    await eventually('the file is removed', isRemoved(key))
  })

  t.test('deleting a user removes the files of their tasks', async (t) => {
    const { owner, task } = await newOwner()
    const { result, key } = await fileStoredBy(() => attach(owner, task))
    await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
    t.equal((await download(admin, result.body)).status, 404)
    await eventually('the file is removed', isRemoved(key))
  })

  t.test('deleting an uploader keeps files in tasks of others', async (t) => {
    const owner = await register()
    const uploader = await register()
    const task = await newTask(owner, { assignee_id: uploader.id })
    const { body } = await attach(uploader, task)
    await service.expect('deleteUser', 204, { token: uploader.token, params: { user_id: uploader.id } })
    const params = { task_id: task.id }
    const { body: list } = await service.expect('listTaskAttachments', 200, { token: owner.token, params })
    t.same(list.items, [{ ...body, uploaded_by: null }])
    t.equal(text((await download(owner, body)).body), 'First release.')
  })
})

const isBeingRead = async (): Promise<boolean> => incoming instanceof Readable && incoming.readableDidRead

/** Starts an upload. Waits until the service has read the headers and, if bytes were sent, until the storage reads them. */
const beginUpload = async (t: Test, account: Account, task: Schemas['Task'], size: number, sent: number) => {
  const form = rawForm({ head: fileHead, content: randomBytes(size) })
  const start = form.indexOf('\r\n\r\n') + 4
  const connection = await openRaw(t, service.url)
  connection.socket.write(
    head(
      `POST /tasks/${task.id}/attachments HTTP/1.1`,
      'Host: x',
      `Authorization: Bearer ${account.token}`,
      `Content-Type: ${formType['content-type']}`,
      `Content-Length: ${form.length}`,
      'Expect: 100-continue',
    ),
  )
  await connection.answer()
  incoming = null
  connection.socket.write(form.subarray(0, start + sent))
  if (sent > 0) await eventually('the storage reads the upload', isBeingRead)
  return { ...connection, finish: () => connection.socket.write(form.subarray(start + sent)) }
}

t.test('nothing is stored when a client disconnects', async (t) => {
  const { owner, task } = await newOwner()
  for (const percent of [0, 50, 99]) {
    for (const [how, leave] of [
      ['reset', 'resetAndDestroy'],
      ['closed', 'destroy'],
      ['half closed', 'end'],
    ] as const) {
      await t.test(`${how} at ${percent} %`, async (t) => {
        await expectNothingStored(t, owner, task, async () => {
          const { socket } = await beginUpload(t, owner, task, maxBytes, (maxBytes * percent) / 100)
          socket[leave]()
        })
      })
    }
  }
  t.equal((await attach(owner, task)).body.size, 14, 'the next upload succeeds')
})

t.test('401, 404: deletions and lost access during an upload', async (t) => {
  /** Removes a task with `remove` while the uploader, by default its owner, uploads to it. */
  const removeDuringUpload = async (
    t: Test,
    remove: (of: Awaited<ReturnType<typeof newOwner>>) => Promise<unknown>,
    uploader?: Account,
  ): Promise<void> => {
    const { owner, task } = await newOwner()
    const before = await keys()
    const { answer, finish } = await beginUpload(t, uploader ?? owner, task, 1_000, 500)
    await remove({ owner, task })
    finish()
    t.equal((await answer()).status, 404)
    await eventually('no file remains', async () => String(await keys()) === String(before))
    const left = await service.deps.db.run('select from attachments where task_id = $1', [task.id])
    t.same(left, [], 'no row remains')
  }

  t.test('404: the task is deleted', (t) =>
    removeDuringUpload(t, ({ owner: { token }, task }) =>
      service.expect('deleteTask', 204, { token, params: { task_id: task.id } }),
    ),
  )

  t.test('401: the uploader is deleted', async (t) => {
    const { owner, task } = await newOwner()
    const leaving = await register()
    await setRole(leaving, 'admin')
    await expectNothingStored(t, owner, task, async () => {
      const { answer, finish } = await beginUpload(t, leaving, task, 1_000, 500)
      await service.expect('deleteUser', 204, { token: leaving.token, params: { user_id: leaving.id } })
      finish()
      t.equal((await answer()).status, 401)
    })
  })

  t.test('404: the owner of the task is deleted', (t) =>
    removeDuringUpload(
      t,
      ({ owner: { token, id } }) => service.expect('deleteUser', 204, { token, params: { user_id: id } }),
      admin,
    ),
  )

  t.test('404: the uploader loses access to the task', async (t) => {
    const owner = await register()
    const assignee = await register()
    const task = await newTask(owner, { assignee_id: assignee.id })
    await expectNothingStored(t, owner, task, async () => {
      const { answer, finish } = await beginUpload(t, assignee, task, 1_000, 500)
      await service.expect('updateTask', 200, {
        token: owner.token,
        params: { task_id: task.id },
        body: { assignee_id: null },
      })
      finish()
      t.equal((await answer()).status, 404)
    })
  })
})

t.test('a download finishes after its attachment or the owner of the task is deleted', async (t) => {
  for (const deleted of ['the attachment', 'the owner of its task']) {
    await t.test(deleted, async (t) => {
      const { owner, task } = await newOwner()
      const content = randomBytes(maxBytes)
      const { result, key } = await fileStoredBy(() => attach(owner, task, fileForm(content)))
      const { id } = result.body
      const { token } = owner
      const received = await new Promise<Buffer>((resolve, reject) => {
        const sent = request(
          `${service.url}/attachments/${id}`,
          { headers: { authorization: `Bearer ${token}` } },
          async (response) => {
            if (deleted === 'the attachment')
              await service.expect('deleteAttachment', 204, { token, params: { attach_id: id } })
            else await service.expect('deleteUser', 204, { token, params: { user_id: owner.id } })
            await eventually('the file is removed', isRemoved(key))
            resolve(Buffer.concat(await response.toArray()))
          },
        )
        sent.on('error', reject)
        sent.end()
      })
      t.ok(content.equals(received))
    })
  }
})
