import t from 'tap'
import type { components } from '../generated/openapi.ts'
import type { OperationId } from '../src/contract/contract.ts'
import { noImportRuns } from './fixture/imports.ts'
import { jobDepsOf, runJobs } from './fixture/jobs.ts'
import { isRead } from './fixture/matrix.ts'
import { operations, prepareOperations, rows } from './fixture/operations.ts'
import { projectActions } from './fixture/projects.ts'
import { type Account, startService } from './fixture/service.ts'
import { taskActions } from './fixture/tasks.ts'

/** The outbox has an event for each change by any operation, with the caller as its actor. */

type EventType = components['schemas']['EventType']

/** The events of the registry's requests. Operations that are not listed have none. */
const expected: Partial<Record<OperationId, readonly EventType[]>> = {
  createTask: ['task.created', 'task.tagged'],
  batchTasks: ['task.created'],
  replaceTask: ['task.updated'],
  updateTask: ['task.updated'],
  deleteTask: ['task.deleted'],
  restoreTask: ['task.restored'],
  removeTaskTag: ['task.untagged'],
  deleteTag: ['task.untagged'],
  createComment: ['comment.created'],
  updateComment: ['comment.updated'],
  deleteComment: ['comment.deleted'],
  addTaskRelation: ['task.related', 'task.related'],
  removeTaskRelation: ['task.unrelated', 'task.unrelated'],
  addTaskAttachment: ['attachment.created'],
  appendUpload: ['attachment.created'],
  deleteAttachment: ['attachment.deleted'],
  createProject: ['project.created', 'member.added'],
  replaceProject: ['project.updated'],
  updateProject: ['project.updated'],
  archiveProject: ['project.archived'],
  deleteProject: ['project.deleted'],
  restoreProject: ['project.restored'],
  setProjectMember: ['member.changed'],
  removeProjectMember: ['member.removed'],
  runImport: ['task.imported', 'import.finished'],
  cancelImport: ['import.finished'],
  undoImport: ['task.deleted', 'import.finished'],
}

const service = await startService(t)
const { db } = service.deps
const admin = await service.register('admin')
const { newWorld, requestTo } = await prepareOperations(service, admin)
const { createTag, createTask, peopleOf } = taskActions(service)
const { createProject, createTeam, setMember, setProjectTeam, setTeamMember } = projectActions(service)

/** The events recorded during an action, in order: type, actor and resource. */
const recordedBy = async (
  act: () => Promise<unknown>,
): Promise<readonly (readonly [string, string | null, string | null])[]> => {
  const [last] = await db.run('select coalesce(max(ordinal), 0)::text as ordinal from events', [])
  await act()
  const events = await db.run(
    'select type, actor_id::text as actor, resource_id::text as resource from events where ordinal > $1 order by changed_in, ordinal',
    [String(last?.['ordinal'])],
  )
  return events.map(({ type, actor, resource }) => [
    type as string,
    actor as string | null,
    resource as string | null,
  ])
}

/** Sorts events of one statement, whose order is undefined. */
const byText = (one: readonly unknown[], other: readonly unknown[]): number =>
  String(one).localeCompare(String(other))

for (const operation of operations) {
  const { id } = operation
  if (isRead(operation)) continue
  t.test(id, async (t) => {
    const world = await newWorld()
    const caller = rows[id].caller === 'admin' ? admin : world.owner
    const call = await requestTo(operation, { world, caller })
    const events = await recordedBy(async () => {
      const { status } = await service.call(id, call)
      t.ok(status < 300, `status ${status}`)
      await noImportRuns(service)
    })
    t.strictSame(
      events.map(([type, actor]) => [type, actor]),
      (expected[id] ?? []).map((type) => [type, caller.id]),
    )
  })
}

