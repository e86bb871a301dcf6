import t from 'tap'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { restartHistoryIfCopied, removeOldTombstones } from '../../src/db/task-changes.ts'
import { accountActions } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { copyActions, type TaskCopy } from '../fixture/copies.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { pointersOf, taskActions, unknownId } from '../fixture/tasks.ts'

const { db, options } = await openTestDatabase(t)
const service = await startService(t, { db })
const { attachFile, createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')
const { setRole } = accountActions(service, admin)

const { ask, newCopy, copyOf, truthOf } = copyActions(service, db)

const ofTask = ({ token }: Account, task_id: string, more: Call = {}): Call => ({
  token,
  params: { task_id },
  ...more,
})

const nothing = { changed: [], deleted: [] }

t.test('200: all tasks first, in pages, and then what has changed', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('pages')
  const ids: string[] = []
  for (let n = 0; n < 7; n += 1) ids.push((await createTask(owner, { title: `task ${n}` })).id)
  const gone = await createTask(owner)
  await service.expect('deleteTask', 204, ofTask(owner, gone.id))

  const copy = newCopy(owner, { limit: 3 })
  t.strictSame(await copy.update(), { changed: ids, deleted: [] }, 'what was deleted before is not told of')
  t.strictSame(copy.tasks(), await truthOf(copy))
  t.strictSame(await copy.update(), nothing, 'nothing is told twice')
  t.strictSame(await (await copyOf(assignee)).update(), nothing)

  const [first = '', second = ''] = ids
  await service.expect('updateTask', 200, ofTask(owner, second, { body: { title: 'changed' } }))
  const { id } = await createTask(owner)
  await service.expect('updateTask', 200, ofTask(owner, first, { body: { assignee_id: stranger.id } }))
  t.strictSame(await copy.update(), { changed: [second, id, first], deleted: [] }, 'the oldest change first')
  t.strictSame(copy.tasks(), await truthOf(copy))
  t.strictSame((await ask(stranger)).changed, [(await readTask(stranger, first)).task])
  t.strictSame((await ask(admin)).changed, [], "an administrator's own feed has nothing of others")
  const all = { limit: 200, all: true }
  t.strictSame(
    (await ask(admin, all)).changed.length,
    (await truthOf({ account: admin, query: { all: true } })).length,
  )
})

t.test('200: what moves the version of a task is a change', async (t) => {
  const { owner } = await peopleOf('versions')
  const { token } = owner
  const { id } = await createTask(owner)
  const tag = await createTag(owner, 'put on')
  const copy = await copyOf(owner)
  const link = { token, params: { task_id: id, tag_id: tag.id } }
  let attach_id = ''
  const changes: readonly (() => Promise<unknown>)[] = [
    () => service.expect('addTaskTag', 204, link),
    () => service.expect('removeTaskTag', 204, link),
    async () => (attach_id = await attachFile(owner, id)),
    () => service.expect('deleteAttachment', 204, { token, params: { attach_id } }),
    () => service.expect('replaceTask', 200, ofTask(owner, id, { body: { title: 'Replaced' } })),
    () => service.expect('addTaskTag', 204, link),
    () => service.expect('deleteTag', 204, { token, params: { tag_id: tag.id } }),
  ]
  for (const [index, change] of changes.entries()) {
    await change()
    t.strictSame(await copy.update(), { changed: [id], deleted: [] }, `change ${index}`)
    t.strictSame(copy.tasks(), await truthOf(copy))
  }
  await service.expect('updateTask', 200, ofTask(owner, id, { body: { title: 'Replaced' } }))
  t.strictSame(await copy.update(), nothing, 'a change to what is there already is none')
})

