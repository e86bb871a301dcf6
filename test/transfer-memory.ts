import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t, { type Test } from 'tap'
import { startService } from './fixture/service.ts'
import { taskActions } from './fixture/tasks.ts'
import { pieceHeaders, tusHeaders } from './fixture/uploads.ts'

const mebibyte = 1_048_576
const size = 128 * mebibyte

/**
 * How much buffers may grow: V8 collects the chunks that have been used once they amount to 64 MiB, whatever the size of
 * the file; a part of a file on its way to S3 and the chunks under way are on top.
 */
const limit = 96 * mebibyte

const service = await startService(t, { config: { attachmentMaxBytes: size } })
const { storage } = service.deps
const owner = await service.register('owner')
const task = await taskActions(service).createTask(owner)

/** Does something with a file of `size` bytes: buffers must not take as much at any time. */
const expectSteady = async <T>(t: Test, action: () => Promise<T>): Promise<T> => {
  const { arrayBuffers: before } = process.memoryUsage()
  let most = before
  const look = (): void => {
    most = Math.max(most, process.memoryUsage().arrayBuffers)
  }
  const timer = setInterval(look, 5)
  const result = await action()
  clearInterval(timer)
  look()
  t.ok(most - before < limit, `${Math.round((most - before) / mebibyte)} MiB more`)
  return result
}

const chunk = randomBytes(65_536)

/** Sends a file of the same chunk again and again, so that the memory that is taken is the service's. */
const send = async (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  [before, behind]: readonly [string, string],
): Promise<IncomingMessage> => {
  const sending = request(`${service.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${owner.token}`,
      'content-length': before.length + size + behind.length,
      ...headers,
    },
  })
  const answered = once(sending, 'response')
  sending.write(before)
  for (let left = size; left > 0; left -= chunk.length)
    if (!sending.write(chunk)) await once(sending, 'drain')
  sending.end(behind)
  const [response] = (await answered) as [IncomingMessage]
  response.resume()
  return response
}

t.test('a form', async (t) => {
  const form = [
    '--limit\r\nContent-Disposition: form-data; name="file"; filename="bytes"\r\n\r\n',
    '\r\n--limit--\r\n',
  ] as const
  const headers = { 'content-type': 'multipart/form-data; boundary=limit' }
  const { statusCode } = await expectSteady(t, () =>
    send('POST', `/tasks/${task.id}/attachments`, headers, form),
  )
  t.equal(statusCode, 201)
})

t.test('a piece of an upload, and what is read to finish it', async (t) => {
  const { headers } = await service.expect('createUpload', 201, {
    token: owner.token,
    params: { task_id: task.id },
    headers: tusHeaders(size),
  })
  const location = headers.get('location') ?? ''
  const { statusCode } = await expectSteady(t, () => send('PATCH', location, pieceHeaders(0), ['', '']))
  t.equal(statusCode, 204)
})

t.test('a download', async (t) => {
  const files = await Array.fromAsync(storage.list())
  t.equal(files.length, 2)
  for (const { key } of files) {
    const content = await storage.open(key)
    let received = 0
    const reader = new Writable({
      write(bytes: Buffer, _encoding, done) {
        received += bytes.length
        setImmediate(done)
      },
    })
    await expectSteady(t, () => pipeline(content, reader))
    t.equal(received, size)
  }
})
