import { createHash } from 'node:crypto'
import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { removeRevokedFeeds } from '../../src/db/interchange/feeds.ts'
import { feedLimits } from '../../src/services/interchange/feed-calendars.ts'
import { accountActions } from '../fixture/accounts.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Call, type Reply, type Service, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, taskActions, unknownId } from '../fixture/tasks.ts'

/** Calendar feeds: who has them, what their URLs show, and what ends them. `test/interchange/calendar.ts` tests the file itself. */

type Schemas = components['schemas']

const lines: string[] = []
const service = await startService(t, {
  config: { logLevel: 'trace', publicUrl: 'https://tasks.example.com/base' },
  logStream: { write: (line) => void lines.push(line) },
})
const { db } = service.deps
const admin = await service.register('admin')
const { auditOf, createApiToken } = accountActions(service, admin)
const { createTag, createTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)

let count = 0
const register = (): Promise<Account> => service.register(`user${(count += 1)}`)

const create = async ({ token }: Account, fields: object = {}): Promise<Schemas['FeedWithUrl']> =>
  (await service.expect('createFeed', 201, { token, body: { name: 'A feed', kind: 'todo', ...fields } })).body

const tokenIn = ({ calendar_url: url }: Pick<Schemas['FeedWithUrl'], 'calendar_url'>): string =>
  new URL(url, service.url).searchParams.get('token') ?? ''

type Feed = Pick<Schemas['FeedWithUrl'], 'id' | 'calendar_url'>

const open = (feed: Feed, more: Call = {}, on: Pick<Service, 'call'> = service): Promise<Reply> =>
  on.call('getFeedCalendar', { params: { feed_id: feed.id }, query: { token: tokenIn(feed) }, ...more })

const textOf = ({ body }: Reply): string => String(body)

/** The values of a property of the file, in their order. */
const valuesOf = (text: string, property: string): string[] =>
  text
    .replaceAll('\r\n ', '')
    .split('\r\n')
    .flatMap((line) => (new RegExp(`^${property}[;:]`).test(line) ? [line.slice(line.indexOf(':') + 1)] : []))

/** The titles in the file of a new feed like this one. */
const titlesIn = async (
  owner: Account,
  { filter, kind }: Pick<Schemas['FeedWithUrl'], 'filter' | 'kind'>,
): Promise<string[]> => {
  const reply = await open(await create(owner, { filter, kind }))
  t.equal(reply.status, 200)
  return valuesOf(textOf(reply), 'SUMMARY')
}

const day = 86_400_000
const dayAfter = (days: number): string => new Date(Date.now() + days * day).toISOString()

const ageSessions = ({ id }: Account) =>
  db.run(
    `update sessions set authenticated_at = authenticated_at - interval '16 minutes' where user_id = $1`,
    [id],
  )