t.test('200: a task that leaves the sight of somebody is told of as deleted, until it is back', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('sight')
  const manager = await service.register('sight-manager')
  await setRole(manager, 'admin')
  const { id } = await createTask(owner, { assignee_id: assignee.id })
  const copies = {
    owner: await copyOf(owner),
    assignee: await copyOf(assignee),
    stranger: await copyOf(stranger),
    admin: await copyOf(admin, { query: { all: true } }),
    // An administrator whose own feed has to do with the task as everybody's has.
    manager: await copyOf(manager),
  }
  const patch = (body: object) => service.expect('updateTask', 200, ofTask(admin, id, { body }))
  type Told = '+' | '-' | ' '
  type Expected = Record<Exclude<keyof typeof copies, 'manager'>, Told> & { readonly manager?: Told }
  const steps: readonly [string, () => Promise<unknown>, Expected][] = [
    [
      'unassigned',
      () => patch({ assignee_id: null }),
      { owner: '+', assignee: '-', stranger: ' ', admin: '+' },
    ],
    [
      'assigned',
      () => patch({ assignee_id: assignee.id }),
      { owner: '+', assignee: '+', stranger: ' ', admin: '+' },
    ],
    [
      'reassigned',
      () => patch({ assignee_id: stranger.id }),
      { owner: '+', assignee: '-', stranger: '+', admin: '+' },
    ],
    [
      'to its owner',
      () => patch({ assignee_id: owner.id }),
      { owner: '+', assignee: ' ', stranger: '-', admin: '+' },
    ],
    [
      'passed on',
      () => patch({ owner_id: assignee.id }),
      { owner: '+', assignee: '+', stranger: ' ', admin: '+' },
    ],
    ['and off', () => patch({ assignee_id: null }), { owner: '-', assignee: '+', stranger: ' ', admin: '+' }],
    [
      'to an administrator',
      () => patch({ assignee_id: manager.id }),
      { owner: ' ', assignee: '+', stranger: ' ', admin: '+', manager: '+' },
    ],
    [
      'and away again',
      () => patch({ assignee_id: null }),
      { owner: ' ', assignee: '+', stranger: ' ', admin: '+', manager: '-' },
    ],
    [
      'trashed',
      () => service.expect('deleteTask', 204, ofTask(assignee, id)),
      { owner: ' ', assignee: '-', stranger: ' ', admin: '-' },
    ],
    [
      'restored',
      () => service.expect('restoreTask', 200, ofTask(assignee, id)),
      { owner: ' ', assignee: '+', stranger: ' ', admin: '+' },
    ],
    [
      'trashed again',
      () => service.expect('deleteTask', 204, ofTask(assignee, id)),
      { owner: ' ', assignee: '-', stranger: ' ', admin: '-' },
    ],
    [
      'gone for good',
      () => service.expect('deleteTrashedTask', 204, ofTask(assignee, id)),
      { owner: ' ', assignee: ' ', stranger: ' ', admin: ' ' },
    ],
  ]
  for (const [what, change, expected] of steps) {
    await change()
    for (const name of ['owner', 'assignee', 'stranger', 'admin', 'manager'] as const) {
      const told = { '+': { changed: [id], deleted: [] }, '-': { changed: [], deleted: [id] }, ' ': nothing }
      t.strictSame(await copies[name].update(), told[expected[name] ?? ' '], `${what}: ${name}`)
      t.strictSame(copies[name].tasks(), await truthOf(copies[name]))
    }
  }
})

t.test('200: the tasks of a user who is deleted', async (t) => {
  const { owner, assignee } = await peopleOf('leaving')
  const { id } = await createTask(owner, { assignee_id: assignee.id })
  const { id: kept } = await createTask(assignee, { assignee_id: owner.id })
  const copy = await copyOf(assignee)
  await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
  t.strictSame(await copy.update(), { changed: [kept], deleted: [id] })
  t.strictSame(copy.tasks(), await truthOf(copy))
})

t.test('200: HEAD', async (t) => {
  const request = { token: admin.token, method: 'HEAD' } as const
  t.equal((await service.expect('listTaskChanges', 200, request)).body, null)
})

