import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { environmentFor } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { type ServiceProcess, startProcess } from '../fixture/process.ts'
import { head, openRaw } from '../fixture/raw.ts'
import { createClient, fileForm } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../fixture/uploads.ts'

/** Graceful stops during uploads, and immediate stops. */

const content = randomBytes(400_000)
const sha256 = createHash('sha256').update(content).digest('hex')

/** A request of which half has been sent. */
interface Half {
  /** Sends the rest. Resolves to the status. */
  readonly finish: () => Promise<number>
  /** Resolves if its connection is lost before that. */
  readonly lost: Promise<unknown>
}

const sendHalf = async (
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): Promise<Half> => {
  const sending = request(url, {
    method,
    agent: false,
    headers: { ...headers, 'content-length': body.length, expect: '100-continue' },
  })
  sending.flushHeaders()
  // 100 Continue shows that the service has accepted the request.
  await once(sending, 'continue')
  sending.write(body.subarray(0, body.length / 2))
  return {
    async finish() {
      const answered = once(sending, 'response')
      sending.end(body.subarray(body.length / 2))
      const [response] = (await answered) as [IncomingMessage]
      await text(response)
      return response.statusCode ?? 0
    },
    lost: new Promise((resolve) => sending.once('error', resolve)),
  }
}

/** A task, and two uploads to it of which half is sent: a form, and the only chunk of a resumable upload. */
const beginUploads = async ({ url }: ServiceProcess, name: string) => {
  const { expect, register } = createClient(url)
  const { token } = await register(name)
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With files' } })
  const taskRequest = { token, params: { task_id: task.id } }
  const created = await expect('createUpload', 201, { ...taskRequest, headers: tusHeaders(content.length) })
  const uploadRequest = { token, params: { upload_id: uploadIdIn(created.headers) } }

  const encoded = new Response(fileForm(content))
  const form = await sendHalf(
    `${url}/tasks/${task.id}/attachments`,
    'POST',
    {
      authorization: `Bearer ${token}`,
      'content-type': encoded.headers.get('content-type') ?? '',
    },
    Buffer.from(await encoded.arrayBuffer()),
  )
  const chunk = await sendHalf(
    `${url}/uploads/${uploadRequest.params.upload_id}`,
    'PATCH',
    { authorization: `Bearer ${token}`, ...pieceHeaders(0) },
    content,
  )
  return { form, chunk, taskRequest, uploadRequest }
}

/** Sends the head of a form, and disconnects. */
const abandonForm = async (
  { url }: ServiceProcess,
  { token, params }: { readonly token: string; readonly params: { readonly task_id: string } },
): Promise<void> => {
  const sending = request(`${url}/tasks/${params.task_id}/attachments`, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'multipart/form-data; boundary=x',
      'content-length': 1_000,
      expect: '100-continue',
    },
  })
  sending.on('error', () => undefined)
  sending.flushHeaders()
  await once(sending, 'continue')
  sending.destroy()
}

const untilStopping = (service: ServiceProcess): Promise<void> =>
  eventually('the service is stopping', async () => service.output().includes('stopping after'))

/** The digests of a task's files, in the list and of the downloads. */
const digestsOf = async (
  { url }: ServiceProcess,
  taskRequest: { readonly token: string; readonly params: { readonly task_id: string } },
) => {
  const { expect } = createClient(url)
  const { body } = await expect('listTaskAttachments', 200, taskRequest)
  return Promise.all(
    body.items.map(async ({ id, sha256: listed }) => {
      const request = { token: taskRequest.token, params: { attach_id: id } }
      const { body } = await expect('downloadAttachment', 200, request)
      const downloaded = createHash('sha256').update(body as unknown as Uint8Array)
      return { listed, downloaded: downloaded.digest('hex') }
    }),
  )
}

const environment = await environmentFor(t)
const whole = { listed: sha256, downloaded: sha256 }

