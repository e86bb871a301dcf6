import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { deriveKeys } from '../../src/auth/keys.ts'
import { open } from '../../src/auth/seal.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { pointersOf, unknownId, withoutRequest } from '../fixture/tasks.ts'

type Webhook = components['schemas']['Webhook']
type WebhookWithSecret = components['schemas']['WebhookWithSecret']

const { db } = await openTestDatabase(t)
const webhookAllow = ['builds.internal', '10.1.0.0/16', '127.0.0.2']
const service = await startService(t, { db, config: { webhookAllow } })
const { createProject, createShared, setMember } = projectActions(service)
const admin = await service.register('admin')
const ada = await service.register('ada')
const manager = await service.register('manager')
const editor = await service.register('editor')
const stranger = await service.register('stranger')

const url = 'https://hooks.example.com/taskwright'
/** For webhooks that send requests. Nothing listens there. */
const deadUrl = 'http://127.0.0.2:9/'

const createWebhook = async ({ token }: Account, fields: object = {}): Promise<WebhookWithSecret> =>
  (
    await service.expect('createWebhook', 201, {
      token,
      body: { url, event_types: ['comment.deleted'], ...fields },
    })
  ).body

const listWebhooks = async ({ token }: Account, query: Record<string, string | readonly string[]> = {}) =>
  (await service.expect('listWebhooks', 200, { token, query })).body.items.map(({ id }) => id)

const pathOf = ({ id }: Pick<Webhook, 'id'>) => ({ webhook_id: id })

const newProject = (): Promise<string> => createShared(ada, { manager, editor })

const withoutSecret = ({ secret: _secret, ...webhook }: WebhookWithSecret): Webhook => webhook

/** The stored secrets of a webhook, decrypted. */
const storedSecrets = async ({ id }: Pick<Webhook, 'id'>): Promise<readonly (string | null)[]> => {
  const [row] = await db.run('select secret, previous_secret from webhooks where id = $1', [id])
  const keys = deriveKeys(service.deps.secrets, 'webhook')
  return [row?.secret, row?.previous_secret].map((sealed) =>
    Buffer.isBuffer(sealed) ? `whsec_${open(keys, sealed, id)?.plaintext.toString('base64') ?? ''}` : null,
  )
}

