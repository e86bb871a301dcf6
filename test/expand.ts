import t from 'tap'
import { accountActions } from './fixture/accounts.ts'
import { openTestDatabase } from './fixture/database.ts'
import { recordRuns } from './fixture/recorded-runs.ts'
import { type Account, startService } from './fixture/service.ts'
import { pointersOf, type Task, taskActions } from './fixture/tasks.ts'

const service = await startService(t)
const { attachFile, createTask } = taskActions(service)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const { owner, assignee } = await taskActions(service).peopleOf('read')
const everything = 'owner,assignee,attachments'

const getTask = async ({ token }: Pick<Account, 'token'>, task_id: string, expand?: string, headers = {}) =>
  service.expect('getTask', 200, {
    token,
    params: { task_id },
    headers,
    ...(expand !== undefined && { query: { expand } }),
  })

const userAs = async ({ token }: Account, { id }: Account) =>
  (await service.expect('getUser', 200, { token, params: { user_id: id } })).body

const attachmentsOf = async ({ token }: Account, { id }: Task, limit = 20) => {
  const request = { token, params: { task_id: id }, query: { limit } }
  return (await service.expect('listTaskAttachments', 200, request)).body.items
}

/** Splits a task into its expansions and the rest. */
const split = ({ owner, assignee, attachments, ...plain }: Task) => ({
  plain,
  extras: { owner, assignee, attachments },
})

