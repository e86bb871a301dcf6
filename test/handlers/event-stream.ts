import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { maxStreamsPerUser } from '../../src/services/event-streams.ts'
import { accountActions, sessionIdOf, startBeside } from '../fixture/accounts.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { openStream, type StreamClient } from '../fixture/event-stream.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { head } from '../fixture/raw.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

const statements: string[] = []
/** Few requests at a time: a stream that waits is none of them. */
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
const { createProject, setMember } = projectActions(service)

/** The connections of the service, by the port of the client. */
const accepted = new Map<number | undefined, Socket>()
service.app.server.on('connection', (socket: Socket) => accepted.set(socket.remotePort, socket))

const open = async (
  t: Test,
  { token }: Pick<Account, 'token'>,
  options: { after?: string; query?: string } = {},
): Promise<StreamClient> => {
  // Otherwise it may begin with what is known later, while other databases on the server hold that back.
  await changesToBeKnown(service.deps.db)
  return openStream(t, service, { token, ...options })
}

const rename = async ({ token }: Account, task_id: string, title: string): Promise<void> => {
  await service.expect('updateTask', 200, { token, params: { task_id }, body: { title } })
}

/** The new titles of the next events. */
const nextTitles = async (stream: StreamClient, count: number): Promise<readonly unknown[]> => {
  const titles: unknown[] = []
  while (titles.length < count) titles.push((await stream.next()).data.after.title)
  return titles
}

const numbered = (count: number, from = 0): readonly string[] =>
  Array.from({ length: count }, (_, index) => `Title ${from + index}`)

