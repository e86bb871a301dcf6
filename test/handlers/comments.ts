import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { accountActions } from '../fixture/accounts.ts'
import { readChanges } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, type Task, taskActions, unknownId } from '../fixture/tasks.ts'

type Comment = components['schemas']['Comment']

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)
const { createTask, readTask } = taskActions(service)
const { createProject, setMember, removeMember } = projectActions(service)
const { setArchived } = projectRows(db)
const ada = await service.register('ada')
const viewer = await service.register('viewer')
const commenter = await service.register('commenter')
const editor = await service.register('editor')
const stranger = await service.register('stranger')

/** A task in a project. Everybody but the stranger is a member. */
const newTask = async (): Promise<Task> => {
  const project = await createProject(ada)
  await setMember(ada, project, viewer, 'viewer')
  await setMember(ada, project, commenter, 'commenter')
  await setMember(ada, project, editor, 'editor')
  return createTask(ada, { project_id: project.id })
}

const add = async (task: Task, body = 'A comment', { token }: Account = commenter): Promise<Comment> =>
  (await service.expect('createComment', 201, { token, params: { task_id: task.id }, body: { body } })).body

const list = async (task: Task, query: Call['query'] = {}, { token }: Account = viewer) =>
  (await service.expect('listTaskComments', 200, { token, params: { task_id: task.id }, query })).body

const textsOf = ({ items }: { readonly items: readonly Comment[] }): string =>
  items.map(({ body }) => body).join(' ')

const pathOf = ({ id }: Pick<Comment, 'id'>) => ({ comment_id: id })

const read = async (comment: Pick<Comment, 'id'>, { token }: Account = viewer): Promise<Comment> =>
  (await service.expect('getComment', 200, { token, params: pathOf(comment) })).body

/** The events of the comments of a task: type, actor and values. */
const eventsOf = async (task: Task): Promise<(readonly unknown[])[]> => {
  const rows = await db.run(
    `select type, actor_id, before::text, after::text from events
    where task_id = $1 and type like 'comment.%' order by changed_in, ordinal`,
    [task.id],
  )
  return rows.map(({ type, actor_id, before, after }) => [
    type,
    actor_id,
    JSON.parse(String(before)) as unknown,
    JSON.parse(String(after)) as unknown,
  ])
}

const statusesOf = async (
  operation: 'createComment' | 'updateComment' | 'deleteComment',
  request: Call,
  people: readonly Account[],
): Promise<number[]> => {
  const statuses: number[] = []
  for (const { token } of people) statuses.push((await service.call(operation, { ...request, token })).status)
  return statuses
}

const deleteUser = ({ token, id }: Account) =>
  service.expect('deleteUser', 204, { token, params: { user_id: id } })

t.test('listTaskComments', async (t) => {
  const task = await newTask()
  for (const body of ['a', 'b', 'c', 'd', 'e']) await add(task, body)
  const params = { task_id: task.id }

  t.test('200: oldest or newest first', async (t) => {
    t.equal(textsOf(await list(task)), 'a b c d e')
    t.equal(textsOf(await list(task, { sort: '-created_at' })), 'e d c b a')
  })

  t.test('200: a comment added while paging comes last', async (t) => {
    const other = await newTask()
    for (const body of ['a', 'b']) await add(other, body)
    const first = await list(other, { limit: 2 })
    t.equal(first.next_cursor, null)
    await add(other, 'c')
    t.equal(textsOf(await list(other, { limit: 2, offset: 1 })), 'b c')
  })

  t.test('200: searches text, ignoring case and accents', async (t) => {
    const other = await newTask()
    for (const body of [
      'Crème brûlée',
      'a 100% match',
      'a 1000 match',
      'CREME',
      `far ${'x'.repeat(60_000)} away`,
    ])
      await add(other, body)
    const found = async (q: string) => textsOf(await list(other, { q }))
    t.equal(await found('creme'), 'Crème brûlée CREME')
    t.equal(await found('BRÛLÉE'), 'Crème brûlée')
    t.equal(await found('100%'), 'a 100% match')
    t.equal((await found('away')).length, 60_009)
    t.equal(await found('nothing'), '')
  })

  t.test('200: searches any amount of text, over several pages', async (t) => {
    const other = await newTask()
    for (let n = 1; n <= 12; n += 1)
      await add(other, 'hay '.repeat(15_000) + (n % 4 === 0 ? `Needle ${n}` : ''))
    const found: string[] = []
    let requests = 0
    for (let cursor: string | null = ''; cursor !== null; requests += 1) {
      const page: components['schemas']['CommentList'] = await list(other, {
        q: 'NEEDLE',
        ...(cursor !== '' && { cursor }),
      })
      found.push(...page.items.map(({ body }) => body.replaceAll('hay ', '')))
      cursor = page.next_cursor
    }
    t.strictSame(found, ['Needle 4', 'Needle 8', 'Needle 12'])
    t.ok(requests > 1, 'a request searches a limited number of comments')
  })

  t.test('200: expanded authors', async (t) => {
    const { items } = await list(task, { expand: 'author', limit: 1 })
    t.match(items, [
      { author_id: commenter.id, author: { id: commenter.id, username: 'commenter', email: null } },
    ])
    const { token } = await createApiToken(viewer, { scopes: ['tasks:read', 'users:read'] })
    await service.expect('listTaskComments', 200, { token, params, query: { expand: 'author' } })
  })

  t.test('403: expanding authors requires users:read', async (t) => {
    const { token } = await createApiToken(viewer, { scopes: ['tasks:read'] })
    const request = { token, params, query: { expand: 'author' } }
    const { body } = await service.expect('listTaskComments', 403, request)
    t.equal(body.code, 'insufficient_scope')
  })

  t.test('400: an unknown or repeated sort field', async (t) => {
    const { token } = viewer
    for (const sort of ['edited_at', 'created_at,created_at', '']) {
      const { body } = await service.expect('listTaskComments', 400, { token, params, query: { sort } })
      t.strictSame(pointersOf(body), ['/sort'])
    }
  })
})

