import t from 'tap'
import { eventually } from '../fixture/eventually.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { countStatuses, type Task, taskActions } from '../fixture/tasks.ts'
import { openTestStorage } from '../fixture/storage.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'

const { storage, keys } = await openTestStorage(t)
const service = await startService(t, { storage })
const { attachFile, createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')

const requestFor = ({ token }: Account, { id }: Pick<Task, 'id'>, options: Call = {}): Call => ({
  token,
  params: { task_id: id },
  ...options,
})

const ifMatch = (etag: string | null): Call => ({ headers: { 'if-match': etag ?? '' } })

const trash = (account: Account, task: Task) => service.expect('deleteTask', 204, requestFor(account, task))

const idsIn = async (
  operation: 'listTrashedTasks' | 'listTasks' | 'listTags',
  { token }: Account,
  query: Call['query'] = {},
): Promise<string[]> =>
  (await service.expect(operation, 200, { token, query })).body.items.map(({ id }) => id)

const tagCountOf = async ({ token, id }: Account): Promise<number | undefined> => {
  const query = { q: 'kept', limit: 1, ...(id === admin.id && { all: true }) }
  return (await service.expect('listTags', 200, { token, query })).body.items[0]?.task_count
}

const totalOf = async (
  operation: 'listTrashedTasks' | 'listTasks',
  { token }: Account,
): Promise<number | null> =>
  (await service.expect(operation, 200, { token, query: { include_total: true } })).body.total

/** A task with an assignee, a tag and an attachment, and another task of its owner. */
const fullTask = async (name: string) => {
  const people = await peopleOf(name)
  const { owner, assignee } = people
  const tag = await createTag(owner, 'kept')
  const kept = await createTask(owner, { title: 'Kept' })
  const { id } = await createTask(owner, { title: 'Deleted', assignee_id: assignee.id, tag_ids: [tag.id] })
  const attachmentId = await attachFile(owner, id)
  const { task, etag } = await readTask(owner, id)
  return { ...people, task, etag, tag, kept, attachmentId }
}

t.test('deleteTask moves a task to the trash', async (t) => {
  const { owner, assignee, task, tag, kept, attachmentId } = await fullTask('moved')
  const { token } = owner
  await trash(owner, task)

  t.test('it is in no list, tag or count, and it and its attachment cannot be found', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      await service.expect('getTask', 404, requestFor({ ...owner, token }, task))
      for (const operation of ['downloadAttachment', 'deleteAttachment'] as const)
        await service.expect(operation, 404, { token, params: { attach_id: attachmentId } })
    }
    t.strictSame(await idsIn('listTasks', owner), [kept.id])
    t.equal(await totalOf('listTasks', owner), 1)
    t.strictSame(await idsIn('listTasks', assignee), [])
    const { body } = await service.expect('listUserTasks', 200, {
      token: admin.token,
      params: { user_id: owner.id },
      query: { include_total: true },
    })
    t.equal(body.total, 1)
    t.strictSame(await idsIn('listTags', assignee), [], 'the assignee no longer sees its tag')
    t.strictSame(await idsIn('listTags', owner), [tag.id])
    for (const person of [owner, admin]) t.equal(await tagCountOf(person), 0, 'it is not counted')
    await service.expect('getTag', 404, { token: assignee.token, params: { tag_id: tag.id } })
  })

  t.test('filters do not find it, and its attachment is kept', async (t) => {
    const query = { q: 'Deleted', tag_id: [tag.id] }
    t.strictSame((await service.expect('listTasks', 200, { token, query })).body.items, [])
    const files = await service.deps.db.run('select from attachments where id = $1', [attachmentId])
    t.equal(files.length, 1)
  })
})