t.test('getTask', async (t) => {
  const { id } = await createTask(owner, { assignee_id: assignee.id })
  await attachFile(owner, id)
  await attachFile(assignee, id)

  t.test('200: only the requested expansions', async (t) => {
    const { body: plain } = await getTask(owner, id)
    t.notOk('owner' in plain || 'assignee' in plain || 'attachments' in plain)
    const whole = {
      owner: await userAs(owner, owner),
      assignee: await userAs(owner, assignee),
      attachments: await attachmentsOf(owner, plain),
    }
    t.equal(whole.attachments.length, 2)
    const { body } = await getTask(owner, id, everything)
    t.strictSame(split(body), { plain, extras: whole })
    t.strictSame((await getTask(owner, id, 'attachments,assignee,owner')).body, body, 'in any order')
    for (const [name, value] of Object.entries(whole)) {
      t.strictSame((await getTask(owner, id, name)).body, { ...plain, [name]: value })
    }
  })

  t.test('200: users as the caller may see them', async (t) => {
    for (const caller of [owner, assignee, admin]) {
      const { body } = await getTask(caller, id, 'owner,assignee')
      t.strictSame(body.owner, await userAs(caller, owner))
      t.strictSame(body.assignee, await userAs(caller, assignee))
    }
    const { body } = await getTask(owner, id, 'owner,assignee')
    t.strictSame([body.owner?.email, body.assignee?.email], [owner.email, null])
  })

  t.test('200: no assignee, and an empty list of attachments', async (t) => {
    const { id } = await createTask(owner)
    const { body } = await getTask(owner, id, everything)
    t.equal(body.assignee_id, null)
    t.notOk('assignee' in body)
    t.strictSame(body.attachments, [])
  })

  t.test('200: the newest 20 attachments', async (t) => {
    const task = await createTask(owner)
    for (let n = 0; n < 22; n += 1) await attachFile(owner, task.id)
    const { body } = await getTask(owner, task.id, 'attachments')
    t.equal(body.attachment_count, 22)
    t.strictSame(body.attachments, await attachmentsOf(owner, task))
  })

  t.test('304 until the representation changes', async (t) => {
    const friend = await service.register('friend')
    const uploader = await service.register('uploader')
    const { id } = await createTask(friend, { assignee_id: uploader.id })
    await attachFile(uploader, id)
    const etagOf = async (caller: Account, expand?: string) =>
      (await getTask(caller, id, expand)).headers.get('etag') ?? ''
    const params = { task_id: id }
    const isUnchanged = async (etag: string, expand: string) => {
      const headers = { 'if-none-match': etag }
      return (
        (await service.call('getTask', { token: friend.token, params, headers, query: { expand } }))
          .status === 304
      )
    }

    const plain = await etagOf(friend)
    const first = await etagOf(friend, everything)
    t.ok(await isUnchanged(first, everything))
    t.equal(await etagOf(friend, 'assignee,owner,attachments'), first)
    const others = [
      plain,
      await etagOf(friend, 'owner'),
      await etagOf(friend, 'assignee'),
      await etagOf(admin, everything),
    ]
    t.equal(new Set([first, ...others]).size, 5, 'each representation has its own ETag')
    for (const etag of others) t.notOk(await isUnchanged(etag, everything))

    const { token } = friend
    const me = { user_id: friend.id }
    await service.expect('updateUser', 200, { token, params: me, body: { display_name: 'A friend' } })
    t.notOk(await isUnchanged(first, everything), 'the name of the owner has changed')
    t.equal(await etagOf(friend), plain, 'the task without expansions has not changed')

    const second = await etagOf(friend, 'attachments')
    const { token: tokenOfUploader } = uploader
    await service.expect('updateTask', 200, { token, params, body: { assignee_id: null } })
    const third = await etagOf(friend, 'attachments')
    t.not(third, second)
    await service.expect('deleteUser', 204, { token: tokenOfUploader, params: { user_id: uploader.id } })
    t.notOk(await isUnchanged(third, 'attachments'), 'the uploader was deleted')
    t.equal((await getTask(friend, id, 'attachments')).body.attachments?.[0]?.uploaded_by, null)
  })

  t.test('412 for the version or the ETag in If-Match after the task has changed', async (t) => {
    const request = { token: owner.token, params: { task_id: id } }
    for (const expand of ['owner', everything]) {
      const { body, headers } = await getTask(owner, id, expand)
      const tags = [`"${body.version}"`, headers.get('etag') ?? '']
      const statusesOf = async (tag: string) => {
        const conditional = { ...request, headers: { 'if-match': tag } }
        const items = { update: [{ task_id: id, if_match: tag, patch: {} }] }
        const { body: results } = await service.expect('batchTasks', 200, { ...request, body: items })
        return [
          (await service.call('getTask', { ...conditional, query: { expand } })).status,
          (await service.call('updateTask', { ...conditional, body: {} })).status,
          results.update[0]?.status,
        ]
      }
      for (const tag of tags) t.strictSame(await statusesOf(tag), [200, 200, 200], tag)
      await service.expect('updateTask', 200, { ...request, body: { title: `After ${expand}` } })
      for (const tag of tags) t.strictSame(await statusesOf(tag), [412, 412, 412], tag)
    }
  })

  t.test('412 for a read with the ETag of another representation', async () => {
    const { headers } = await getTask(owner, id, 'owner')
    const read = {
      token: owner.token,
      params: { task_id: id },
      headers: { 'if-match': headers.get('etag') ?? '' },
    }
    await service.expect('getTask', 412, { ...read, query: { expand: 'attachments' } })
    await service.expect('getTask', 412, read)
    const changed = read.headers['if-match'].replace('.', '.x')
    await service.expect('getTask', 412, {
      ...read,
      headers: { 'if-match': changed },
      query: { expand: 'owner' },
    })
  })

  t.test('an expansion that is repeated is added once', async (t) => {
    const read = (expand: string) =>
      service.expect('getTask', 200, { token: owner.token, params: { task_id: id }, query: { expand } })
    t.same((await read('owner,owner')).body, (await read('owner')).body)
  })

  t.test('400 for unknown expansions', async (t) => {
    const bad = ['', 'x', 'owner,x', 'owner,', ',owner', 'Owner', 'owner_id', 'tags', 'owner assignee']
    for (const expand of bad) {
      const request = { token: owner.token, params: { task_id: id }, query: { expand } }
      const { body } = await service.expect('getTask', 400, request)
      t.match(pointersOf(body), [/^\/expand/], expand)
    }
  })

  t.test('403 for an API token without the scope of the expansion', async (t) => {
    const statusOf = async (scopes: readonly string[], expand: string) => {
      const { token } = await createApiToken(owner, { scopes })
      return (await service.call('getTask', { token, params: { task_id: id }, query: { expand } })).status
    }
    t.equal(await statusOf(['tasks:read'], 'owner'), 403)
    t.equal(await statusOf(['tasks:read'], 'assignee'), 403)
    t.equal(await statusOf(['tasks:read', 'users:read'], 'assignee'), 200)
    t.equal(await statusOf(['tasks:read', 'users:read'], everything), 403)
    t.equal(await statusOf(['tasks:read', 'attachments:read'], 'attachments'), 200)
    const { token } = await createApiToken(owner)
    const { body } = await service.expect('getTask', 403, {
      token,
      params: { task_id: id },
      query: { expand: 'owner' },
    })
    t.equal(body.code, 'insufficient_scope')
    t.match(body.detail, /users:read/)
  })
})

t.test('lists', async (t) => {
  const { owner, assignee, stranger } = await taskActions(service).peopleOf('list')
  const first = await createTask(owner, { title: 'First', assignee_id: assignee.id })
  const second = await createTask(owner, { title: 'Second' })
  await attachFile(owner, first.id)
  await createTask(stranger, { title: 'Foreign' })
  const params = { user_id: owner.id }

  for (const operation of ['listTasks', 'listUserTasks'] as const) {
    t.test(operation, async (t) => {
      const list = async ({ token }: Pick<Account, 'token'>, query: object) =>
        (await service.expect(operation, 200, { token, params, query: { ...query } })).body

      t.test('200: the same tasks as from getTask', async (t) => {
        for (const caller of [owner, assignee]) {
          for (const expand of ['attachments', 'owner,attachments', everything]) {
            const { items } = await list(caller, { expand })
            const tasks = caller === owner ? [second, first] : [first]
            const expected = await Promise.all(
              tasks.map(async ({ id }) => (await getTask(caller, id, expand)).body),
            )
            t.strictSame(items, expected, expand)
          }
        }
      })

      t.test('200: expansions on each page, by cursor and by link', async (t) => {
        const whole = await list(owner, { expand: everything })
        const query = { expand: everything, limit: 1, include_total: true }
        const { body, headers } = await service.expect(operation, 200, { token: owner.token, params, query })
        t.equal(body.total, 2)
        const next = await list(owner, { expand: everything, limit: 1, cursor: body.next_cursor })
        t.strictSame([...body.items, ...next.items], whole.items)
        const link = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1] ?? ''
        const linked = { token: owner.token, params, query: new URL(link, service.url).search.slice(1) }
        t.strictSame((await service.expect(operation, 200, linked)).body.items, next.items)
      })

      t.test('400 and 403 as for getTask', async (t) => {
        const request = { token: owner.token, params, query: { expand: 'owner,x' } }
        const { body } = await service.expect(operation, 400, request)
        t.match(pointersOf(body), [/^\/expand/])
        const { token } = await createApiToken(owner)
        await service.expect(operation, 403, { token, params, query: { expand: 'attachments' } })
        t.equal((await list({ token }, {})).items.length, 2)
      })
    })
  }
})