t.test('400', async (t) => {
  const { owner, stranger } = await peopleOf('refused')
  const { next_cursor: cursor } = await ask(owner)
  const tampered = `${cursor.slice(0, -2)}${cursor.endsWith('AA') ? 'BB' : 'AA'}`
  const { body: list } = await service.expect('listTasks', 200, { token: admin.token, query: { limit: 1 } })
  const refused = [
    [owner, { since: tampered }, '/since'],
    [owner, { since: 'begin' }, '/since'],
    [owner, { since: '' }, '/since'],
    [owner, { since: [cursor, cursor] }, '/since'],
    [stranger, { since: cursor }, '/since'],
    [admin, { since: list.next_cursor ?? '' }, '/since'],
    [owner, { limit: 201 }, '/limit'],
    [owner, { limit: 0 }, '/limit'],
    [owner, { offset: 1 }, '/offset'],
  ] as const
  for (const [{ token }, query, pointer] of refused) {
    const { body } = await service.expect('listTaskChanges', 400, { token, query })
    t.strictSame(pointersOf(body), [pointer], JSON.stringify(query))
  }
  const other = await service.call('listTasks', { token: owner.token, query: { cursor } })
  t.equal(other.status, 400, 'it is no cursor of a list')
})

t.test('401', async () => {
  await service.expect('listTaskChanges', 401)
})

t.test('all=true is another feed, and for administrators', async (t) => {
  const promoted = await service.register('promoted')
  const { token } = promoted
  const { next_cursor: since } = await ask(promoted)
  await service.expect('listTaskChanges', 403, { token, query: { all: true } })
  await setRole(promoted, 'admin')
  await ask(promoted, { since })
  const { next_cursor: ofAll } = await ask(promoted, { all: true })
  for (const query of [{ since, all: true }, { since: ofAll }]) {
    const { body } = await service.expect('listTaskChanges', 400, { token, query })
    t.strictSame(pointersOf(body), ['/since'])
  }
  await ask(promoted, { since: ofAll, all: true })
  await setRole(promoted, 'member')
  await ask(promoted, { since })
  await service.expect('listTaskChanges', 403, { token, query: { since: ofAll, all: true } })
})

t.test('410: deletions are remembered for so long', async (t) => {
  const { owner } = await peopleOf('forgotten')
  const [early, late] = [await createTask(owner), await createTask(owner)]
  const before = await copyOf(owner)
  await service.expect('deleteTask', 204, ofTask(owner, early.id))
  const between = await copyOf(owner)
  await service.expect('deleteTask', 204, ofTask(owner, late.id))
  const asked = { since: before.cursor() }
  await changesToBeKnown(db)

  await removeOldTombstones(db, 30, new AbortController().signal)
  t.strictSame((await ask(owner, asked)).deleted, [early.id, late.id])
  await db.run(
    `update task_tombstones set created_at = now() - interval '30 days 1 minute' where task_id = $1`,
    [early.id],
  )
  await removeOldTombstones(db, 30, new AbortController().signal)
  const { body } = await service.expect('listTaskChanges', 410, { token: owner.token, query: asked })
  t.equal(body.code, 'changes_forgotten')
  t.strictSame(await between.update(), { changed: [], deleted: [late.id] }, 'who knew of it can go on')
  t.strictSame(await (await copyOf(owner)).update(), nothing, 'and so can who begins anew')
})

t.test('a history that comes from another server begins anew', async (t) => {
  const { owner } = await peopleOf('restored')
  const task = await createTask(owner)
  const { etag } = await readTask(owner, task.id)
  const copy = await copyOf(owner)
  await restartHistoryIfCopied(db)
  t.strictSame(await copy.update(), nothing, 'its own goes on')

  // As a dump brings it along, from a server where more has happened.
  await db.run('alter table tasks disable trigger tasks_touch', [])
  await db.run(`update tasks set changed_in = (changed_in::text::bigint + 1000000000000)::text::xid8`, [])
  await db.run('alter table tasks enable trigger tasks_touch', [])
  t.strictSame((await ask(owner)).changed, [])
  await restartHistoryIfCopied(db)

  const query = { since: copy.cursor() }
  await service.expect('listTaskChanges', 410, { token: owner.token, query })
  const anew = await copyOf(owner)
  t.strictSame(anew.tasks(), [task], 'the task is as it was')
  t.equal((await readTask(owner, task.id)).etag, etag)
  await service.expect('updateTask', 200, ofTask(owner, task.id, { body: { title: 'Goes on' } }))
  t.strictSame(await anew.update(), { changed: [task.id], deleted: [] })
})