t.test('createComment', async (t) => {
  const task = await newTask()
  const params = { task_id: task.id }

  t.test('201: keeps the text unchanged, and increments the comment count of the task', async (t) => {
    const text = '  # Heading\r\n\n<b>not *sanitized*</b>\u0301 `code` \u{1f600}\t\n'
    const request = { token: commenter.token, params, body: { body: text } }
    const { body, headers } = await service.expect('createComment', 201, request)
    const { id, created_at, ...rest } = body
    const expected = {
      task_id: task.id,
      author_id: commenter.id,
      author_name: null,
      body: text,
      mentions: [],
      version: 1,
      revision: 1,
      edited_at: null,
    }
    t.strictSame(rest, expected)
    t.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000)
    t.equal(headers.get('location'), `/comments/${id}`)
    t.equal(headers.get('etag'), '"1"')
    t.strictSame(await read(body), body)
    const { task: changed } = await readTask(viewer, task.id)
    t.match(changed, { comment_count: 1, version: 1, revision: 2 })
    t.equal(headers.get('task-etag'), '"1"')
    t.strictSame(await eventsOf(task), [['comment.created', commenter.id, {}, { body: text }]])
  })

  t.test('201: the task appears in the change feed', async (t) => {
    const other = await newTask()
    const { next_cursor } = await readChanges(service, viewer, { limit: 200 })
    await add(other)
    const { changed } = await readChanges(service, viewer, { since: next_cursor })
    t.match(changed, [{ id: other.id, comment_count: 1, version: 1, revision: 2 }])
  })

  t.test('201: 30 concurrent comments are all counted', async (t) => {
    const other = await newTask()
    const request = { params: { task_id: other.id }, body: { body: 'One of many' } }
    const replies = await Promise.all(
      [ada, commenter, editor].flatMap(({ token }) =>
        Array.from({ length: 10 }, () => service.call('createComment', { ...request, token })),
      ),
    )
    t.strictSame(countStatuses(replies), { 201: 30 })
    const { task: changed } = await readTask(viewer, other.id)
    t.match(changed, { comment_count: 30, version: 1, revision: 31 })
    t.equal((await list(other, { limit: 200 })).items.length, 30)
  })

  t.test('201: 65,536 characters', async () => {
    await add(task, 'ä'.repeat(65_536))
  })

  t.test('409 in an archived project: comments stay readable', async (t) => {
    const other = await newTask()
    const comment = await add(other)
    await setArchived(other.project_id, true)
    const { token } = commenter
    const refused = [
      await service.expect('createComment', 409, {
        token,
        params: { task_id: other.id },
        body: { body: 'No' },
      }),
      await service.expect('updateComment', 409, { token, params: pathOf(comment), body: { body: 'No' } }),
      await service.expect('deleteComment', 409, { token, params: pathOf(comment) }),
    ]
    for (const { body } of refused) t.equal(body.code, 'project_archived')
    t.strictSame((await list(other)).items, [comment])
  })
})

