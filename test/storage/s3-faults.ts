import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { s3Storage } from '../../src/storage/s3.ts'
import type { S3Limits } from '../../src/storage/s3/client.ts'
import { FileMissing, type Storage, StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { eventually } from '../fixture/eventually.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { head, openRaw } from '../fixture/raw.ts'
import { type Fault, s3Error, startS3Proxy } from '../fixture/s3-proxy.ts'
import { createClient, fileForm, type Service, startService } from '../fixture/service.ts'
import { chunks, maxBytes } from '../fixture/storage-suite.ts'
import { keysIn, openTestClient, testLocation } from '../fixture/s3.ts'
import { noS3 } from '../fixture/storage.ts'

const limits: S3Limits = {
  connect: 1_000,
  silence: 1_000,
  answer: 4_000,
  part: 8_000,
  completion: 3_000,
  check: 500,
}

const small = randomBytes(1_000_000)
const large = randomBytes(12_000_000)
const key = '0190c2a0-0000-7000-8000-000000000000'

/** A storage whose requests are all answered by the test. */
const openFake = async (t: Test) => {
  const proxy = await startS3Proxy(t, null)
  const storage = s3Storage(
    { bucket: 'bucket', prefix: 'p/', endpoint: proxy.url, region: 'us-east-1', pathStyle: true },
    limits,
  )
  t.teardown(() => storage.close())
  return { proxy, storage }
}

// Credentials for the SDK, which reads the environment first.
process.env.AWS_ACCESS_KEY_ID ??= 'nobody'
process.env.AWS_SECRET_ACCESS_KEY ??= 'a planted secret'

t.test('a fake server', async (t) => {
  t.test('a full storage is distinguished from a failing one', async (t) => {
    const { proxy, storage } = await openFake(t)
    const put = () => storage.put(chunks(small), { maxBytes })
    for (const [error, expected] of [
      [s3Error(507, 'InsufficientStorage'), StorageFull],
      [s3Error(507, 'XMinioStorageFull'), StorageFull],
      [s3Error(403, 'QuotaExceeded'), StorageFull],
      [s3Error(400, 'XMinioAdminBucketQuotaExceeded'), StorageFull],
      [s3Error(403, 'AccessDenied'), StorageUnavailable],
      [s3Error(500, 'InternalError'), StorageUnavailable],
    ] as const) {
      proxy.fault = () => error
      await t.rejects(put(), expected, JSON.stringify(error))
    }
  })

  t.test('a missing file is distinguished from a missing bucket', async (t) => {
    const { proxy, storage } = await openFake(t)
    proxy.fault = () => s3Error(404, 'NoSuchKey')
    await t.rejects(storage.open(key), FileMissing)
    proxy.fault = () => s3Error(404, 'NoSuchBucket')
    await t.rejects(storage.open(key), StorageUnavailable)
  })

  t.test('lists are read page by page', async (t) => {
    const { proxy, storage } = await openFake(t)
    const keys = ['1', '2', '3'].map((digit) => `${key.slice(0, -1)}${digit}`)
    const time = '2020-01-01T00:00:00.000Z'
    proxy.fault = (operation, query) => {
      const page = Number((query.get('continuation-token') ?? query.get('upload-id-marker') ?? '0').at(-1))
      const object = `<Key>p/${keys[page]}</Key>`
      const isLast = page === 2
      if (operation === 'ListObjectsV2') {
        const next = isLast ? '' : `<NextContinuationToken>page ${page + 1}</NextContinuationToken>`
        return {
          status: 200,
          body: `<ListBucketResult><IsTruncated>${!isLast}</IsTruncated>${next}<Contents>${object}<LastModified>${time}</LastModified></Contents></ListBucketResult>`,
        }
      }
      const next = `<NextKeyMarker>p/${keys[page]}</NextKeyMarker><NextUploadIdMarker>upload ${page + 1}</NextUploadIdMarker>`
      return {
        status: 200,
        body: `<ListMultipartUploadsResult><IsTruncated>${!isLast}</IsTruncated>${next}<Upload>${object}<UploadId>u</UploadId><Initiated>${time}</Initiated></Upload></ListMultipartUploadsResult>`,
      }
    }
    const listed = await Array.fromAsync(storage.list())
    t.same(
      listed,
      keys.map((key) => ({ key, modifiedAt: new Date(time) })),
    )
    const unfinished = (await Array.fromAsync(storage.listUnfinished())).map((file) => file.key)
    t.same(unfinished, keys)
  })

  t.test('an upload that another process has just ended is ignored', async (t) => {
    const { proxy, storage } = await openFake(t)
    proxy.fault = (operation) =>
      operation === 'AbortMultipartUpload'
        ? s3Error(404, 'NoSuchUpload')
        : {
            status: 200,
            body: `<ListMultipartUploadsResult><Upload><Key>p/${key}</Key><UploadId>u</UploadId><Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload></ListMultipartUploadsResult>`,
          }
    await t.resolves(storage.removeUnfinished(key))
  })

  t.test('calls to a server that never responds fail within their limits', async (t) => {
    const { proxy, storage } = await openFake(t)
    proxy.fault = () => 'freeze'
    const calls: readonly (readonly [name: string, limit: number, call: () => Promise<unknown>])[] = [
      ['check', limits.check, () => storage.check()],
      ['open', limits.answer, () => storage.open(key)],
      ['remove', limits.answer, () => storage.remove(key)],
      ['list', limits.answer, () => Array.fromAsync(storage.list())],
      ['missing', limits.answer, () => storage.missing([key])],
      ['listUnfinished', limits.answer, () => Array.fromAsync(storage.listUnfinished())],
      ['removeUnfinished', limits.answer, () => storage.removeUnfinished(key)],
      ['complete', limits.answer, () => storage.complete({ key, size: 1 })],
      ['put', 2 * limits.answer, () => storage.put(chunks(small), { maxBytes })],
      ['put a large file', 2 * limits.answer, () => storage.put(chunks(large), { maxBytes })],
    ]
    await Promise.all(
      calls.map(async ([name, limit, call]) => {
        const started = performance.now()
        await t.rejects(call(), StorageUnavailable, name)
        t.ok(performance.now() - started < limit + 5_000, `${name}: within its limit`)
      }),
    )
  })

  t.test('a server that is not running makes the storage unavailable', async (t) => {
    const location = { bucket: 'bucket', prefix: '', region: 'us-east-1', pathStyle: true }
    const storage = s3Storage({ ...location, endpoint: 'http://127.0.0.1:1' }, limits)
    t.teardown(() => storage.close())
    const source = chunks(small)
    await t.rejects(storage.put(source, { maxBytes }), StorageUnavailable)
    t.equal(source.destroyed, true)
    await t.rejects(storage.check(), StorageUnavailable)
  })
})

/** A storage on the real server, through a proxy that injects faults. */
const openProxied = async (t: Test) => {
  const direct = testLocation()
  const proxy = await startS3Proxy(t, direct.endpoint)
  const client = openTestClient(t, direct)
  const storage = s3Storage({ ...direct, endpoint: proxy.url }, limits)
  t.teardown(() => storage.close())
  return { proxy, storage, direct, keys: () => keysIn(client, direct) }
}

const works = async (t: Test, storage: Storage, content: Buffer): Promise<void> => {
  const { key } = await storage.put(chunks(content), { maxBytes })
  t.ok(content.equals(await buffer(await storage.open(key))), 'the next file is stored')
}

/**
 * What the background job does with uploads that nobody continues. A server that has stalled can store a part after the upload was
 * aborted, or not answer in time, so that an abort does not always remove everything.
 */
const removeUnfinished = async (storage: Storage): Promise<void> => {
  for await (const { key } of storage.listUnfinished()) await storage.removeUnfinished(key)
}

t.test('faults on the way to a real server', { skip: noS3 }, async (t) => {
  const refusals: readonly Fault[] = [
    s3Error(500, 'InternalError'),
    s3Error(503, 'ServiceUnavailable'),
    s3Error(503, 'SlowDown'),
    'freeze',
  ]
  const steps = [
    ['PUT object', small, [...refusals, 'cut', 'corrupt', 'lose the response']],
    ['CreateMultipartUpload', large, refusals],
    ['UploadPart', large, [...refusals, 'cut', 'corrupt', 'lose the response']],
    ['CompleteMultipartUpload', large, [...refusals, 'cut', 'lose the response']],
  ] as const
  for (const [step, content, faults] of steps) {
    t.test(`a fault at ${step} leaves nothing, and the next upload succeeds`, async (t) => {
      await Promise.all(
        faults.map(async (fault) => {
          const { proxy, storage, keys } = await openProxied(t)
          proxy.fault = (operation) => (operation === step ? fault : null)
          const source = chunks(content)
          await t.rejects(storage.put(source, { maxBytes }), StorageUnavailable, JSON.stringify(fault))
          t.equal(source.destroyed, true)
          t.ok(proxy.seen.includes('DELETE object'), 'what was stored is removed at once')
          t.equal(
            proxy.seen.includes('AbortMultipartUpload'),
            proxy.seen.includes('UploadPart'),
            'an upload that has begun is aborted at once',
          )
          proxy.fault = () => null
          await eventually(`nothing remains after ${JSON.stringify(fault)}`, async () => {
            await removeUnfinished(storage)
            return (await keys()).length === 0
          })
          await works(t, storage, content)
        }),
      )
    })
  }

  t.test('an upload whose creation was not confirmed is left to a background job', async (t) => {
    const { proxy, storage, keys } = await openProxied(t)
    proxy.fault = (operation) => (operation === 'CreateMultipartUpload' ? 'lose the response' : null)
    await t.rejects(storage.put(chunks(large), { maxBytes }), StorageUnavailable)
    t.not((await keys()).length, 0)
    await removeUnfinished(storage)
    t.same(await keys(), [])
  })

  t.test('requests that fail once are retried', async (t) => {
    for (const fault of [s3Error(500, 'InternalError'), s3Error(503, 'SlowDown'), 'freeze', 'cut'] as const) {
      const { proxy, storage } = await openProxied(t)
      const failed = new Set<string>()
      proxy.fault = (operation) => {
        if (failed.has(operation) || operation.startsWith('C')) return null
        failed.add(operation)
        return fault
      }
      await works(t, storage, small)
      await works(t, storage, large)
      t.ok(failed.has('UploadPart') && failed.has('PUT object') && failed.has('GET object'))
    }
  })

  t.test('a download that is cut or stalls fails', async (t) => {
    const { proxy, storage } = await openProxied(t)
    for (const content of [small, large]) {
      proxy.fault = () => null
      const { key } = await storage.put(chunks(content), { maxBytes })
      for (const fault of ['cut the response', 'stall the response'] as const) {
        proxy.fault = () => fault
        await t.rejects(buffer(await storage.open(key)), fault)
      }
    }
  })

  t.test('a download that was corrupted fails, if the file was stored in one request', async (t) => {
    const { proxy, storage } = await openProxied(t)
    const { key } = await storage.put(chunks(small), { maxBytes })
    proxy.fault = () => 'corrupt the response'
    await t.rejects(buffer(await storage.open(key)), /Checksum mismatch/)
  })

  t.test('a download with a slow reader succeeds', async (t) => {
    const { storage } = await openProxied(t)
    const { key } = await storage.put(chunks(large), { maxBytes })
    const stream = await storage.open(key)
    await once(stream, 'readable')
    await pause(2 * limits.silence)
    t.ok(large.equals(await buffer(stream)))
  })
})

const beginTask = async (service: Pick<Service, 'register' | 'expect'>) => {
  const { token } = await service.register('ada')
  const { body } = await service.expect('createTask', 201, { token, body: { title: 'With files' } })
  return { token, params: { task_id: body.id } }
}

/** Sends the first bytes of an upload that is larger than a part. */
const sendPart = async (t: Test, url: string, { token, params }: Awaited<ReturnType<typeof beginTask>>) => {
  const { socket } = await openRaw(t, url)
  socket.write(
    head(
      `POST /tasks/${params.task_id}/attachments HTTP/1.1`,
      'Host: x',
      `Authorization: Bearer ${token}`,
      'Content-Type: multipart/form-data; boundary=limit',
      'Content-Length: 15000000',
    ),
  )
  socket.write(
    '--limit\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: a/b\r\n\r\n',
  )
  socket.write(large)
  return socket
}

t.test('the service on a faulty storage', { skip: noS3 }, async (t) => {
  const { proxy, storage, keys } = await openProxied(t)
  const service = await startService(t, { storage, config: { attachmentMaxBytes: maxBytes } })
  const upload = await beginTask(service)
  const listed = async () =>
    (await service.expect('listTaskAttachments', 200, upload)).body.items.map(({ id }) => id)

  t.test('503 or 507 for uploads, nothing remains, and the next file is accepted', async (t) => {
    for (const [fault, content, status] of [
      [s3Error(503, 'SlowDown'), small, 503],
      ['freeze', small, 503],
      ['freeze', large, 503],
      ['cut', large, 503],
      [s3Error(507, 'InsufficientStorage'), large, 507],
    ] as const) {
      proxy.fault = (operation) => (/^PUT|^UploadPart/.test(operation) ? fault : null)
      await service.expect('addTaskAttachment', status, { ...upload, body: fileForm(content) })
      await eventually('nothing remains', async () => (await keys()).length === 0)
    }
    proxy.fault = () => null
    t.same(await listed(), [])
    const { body } = await service.expect('addTaskAttachment', 201, { ...upload, body: fileForm(large) })
    t.same(await listed(), [body.id])
    const { token } = upload
    await service.expect('deleteAttachment', 204, { token, params: { attach_id: body.id } })
    await eventually('the file is removed', async () => (await keys()).length === 0)
  })

  t.test('503 for downloads, and readiness lists attachments as degraded', async (t) => {
    const { body } = await service.expect('addTaskAttachment', 201, { ...upload, body: fileForm(small) })
    const download = { token: upload.token, params: { attach_id: body.id } }
    for (const fault of [s3Error(503, 'SlowDown'), 'freeze'] as const) {
      proxy.fault = () => fault
      await service.expect('downloadAttachment', 503, download)
      t.strictSame((await service.expect('getReadiness', 200)).body.degraded, ['attachments'])
    }
    proxy.fault = () => null
    t.strictSame((await service.expect('getReadiness', 200)).body.degraded, [])
    await service.expect('downloadAttachment', 200, download)
    proxy.fault = () => 'cut the response'
    await t.rejects(service.call('downloadAttachment', download), 'a download that is cut fails')
    proxy.fault = () => null
    await service.expect('deleteAttachment', 204, download)
    await eventually('the file is removed', async () => (await keys()).length === 0)
  })

  t.test('the upload of a client that disconnects is aborted', async (t) => {
    for (const leave of ['resetAndDestroy', 'destroy'] as const) {
      const socket = await sendPart(t, service.url, upload)
      await eventually('a part is stored', async () => (await keys()).length === 1)
      socket[leave]()
      await eventually(`nothing remains after ${leave}`, async () => (await keys()).length === 0)
    }
    t.same(await listed(), [])
  })
})

t.test('a kill during an upload leaves a file that a background job removes', { skip: noS3 }, async (t) => {
  const location = testLocation()
  const client = openTestClient(t, location)
  const url = new URL(process.env.TEST_STORAGE_URL ?? '')
  url.pathname = location.prefix
  const environment = {
    DATA_DIR: await temporaryFolder(t),
    STORAGE_URL: url.href,
    AWS_ACCESS_KEY_ID: process.env.AWS_ACCESS_KEY_ID ?? '',
    AWS_SECRET_ACCESS_KEY: process.env.AWS_SECRET_ACCESS_KEY ?? '',
  }
  const first = await startProcess(t, environment)
  const before = createClient(first.url)
  const upload = await beginTask(before)
  const { body: kept } = await before.expect('addTaskAttachment', 201, { ...upload, body: fileForm(small) })
  await sendPart(t, first.url, upload)
  await eventually('a part is stored', async () => (await keysIn(client, location)).length === 2)
  await first.end('SIGKILL')

  const second = await startProcess(t, environment)
  const after = createClient(second.url)
  t.equal((await keysIn(client, location)).length, 2, 'the file is too new to be removed at the start')
  const storage = s3Storage(location)
  t.teardown(() => storage.close())
  const unfinished = await Array.fromAsync(storage.listUnfinished())
  t.equal(unfinished.length, 1)
  for (const { key } of unfinished) await storage.removeUnfinished(key)
  t.equal((await keysIn(client, location)).length, 1)
  const { body } = await after.expect('listTaskAttachments', 200, upload)
  t.same(
    body.items.map(({ id }) => id),
    [kept.id],
  )
  const download = { token: upload.token, params: { attach_id: kept.id } }
  await after.expect('downloadAttachment', 200, download)
  t.equal(await second.end('SIGTERM'), 0)
  const output = first.output() + second.output()
  t.notMatch(output, environment.AWS_SECRET_ACCESS_KEY)
})
