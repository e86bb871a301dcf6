import t from 'tap'
import { lookUp } from '../fixture/contract-check.ts'
import { blackPng } from '../fixture/images.ts'
import { operations } from '../fixture/requests.ts'
import { type Call, fileForm, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** If-Match on everything that is read with an ETag (RFC 9110 §13.1.1); it is asked before If-None-Match (§13.2.2). */

const service = await startService(t)
const { createTag, createTask } = taskActions(service)
const ada = await service.register('ada')
const { token } = ada

const task = await createTask(ada)
const tag = await createTag(ada, 'read')
const { body: attachment } = await service.expect('addTaskAttachment', 201, {
  token,
  params: { task_id: task.id },
  body: fileForm(blackPng({ width: 60, height: 30 }), 'black.png', 'image/png'),
})
const deleted = await createTask(ada)
await service.expect('deleteTask', 204, { token, params: { task_id: deleted.id } })

const paramsOf: Readonly<Record<string, Call['params']>> = {
  getCurrentUser: {},
  getUser: { user_id: ada.id },
  getTask: { task_id: task.id },
  getTrashedTask: { task_id: deleted.id },
  downloadAttachment: { attach_id: attachment.id },
  getThumbnail: { attach_id: attachment.id },
  getTag: { tag_id: tag.id },
  getContract: {},
  getContractJson: {},
}

const reads = operations.filter(
  ({ path, method }) =>
    method === 'GET' && lookUp(['paths', path, 'get', 'responses', '200', 'headers', 'ETag']),
)
t.same(reads.map(({ id }) => id).toSorted(), Object.keys(paramsOf).toSorted(), 'every read with an ETag')

for (const { id } of reads) {
  t.test(id, async (t) => {
    const get = (headers: Record<string, string> = {}, more: Call = {}) =>
      service.call(id, { token, params: paramsOf[id] ?? {}, headers, ...more })
    const etag = (await get()).headers.get('etag') ?? ''
    t.match(etag, /^"[^"]+"$/)

    for (const list of [etag, '*', `"other", ${etag}`])
      t.equal((await get({ 'if-match': list })).status, 200, list)
    for (const list of ['"other"', '"other", "another"', `W/${etag}`, etag.replace(/"$/, 'x"'), '']) {
      const { status, headers, body } = await get({ 'if-match': list })
      t.equal(status, 412, list)
      t.match(body, { type: '/problems/precondition_failed' })
      t.equal(headers.get('etag'), null, 'a problem has no tag')
    }
    t.equal((await get({ 'if-match': '"other"' }, { method: 'HEAD' })).status, 412)
    t.equal((await get({ 'if-match': '"other"', 'if-none-match': etag })).status, 412)
    t.equal((await get({ 'if-match': etag, 'if-none-match': etag })).status, 304)
    t.match(await get({ 'if-match': 'no quotes' }), {
      status: 400,
      body: { errors: [{ pointer: '/If-Match' }] },
    })
  })
}