t.test('createFeed', async (t) => {
  t.test('201: shows the URL, of which only the hash is stored', async (t) => {
    const owner = await register()
    const body = { name: ' Deadlines ', kind: 'event', filter: 'due:*', color: '#FFAA00', alarms: true }
    const request = { token: owner.token, body, headers: { 'idempotency-key': 'a-key' } }
    const { body: feed, headers } = await service.expect('createFeed', 201, request)
    const { id, calendar_url: url, created_at, updated_at, ...fields } = feed
    t.strictSame(fields, { ...body, name: 'Deadlines', color: '#ffaa00', version: 1, revision: 1 })
    t.equal(created_at, updated_at)
    t.match(
      url,
      /^https:\/\/tasks\.example\.com\/base\/feeds\/[0-9a-f-]{36}\/calendar\.ics\?token=twf_[\w-]{43}$/,
    )
    t.equal(headers.get('location'), `https://tasks.example.com/base/feeds/${id}`)
    const { calendar_url: _, ...shown } = feed
    const { body: read } = await service.expect('getFeed', 200, {
      token: owner.token,
      params: { feed_id: id },
    })
    t.strictSame(read, shown)
    const [row] = await db.run(
      `select encode(hash, 'hex') as hash, feeds::text as all from feeds where id = $1`,
      [id],
    )
    t.equal(row?.hash, createHash('sha256').update(tokenIn(feed)).digest('hex'))
    t.notMatch(String(row?.all), tokenIn(feed))
    const { body: repeated } = await service.expect('createFeed', 201, request)
    t.strictSame(repeated, feed, 'a repeat shows the same URL')
    const stored = await db.run('select body from idempotency_keys', [])
    t.notMatch(JSON.stringify(stored), tokenIn(feed))
  })

  t.test('400: an invalid filter or color', async (t) => {
    const { token } = await register()
    for (const [fields, pointer] of [
      [{ filter: 'titel = x' }, '/filter'],
      [{ filter: 'a) OR (b' }, '/filter'],
      [{ color: 'red' }, '/color'],
      [{ kind: 'journal' }, '/kind'],
      [{ name: ' ' }, '/name'],
    ] as const) {
      const request = { token, body: { name: 'A feed', kind: 'todo', ...fields } }
      t.strictSame(pointersOf((await service.expect('createFeed', 400, request)).body), [pointer])
    }
  })

  t.test('403: without recent authentication in a session', async (t) => {
    const owner = await register()
    const { token: program } = await createApiToken(owner, { scopes: ['feeds:write'] })
    const feed = await create(owner)
    await ageSessions(owner)
    const body = { name: 'A feed', kind: 'todo' }
    const rotation = { params: { feed_id: feed.id } }
    for (const request of [
      () => service.call('createFeed', { token: owner.token, body }),
      () => service.call('rotateFeedToken', { token: owner.token, ...rotation }),
    ])
      t.match(await request(), { status: 403, body: { code: 'reauthentication_required' } })
    await service.expect('createFeed', 201, { token: program, body })
    await service.expect('rotateFeedToken', 200, { token: program, ...rotation })
    await service.expect('reauthenticate', 204, { token: owner.token, body: { password: owner.password } })
    await service.expect('createFeed', 201, { token: owner.token, body })
  })

  t.test('413: more than 50 feeds, without revoked ones', async (t) => {
    const owner = await register()
    const { token } = owner
    const { id } = await create(owner)
    await db.run(
      `insert into feeds (id, owner_id, name, filter, kind, alarms, hash)
       select gen_random_uuid(), $1, 'Other', '', 'todo', false, '' from generate_series(1, 49)`,
      [owner.id],
    )
    const { body } = await service.expect('createFeed', 413, { token, body: { name: 'More', kind: 'todo' } })
    t.match(body, { code: 'quota_exceeded', resource: 'feeds', quota: 50, used: 50, size: 1 })
    const usage = { token, params: { user_id: owner.id } }
    t.match((await service.expect('getUserUsage', 200, usage)).body, { feeds: { used: 50, quota: 50 } })
    await service.expect('deleteFeed', 204, { token, params: { feed_id: id } })
    const creation = { token, body: { name: 'A feed', kind: 'todo' } }
    const replies = await Promise.all([1, 2, 3].map(() => service.call('createFeed', creation)))
    t.strictSame(countStatuses(replies), { 201: 1, 413: 2 }, 'concurrent creations count each other')
  })
})

t.test('listFeeds: 200: the own feeds that are not revoked, newest first', async (t) => {
  const [owner, other] = [await register(), await register()]
  const [first, second, third] = [await create(owner), await create(owner), await create(owner)]
  await create(other)
  await service.expect('deleteFeed', 204, { token: owner.token, params: { feed_id: second.id } })
  const { body } = await service.expect('listFeeds', 200, { token: owner.token })
  t.strictSame(
    body.items.map(({ id }) => id),
    [third.id, first.id],
  )
  t.notMatch(JSON.stringify(body), 'calendar_url')
  t.strictSame((await service.expect('listFeeds', 200, { token: admin.token })).body.items, [])
})

