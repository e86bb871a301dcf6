import t from 'tap'
import { type Call, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, taskActions, unknownId, withoutRequest } from '../fixture/tasks.ts'

const service = await startService(t)
const { createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')

t.test('addTaskTag', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('add')
  const { token } = owner
  const task = await createTask(owner, { assignee_id: assignee.id })
  const tag = await createTag(owner, 'tag')
  const request = (more: Call = {}): Call => ({
    token,
    params: { task_id: task.id, tag_id: tag.id },
    ...more,
  })

  t.test('204: and 204 again, which changes nothing', async (t) => {
    const fresh = await createTask(owner)
    const params = { task_id: fresh.id, tag_id: tag.id }
    await service.expect('addTaskTag', 204, request({ params }))
    const after = await readTask(owner, fresh.id)
    t.strictSame(after.task.tags, [tag])
    t.equal(after.etag, '"2"')
    await service.expect('addTaskTag', 204, request({ params }))
    const upper = { task_id: fresh.id.toUpperCase(), tag_id: tag.id.toUpperCase() }
    await service.expect('addTaskTag', 204, request({ params: upper }))
    t.strictSame(await readTask(owner, fresh.id), after)
  })

  t.test('204: by owner, assignee and administrator, each with a tag of their own', async (t) => {
    const shared = await createTask(owner, { assignee_id: assignee.id })
    const tags = []
    for (const account of [owner, assignee, admin]) {
      const own = await createTag(account, `of ${account.user.username}`)
      const params = { task_id: shared.id, tag_id: own.id }
      await service.expect('addTaskTag', 204, { token: account.token, params })
      tags.push(own)
    }
    const byName = tags.toSorted((a, b) => (a.name < b.name ? -1 : 1))
    t.strictSame((await readTask(owner, shared.id)).task.tags, byName)
  })

  t.test('204: with a tag of another that is seen on another task', async (t) => {
    const seen = await createTag(owner, 'seen elsewhere')
    await createTask(owner, { assignee_id: assignee.id, tag_ids: [seen.id] })
    const own = await createTask(assignee)
    const params = { task_id: own.id, tag_id: seen.id }
    await service.expect('addTaskTag', 204, { token: assignee.token, params })
    t.strictSame((await readTask(assignee, own.id)).task.tags, [seen])
  })

  t.test('204: an empty body of whatever type', async () => {
    for (const type of ['application/json', 'text/plain', 'application/octet-stream']) {
      await service.expect('addTaskTag', 204, request({ headers: { 'content-type': type } }))
      await service.expect('addTaskTag', 204, request({ headers: { 'content-type': type }, body: '' }))
    }
  })

  t.test('204: twenty at once put it on once', async (t) => {
    const fresh = await createTask(owner)
    const params = { task_id: fresh.id, tag_id: tag.id }
    await Promise.all(
      Array.from({ length: 20 }, () => service.expect('addTaskTag', 204, request({ params }))),
    )
    const { task: after } = await readTask(owner, fresh.id)
    t.strictSame(after.tags, [tag])
    t.equal(after.version, 2)
  })

  t.test('400: malformed ids, a query, a body', async (t) => {
    for (const name of ['task_id', 'tag_id']) {
      const params = { task_id: task.id, tag_id: tag.id, [name]: 'x' }
      const { body } = await service.expect('addTaskTag', 400, request({ params }))
      t.strictSame(pointersOf(body), [`/${name}`])
    }
    await service.expect('addTaskTag', 400, request({ query: 'x=1' }))
    await service.expect('addTaskTag', 400, request({ body: {} }))
    await service.expect('addTaskTag', 400, request({ body: 'x', headers: { 'content-type': 'text/plain' } }))
  })

  t.test('401', async () => {
    await service.expect('addTaskTag', 401, { params: { task_id: task.id, tag_id: tag.id } })
  })

  t.test('404: a task or tag that is not there, or not to be seen; all alike', async (t) => {
    const foreign = await createTag(stranger, 'foreign')
    const closed = await createTask(stranger)
    const before = await readTask(owner, task.id)
    const problems = []
    for (const params of [
      { task_id: task.id, tag_id: unknownId },
      { task_id: unknownId, tag_id: tag.id },
      { task_id: task.id, tag_id: foreign.id },
      { task_id: closed.id, tag_id: tag.id },
      { task_id: tag.id, tag_id: task.id },
    ]) {
      problems.push(withoutRequest((await service.expect('addTaskTag', 404, request({ params }))).body))
    }
    await service.expect('addTaskTag', 404, request({ token: stranger.token }))
    for (const problem of problems) t.strictSame(problem, problems[0])
    t.strictSame(await readTask(owner, task.id), before)
    t.strictSame((await readTask(stranger, closed.id)).task, closed)
  })
})