t.test('mentions', async (t) => {
  const task = await newTask()

  t.test('members, assignees and administrators, not strangers', async (t) => {
    const assignee = await service.register('assignee')
    await service.expect('updateTask', 200, {
      token: ada.token,
      params: { task_id: task.id },
      body: { assignee_id: assignee.id },
    })
    const { mentions } = await add(
      task,
      '@ada, @Viewer, @editor. @assignee @admin @stranger @nobody `@commenter` commenter@example.com',
    )
    t.strictSame(mentions.toSorted(), [ada, viewer, editor, assignee, admin].map(({ id }) => id).toSorted())
  })

  t.test('the owner and the assignee of a personal task', async (t) => {
    const personal = await createTask(ada, { assignee_id: editor.id })
    const { mentions } = await add(personal, '@ada @editor @viewer', editor)
    t.strictSame(mentions.toSorted(), [ada.id, editor.id].toSorted())
  })

  t.test('updated when the text changes, and only then', async (t) => {
    const joining = await service.register('joining')
    const comment = await add(task, '@ada and @joining')
    t.strictSame(comment.mentions, [ada.id])
    const { token } = commenter
    const edit = async (body: object) =>
      (await service.expect('updateComment', 200, { token, params: pathOf(comment), body })).body
    await setMember(ada, { id: task.project_id ?? '' }, joining, 'viewer')
    t.strictSame(await edit({ body: '@ada and @joining' }), comment)
    t.strictSame((await edit({ body: '@joining' })).mentions, [joining.id])
    t.strictSame((await edit({})).mentions, [joining.id])
    t.strictSame((await edit({ body: 'nobody' })).mentions, [])
  })

  t.test('no deleted users', async (t) => {
    const gone = await service.register('gone')
    await setMember(ada, { id: task.project_id ?? '' }, gone, 'viewer')
    await deleteUser(gone)
    t.strictSame((await add(task, '@gone')).mentions, [])
  })
})

t.test('getComment', async (t) => {
  const task = await newTask()
  const comment = await add(task)
  const { token } = viewer
  const params = pathOf(comment)

  t.test('404: strangers, and while the task is in the trash', async (t) => {
    await service.expect('getComment', 404, { token: stranger.token, params })
    await service.expect('getComment', 404, { token, params: pathOf({ id: unknownId }) })
    const taskRequest = { token: editor.token, params: { task_id: task.id } }
    await service.expect('deleteTask', 204, taskRequest)
    for (const account of [viewer, commenter, editor, admin])
      await service.expect('getComment', 404, { token: account.token, params })
    t.strictSame(
      await statusesOf('updateComment', { params, body: { body: 'No' } }, [commenter, admin]),
      [404, 404],
    )
    t.strictSame(await statusesOf('deleteComment', { params }, [commenter, admin]), [404, 404])
    t.equal((await service.expect('restoreTask', 200, taskRequest)).body.comment_count, 1)
    t.strictSame(await read(comment), comment)
  })
})

t.test('updateComment', async (t) => {
  const task = await newTask()
  const { token } = commenter

  t.test('200: sets edited_at, and does not change the task; no event if the text stays', async (t) => {
    const comment = await add(task, 'First')
    const { task: before } = await readTask(viewer, task.id)
    const request = {
      token,
      params: pathOf(comment),
      body: { body: 'Second' },
      headers: { 'if-match': '"1"' },
    }
    const { body, headers } = await service.expect('updateComment', 200, request)
    t.strictSame(body, { ...comment, body: 'Second', version: 2, revision: 2, edited_at: body.edited_at })
    t.ok((body.edited_at ?? '') >= comment.created_at)
    t.equal(headers.get('etag'), '"2"')
    t.strictSame(await read(comment), body)
    t.strictSame((await readTask(viewer, task.id)).task, before)
    const events = await eventsOf(task)
    t.strictSame(events.at(-1), ['comment.updated', commenter.id, { body: 'First' }, { body: 'Second' }])
    for (const same of [{ body: 'Second' }, {}]) {
      const again = await service.expect('updateComment', 200, { token, params: pathOf(comment), body: same })
      t.strictSame(again.body, body)
    }
    t.strictSame(await eventsOf(task), events)
  })

  t.test('200 for one of 10 concurrent edits of a version, 412 for the others', async (t) => {
    const comment = await add(task)
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        service.call('updateComment', {
          token,
          params: pathOf(comment),
          body: { body: `Edit ${n}` },
          headers: { 'if-match': '"1"' },
        }),
      ),
    )
    t.strictSame(countStatuses(replies), { 200: 1, 412: 9 })
    t.equal((await read(comment)).version, 2)
  })

  t.test('200 for an author who became a viewer, 404 for one who left', async () => {
    const project = { id: task.project_id ?? '' }
    const author = await service.register('author')
    await setMember(ada, project, author, 'commenter')
    const comment = await add(task, 'Mine', author)
    await setMember(ada, project, author, 'viewer')
    const request = { token: author.token, params: pathOf(comment), body: { body: 'Still mine' } }
    await service.expect('updateComment', 200, request)
    await removeMember(ada, project, author)
    await service.expect('updateComment', 404, request)
    await service.expect('deleteComment', 404, { token: author.token, params: pathOf(comment) })
  })
})