t.test('a request that changes nothing has no events', async (t) => {
  const { owner } = await peopleOf('unchanged')
  const { token } = owner
  const tag = await createTag(owner, 'kept')
  const { id: task_id, title } = await createTask(owner, { tag_ids: [tag.id] })
  const project = await createProject(owner)
  const params = { task_id }
  const events = await recordedBy(async () => {
    await service.expect('updateTask', 200, {
      token,
      params,
      body: { title, tag_ids: [tag.id], assignee_id: null },
    })
    await service.expect('addTaskTag', 204, { token, params: { ...params, tag_id: tag.id } })
    const { name, id: project_id } = project
    await service.expect('updateProject', 200, { token, params: { project_id }, body: { name } })
    await setMember(owner, project, owner, 'manager')
    await service.expect('updateTask', 412, {
      token,
      params,
      body: { title: 'No' },
      headers: { 'if-match': '"99"' },
    })
    await service.expect('updateTask', 422, { token, params, body: { assignee_id: tag.id } })
  })
  t.strictSame(events, [])
})

t.test('changed tags of a task have events', async (t) => {
  const { owner } = await peopleOf('tags')
  const { token } = owner
  const [one, two] = [await createTag(owner, 'one'), await createTag(owner, 'two')]
  const { id: task_id } = await createTask(owner, { tag_ids: [one.id] })
  const params = { task_id }
  const change = { title: 'Other', tag_ids: [two.id] }
  const replaced = await recordedBy(() => service.expect('updateTask', 200, { token, params, body: change }))
  t.strictSame(replaced.toSorted(byText), [
    ['task.tagged', owner.id, two.id],
    ['task.untagged', owner.id, one.id],
    ['task.updated', owner.id, null],
  ])
  const added = await recordedBy(() =>
    service.expect('addTaskTag', 204, { token, params: { ...params, tag_id: one.id } }),
  )
  t.strictSame(added, [['task.tagged', owner.id, one.id]])
})

t.test('a batch has the events of its items', async (t) => {
  const { owner, assignee } = await peopleOf('batch')
  const tag = await createTag(owner, 'batch')
  const tasks = await Promise.all(
    ['one', 'two', 'three'].map((title) => createTask(owner, { title, assignee_id: assignee.id })),
  )
  const [one = '', two = '', three = ''] = tasks.map(({ id }) => id)
  const body = {
    create: [{ title: 'four', tag_names: ['new'] }],
    update: [{ task_id: one, patch: { status: 'done', title: 'first' } }],
    tag: [{ task_id: two, tag_id: tag.id }],
    delete: [{ task_id: three }],
  }
  const events = await recordedBy(() => service.expect('batchTasks', 200, { token: owner.token, body }))
  t.strictSame(events.map(([type, actor]) => [type, actor]).toSorted(byText), [
    ['task.created', owner.id],
    ['task.deleted', owner.id],
    ['task.tagged', owner.id],
    ['task.tagged', owner.id],
    ['task.updated', owner.id],
  ])
  const refused = {
    atomic: true,
    update: [{ task_id: one, patch: { title: 'no' } }],
    delete: [{ task_id: three }],
  }
  t.strictSame(
    await recordedBy(() => service.call('batchTasks', { token: assignee.token, body: refused })),
    [],
  )
})

t.test('moves, deleted sections, unarchiving and the trash have events', async (t) => {
  const { owner } = await peopleOf('places')
  const { token } = owner
  const { id: project_id } = await createProject(owner)
  const params = { project_id }
  const section = await service.expect('createSection', 201, { token, params, body: { name: 'A section' } })
  const { id: task_id } = await createTask(owner)
  const updated = [['task.updated', owner.id, null]]
  t.strictSame(
    await recordedBy(() =>
      service.expect('moveTask', 200, {
        token,
        params: { task_id },
        body: { project_id, section_id: section.body.id },
      }),
    ),
    updated,
  )
  const sectionPath = { ...params, section_id: section.body.id }
  t.strictSame(
    await recordedBy(() => service.expect('deleteSection', 204, { token, params: sectionPath })),
    updated,
  )
  await service.expect('archiveProject', 200, { token, params })
  t.strictSame(await recordedBy(() => service.expect('unarchiveProject', 200, { token, params })), [
    ['project.unarchived', owner.id, null],
  ])
  const trash = await recordedBy(async () => {
    await service.expect('deleteProject', 204, { token, params })
    await service.expect('restoreProject', 200, { token, params })
    await service.expect('deleteProject', 204, { token, params })
    await service.expect('deleteTrashedProject', 204, { token, params })
    await runJobs(jobDepsOf(service))
  })
  t.strictSame(trash, [
    ['project.deleted', owner.id, null],
    ['project.restored', owner.id, null],
    ['project.deleted', owner.id, null],
  ])
  const values = await db.run(
    "select from events where project_id = $1 and (before <> '{}' or after <> '{}')",
    [project_id],
  )
  t.equal(values.length, 0, 'the values in events of a purged project are removed')
})

