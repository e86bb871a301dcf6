import t from 'tap'
import { openTestDatabase } from '../fixture/database.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { type Account, startService } from '../fixture/service.ts'
import { pointersOf, type Tag, taskActions, unknownId } from '../fixture/tasks.ts'

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask, createTag } = taskActions(service)
const rows = projectRows(db)
const admin = await service.register('admin')
const manager = await service.register('manager')
const editor = await service.register('editor')
const viewer = await service.register('viewer')
const stranger = await service.register('stranger')

const newProject = async (): Promise<string> => {
  const id = await rows.newProject(manager)
  await rows.setMember(id, editor, 'editor')
  await rows.setMember(id, viewer, 'viewer')
  return id
}

const createProjectTag = async ({ token }: Account, project_id: string, name = 'shared'): Promise<Tag> =>
  (await service.expect('createTag', 201, { token, body: { name, project_id } })).body

const listNames = async ({ token }: Account, ...project_id: string[]): Promise<string[]> =>
  (await service.expect('listTags', 200, { token, query: { project_id } })).body.items.map(({ name }) => name)

t.test('createTag: 201 for editors; only members and administrators see the tag', async (t) => {
  const project_id = await newProject()
  const tag = await createProjectTag(editor, project_id)
  t.match(tag, { project_id, owner_id: editor.id })
  for (const { token } of [manager, editor, viewer, admin])
    t.strictSame((await service.expect('getTag', 200, { token, params: { tag_id: tag.id } })).body, tag)
  await service.expect('getTag', 404, { token: stranger.token, params: { tag_id: tag.id } })
  await rows.removeMember(project_id, editor)
  await service.expect('getTag', 404, { token: editor.token, params: { tag_id: tag.id } })
  await createTag(editor, 'shared')
})

t.test('createTag: 409 for a name that is taken in the project, and in an archived project', async (t) => {
  const project_id = await newProject()
  await createProjectTag(editor, project_id)
  const body = { name: 'SHARED', project_id }
  const taken = await service.expect('createTag', 409, { token: manager.token, body })
  t.match(taken.body, { code: 'tag_exists', errors: [{ pointer: '/name' }] })
  await createProjectTag(manager, await newProject())
  await rows.setArchived(project_id, true)
  const archived = await service.expect('createTag', 409, {
    token: editor.token,
    body: { name: 'late', project_id },
  })
  t.equal(archived.body.code, 'project_archived')
})

t.test('createTag: 403 for viewers, 422 for an unknown, invisible or trashed project', async (t) => {
  const project_id = await newProject()
  const name = 'refused'
  await service.expect('createTag', 403, { token: viewer.token, body: { name, project_id } })
  const trashed = await newProject()
  await rows.trashProject(trashed)
  const unseen = [
    [stranger, project_id],
    [manager, trashed],
    [manager, unknownId],
  ] as const
  for (const [{ token }, id] of unseen) {
    const { body } = await service.expect('createTag', 422, { token, body: { name, project_id: id } })
    t.strictSame(pointersOf(body), ['/project_id'])
  }
})

t.test('listTags: 200, filtered by project', async (t) => {
  const [first, second] = [await newProject(), await newProject()]
  await createProjectTag(editor, first, 'first')
  await createProjectTag(editor, second, 'second')
  await createTag(viewer, 'own')
  t.strictSame(await listNames(viewer, first), ['first'])
  t.strictSame(await listNames(viewer, second, first), ['second', 'first'])
  t.strictSame(await listNames(viewer, 'none', first), ['own', 'first'])
  t.strictSame(await listNames(viewer, 'none'), ['own'])
  t.strictSame(await listNames(stranger, first), [])
})

t.test('deleteTag: 204 for managers, 403 for viewers, 409 in an archived project', async (t) => {
  const project_id = await newProject()
  const params = { tag_id: (await createProjectTag(editor, project_id)).id }
  await service.expect('deleteTag', 404, { token: stranger.token, params })
  await service.expect('deleteTag', 403, { token: viewer.token, params })
  await rows.setArchived(project_id, true)
  const { body } = await service.expect('deleteTag', 409, { token: editor.token, params })
  t.equal(body.code, 'project_archived')
  await rows.setArchived(project_id, false)
  await service.expect('deleteTag', 204, { token: manager.token, params })
  await createProjectTag(editor, project_id)
})

t.test('tag_names are names of tags of the project in which the task is created', async (t) => {
  const project_id = await newProject()
  const shared = await createProjectTag(manager, project_id, 'named')
  const own = await createTag(editor, 'named')
  const tag_names = ['Named', 'new']
  const inProject = await createTask(editor, { project_id, tag_names })
  t.match(inProject.tags, [{ id: shared.id }, { name: 'new', project_id, owner_id: editor.id }])
  const { tags } = await createTask(editor, { tag_names })
  t.match(tags, [{ id: own.id }, { name: 'new', project_id: null }])

  const create = [
    { title: 'In it', project_id, tag_names },
    { title: 'Personal', tag_names },
  ]
  await service.expect('batchTasks', 200, { token: editor.token, body: { create } })
  const { items } = (await service.expect('listTags', 200, { token: editor.token })).body
  const counts = items.filter(({ name }) => ['named', 'new'].includes(name))
  t.equal(counts.length, 4)
  t.strictSame(new Set(counts.map(({ task_count }) => task_count)), new Set([2]))

  const tasks = await Promise.all(
    [manager, editor, manager, editor].map((account) =>
      createTask(account, { project_id, tag_names: ['raced'] }),
    ),
  )
  t.equal(
    new Set(tasks.map((task) => task.tags[0]?.id)).size,
    1,
    'tasks created at the same time share one tag',
  )
})
