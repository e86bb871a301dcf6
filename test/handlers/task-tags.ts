import t from 'tap'
import { type Call, startService } from '../fixture/service.ts'
import { countStatuses, taskActions, unknownId, withoutRequest } from '../fixture/tasks.ts'

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

  t.test('204, and a repeat changes nothing', async (t) => {
    const untaggedTask = await createTask(owner)
    const params = { task_id: untaggedTask.id, tag_id: tag.id }
    await service.expect('addTaskTag', 204, request({ params }))
    const after = await readTask(owner, untaggedTask.id)
    t.strictSame(after.task.tags, [tag])
    t.equal(after.etag, '"2.2"')
    await service.expect('addTaskTag', 204, request({ params }))
    const upper = { task_id: untaggedTask.id.toUpperCase(), tag_id: tag.id.toUpperCase() }
    await service.expect('addTaskTag', 204, request({ params: upper }))
    t.strictSame(await readTask(owner, untaggedTask.id), after)
  })

  t.test('204 for owner, assignee and administrator, each with a tag of their own', async (t) => {
    const assigned = await createTask(owner, { assignee_id: assignee.id })
    const tags = []
    for (const account of [owner, assignee, admin]) {
      const own = await createTag(account, `of ${account.user.username}`)
      const params = { task_id: assigned.id, tag_id: own.id }
      await service.expect('addTaskTag', 204, { token: account.token, params })
      tags.push(own)
    }
    const byName = tags.toSorted((a, b) => (a.name < b.name ? -1 : 1))
    t.strictSame((await readTask(owner, assigned.id)).task.tags, byName)
  })

  t.test("204 with another user's tag that is visible on another task", async (t) => {
    const seen = await createTag(owner, 'seen elsewhere')
    await createTask(owner, { assignee_id: assignee.id, tag_ids: [seen.id] })
    const own = await createTask(assignee)
    const params = { task_id: own.id, tag_id: seen.id }
    await service.expect('addTaskTag', 204, { token: assignee.token, params })
    t.strictSame((await readTask(assignee, own.id)).task.tags, [seen])
  })

  t.test('204 for 20 requests at the same time, which add the tag once', async (t) => {
    const fresh = await createTask(owner)
    const params = { task_id: fresh.id, tag_id: tag.id }
    await Promise.all(
      Array.from({ length: 20 }, () => service.expect('addTaskTag', 204, request({ params }))),
    )
    const { task: after } = await readTask(owner, fresh.id)
    t.strictSame(after.tags, [tag])
    t.equal(after.version, 2)
  })

  t.test('404 for unknown and invisible tasks and tags, with the same body', async (t) => {
    const foreign = await createTag(stranger, 'foreign')
    const invisible = await createTask(stranger)
    const before = await readTask(owner, task.id)
    const problems = []
    for (const params of [
      { task_id: task.id, tag_id: unknownId },
      { task_id: unknownId, tag_id: tag.id },
      { task_id: task.id, tag_id: foreign.id },
      { task_id: invisible.id, tag_id: tag.id },
      { task_id: tag.id, tag_id: task.id },
    ]) {
      problems.push(withoutRequest((await service.expect('addTaskTag', 404, request({ params }))).body))
    }
    await service.expect('addTaskTag', 404, request({ token: stranger.token }))
    for (const problem of problems) t.strictSame(problem, problems[0])
    t.strictSame(await readTask(owner, task.id), before)
    t.strictSame((await readTask(stranger, invisible.id)).task, invisible)
  })
})

