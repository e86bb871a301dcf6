import t from 'tap'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, taskActions, type Tag } from '../fixture/tasks.ts'

const service = await startService(t)
const { createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')

const countTags = async ({ token }: Account): Promise<number | null> =>
  (await service.expect('listTags', 200, { token, query: { include_total: true } })).body.total

t.test('createTag', async (t) => {
  const { owner, stranger } = await peopleOf('create')
  const { token } = owner

  t.test('201 with only a name', async (t) => {
    const { body, headers } = await service.expect('createTag', 201, { token, body: { name: 'plain' } })
    const { id, created_at, ...rest } = body
    t.strictSame(rest, { name: 'plain', color: null, owner_id: owner.id, project_id: null })
    t.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000)
    t.equal(headers.get('location'), `/tags/${id}`)
    t.equal(headers.get('idempotency-replayed'), null)
    const read = await service.expect('getTag', 200, { token, params: { tag_id: id } })
    t.strictSame(read.body, body)
    t.equal(read.headers.get('etag'), headers.get('etag'))
    t.match(headers.get('etag'), /^"[^"]+"$/)
  })

  t.test('201: a color is stored in lower case; null is no color', async (t) => {
    const { body } = await service.expect('createTag', 201, {
      token,
      body: { name: 'red', color: '#D92D2f' },
    })
    t.equal(body.color, '#d92d2f')
    const none = await service.expect('createTag', 201, { token, body: { name: 'none', color: null } })
    t.equal(none.body.color, null)
  })

  t.test('201: a name of up to 50 characters is trimmed and normalized', async (t) => {
    const names = [
      ['  \t trimmed\u00a0\n', 'trimmed'],
      [` ${'x'.repeat(48)} `, 'x'.repeat(48)],
      ['\u{1f600}'.repeat(50), '\u{1f600}'.repeat(50)],
      ['o\u0308'.repeat(25), '\u00f6'.repeat(25)],
    ] as const
    for (const [name, kept] of names) t.equal((await createTag(owner, name)).name, kept)
  })

  t.test('201 for the name of a tag of another user', async (t) => {
    const mine = await createTag(owner, 'shared')
    const theirs = await createTag(stranger, 'shared')
    t.not(theirs.id, mine.id)
  })

  t.test('201 for the name of a deleted tag', async (t) => {
    const { id } = await createTag(owner, 'freed')
    await service.expect('deleteTag', 204, { token, params: { tag_id: id } })
    t.not((await createTag(owner, 'FREED')).id, id)
  })

  t.test('409 for a name that is taken, ignoring case', async (t) => {
    const pairs = [
      ['release', 'Release'],
      ['  spaced', 'SPACED  '],
      ['\u00c9cole', '\u00e9cole'],
      ['E\u0301te\u0301', '\u00e9T\u00c9'],
      ['\u0424\u0418\u041b\u044c\u041c', '\u0444\u0438\u043b\u044c\u043c'],
      ['\u039f\u0394\u039f\u03a3', '\u03bf\u03b4\u03bf\u03c2'],
    ] as const
    for (const [first, second] of pairs) {
      await createTag(owner, first)
      const before = await countTags(owner)
      const { body } = await service.expect('createTag', 409, { token, body: { name: second } })
      t.equal(body.code, 'tag_exists')
      t.strictSame(pointersOf(body), ['/name'])
      t.equal(await countTags(owner), before)
    }
  })

  t.test('409 for all but one of several requests at the same time', async (t) => {
    const names = ['race', 'Race', 'RACE', 'rAce', 'raCe', 'racE', ' race', 'RACe']
    const replies = await Promise.all(
      names.map((name) => service.call('createTag', { token, body: { name } })),
    )
    t.strictSame(countStatuses(replies), { 201: 1, 409: 7 })
  })

  t.test('Idempotency-Key: a repeat gets the first response, even after the tag was deleted', async (t) => {
    const request: Call = { token, body: { name: 'again' }, headers: { 'idempotency-key': 'again' } }
    const first = await service.expect('createTag', 201, request)
    const repeat = async () => {
      const second = await service.expect('createTag', 201, request)
      t.equal(second.headers.get('idempotency-replayed'), 'true')
      t.strictSame(second.body, first.body)
      for (const name of ['location', 'etag']) t.equal(second.headers.get(name), first.headers.get(name))
    }
    await repeat()
    await service.expect('deleteTag', 204, { token, params: { tag_id: first.body.id } })
    await repeat()
    t.notOk((await namesSeenBy(owner)).includes('again'))
  })

  t.test('Idempotency-Key: a rejection is not stored', async (t) => {
    const { id } = await createTag(owner, 'in the way')
    const request: Call = { token, body: { name: 'in the way' }, headers: { 'idempotency-key': 'refused' } }
    await service.expect('createTag', 409, request)
    await service.expect('deleteTag', 204, { token, params: { tag_id: id } })
    const { headers } = await service.expect('createTag', 201, request)
    t.equal(headers.get('idempotency-replayed'), null)
  })
})

