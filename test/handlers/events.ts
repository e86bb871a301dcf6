import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

type Event = components['schemas']['Event']

const service = await startService(t)
const admin = await service.register('admin')
const { attachFile, createTag, createTask, peopleOf } = taskActions(service)
const { createProject, setMember, removeMember } = projectActions(service)

/** The history of a task that an account sees, oldest first. */
const historyOf = async ({ token }: Account, task_id: string): Promise<readonly Event[]> => {
  const { body } = await service.expect('listTaskEvents', 200, {
    token,
    params: { task_id },
    query: { limit: 200 },
  })
  return body.items.toReversed()
}

/** The content of an event, without its id, time, task and project. */
const contentOf = ({ type, actor_id, resource_id, before, after }: Event) => ({
  type,
  actor_id,
  resource_id,
  before,
  after,
})

t.test('listTaskEvents', async (t) => {
  t.test('200: every change of the task, its tags and attachments, newest first', async (t) => {
    const { owner, assignee } = await peopleOf('history')
    const { id: task_id, position } = await createTask(owner, { title: 'Draft', due_on: '2027-03-01' })
    const params = { task_id }
    await service.expect('updateTask', 200, {
      token: owner.token,
      params,
      body: { title: 'Final', due_at: '2027-03-02T08:00:00+01:00', assignee_id: assignee.id },
    })
    await service.expect('updateTask', 200, { token: assignee.token, params, body: { status: 'done' } })
    await service.expect('updateTask', 200, { token: assignee.token, params, body: { status: 'done' } })
    const tag = await createTag(owner, 'history')
    const { token } = owner
    await service.expect('addTaskTag', 204, { token, params: { ...params, tag_id: tag.id } })
    await service.expect('removeTaskTag', 204, { token, params: { ...params, tag_id: tag.id } })
    const attach_id = await attachFile(assignee, task_id)
    await service.expect('deleteAttachment', 204, { token, params: { attach_id } })
    await service.expect('deleteTask', 204, { token, params })
    await service.expect('restoreTask', 200, { token, params })

    const file = { file_name: 'notes.txt', content_type: 'text/plain', size: 5 }
    const by = ({ id: actor_id }: Account, type: Event['type'], rest: Partial<Event> = {}) => ({
      type,
      actor_id,
      resource_id: null,
      before: {},
      after: {},
      ...rest,
    })
    const events = await historyOf(owner, task_id)
    const carried = { tag: { id: tag.id, name: 'history' } }
    t.strictSame(events.map(contentOf), [
      by(owner, 'task.created', {
        after: {
          title: 'Draft',
          description: '',
          status: 'todo',
          priority: 'none',
          due_on: '2027-03-01',
          owner_id: owner.id,
          position,
        },
      }),
      by(owner, 'task.updated', {
        before: { title: 'Draft', due_at: null, due_on: '2027-03-01', assignee_id: null },
        after: {
          title: 'Final',
          due_at: '2027-03-02T07:00:00.000Z',
          due_on: null,
          assignee_id: assignee.id,
        },
      }),
      by(assignee, 'task.updated', { before: { status: 'todo' }, after: { status: 'done' } }),
      by(owner, 'task.tagged', { resource_id: tag.id, after: carried }),
      by(owner, 'task.untagged', { resource_id: tag.id, before: carried }),
      by(assignee, 'attachment.created', { resource_id: attach_id, after: file }),
      by(owner, 'attachment.deleted', { resource_id: attach_id, before: file }),
      by(owner, 'task.deleted'),
      by(owner, 'task.restored'),
    ])
    t.ok(events.every((event) => event.task_id === task_id && event.project_id === null))
    t.strictSame(await historyOf(assignee, task_id), events, 'the same for everybody who sees the task')
  })

  t.test('200: changes of the project and its members since the task joined it', async (t) => {
    const { owner, assignee, stranger: member } = await peopleOf('project-history')
    const { token } = owner
    const project = await createProject(owner)
    const { id: project_id } = project
    await setMember(owner, project, member, 'viewer')
    const { id: task_id } = await createTask(owner, { assignee_id: assignee.id })
    const moved = await service.expect('updateTask', 200, {
      token,
      params: { task_id },
      body: { project_id },
    })
    await setMember(owner, project, member, 'editor')
    await service.expect('updateProject', 200, { token, params: { project_id }, body: { name: 'Renamed' } })
    const typesFor = async (account: Account) =>
      (await historyOf(account, task_id)).map(({ type, after }) => [type, after.role ?? after.name])
    const taskTypes = [
      ['task.created', undefined],
      ['task.updated', undefined],
    ]
    const projectPath = [
      ['member.changed', 'editor'],
      ['project.updated', 'Renamed'],
    ]
    t.equal(moved.body.project_id, project_id)
    t.strictSame(await typesFor(member), [...taskTypes, ...projectPath])
    t.strictSame(await typesFor(assignee), taskTypes, 'only for users who can see the project')
  })
})