/** Checks that an account can delete a comment of the commenter. */
const checkDeletion = async (t: Test, task: Task, { token }: Account): Promise<void> => {
  const comment = await add(task, 'A secret')
  const { task: before } = await readTask(viewer, task.id)
  const { headers } = await service.expect('deleteComment', 204, { token, params: pathOf(comment) })
  await service.expect('getComment', 404, { token, params: pathOf(comment) })
  const { task: after } = await readTask(viewer, task.id)
  t.equal(headers.get('task-etag'), `"${before.version}"`)
  const { comment_count, revision } = before
  const { updated_at } = after
  t.strictSame(after, { ...before, comment_count: comment_count - 1, revision: revision + 1, updated_at })
}

t.test('deleteComment', async (t) => {
  const task = await newTask()
  const { token } = commenter

  t.test('204: the author, managers and administrators', async (t) => {
    for (const account of [commenter, ada, admin]) await checkDeletion(t, task, account)
  })

  t.test('204: the history keeps the events of the comment, without its text', async (t) => {
    const other = await newTask()
    const kept = await add(other, 'Kept')
    const comment = await add(other, 'A secret')
    const body = { body: 'Another secret' }
    await service.expect('updateComment', 200, { token, params: pathOf(comment), body })
    await service.expect('deleteComment', 204, { token: ada.token, params: pathOf(comment) })
    t.strictSame(await eventsOf(other), [
      ['comment.created', commenter.id, {}, { body: kept.body }],
      ['comment.created', commenter.id, {}, {}],
      ['comment.updated', commenter.id, {}, {}],
      ['comment.deleted', ada.id, {}, {}],
    ])
  })

  t.test('204 for one of 10 concurrent deletions, 404 for the others', async (t) => {
    const other = await newTask()
    const params = pathOf(await add(other))
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => service.call('deleteComment', { token, params })),
    )
    t.strictSame(countStatuses(replies), { 204: 1, 404: 9 })
    t.match((await readTask(viewer, other.id)).task, { comment_count: 0, version: 1, revision: 3 })
  })
})

t.test('deleting a task permanently deletes its comments', async (t) => {
  const task = await newTask()
  const params = { task_id: task.id }
  const comment = await add(task)
  await service.expect('deleteTask', 204, { token: ada.token, params })
  await service.expect('deleteTrashedTask', 204, { token: ada.token, params })
  const rows = await db.run('select from comments where id = $1', [comment.id])
  t.equal(rows.length, 0)
  t.strictSame(await eventsOf(task), [['comment.created', commenter.id, {}, {}]])
})

t.test('deleting a user keeps their comments, without an author', async (t) => {
  const task = await newTask()
  const leaving = await service.register('leaving')
  await setMember(ada, { id: task.project_id ?? '' }, leaving, 'commenter')
  const comment = await add(task, 'Still here', leaving)
  const reply = await add(task, '@leaving')
  await deleteUser(leaving)
  await eventually('the account is removed', async () => {
    const rows = await db.run('select from users where id = $1', [leaving.id])
    return rows.length === 0
  })
  t.strictSame(await read(comment), { ...comment, author_id: null, version: 2, revision: 2 })
  const { items } = await list(task, { expand: 'author' })
  t.notOk('author' in (items[0] ?? {}))
  t.strictSame((await read(reply)).mentions, [leaving.id], 'the id remains')
})