t.test('removeTaskTag', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('remove')
  const { token } = owner
  const tag = await createTag(owner, 'tag')
  const createTagged = () => createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
  const request = (task_id: string, more: Call = {}): Call => ({
    token,
    params: { task_id, tag_id: tag.id },
    ...more,
  })

  t.test('204 for owner, assignee and administrator, then 404', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      const task = await createTagged()
      await service.expect('removeTaskTag', 204, request(task.id, { token }))
      const after = await readTask(owner, task.id)
      t.strictSame(after.task.tags, [])
      t.equal(after.etag, '"2.2"')
      await service.expect('removeTaskTag', 404, request(task.id, { token }))
      t.strictSame(await readTask(owner, task.id), after)
    }
    await service.expect('getTag', 200, { token, params: { tag_id: tag.id } })
  })

  t.test("204 for another user's tag", async (t) => {
    const task = await createTask(owner, { assignee_id: assignee.id })
    const assigneesTag = await createTag(assignee, 'theirs')
    const params = { task_id: task.id, tag_id: assigneesTag.id }
    await service.expect('addTaskTag', 204, { token: assignee.token, params })
    await service.expect('removeTaskTag', 204, { token, params })
    t.strictSame((await readTask(owner, task.id)).task.tags, [])
    await service.expect('getTag', 200, { token: assignee.token, params: { tag_id: assigneesTag.id } })
  })

  t.test('204 for one of 20 requests at the same time, 404 for the others', async (t) => {
    const task = await createTagged()
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => service.call('removeTaskTag', request(task.id))),
    )
    t.strictSame(countStatuses(replies), { 204: 1, 404: 19 })
    t.equal((await readTask(owner, task.id)).task.version, 2)
  })

  t.test('404 for invisible and unknown tasks, and tags not on the task, with the same body', async (t) => {
    const task = await createTagged()
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
})

t.test('the ETag of the task in responses', async (t) => {
  const { owner } = await peopleOf('etag')
  const { token } = owner
  const [red, blue] = [await createTag(owner, 'red'), await createTag(owner, 'blue')]
  const task = await createTask(owner)
  const linkOf = (tag: { readonly id: string }) => ({ token, params: { task_id: task.id, tag_id: tag.id } })

  t.test('can be used for the next change without a read', async (t) => {
    const { headers: added } = await service.expect('addTaskTag', 204, linkOf(red))
    t.equal(added.get('etag'), `"${(await readTask(owner, task.id)).task.version}"`)
    const { headers: again } = await service.expect('addTaskTag', 204, linkOf(red))
    t.equal(again.get('etag'), added.get('etag'), 'a tag that the task has changes nothing')
    const conditional = { headers: { 'if-match': added.get('etag') ?? '' } }
    const { headers: removed } = await service.expect('removeTaskTag', 204, {
      ...linkOf(red),
      ...conditional,
    })
    t.equal(removed.get('etag'), `"${(await readTask(owner, task.id)).task.version}"`)
    await service.expect('updateTask', 200, {
      token,
      params: { task_id: task.id },
      headers: { 'if-match': removed.get('etag') ?? '' },
      body: { title: 'Next' },
    })
  })

  t.test('is distinct for each of several changes at the same time', async (t) => {
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
  const { owner, assignee } = await peopleOf('list')
  const tags = [
    await createTag(owner, 'z'),
    await createTag(owner, 'a'),
    await createTag(owner, 'm'),
  ] as const
  const tag_ids = [tags[1].id, tags[0].id, tags[2].id]
  const task = await createTask(owner, { assignee_id: assignee.id, tag_ids })
  const untagged = await createTask(owner)
  const params = { task_id: task.id }

  t.test('200 for all users who see the task, newest first', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      const { body, headers } = await service.expect('listTaskTags', 200, { token, params })
      t.strictSame(body, { items: tags.toReversed(), next_cursor: null, prev_cursor: null, total: null })
      t.equal(headers.get('link'), `</tasks/${task.id}/tags?limit=50>; rel="first"`)
    }
  })

  t.test('200: an empty list for a task without tags', async (t) => {
    const { body } = await service.expect('listTaskTags', 200, {
      token: owner.token,
      params: { task_id: untagged.id },
      query: { include_total: true },
    })
    t.strictSame(body, { items: [], next_cursor: null, prev_cursor: null, total: 0 })
  })
})
