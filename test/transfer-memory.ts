import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { startService } from './fixture/service.ts'
import { taskActions } from './fixture/tasks.ts'
import { pieceHeaders, tusHeaders } from './fixture/uploads.ts'

const mebibyte = 1_048_576
const size = 128 * mebibyte

/**
 * How much buffers may grow, in bytes: the chunks in transit, a part on its way to S3 with the one that is being filled, and what V8
 * has collected but not yet swept.
 */
const limit = 64 * mebibyte

// Without a collection first, a measurement counts what is no longer used, of which V8 keeps as much as it likes.
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const service = await startService(t, { config: { attachmentMaxBytes: size } })
const { storage } = service.deps
const owner = await service.register('owner')
const task = await taskActions(service).createTask(owner)

/** The bytes of buffers in use. */
const buffersInUse = (): number => {
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

/** Bytes between two measurements. */
const part = size / 4

/**
 * Runs a transfer of `size` bytes, during which buffers in use must not grow by more than `limit`. The transfer measures them after each
 * part, because a collection can take long.
 */
const expectSteady = async <T>(t: Test, action: (measure: () => void) => Promise<T>): Promise<T> => {
  const before = buffersInUse()
  let peak = before
  const result = await action(() => {
    peak = Math.max(peak, buffersInUse())
  })
  t.ok(peak - before < limit, `${Math.round((peak - before) / mebibyte)} MiB more`)
  return result
}

const chunk = randomBytes(65_536)

/** Sends a file that repeats one chunk, so that only the service allocates memory. */
const send = async (
  measure: () => void,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  [before, after]: readonly [string, string],
): Promise<IncomingMessage> => {
  const sending = request(`${service.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${owner.token}`,
      'content-length': before.length + size + after.length,
      ...headers,
    },
  })
  const answered = once(sending, 'response')
  sending.write(before)
  for (let left = size; left > 0; left -= chunk.length) {
    if (!sending.write(chunk)) await once(sending, 'drain')
    if (left % part === 0) measure()
  }
  sending.end(after)
  const [response] = (await answered) as [IncomingMessage]
  response.resume()
  return response
}

t.test('201: memory stays bounded during an upload by form', async (t) => {
  const form = [
    '--limit\r\nContent-Disposition: form-data; name="file"; filename="bytes"\r\n\r\n',
    '\r\n--limit--\r\n',
  ] as const
  const headers = { 'content-type': 'multipart/form-data; boundary=limit' }
  const { statusCode } = await expectSteady(t, (measure) =>
    send(measure, 'POST', `/tasks/${task.id}/attachments`, headers, form),
  )
  t.equal(statusCode, 201)
})

t.test('204: memory stays bounded during a resumable upload', async (t) => {
  const { headers } = await service.expect('createUpload', 201, {
    token: owner.token,
    params: { task_id: task.id },
    headers: tusHeaders(size),
  })
  const location = headers.get('location') ?? ''
  const { statusCode } = await expectSteady(t, (measure) =>
    send(measure, 'PATCH', location, pieceHeaders(0), ['', '']),
  )
  t.equal(statusCode, 204)
})

t.test('memory stays bounded during a download', async (t) => {
  const files = await Array.fromAsync(storage.list())
  t.equal(files.length, 2)
  for (const { key } of files) {
    const content = await storage.open(key)
    let received = 0
    await expectSteady(t, (measure) => {
      const reader = new Writable({
        write(bytes: Buffer, _encoding, done) {
          received += bytes.length
          if (received % part < bytes.length) measure()
          setImmediate(done)
        },
      })
      return pipeline(content, reader)
    })
    t.equal(received, size)
  }
})
