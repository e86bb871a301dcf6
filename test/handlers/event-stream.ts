import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { maxStreamsPerUser } from '../../src/services/activity/event-streams.ts'
import { accountActions, sessionIdOf, startBeside } from '../fixture/accounts.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { openStream, type StreamClient } from '../fixture/event-stream.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { head } from '../fixture/raw.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

const statements: string[] = []
/** A low limit on concurrent requests. Open streams do not count towards it. */
const requestLimit = 30
const streamLimit = 60
const heartbeat = 300
const service = await startService(t, {
  requestLimit,
  streamLimit,
  timeLimits: { ...timeLimits, readiness: 0, heartbeat },
  aroundDatabase: (db) => ({
    ...db,
    run(text, values, mode) {
      statements.push(text)
      return db.run(text, values, mode)
    },
  }),
})
const admin = await service.register('admin')
const { createApiToken, setRole, signIn } = accountActions(service, admin)
const { createTask } = taskActions(service)
const { createProject, setMember, removeMember } = projectActions(service)

/** The connections of the service, by the port of the client. */
const accepted = new Map<number | undefined, Socket>()
service.app.server.on('connection', (socket: Socket) => accepted.set(socket.remotePort, socket))

const open = async (
  t: Test,
  { token }: Pick<Account, 'token'>,
  options: { after?: string; query?: string } = {},
): Promise<StreamClient> => {
  // Other databases on the server can delay earlier events. Without this, the stream would begin with them.
  await changesToBeKnown(service.deps.db)
  return openStream(t, service, { token, ...options })
}

const rename = async ({ token }: Account, task_id: string, title: string): Promise<void> => {
  await service.expect('updateTask', 200, { token, params: { task_id }, body: { title } })
}

/** The titles in the next events. */
const nextTitles = async (stream: StreamClient, count: number): Promise<readonly unknown[]> => {
  const titles: unknown[] = []
  while (titles.length < count) titles.push((await stream.next()).data.after.title)
  return titles
}

const numbered = (count: number, from = 0): readonly string[] =>
  Array.from({ length: count }, (_, index) => `Title ${from + index}`)

