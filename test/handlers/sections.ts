import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { tasksPerBatch } from '../../src/db/tasks/sections.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, taskActions, unknownId, withoutRequest } from '../fixture/tasks.ts'

type Section = components['schemas']['Section']

const { db } = await openTestDatabase(t)
/** What happens after the next transaction, before another one of its request. */
let afterTransaction: () => Promise<unknown> = async () => undefined
const service = await startService(t, {
  db: {
    ...db,
    transaction: async (...parameters) => {
      const result = await db.transaction(...parameters)
      const happens = afterTransaction
      afterTransaction = async () => undefined
      await happens()
      return result
    },
  },
})
const { createTask, readTask } = taskActions(service)
const { createShared } = projectActions(service)
const { removeMember, setArchived } = projectRows(db)
await service.register('admin')
const ada = await service.register('ada')
const viewer = await service.register('viewer')
const editor = await service.register('editor')
const stranger = await service.register('stranger')

const newProject = (): Promise<string> => createShared(ada, { viewer, editor })

const createSection = async (project_id: string, name: string, place: object = {}): Promise<Section> => {
  const request = { token: editor.token, params: { project_id }, body: { name, ...place } }
  return (await service.expect('createSection', 201, request)).body
}

const listProjectSections = async (
  project_id: string,
  { token }: Account = viewer,
): Promise<readonly Section[]> =>
  (await service.expect('listProjectSections', 200, { token, params: { project_id } })).body.items

const namesOf = async (project: string): Promise<string> =>
  (await listProjectSections(project)).map(({ name }) => name).join(' ')

const pathOf = ({ project_id, id }: Section) => ({ project_id, section_id: id })

t.test('createSection', async (t) => {
  const project = await newProject()
  const params = { project_id: project }

  t.test('201: at the end by default, or before or after another section', async (t) => {
    const request = { token: editor.token, params, body: { name: ' To do ' } }
    const { body, headers } = await service.expect('createSection', 201, request)
    const { id, position, created_at, updated_at, ...rest } = body
    t.strictSame(rest, { project_id: project, name: 'To do', version: 1, revision: 1 })
    t.equal(created_at, updated_at)
    t.match(position, /^\w+$/)
    t.equal(headers.get('location'), `/projects/${project}/sections/${id}`)
    const read = await service.expect('getSection', 200, { token: viewer.token, params: pathOf(body) })
    t.strictSame(read.body, body)
    t.equal(read.headers.get('etag'), headers.get('etag'))
    await createSection(project, 'Done')
    await createSection(project, 'First', { before: id })
    await createSection(project, 'Doing', { after: id })
    t.equal(await namesOf(project), 'First To do Doing Done')
  })

  t.test('201: 30 sections created in one place at the same time have distinct positions', async (t) => {
    const other = await newProject()
    const last = await createSection(other, 'last')
    const first = await createSection(other, 'first', { before: last.id })
    const replies = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        service.call('createSection', {
          token: editor.token,
          params: { project_id: other },
          body: { name: String(index), ...(index % 2 === 0 ? { after: first.id } : { before: last.id }) },
        }),
      ),
    )
    t.strictSame(countStatuses(replies), { 201: 30 })
    const sections = await listProjectSections(other)
    t.equal(new Set(sections.map(({ position }) => position)).size, 32)
    t.strictSame([sections.at(0)?.id, sections.at(-1)?.id], [first.id, last.id])
  })

  t.test('400 for before and after together', async (t) => {
    const [section] = await listProjectSections(project)
    const body = { name: 'Both', before: section?.id, after: section?.id }
    const reply = await service.expect('createSection', 400, { token: editor.token, params, body })
    t.strictSame(pointersOf(reply.body), ['/after'])
  })

  t.test('409 in an archived project: sections stay readable', async (t) => {
    const other = await newProject()
    const section = await createSection(other, 'Kept')
    await setArchived(other, true)
    const { token } = editor
    const refused = [
      await service.expect('createSection', 409, {
        token,
        params: { project_id: other },
        body: { name: 'No' },
      }),
      await service.expect('updateSection', 409, { token, params: pathOf(section), body: { name: 'No' } }),
      await service.expect('deleteSection', 409, { token, params: pathOf(section) }),
    ]
    for (const { body } of refused) t.equal(body.code, 'project_archived')
    t.strictSame(await listProjectSections(other), [section])
  })

  t.test('422 for a place next to an unknown section, or one of another project', async (t) => {
    const foreign = await createSection(await newProject(), 'Elsewhere')
    for (const place of [{ before: foreign.id }, { after: unknownId }]) {
      const request = { token: editor.token, params, body: { name: 'No', ...place } }
      const { body } = await service.expect('createSection', 422, request)
      t.equal(body.code, 'unknown_reference')
      t.strictSame(pointersOf(body), [`/${Object.keys(place)[0]}`])
    }
  })
})

