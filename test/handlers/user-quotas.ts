import t from 'tap'
import { rowsRead } from '../fixture/plan.ts'
import { recordRuns } from '../fixture/recorded-runs.ts'
import { type Account, fileForm, startService } from '../fixture/service.ts'
import { countStatuses, taskActions, unknownId } from '../fixture/tasks.ts'
import { tusHeaders } from '../fixture/uploads.ts'

/** Quotas of single users, and the usage of quotas. */

const installation = { attachmentQuotaBytes: 1_000, taskQuota: 6 }
const { runs, record } = recordRuns()
const service = await startService(t, { config: installation, aroundDatabase: record })
const { createTask } = taskActions(service)
const admin = await service.register('admin')
const paramsOf = ({ id }: Pick<Account, 'id'>) => ({ user_id: id })

interface Quotas {
  readonly attachment_quota_bytes?: number | null
  readonly task_quota?: number | null
}

const setQuotas = async (account: Account, body: Quotas) => {
  const request = { token: admin.token, params: paramsOf(account), body }
  return (await service.expect('updateUser', 200, request)).body
}

const usageOf = async (account: Account, { token }: Account = account) =>
  (await service.expect('getUserUsage', 200, { token, params: paramsOf(account) })).body

const attach = (account: Account, taskId: string, size: number, headers: Record<string, string> = {}) =>
  service.call('addTaskAttachment', {
    token: account.token,
    params: { task_id: taskId },
    headers,
    body: fileForm(Buffer.alloc(size)),
  })

const createOne = (token: string, body: object = {}) =>
  service.call('createTask', { token, body: { title: 'One', ...body } })

const exceeds = (members: object) => ({ status: 413, body: { code: 'quota_exceeded', ...members } })

t.test('administrators set quotas, and other users do not see them', async (t) => {
  const [ada, eve] = [await service.register('ada'), await service.register('eve')]
  const changed = await setQuotas(ada, { attachment_quota_bytes: 2_000, task_quota: 3 })
  t.match(changed, { attachment_quota_bytes: 2_000, task_quota: 3, version: ada.user.version + 1 })
  const seenBy = async ({ token }: Account) =>
    (await service.expect('getUser', 200, { token, params: paramsOf(ada) })).body
  t.strictSame(await seenBy(ada), changed)
  t.match(await seenBy(eve), { attachment_quota_bytes: null, task_quota: null, email: null })

  t.match((await setQuotas(ada, { task_quota: null })).attachment_quota_bytes, 2_000, 'the other quota stays')
  const { id: _, created_at: __, updated_at: ___, ...fields } = await seenBy(ada)
  const kept = await service.expect('replaceUser', 200, {
    token: ada.token,
    params: paramsOf(ada),
    body: fields,
  })
  t.equal(kept.body.attachment_quota_bytes, 2_000, 'a user can send the current quotas')
  const { attachment_quota_bytes: ____, task_quota: _____, version: ______, ...fieldsWithoutQuotas } = fields
  const replaced = { ...fieldsWithoutQuotas, display_name: 'Ada' }
  t.match(
    (await service.expect('replaceUser', 200, { token: ada.token, params: paramsOf(ada), body: replaced }))
      .body,
    {
      display_name: 'Ada',
      attachment_quota_bytes: 2_000,
    },
  )

  for (const body of [{ task_quota: 7 }, { task_quota: 0 }, { attachment_quota_bytes: null }]) {
    const own = { token: ada.token, params: paramsOf(ada) }
    t.match(await service.call('updateUser', { ...own, body }), { status: 403, body: { code: 'forbidden' } })
    const put = await service.call('replaceUser', { ...own, body: { ...replaced, ...body } })
    t.match(put, { status: 403, body: { code: 'forbidden' } })
  }
  for (const task_quota of [-1, 1.5, '6', 2 ** 31])
    t.match(
      await service.call('updateUser', { token: admin.token, params: paramsOf(ada), body: { task_quota } }),
      {
        status: 400,
        body: { errors: [{ pointer: '/task_quota' }] },
      },
    )
})

t.test('getUserUsage', async (t) => {
  const [ada, eve] = [await service.register('user'), await service.register('onlooker')]
  const task = await createTask(ada)
  await attach(ada, task.id, 300)
  const webhook = { url: 'http://127.0.0.1:9/', event_types: ['*'] }
  await service.expect('createWebhook', 201, { token: ada.token, body: webhook })
  const usage = {
    attachment_bytes: { used: 300, quota: 1_000 },
    interchange_bytes: { used: 0, quota: null },
    tasks: { used: 1, quota: 6 },
    webhooks: { used: 1, quota: 100 },
    feeds: { used: 0, quota: 50 },
  }

  t.test('200: the effective quotas and their usage', async (t) => {
    t.strictSame(await usageOf(ada), usage)
    t.strictSame(await usageOf(ada, admin), usage)
    await setQuotas(ada, { attachment_quota_bytes: 500, task_quota: 0 })
    const own = { attachment_bytes: { used: 300, quota: 500 }, tasks: { used: 1, quota: null } }
    t.strictSame(await usageOf(ada), { ...usage, ...own })
    const { token } = ada
    await service.expect('deleteTask', 204, { token, params: { task_id: task.id } })
    t.equal((await usageOf(ada)).tasks.used, 1, 'the trash is counted')
    await service.expect('deleteTrashedTask', 204, { token, params: { task_id: task.id } })
    t.equal((await usageOf(ada)).tasks.used, 0)
  })

  t.test('403 for other users, 404 for an unknown user', async (t) => {
    await createTask(ada)
    runs.length = 0
    const { body } = await service.expect('getUserUsage', 403, { token: eve.token, params: paramsOf(ada) })
    t.equal(body.code, 'forbidden')
    const statement = runs.find(({ text }) => text.includes('quotas.select_usage'))
    if (statement === undefined) throw new Error('No statement read the usage')
    const isTasks = (scan: { readonly 'Relation Name'?: string }) => scan['Relation Name'] === 'tasks'
    t.equal(await rowsRead(service.deps.db, statement, isTasks), 0, 'no task is counted for them')
    await service.expect('getUserUsage', 404, { token: admin.token, params: { user_id: unknownId } })
  })
})

