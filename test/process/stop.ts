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

/** What a stop does to uploads that have begun, and what ends the process sooner. */

const content = randomBytes(400_000)
const sha256 = createHash('sha256').update(content).digest('hex')

/** A request of which a half has been sent. */
interface Half {
  /** Sends the rest; resolves to the status. */
  readonly finish: () => Promise<number>
  /** Resolves when its connection is lost before that. */
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
  // The service has taken the request in when it asks for the body.
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

/** A task, and half of two uploads to it: a form, and all that an upload by tus has. */
const beginUploads = async ({ url }: ServiceProcess, name: string) => {
  const { expect, register } = createClient(url)
  const { token } = await register(name)
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With files' } })
  const ofTask = { token, params: { task_id: task.id } }
  const begun = await expect('createUpload', 201, { ...ofTask, headers: tusHeaders(content.length) })
  const ofUpload = { token, params: { upload_id: uploadIdIn(begun.headers) } }

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
  const piece = await sendHalf(
    `${url}/uploads/${ofUpload.params.upload_id}`,
    'PATCH',
    { authorization: `Bearer ${token}`, ...pieceHeaders(0) },
    content,
  )
  return { form, piece, ofTask, ofUpload }
}

/** Sends the head of a form, and goes away. */
const giveUpForm = async (
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
  eventually('it stops', async () => service.output().includes('stopping after'))

/** The digests of the files that a task has, by what is told of them and by what is downloaded. */
const digestsOf = async (
  { url }: ServiceProcess,
  ofTask: { readonly token: string; readonly params: { readonly task_id: string } },
) => {
  const { expect } = createClient(url)
  const { body } = await expect('listTaskAttachments', 200, ofTask)
  return Promise.all(
    body.items.map(async ({ id, sha256: told }) => {
      const asked = { token: ofTask.token, params: { attach_id: id } }
      const { body } = await expect('downloadAttachment', 200, asked)
      const read = createHash('sha256').update(body as unknown as Uint8Array)
      return { told, read: read.digest('hex') }
    }),
  )
}

const noServer = process.env.DATABASE_URL === undefined && 'the embedded database serves one process'
const environment = await environmentFor(t)
const whole = { told: sha256, read: sha256 }

/** What a second signal does to a service that waits for uploads. */
const endAtOnce = async (t: Test, service: ServiceProcess, name: string): Promise<void> => {
  const { form, piece } = await beginUploads(service, name)
  const begun = performance.now()
  const ended = service.end('SIGTERM')
  await untilStopping(service)
  // What comes within a second is an echo of the first.
  const repeating = setInterval(() => void service.end('SIGINT'), 100)
  t.teardown(() => clearInterval(repeating))
  const tooLate = pause(30_000, 'alive', { ref: false })
  t.equal(await Promise.race([ended, tooLate]), 130)
  t.ok(performance.now() - begun > 1_000, 'an echo of the first is not the second')
  await Promise.all([form.lost, piece.lost])
}

t.test('one process after the other', async (t) => {
  const first = await startProcess(t, environment)
  const finished = await beginUploads(first, 'ada')

  await t.test('uploads that have begun are finished, and nothing begins any more', async (t) => {
    const { form, piece, ofTask } = finished
    const ready = head('GET /health/ready HTTP/1.1', 'Host: localhost')
    const [late, kept, idle] = await Promise.all([1, 2, 3].map(() => openRaw(t, first.url)))
    if (late === undefined || kept === undefined || idle === undefined) throw new Error('Three were opened')
    late.socket.write(ready.slice(0, 10))
    const isClosed = once(idle.socket, 'close')
    for (const { socket, answer } of [kept, idle]) {
      socket.write(ready)
      await answer()
    }
    for (let count = 0; count < 5; count += 1) await giveUpForm(first, ofTask)

    // What a terminal sends that is closed.
    const ended = first.end('SIGHUP')
    await untilStopping(first)
    kept.socket.write(ready)
    const last = await kept.answer()
    t.equal(last.status, 200, 'a request on a connection that is kept is served')
    t.equal(last.headers.get('connection'), 'close', 'as the last one')
    await eventually('no connection is taken any more', () =>
      fetch(`${first.url}/health/ready`).then(
        () => false,
        () => true,
      ),
    )
    await isClosed
    late.socket.write(ready.slice(10))
    const refused = await late.answer()
    t.equal(refused.status, 503, 'a request that begins later is refused')
    t.match(refused.body, { code: 'service_unavailable', detail: /stopping/ })
    t.equal(refused.headers.get('connection'), 'close')

    t.equal(await form.finish(), 201)
    t.equal(await piece.finish(), 204)
    t.equal(await ended, 0)
  })

  const second = await startProcess(t, { ...environment, SHUTDOWN_SECONDS: '5' })
  const files = () => filesBelow(join(environment.DATA_DIR, 'attachments'))
  const before = (await files()).length
  t.strictSame(await digestsOf(second, finished.ofTask), [whole, whole])
  const cut = await beginUploads(second, 'bob')

  await t.test('an upload that a stop cannot wait for is cut off, and a form leaves nothing', async (t) => {
    const { form, piece } = cut
    await eventually('both are being written', async () => (await files()).length === before + 2)
    t.equal(await second.end('SIGTERM'), 0, 'within its deadline, or this would be 1')
    await Promise.all([form.lost, piece.lost])
    t.equal((await files()).length, before + 1, 'what the form brought is gone')
  })

  const third = await startProcess(t, environment)
  t.strictSame(await digestsOf(third, cut.ofTask), [])
  const { expect } = createClient(third.url)
  const headers = { 'tus-resumable': '1.0.0' }
  const found = await expect('getUploadOffset', 200, { ...cut.ofUpload, headers })
  const offset = Number(found.headers.get('upload-offset'))
  t.ok(offset < content.length)
  const rest = { headers: pieceHeaders(offset), body: content.subarray(offset) }
  await expect('appendUpload', 204, { ...cut.ofUpload, ...rest })
  t.strictSame(await digestsOf(third, cut.ofTask), [whole], 'and the other goes on')

  await t.test('a second signal ends it at once', (t) => endAtOnce(t, third, 'eve'))
})

t.test('a second signal ends two workers at once', { skip: noServer }, async (t) => {
  const service = await startProcess(t, { ...environment, WORKERS: '2' })
  await endAtOnce(t, service, 'joe')
})

interface Traffic {
  /** Sends one request after the other until nobody listens any more; resolves to how requests were lost. */
  readonly sent: Promise<readonly string[]>
  /** Resolves when every client has been answered. */
  readonly begun: Promise<unknown>
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
  const send = async (onAnswer: () => void): Promise<void> => {
    for (;;) {
      // A reset is a refusal, too, before anything was sent.
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
        onAnswer()
        if (response.headers.get('connection') === 'close') break
      }
      socket.destroy()
    }
  }
  const all = Array.from({ length: clients }, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    return { begun: promise, sent: send(resolve) }
  })
  return {
    begun: Promise.all(all.map(({ begun }) => begun)),
    sent: Promise.all(all.map(({ sent }) => sent)).then(() => lost),
  }
}