t.test('listProjectSections', async (t) => {
  const project = await newProject()
  for (const name of ['a', 'b', 'c', 'd', 'e']) await createSection(project, name)
  const params = { project_id: project }

  t.test('200: in pages, ordered by position', async (t) => {
    const names: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query: Record<string, string | number> = { limit: 2, ...(cursor !== '' && { cursor }) }
      const { body } = await service.expect('listProjectSections', 200, {
        token: viewer.token,
        params,
        query,
      })
      names.push(...body.items.map(({ name }) => name))
      cursor = body.next_cursor
    }
    t.equal(names.join(''), 'abcde')
  })

  t.test('404 for strangers, with the same body as for an unknown project', async (t) => {
    const { token } = stranger
    const { body } = await service.expect('listProjectSections', 404, { token, params })
    const unknown = await service.expect('listProjectSections', 404, {
      token,
      params: { project_id: unknownId },
    })
    t.strictSame(withoutRequest(body), withoutRequest(unknown.body))
  })
})

t.test('getSection', async (t) => {
  const project = await newProject()
  const section = await createSection(project, 'One')

  t.test('404 for strangers, and under another project', async () => {
    await service.expect('getSection', 404, { token: stranger.token, params: pathOf(section) })
    const elsewhere = { project_id: await newProject(), section_id: section.id }
    await service.expect('getSection', 404, { token: viewer.token, params: elsewhere })
  })
})

t.test('updateSection', async (t) => {
  const { token } = editor
  const project = await newProject()
  const a = await createSection(project, 'a')
  const b = await createSection(project, 'b')
  const c = await createSection(project, 'c')
  const update = async (section: Section, body: object) =>
    (await service.expect('updateSection', 200, { token, params: pathOf(section), body })).body

  t.test('200: renames and moves', async (t) => {
    const renamed = await update(b, { name: 'B' })
    t.match(renamed, { name: 'B', version: 2, position: b.position })
    t.equal((await update(b, { name: 'B' })).version, 2, 'the same name is no change')
    t.equal((await update(b, {})).version, 2)
    t.match(await update(c, { before: a.id }), { name: 'c', version: 2 })
    t.equal(await namesOf(project), 'c a B')
    t.match(await update(c, { name: 'C', after: a.id }), { name: 'C', version: 3 })
    t.equal(await namesOf(project), 'a C B')
  })

  t.test('200: sections without room between them make some, with a new version', async (t) => {
    const other = await newProject()
    const first = await createSection(other, '1')
    await createSection(other, '2')
    const third = await createSection(other, '3')
    // Nothing fits between equal positions.
    await db.run('update sections set position = $2 where project_id = $1', [other, first.position])
    const before = await listProjectSections(other)
    await update(third, { after: first.id })
    t.equal(await namesOf(other), '1 3 2')
    const after = await listProjectSections(other)
    t.equal(new Set(after.map(({ position }) => position)).size, 3)
    for (const { id, version, updated_at } of before) {
      const moved = after.find((section) => section.id === id)
      t.equal(moved?.version, version + 1)
      t.ok(moved && moved.updated_at > updated_at)
    }
  })

  t.test('400 for before and after together', async () => {
    const body = { before: b.id, after: b.id }
    await service.expect('updateSection', 400, { token, params: pathOf(a), body })
  })

  t.test('422 for a place next to itself, or a section of another project', async (t) => {
    const foreign = await createSection(await newProject(), 'Elsewhere')
    for (const before of [a.id, foreign.id]) {
      const { body } = await service.expect('updateSection', 422, {
        token,
        params: pathOf(a),
        body: { before },
      })
      t.strictSame(pointersOf(body), ['/before'])
    }
  })
})