/** Sends a second signal to a service that waits for uploads, and expects an immediate exit. */
const stopImmediately = async (t: Test, service: ServiceProcess, name: string): Promise<void> => {
  const { form, chunk } = await beginUploads(service, name)
  const started = performance.now()
  const ended = service.end('SIGTERM')
  await untilStopping(service)
  // Within a second, a signal is treated as a repeat of the first.
  const repeating = setInterval(() => void service.end('SIGINT'), 100)
  t.teardown(() => clearInterval(repeating))
  const tooLate = pause(30_000, 'alive', { ref: false })
  t.equal(await Promise.race([ended, tooLate]), 130)
  t.ok(performance.now() - started > 1_000, 'repeats of the first signal are ignored')
  await Promise.all([form.lost, chunk.lost])
}

t.test('one process after the other', async (t) => {
  const first = await startProcess(t, environment)
  const finished = await beginUploads(first, 'ada')

  await t.test('running uploads are finished, and new requests are 503', async (t) => {
    const { form, chunk, taskRequest } = finished
    const ready = head('GET /health/ready HTTP/1.1', 'Host: localhost')
    const [late, kept, idle] = await Promise.all([1, 2, 3].map(() => openRaw(t, first.url)))
    if (late === undefined || kept === undefined || idle === undefined)
      throw new Error('There are no connections')
    late.socket.write(ready.slice(0, 10))
    const isClosed = once(idle.socket, 'close')
    for (const { socket, answer } of [kept, idle]) {
      socket.write(ready)
      await answer()
    }
    for (let count = 0; count < 5; count += 1) await abandonForm(first, taskRequest)

    // Sent by a terminal that is closed.
    const ended = first.end('SIGHUP')
    await untilStopping(first)
    await eventually('a request on a kept-alive connection is served as the last one', async () => {
      kept.socket.write(ready)
      const { status, headers } = await kept.answer()
      t.equal(status, 200)
      return headers.get('connection') === 'close'
    })
    await eventually('new connections are refused', () =>
      fetch(`${first.url}/health/ready`).then(
        () => false,
        () => true,
      ),
    )
    await isClosed
    late.socket.write(ready.slice(10))
    const refused = await late.answer()
    t.equal(refused.status, 503, 'a later request is refused')
    t.match(refused.body, { code: 'service_unavailable', detail: /stopping/ })
    t.equal(refused.headers.get('connection'), 'close')

    t.equal(await form.finish(), 201)
    t.equal(await chunk.finish(), 204)
    t.equal(await ended, 0)
  })

  const second = await startProcess(t, { ...environment, SHUTDOWN_SECONDS: '5' })
  const files = () => filesBelow(join(environment.DATA_DIR, 'attachments'))
  const before = new Set(await files())
  // Those of abandoned forms may go meanwhile.
  const newFiles = async () => (await files()).filter((file) => !before.has(file))
  t.strictSame(await digestsOf(second, finished.taskRequest), [whole, whole])
  const cut = await beginUploads(second, 'bob')

  await t.test('a stop aborts uploads at its deadline, and an aborted form leaves nothing', async (t) => {
    const { form, chunk } = cut
    await eventually('both files are being written', async () => (await newFiles()).length === 2)
    t.equal(await second.end('SIGTERM'), 0, 'within the deadline, otherwise it would be 1')
    await Promise.all([form.lost, chunk.lost])
    t.equal((await newFiles()).length, 1, 'the file of the form is removed')
  })

  const third = await startProcess(t, environment)
  t.strictSame(await digestsOf(third, cut.taskRequest), [])
  const { expect } = createClient(third.url)
  const headers = { 'tus-resumable': '1.0.0' }
  const found = await expect('getUploadOffset', 200, { ...cut.uploadRequest, headers })
  const offset = Number(found.headers.get('upload-offset'))
  t.ok(offset < content.length)
  const rest = { headers: pieceHeaders(offset), body: content.subarray(offset) }
  await expect('appendUpload', 204, { ...cut.uploadRequest, ...rest })
  t.strictSame(await digestsOf(third, cut.taskRequest), [whole], 'the resumable upload continues')

  await t.test('a second signal stops the process immediately', (t) => stopImmediately(t, third, 'eve'))
})

