import { once } from 'node:events'
import t, { type Test } from 'tap'
import { head, openRaw } from '../fixture/raw.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../fixture/uploads.ts'

/** `Expect: 100-continue`: 100 is sent only if all checks that need no body have passed. */

const service = await startService(t, { config: { attachmentMaxBytes: 1_000, attachmentQuotaBytes: 2_000 } })
const ada = await service.register('ada')
const { token } = ada
const task = await taskActions(service).createTask(ada)
const authorization = `Authorization: Bearer ${token}`
const json = 'Content-Type: application/json'
const form = 'Content-Type: multipart/form-data; boundary=x'

const send = async (t: Test, start: string, ...lines: readonly string[]) => {
  const connection = await openRaw(t, service.url)
  connection.socket.write(head(`${start} HTTP/1.1`, 'Host: x', 'Expect: 100-continue', ...lines))
  return connection
}

const attachments = `/tasks/${task.id}/attachments`
const missing = '/tasks/0199c0f0-1111-7222-8333-444455556666/attachments'

const refused: Readonly<Record<string, readonly [status: number, start: string, ...lines: string[]]>> = {
  'without a token': [401, 'POST /tasks', json, 'Content-Length: 20'],
  'with a bad token': [401, 'POST /tasks', 'Authorization: Bearer a.b.c', json, 'Content-Length: 20'],
  'with a file without a token': [401, `POST ${attachments}`, form, 'Content-Length: 20'],
  'to an unknown path': [404, 'POST /nothing/here', json, 'Content-Length: 20'],
  'with another method': [405, 'PUT /tasks', json, 'Content-Length: 20'],
  'with another media type': [
    415,
    'POST /tasks',
    authorization,
    'Content-Type: text/plain',
    'Content-Length: 20',
  ],
  'with too large a body': [413, 'POST /tasks', authorization, json, 'Content-Length: 2000000'],
  'with too large a file': [413, `POST ${attachments}`, authorization, form, 'Content-Length: 2000000'],
  'with a file for an unknown task': [404, `POST ${missing}`, authorization, form, 'Content-Length: 200'],
  'with a chunk of an unknown upload': [
    404,
    'PATCH /uploads/0199c0f0-1111-7222-8333-444455556666',
    authorization,
    ...Object.entries(pieceHeaders(0)).map(([name, value]) => `${name}: ${value}`),
    'Content-Length: 20',
  ],
}

for (const [what, [status, start, ...lines]] of Object.entries(refused)) {
  t.test(`${status} without 100 for a request ${what}`, async (t) => {
    const { socket, answer } = await send(t, start, ...lines)
    const closed = once(socket, 'close')
    const first = await answer()
    t.equal(first.status, status)
    t.equal(first.headers.get('connection'), 'close')
    await closed
  })
}

t.test('100 for a request that can succeed', async (t) => {
  const statusAfter100 = async (
    start: string,
    body: string,
    ...lines: readonly string[]
  ): Promise<number> => {
    const { socket, answer } = await send(t, start, authorization, `Content-Length: ${body.length}`, ...lines)
    t.equal((await answer()).status, 100)
    socket.write(body)
    return (await answer()).status
  }
  t.equal(await statusAfter100('POST /tasks', '{"title":"Asked for"}', json), 201)
  t.equal(await statusAfter100('POST /tasks', '{"title":', json), 400)
  const content = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nbytes\r\n--x--\r\n'
  t.equal(await statusAfter100(`POST ${attachments}`, content, form), 201)
  const creation = { token, params: { task_id: task.id }, headers: tusHeaders(5) }
  const upload = uploadIdIn((await service.expect('createUpload', 201, creation)).headers)
  const piece = Object.entries(pieceHeaders(0)).map(([name, value]) => `${name}: ${value}`)
  t.equal(await statusAfter100(`PATCH /uploads/${upload}`, 'bytes', ...piece), 204)
})