t.test('deleteSection', async (t) => {
  t.test('204: with many tasks, while others are served', async (t) => {
    const project = await newProject()
    const { id: section_id, ...section } = await createSection(project, 'Large')
    const count = 500
    const batch = {
      create: Array.from({ length: count }, () => ({
        title: 'One of many',
        project_id: project,
        section_id,
      })),
    }
    const { token } = editor
    await service.expect('batchTasks', 200, { token, body: batch })
    const deletion = service.expect('deleteSection', 204, {
      token,
      params: pathOf({ id: section_id, ...section }),
    })
    const progress = { isDeleted: false }
    void deletion.finally(() => (progress.isDeleted = true))
    let served = 0
    for (; !progress.isDeleted; served += 1)
      await service.expect('getCurrentUser', 200, { token: viewer.token })
    await deletion
    t.ok(served > 3, `${served} requests`)
    const query = { project_id: project, section_id: 'none', limit: '1', include_total: 'true' }
    t.equal((await service.expect('listTasks', 200, { token, query })).body.total, count)
  })

  const { token } = editor

  t.test('204: its tasks stay in the project, without a section', async (t) => {
    const project = await newProject()
    const section = await createSection(project, 'Gone')
    const other = await createSection(project, 'Kept')
    const fields = { project_id: project, section_id: section.id }
    const tasks = [await createTask(editor, fields), await createTask(ada, fields)]
    const unaffected = await createTask(editor, { project_id: project, section_id: other.id })
    await service.expect('deleteSection', 204, { token, params: pathOf(section) })
    await service.expect('getSection', 404, { token, params: pathOf(section) })
    for (const before of tasks) {
      const { task: after } = await readTask(viewer, before.id)
      t.strictSame(after, {
        ...before,
        section_id: null,
        version: 2,
        revision: 2,
        updated_at: after.updated_at,
      })
    }
    t.strictSame((await readTask(viewer, unaffected.id)).task, unaffected)
  })

  t.test('204: a trashed task of it is restored without a section', async (t) => {
    const project = await newProject()
    const section = await createSection(project, 'Gone')
    const task = await createTask(editor, { project_id: project, section_id: section.id })
    await service.expect('deleteTask', 204, { token, params: { task_id: task.id } })
    await service.expect('deleteSection', 204, { token, params: pathOf(section) })
    const { body } = await service.expect('restoreTask', 200, { token, params: { task_id: task.id } })
    t.equal(body.section_id, null)
  })

  t.test('204: tasks created in it at the same time are rejected or lose their section', async (t) => {
    const project = await newProject()
    const section = await createSection(project, 'Gone')
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
    const remaining = page.items.filter(({ project_id }) => project_id === project)
    t.equal(remaining.length, created)
    t.ok(remaining.every(({ section_id }) => section_id === null))
  })

  t.test('204: what was begun is finished, whatever happens between two batches of its tasks', async (t) => {
    const happenings: Readonly<Record<string, (project: string) => Promise<unknown>>> = {
      'the caller is removed': (project) => removeMember(project, editor),
      'the project is archived': (project) => setArchived(project, true),
      'the project is moved to the trash': (project) =>
        service.expect('deleteProject', 204, { token: ada.token, params: { project_id: project } }),
      'the section is renamed': (project) =>
        db.run(`update sections set name = 'Other', version = version + 1 where project_id = $1`, [project]),
      'the section is deleted': async (project) => {
        await db.run('update tasks set section_id = null where project_id = $1', [project])
        await db.run('delete from sections where project_id = $1', [project])
      },
    }
    for (const [what, happens] of Object.entries(happenings)) {
      const project = await newProject()
      const section = await createSection(project, 'Large')
      const fields = { title: 'One of many', project_id: project, section_id: section.id }
      const body = { create: Array.from({ length: 2 * tasksPerBatch + 1 }, () => fields) }
      await service.expect('batchTasks', 200, { token, body })
      afterTransaction = () => happens(project)
      const request = { token, params: pathOf(section), headers: { 'if-match': '"1"' } }
      t.equal((await service.call('deleteSection', request)).status, 204, what)
      const left = await db.run(
        'select (select count(*)::int from sections where project_id = $1) as sections, count(section_id)::int as tasks from tasks where project_id = $1',
        [project],
      )
      t.strictSame([...left], [{ sections: 0, tasks: 0 }], what)
    }
  })
})