t.test('removeTaskTag', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('remove')
  const { token } = owner
  const tag = await createTag(owner, 'tag')
  const tagged = () => createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
  const request = (task_id: string, more: Call = {}): Call => ({
    token,
    params: { task_id, tag_id: tag.id },
    ...more,
  })

  t.test('204: by owner, assignee and administrator; 404 the second time', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      const task = await tagged()
      await service.expect('removeTaskTag', 204, request(task.id, { token }))
      const after = await readTask(owner, task.id)
      t.strictSame(after.task.tags, [])
      t.equal(after.etag, '"2"')
      await service.expect('removeTaskTag', 404, request(task.id, { token }))
      t.strictSame(await readTask(owner, task.id), after)
    }
    await service.expect('getTag', 200, { token, params: { tag_id: tag.id } })
  })

  t.test('204: a tag of another', async (t) => {
    const task = await createTask(owner, { assignee_id: assignee.id })
    const theirs = await createTag(assignee, 'theirs')
    const params = { task_id: task.id, tag_id: theirs.id }
    await service.expect('addTaskTag', 204, { token: assignee.token, params })
    await service.expect('removeTaskTag', 204, { token, params })
    t.strictSame((await readTask(owner, task.id)).task.tags, [])
    await service.expect('getTag', 200, { token: assignee.token, params: { tag_id: theirs.id } })
  })

  t.test('204: If-Match with the ETag of the task', async (t) => {
    for (const tags of ['"1"', '"7", "1"', '*']) {
      const task = await tagged()
      await service.expect('removeTaskTag', 204, request(task.id, { headers: { 'if-match': tags } }))
      t.strictSame((await readTask(owner, task.id)).task.tags, [])
    }
  })

  t.test('204: twenty at once take it off once', async (t) => {
    const task = await tagged()
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => service.call('removeTaskTag', request(task.id))),
    )
    t.strictSame(countStatuses(replies), { 204: 1, 404: 19 })
    t.equal((await readTask(owner, task.id)).task.version, 2)
  })

  t.test('400: malformed ids or ETag, a query, a body', async (t) => {
    const task = await tagged()
    for (const name of ['task_id', 'tag_id']) {
      const params = { task_id: task.id, tag_id: tag.id, [name]: 'x' }
      const { body } = await service.expect('removeTaskTag', 400, request(task.id, { params }))
      t.strictSame(pointersOf(body), [`/${name}`])
    }
    await service.expect('removeTaskTag', 400, request(task.id, { headers: { 'if-match': '1' } }))
    await service.expect('removeTaskTag', 400, request(task.id, { query: 'x=1' }))
    await service.expect('removeTaskTag', 400, request(task.id, { body: {} }))
    t.strictSame((await readTask(owner, task.id)).task, task)
  })

  t.test('401', async () => {
    const { id } = await tagged()
    await service.expect('removeTaskTag', 401, { params: { task_id: id, tag_id: tag.id } })
  })

  t.test('404: a foreign task, an unknown one, a tag that it does not carry; all alike', async (t) => {
    const task = await tagged()
    const other = await createTag(owner, 'not on it')
    const problems = [
      await service.expect('removeTaskTag', 404, request(task.id, { token: stranger.token })),
      await service.expect('removeTaskTag', 404, request(unknownId)),
      await service.expect(
        'removeTaskTag',
        404,
        request(task.id, { params: { task_id: task.id, tag_id: unknownId } }),
      ),
      await service.expect(
        'removeTaskTag',
        404,
        request(task.id, { params: { task_id: task.id, tag_id: other.id } }),
      ),
      await service.expect('removeTaskTag', 404, {
        ...request(task.id, { params: { task_id: task.id, tag_id: other.id } }),
        headers: { 'if-match': '"7"' },
      }),
    ].map(({ body }) => withoutRequest(body))
    for (const problem of problems) t.strictSame(problem, problems[0])
    t.strictSame((await readTask(owner, task.id)).task, task)
  })

  t.test('412: the task has changed', async (t) => {
    const task = await tagged()
    const tagsETag =
      (await service.expect('getTag', 200, { token, params: { tag_id: tag.id } })).headers.get('etag') ?? ''
    for (const tags of ['"2"', 'W/"1"', tagsETag]) {
      await service.expect('removeTaskTag', 412, request(task.id, { headers: { 'if-match': tags } }))
    }
    t.strictSame((await readTask(owner, task.id)).task, task)
  })
})