t.test('createWebhook', async (t) => {
  t.test('201 for a personal webhook, with a secret that is shown once', async (t) => {
    const body = { url: 'HTTPS://Hooks.Example.com:443/a b', event_types: ['task.*', 'comment.created'] }
    const refused = await service.expect('createWebhook', 400, { token: ada.token, body })
    t.strictSame(pointersOf(refused.body), ['/url'], 'a space must be percent-encoded')
    const request = { token: ada.token, body: { ...body, url: 'HTTPS://Hooks.Example.com:443/a%20b?c=d' } }
    const { body: created, headers } = await service.expect('createWebhook', 201, {
      ...request,
      body: { ...request.body, description: 'Builds a release' },
    })
    const { id, secret, created_at, updated_at, ...rest } = created
    t.strictSame(rest, {
      owner_id: ada.id,
      project_id: null,
      url: 'https://hooks.example.com/a%20b?c=d',
      description: 'Builds a release',
      event_types: ['task.*', 'comment.created'],
      is_enabled: true,
      disabled_reason: null,
      failing_since: null,
      previous_secret_until: null,
      version: 1,
      revision: 1,
    })
    t.equal(created_at, updated_at)
    t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    t.strictSame(await storedSecrets(created), [secret, null])
    t.equal(headers.get('location'), `/webhooks/${id}`)
    t.equal(headers.get('etag'), '"1.1"')
    t.equal(headers.get('cache-control'), 'no-store')
    const read = await service.expect('getWebhook', 200, { token: ada.token, params: pathOf(created) })
    t.strictSame(read.body, withoutSecret(created))
  })

  t.test('201: a repeat with the same Idempotency-Key returns the same secret', async (t) => {
    const request = {
      token: ada.token,
      headers: { 'idempotency-key': 'a-webhook' },
      body: { url, event_types: ['*'] },
    }
    const first = await service.expect('createWebhook', 201, request)
    const second = await service.expect('createWebhook', 201, request)
    t.strictSame(second.body, first.body)
    t.equal(second.headers.get('idempotency-replayed'), 'true')
    t.equal(second.headers.get('etag'), first.headers.get('etag'))
    const [row] = await db.run('select string_agg(k::text, chr(10)) as text from idempotency_keys k', [])
    t.notOk(
      String(row?.text).includes(first.body.secret),
      'the stored response does not have the secret in plain text',
    )
  })

  t.test('201 for a webhook of a project, by its managers and administrators', async (t) => {
    const project_id = await newProject()
    for (const account of [ada, manager, admin])
      t.match(await createWebhook(account, { project_id }), { project_id, owner_id: account.id })
    t.match(await createWebhook(ada, { is_enabled: false, project_id: null }), {
      is_enabled: false,
      project_id: null,
    })
  })

  t.test('201 for addresses that the operator allows', async () => {
    for (const allowed of [
      'http://builds.internal:8080/',
      'http://10.1.2.3/',
      'http://10.0.0.1.example.com/',
    ])
      await createWebhook(ada, { url: allowed })
  })

  t.test('201 with the URL in the form of browsers', async (t) => {
    for (const [sent, stored] of [
      ['HTTP://EXAMPLE.com', 'http://example.com/'],
      ['https://m\u00fcnchen.example/', 'https://xn--mnchen-3ya.example/'],
      ['https://mu\u0308nchen.example/', 'https://xn--mnchen-3ya.example/'],
      ['https://\u4f8b\u3048.jp/\u8def?\u00e9=1', 'https://xn--r8jz45g.jp/%E8%B7%AF?%C3%A9=1'],
      ['https://example.com/a/../b', 'https://example.com/b'],
    ]) {
      const webhook = await createWebhook(ada, { url: sent })
      t.equal(webhook.url, stored)
      await service.expect('deleteWebhook', 204, { token: ada.token, params: { webhook_id: webhook.id } })
    }
  })

  t.test('400 or 422 for invalid URLs, 400 for invalid event types', async (t) => {
    for (const [invalid, status] of [
      ['ftp://example.com/', 400],
      ['file:///etc/passwd', 400],
      ['https://', 400],
      ['https://user@example.com/', 422],
      ['https://user:pass@example.com/', 422],
      ['https://example.com/#part', 422],
      ['https://example.com/#', 422],
      ['https://exa mple.com/', 400],
      ['https://\u0131%00/', 422],
      ['https://example.com:99999/', 422],
      ['https://[::1/', 422],
      [`https://example.com/${'x'.repeat(2_048)}`, 400],
      ['example.com', 400],
      ['', 400],
    ] as const) {
      const body = { url: invalid, event_types: ['*'] }
      const reply = await service.expect('createWebhook', status, { token: ada.token, body })
      t.strictSame(pointersOf(reply.body), ['/url'], invalid)
    }
    for (const event_types of [[], ['task.unknown'], ['*', '*'], ['task'], '*']) {
      const body = { url, event_types }
      await service.expect('createWebhook', 400, { token: ada.token, body })
    }
  })

  t.test('403 for a project that the caller does not manage', async () => {
    const body = { url, event_types: ['*'], project_id: await newProject() }
    await service.expect('createWebhook', 403, { token: editor.token, body })
  })

  t.test('413 for more than 100 webhooks of one user', async (t) => {
    const owner = await service.register('owner-of-many')
    const first = await createWebhook(owner)
    await db.run(
      `insert into webhooks (id, owner_id, url, event_types, secret)
      select unnest(string_to_array($2, ',')::uuid[]), $1, 'https://example.com/', '{*}', ''`,
      [owner.id, Array.from({ length: 99 }, newId).join()],
    )
    const request = { token: owner.token, body: { url, event_types: ['*'] } }
    const { body } = await service.expect('createWebhook', 413, request)
    t.match(body, { code: 'quota_exceeded', resource: 'webhooks', quota: 100, used: 100, size: 1 })
    await service.expect('deleteWebhook', 204, { token: owner.token, params: pathOf(first) })
    await service.expect('createWebhook', 201, request)
  })

  t.test('422 for an unknown or invisible project', async (t) => {
    for (const project_id of [await newProject(), unknownId]) {
      const body = { url, event_types: ['*'], project_id }
      const reply = await service.expect('createWebhook', 422, { token: stranger.token, body })
      t.match(reply.body, { code: 'unknown_reference' })
      t.strictSame(pointersOf(reply.body), ['/project_id'])
    }
  })

  t.test('422 for private addresses in any notation', async (t) => {
    for (const host of ['127.0.0.1', 'localhost', '0x7f.1', '[::1]', '169.254.169.254', '10.2.0.1']) {
      const body = { url: `http://${host}/`, event_types: ['*'] }
      const reply = await service.expect('createWebhook', 422, { token: ada.token, body })
      t.match(reply.body, { code: 'url_not_allowed' }, host)
      t.strictSame(pointersOf(reply.body), ['/url'])
    }
  })
})