t.test('streamEvents', async (t) => {
  t.test('200: live events, as long as the user can see the task', async (t) => {
    const owner = await service.register('owner')
    const member = await service.register('member')
    const project = await createProject(owner)
    const ownerStream = await open(t, owner)
    const memberStream = await open(t, member)
    t.equal(ownerStream.headers.get('content-type'), 'text/event-stream')
    t.equal(ownerStream.headers.get('cache-control'), 'no-store')
    t.equal(ownerStream.headers.get('x-accel-buffering'), 'no')

    await createTask(await service.register('stranger'))
    const task = await createTask(owner, { title: 'Shared', project_id: project.id })
    const created = await ownerStream.next()
    t.match(created, {
      type: 'task.created',
      data: {
        type: 'task.created',
        subject: { type: 'task', id: task.id },
        actor_id: owner.id,
        task_id: task.id,
        project_id: project.id,
        resource_id: null,
        before: {},
        after: { title: 'Shared' },
      },
    })
    await setMember(owner, project, member, 'editor')
    t.match(await ownerStream.next(), { type: 'member.added', data: { resource_id: member.id } })
    t.match(await memberStream.next(), { type: 'member.added' }, 'no earlier events')
    await rename(member, task.id, 'Renamed')
    for (const stream of [ownerStream, memberStream])
      t.match((await stream.next()).data, {
        type: 'task.updated',
        actor_id: member.id,
        before: { title: 'Shared' },
        after: { title: 'Renamed' },
      })
    await removeMember(owner, project, member)
    t.match(await ownerStream.next(), { type: 'member.removed' })
    await rename(owner, task.id, 'Unseen')
    t.strictSame(await nextTitles(ownerStream, 1), ['Unseen'])
    const own = await createTask(member, { title: 'Own' })
    t.match((await memberStream.next()).data, { task_id: own.id }, 'no events of a project that they left')
  })

  t.test('200: an administrator sees their own events, and all events with all=true', async (t) => {
    const owner = await service.register('watched')
    const own = await open(t, admin)
    const all = await open(t, admin, { query: '?all=true' })
    const task = await createTask(owner)
    t.match((await all.next()).data, { task_id: task.id })
    const adminTask = await createTask(admin)
    t.match((await all.next()).data, { task_id: adminTask.id })
    t.match((await own.next()).data, { task_id: adminTask.id })
  })

  t.test('200: resumes after an id, without gaps or duplicates', async (t) => {
    const owner = await service.register('resumer')
    const other = await service.register('busy')
    const empty = await open(t, owner)
    const beginning = empty.lastId()
    empty.close()
    const task = await createTask(owner, { title: 'Title 0' })
    await createTask(other)
    for (const title of numbered(4, 1)) await rename(owner, task.id, title)

    const first = await open(t, owner, { after: beginning })
    t.strictSame(await nextTitles(first, 3), numbered(3), 'from the id of `ready`')
    const { id } = await first.next()
    first.close()
    await rename(owner, task.id, 'Title 5')
    const second = await open(t, owner, { query: `?after=${id}` })
    t.strictSame(await nextTitles(second, 2), numbered(2, 4))
    await rename(owner, task.id, 'Title 6')
    t.strictSame(await nextTitles(second, 1), ['Title 6'])

    const third = await open(t, owner, { after: second.lastId(), query: `?after=${beginning}` })
    await rename(owner, task.id, 'Title 7')
    t.strictSame(await nextTitles(third, 1), ['Title 7'], 'the header takes precedence')

    const beside = await startBeside(t, service)
    const elsewhere = await openStream(t, beside, { token: owner.token, after: id })
    t.strictSame(await nextTitles(elsewhere, 4), numbered(4, 4), 'on another instance')
  })

  t.test('200: a long backlog is read in batches, while new events arrive', async (t) => {
    const owner = await service.register('prolific')
    const stream = await open(t, owner)
    const beginning = stream.lastId()
    stream.close()
    const task = await createTask(owner, { title: 'Title 0' })
    const texts = numbered(24, 1)
    for (const title of texts) {
      const body = { title, description: `${title} ${'\u{1f600}'.repeat(10_000)}` }
      await service.expect('updateTask', 200, { token: owner.token, params: { task_id: task.id }, body })
    }
    const reading = open(t, owner, { after: beginning }).then((resumed) => nextTitles(resumed, 45))
    for (const title of numbered(20, 25)) await rename(owner, task.id, title)
    t.strictSame(await reading, numbered(45))
  })

  t.test('200: a burst of long events does not disconnect a client', async (t) => {
    const owner = await service.register('hasty')
    const stream = await open(t, owner)
    const description = '\u{1f600}'.repeat(10_000)
    const create = numbered(6).map((title) => ({ title, description }))
    await service.expect('batchTasks', 200, { token: owner.token, body: { atomic: true, create } })
    t.same(new Set(await nextTitles(stream, 6)), new Set(numbered(6)))
  })

  t.test('200: HEAD opens no stream', async (t) => {
    const { headers, status } = await service.call('streamEvents', { token: admin.token, method: 'HEAD' })
    t.equal(status, 200)
    t.equal(headers.get('content-type'), 'text/event-stream')
  })

  t.test('200: heartbeats advance the id past events that the user cannot see', async (t) => {
    const owner = await service.register('idle')
    const stream = await open(t, owner)
    const before = stream.lastId()
    await createTask(await service.register('elsewhere'))
    await eventually('a heartbeat advances the id', async () => stream.lastId() !== before)
    t.ok(stream.comments() > 0)
    const resumed = await open(t, owner, { after: stream.lastId() })
    const task = await createTask(owner)
    t.match((await resumed.next()).data, { task_id: task.id })
  })

  t.test('200: up-to-date streams send no statements of their own', async (t) => {
    const owner = await service.register('calm')
    const streams = [await open(t, owner), await open(t, owner), await open(t, owner)]
    statements.length = 0
    const task = await createTask(owner)
    for (const stream of streams) t.match((await stream.next()).data, { task_id: task.id })
    t.strictSame(
      statements.filter((text) => text.includes('event_stream')),
      [],
    )
  })

  t.test('200: open streams do not count towards the limit on requests', async (t) => {
    const owners = [await service.register('many'), await service.register('more')]
    for (const owner of owners)
      await Promise.all(Array.from({ length: maxStreamsPerUser }, () => open(t, owner)))
    for (const owner of owners)
      await Promise.all(
        Array.from({ length: 10 }, () => service.expect('getCurrentUser', 200, { token: owner.token })),
      )
  })

  t.test('200: a client that does not read is disconnected', async (t) => {
    const owner = await service.register('deaf')
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    socket.write(head('GET /events/stream HTTP/1.1', 'Host: x', `Authorization: Bearer ${owner.token}`))
    await once(socket, 'data')
    socket.pause()
    const reader = await open(t, owner)
    const task = await createTask(owner)
    let isDisconnected = false
    const long = '\u{1f600}'.repeat(10_000)
    for (let count = 0; count < 400 && !isDisconnected; count += 1) {
      const body = { description: `${count} ${long}` }
      await service.expect('updateTask', 200, { token: owner.token, params: { task_id: task.id }, body })
      await reader.next()
      isDisconnected = accepted.get(socket.localPort)?.destroyed === true
    }
    t.ok(isDisconnected)
    await createTask(owner)
    t.ok(await reader.next(), 'other clients stay connected')
  })

  t.test('200: the stream ends with its credential', async (t) => {
    const owner = await service.register('revoked')
    const kept = await open(t, owner)

    const session = await signIn(owner)
    const sessionStream = await open(t, { token: session.access_token })
    await service.expect('logout', 204, { token: session.access_token })
    t.ok(await sessionStream.ended, 'signed out')

    const apiToken = await createApiToken(owner)
    const tokenStream = await open(t, { token: apiToken.token })
    const params = { token_id: apiToken.id }
    await service.expect('revokeApiToken', 204, { token: owner.token, params })
    t.ok(await tokenStream.ended, 'revoked')

    const { db, secrets } = service.deps
    const other = await startService(t, { db, secrets })
    const remote = await signIn(owner)
    const remoteStream = await openStream(t, other, { token: remote.access_token })
    await service.expect('logout', 204, { token: remote.access_token })
    t.ok(await remoteStream.ended, 'signed out on another instance')

    const unnotified = await signIn(owner)
    const unnotifiedStream = await open(t, { token: unnotified.access_token })
    await service.deps.db.run('delete from sessions where id = $1::uuid', [
      sessionIdOf(unnotified.access_token),
    ])
    t.ok(await unnotifiedStream.ended, 'without a notification')

    const expiring = await open(t, { token: expiringSoon(owner.token) })
    t.ok(await expiring.ended, 'expired')

    const task = await createTask(owner)
    t.match((await kept.next()).data, { task_id: task.id }, 'other streams continue')
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id: owner.id } })
    t.ok(await kept.ended, 'account deleted')
  })

  t.test('200: a stream with all=true ends when its administrator is demoted', async (t) => {
    const second = await service.register('second')
    await setRole(second, 'admin')
    const all = await open(t, second, { query: '?all=true' })
    const own = await open(t, second)
    await setRole(second, 'member')
    t.ok(await all.ended)
    const task = await createTask(second)
    t.match((await own.next()).data, { task_id: task.id })
  })

  t.test('400: a malformed id', async (t) => {
    const { token } = admin
    for (const id of ['x', 'MS43NDUuMTI=', 'MS43NDUuMTI.', Buffer.from('1.-1.0').toString('base64url')]) {
      const fromHeader = await service.expect('streamEvents', 400, {
        token,
        headers: { 'last-event-id': id },
      })
      t.match(fromHeader.body, { errors: [{ pointer: '/Last-Event-ID' }] })
      const fromQuery = await service.expect('streamEvents', 400, { token, query: { after: id } })
      t.match(fromQuery.body, { errors: [{ pointer: '/after' }] })
    }
  })

  t.test('410: a deleted event, or an event of a restored database', async (t) => {
    const owner = await service.register('late')
    const stream = await open(t, owner)
    await createTask(owner)
    const { id } = await stream.next()
    const resume = (after: string, status: 200 | 410) =>
      service.expect('streamEvents', status, { token: owner.token, headers: { 'last-event-id': after } })
    await resume(id, 200)
    const [epoch, changedIn, ordinal] = Buffer.from(id, 'base64url').toString().split('.')
    const encode = (...parts: readonly unknown[]) => Buffer.from(parts.join('.')).toString('base64url')
    const { body } = await resume(encode(Number(epoch) + 1, changedIn, ordinal), 410)
    t.match(body, { code: 'events_forgotten' })
    await resume(encode(epoch, changedIn, Number(ordinal) + 1_000_000), 410)
    await resume(encode(epoch, 0, 0), 200)
    const { db } = service.deps
    await db.run(`update events set created_at = created_at - interval '2 days'`, [])
    await resume(encode(epoch, 0, 0), 410)
    await db.run('delete from events where ordinal = $1::bigint', [ordinal])
    await resume(id, 410)
  })

  t.test('200: streams end when the service stops, and resume on another instance', async (t) => {
    const owner = await service.register('steady')
    const { db, secrets } = service.deps
    const other = await startService(t, { db, secrets })
    const stream = await openStream(t, other, owner)
    await createTask(owner, { title: 'Title 0' })
    await nextTitles(stream, 1)
    const { ended } = await openStream(t, other, { token: (await signIn(owner)).access_token })
    await other.app.close()
    t.ok(await stream.ended)
    t.ok(await ended)
    await createTask(owner, { title: 'Title 1' })
    const resumed = await open(t, owner, { after: stream.lastId() })
    t.strictSame(await nextTitles(resumed, 1), ['Title 1'])
  })

  t.test('503: too many streams in total', async (t) => {
    const owners = await Promise.all(['a', 'b', 'c', 'd'].map((name) => service.register(`crowd-${name}`)))
    const saturating = owners.slice(0, streamLimit / maxStreamsPerUser)
    for (const owner of saturating)
      await Promise.all(Array.from({ length: maxStreamsPerUser }, () => open(t, owner)))
    await service.expect('streamEvents', 503, { token: owners[3]?.token })
  })

  t.test('429: too many streams of one user', async (t) => {
    const owner = await service.register('greedy')
    const streams = await Promise.all(Array.from({ length: maxStreamsPerUser }, () => open(t, owner)))
    const { headers } = await service.expect('streamEvents', 429, { token: owner.token })
    t.ok(Number(headers.get('retry-after')) > 0)
    streams[0]?.close()
    await eventually('another stream can be opened', async () => {
      const { status } = await service.call('streamEvents', { token: owner.token })
      return status === 200
    })
  })
})

const payloadOf = (token: string): Readonly<Record<string, unknown>> => {
  const payload: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
  return { ...(typeof payload === 'object' ? payload : null) }
}

/** The same access token, expired 28 seconds ago. The service tolerates 30 seconds. */
const expiringSoon = (token: string): string => {
  const [header = ''] = token.split('.')
  const payload = { ...payloadOf(token), exp: Math.floor(Date.now() / 1_000) - 28 }
  const input = `${header}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}`
  const [secret] = service.deps.secrets
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}