t.test('the size of attachments', async (t) => {
  const ada = await service.register('uploader')
  const task = await createTask(ada)
  const other = await service.register('other-uploader')
  const otherTask = await createTask(other)

  t.test('413 above the quota of the user, not for other users', async (t) => {
    await setQuotas(ada, { attachment_quota_bytes: 400 })
    t.match(await attach(ada, task.id, 401), exceeds({ resource: 'attachment_bytes', quota: 400, used: 0 }))
    const createUpload = (length: number) =>
      service.call('createUpload', {
        token: ada.token,
        params: { task_id: task.id },
        headers: tusHeaders(length),
      })
    t.match(await createUpload(401), exceeds({ quota: 400, used: 0, size: 401 }))
    t.equal((await attach(other, otherTask.id, 401)).status, 201)
  })

  t.test('of files added at the same time, as many are stored as the quota allows', async (t) => {
    const replies = await Promise.all([1, 2, 3].map(() => attach(ada, task.id, 150)))
    t.strictSame(countStatuses(replies), { 201: 2, 413: 1 })
    t.equal((await usageOf(ada)).attachment_bytes.used, 300)
  })

  t.test('a larger quota applies at once, and a smaller one removes nothing', async (t) => {
    await setQuotas(ada, { attachment_quota_bytes: 2_000 })
    const headers = { 'idempotency-key': 'once' }
    const stored = await attach(ada, task.id, 1_500, headers)
    t.equal(stored.status, 201, 'more than the quota of the installation')
    await setQuotas(ada, { attachment_quota_bytes: 100 })
    t.equal((await usageOf(ada)).attachment_bytes.used, 1_800)
    t.match(await attach(ada, task.id, 1), exceeds({ quota: 100, used: 1_800, size: 1 }))
    t.match(await attach(ada, task.id, 0), { status: 201 }, 'an empty file needs no room')
    t.strictSame((await attach(ada, task.id, 1_500, headers)).body, stored.body, 'neither does a repeat')
  })

  t.test('0 is unlimited, null is the quota of the installation', async (t) => {
    await setQuotas(ada, { attachment_quota_bytes: 0 })
    t.equal((await attach(ada, task.id, 5_000)).status, 201)
    await setQuotas(ada, { attachment_quota_bytes: null })
    t.match(await attach(ada, task.id, 1), exceeds({ quota: 1_000, used: 6_800 }))
  })
})

t.test('the number of tasks', async (t) => {
  t.test('a quota applies at once, larger or smaller', async (t) => {
    const { token, ...ada } = await service.register('planner')
    const account = { token, ...ada }
    await setQuotas(account, { task_quota: 2 })
    for (const status of [201, 201, 413]) t.equal((await createOne(token)).status, status)
    await setQuotas(account, { task_quota: 3 })
    t.equal((await createOne(token)).status, 201)
    t.match(await createOne(token), exceeds({ resource: 'tasks', quota: 3, used: 3, size: 1 }))
    const body = { create: [{ title: 'One' }, { title: 'Two' }] }
    for (const dry_run of [true, false])
      t.match(
        await service.call('batchTasks', { token, body: { ...body, dry_run } }),
        exceeds({ quota: 3, used: 3, size: 2 }),
      )
    await setQuotas(account, { task_quota: 0 })
    t.equal((await service.call('batchTasks', { token, body })).status, 200)
    for (let count = 5; count < 8; count += 1) t.equal((await createOne(token)).status, 201)
    await setQuotas(account, { task_quota: null })
    t.match(await createOne(token), exceeds({ quota: 6, used: 8, size: 1 }))
    await setQuotas(account, { task_quota: 9 })
    for (const status of [201, 413]) t.equal((await createOne(token)).status, status)
  })

  t.test("tasks transferred by others can fill half of the recipient's quota", async (t) => {
    const [sender, recipient] = [await service.register('giver'), await service.register('taker')]
    await setQuotas(recipient, { task_quota: 2 })
    const transfer = async () => {
      const { id } = await createTask(sender)
      const request = { token: sender.token, params: { task_id: id }, body: { owner_id: recipient.id } }
      return service.call('updateTask', request)
    }
    t.equal((await transfer()).status, 200)
    t.match(await transfer(), exceeds({ resource: 'tasks', quota: 1, used: 1, size: 1 }))
    await setQuotas(recipient, { task_quota: 4 })
    t.equal((await transfer()).status, 200, 'a raised quota applies at once')
  })
})