t.test('listWebhooks', async (t) => {
  const [owner, other] = [await service.register('lister'), await service.register('lists-too')]
  const project = await createProject(owner)
  const own = await createWebhook(owner)
  const shared = await createWebhook(owner, { project_id: project.id })
  await setMember(owner, project, other, 'manager')
  const othersWebhook = await createWebhook(other)

  t.test('200: own webhooks, and those of projects that the caller manages', async (t) => {
    t.strictSame(await listWebhooks(owner), [shared.id, own.id])
    t.strictSame(await listWebhooks(other), [othersWebhook.id, shared.id])
    await setMember(owner, project, other, 'editor')
    t.strictSame(await listWebhooks(other), [othersWebhook.id])
    t.strictSame(await listWebhooks(stranger), [])
  })

  t.test('200: filtered by project, and all webhooks for administrators', async (t) => {
    t.strictSame(await listWebhooks(owner, { project_id: project.id }), [shared.id])
    t.strictSame(await listWebhooks(owner, { project_id: 'none' }), [own.id])
    t.strictSame(await listWebhooks(owner, { project_id: [project.id, 'none'] }), [shared.id, own.id])
    t.strictSame(await listWebhooks(admin, { project_id: project.id }), [])
    t.strictSame(await listWebhooks(admin, { project_id: project.id, all: 'true' }), [shared.id])
  })

  t.test('200: without secrets', async (t) => {
    const { body } = await service.expect('listWebhooks', 200, { token: owner.token })
    t.strictSame(body.items, [withoutSecret(shared), withoutSecret(own)])
  })
})

const expectNotFound = async (t: Test, { token }: Account, webhook: Pick<Webhook, 'id'>): Promise<void> => {
  const params = pathOf(webhook)
  for (const [operation, request] of [
    ['getWebhook', {}],
    ['updateWebhook', { body: { is_enabled: false } }],
    ['deleteWebhook', {}],
    ['rotateWebhookSecret', {}],
  ] as const) {
    const { body } = await service.expect(operation, 404, { token, params, ...request })
    const unknown = { webhook_id: unknownId }
    const missing = await service.expect(operation, 404, { token, params: unknown, ...request })
    t.strictSame(withoutRequest(body), withoutRequest(missing.body), operation)
  }
}

t.test('getWebhook', async (t) => {
  t.test('404 for the owner of a webhook who no longer manages its project', async (t) => {
    const project_id = await newProject()
    const webhook = await createWebhook(manager, { project_id })
    await expectNotFound(t, editor, webhook)
    await setMember(ada, { id: project_id }, manager, 'editor')
    await expectNotFound(t, manager, webhook)
    for (const { token } of [ada, admin])
      await service.expect('getWebhook', 200, { token, params: pathOf(webhook) })
  })

  t.test('404 while its project is in the trash', async () => {
    const project_id = await newProject()
    const webhook = await createWebhook(ada, { project_id })
    const read = { token: ada.token, params: pathOf(webhook) }
    await service.expect('deleteProject', 204, { token: ada.token, params: { project_id } })
    await service.expect('getWebhook', 404, read)
    await service.expect('getWebhook', 404, { ...read, token: admin.token })
    await service.expect('restoreProject', 200, { token: ada.token, params: { project_id } })
    await service.expect('getWebhook', 200, read)
  })
})

