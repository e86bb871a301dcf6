import { parse as parseDisposition } from 'content-disposition'
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { accountActions } from '../fixture/accounts.ts'
import { blackPng } from '../fixture/images.ts'
import { type Account, type Call, fileForm, type Service, startService } from '../fixture/service.ts'
import { openTestStorage } from '../fixture/storage.ts'

type Schemas = components['schemas']

/** Links to attachments: who can create them, what they give access to, and what revokes them. */

const { storage, keys } = await openTestStorage(t)
const lines: string[] = []
const service = await startService(t, {
  storage,
  config: { logLevel: 'trace', publicUrl: 'https://tasks.example.com/base' },
  logStream: { write: (line) => void lines.push(line) },
})
const admin = await service.register('admin')
const { setRole } = accountActions(service, admin)

let count = 0
const register = (): Promise<Account> => service.register(`user${(count += 1)}`)

const png = blackPng({ width: 8, height: 8 })
const image = () => fileForm(png, 'naïve file.png', 'image/png')

interface Attached {
  readonly task: Schemas['Task']
  readonly attachment: Schemas['Attachment']
}

const attach = async ({ token }: Account, form = image(), fields: object = {}): Promise<Attached> => {
  const { body: task } = await service.expect('createTask', 201, {
    token,
    body: { title: 'A task', ...fields },
  })
  const request = { token, params: { task_id: task.id }, body: form }
  return { task, attachment: (await service.expect('addTaskAttachment', 201, request)).body }
}

/** The parts of the URL of a link. */
interface Link {
  readonly attachmentId: string
  readonly token: string
}

const linkIn = ({ url }: Schemas['AttachmentLink']): Link => {
  const { pathname, searchParams } = new URL(url, service.url)
  return {
    attachmentId: /\/attachments\/([^/]+)\/content$/.exec(pathname)?.[1] ?? '',
    token: searchParams.get('token') ?? '',
  }
}

const create = async (token: string, { attachment }: Attached, body: object = {}) =>
  (await service.expect('createAttachmentLink', 201, { token, params: { attach_id: attachment.id }, body }))
    .body

const linkTo = async ({ token }: Account, attached: Attached, body: object = {}): Promise<Link> =>
  linkIn(await create(token, attached, body))

const requestOf = ({ attachmentId, token }: Link, more: Call = {}): Call => ({
  params: { attach_id: attachmentId },
  query: { token },
  ...more,
})

const open = (link: Link, more: Call = {}, on: Pick<Service, 'call'> = service) =>
  on.call('downloadLinkedAttachment', requestOf(link, more))

/** Checks that a link gives 404, with the same problem as a link that never existed. */
const checkInvalid = async (t: Test, link: Link, message: string): Promise<void> => {
  const { status, body } = await open(link)
  const unknown = await open({ ...link, token: 'AAAA' })
  t.equal(status, 404, message)
  t.strictSame(withoutId(body), withoutId(unknown.body), 'the same problem as for an unknown link')
}

const withoutId = (body: unknown) => ({ ...(body as Schemas['Problem']), request_id: '' })

/** Moves the clock of the service and of the test forward. */
const passTime = (t: Test, seconds: number): void => {
  for (const clock of [Date, performance]) {
    const now = clock.now.bind(clock)
    t.intercept(clock, 'now', { value: () => now() + seconds * 1_000 })
  }
}

t.test('createAttachmentLink', async (t) => {
  const owner = await register()
  const { token } = owner
  const attached = await attach(owner)
  const params = { attach_id: attached.attachment.id }

  t.test('201: a URL below PUBLIC_URL that expires after five minutes', async (t) => {
    const { headers, body } = await service.expect('createAttachmentLink', 201, { token, params })
    t.ok(body.url.startsWith(`https://tasks.example.com/base/attachments/${params.attach_id}/content?token=`))
    t.ok(body.url.length < 200, 'short enough for a line of an email')
    t.equal(headers.get('location'), body.url)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(body.disposition, 'attachment')
    const left = Date.parse(body.expires_at) - Date.now()
    t.ok(left > 290_000 && left <= 300_000, `${left} ms left`)
  })

  t.test('201: the requested disposition and lifetime', async (t) => {
    const body = await create(token, attached, { disposition: 'inline', expires_in: 3_600 })
    t.equal(body.disposition, 'inline')
    const left = Date.parse(body.expires_at) - Date.now()
    t.ok(left > 3_590_000 && left <= 3_600_000, `${left} ms left`)
  })

  t.test('201: an empty body or object selects the defaults', async (t) => {
    const headers = { 'content-type': 'application/json' }
    for (const body of ['', '{}']) {
      const created = await service.expect('createAttachmentLink', 201, { token, params, headers, body })
      t.equal(created.body.disposition, 'attachment')
    }
  })

  t.test('201: an assignee, an administrator, and an API token with attachments:read', async (t) => {
    const assignee = await register()
    const shared = await attach(owner, image(), { assignee_id: assignee.id })
    t.equal((await open(await linkTo(assignee, shared))).status, 200)
    t.equal((await open(await linkTo(admin, shared))).status, 200)
    const request = { token, body: { name: 'program', scopes: ['attachments:read'] } }
    const { body: program } = await service.expect('createApiToken', 201, request)
    t.equal((await open(linkIn(await create(program.token, shared)))).status, 200)
  })
})