t.test(
  'getFeed, updateFeed, deleteFeed and rotateFeedToken: 404 for others, also administrators',
  async (t) => {
    const owner = await register()
    const { id: feed_id } = await create(owner)
    for (const { token } of [await register(), admin])
      for (const id of ['getFeed', 'updateFeed', 'deleteFeed', 'rotateFeedToken'] as const)
        t.match(await service.call(id, { token, params: { feed_id }, body: {} }), { status: 404 })
    const { body, headers } = await service.expect('getFeed', 200, {
      token: owner.token,
      params: { feed_id },
    })
    t.equal(headers.get('etag'), '"1"')
    t.equal(body.version, 1)
  },
)

t.test('updateFeed', async (t) => {
  t.test('200: changes the name, the color and the alarms, in one version', async (t) => {
    const owner = await register()
    const { id: feed_id } = await create(owner, { color: '#ff0000' })
    const request = { token: owner.token, params: { feed_id } }
    const body = { name: 'Other', color: null, alarms: true }
    t.match((await service.expect('updateFeed', 200, { ...request, body })).body, { ...body, version: 2 })
    t.match((await service.expect('updateFeed', 200, { ...request, body })).body, { version: 2 })
    const outdated = { ...request, body: { name: 'Third' }, headers: { 'if-match': '"1"' } }
    t.match(await service.call('updateFeed', outdated), { status: 412 })
  })
})

t.test('rotateFeedToken: 200: only the new URL works', async (t) => {
  const owner = await register()
  const feed = await create(owner)
  const request = { token: owner.token, params: { feed_id: feed.id } }
  t.match(await service.call('rotateFeedToken', { ...request, headers: { 'if-match': '"2"' } }), {
    status: 412,
  })
  const { body: rotated } = await service.expect('rotateFeedToken', 200, request)
  t.match(rotated, { id: feed.id, version: 2 })
  t.match(await open(feed), { status: 404 })
  t.match(await open(rotated), { status: 200 })
})

t.test('deleteFeed: 204: the URL returns 410 from then on, and 404 after 90 days', async (t) => {
  const owner = await register()
  const feed = await create(owner)
  const request = { token: owner.token, params: { feed_id: feed.id } }
  t.match(await open(feed), { status: 200 })
  await service.expect('deleteFeed', 204, request)
  t.match(await open(feed), { status: 410, body: { code: 'feed_revoked' } })
  const wrong = { params: { feed_id: feed.id }, query: { token: `twf_${'A'.repeat(43)}` } }
  t.match(await service.call('getFeedCalendar', wrong), { status: 404 })
  for (const id of ['getFeed', 'updateFeed', 'deleteFeed', 'rotateFeedToken'] as const)
    t.match(await service.call(id, { ...request, body: {} }), { status: 404 })
  await db.run(`update feeds set revoked_at = now() - interval '89 days' where id = $1`, [feed.id])
  await removeRevokedFeeds(db, {}, new AbortController().signal)
  t.match(await open(feed), { status: 410 })
  await db.run(`update feeds set revoked_at = now() - interval '91 days' where id = $1`, [feed.id])
  await removeRevokedFeeds(db, {}, new AbortController().signal)
  t.match(await open(feed), { status: 404 })
  const actions = (await auditOf(owner)).map(({ action }) => action)
  t.strictSame(
    actions.filter((action) => action.startsWith('feed.')),
    ['feed.created', 'feed.revoked'],
  )
})