t.test('updateWebhook', async (t) => {
  const { token } = ada
  const webhook = await createWebhook(ada)
  const params = pathOf(webhook)
  const update = async (body: object) =>
    (await service.expect('updateWebhook', 200, { token, params, body })).body

  t.test('200: changes the given fields, and keeps the secret', async (t) => {
    const before = await storedSecrets(webhook)
    t.match(await update({ event_types: ['member.*'] }), { event_types: ['member.*'], url, version: 2 })
    t.match(await update({ url: 'https://example.com', description: 'New' }), {
      url: 'https://example.com/',
      description: 'New',
      event_types: ['member.*'],
      version: 3,
    })
    t.match(await update({}), { version: 3 })
    t.match(await update({ is_enabled: false }), { is_enabled: false, version: 4 })
    t.match(await update({ is_enabled: false }), { version: 4 })
    t.strictSame(await storedSecrets(webhook), before)
  })

  t.test('200: enabling clears disabled_reason and failing_since', async (t) => {
    await db.run(
      `update webhooks set is_enabled = false, disabled_reason = 'failing', failing_since = now() where id = $1`,
      [webhook.id],
    )
    const described = await update({ description: 'Still disabled' })
    t.match(described, { is_enabled: false, disabled_reason: 'failing', failing_since: /Z$/ })
    t.match(await update({ is_enabled: true }), { disabled_reason: null, failing_since: null })
    await db.run('update webhooks set failing_since = now() where id = $1', [webhook.id])
    t.match(
      await update({ is_enabled: true }),
      { failing_since: /Z$/ },
      'an enabled webhook keeps failing_since',
    )
  })

  t.test('422 for a URL with credentials, and for a private address', async (t) => {
    const invalid = await service.expect('updateWebhook', 422, {
      token,
      params,
      body: { url: 'http://u@h/' },
    })
    t.strictSame(pointersOf(invalid.body), ['/url'])
    const { body } = await service.expect('updateWebhook', 422, {
      token,
      params,
      body: { url: 'http://[::1]/' },
    })
    t.match(body, { code: 'url_not_allowed' })
  })
})

t.test('deleteWebhook', async (t) => {
  t.test('204: the webhook is gone at once, and a job deletes its rows', async (t) => {
    const webhook = await createWebhook(ada)
    await db.run(
      `insert into webhook_deliveries (id, webhook_id, sequence, event_id, event_type, status)
      select gen_random_uuid(), $1, n, gen_random_uuid(), 'task.created', 'delivered' from generate_series(1, 250) n`,
      [webhook.id],
    )
    const request = { token: ada.token, params: pathOf(webhook) }
    await service.expect('deleteWebhook', 204, request)
    await expectNotFound(t, ada, webhook)
    t.notOk((await listWebhooks(ada)).includes(webhook.id))
    t.notOk((await listWebhooks(admin, { all: 'true' })).includes(webhook.id))
    await runJobs(jobDepsOf(service))
    const [remaining] = await db.run(
      `select (select count(*)::int from webhooks where id = $1) as webhooks,
        (select count(*)::int from webhook_deliveries where webhook_id = $1) as deliveries`,
      [webhook.id],
    )
    t.same(remaining, { webhooks: 0, deliveries: 0 })
  })

  t.test('204: webhooks are deleted with their owner or project', async (t) => {
    const leaver = await service.register('leaver')
    const [own, project] = [await createWebhook(leaver), await createProject(leaver)]
    const shared = await createWebhook(leaver, { project_id: project.id })
    const params = { project_id: project.id }
    await service.expect('deleteProject', 204, { token: leaver.token, params })
    await service.expect('deleteTrashedProject', 204, { token: leaver.token, params })
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id: leaver.id } })
    await service.expect('getWebhook', 404, { token: admin.token, params: pathOf(own) })
    await runJobs(jobDepsOf(service))
    const [row] = await db.run('select count(*)::int as n from webhooks where id in ($1, $2)', [
      own.id,
      shared.id,
    ])
    t.equal(row?.n, 0)
  })
})

