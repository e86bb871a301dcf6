import t from 'tap'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { restartHistoryIfCopied, removeOldTombstones } from '../../src/db/activity/task-changes.ts'
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

const requestFor = ({ token }: Account, task_id: string, options: Call = {}): Call => ({
  token,
  params: { task_id },
  ...options,
})

const noChanges = { changed: [], deleted: [] }

t.test('200: first all tasks, in pages, then the changes', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('pages')
  const ids: string[] = []
  for (let n = 0; n < 7; n += 1) ids.push((await createTask(owner, { title: `task ${n}` })).id)
  const gone = await createTask(owner)
  await service.expect('deleteTask', 204, requestFor(owner, gone.id))

  const copy = newCopy(owner, { limit: 3 })
  t.strictSame(await copy.update(), { changed: ids, deleted: [] }, 'earlier deletions are not reported')
  t.strictSame(copy.tasks(), await truthOf(copy))
  t.strictSame(await copy.update(), noChanges, 'no change is reported twice')
  t.strictSame(await (await copyOf(assignee)).update(), noChanges)

  const [first = '', second = ''] = ids
  await service.expect('updateTask', 200, requestFor(owner, second, { body: { title: 'changed' } }))
  const { id } = await createTask(owner)
  await service.expect('updateTask', 200, requestFor(owner, first, { body: { assignee_id: stranger.id } }))
  t.strictSame(await copy.update(), { changed: [second, id, first], deleted: [] }, 'the oldest change first')
  t.strictSame(copy.tasks(), await truthOf(copy))
  t.strictSame((await ask(stranger)).changed, [(await readTask(stranger, first)).task])
  t.strictSame((await ask(admin)).changed, [], "an administrator's own feed has no tasks of others")
  const all = { limit: 200, all: true }
  t.strictSame(
    (await ask(admin, all)).changed.length,
    (await truthOf({ account: admin, query: { all: true } })).length,
  )
})

t.test('200: every new version of a task is a change', async (t) => {
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
    () => service.expect('replaceTask', 200, requestFor(owner, id, { body: { title: 'Replaced' } })),
    () => service.expect('addTaskTag', 204, link),
    () => service.expect('deleteTag', 204, { token, params: { tag_id: tag.id } }),
  ]
  for (const [index, change] of changes.entries()) {
    await change()
    t.strictSame(await copy.update(), { changed: [id], deleted: [] }, `change ${index}`)
    t.strictSame(copy.tasks(), await truthOf(copy))
  }
  await service.expect('updateTask', 200, requestFor(owner, id, { body: { title: 'Replaced' } }))
  t.strictSame(await copy.update(), noChanges, 'an update with the current value is no change')
})

t.test('200: a task that a user can no longer see is reported as deleted', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('sight')
  const manager = await service.register('sight-manager')
  await setRole(manager, 'admin')
  const { id } = await createTask(owner, { assignee_id: assignee.id })
  const copies = {
    owner: await copyOf(owner),
    assignee: await copyOf(assignee),
    stranger: await copyOf(stranger),
    admin: await copyOf(admin, { query: { all: true } }),
    // An administrator's own feed, which has the task only while it is assigned to them.
    manager: await copyOf(manager),
  }
  const patch = (body: object) => service.expect('updateTask', 200, requestFor(admin, id, { body }))
  type Report = '+' | '-' | ' '
  type Expected = Record<Exclude<keyof typeof copies, 'manager'>, Report> & { readonly manager?: Report }
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
      'assigned to its owner',
      () => patch({ assignee_id: owner.id }),
      { owner: '+', assignee: ' ', stranger: '-', admin: '+' },
    ],
    [
      'transferred to the assignee',
      () => patch({ owner_id: assignee.id }),
      { owner: '+', assignee: '+', stranger: ' ', admin: '+' },
    ],
    [
      'unassigned after the transfer',
      () => patch({ assignee_id: null }),
      { owner: '-', assignee: '+', stranger: ' ', admin: '+' },
    ],
    [
      'assigned to an administrator',
      () => patch({ assignee_id: manager.id }),
      { owner: ' ', assignee: '+', stranger: ' ', admin: '+', manager: '+' },
    ],
    [
      'unassigned from the administrator',
      () => patch({ assignee_id: null }),
      { owner: ' ', assignee: '+', stranger: ' ', admin: '+', manager: '-' },
    ],
    [
      'trashed',
      () => service.expect('deleteTask', 204, requestFor(assignee, id)),
      { owner: ' ', assignee: '-', stranger: ' ', admin: '-' },
    ],
    [
      'restored',
      () => service.expect('restoreTask', 200, requestFor(assignee, id)),
      { owner: ' ', assignee: '+', stranger: ' ', admin: '+' },
    ],
    [
      'trashed again',
      () => service.expect('deleteTask', 204, requestFor(assignee, id)),
      { owner: ' ', assignee: '-', stranger: ' ', admin: '-' },
    ],
    [
      'permanently deleted',
      () => service.expect('deleteTrashedTask', 204, requestFor(assignee, id)),
      { owner: ' ', assignee: ' ', stranger: ' ', admin: ' ' },
    ],
  ]
  for (const [what, change, expected] of steps) {
    await change()
    for (const name of ['owner', 'assignee', 'stranger', 'admin', 'manager'] as const) {
      const reported = {
        '+': { changed: [id], deleted: [] },
        '-': { changed: [], deleted: [id] },
        ' ': noChanges,
      }
      t.strictSame(await copies[name].update(), reported[expected[name] ?? ' '], `${what}: ${name}`)
      t.strictSame(copies[name].tasks(), await truthOf(copies[name]))
    }
  }
})