t.test('a dump that is restored begins the history anew, each time', async (t) => {
  const { owner } = await peopleOf('restored_again')
  const task = await createTask(owner)
  const copies = [await copyOf(owner)]
  const { etag } = await readTask(owner, task.id)
  for (const time of ['first', 'second']) {
    // What a dump of the first epoch brings along, which has been read since.
    await db.run(`update change_history set origin = '1/2/3', epoch = 1`, [])
    await restartHistoryIfCopied(db)
    for (const copy of copies)
      await service.expect('listTaskChanges', 410, { token: owner.token, query: { since: copy.cursor() } })
    const anew = await copyOf(owner)
    t.strictSame(anew.tasks(), [task], `${time}: the task is as it was`)
    t.equal((await readTask(owner, task.id)).etag, etag)
    copies.push(anew)
  }
  await restartHistoryIfCopied(db)
  t.strictSame(await copies.at(-1)?.update(), nothing, 'then it goes on')
})

const serverOptions = options.kind === 'server' ? options : null

t.test(
  'a change that is committed late is not missed',
  { skip: serverOptions === null && 'the embedded database has one session' },
  async (t) => {
    if (serverOptions === null) return
    const { owner } = await peopleOf('late')
    const slow = await createTask(owner, { title: 'slow' })
    const fast = await createTask(owner, { title: 'fast' })
    const copy = await copyOf(owner)
    const other = createSqlClient(serverOptions)
    t.teardown(() => other.end({ timeout: 0 }))
    await other`begin`
    await other`update tasks set title = 'slowly changed' where id = ${slow.id}`
    await service.expect('updateTask', 200, ofTask(owner, fast.id, { body: { title: 'changed' } }))
    t.strictSame(await copy.read(), nothing, 'what began later has to wait')
    await other`commit`
    t.strictSame(await copy.update(), { changed: [slow.id, fast.id], deleted: [] })
    t.strictSame(copy.tasks(), await truthOf(copy))
  },
)

t.test('copies that are kept while others write are right in the end', async (t) => {
  const people = await peopleOf('race')
  const { owner, assignee, stranger } = people
  const everybody = [owner, assignee, stranger, admin]
  const tag = await createTag(owner, 'race')
  // Nothing happens to these, so that in the end there is something that each of them sees.
  for (const { id } of [assignee, stranger]) await createTask(owner, { assignee_id: id })
  let random = 42
  const below = (count: number): number => {
    random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
    return random % count
  }
  const one = <T>(items: readonly T[]): T => items[below(items.length)] as T

  const ids: string[] = []
  const write = async (): Promise<void> => {
    const id = ids.length === 0 ? unknownId : one(ids)
    const request = ofTask(owner, id)
    const link = { token: owner.token, params: { task_id: id, tag_id: tag.id } }
    switch (below(9)) {
      case 0:
      case 1:
        ids.push((await createTask(owner, { assignee_id: one([null, assignee.id, stranger.id]) })).id)
        return
      case 2:
        return void (await service.call('deleteTask', request))
      case 3:
        return void (await service.call('restoreTask', request))
      case 4:
        return void (await service.call('deleteTrashedTask', request))
      case 5:
        return void (await service.call('addTaskTag', link))
      case 6:
        return void (await service.call('removeTaskTag', link))
      case 7:
        return void (await service.call('updateTask', {
          ...request,
          body: { title: `title ${below(1_000)}` },
        }))
      default: {
        const assignee_id = one([null, assignee.id, stranger.id, owner.id])
        return void (await service.call('updateTask', { ...request, body: { assignee_id } }))
      }
    }
  }
  const writing = new AbortController()
  const writer = async (): Promise<void> => {
    for (let n = 0; n < 40; n += 1) await write()
  }
  const copies = everybody.map((account, index) =>
    newCopy(account, { limit: 2 + 3 * index, query: { all: account === admin } }),
  )
  const reader = async (copy: TaskCopy): Promise<void> => {
    while (!writing.signal.aborted) await copy.step()
  }
  const readers = copies.map(reader)
  await Promise.all(Array.from({ length: 8 }, writer))
  writing.abort()
  await Promise.all(readers)

  for (const copy of copies) {
    await copy.update()
    t.ok(copy.tasks().length > 0)
    t.strictSame(copy.tasks(), await truthOf(copy), copy.account.user.username)
  }
})