t.test('rotateWebhookSecret', async (t) => {
  const { token } = ada

  t.test('200: a new secret; the previous one stays valid for a day', async (t) => {
    const webhook = await createWebhook(ada)
    const { body, headers } = await service.expect('rotateWebhookSecret', 200, {
      token,
      params: pathOf(webhook),
    })
    t.not(body.secret, webhook.secret)
    t.equal(body.version, 2)
    t.equal(headers.get('etag'), '"2.2"')
    t.equal(headers.get('cache-control'), 'no-store')
    const remaining = Date.parse(body.previous_secret_until ?? '') - Date.now()
    t.ok(Math.abs(remaining - 86_400_000) < 60_000)
    t.strictSame(await storedSecrets(webhook), [body.secret, webhook.secret])
    await runJobs(jobDepsOf(service))
    t.strictSame(await storedSecrets(webhook), [body.secret, webhook.secret])
    await db.run(`update webhooks set previous_secret_until = now() - interval '1 s' where id = $1`, [
      webhook.id,
    ])
    await runJobs(jobDepsOf(service))
    t.strictSame(await storedSecrets(webhook), [body.secret, null])
    const read = await service.expect('getWebhook', 200, { token, params: pathOf(webhook) })
    t.equal(read.body.previous_secret_until, null)
  })
})

const sendTest = async ({ id }: Pick<Webhook, 'id'>) =>
  (await service.expect('testWebhook', 201, { token: ada.token, params: { webhook_id: id } })).body

const countDeliveries = async (webhook: Pick<Webhook, 'id'>): Promise<number> => {
  const request = { token: ada.token, params: pathOf(webhook) }
  return (await service.expect('listWebhookDeliveries', 200, request)).body.items.length
}

t.test('testWebhook, redeliverWebhook', async (t) => {
  const { token } = ada

  t.test('409 for a disabled webhook', async (t) => {
    const webhook = await createWebhook(ada, { url: deadUrl })
    const params = { ...pathOf(webhook), delivery_id: (await sendTest(webhook)).id }
    const disable = { token, params: pathOf(webhook), body: { is_enabled: false } }
    await service.expect('updateWebhook', 200, disable)
    const tested = await service.expect('testWebhook', 409, { token, params: pathOf(webhook) })
    t.match(tested.body, { code: 'webhook_disabled' })
    const { body } = await service.expect('redeliverWebhook', 409, { token, params })
    t.equal(body.code, 'webhook_disabled')
    t.equal(await countDeliveries(webhook), 1)
  })
})

t.test('a job encrypts secrets again after the key of the service has changed', async (t) => {
  const webhook = await createWebhook(ada)
  const { body } = await service.expect('rotateWebhookSecret', 200, {
    token: ada.token,
    params: pathOf(webhook),
  })
  const [active] = service.deps.secrets
  const newKeys = deriveKeys([Buffer.from('a newer secret of the tests, as long'), active], 'webhook')
  await runJobs({ ...jobDepsOf(service), webhookKeys: newKeys })
  const [row] = await db.run('select secret, previous_secret from webhooks where id = $1', [webhook.id])
  for (const [sealed, secret] of [
    [row?.secret, body.secret],
    [row?.previous_secret, webhook.secret],
  ]) {
    const opened = Buffer.isBuffer(sealed) ? open(newKeys, sealed, webhook.id) : null
    t.equal(opened?.isActive, true)
    t.equal(`whsec_${opened?.plaintext.toString('base64')}`, secret)
  }
})