t.test('downloadLinkedAttachment', async (t) => {
  const owner = await register()
  const attached = await attach(owner)
  const { sha256 } = attached.attachment
  const link = await linkTo(owner, attached, { disposition: 'inline' })

  t.test('200: the file, with caching and security headers', async (t) => {
    const { status, headers, body } = await open(link)
    t.equal(status, 200)
    t.ok(png.equals(body as Uint8Array))
    t.equal(headers.get('content-type'), 'image/png')
    t.equal(headers.get('content-length'), String(png.length))
    t.equal(headers.get('etag'), `"${sha256}"`)
    t.equal(headers.get('repr-digest'), `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`)
    t.equal(headers.get('accept-ranges'), 'bytes')
    t.ok(headers.get('last-modified'))
    t.equal(headers.get('cache-control'), 'private, max-age=60')
    t.equal(headers.get('referrer-policy'), 'no-referrer')
    t.equal(headers.get('x-content-type-options'), 'nosniff')
    const policy = headers.get('content-security-policy')
    t.match(policy, /^sandbox allow-same-origin; default-src 'none';/)
    t.notMatch(policy, 'script')
    t.equal(
      headers.get('cross-origin-resource-policy'),
      'cross-origin',
      'pages of other origins can embed it',
    )
    const disposition = parseDisposition(headers.get('content-disposition') ?? '')
    t.strictSame([disposition.type, disposition.parameters.filename], ['inline', 'naïve file.png'])
  })

  t.test('200: the Authorization header and the case of the id are ignored', async (t) => {
    t.equal((await open(link, { token: 'x' })).status, 200)
    t.equal((await open({ ...link, attachmentId: link.attachmentId.toUpperCase() })).status, 200)
  })

  t.test('200: files that a browser could execute are always downloads', async (t) => {
    const html = '<!doctype html><script>alert(1)</script>'
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
    for (const [content, type] of [
      [html, 'text/html'],
      [html, 'image/png'],
      [svg, 'image/svg+xml'],
      [svg, 'image/png'],
      [png, 'image/svg+xml'],
    ] as const) {
      const file = await attach(owner, fileForm(content, 'x', type))
      const created = await create(owner.token, file, { disposition: 'inline' })
      t.equal(created.disposition, 'attachment', `link to ${type}`)
      const { headers } = await open(linkIn(created))
      t.match(headers.get('content-disposition'), /^attachment/)
      t.match(headers.get('content-security-policy'), /^sandbox;/)
      t.equal(headers.get('x-content-type-options'), 'nosniff')
    }
  })

  t.test('206, 416: ranges', async (t) => {
    const part = await open(link, { headers: { range: 'bytes=1-3', 'if-range': `"${sha256}"` } })
    t.equal(part.status, 206)
    t.equal(part.headers.get('content-range'), `bytes 1-3/${png.length}`)
    t.equal(part.headers.get('cross-origin-resource-policy'), 'cross-origin')
    t.equal(Buffer.from(part.body as Uint8Array).toString(), 'PNG')
    t.equal((await open(link, { headers: { range: 'bytes=1-3', 'if-range': '"other"' } })).status, 200)
    t.equal((await open(link, { headers: { range: 'bytes=99999-' } })).status, 416)
  })

  t.test('304, 412: conditional requests', async (t) => {
    const current = await open(link, { headers: { 'if-none-match': `"${sha256}"` } })
    t.equal(current.status, 304)
    t.equal(current.headers.get('cache-control'), 'private, max-age=60')
    t.equal((await open(link, { headers: { 'if-match': '"other"' } })).status, 412)
  })

  t.test('400: a missing or repeated token, a malformed id or header', async (t) => {
    for (const query of ['', 'token=', `token=${link.token}&token=${link.token}`, `token=${'A'.repeat(129)}`])
      t.match(await open(link, { query }), { status: 400, body: { errors: [{ pointer: '/token' }] } }, query)
    const malformed = await open({ ...link, attachmentId: 'x' })
    t.match(malformed, { status: 400, body: { errors: [{ pointer: '/attach_id' }] } })
    const headers = { 'if-none-match': 'no quotes' }
    t.match(await open(link, { headers }), {
      status: 400,
      body: { errors: [{ pointer: '/If-None-Match' }] },
    })
  })

  t.test('200: unknown parameters, which programs append', async (t) => {
    t.equal((await open(link, { query: { token: link.token, utm_source: 'chat' } })).status, 200)
  })

  t.test('404: a token with any character changed, or of another length', async (t) => {
    const { token } = link
    for (let at = 0; at < token.length; at += 1) {
      const other = token[at] === 'A' ? 'B' : 'A'
      await checkInvalid(
        t,
        { ...link, token: token.slice(0, at) + other + token.slice(at + 1) },
        `character ${at}`,
      )
    }
    for (const changed of [token.slice(0, -1), token.slice(1), `${token}AAAA`, '%'])
      await checkInvalid(t, { ...link, token: changed }, changed)
  })

  t.test('404: the token of another attachment', async (t) => {
    const other = await attach(owner)
    await checkInvalid(t, { ...link, attachmentId: other.attachment.id }, 'of another attachment')
  })

  t.test('401, 404: access tokens and link tokens are not interchangeable', async (t) => {
    await checkInvalid(t, { ...link, token: owner.token.slice(0, link.token.length) }, 'an access token')
    t.equal((await service.call('getCurrentUser', { token: link.token })).status, 401)
  })

  t.test('410: an expired link; 404 with the id of another attachment', async (t) => {
    const brief = await linkTo(owner, attached, { expires_in: 1 })
    passTime(t, 2)
    const { status, body } = await open(brief)
    t.equal(status, 410)
    t.match(body, { code: 'link_expired' })
    t.notMatch(JSON.stringify(body), brief.token)
    t.equal((await open(link)).status, 200, 'other links still work')
    await checkInvalid(t, { ...brief, attachmentId: randomUUID() }, 'of another attachment')
  })

  t.test('404: created long before the clock was set back', async (t) => {
    const request = { token: owner.token, body: { name: 'program', scopes: ['attachments:read'] } }
    const { body: program } = await service.expect('createApiToken', 201, request)
    let ahead = link
    await t.test('while the clock is a day ahead', async (t) => {
      passTime(t, 86_400)
      // Not opened: a client of S3 would follow the clock of the server, a day behind, for good.
      ahead = linkIn(await create(program.token, attached))
    })
    await checkInvalid(t, ahead, 'of tomorrow')
  })

  t.test('410: the file is missing from the storage', async (t) => {
    const before = new Set(await keys())
    const lost = await linkTo(owner, await attach(owner))
    for (const key of await keys()) if (!before.has(key)) await storage.remove(key)
    t.match(await open(lost), { status: 410, body: { code: 'file_lost' } })
  })
})