t.test('streamEvents', async (t) => {
  t.test('200: the events that the user sees at that time, as they happen', async (t) => {
    const owner = await service.register('owner')
    const member = await service.register('member')
    const project = await createProject(owner)
    const ofOwner = await open(t, owner)
    const ofMember = await open(t, member)
    t.equal(ofOwner.headers.get('content-type'), 'text/event-stream')
    t.equal(ofOwner.headers.get('cache-control'), 'no-store')
    t.equal(ofOwner.headers.get('x-accel-buffering'), 'no')

    await createTask(await service.register('stranger'))
    const task = await createTask(owner, { title: 'Shared', project_id: project.id })
    const created = await ofOwner.next()
    t.match(created, {
      type: 'task.created',
      data: {
        type: 'task.created',
        actor_id: owner.id,
        task_id: task.id,
        project_id: project.id,
        resource_id: null,
        before: {},
        after: { title: 'Shared' },
      },
    })
    await setMember(owner, project, member, 'editor')
    t.match(await ofOwner.next(), { type: 'member.added', data: { resource_id: member.id } })
    t.match(await ofMember.next(), { type: 'member.added' }, 'nothing from before')
    await rename(member, task.id, 'Renamed')
    for (const stream of [ofOwner, ofMember])
      t.match((await stream.next()).data, {
        type: 'task.updated',
        actor_id: member.id,
        before: { title: 'Shared' },
        after: { title: 'Renamed' },
      })
    const params = { project_id: project.id, user_id: member.id }
    await service.expect('removeProjectMember', 204, { token: owner.token, params })
    t.match(await ofOwner.next(), { type: 'member.removed' })
    await rename(owner, task.id, 'Unseen')
    t.strictSame(await nextTitles(ofOwner, 1), ['Unseen'])
    const own = await createTask(member, { title: 'Own' })
    t.match((await ofMember.next()).data, { task_id: own.id }, 'nothing of a project that they have left')
  })

  t.test('200: an administrator sees what is theirs, and everything with all=true', async (t) => {
    const owner = await service.register('watched')
    const own = await open(t, admin)
    const all = await open(t, admin, { query: '?all=true' })
    const task = await createTask(owner)
    t.match((await all.next()).data, { task_id: task.id })
    const ofAdmin = await createTask(admin)
    t.match((await all.next()).data, { task_id: ofAdmin.id })
    t.match((await own.next()).data, { task_id: ofAdmin.id })
  })

  t.test('200: resumes after an id, without a gap or a repetition', async (t) => {
    const owner = await service.register('resumer')
    const other = await service.register('busy')
    const empty = await open(t, owner)
    const beginning = empty.lastId()
    empty.close()
    const task = await createTask(owner, { title: 'Title 0' })
    await createTask(other)
    for (const title of numbered(4, 1)) await rename(owner, task.id, title)

    const first = await open(t, owner, { after: beginning })
    t.strictSame(await nextTitles(first, 3), numbered(3), 'also after `ready`')
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
    t.strictSame(await nextTitles(elsewhere, 4), numbered(4, 4), 'at another instance')
  })

  t.test('200: many long events are read in parts, while others happen', async (t) => {
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

  t.test('200: many long events at once do not make a client a slow one', async (t) => {
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

  t.test('200: heartbeats move the id, past events that the user does not see', async (t) => {
    const owner = await service.register('idle')
    const stream = await open(t, owner)
    const before = stream.lastId()
    await createTask(await service.register('elsewhere'))
    await eventually('a heartbeat has another id', async () => stream.lastId() !== before)
    t.ok(stream.comments() > 0)
    const resumed = await open(t, owner, { after: stream.lastId() })
    const task = await createTask(owner)
    t.match((await resumed.next()).data, { task_id: task.id })
  })

  t.test('200: streams that are up to date ask nothing', async (t) => {
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

  t.test('200: a stream is no running request', async (t) => {
    const owners = [await service.register('many'), await service.register('more')]
    for (const owner of owners)
      await Promise.all(Array.from({ length: maxStreamsPerUser }, () => open(t, owner)))
    for (const owner of owners)
      await Promise.all(
        Array.from({ length: 10 }, () => service.expect('getCurrentUser', 200, { token: owner.token })),
      )
  })

  t.test('200: a client that does not read is cut off', async (t) => {
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
    let isCut = false
    const long = '\u{1f600}'.repeat(10_000)
    for (let count = 0; count < 400 && !isCut; count += 1) {
      const body = { description: `${count} ${long}` }
      await service.expect('updateTask', 200, { token: owner.token, params: { task_id: task.id }, body })
      await reader.next()
      isCut = accepted.get(socket.localPort)?.destroyed === true
    }
    t.ok(isCut)
    await createTask(owner)
    t.ok(await reader.next(), 'others are not')
  })

  t.test('it ends when the credential does', async (t) => {
    const owner = await service.register('revoked')
    const kept = await open(t, owner)

    const session = await signIn(owner)
    const ofSession = await open(t, { token: session.access_token })
    await service.expect('logout', 204, { token: session.access_token })
    t.ok(await ofSession.ended, 'signed out')

    const apiToken = await createApiToken(owner)
    const ofToken = await open(t, { token: apiToken.token })
    const params = { token_id: apiToken.id }
    await service.expect('revokeApiToken', 204, { token: owner.token, params })
    t.ok(await ofToken.ended, 'revoked')

    const { db, secrets } = service.deps
    const other = await startService(t, { db, secrets })
    const roaming = await signIn(owner)
    const ofRoaming = await openStream(t, other, { token: roaming.access_token })
    await service.expect('logout', 204, { token: roaming.access_token })
    t.ok(await ofRoaming.ended, 'signed out at another instance')

    const unnoticed = await signIn(owner)
    const ofUnnoticed = await open(t, { token: unnoticed.access_token })
    await service.deps.db.run('delete from sessions where id = $1::uuid', [
      sessionIdOf(unnoticed.access_token),
    ])
    t.ok(await ofUnnoticed.ended, 'without a notification')

    const expiring = await open(t, { token: expiringSoon(owner.token) })
    t.ok(await expiring.ended, 'expired')

    const task = await createTask(owner)
    t.match((await kept.next()).data, { task_id: task.id }, 'the others go on')
    await service.expect('deleteUser', 204, { token: admin.token, params: { user_id: owner.id } })
    t.ok(await kept.ended, 'account deleted')
  })

  t.test('it ends when an administrator who follows everything is none any more', async (t) => {
    const second = await service.register('second')
    await setRole(second, 'admin')
    const all = await open(t, second, { query: '?all=true' })
    const own = await open(t, second)
    await setRole(second, 'member')
    t.ok(await all.ended)
    const task = await createTask(second)
    t.match((await own.next()).data, { task_id: task.id })
  })

  t.test('400: an id that is none', async (t) => {
    const { token } = admin
    for (const id of ['x', 'MS43NDUuMTI=', 'MS43NDUuMTI.', Buffer.from('1.-1.0').toString('base64url')]) {
      const ofHeader = await service.expect('streamEvents', 400, { token, headers: { 'last-event-id': id } })
      t.match(ofHeader.body, { errors: [{ pointer: '/Last-Event-ID' }] })
      const ofQuery = await service.expect('streamEvents', 400, { token, query: { after: id } })
      t.match(ofQuery.body, { errors: [{ pointer: '/after' }] })
    }
  })

  t.test('403: all=true', async () => {
    const { token } = await service.register('curious')
    await service.expect('streamEvents', 403, { token, query: { all: true } })
  })

  t.test('410: an event that was removed, or of another history', async (t) => {
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

  t.test('200: when the service stops, a stream ends and can be resumed elsewhere', async (t) => {
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

  t.test('200: each member gets what they see, and nothing else', async (t) => {
    const names = ['manager', 'editor', 'commenter', 'viewer', 'assigned', 'left', 'outside'] as const
    const accounts = Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, await service.register(`${name}s`)] as const)),
    ) as Readonly<Record<(typeof names)[number], Account>>
    const { manager, assigned, left } = accounts
    const project = await createProject(manager)
    for (const role of ['editor', 'commenter', 'viewer'] as const)
      await setMember(manager, project, accounts[role], role)
    await setMember(manager, project, left, 'editor')
    const params = { project_id: project.id, user_id: left.id }
    await service.expect('removeProjectMember', 204, { token: manager.token, params })
    const streams = new Map(names.map((name) => [name, open(t, accounts[name])]))
    await Promise.all(streams.values())
    const streamOf = (name: (typeof names)[number]): Promise<StreamClient> =>
      streams.get(name) ?? Promise.reject(new Error(`${name} has no stream`))
    const members = new Set<string>(['editor', 'commenter', 'viewer'])

    const fields = { project_id: project.id, assignee_id: assigned.id }
    const task = await createTask(manager, { title: 'Assigned', ...fields })
    await createTask(manager, { title: 'Of the project', project_id: project.id })
    await createTask(manager, { title: 'Personal' })
    const renaming = { token: manager.token, params: { project_id: project.id }, body: { name: 'Renamed' } }
    await service.expect('updateProject', 200, renaming)

    const seenUntil = async (last: string, stream: StreamClient): Promise<readonly unknown[]> => {
      const seen: unknown[] = []
      while (seen.at(-1) !== last) {
        const { type, data } = await stream.next()
        seen.push(data.after.title ?? data.after.name ?? type)
      }
      return seen
    }
    // Nobody sees what was changed in a task before it was deleted, once it is. All streams have the same reader.
    const renamed = await seenUntil('Renamed', await streamOf('manager'))
    await service.expect('deleteTask', 204, { token: manager.token, params: { task_id: task.id } })
    for (const name of names) await createTask(accounts[name], { title: 'Last' })
    for (const name of names) {
      const later = await seenUntil('Last', await streamOf(name))
      const ofProject = ['Assigned', 'Of the project', 'Renamed', 'task.deleted', 'Last']
      if (name === 'manager')
        t.strictSame(
          [...renamed, ...later],
          ['Assigned', 'Of the project', 'Personal', 'Renamed', 'task.deleted', 'Last'],
        )
      else if (name === 'assigned') t.strictSame(later, ['Assigned', 'task.deleted', 'Last'])
      else t.strictSame(later, members.has(name) ? ofProject : ['Last'], name)
    }
  })

  t.test('503: too many streams of all users', async (t) => {
    const owners = await Promise.all(['a', 'b', 'c', 'd'].map((name) => service.register(`crowd-${name}`)))
    const most = owners.slice(0, streamLimit / maxStreamsPerUser)
    for (const owner of most)
      await Promise.all(Array.from({ length: maxStreamsPerUser }, () => open(t, owner)))
    await service.expect('streamEvents', 503, { token: owners[3]?.token })
  })

  t.test('429: too many streams of a user', async (t) => {
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

/** The same access token, as if it had been issued 15 minutes and 28 of 30 tolerated seconds ago. */
const expiringSoon = (token: string): string => {
  const [header = ''] = token.split('.')
  const payload = { ...payloadOf(token), exp: Math.floor(Date.now() / 1_000) - 28 }
  const input = `${header}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}`
  const [secret] = service.deps.secrets
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}