t.test('listEvents', async (t) => {
  const { owner, assignee, stranger: member } = await peopleOf('activity')
  const project = await createProject(owner)
  const { id: project_id } = project
  await setMember(owner, project, member, 'viewer')
  const personal = await createTask(owner, { title: 'Personal', assignee_id: assignee.id })
  const inProject = await createTask(owner, { title: 'In the project', project_id })

  const list = async ({ token }: Account, query: Call['query'] = {}) =>
    (await service.expect('listEvents', 200, { token, query })).body
  const seenBy = async (account: Account, query: Call['query'] = {}) =>
    (await list(account, query)).items.map(({ type, task_id, resource_id }) => [type, task_id ?? resource_id])

  const created = { personal: ['task.created', personal.id], inProject: ['task.created', inProject.id] }
  const memberAdded = ['member.added', member.id]

  t.test('200: events that the caller can see, newest first', async (t) => {
    t.strictSame(await seenBy(owner), [
      created.inProject,
      created.personal,
      memberAdded,
      ['member.added', owner.id],
      ['project.created', null],
    ])
    t.strictSame(await seenBy(member), [
      created.inProject,
      memberAdded,
      ['member.added', owner.id],
      ['project.created', null],
    ])
    t.strictSame(await seenBy(assignee), [created.personal])
    t.strictSame(await seenBy(admin), [], 'administrators see only their own events')
    t.strictSame((await seenBy(admin, { all: true })).slice(0, 2), [created.inProject, created.personal])
  })

  t.test('200: filters', async (t) => {
    t.strictSame(await seenBy(owner, { type: ['member.added', 'task.*'], actor_id: ['me'] }), [
      created.inProject,
      created.personal,
      memberAdded,
      ['member.added', owner.id],
    ])
    t.equal((await seenBy(owner, { type: ['*'] })).length, 5)
    t.strictSame(await seenBy(owner, { actor_id: [assignee.id] }), [])
    t.strictSame(await seenBy(owner, { project_id: ['none'] }), [created.personal])
    t.strictSame(await seenBy(owner, { project_id: [project_id], type: ['task.*'] }), [created.inProject])
    t.strictSame(await seenBy(member, { project_id: [project_id, 'none'], type: ['task.*'] }), [
      created.inProject,
    ])
    t.strictSame(await seenBy(admin, { all: true, project_id: [project_id], type: ['task.*'] }), [
      created.inProject,
    ])
    t.strictSame(
      await seenBy(assignee, { project_id: [project_id] }),
      [],
      'not events of a project that they cannot see',
    )
    const [newest] = (await list(owner)).items
    const at = newest?.created_at ?? ''
    t.strictSame((await list(owner, { created_after: at })).items[0], newest)
    t.strictSame((await seenBy(owner, { created_before: at })).length, 4)
    const { total } = await list(owner, { type: ['task.created'], include_total: true, limit: 1 })
    t.equal(total, 2)
  })

  t.test('200: only the deletion of a deleted task, and its history once it is restored', async (t) => {
    const tasks = await Promise.all([
      createTask(owner, { project_id, assignee_id: assignee.id }),
      createTask(owner, { assignee_id: assignee.id }),
    ])
    for (const { id: task_id } of tasks)
      await service.expect('deleteTask', 204, { token: owner.token, params: { task_id } })
    const since = { type: ['task.*'], limit: 2 }
    const deletions = tasks.map(({ id }) => ['task.deleted', id]).toReversed()
    t.strictSame(await seenBy(owner, since), deletions)
    t.strictSame(await seenBy(assignee, since), deletions)
    t.strictSame(await seenBy(member, since), [deletions[1], created.inProject])
    const [{ id: task_id }] = tasks
    await service.expect('restoreTask', 200, { token: owner.token, params: { task_id } })
    t.strictSame(await seenBy(member, { ...since, limit: 3 }), [
      ['task.restored', task_id],
      ['task.deleted', task_id],
      ['task.created', task_id],
    ])
  })

  t.test('200: the deletion of a project, except for former members', async (t) => {
    const ended = await createProject(owner, 'Ended')
    const params = { project_id: ended.id }
    await setMember(owner, ended, member, 'editor')
    await setMember(owner, ended, assignee, 'editor')
    await createTask(owner, params)
    await removeMember(owner, ended, assignee)
    const endedProjectFilter = { project_id: [ended.id] }
    t.strictSame(await seenBy(assignee, endedProjectFilter), [])
    t.equal((await seenBy(member, endedProjectFilter)).length, 6)
    await service.expect('deleteProject', 204, { token: owner.token, params })
    t.strictSame(await seenBy(owner, { type: ['project.deleted'] }), [['project.deleted', null]])
    t.strictSame(await seenBy(member, { type: ['project.deleted'] }), [['project.deleted', null]])
    t.strictSame(await seenBy(assignee, { type: ['project.deleted'] }), [])
  })

  t.test('200: no events of a task moved to a project that the caller cannot see', async (t) => {
    const elsewhere = await createProject(owner, 'Elsewhere')
    const { id: task_id } = await createTask(owner, { project_id, title: 'Moved' })
    t.strictSame((await seenBy(member, { type: ['task.created'] }))[0], ['task.created', task_id])
    await service.expect('updateTask', 200, {
      token: owner.token,
      params: { task_id },
      body: { project_id: elsewhere.id },
    })
    t.notOk((await seenBy(member, { type: ['task.*'] })).some(([, id]) => id === task_id))
  })

  t.test('200: pages, past any number of events that the caller cannot see', async (t) => {
    const { owner: busy } = await peopleOf('busy')
    const { token } = busy
    const first = await createTask(busy, { title: 'First' })
    for (let count = 0; count < 8; count++) {
      const body = { create: Array.from({ length: 200 }, () => ({ title: 'Soon deleted' })) }
      const { body: batch } = await service.expect('batchTasks', 200, { token, body })
      const ids = batch.create?.map(({ task_id }) => ({ task_id: task_id ?? '' })) ?? []
      await service.expect('batchTasks', 200, { token, body: { delete: ids } })
    }
    let pages = 0
    const seen: string[] = []
    for (let cursor: string | null | undefined; cursor !== null; pages++) {
      const page = await list(busy, { type: ['task.created'], ...(cursor !== undefined && { cursor }) })
      seen.push(...page.items.map(({ task_id }) => task_id ?? ''))
      cursor = page.next_cursor
    }
    t.strictSame(seen, [first.id])
    t.ok(pages > 1, 'a request reads a limited number of events')
  })
})