t.test('parent and subtasks', async (t) => {
  const { owner, assignee } = await taskActions(service).peopleOf('tree')
  const parent = await createTask(owner, { title: 'Parent' })
  const subtasks: Task[] = []
  for (let n = 0; n < 22; n += 1)
    subtasks.push(await createTask(owner, { parent_id: parent.id, title: `Subtask ${n}` }))
  const [first, , last] = [subtasks[0], subtasks[1], subtasks[21]]
  if (first === undefined || last === undefined) throw new Error('There are 22 subtasks')

  t.test('200: the first 20 subtasks in order', async (t) => {
    const params = { task_id: last.id }
    await service.expect('moveTask', 200, { token: owner.token, params, body: { before: first.id } })
    const { body } = await getTask(owner, parent.id, 'subtasks')
    t.equal(body.subtask_count, 22)
    const expected = [last, ...subtasks.slice(0, 19)]
    t.strictSame(
      body.subtasks?.map(({ id }) => id),
      expected.map(({ id }) => id),
    )
    t.strictSame(body.subtasks?.[0], (await getTask(owner, last.id)).body)
    t.strictSame((await getTask(owner, first.id, 'subtasks')).body.subtasks, [])
  })

  t.test('200: the parent, if there is one', async (t) => {
    const { body: plain } = await getTask(owner, parent.id)
    t.strictSame((await getTask(owner, first.id, 'parent')).body.parent, plain)
    t.notOk('parent' in (await getTask(owner, parent.id, 'parent')).body)
  })

  t.test('200: without parents and subtasks that an assignee cannot see', async (t) => {
    const request = { token: owner.token, params: { task_id: first.id } }
    await service.expect('updateTask', 200, { ...request, body: { assignee_id: assignee.id } })
    const { body } = await getTask(assignee, first.id, 'parent')
    t.equal(body.parent_id, parent.id)
    t.notOk('parent' in body)
    await service.expect('updateTask', 200, {
      ...request,
      params: { task_id: parent.id },
      body: { assignee_id: assignee.id },
    })
    const { body: seen } = await getTask(assignee, parent.id, 'subtasks')
    t.strictSame(
      seen.subtasks?.map(({ id }) => id),
      [first.id],
    )
    t.equal(seen.subtask_count, 22)
  })

  t.test('200: in lists, and for a PUT of an expanded task', async (t) => {
    const query = { parent_id: parent.id, expand: 'parent,subtasks', limit: 2, sort: 'position' }
    const { body } = await service.expect('listTasks', 200, { token: owner.token, query })
    t.strictSame(
      body.items.map(({ id, parent: above, subtasks: below }) => [id, above?.id, below]),
      [last, first].map(({ id }) => [id, parent.id, []]),
    )
    for (const id of [parent.id, first.id]) {
      const { body: expanded } = await getTask(owner, id, 'parent,subtasks')
      const request = { token: owner.token, params: { task_id: id }, body: expanded }
      t.equal((await service.expect('replaceTask', 200, request)).body.version, expanded.version)
    }
  })
})

t.test('the plan for subtasks does not depend on statistics', async (t) => {
  const { db } = await openTestDatabase(t)
  const { runs, record } = recordRuns()
  const filling = await startService(t, { db: record(db), backgroundDb: db })
  const { id: ownerId, token } = await filling.register('filling')
  await db.run(
    `insert into tasks (id, title, description, status, priority, owner_id)
     select event_id(clock_timestamp(), n), 'A task', '', 'todo', 'none', $1::uuid from generate_series(1, 3000) n`,
    [ownerId],
  )
  const expanded = { token, query: { expand: 'subtasks' } }
  await filling.expect('listTasks', 200, expanded)
  const list = runs.find(({ text }) => text.includes('"subtask".') && text.includes('numbered'))
  const plan = await db.run(`explain ${list?.text}`, list?.values ?? [], 'once')
  const lines = plan.map((row) => String(row['QUERY PLAN']))
  t.ok(lines.some((line) => line.includes('tasks_parent')))
  t.notOk(
    lines.some((line) => line.includes('BitmapAnd')),
    'no index of all tasks is read',
  )
})