t.test('200: after a user is deleted, their tasks are reported as deleted', async (t) => {
  const { owner, assignee } = await peopleOf('leaving')
  const { id } = await createTask(owner, { assignee_id: assignee.id })
  const { id: kept } = await createTask(assignee, { assignee_id: owner.id })
  const copy = await copyOf(assignee)
  await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
  t.strictSame(await copy.update(), { changed: [kept], deleted: [id] })
  t.strictSame(copy.tasks(), await truthOf(copy))
})

t.test('400 for invalid cursors', async (t) => {
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
  ] as const
  for (const [{ token }, query, pointer] of refused) {
    const { body } = await service.expect('listTaskChanges', 400, { token, query })
    t.strictSame(pointersOf(body), [pointer], JSON.stringify(query))
  }
  const other = await service.call('listTasks', { token: owner.token, query: { cursor } })
  t.equal(other.status, 400, 'a list does not accept the cursor')
})

t.test('all=true is a separate feed: 403 for members, 400 for cursors of the other feed', async (t) => {
  const promoted = await service.register('promoted')
  const { token } = promoted
  const { next_cursor: since } = await ask(promoted)
  await service.expect('listTaskChanges', 403, { token, query: { all: true } })
  await setRole(promoted, 'admin')
  await ask(promoted, { since })
  const { next_cursor: sinceOfAll } = await ask(promoted, { all: true })
  for (const query of [{ since, all: true }, { since: sinceOfAll }]) {
    const { body } = await service.expect('listTaskChanges', 400, { token, query })
    t.strictSame(pointersOf(body), ['/since'])
  }
  await ask(promoted, { since: sinceOfAll, all: true })
  await setRole(promoted, 'member')
  await ask(promoted, { since })
  await service.expect('listTaskChanges', 403, { token, query: { since: sinceOfAll, all: true } })
})

t.test('410 for a cursor from before a deletion whose retention has ended', async (t) => {
  const { owner } = await peopleOf('forgotten')
  const [early, late] = [await createTask(owner), await createTask(owner)]
  const before = await copyOf(owner)
  await service.expect('deleteTask', 204, requestFor(owner, early.id))
  const between = await copyOf(owner)
  await service.expect('deleteTask', 204, requestFor(owner, late.id))
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
  t.strictSame(
    await between.update(),
    { changed: [], deleted: [late.id] },
    'a copy that has read the deletion continues',
  )
  t.strictSame(await (await copyOf(owner)).update(), noChanges, 'a new copy starts')
})