t.test('getFeedCalendar', async (t) => {
  t.test('200, 304: the bytes have an ETag, and stay for a minute', async (t) => {
    const owner = await register()
    await createTask(owner, { title: 'Write, and read' })
    const feed = await create(owner, { name: 'Täsks', color: '#1570ef' })
    const [reply, ...same] = await Promise.all([open(feed), open(feed), open(feed)])
    t.equal(reply.status, 200)
    t.equal(reply.headers.get('content-type'), 'text/calendar; charset=utf-8')
    t.equal(reply.headers.get('cache-control'), 'private, no-cache')
    const etag = reply.headers.get('etag') ?? ''
    for (const other of same) t.equal(other.headers.get('etag'), etag)
    t.strictSame(valuesOf(textOf(reply), 'SUMMARY'), [String.raw`Write\, and read`])
    t.strictSame(valuesOf(textOf(reply), 'NAME'), ['Täsks'])
    t.match(await open(feed, { headers: { 'if-none-match': etag } }), { status: 304, body: null })
    await createTask(owner, { title: 'Later' })
    t.equal((await open(feed)).headers.get('etag'), etag, 'one build for a minute')
    t.equal((await titlesIn(owner, feed)).length, 2, 'for each feed')
    t.match(await open(feed, { method: 'HEAD' }), { status: 200, body: null })
  })

  t.test('200: a name, a color or a token is changed without a build, alarms with one', async (t) => {
    const owner = await register()
    const feed = await create(owner)
    const etag = (await open(feed)).headers.get('etag') ?? ''
    await createTask(owner)
    const request = { token: owner.token, params: { feed_id: feed.id } }
    await service.expect('updateFeed', 200, { ...request, body: { name: 'Other', color: '#ff0000' } })
    const renamed = await open(feed, { headers: { 'if-none-match': etag } })
    t.equal(renamed.status, 200, 'the ETag is another one')
    const text = textOf(renamed)
    t.strictSame(
      ['NAME', 'X-WR-CALNAME', 'COLOR', 'SUMMARY'].flatMap((property) => valuesOf(text, property)),
      ['Other', 'Other', 'red'],
    )
    const { body: rotated } = await service.expect('rotateFeedToken', 200, request)
    t.equal(textOf(await open(rotated)), text)
    await service.expect('updateFeed', 200, { ...request, body: { alarms: true } })
    t.equal(valuesOf(textOf(await open(rotated)), 'SUMMARY').length, 1)
  })

  t.test('200, 429: ten builds a minute for a user, then the last file of each feed', async (t) => {
    const building = await startService(t, { db, feedLimits: { ...feedLimits, maxAge: 0 } })
    const [owner, other] = [await register(), await register()]
    const [feed, unread] = [await create(owner), await create(owner)]
    const titles = async () => valuesOf(textOf(await open(feed, {}, building)), 'SUMMARY')
    for (let builds = 0; builds < 10; builds += 1) {
      t.equal((await titles()).length, builds)
      await createTask(owner)
    }
    t.equal((await titles()).length, 9)
    const refused = await open(unread, {}, building)
    t.match(refused, { status: 429, body: { code: 'too_many_requests' } })
    const seconds = Number(refused.headers.get('retry-after'))
    t.ok(seconds >= 1 && seconds <= 60, `Retry-After: ${seconds}`)
    t.match(await open(await create(other), {}, building), { status: 200 })
  })

  t.test('200: parameters that calendar programs append are ignored', async (t) => {
    const owner = await register()
    const feed = await create(owner)
    const query = { token: tokenIn(feed), nocache: '1', utm_source: ['a', 'b'] }
    t.match(await service.call('getFeedCalendar', { params: { feed_id: feed.id }, query }), { status: 200 })
  })

  t.test('200: what the filter and the owner see, the nearest due dates first', async (t) => {
    const [owner, colleague] = [await register(), await register()]
    const project = await createProject(colleague, 'Shared')
    await setMember(colleague, project, owner, 'viewer')
    const tag = await createTag(owner, 'home')
    const titles = async (fields: object, account = owner) => createTask(account, fields)
    await titles({ title: 'in a week', due_at: dayAfter(7), tag_ids: [tag.id] })
    await titles({ title: 'tomorrow', due_at: dayAfter(1), priority: 'high' })
    await titles({ title: 'overdue', due_on: dayAfter(-3).slice(0, 10) })
    await titles({ title: 'undated' })
    await titles({ title: 'started', start_on: dayAfter(-1).slice(0, 10) })
    await titles({ title: 'done', due_at: dayAfter(2), status: 'done' })
    const old = await titles({ title: 'done long ago', status: 'done' })
    const dropped = await titles({ title: 'cancelled long ago', status: 'cancelled' })
    await db.run(
      `update tasks set created_at = created_at - interval '31 days', updated_at = updated_at - interval '31 days',
         completed_at = completed_at - interval '31 days' where id in ($1, $2)`,
      [old.id, dropped.id],
    )
    const shared = await titles({ title: 'shared', due_at: dayAfter(3), project_id: project.id }, colleague)
    await titles({ title: 'of nobody else' }, colleague)
    const [todos, events, high, mine, found] = [
      await create(owner),
      await create(owner, { kind: 'event' }),
      await create(owner, { filter: 'priority >= high OR tags:home' }),
      await create(owner, { filter: `project_id = ${project.id}` }),
      await create(owner, { filter: '"week"' }),
    ]
    t.strictSame(await titlesIn(owner, todos), [
      'overdue',
      'tomorrow',
      'done',
      'shared',
      'in a week',
      'started',
      'undated',
    ])
    t.strictSame(await titlesIn(owner, events), [
      'overdue',
      'tomorrow',
      '✓ done',
      'shared',
      'in a week',
      'started',
    ])
    t.strictSame(await titlesIn(owner, high), ['tomorrow', 'in a week'])
    t.strictSame(await titlesIn(owner, mine), ['shared'])
    t.strictSame(await titlesIn(owner, found), ['in a week'])
    const member = { token: colleague.token, params: { project_id: project.id, user_id: owner.id } }
    await service.expect('removeProjectMember', 204, member)
    t.strictSame(await titlesIn(owner, mine), [], 'a former member')
    t.equal(shared.project_id, project.id)
  })

  t.test('200: subtasks name their parent, which is due later or without a date', async (t) => {
    const owner = await register()
    const [later, undated] = [await createTask(owner, { due_at: dayAfter(9) }), await createTask(owner)]
    for (const { id } of [later, undated]) await createTask(owner, { parent_id: id, due_at: dayAfter(1) })
    const text = textOf(await open(await create(owner)))
    t.strictSame(valuesOf(text, 'RELATED-TO').toSorted(), [later.id, undated.id].toSorted())
  })

  t.test('200: with alarms, the reminders of the owner alone', async (t) => {
    const [owner, assignee] = [await register(), await register()]
    const task = await createTask(owner, { due_at: '2090-03-19T08:00:00.000Z', assignee_id: assignee.id })
    const remind = async ({ token }: Account, body: object) =>
      (await service.expect('createReminder', 201, { token, params: { task_id: task.id }, body })).body
    await remind(owner, { relative_to: 'due', offset_minutes: -90 })
    await remind(owner, { at: '2090-03-18T08:00:00.000Z' })
    const snoozed = await remind(owner, { relative_to: 'due', offset_minutes: 0 })
    await service.expect('updateReminder', 200, {
      token: owner.token,
      params: { reminder_id: snoozed.id },
      body: { snoozed_until: '2090-03-17T08:00:00.000Z' },
    })
    await remind(assignee, { relative_to: 'due', offset_minutes: -30 })
    const triggers = async (alarms: boolean) =>
      valuesOf(textOf(await open(await create(owner, { alarms }))), 'TRIGGER')
    t.strictSame(await triggers(true), ['-PT1H30M', '20900318T080000Z', '20900317T080000Z'])
    t.strictSame(await triggers(false), [])
  })

  t.test('200: of an administrator: only what is theirs', async (t) => {
    await createTask(await register(), { title: 'Private' })
    t.strictSame(await titlesIn(admin, await create(admin)), [])
  })

  t.test('200: at most 2,000 tasks, those that are due nearest to now', async (t) => {
    const owner = await register()
    await createTask(owner, { title: 'undated' })
    await db.run(
      `insert into tasks (id, title, description, status, priority, owner_id, due_at)
       select overlay(overlay(md5(n::text || $1) placing '7' from 13) placing '8' from 17)::uuid, n, '', 'todo', 'none', $1::text::uuid,
         now() + n * interval '1 hour' from generate_series(-1500, 1499) n`,
      [owner.id],
    )
    const titles = await titlesIn(owner, await create(owner))
    t.equal(titles.length, 2_000)
    t.strictSame([titles[0], titles.at(-1)], ['-999', '1000'])
    t.strictSame(
      titles
        .map(Number)
        .toSorted((a, b) => a - b)
        .map(String),
      titles,
    )
  })

  t.test('200: fewer, if their texts are long', async (t) => {
    const owner = await register()
    await createTask(owner, { title: 'undated' })
    await db.run(
      `insert into tasks (id, title, description, status, priority, owner_id, due_at)
       select overlay(overlay(md5(n::text || $1) placing '7' from 13) placing '8' from 17)::uuid, n, repeat('x', 65000), 'todo', 'none',
         $1::text::uuid, now() + n * interval '1 hour' from generate_series(-40, 39) n`,
      [owner.id],
    )
    const titles = await titlesIn(owner, await create(owner))
    t.strictSame([titles.length, titles[0], titles.at(-1)], [64, '-31', '32'], '64 of 65,000 characters each')
  })

  t.test('404: a wrong token, another feed, an owner who is disabled or deleted', async (t) => {
    const owner = await register()
    const [feed, other] = [await create(owner), await create(owner)]
    const params = { feed_id: feed.id }
    for (const token of ['x', tokenIn(other), `${tokenIn(feed)}x`, `twf_${'A'.repeat(43)}`])
      t.match(await service.call('getFeedCalendar', { params, query: { token } }), { status: 404 })
    const unknown = { params: { feed_id: unknownId }, query: { token: tokenIn(feed) } }
    t.match(await service.call('getFeedCalendar', unknown), { status: 404 })
    t.match(await open(feed, { token: owner.token, query: {} }), { status: 400 }, 'a token is required')
    const account = { token: admin.token, params: { user_id: owner.id } }
    t.match(await open(feed), { status: 200 })
    await service.expect('updateUser', 200, { ...account, body: { is_disabled: true } })
    t.match(await open(feed), { status: 404 })
    await service.expect('updateUser', 200, { ...account, body: { is_disabled: false } })
    t.match(await open(feed), { status: 200 })
    await service.expect('deleteUser', 204, account)
    t.match(await open(feed), { status: 404 })
  })

  t.test('410: an account that was taken back from a thief', async (t) => {
    const owner = await register()
    const feed = await create(owner)
    const change = { params: { user_id: owner.id }, body: { email: `taken-${owner.id}@example.com` } }
    await service.expect('updateUser', 200, { token: owner.token, ...change })
    await service.expect('undoEmailChange', 200, {
      body: { token: service.emailChanges.at(-1)?.undoToken },
    })
    t.match(await open(feed), { status: 410 })
  })
})

t.test('neither the log nor a problem contains the token of a feed', async (t) => {
  const owner = await register()
  lines.length = 0
  const feed = await create(owner)
  await open(feed)
  const refused = await open(feed, { query: { token: [tokenIn(feed), 'x'] } })
  t.equal(refused.status, 400)
  await service.expect('deleteFeed', 204, { token: owner.token, params: { feed_id: feed.id } })
  const revoked = await open(feed)
  const log = lines.join('')
  t.match(log, '"operation_id":"getFeedCalendar"')
  t.match(log, `"principal_id":"${owner.id}","credential":"feed"`)
  for (const text of [log, JSON.stringify([refused.body, revoked.body, await auditOf(owner)])])
    t.notMatch(text, tokenIn(feed).slice(0, 40))
})