t.test('listTrashedTasks', async (t) => {
  const { owner, assignee, stranger, task } = await fullTask('listed')
  const other = await createTask(owner, { title: 'Deleted too' })
  await trash(owner, task)
  await trash(admin, other)

  t.test('200 for users who could delete the tasks', async (t) => {
    t.strictSame(await idsIn('listTrashedTasks', owner), [other.id, task.id])
    t.equal(await totalOf('listTrashedTasks', owner), 2)
    for (const person of [assignee, stranger]) t.strictSame(await idsIn('listTrashedTasks', person), [])
    t.strictSame(
      await idsIn('listTrashedTasks', admin),
      [],
      'an administrator who has deleted a task, and owns none',
    )
    t.ok((await idsIn('listTrashedTasks', admin, { all: true })).includes(task.id))
  })

  t.test('200: tasks have deleted_at, a new version, and otherwise the same fields', async (t) => {
    const { body } = await service.expect('listTrashedTasks', 200, { token: owner.token })
    const item = body.items.find(({ id }) => id === task.id)
    if (item === undefined) throw new Error('The list does not have the task')
    const { deleted_at, version, revision, updated_at, ...fields } = item
    t.match(task, fields)
    t.match({ version, revision }, { version: task.version + 1, revision: task.revision + 1 })
    t.ok(Date.parse(deleted_at) >= Date.parse(task.updated_at))
    t.ok(Date.parse(updated_at) >= Date.parse(deleted_at))
  })
})

t.test('getTrashedTask', async (t) => {
  const { owner, task } = await fullTask('got')
  await trash(owner, task)

  t.test('200, or 304 if If-None-Match has the ETag', async (t) => {
    const { body, headers } = await service.expect('getTrashedTask', 200, requestFor(owner, task))
    t.match(body, { id: task.id, title: task.title, tags: task.tags, attachment_count: 1 })
    t.equal(headers.get('etag'), `"${body.version}.${body.revision}"`)
    const unchanged = { headers: { 'if-none-match': headers.get('etag') ?? '' } }
    await service.expect('getTrashedTask', 304, requestFor(owner, task, unchanged))
  })
})

t.test('restoreTask', async (t) => {
  t.test('200: restores the whole task, with a new ETag', async (t) => {
    const { owner, assignee, task, etag, tag, kept, attachmentId } = await fullTask('restored')
    await trash(owner, task)
    const trashed = await service.expect('getTrashedTask', 200, requestFor(owner, task))
    const { body, headers } = await service.expect('restoreTask', 200, requestFor(owner, task))
    const { version, revision: _, updated_at, ...fields } = task
    t.match(body, fields)
    t.notOk('deleted_at' in body)
    t.ok(body.version > version && Date.parse(body.updated_at) >= Date.parse(updated_at))
    t.notOk([etag, trashed.headers.get('etag')].includes(headers.get('etag')))
    t.strictSame(await readTask(assignee, task.id), { task: body, etag: headers.get('etag') })
    t.strictSame(await idsIn('listTasks', owner), [task.id, kept.id])
    t.strictSame(await idsIn('listTags', assignee), [tag.id])
    for (const person of [owner, assignee, admin]) t.equal(await tagCountOf(person), 1)
    const file = await service.expect('downloadAttachment', 200, {
      token: assignee.token,
      params: { attach_id: attachmentId },
    })
    t.equal(Buffer.from(file.body as unknown as Uint8Array).toString(), 'hello')
    t.strictSame(await idsIn('listTrashedTasks', owner), [])
    await service.expect('restoreTask', 404, requestFor(owner, task))
  })

  t.test('200: a tag and an assignee that were deleted in the meantime are not restored', async (t) => {
    const { owner, assignee, task, tag } = await fullTask('meantime')
    await trash(owner, task)
    await service.expect('deleteTag', 204, { token: owner.token, params: { tag_id: tag.id } })
    await service.expect('deleteUser', 204, { token: assignee.token, params: { user_id: assignee.id } })
    const { body } = await service.expect('restoreTask', 200, requestFor(owner, task))
    t.match(body, { tags: [], assignee_id: null, attachment_count: 1 })
    t.strictSame((await readTask(owner, task.id)).task, body)
  })

  t.test('412 for the ETag from before the deletion', async () => {
    const { owner, task, etag } = await fullTask('stale')
    await trash(owner, task)
    const { headers } = await service.expect('getTrashedTask', 200, requestFor(owner, task))
    await service.expect('restoreTask', 412, requestFor(owner, task, ifMatch(etag)))
    await service.expect('getTask', 404, requestFor(owner, task))
    await service.expect('restoreTask', 200, requestFor(owner, task, ifMatch(headers.get('etag'))))
  })
})