t.test('links are revoked', async (t) => {
  const newSession = async ({ email, password }: Account) =>
    (await service.expect('login', 200, { body: { email, password } })).body.access_token

  t.test('with the session that created them, and no other', async (t) => {
    const owner = await register()
    const attached = await attach(owner)
    const session = await newSession(owner)
    const link = linkIn(await create(session, attached))
    const other = await linkTo(owner, attached)
    t.equal((await open(link)).status, 200)
    await service.expect('logout', 204, { token: session })
    await checkInvalid(t, link, 'signed out')
    t.equal((await open(other)).status, 200)
  })

  t.test('when the password of their creator changes', async (t) => {
    const owner = await register()
    const attached = await attach(owner)
    const link = linkIn(await create(await newSession(owner), attached))
    const body = { current_password: owner.password, new_password: 'another password' }
    await service.expect('changePassword', 204, { token: owner.token, body })
    await checkInvalid(t, link, 'the password was changed')
  })

  t.test('with the API token that created them', async (t) => {
    const owner = await register()
    const attached = await attach(owner)
    const body = { name: 'program', scopes: ['attachments:read'] }
    const { body: program } = await service.expect('createApiToken', 201, { token: owner.token, body })
    const link = linkIn(await create(program.token, attached))
    t.equal((await open(link)).status, 200)
    await service.expect('revokeApiToken', 204, { token: owner.token, params: { token_id: program.id } })
    await checkInvalid(t, link, 'revoked')
  })

  t.test('when their creator loses access to the task', async (t) => {
    const owner = await register()
    const assignee = await register()
    const attached = await attach(owner, image(), { assignee_id: assignee.id })
    const link = await linkTo(assignee, attached)
    const ownerLink = await linkTo(owner, attached)
    const params = { task_id: attached.task.id }
    await service.expect('updateTask', 200, { token: owner.token, params, body: { assignee_id: null } })
    await checkInvalid(t, link, 'unassigned')
    t.equal((await open(ownerLink)).status, 200)
  })

  t.test('when their creator is demoted', async (t) => {
    const second = await register()
    await setRole(second, 'admin')
    const link = await linkTo(second, await attach(await register()))
    t.equal((await open(link)).status, 200)
    await setRole(second, 'member')
    await checkInvalid(t, link, 'demoted')
  })

  t.test('with the account of their creator', async (t) => {
    const owner = await register()
    const assignee = await register()
    const link = await linkTo(assignee, await attach(owner, image(), { assignee_id: assignee.id }))
    await service.expect('deleteUser', 204, { token: assignee.token, params: { user_id: assignee.id } })
    await checkInvalid(t, link, 'deleted')
  })

  t.test('with the attachment, and while its task is in the trash', async (t) => {
    const owner = await register()
    const { token } = owner
    const attached = await attach(owner)
    const link = await linkTo(owner, attached)
    const params = { task_id: attached.task.id }
    await service.expect('deleteTask', 204, { token, params })
    await checkInvalid(t, link, 'in the trash')
    await service.expect('restoreTask', 200, { token, params })
    t.equal((await open(link)).status, 200, 'restored')
    await service.expect('deleteAttachment', 204, { token, params: { attach_id: link.attachmentId } })
    await checkInvalid(t, link, 'deleted')
  })
})