t.test('the ETag of the task in an answer', async (t) => {
  const { owner } = await peopleOf('etag')
  const { token } = owner
  const [red, blue] = [await createTag(owner, 'red'), await createTag(owner, 'blue')]
  const task = await createTask(owner)
  const linkOf = (tag: { readonly id: string }) => ({ token, params: { task_id: task.id, tag_id: tag.id } })

  t.test('takes the next change without a read in between', async (t) => {
    const { headers: added } = await service.expect('addTaskTag', 204, linkOf(red))
    t.equal(added.get('etag'), (await readTask(owner, task.id)).etag)
    const { headers: again } = await service.expect('addTaskTag', 204, linkOf(red))
    t.equal(again.get('etag'), added.get('etag'), 'a tag that it has changes nothing')
    const conditional = { headers: { 'if-match': added.get('etag') ?? '' } }
    const { headers: removed } = await service.expect('removeTaskTag', 204, {
      ...linkOf(red),
      ...conditional,
    })
    t.equal(removed.get('etag'), (await readTask(owner, task.id)).etag)
    await service.expect('updateTask', 200, {
      token,
      params: { task_id: task.id },
      headers: { 'if-match': removed.get('etag') ?? '' },
      body: { title: 'Next' },
    })
  })

  t.test('belongs to one change each when they race', async (t) => {
    const { version } = (await readTask(owner, task.id)).task
    const etags: string[] = []
    const change = async (tag: { readonly id: string }, number: number) => {
      for (let round = 0; round < 5; round += 1) {
        for (const operation of ['addTaskTag', 'removeTaskTag'] as const)
          etags.push((await service.expect(operation, 204, linkOf(tag))).headers.get('etag') ?? '')
        const body = { title: `${number}.${round}` }
        await service.expect('updateTask', 200, { token, params: { task_id: task.id }, body })
      }
    }
    await Promise.all([red, blue].map(change))
    t.equal(new Set(etags).size, 20)
    const { version: last } = (await readTask(owner, task.id)).task
    t.equal(last, version + 30)
    for (const etag of etags)
      t.ok(Number(etag.slice(1, -1)) > version && Number(etag.slice(1, -1)) <= last, etag)
  })
})

t.test('listTaskTags', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('list')
  const tags = [
    await createTag(owner, 'z'),
    await createTag(owner, 'a'),
    await createTag(owner, 'm'),
  ] as const
  const tag_ids = [tags[1].id, tags[0].id, tags[2].id]
  const task = await createTask(owner, { assignee_id: assignee.id, tag_ids })
  const bare = await createTask(owner)
  const params = { task_id: task.id }

  t.test('200: newest first, for everybody who sees the task', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      const { body, headers } = await service.expect('listTaskTags', 200, { token, params })
      t.strictSame(body, { items: tags.toReversed(), next_cursor: null, prev_cursor: null, total: null })
      t.equal(headers.get('link'), `</tasks/${task.id}/tags?limit=50>; rel="first"`)
    }
  })

  t.test('200: none', async (t) => {
    const { body } = await service.expect('listTaskTags', 200, {
      token: owner.token,
      params: { task_id: bare.id },
      query: { include_total: true },
    })
    t.strictSame(body, { items: [], next_cursor: null, prev_cursor: null, total: 0 })
  })

  t.test('200: past the end', async (t) => {
    const query = { offset: 3, include_total: true }
    const { body } = await service.expect('listTaskTags', 200, { token: owner.token, params, query })
    t.strictSame(body, { items: [], next_cursor: null, prev_cursor: null, total: 3 })
  })

  t.test('200: HEAD', async (t) => {
    t.equal(
      (await service.expect('listTaskTags', 200, { token: owner.token, params, method: 'HEAD' })).body,
      null,
    )
  })

  t.test('400', async () => {
    const { token } = owner
    await service.expect('listTaskTags', 400, { token, params: { task_id: 'x' } })
    await service.expect('listTaskTags', 400, { token, params, query: { limit: 0 } })
    await service.expect('listTaskTags', 400, { token, params, query: { status: 'todo' } })
  })

  t.test('401', async () => {
    await service.expect('listTaskTags', 401, { params })
  })

  t.test('404: a foreign task is like one that is not there, with tags or without', async (t) => {
    const { token } = stranger
    const missing = await service.expect('listTaskTags', 404, { token, params: { task_id: unknownId } })
    for (const task_id of [task.id, bare.id]) {
      const foreign = await service.expect('listTaskTags', 404, { token, params: { task_id } })
      t.strictSame(withoutRequest(foreign.body), withoutRequest(missing.body))
    }
    await service.expect('listTaskTags', 404, {
      token,
      params,
      query: { include_total: true, offset: 100_000 },
    })
  })
})