const namesSeenBy = async ({ token }: Account, query: Call['query'] & object = {}): Promise<string[]> => {
  const { body } = await service.expect('listTags', 200, { token, query: { limit: 200, ...query } })
  return body.items.map(({ name }) => name)
}

t.test('listTags', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('list')
  const carried = await createTag(owner, 'carried')
  const hidden = await createTag(owner, 'hidden')
  const theirs = await createTag(assignee, 'theirs')
  const task = await createTask(owner, { assignee_id: assignee.id, tag_ids: [carried.id] })

  t.test('200: own tags and tags of visible tasks, newest first', async (t) => {
    const { body, headers } = await service.expect('listTags', 200, { token: owner.token })
    t.strictSame(body, {
      items: [
        { ...hidden, task_count: 0 },
        { ...carried, task_count: 1 },
      ],
      next_cursor: null,
      prev_cursor: null,
      total: null,
    })
    t.equal(headers.get('link'), '</tags?limit=50>; rel="first"')
    t.strictSame(await namesSeenBy(assignee), ['theirs', 'carried'])
    t.strictSame(await namesSeenBy(stranger), [])
  })

  t.test("200: an administrator's own tags, or everybody's with all=true", async (t) => {
    const own = await createTag(admin, 'of the administrator')
    t.strictSame(await namesSeenBy(admin), [own.name])
    const all = await namesSeenBy(admin, { all: true })
    for (const name of ['carried', 'hidden', 'theirs', own.name]) t.ok(all.includes(name), name)
    await service.expect('deleteTag', 204, { token: admin.token, params: { tag_id: own.id } })
  })

  t.test('200: a tag of several visible tasks is listed and counted once', async (t) => {
    await createTask(owner, { assignee_id: assignee.id, tag_ids: [carried.id] })
    const { body } = await service.expect('listTags', 200, {
      token: assignee.token,
      query: { include_total: true },
    })
    t.strictSame(body.items, [
      { ...theirs, task_count: 0 },
      { ...carried, task_count: 2 },
    ])
    t.equal(body.total, 2)
    t.equal(await countTags(stranger), 0)
  })

  t.test('200: task_count includes the tasks that the caller can see', async (t) => {
    const countsSeenBy = async ({ token }: Account, all = false) => {
      const { body } = await service.expect('listTags', 200, { token, query: { q: 'ARR', all } })
      return body.items.map(({ name, task_count }) => [name, task_count])
    }
    await createTask(owner, { tag_ids: [carried.id] })
    await createTask(owner, { assignee_id: owner.id, tag_ids: [carried.id, hidden.id] })
    t.strictSame(await countsSeenBy(owner), [['carried', 4]])
    t.strictSame(await countsSeenBy(assignee), [['carried', 2]])
    t.strictSame(await countsSeenBy(admin, true), [['carried', 4]])
    t.strictSame(await countsSeenBy(admin), [])
    await createTask(owner, { assignee_id: admin.id, tag_ids: [carried.id] })
    t.strictSame(await countsSeenBy(admin), [['carried', 1]])
    t.strictSame(await countsSeenBy(stranger), [])
  })

  t.test('200: excludes tags of tasks that the caller can no longer see', async (t) => {
    const { token } = owner
    const visitor = await service.register('visitor')
    const visit = await createTask(owner, { assignee_id: visitor.id, tag_ids: [hidden.id] })
    t.strictSame(await namesSeenBy(visitor), ['hidden'])
    await service.expect('updateTask', 200, {
      token,
      params: { task_id: visit.id },
      body: { assignee_id: null },
    })
    t.strictSame(await namesSeenBy(visitor), [])
    t.equal(task.tags.length, 1)
  })
})