t.test('links survive a rotation of secrets, until the old secret is removed', async (t) => {
  const owner = await register()
  const link = await linkTo(owner, await attach(owner))
  const [earlier] = service.deps.secrets
  const active = Buffer.from('the secret that comes in its place')
  const rotated = await startService(t, { db: service.deps.db, storage, secrets: [active, earlier] })
  const replaced = await startService(t, { db: service.deps.db, storage, secrets: [active] })
  t.equal((await open(link, {}, rotated)).status, 200, 'with the old secret still configured')
  t.equal((await open(link, {}, replaced)).status, 404, 'without the old secret')
})

t.test('an administrator’s link to a file of somebody else is audited on download', async (t) => {
  const owner = await register()
  const attached = await attach(owner)
  const events = async () => {
    const query = { user_id: owner.id, action: 'attachment.read_by_admin' }
    return (await service.expect('listAuditEvents', 200, { token: admin.token, query })).body.items
  }
  const link = await linkTo(admin, attached)
  t.strictSame(await events(), [])
  await open(link)
  const [event, ...more] = await events()
  t.equal(event?.actor_id, admin.id)
  t.ok(event?.session_id, 'with the session that created the link')
  t.strictSame(more, [])
})

t.test('429: downloads by link count towards a limit of the creator', async (t) => {
  const limited = await startService(t, {
    db: service.deps.db,
    storage,
    config: { rateLimit: 'on', rateLimitApi: 3, rateLimitAnonymous: 2, trustProxy: ['127.0.0.1'] },
  })
  const owner = await register()
  const attached = await attach(owner)
  const links = [await linkTo(owner, attached), await linkTo(owner, attached)]
  const from = (host: number) => ({ headers: { 'x-forwarded-for': `192.0.2.${host}` } })
  const statuses = []
  for (const [host, link] of [...links, ...links].entries()) {
    const { status, headers } = await open(link, from(host), limited)
    t.match(headers.get('ratelimit-policy'), '"link";q=3;w=60')
    statuses.push(status)
  }
  t.strictSame(statuses, [200, 200, 200, 429], 'for all links and addresses')
  await limited.expect('getCurrentUser', 200, { token: owner.token })
  const guesses = []
  for (const token of ['AAAA', 'BBBB', 'CCCC'])
    guesses.push((await open({ attachmentId: attached.attachment.id, token }, from(9), limited)).status)
  t.strictSame(guesses, [404, 404, 429], 'wrong tokens count towards the limit of the address')
})

t.test('without PUBLIC_URL, the URL is a path', async (t) => {
  const local = await startService(t, { db: service.deps.db, storage })
  const owner = await register()
  const { attachment } = await attach(owner)
  const request = { token: owner.token, params: { attach_id: attachment.id } }
  const { body } = await local.expect('createAttachmentLink', 201, request)
  t.ok(body.url.startsWith('/attachments/'))
  const response = await fetch(new URL(body.url, local.url))
  t.equal(response.status, 200)
  await response.arrayBuffer()
})

t.test('neither the log nor a problem contains the token of a link', async (t) => {
  const owner = await register()
  const link = await linkTo(owner, await attach(owner))
  lines.length = 0
  t.equal((await open(link)).status, 200)
  const guess = `${link.token.slice(0, -4)}AAAA`
  const refused = await open({ ...link, token: guess })
  t.notMatch(JSON.stringify(refused.body), guess.slice(0, 40))
  t.equal((await open(link, { query: `token=${link.token}&token=${link.token}` })).status, 400)
  const log = lines.join('')
  t.match(log, '"operation_id":"downloadLinkedAttachment"')
  t.match(log, `"principal_id":"${owner.id}","credential":"link"`)
  t.notMatch(log, link.token.slice(0, 40))
})