t.test('410 for cursors from before the database was moved to another server', async (t) => {
  const { owner } = await peopleOf('restored')
  const task = await createTask(owner)
  const { etag } = await readTask(owner, task.id)
  const copy = await copyOf(owner)
  await restartHistoryIfCopied(db)
  t.strictSame(await copy.update(), noChanges, 'on the same server, the history continues')

  // Like a restored dump of a server that has had more transactions.
  await db.run('alter table tasks disable trigger tasks_stamped', [])
  await db.run(`update tasks set changed_in = (changed_in::text::bigint + 1000000000000)::text::xid8`, [])
  await db.run('alter table tasks enable trigger tasks_stamped', [])
  t.strictSame((await ask(owner)).changed, [])
  await restartHistoryIfCopied(db)

  const query = { since: copy.cursor() }
  await service.expect('listTaskChanges', 410, { token: owner.token, query })
  const fresh = await copyOf(owner)
  t.strictSame(fresh.tasks(), [task], 'the task is unchanged')
  t.equal((await readTask(owner, task.id)).etag, etag)
  await service.expect('updateTask', 200, requestFor(owner, task.id, { body: { title: 'Goes on' } }))
  t.strictSame(await fresh.update(), { changed: [task.id], deleted: [] })
})

t.test('410 for cursors from before a dump was restored, each time', async (t) => {
  const { owner } = await peopleOf('restored_again')
  const task = await createTask(owner)
  const copies = [await copyOf(owner)]
  const { etag } = await readTask(owner, task.id)
  for (const time of ['first', 'second']) {
    // Like restoring a dump that was taken in epoch 1, after clients have read later epochs.
    await db.run(`update change_history set origin = '1/2/3', epoch = 1`, [])
    await restartHistoryIfCopied(db)
    for (const copy of copies)
      await service.expect('listTaskChanges', 410, { token: owner.token, query: { since: copy.cursor() } })
    const fresh = await copyOf(owner)
    t.strictSame(fresh.tasks(), [task], `${time}: the task is unchanged`)
    t.equal((await readTask(owner, task.id)).etag, etag)
    copies.push(fresh)
  }
  await restartHistoryIfCopied(db)
  t.strictSame(await copies.at(-1)?.update(), noChanges, 'the history continues')
})

t.test('a change in a long transaction is not missed', async (t) => {
  const { owner } = await peopleOf('late')
  const slow = await createTask(owner, { title: 'slow' })
  const fast = await createTask(owner, { title: 'fast' })
  const copy = await copyOf(owner)
  const other = createSqlClient(options)
  t.teardown(() => other.end({ timeout: 0 }))
  await other`begin`
  await other`update tasks set title = 'slowly changed' where id = ${slow.id}`
  await service.expect('updateTask', 200, requestFor(owner, fast.id, { body: { title: 'changed' } }))
  t.strictSame(await copy.read(), noChanges, 'later changes wait for the earlier transaction')
  await other`commit`
  t.strictSame(await copy.update(), { changed: [slow.id, fast.id], deleted: [] })
  t.strictSame(copy.tasks(), await truthOf(copy))
})

t.test('copies that are updated during writes are complete in the end', async (t) => {
  const people = await peopleOf('race')
  const { owner, assignee, stranger } = people
  const everybody = [owner, assignee, stranger, admin]
  const tag = await createTag(owner, 'race')
  // These stay unchanged, so that each user sees a task in the end.
  for (const { id } of [assignee, stranger]) await createTask(owner, { assignee_id: id })
  let random = 42
  const randomBelow = (count: number): number => {
    random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
    return random % count
  }
  const pick = <T>(items: readonly T[]): T => items[randomBelow(items.length)] as T

  const ids: string[] = []
  const write = async (): Promise<void> => {
    const id = ids.length === 0 ? unknownId : pick(ids)
    const request = requestFor(owner, id)
    const link = { token: owner.token, params: { task_id: id, tag_id: tag.id } }
    switch (randomBelow(9)) {
      case 0:
      case 1:
        ids.push((await createTask(owner, { assignee_id: pick([null, assignee.id, stranger.id]) })).id)
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
          body: { title: `title ${randomBelow(1_000)}` },
        }))
      default: {
        const assignee_id = pick([null, assignee.id, stranger.id, owner.id])
        return void (await service.call('updateTask', { ...request, body: { assignee_id } }))
      }
    }
  }
  const rounds = 40
  const writing = new AbortController()
  const writer = async (): Promise<void> => {
    for (let n = 0; n < rounds; n += 1) await write()
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