const rounds = 3

for (const keepAlive of [true, false])
  t.test(`no request is lost on connections that are ${keepAlive ? 'kept' : 'new'}`, async (t) => {
    for (let round = 0; round < rounds; round += 1) {
      const service = await startProcess(t, environment)
      const { begun, sent } = sendUntilRefused(t, service, { clients: 30, keepAlive })
      await begun
      t.equal(await service.end('SIGTERM'), 0)
      t.strictSame(await sent, [])
    }
  })

t.test('no request is lost on connections that two workers keep', { skip: noServer }, async (t) => {
  for (let round = 0; round < rounds; round += 1) {
    const service = await startProcess(t, { ...environment, WORKERS: '2' })
    const { begun, sent } = sendUntilRefused(t, service, { clients: 30, keepAlive: true })
    await begun
    t.equal(await service.end('SIGTERM'), 0)
    // A connection that is made just when the last worker stops to accept any may be reset.
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
    const service = await startProcess(t, { ...environment, LOG_LEVEL: 'info' }, { byNpm: true })
    const pid = Number(/"pid":(\d+)/.exec(service.output())?.[1])
    // npm ends when it is killed, and a service that ignored the signal would stay.
    t.teardown(async () => isAlive(pid) && process.kill(pid, 'SIGKILL'))
    t.ok(isAlive(pid))
    const { form, piece } = await beginUploads(service, signal.toLowerCase())
    const ended = service.end(signal)
    await untilStopping(service)
    t.equal(await form.finish(), 201, 'uploads that have begun are finished')
    t.equal(await piece.finish(), 204)
    t.equal(await ended, 0)
    t.notOk(isAlive(pid), 'nothing stays behind')
  })