t.test('deleteTrashedTask', async (t) => {
  t.test('204: the task is permanently deleted, and its file is removed', async (t) => {
    const before = await keys()
    const { owner, task } = await fullTask('gone')
    await trash(owner, task)
    const { headers } = await service.expect('getTrashedTask', 200, requestFor(owner, task))
    await service.expect('deleteTrashedTask', 204, requestFor(owner, task, ifMatch(headers.get('etag'))))
    for (const operation of ['getTrashedTask', 'restoreTask', 'deleteTrashedTask', 'getTask'] as const)
      await service.expect(operation, 404, requestFor(owner, task))
    await eventually('the file is removed', async () => String(await keys()) === String(before))
    t.strictSame(await idsIn('listTrashedTasks', owner), [])
  })

  t.test('404 for a task that is not in the trash, 412 for the ETag from before the deletion', async () => {
    const { owner, task, etag, kept } = await fullTask('not-gone')
    await trash(owner, task)
    for (const operation of ['restoreTask', 'deleteTrashedTask'] as const)
      await service.expect(operation, 404, requestFor(owner, kept))
    await service.expect('deleteTrashedTask', 412, requestFor(owner, task, ifMatch(etag)))
    await service.expect('restoreTask', 200, requestFor(owner, task))
  })
})

t.test('the tasks of a deleted user are deleted, including those in the trash', async () => {
  const before = await keys()
  const { owner, task } = await fullTask('leaving')
  await trash(owner, task)
  await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
  await service.expect('getTrashedTask', 404, requestFor(admin, task))
  await eventually('the file is removed', async () => String(await keys()) === String(before))
})

t.test('tasks are permanently deleted after 30 days in the trash', async (t) => {
  const { db, config } = service.deps
  const { owner, task, kept } = await fullTask('old')
  const files = await keys()
  const young = await createTask(owner, { title: 'Younger' })
  for (const one of [task, young]) await trash(owner, one)
  await db.run(`update tasks set deleted_at = now() - interval '30 days 1 minute' where id = $1`, [task.id])
  await db.run(`update tasks set deleted_at = now() - interval '29 days 23 hours' where id = $1`, [young.id])
  t.equal(config.trashDays, 30, 'the default retention')
  await runJobs(jobDepsOf(service))
  t.strictSame(await idsIn('listTrashedTasks', owner), [young.id])
  t.equal((await keys()).length, files.length - 1, 'its file is removed in the same run')
  await service.expect('restoreTask', 200, requestFor(owner, young))
  await service.expect('getTask', 200, requestFor(owner, kept))
})

t.test('requests at the same time', async (t) => {
  t.test('a task is deleted and restored once', async (t) => {
    const { owner, task } = await fullTask('race')
    const ten = <T>(act: () => Promise<T>) => Promise.all(Array.from({ length: 10 }, act))
    t.strictSame(countStatuses(await ten(() => service.call('deleteTask', requestFor(owner, task)))), {
      204: 1,
      404: 9,
    })
    t.strictSame(countStatuses(await ten(() => service.call('restoreTask', requestFor(owner, task)))), {
      200: 1,
      404: 9,
    })
  })

  t.test('a task is restored or permanently deleted, never both', async (t) => {
    for (let n = 0; n < 5; n += 1) {
      const { owner, task } = await fullTask(`either-${n}`)
      await trash(owner, task)
      const [restored, deleted] = await Promise.all([
        service.call('restoreTask', requestFor(owner, task)),
        service.call('deleteTrashedTask', requestFor(owner, task)),
      ])
      const { status } = await service.call('getTask', requestFor(owner, task))
      t.strictSame(
        [restored.status, deleted.status, status].join(),
        status === 200 ? '200,404,200' : '404,204,404',
      )
    }
  })

  t.test('a task that is changed and deleted is in the trash with the change, or without it', async (t) => {
    const { owner, task } = await fullTask('changed')
    const [, ...changes] = await Promise.all([
      trash(owner, task),
      ...['a', 'b', 'c'].map((title) =>
        service.call('updateTask', requestFor(owner, task, { body: { title } })),
      ),
    ])
    const done = changes.filter(({ status }) => status === 200).map(({ body }) => (body as Task).title)
    t.notOk(changes.some(({ status }) => ![200, 404].includes(status)))
    const { body } = await service.expect('getTrashedTask', 200, requestFor(owner, task))
    t.ok([...done, task.title].includes(body.title))
  })
})
