import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, taskActions, unknownId, withoutRequest } from '../fixture/tasks.ts'

type Section = components['schemas']['Section']

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask, readTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const admin = await service.register('admin')
const ada = await service.register('ada')
const viewer = await service.register('viewer')
const editor = await service.register('editor')
const stranger = await service.register('stranger')

const newProject = async (): Promise<string> => {
  const project = await createProject(ada)
  await setMember(ada, project, viewer, 'viewer')
  await setMember(ada, project, editor, 'editor')
  return project.id
}

const setArchived = (project: string, isArchived: boolean) =>
  db.run('update projects set archived_at = case when $2::bool then now() end where id = $1', [
    project,
    isArchived,
  ])

const create = async (project_id: string, name: string, place: object = {}): Promise<Section> => {
  const request = { token: editor.token, params: { project_id }, body: { name, ...place } }
  return (await service.expect('createSection', 201, request)).body
}

const list = async (project_id: string, { token }: Account = viewer): Promise<readonly Section[]> =>
  (await service.expect('listSections', 200, { token, params: { project_id } })).body.items

const namesOf = async (project: string): Promise<string> =>
  (await list(project)).map(({ name }) => name).join(' ')

const pathOf = ({ project_id, id }: Section) => ({ project_id, section_id: id })

/** Expects that a request is refused to everybody who may not write sections. */
const expectRefusals = async (
  t: Test,
  operation: 'createSection' | 'updateSection' | 'deleteSection',
  { params, body }: { readonly params: Record<string, string>; readonly body?: object },
): Promise<void> => {
  const statusFor = async ({ token }: Account) =>
    (await service.call(operation, { token, params, ...(body && { body }) })).status
  t.equal(await statusFor(viewer), 403)
  t.equal(await statusFor(stranger), 404)
}

t.test('createSection', async (t) => {
  const project = await newProject()
  const params = { project_id: project }

  t.test('201: at the end, unless it says otherwise', async (t) => {
    const request = { token: editor.token, params, body: { name: ' To do ' } }
    const { body, headers } = await service.expect('createSection', 201, request)
    const { id, position, created_at, updated_at, ...rest } = body
    t.strictSame(rest, { project_id: project, name: 'To do', version: 1 })
    t.equal(created_at, updated_at)
    t.match(position, /^\w+$/)
    t.equal(headers.get('location'), `/projects/${project}/sections/${id}`)
    const read = await service.expect('getSection', 200, { token: viewer.token, params: pathOf(body) })
    t.strictSame(read.body, body)
    t.equal(read.headers.get('etag'), headers.get('etag'))
    await create(project, 'Done')
    await create(project, 'First', { before: id })
    await create(project, 'Doing', { after: id })
    t.equal(await namesOf(project), 'First To do Doing Done')
  })

  t.test('201: by managers and administrators', async (t) => {
    const shared = await newProject()
    for (const { token } of [ada, admin])
      await service.expect('createSection', 201, {
        token,
        params: { project_id: shared },
        body: { name: 'One' },
      })
    t.equal((await list(shared, admin)).length, 2)
  })

  t.test('201: 30 at the same time, in one place', async (t) => {
    const shared = await newProject()
    const last = await create(shared, 'last')
    const first = await create(shared, 'first', { before: last.id })
    const replies = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        service.call('createSection', {
          token: editor.token,
          params: { project_id: shared },
          body: { name: String(index), ...(index % 2 === 0 ? { after: first.id } : { before: last.id }) },
        }),
      ),
    )
    t.strictSame(countStatuses(replies), { 201: 30 })
    const sections = await list(shared)
    t.equal(new Set(sections.map(({ position }) => position)).size, 32)
    t.strictSame([sections.at(0)?.id, sections.at(-1)?.id], [first.id, last.id])
  })

  t.test('400: before and after together', async (t) => {
    const [section] = await list(project)
    const body = { name: 'Both', before: section?.id, after: section?.id }
    const reply = await service.expect('createSection', 400, { token: editor.token, params, body })
    t.strictSame(pointersOf(reply.body), ['/after'])
  })

  t.test('403, 404: for viewers and strangers', async (t) => {
    await expectRefusals(t, 'createSection', { params, body: { name: 'No' } })
  })

  t.test('409: in an archived project, which can still be read', async (t) => {
    const shared = await newProject()
    const section = await create(shared, 'Kept')
    await setArchived(shared, true)
    const { token } = editor
    const refused = [
      await service.expect('createSection', 409, {
        token,
        params: { project_id: shared },
        body: { name: 'No' },
      }),
      await service.expect('updateSection', 409, { token, params: pathOf(section), body: { name: 'No' } }),
      await service.expect('deleteSection', 409, { token, params: pathOf(section) }),
    ]
    for (const { body } of refused) t.equal(body.code, 'project_archived')
    t.strictSame(await list(shared), [section])
  })

  t.test('422: next to a section of another project', async (t) => {
    const foreign = await create(await newProject(), 'Elsewhere')
    for (const place of [{ before: foreign.id }, { after: unknownId }]) {
      const request = { token: editor.token, params, body: { name: 'No', ...place } }
      const { body } = await service.expect('createSection', 422, request)
      t.equal(body.code, 'unknown_reference')
      t.strictSame(pointersOf(body), [`/${Object.keys(place)[0]}`])
    }
  })
})

