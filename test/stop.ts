import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { environmentFor } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { type ServiceProcess, startProcess } from './fixture/process.ts'
import { openRaw } from './fixture/raw.ts'
import { createClient, fileForm } from './fixture/service.ts'
import { filesBelow } from './fixture/storage.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from './fixture/uploads.ts'

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
const beginUploads = async ({ url }: ServiceProcess) => {
  const { expect, register } = createClient(url)
  const { token } = await register('ada')
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

t.test('uploads that have begun are finished, and nothing begins any more', async (t) => {
  const environment = await environmentFor(t)
  const service = await startProcess(t, environment)
  const late = await openRaw(t, service.url)
  late.socket.write('GET /health/ready HTTP/1.1\r\n')
  const { form, piece, ofTask } = await beginUploads(service)
  for (let count = 0; count < 5; count += 1) await giveUpForm(service, ofTask)

  const ended = service.end('SIGTERM')
  await untilStopping(service)
  await eventually('no connection is taken any more', () =>
    fetch(`${service.url}/health/ready`).then(
      () => false,
      () => true,
    ),
  )
  late.socket.write('Host: localhost\r\n\r\n')
  const refused = await late.answer()
  t.equal(refused.status, 503, 'one that was there already hears of it')
  t.match(refused.body, { code: 'service_unavailable', detail: /stopping/ })
  t.equal(refused.headers.get('connection'), 'close')

  t.equal(await form.finish(), 201)
  t.equal(await piece.finish(), 204)
  t.equal(await ended, 0)

  const again = await startProcess(t, environment)
  const whole = { told: sha256, read: sha256 }
  t.strictSame(await digestsOf(again, ofTask), [whole, whole])
})

t.test('an upload that a stop cannot wait for is cut off, and a form leaves nothing', async (t) => {
  const environment = await environmentFor(t)
  const service = await startProcess(t, { ...environment, SHUTDOWN_SECONDS: '5' })
  const { form, piece, ofTask, ofUpload } = await beginUploads(service)
  const files = () => filesBelow(join(environment.DATA_DIR, 'attachments'))
  await eventually('both are being written', async () => (await files()).length === 2)

  const begun = performance.now()
  t.equal(await service.end('SIGTERM'), 0)
  t.ok(performance.now() - begun < 5_000)
  await Promise.all([form.lost, piece.lost])
  t.equal((await files()).length, 1, 'what the form brought is gone')

  const again = await startProcess(t, environment)
  const { expect } = createClient(again.url)
  t.strictSame(await digestsOf(again, ofTask), [])
  const headers = { 'tus-resumable': '1.0.0' }
  const found = await expect('getUploadOffset', 200, { ...ofUpload, headers })
  const offset = Number(found.headers.get('upload-offset'))
  t.ok(offset < content.length)
  await expect('appendUpload', 204, {
    ...ofUpload,
    headers: pieceHeaders(offset),
    body: content.subarray(offset),
  })
  t.strictSame(await digestsOf(again, ofTask), [{ told: sha256, read: sha256 }], 'and the other goes on')
})

const noServer = process.env.DATABASE_URL === undefined && 'the embedded database serves one process'

for (const [WORKERS, skip] of [
  ['1', false],
  ['2', noServer],
] as const)
  t.test(`a second signal ends it at once, WORKERS=${WORKERS}`, { skip }, async (t) => {
    const service = await startProcess(t, { ...(await environmentFor(t)), WORKERS })
    const { form, piece } = await beginUploads(service)
    const begun = performance.now()
    const ended = service.end('SIGTERM')
    await untilStopping(service)
    // What comes within a second is an echo of the first.
    const repeating = setInterval(() => void service.end('SIGINT'), 100)
    t.teardown(() => clearInterval(repeating))
    const tooLate = pause(10_000, 'alive', { ref: false })
    t.equal(await Promise.race([ended, tooLate]), 130)
    t.ok(performance.now() - begun > 1_000, 'an echo of the first is not the second')
    await Promise.all([form.lost, piece.lost])
  })
