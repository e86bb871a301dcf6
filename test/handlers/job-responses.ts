import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { eventually } from '../fixture/eventually.ts'
import { fileForm, type Reply, startService } from '../fixture/service.ts'

/** A client polls a job until `poll_after_seconds` is null: then it has ended, and not before. */

type Schemas = components['schemas']
type Job = Pick<Schemas['Export'] | Schemas['Import'], 'id' | 'status' | 'poll_after_seconds'>
type JobReply = Pick<Reply, 'headers' | 'body'>

const service = await startService(t)
const { token } = await service.register('ada')

/** What a job can be while it has not ended. */
const pending = new Set(['waiting', 'running', 'reading', 'undoing', 'discarding'])

/** Gets a job until its `poll_after_seconds` is null. Resolves to the status that it has then. */
const polled = async (first: JobReply, get: (id: string) => Promise<JobReply>): Promise<string> => {
  let { headers, body } = first
  const { id } = body as Job
  await eventually('the job has ended', async () => {
    const { status, poll_after_seconds: seconds } = body as Job
    t.equal(seconds === null, !pending.has(status), status)
    t.equal(headers.get('retry-after'), seconds === null ? null : String(seconds))
    if (seconds !== null) ({ headers, body } = await get(id))
    return seconds === null
  })
  return (body as Job).status
}

t.test('an export', async (t) => {
  const get = (export_id: string) => service.expect('getExport', 200, { token, params: { export_id } })
  const requested = await service.expect('createExport', 201, { token, body: {} })
  t.equal(await polled(requested, get), 'finished')
  const other = await service.expect('createExport', 201, { token, body: {} })
  await service.expect('cancelExport', 200, { token, params: { export_id: other.body.id } })
  t.match(await polled(await get(other.body.id), get), /^(cancelled|finished)$/)
})

t.test('an import: each time that it is read, run or undone', async (t) => {
  const get = (import_id: string) => service.expect('getImport', 200, { token, params: { import_id } })
  const upload = (content: string) =>
    service.expect('createImport', 201, { token, body: fileForm(content, 'tasks.csv') })
  const read = await upload('title\nWater the plants\n')
  t.equal(await polled(read, get), 'ready')
  const params = { import_id: read.body.id }
  const { body: ready } = await get(read.body.id)
  const run = await service.expect('runImport', 200, { token, params, body: { version: ready.version } })
  t.equal(await polled(run, get), 'finished')
  t.equal(await polled(await service.expect('undoImport', 200, { token, params }), get), 'undone')
  const cancelled = await upload('title\nBuy seeds\n')
  await polled(cancelled, get)
  const cancel = { token, params: { import_id: cancelled.body.id } }
  t.equal(await polled(await service.expect('cancelImport', 200, cancel), get), 'cancelled')
  t.equal(await polled(await upload('\0\0'), get), 'failed')
})