t.test('getTag', async (t) => {
  const { owner, assignee } = await peopleOf('get')
  const tag = await createTag(owner, 'seen')
  const task = await createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
  const params = { tag_id: tag.id }

  t.test('200 for its owner, users who see a task with it, and administrators', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      const { body, headers } = await service.expect('getTag', 200, { token, params })
      t.strictSame(body, tag)
      t.equal(headers.get('cache-control'), 'private, no-cache')
    }
    const upper = await service.expect('getTag', 200, {
      token: owner.token,
      params: { tag_id: tag.id.toUpperCase() },
    })
    const lower = await service.expect('getTag', 200, { token: owner.token, params })
    t.equal(upper.headers.get('etag'), lower.headers.get('etag'))
  })

  t.test('404 after the tag was removed from the task through which it was seen', async () => {
    await service.expect('removeTaskTag', 204, {
      token: owner.token,
      params: { task_id: task.id, tag_id: tag.id },
    })
    await service.expect('getTag', 404, { token: assignee.token, params })
    await service.expect('getTag', 200, { token: owner.token, params })
  })
})

t.test('deleteTag', async (t) => {
  const { owner, assignee } = await peopleOf('delete')
  const { token } = owner
  const request = ({ id }: Tag, more: Call = {}): Call => ({ token, params: { tag_id: id }, ...more })

  t.test('204 for its owner and administrators: removes it from every task', async (t) => {
    for (const account of [owner, admin]) {
      const [tag, other] = [await createTag(owner, 'gone'), await createTag(owner, `other ${account.id}`)]
      const tasks = [
        await createTask(owner, { tag_ids: [tag.id, other.id] }),
        await createTask(owner, { tag_ids: [tag.id] }),
      ]
      await service.expect('deleteTag', 204, request(tag, { token: account.token }))
      await service.expect('getTag', 404, request(tag))
      await service.expect('deleteTag', 404, request(tag))
      const after = await Promise.all(tasks.map(({ id }) => readTask(owner, id)))
      t.strictSame(
        after.map(({ task }) => task.tags),
        [[other], []],
      )
      t.strictSame(
        after.map(({ etag }) => etag),
        ['"2.2"', '"2.2"'],
      )
    }
  })

  t.test('204 if If-Match matches the ETag', async (t) => {
    for (const makeTags of [(etag: string) => `"x", ${etag}`, () => '*']) {
      const tag = await createTag(owner, 'matched')
      const etag = (await service.expect('getTag', 200, request(tag))).headers.get('etag') ?? ''
      await service.expect('deleteTag', 204, request(tag, { headers: { 'if-match': makeTags(etag) } }))
      t.equal((await service.call('getTag', request(tag))).status, 404)
    }
  })

  t.test('403 for users who only see it on a task, including the owner of the task', async (t) => {
    const tag = await createTag(owner, 'foreign')
    const task = await createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
    await service.expect('deleteTag', 403, request(tag, { token: assignee.token }))
    const otherETag = { token: assignee.token, headers: { 'if-match': '"x"' } }
    await service.expect('deleteTag', 403, request(tag, otherETag))

    const guest = await createTag(assignee, 'guest')
    await service.expect('addTaskTag', 204, {
      token: assignee.token,
      params: { task_id: task.id, tag_id: guest.id },
    })
    await service.expect('deleteTag', 403, request(guest))
    t.strictSame((await readTask(owner, task.id)).task.tags, [tag, guest])
  })

  t.test('412 if If-Match does not match the ETag, or is weak', async (t) => {
    const tag = await createTag(owner, 'stale')
    const etag = (await service.expect('getTag', 200, request(tag))).headers.get('etag') ?? ''
    for (const tags of ['"x"', `W/${etag}`]) {
      await service.expect('deleteTag', 412, request(tag, { headers: { 'if-match': tags } }))
    }
    t.strictSame((await service.expect('getTag', 200, request(tag))).body, tag)
  })

  t.test('at the same time as additions to tasks: nothing fails, and no task keeps the tag', async (t) => {
    for (let round = 0; round < 20; round += 1) {
      const tag = await createTag(owner, `contested ${round}`)
      const tasks = [
        await createTask(owner, { tag_ids: [tag.id] }),
        await createTask(owner),
        await createTask(owner),
      ]
      const link = (task_id: string) =>
        service.call('addTaskTag', { token, params: { task_id, tag_id: tag.id } })
      const [deleted, ...linked] = await Promise.all([
        service.call('deleteTag', request(tag)),
        ...tasks.map(({ id }) => link(id)),
        service.call('createTask', { token, body: { title: 'x', tag_ids: [tag.id] } }),
      ])
      t.equal(deleted.status, 204)
      for (const { status } of linked) t.ok([201, 204, 404, 422].includes(status), `status ${status}`)
      for (const { id } of tasks) t.strictSame((await readTask(owner, id)).task.tags, [])
    }
  })
})
