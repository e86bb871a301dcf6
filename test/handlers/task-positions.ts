import t from 'tap'
import { maxPositionLength } from '../../src/domain/shared/positions.ts'
import { readChanges } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, type Task, taskActions, unknownId } from '../fixture/tasks.ts'

/** The manual order of tasks: their positions, their sections, and moves. */

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const { createTask, readTask } = taskActions(service)
const { createShared } = projectActions(service)
const { removeMember, setArchived } = projectRows(db)
const admin = await service.register('admin')
const ada = await service.register('ada')
const viewer = await service.register('viewer')
const editor = await service.register('editor')
const assignee = await service.register('assignee')
const stranger = await service.register('stranger')

const newProject = (owner = ada): Promise<string> => createShared(owner, { viewer, editor })

const newSection = async (project_id: string): Promise<string> => {
  const request = { token: ada.token, params: { project_id }, body: { name: 'A section' } }
  return (await service.expect('createSection', 201, request)).body.id
}

/** Tasks with these titles, in this order. */
const newTasks = async <const Titles extends readonly string[]>(
  titles: Titles,
  fields: object = {},
  owner = editor,
): Promise<{ readonly [Index in keyof Titles]: Task }> => {
  const tasks: Task[] = []
  for (const title of titles) tasks.push(await createTask(owner, { title, ...fields }))
  return tasks as { readonly [Index in keyof Titles]: Task }
}

const moveRequest = ({ id }: Task, body: object, { token }: Account = editor): Call => ({
  token,
  params: { task_id: id },
  body,
})

const move = async (task: Task, body: object, account = editor): Promise<Task> =>
  (await service.expect('moveTask', 200, moveRequest(task, body, account))).body

const statusOf = async (task: Task, body: object, account = editor): Promise<number> =>
  (await service.call('moveTask', moveRequest(task, body, account))).status

const isBefore = (a: Task, b: Task): boolean =>
  a.position === b.position ? a.id < b.id : a.position < b.position

/** The tasks of a project, or the personal ones, by position. */
const inOrder = async (project: string | null, { token }: Account = editor): Promise<readonly Task[]> => {
  const { body } = await service.expect('listTasks', 200, { token, query: { sort: 'position', limit: 200 } })
  const tasks = body.items.filter(({ project_id }) => project_id === project)
  t.ok(tasks.every((task, index) => index === 0 || isBefore(tasks[index - 1] ?? task, task)))
  return tasks
}

const titlesOf = async (project: string | null, account = editor): Promise<string> =>
  (await inOrder(project, account)).map(({ title }) => title).join('')

t.test('a new task comes last', async (t) => {
  const project = await newProject()
  await newTasks(['a', 'b', 'c'], { project_id: project })
  const create = ['d', 'e', 'f', 'g', 'h'].map((title) => ({ title, project_id: project }))
  await service.expect('batchTasks', 200, { token: editor.token, body: { create } })
  t.equal(await titlesOf(project), 'abcdefgh')
})

t.test('sort=-position lists in reverse order, in pages', async (t) => {
  const owner = await service.register('sorted')
  const tasks = await newTasks(['a', 'b', 'c', 'd', 'e', 'f'], {}, owner)
  await move(tasks[5], { before: tasks[0].id }, owner)
  const titles: string[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const query: Record<string, string | number> = {
      sort: '-position',
      limit: 4,
      ...(cursor !== '' && { cursor }),
    }
    const { body } = await service.expect('listTasks', 200, { token: owner.token, query })
    titles.push(...body.items.map(({ title }) => title))
    cursor = body.next_cursor
  }
  t.equal(titles.join(''), 'edcbaf')
})