t.test('listSections', async (t) => {
  const project = await newProject()
  for (const name of ['a', 'b', 'c', 'd', 'e']) await create(project, name)
  const params = { project_id: project }

  t.test('200: page by page, in order', async (t) => {
    const names: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query: Record<string, string | number> = { limit: 2, ...(cursor !== '' && { cursor }) }
      const { body } = await service.expect('listSections', 200, { token: viewer.token, params, query })
      names.push(...body.items.map(({ name }) => name))
      cursor = body.next_cursor
    }
    t.equal(names.join(''), 'abcde')
  })

  t.test('404: for strangers, as if it did not exist', async (t) => {
    const { token } = stranger
    const { body } = await service.expect('listSections', 404, { token, params })
    const unknown = await service.expect('listSections', 404, { token, params: { project_id: unknownId } })
    t.strictSame(withoutRequest(body), withoutRequest(unknown.body))
  })
})

t.test('getSection', async (t) => {
  const project = await newProject()
  const section = await create(project, 'One')

  t.test('404: for strangers, and in another project', async () => {
    await service.expect('getSection', 404, { token: stranger.token, params: pathOf(section) })
    const elsewhere = { project_id: await newProject(), section_id: section.id }
    await service.expect('getSection', 404, { token: viewer.token, params: elsewhere })
  })
})

t.test('updateSection', async (t) => {
  const { token } = editor
  const project = await newProject()
  const a = await create(project, 'a')
  const b = await create(project, 'b')
  const c = await create(project, 'c')
  const update = async (section: Section, body: object) =>
    (await service.expect('updateSection', 200, { token, params: pathOf(section), body })).body

  t.test('200: renames and moves', async (t) => {
    const renamed = await update(b, { name: 'B' })
    t.match(renamed, { name: 'B', version: 2, position: b.position })
    t.equal((await update(b, { name: 'B' })).version, 2, 'the same name changes nothing')
    t.equal((await update(b, {})).version, 2)
    t.match(await update(c, { before: a.id }), { name: 'c', version: 2 })
    t.equal(await namesOf(project), 'c a B')
    t.match(await update(c, { name: 'C', after: a.id }), { name: 'C', version: 3 })
    t.equal(await namesOf(project), 'a C B')
  })

  t.test('412: only the current version', async () => {
    const request = { token, params: pathOf(a), body: { name: 'x' }, headers: { 'if-match': '"7"' } }
    await service.expect('updateSection', 412, request)
  })

  t.test('422: next to itself, or a section of another project', async (t) => {
    const foreign = await create(await newProject(), 'Elsewhere')
    for (const before of [a.id, foreign.id]) {
      const { body } = await service.expect('updateSection', 422, {
        token,
        params: pathOf(a),
        body: { before },
      })
      t.strictSame(pointersOf(body), ['/before'])
    }
  })

  t.test('400, 403, 404', async (t) => {
    const both = { before: b.id, after: b.id }
    await service.expect('updateSection', 400, { token, params: pathOf(a), body: both })
    await expectRefusals(t, 'updateSection', { params: pathOf(a), body: { name: 'No' } })
  })
})

t.test('deleteSection', async (t) => {
  const { token } = editor

  t.test('204: its tasks stay, without a section', async (t) => {
    const project = await newProject()
    const section = await create(project, 'Gone')
    const other = await create(project, 'Kept')
    const fields = { project_id: project, section_id: section.id }
    const tasks = [await createTask(editor, fields), await createTask(ada, fields)]
    const apart = await createTask(editor, { project_id: project, section_id: other.id })
    await service.expect('deleteSection', 204, { token, params: pathOf(section) })
    await service.expect('getSection', 404, { token, params: pathOf(section) })
    for (const before of tasks) {
      const { task: after } = await readTask(viewer, before.id)
      t.strictSame(after, { ...before, section_id: null, version: 2, updated_at: after.updated_at })
    }
    t.strictSame((await readTask(viewer, apart.id)).task, apart)
  })

  t.test('204: a task in the trash is restored without it', async (t) => {
    const project = await newProject()
    const section = await create(project, 'Gone')
    const task = await createTask(editor, { project_id: project, section_id: section.id })
    await service.expect('deleteTask', 204, { token, params: { task_id: task.id } })
    await service.expect('deleteSection', 204, { token, params: pathOf(section) })
    const { body } = await service.expect('restoreTask', 200, { token, params: { task_id: task.id } })
    t.equal(body.section_id, null)
  })

  t.test('204 and 201: tasks that are created in it meanwhile lose it, or are refused', async (t) => {
    const project = await newProject()
    const section = await create(project, 'Gone')
    const body = { title: 'A task', project_id: project, section_id: section.id }
    const replies = await Promise.all([
      ...Array.from({ length: 10 }, () => service.call('createTask', { token, body })),
      service.call('deleteSection', { token: ada.token, params: pathOf(section) }),
      ...Array.from({ length: 10 }, () => service.call('createTask', { token, body })),
    ])
    const { 201: created = 0, 204: deleted = 0, 422: refused = 0 } = countStatuses(replies)
    t.equal(deleted, 1)
    t.equal(created + refused, 20)
    const { body: page } = await service.expect('listTasks', 200, { token, query: { limit: 200 } })
    const left = page.items.filter(({ project_id }) => project_id === project)
    t.equal(left.length, created)
    t.ok(left.every(({ section_id }) => section_id === null))
  })

  t.test('403, 404, 412', async (t) => {
    const section = await create(await newProject(), 'Kept')
    await expectRefusals(t, 'deleteSection', { params: pathOf(section) })
    const request = { token, params: pathOf(section), headers: { 'if-match': '"2"' } }
    await service.expect('deleteSection', 412, request)
  })
})