t.test('a second signal stops two workers immediately', async (t) => {
  const service = await startProcess(t, { ...environment, WORKERS: '2' })
  await stopImmediately(t, service, 'joe')
})

interface Traffic {
  /** Resolves when the service no longer listens, to a description of each lost request. */
  readonly sent: Promise<readonly string[]>
  /** Resolves when every client has received a response. */
  readonly started: Promise<unknown>
}

const sendUntilRefused = (
  t: Test,
  { url }: ServiceProcess,
  { clients, keepAlive }: { readonly clients: number; readonly keepAlive: boolean },
): Traffic => {
  const request = head(
    'GET /health/live HTTP/1.1',
    'Host: localhost',
    ...(keepAlive ? [] : ['Connection: close']),
  )
  const lost: string[] = []
  const send = async (onResponse: () => void): Promise<void> => {
    for (;;) {
      // A reset before anything was sent is a refusal, too.
      const connection = await openRaw(t, url).catch(() => null)
      if (connection === null) return
      const { socket, answer } = connection
      for (let count = 1; !socket.destroyed && !socket.readableEnded; count += 1) {
        socket.write(request)
        const response = await answer().catch(() => null)
        if (response === null) {
          lost.push(`request ${count} of a connection`)
          break
        }
        onResponse()
        if (response.headers.get('connection') === 'close') break
      }
      socket.destroy()
    }
  }
  const all = Array.from({ length: clients }, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    return { started: promise, sent: send(resolve) }
  })
  return {
    started: Promise.all(all.map(({ started }) => started)),
    sent: Promise.all(all.map(({ sent }) => sent)).then(() => lost),
  }
}

const rounds = 3

for (const keepAlive of [true, false])
  t.test(`a stop loses no request on ${keepAlive ? 'kept-alive' : 'new'} connections`, async (t) => {
    for (let round = 0; round < rounds; round += 1) {
      const service = await startProcess(t, environment)
      const { started, sent } = sendUntilRefused(t, service, { clients: 30, keepAlive })
      await started
      t.equal(await service.end('SIGTERM'), 0)
      t.strictSame(await sent, [])
    }
  })

t.test('a stop of two workers loses no request on kept-alive connections', async (t) => {
  for (let round = 0; round < rounds; round += 1) {
    const service = await startProcess(t, { ...environment, WORKERS: '2' })
    const { started, sent } = sendUntilRefused(t, service, { clients: 30, keepAlive: true })
    await started
    t.equal(await service.end('SIGTERM'), 0)
    // A connection may be reset if it is opened at the moment when the last worker stops accepting.
    t.strictSame(
      (await sent).filter((lost) => !lost.startsWith('request 1 ')),
      [],
    )
  }
})

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  t.test(`${signal} to npm stops the service that npm started`, async (t) => {
    const service = await startProcess(
      t,
      { ...environment, LOG_LEVEL: 'info', LOG_FORMAT: 'json' },
      { byNpm: true },
    )
    const pid = Number(/"pid":(\d+)/.exec(service.output())?.[1])
    // Killing npm would not end a service that ignored the signal.
    t.teardown(async () => isAlive(pid) && process.kill(pid, 'SIGKILL'))
    t.ok(isAlive(pid))
    const { form, chunk } = await beginUploads(service, signal.toLowerCase())
    const ended = service.end(signal)
    await untilStopping(service)
    t.equal(await form.finish(), 201, 'running uploads are finished')
    t.equal(await chunk.finish(), 204)
    t.equal(await ended, 0)
    t.notOk(isAlive(pid), 'the service has exited')
  })