t.test('moveTask', async (t) => {
  t.test('200: before and after another task, and to the end', async (t) => {
    const project = await newProject()
    const [a, b, c, d] = await newTasks(['a', 'b', 'c', 'd'], { project_id: project })
    const moved = await service.expect('moveTask', 200, moveRequest(d, { before: a.id }))
    t.match(moved.body, { id: d.id, version: 2, project_id: project, section_id: null })
    t.equal(moved.headers.get('etag'), '"2.2"')
    t.strictSame((await readTask(viewer, d.id)).task, moved.body)
    t.equal(await titlesOf(project), 'dabc')
    await move(d, { after: b.id })
    t.equal(await titlesOf(project), 'abdc')
    await move(a, { project_id: project })
    t.equal(await titlesOf(project), 'bdca')
    await createTask(editor, { title: 'e', project_id: project })
    t.equal(await titlesOf(project), 'bdcae')
    await move(b, { after: d.id }, ada)
    t.equal(await titlesOf(project), 'dbcae')
    t.strictSame((await readTask(viewer, c.id)).task, c, 'the other tasks are unchanged')
  })

  t.test('200: into a section, out of it, and into the section of another task', async (t) => {
    const project = await newProject()
    const section = await newSection(project)
    const [a, b, c] = await newTasks(['a', 'b', 'c'], { project_id: project })
    t.equal((await move(a, { section_id: section })).section_id, section)
    t.equal(await titlesOf(project), 'bca')
    t.equal((await move(c, { before: a.id })).section_id, section)
    t.equal((await move(c, { before: b.id })).section_id, null)
    t.equal((await move(a, { project_id: project })).section_id, section)
    t.equal((await move(a, { section_id: null })).section_id, null)
  })

  t.test('200: to another project, and back to personal tasks', async (t) => {
    const from = await newProject()
    const to = await newProject()
    const [task] = await newTasks(['t'], { project_id: from, section_id: await newSection(from) })
    const section = await newSection(to)
    const [a] = await newTasks(['a', 'b'], { project_id: to, section_id: section })
    t.match(
      await move(task, { project_id: to, after: a.id }),
      { project_id: to, section_id: section, version: 2 },
      'one change',
    )
    t.equal(await titlesOf(to), 'atb')
    t.match(await move(task, { project_id: from }), { project_id: from, section_id: null })
    t.match(await move(task, { project_id: to, section_id: section }), { section_id: section })
    t.equal(await titlesOf(to), 'abt')
    t.match(await move(task, { project_id: null }), { project_id: null, section_id: null })
    t.equal(await titlesOf(null), 't')
    await service.expect('getTask', 404, { token: viewer.token, params: { task_id: task.id } })
  })

  t.test('200 among personal tasks for the owner and administrators, 403 for the assignee', async (t) => {
    const owner = await service.register('personal')
    const [a, b, c] = await newTasks(['a', 'b', 'c'], { assignee_id: assignee.id }, owner)
    await move(c, { before: a.id }, owner)
    t.equal(await titlesOf(null, owner), 'cab')
    await move(c, { after: b.id }, admin)
    t.equal(await titlesOf(null, owner), 'abc')
    t.equal(await statusOf(c, { before: a.id }, assignee), 403)
    t.equal(await statusOf(c, { before: a.id }, stranger), 404)
    const [own] = await newTasks(['d'], {}, assignee)
    t.equal(await statusOf(own, { before: a.id }, assignee), 422, 'next to a task of another owner')
  })

  t.test('200: a move to the current place keeps the order', async (t) => {
    const project = await newProject()
    const [a, b] = await newTasks(['a', 'b'], { project_id: project })
    await move(a, { before: b.id })
    await move(b, { after: a.id })
    t.equal(await titlesOf(project), 'ab')
  })

  t.test('200: 100 moves into one gap at the same time get distinct positions', async (t) => {
    const project = await newProject()
    const create = Array.from({ length: 102 }, (_, index) => ({ title: String(index), project_id: project }))
    await service.expect('batchTasks', 200, { token: editor.token, body: { create } })
    const [first, last, ...others] = await inOrder(project)
    if (first === undefined || last === undefined) throw new Error('There are 102 tasks')
    const replies = await Promise.all(
      others.map((task, index) =>
        service.call(
          'moveTask',
          moveRequest(task, index % 2 === 0 ? { after: first.id } : { before: last.id }),
        ),
      ),
    )
    t.strictSame(countStatuses(replies), { 200: 100 })
    const after = await inOrder(project)
    t.equal(after.length, 102)
    t.equal(new Set(after.map(({ position }) => position)).size, 102)
    t.strictSame([after.at(0)?.id, after.at(-1)?.id], [first.id, last.id])
  })

  t.test('200: 40 moves around each other at the same time', async (t) => {
    const project = await newProject()
    const tasks = await newTasks(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'], { project_id: project })
    const replies = await Promise.all(
      Array.from({ length: 40 }, (_, index) => {
        const [task, other] = [tasks[index % 8], tasks[(index * 3 + 1) % 8]]
        if (!task || !other) throw new Error('There are eight tasks')
        return service.call(
          'moveTask',
          moveRequest(task, task === other ? { section_id: null } : { after: other.id }),
        )
      }),
    )
    t.strictSame(countStatuses(replies), { 200: 40 })
    t.equal(
      Array.from(await titlesOf(project))
        .toSorted()
        .join(''),
      'abcdefgh',
    )
  })

  t.test('200: positions stay short in a narrow gap', async (t) => {
    const project = await newProject()
    const [first, a, b, last] = await newTasks(['f', 'a', 'b', 'l'], { project_id: project })
    const narrow = first.position.padEnd(maxPositionLength - 2, 'z')
    await db.run('update tasks set position = $2 where id = $1', [first.id, `${narrow}1`])
    await db.run('update tasks set position = $2 where id = $1', [a.id, `${narrow}2`])
    for (let index = 0; index < 20; index += 1) {
      const { position } = await move(index % 2 === 0 ? b : a, { after: first.id })
      t.ok(position.length <= maxPositionLength)
    }
    t.equal(await titlesOf(project), 'fabl')
    t.ok(
      (await readTask(editor, first.id)).task.position.length < maxPositionLength / 2,
      'positions are spread out',
    )
    t.strictSame((await readTask(editor, last.id)).task.title, last.title)
  })

  t.test('200: tasks that make room are in the change feed and keep their order', async (t) => {
    const owner = await service.register('crowded')
    const tasks = await newTasks(['a', 'b', 'c', 'd'], {}, owner)
    const [a, , , d] = tasks
    // Nothing fits between equal positions.
    await db.run('update tasks set position = $2 where owner_id = $1', [owner.id, a.position])
    const seen = await readChanges(service, owner)
    await move(d, { after: a.id }, owner)
    t.equal(await titlesOf(null, owner), 'adbc')
    const { changed } = await readChanges(service, owner, { since: seen.next_cursor })
    t.strictSame(new Set(changed.map(({ id }) => id)), new Set(tasks.map(({ id }) => id)))
  })

  t.test('400 for two places, or none', async (t) => {
    const [a, b] = await newTasks(['a', 'b'], { project_id: await newProject() })
    const { body } = await service.expect(
      'moveTask',
      400,
      moveRequest(a, { before: b.id, after: b.id, section_id: null }),
    )
    t.strictSame(pointersOf(body), ['/after', '/section_id'])
    await service.expect('moveTask', 400, moveRequest(a, {}))
  })

  t.test('403 to a project that the caller can only see', async (t) => {
    const [task] = await newTasks(['t'], {}, viewer)
    t.equal(await statusOf(task, { project_id: await newProject() }, viewer), 403)
  })

  t.test('409 from or to an archived project', async (t) => {
    const project = await newProject()
    const [a, b] = await newTasks(['a', 'b'], { project_id: project })
    const [personal] = await newTasks(['p'])
    await setArchived(project, true)
    const { body } = await service.expect('moveTask', 409, moveRequest(b, { before: a.id }))
    t.equal(body.code, 'project_archived')
    t.equal(await statusOf(b, { project_id: null }), 409)
    t.equal(await statusOf(personal, { project_id: project }), 409)
  })

  t.test('422 next to a task of another project, or into a section of another project', async (t) => {
    const project = await newProject()
    const invisible = await newProject(stranger)
    const [task, trashed] = await newTasks(['t', 'u'], { project_id: project })
    const [foreign] = await newTasks(['f'], { project_id: await newProject() })
    const { token } = editor
    await service.expect('deleteTask', 204, { token, params: { task_id: trashed.id } })
    const section = await newSection(await newProject())
    const refused = [
      [{ before: foreign.id }, '/before'],
      [{ after: unknownId }, '/after'],
      [{ after: task.id }, '/after'],
      [{ before: trashed.id }, '/before'],
      [{ section_id: section }, '/section_id'],
      [{ section_id: unknownId }, '/section_id'],
      [{ project_id: null, section_id: section }, '/section_id'],
      [{ project_id: unknownId }, '/project_id'],
    ] as const
    for (const [body, pointer] of refused) {
      const reply = await service.expect('moveTask', 422, moveRequest(task, body))
      t.strictSame(pointersOf(reply.body), [pointer], JSON.stringify(body))
    }
    await removeMember(invisible, editor)
    const reply = await service.expect('moveTask', 422, moveRequest(task, { project_id: invisible }))
    t.strictSame(pointersOf(reply.body), ['/project_id'])
  })
})

t.test('the section of a task', async (t) => {
  const project = await newProject()
  const section = await newSection(project)
  const other = await newProject()
  const { token } = editor
  const patch = async (task: Task, body: object, account = editor) =>
    service.call('updateTask', { token: account.token, params: { task_id: task.id }, body })

  t.test('is set by creations and updates, and kept by updates without it', async (t) => {
    const [task] = await newTasks(['t'], { project_id: project, section_id: section })
    t.equal(task.section_id, section)
    t.match((await patch(task, { title: 'u', project_id: project })).body, { section_id: section })
    t.match((await patch(task, { section_id: null })).body, { section_id: null, position: task.position })
    t.match((await patch(task, { section_id: section })).body, { section_id: section })
    const { task: read } = await readTask(editor, task.id)
    const replaced = await service.expect('replaceTask', 200, {
      token,
      params: { task_id: task.id },
      body: read,
    })
    t.strictSame(replaced.body, read)
  })

  t.test('is removed when the project changes', async (t) => {
    const [task, batched] = await newTasks(['t', 'b'], { project_id: project, section_id: section })
    const target = await newSection(other)
    const moved = await patch(task, { project_id: other })
    t.match(moved.body, { project_id: other, section_id: null })
    t.ok(task.position < (moved.body as Task).position, 'the task comes last in the project')
    t.match((await patch(task, { project_id: project, section_id: section })).body, { section_id: section })
    t.match((await patch(task, { project_id: null })).body, { project_id: null, section_id: null })
    const update = [
      { project_id: other, section_id: target },
      { project_id: project },
      { project_id: other, section_id: target, title: 'c' },
      { title: 'd' },
    ].map((change) => ({ task_id: batched.id, patch: change }))
    const { body } = await service.expect('batchTasks', 200, { token, body: { update } })
    t.ok(body.update.every(({ status }) => status === 200))
    t.match((await readTask(editor, batched.id)).task, { title: 'd', project_id: other, section_id: target })
    const back = [{ task_id: batched.id, patch: { project_id: project } }]
    await service.expect('batchTasks', 200, { token, body: { update: back } })
    t.match((await readTask(editor, batched.id)).task, { project_id: project, section_id: null })
  })

  t.test('422 for a section of another project', async (t) => {
    const [task] = await newTasks(['t'], { project_id: other })
    const reply = await service.expect('createTask', 422, {
      token,
      body: { title: 't', project_id: other, section_id: section },
    })
    t.strictSame(pointersOf(reply.body), ['/section_id'])
    await service.expect('createTask', 422, { token, body: { title: 't', section_id: section } })
    t.equal((await patch(task, { section_id: section })).status, 422)
    t.equal((await patch(task, { project_id: null, section_id: section })).status, 422)
    const update = [{ task_id: task.id, patch: { section_id: section } }]
    const { body } = await service.expect('batchTasks', 200, { token, body: { update } })
    t.match(body.update[0]?.problem, {
      code: 'unknown_reference',
      errors: [{ pointer: '/update/0/patch/section_id' }],
    })
  })

  t.test('403 for viewers, and for assignees who are no members', async (t) => {
    const [task] = await newTasks(['t'], { project_id: project, assignee_id: assignee.id })
    t.equal((await patch(task, { section_id: section }, assignee)).status, 403)
    t.equal((await patch(task, { title: 'u', section_id: null }, assignee)).status, 200)
    t.equal((await patch(task, { section_id: section }, viewer)).status, 403)
  })

  t.test('lists can be filtered by it', async (t) => {
    const listed = await newProject()
    const [one, two] = [await newSection(listed), await newSection(listed)]
    await newTasks(['a'], { project_id: listed, section_id: one })
    await newTasks(['b'], { project_id: listed, section_id: two })
    await newTasks(['c'], { project_id: listed })
    const titles = async (query: Record<string, string | readonly string[]>) => {
      const request = {
        token: viewer.token,
        params: { project_id: listed },
        query: { sort: 'title', ...query },
      }
      const { body } = await service.expect('listProjectTasks', 200, request)
      return body.items.map(({ title }) => title).join('')
    }
    t.equal(await titles({ section_id: one }), 'a')
    t.equal(await titles({ section_id: [one, two] }), 'ab')
    t.equal(await titles({ section_id: 'none' }), 'c')
    t.equal(await titles({ section_id: ['none', two] }), 'bc')
    t.equal(await titles({ filter: `section_id != "${one}"` }), 'b')
    t.equal(await titles({ filter: 'NOT section_id:*' }), 'c')
    const everywhere = { token: viewer.token, query: { section_id: one } }
    t.equal((await service.expect('listTasks', 200, everywhere)).body.items.length, 1)
  })
})