t.test('changes of the effective role have events, direct and through teams', async (t) => {
  const { owner, assignee: member, stranger: invited } = await peopleOf('members')
  const { token } = owner
  const project = await createProject(owner)
  const team = await createTeam(owner, 'A team')
  await setTeamMember(owner, team, member, 'member')
  const teamPath = { team_id: team.id }
  const projectTeamPath = { ...teamPath, project_id: project.id }
  const by = (actor: Account, type: EventType, who: Account) => [type, actor.id, who.id]
  const recorded = async (act: () => Promise<unknown>, events: readonly unknown[]) => {
    t.strictSame(await recordedBy(act), events)
  }
  await recorded(() => setProjectTeam(owner, project, team, 'viewer'), [by(owner, 'member.added', member)])
  await recorded(() => setMember(owner, project, member, 'editor'), [by(owner, 'member.changed', member)])
  await recorded(() => setProjectTeam(owner, project, team, 'commenter'), [])
  await recorded(() => setTeamMember(owner, team, invited, 'member'), [by(owner, 'member.added', invited)])
  await recorded(
    () =>
      service.expect('removeTeamMember', 204, {
        token: invited.token,
        params: { ...teamPath, user_id: invited.id },
      }),
    [by(invited, 'member.removed', invited)],
  )
  await recorded(() => service.expect('removeProjectTeam', 204, { token, params: projectTeamPath }), [])
  await setProjectTeam(owner, project, team, 'manager')
  await recorded(
    () => service.expect('deleteTeam', 204, { token, params: teamPath }),
    [by(owner, 'member.changed', member)],
  )
  const params = { project_id: project.id }
  const invite = (email: string) =>
    service.expect('createInvitation', 201, { token, params, body: { email, role: 'viewer' } })
  const tokenOfInvitation = () => service.invitations.at(-1)?.token
  await recorded(() => invite(invited.email), [])
  await recorded(
    () =>
      service.expect('acceptInvitation', 200, { token: invited.token, body: { token: tokenOfInvitation() } }),
    [by(invited, 'member.added', invited)],
  )
  await invite('newcomer@example.com')
  let newcomer = ''
  const joined = await recordedBy(async () => {
    const body = {
      username: 'newcomer',
      email: 'newcomer@example.com',
      password: 'long enough',
      invitation_token: tokenOfInvitation(),
    }
    newcomer = (await service.expect('register', 201, { body })).body.user.id
  })
  t.strictSame(joined, [['member.added', newcomer, newcomer]])
})

t.test('the deletion of an account has events', async (t) => {
  const { owner, assignee, stranger: manager } = await peopleOf('deleted')
  const { id: own } = await createProject(owner)
  const shared = await createProject(manager)
  await setMember(manager, shared, owner, 'editor')
  const personal = await createTask(owner, { assignee_id: assignee.id })
  await createTask(owner)
  await createTask(owner, { project_id: own })
  const kept = await createTask(owner, { project_id: shared.id, assignee_id: owner.id })
  const events = await recordedBy(async () => {
    await service.expect('deleteUser', 204, { token: owner.token, params: { user_id: owner.id } })
    await runJobs(jobDepsOf(service))
  })
  t.strictSame(events.map(([type, actor]) => [type, actor]).toSorted(byText), [
    ['member.removed', owner.id],
    ['task.deleted', null],
    ['task.updated', null],
    ['task.updated', null],
  ])
  const seen = async ({ token }: Account, query: Record<string, string[]>) =>
    (await service.expect('listEvents', 200, { token, query })).body.items.map(({ type, task_id, after }) => [
      type,
      task_id,
      after,
    ])
  t.strictSame(await seen(assignee, {}), [['task.deleted', personal.id, {}]])
  t.strictSame((await seen(manager, { type: ['task.updated'] })).toSorted(byText), [
    ['task.updated', kept.id, { assignee_id: null }],
    ['task.updated', kept.id, { owner_id: manager.id }],
  ])
})
