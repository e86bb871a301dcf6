import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { readChanges } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, startService } from '../fixture/service.ts'
import { countStatuses, pointersOf, type Task, taskActions, unknownId } from '../fixture/tasks.ts'

type Schemas = components['schemas']
type ProblemFields = Pick<Schemas['Problem'], 'code' | 'detail' | 'errors'>
type TaskOrProblem = Task & ProblemFields

/** Subtasks: valid parents, moving and deleting a task with its subtasks, and the counts of subtasks. */

const { db } = await openTestDatabase(t)
const service = await startService(t, { db })
const admin = await service.register('admin')
const { createTag, createTask, readTask } = taskActions(service)
const { createProject, setMember } = projectActions(service)
const owner = await service.register('owner')
const other = await service.register('other')
const { token } = owner

const paramsOf = ({ id }: Pick<Task, 'id'>) => ({ params: { task_id: id } })

const createSubtask = ({ id }: Pick<Task, 'id'>, fields: object = {}): Promise<Task> =>
  createTask(owner, { parent_id: id, ...fields })

/** Creates a task with this number of levels, including itself. Each level has one subtask. */
const createChain = async (levels: number, fields: object = {}): Promise<Task[]> => {
  const tasks = [await createTask(owner, fields)]
  for (const parent of tasks) {
    if (tasks.length === levels) break
    tasks.push(await createSubtask(parent))
  }
  return tasks
}

/** A task and its subtask. */
const createTwo = async (fields: object = {}): Promise<readonly [Task, Task]> =>
  (await createChain(2, fields)) as [Task, Task]

/** A task, its subtask, and the subtask of that. */
const createThree = async (fields: object = {}): Promise<readonly [Task, Task, Task]> =>
  (await createChain(3, fields)) as [Task, Task, Task]

const read = async ({ id }: Pick<Task, 'id'>, account = owner): Promise<Task> =>
  (await readTask(account, id)).task

const exists = async ({ id }: Pick<Task, 'id'>): Promise<boolean> =>
  (await service.call('getTask', { token, params: { task_id: id } })).status === 200

const patch = async (task: Pick<Task, 'id'>, body: object, account: Account = owner) => {
  const reply = await service.call('updateTask', { token: account.token, ...paramsOf(task), body })
  return { status: reply.status, body: reply.body as TaskOrProblem }
}

const trash = (task: Pick<Task, 'id'>) => service.expect('deleteTask', 204, { token, ...paramsOf(task) })

const restore = async (task: Pick<Task, 'id'>): Promise<Task> =>
  (await service.expect('restoreTask', 200, { token, ...paramsOf(task) })).body

const readTrashed = async (task: Pick<Task, 'id'>) =>
  (await service.expect('getTrashedTask', 200, { token, ...paramsOf(task) })).body

/** The number of subtasks, and of open ones. */
const countsOf = async (task: Pick<Task, 'id'>): Promise<readonly [number, number]> => {
  const { subtask_count, open_subtask_count } = await read(task)
  return [subtask_count, open_subtask_count]
}

const parentOf = async (task: Pick<Task, 'id'>): Promise<string | null> => (await read(task)).parent_id

/** Checks the invariants of all tasks: the counts, and that a subtask has the project or the owner of its parent. */
const checkTrees = async (t: Test): Promise<void> => {
  const wrong = await db.run(
    `select task.id from tasks task
     left join tasks parent on parent.id = task.parent_id
     cross join lateral (
       select count(*) as subtasks, count(*) filter (where status in ('todo', 'in_progress')) as open_subtasks
       from tasks subtask
       where subtask.parent_id = task.id and (subtask.deleted_at is null or subtask.deleted_at = task.deleted_at)
     ) counted
     where (task.subtask_count, task.open_subtask_count) <> (counted.subtasks, counted.open_subtasks)
       or (task.deleted_at is null and task.parent_id is not null and (
         parent.id is null or parent.deleted_at is not null
         or coalesce(parent.project_id, parent.owner_id) <> coalesce(task.project_id, task.owner_id)))`,
    [],
  )
  t.equal(wrong.length, 0, 'each subtask is counted, and has the project or owner of its parent')
}

const expectInvalid = async (
  t: Test,
  { status, body }: { readonly status: number; readonly body: ProblemFields },
  code: string,
  detail: RegExp,
): Promise<void> => {
  t.match({ status, code: body.code }, { status: 422, code })
  t.strictSame(pointersOf(body), ['/parent_id'])
  t.match(body.detail, detail)
}

const tryCreate = async (fields: object, account: Account = owner) => {
  const reply = await service.call('createTask', {
    token: account.token,
    body: { title: 'A task', ...fields },
  })
  return { status: reply.status, body: reply.body as TaskOrProblem }
}

t.test('createTask with a parent', async (t) => {
  t.test('201 for a personal task, which its parent counts', async (t) => {
    const parent = await createTask(owner)
    const subtask = await createSubtask(parent)
    t.match(subtask, { parent_id: parent.id, project_id: null, owner_id: owner.id, subtask_count: 0 })
    t.strictSame(await read(subtask), subtask)
    await createSubtask(parent, { status: 'done' })
    const counted = await read(parent)
    t.match(counted, { subtask_count: 2, open_subtask_count: 1, version: 1, revision: 3 })
    t.ok(counted.updated_at > parent.updated_at)
  })

  t.test('201 in the project of the parent', async (t) => {
    const project = await createProject(owner)
    const parent = await createTask(owner, { project_id: project.id })
    t.equal((await createSubtask(parent)).project_id, project.id)
    t.equal((await createSubtask(parent, { project_id: project.id })).parent_id, parent.id)
    t.strictSame(await countsOf(parent), [2, 2])
  })

  t.test('422 for a parent of another project or owner', async (t) => {
    const project = await createProject(owner)
    const parent = await createTask(owner, { project_id: project.id })
    const elsewhere = /same project/
    await expectInvalid(
      t,
      await tryCreate({ parent_id: parent.id, project_id: null }),
      'invalid_parent',
      elsewhere,
    )
    const personal = await createTask(owner)
    const inProject = { parent_id: personal.id, project_id: project.id }
    await expectInvalid(t, await tryCreate(inProject), 'invalid_parent', elsewhere)
    await expectInvalid(t, await tryCreate({ parent_id: personal.id }, admin), 'invalid_parent', elsewhere)
    const assigned = await createTask(other, { assignee_id: owner.id })
    await expectInvalid(t, await tryCreate({ parent_id: assigned.id }), 'invalid_parent', elsewhere)
    t.equal((await tryCreate({ parent_id: personal.id, owner_id: owner.id }, admin)).status, 201)
  })

  t.test('422 for an unknown, invisible or trashed parent', async (t) => {
    const foreign = await createTask(other, { project_id: (await createProject(other)).id })
    const deleted = await createTask(owner)
    await trash(deleted)
    for (const id of [unknownId, foreign.id, deleted.id])
      await expectInvalid(
        t,
        await tryCreate({ parent_id: id }),
        'unknown_reference',
        /^The task does not exist/,
      )
  })

  t.test('403 for a commenter of the project', async (t) => {
    const project = await createProject(owner)
    await setMember(owner, project, other, 'commenter')
    const parent = await createTask(owner, { project_id: project.id })
    t.equal((await tryCreate({ parent_id: parent.id }, other)).status, 403)
  })

  t.test('422 for a ninth level', async (t) => {
    const chain = await createChain(8)
    const result = await tryCreate({ parent_id: chain[7]?.id })
    await expectInvalid(t, result, 'invalid_parent', /more than 8 levels/)
    t.equal((await tryCreate({ parent_id: chain[6]?.id })).status, 201)
  })
})

t.test('changing the parent', async (t) => {
  t.test('200: to a task, to another task, and to null', async (t) => {
    const [first, second, task] = [await createTask(owner), await createTask(owner), await createTask(owner)]
    t.match(await patch(task, { parent_id: first.id }), {
      status: 200,
      body: { parent_id: first.id, version: 2 },
    })
    t.strictSame(await countsOf(first), [1, 1])
    t.match(await patch(task, { parent_id: first.id }), { body: { version: 2 } }, 'nothing changes')
    await patch(task, { parent_id: second.id, status: 'cancelled' })
    t.strictSame(
      [await countsOf(first), await countsOf(second)],
      [
        [0, 0],
        [1, 0],
      ],
    )
    t.match(await patch(task, { parent_id: null }), { body: { parent_id: null } })
    t.strictSame(await countsOf(second), [0, 0])
  })

  t.test('200: PUT keeps the parent by default, or changes it', async (t) => {
    const parent = await createTask(owner)
    const task = await createSubtask(parent)
    const put = async (body: object) =>
      (await service.expect('replaceTask', 200, { token, ...paramsOf(task), body })).body
    t.equal((await put({ title: 'Replaced' })).parent_id, parent.id)
    t.equal((await put({ ...(await read(task)), title: 'Again' })).parent_id, parent.id)
    t.equal((await put({ title: 'Replaced', parent_id: null })).parent_id, null)
  })

  t.test('422 for the task itself, its subtasks, and an unknown task', async (t) => {
    const [root, middle, leaf] = await createThree()
    const cycle = /itself or one of its subtasks/
    for (const parent of [root, middle, leaf])
      await expectInvalid(t, await patch(root, { parent_id: parent.id }), 'invalid_parent', cycle)
    await expectInvalid(
      t,
      await patch(leaf, { parent_id: unknownId }),
      'unknown_reference',
      /task does not exist/,
    )
    t.equal(await parentOf(root), null)
  })

  t.test('422 for more than 8 levels, including the subtasks of the task', async (t) => {
    const upper = await createChain(5)
    const lower = await createChain(4)
    const moved = lower[0] ?? { id: '' }
    await expectInvalid(
      t,
      await patch(moved, { parent_id: upper[4]?.id }),
      'invalid_parent',
      /more than 8 levels/,
    )
    t.equal((await patch(moved, { parent_id: upper[3]?.id })).status, 200)
  })

  t.test('200 for users who can move the task, 403 or 404 for others', async (t) => {
    const project = await createProject(owner)
    const editor = await service.register('editor')
    const viewer = await service.register('viewer')
    await setMember(owner, project, editor, 'editor')
    await setMember(owner, project, viewer, 'viewer')
    const parent = await createTask(owner, { project_id: project.id })
    const newTask = () => createTask(owner, { project_id: project.id, assignee_id: other.id })
    const statusOf = async (account: Account) =>
      (await patch(await newTask(), { parent_id: parent.id }, account)).status
    const stranger = await service.register('stranger')
    t.strictSame(
      await Promise.all([owner, editor, admin, viewer, other, stranger].map(statusOf)),
      [200, 200, 200, 403, 403, 404],
    )
    const subtask = await createSubtask(parent, { assignee_id: other.id })
    t.equal((await patch(subtask, { parent_id: null }, other)).status, 403)
    const { body } = await patch(subtask, { status: 'done' }, other)
    t.match(body, { status: 'done', parent_id: parent.id }, 'the assignee cannot see the parent')
    const request = { token: other.token, ...paramsOf(subtask), body }
    t.equal((await service.call('replaceTask', request)).status, 200, 'PUT of the body as it was read')
    t.strictSame(await countsOf(parent), [4, 3])
  })
})

t.test('counts', async (t) => {
  t.test('follow changes of the status, the trash, and permanent deletion', async (t) => {
    const parent = await createTask(owner)
    const [first, second] = [await createSubtask(parent), await createSubtask(parent)]
    const counts = [await countsOf(parent)]
    const steps = [
      () => patch(first, { status: 'done' }),
      () => patch(first, { status: 'cancelled' }),
      () => patch(first, { status: 'in_progress' }),
      () => trash(second),
      () => restore(second),
      () => trash(second),
      () => service.expect('deleteTrashedTask', 204, { token, ...paramsOf(second) }),
    ]
    for (const step of steps) {
      await step()
      counts.push(await countsOf(parent))
    }
    t.strictSame(counts, [
      [2, 2],
      [2, 1],
      [2, 1],
      [2, 2],
      [1, 1],
      [2, 2],
      [1, 1],
      [1, 1],
    ])
  })

  t.test('change the ETag of the parent, and report it in the change feed', async (t) => {
    const parent = await createTask(owner)
    const subtask = await createSubtask(parent)
    const feed = (since: string) => readChanges(service, owner, { since })
    let { next_cursor: since, has_more: more } = await readChanges(service, owner)
    while (more) ({ next_cursor: since, has_more: more } = await feed(since))
    const { etag } = await readTask(owner, parent.id)
    await patch(subtask, { title: 'Changed' })
    t.equal((await readTask(owner, parent.id)).etag, etag, 'a new title changes no count')
    await patch(subtask, { status: 'done' })
    t.not((await readTask(owner, parent.id)).etag, etag)
    const { changed } = await feed(since)
    t.strictSame(new Set(changed.map(({ id }) => id)), new Set([parent.id, subtask.id]))
  })

  t.test('a task with open subtasks can be completed', async (t) => {
    const parent = await createTask(owner)
    await createSubtask(parent)
    t.match(await patch(parent, { status: 'done' }), { status: 200, body: { open_subtask_count: 1 } })
  })

  t.test('are right after 20 creations at the same time', async (t) => {
    const parent = await createTask(owner)
    await Promise.all(Array.from({ length: 20 }, () => createSubtask(parent)))
    t.strictSame(await countsOf(parent), [20, 20])
  })
})

t.test('the trash', async (t) => {
  t.test('receives a task with its subtasks, and restores all of them', async (t) => {
    const tag = await createTag(owner, 'kept')
    const [root, middle, leaf] = await createThree()
    await patch(leaf, { tag_ids: [tag.id], status: 'done' })
    const before = await Promise.all([root, middle, leaf].map((task) => read(task)))
    await trash(root)
    const trashed = await Promise.all([root, middle, leaf].map(readTrashed))
    t.equal(new Set(trashed.map(({ deleted_at }) => deleted_at)).size, 1)
    t.strictSame(
      trashed.map(({ subtask_count, open_subtask_count }) => [subtask_count, open_subtask_count]),
      [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
    )
    await checkTrees(t)
    const restored = await restore(root)
    const after = await Promise.all([root, middle, leaf].map((task) => read(task)))
    t.strictSame(after[0], restored)
    const withoutVersion = (task: Task | undefined) => ({ ...task, version: 0, revision: 0, updated_at: '' })
    t.strictSame(after.map(withoutVersion), before.map(withoutVersion))
  })

  t.test('keeps a subtask that was trashed before its parent', async (t) => {
    const parent = await createTask(owner)
    const [early, late] = [await createSubtask(parent), await createSubtask(parent)]
    await trash(early)
    await trash(parent)
    t.equal((await readTrashed(parent)).subtask_count, 1)
    await restore(parent)
    t.strictSame([await exists(early), await exists(late)], [false, true])
    t.strictSame(await countsOf(parent), [1, 1])
    t.equal((await restore(early)).parent_id, parent.id)
    t.strictSame(await countsOf(parent), [2, 2])
  })

  t.test('restores a subtask with its own subtasks, without its parent', async (t) => {
    const [root, middle, leaf] = await createThree()
    await trash(root)
    t.match(await restore(middle), { parent_id: null, subtask_count: 1 })
    t.equal(await parentOf(leaf), middle.id)
    t.equal((await readTrashed(root)).subtask_count, 0)
    t.match(await restore(root), { subtask_count: 0 })
  })

  t.test('restores a subtask without a parent if the parent was permanently deleted or moved', async (t) => {
    const project = await createProject(owner)
    const deleted = await createTask(owner)
    const moved = await createTask(owner)
    const [deletedSubtask, movedSubtask] = [await createSubtask(deleted), await createSubtask(moved)]
    await trash(deletedSubtask)
    await trash(movedSubtask)
    await trash(deleted)
    await service.expect('deleteTrashedTask', 204, { token, ...paramsOf(deleted) })
    await patch(moved, { project_id: project.id })
    t.equal((await readTrashed(deletedSubtask)).parent_id, deleted.id)
    t.match(await restore(deletedSubtask), { parent_id: null })
    t.match(await restore(movedSubtask), { parent_id: null, project_id: null })
  })

  t.test('restores a subtask without a parent if it would be too deep', async (t) => {
    const [root, middle] = await createThree()
    const upper = await createChain(6)
    await trash(middle)
    await patch(root, { parent_id: upper[5]?.id })
    t.equal((await restore(middle)).parent_id, null)
  })

  t.test('permanently deletes the subtasks trashed with a task, and no others', async (t) => {
    const parent = await createTask(owner)
    const [early, late, saved] = [
      await createSubtask(parent),
      await createSubtask(parent),
      await createSubtask(parent),
    ]
    await trash(early)
    await trash(parent)
    await restore(saved)
    await service.expect('deleteTrashedTask', 204, { token, ...paramsOf(parent) })
    await service.expect('getTrashedTask', 404, { token, ...paramsOf(late) })
    t.equal((await readTrashed(early)).id, early.id)
    t.equal((await read(saved)).parent_id, null)
  })

  t.test('records the events of each subtask', async (t) => {
    const [root, leaf] = await createTwo()
    await trash(root)
    await restore(leaf)
    const events = await db.run(
      `select type, actor_id, before, after from events where task_id = $1 order by changed_in, ordinal`,
      [leaf.id],
    )
    t.match(events, [
      { type: 'task.created', after: { parent_id: root.id } },
      { type: 'task.deleted', actor_id: owner.id },
      {
        type: 'task.restored',
        actor_id: owner.id,
        before: { parent_id: root.id },
        after: { parent_id: null },
      },
    ])
  })
})

t.test('a subtask in the trash, whose parent has moved to a project', async (t) => {
  const [parent, subtask] = await createTwo()
  await trash(subtask)
  const project = await createProject(owner)
  t.equal((await patch(parent, { project_id: project.id })).status, 200)
  t.equal((await patch(subtask, { status: 'done' })).status, 404)
  await expectInvalid(t, await tryCreate({ parent_id: subtask.id }), 'unknown_reference', /./)
  t.equal((await restore(subtask)).parent_id, null)
})

t.test('moving a task with subtasks', async (t) => {
  const [from, to] = [await createProject(owner), await createProject(owner)]
  const section = (
    await service.expect('createSection', 201, {
      token,
      params: { project_id: from.id },
      body: { name: 'A section' },
    })
  ).body

  t.test('200: to another project, by updateTask and moveTask', async (t) => {
    const moves = {
      patch: (task: Task) => patch(task, { project_id: to.id }),
      move: (task: Task) =>
        service.expect('moveTask', 200, { token, ...paramsOf(task), body: { project_id: to.id } }),
    }
    for (const move of Object.values(moves)) {
      const [root, middle, leaf] = await createThree({ project_id: from.id })
      await patch(leaf, { section_id: section.id })
      await move(root)
      const [, , moved] = await Promise.all([root, middle, leaf].map((task) => read(task)))
      t.match(moved, { project_id: to.id, section_id: null, parent_id: middle.id, position: leaf.position })
      t.equal(await parentOf(middle), root.id)
      await move(middle)
      t.equal(await parentOf(middle), root.id, 'it is in the project already')
    }
  })

  t.test('200: a moved subtask leaves its parent and keeps its own subtasks', async (t) => {
    const [root, middle, leaf] = await createThree({ project_id: from.id })
    t.match(await patch(middle, { project_id: to.id }), { body: { parent_id: null, subtask_count: 1 } })
    t.match(await read(leaf), { parent_id: middle.id, project_id: to.id })
    t.strictSame(await countsOf(root), [0, 0])
    const parent = await createTask(owner, { project_id: from.id })
    const moved = await patch(middle, { project_id: from.id, parent_id: parent.id })
    t.match(moved, { status: 200, body: { parent_id: parent.id } })
    t.equal((await read(leaf)).project_id, from.id)
    await service.expect('moveTask', 200, { token, ...paramsOf(middle), body: { project_id: null } })
    t.match(await read(middle), { parent_id: null, project_id: null })
  })

  t.test('200: outside of a project, all subtasks get the owner of the task', async (t) => {
    await setMember(owner, from, other, 'editor')
    const root = await createTask(owner, { project_id: from.id })
    const foreign = await createTask(other, { parent_id: root.id })
    t.equal(foreign.owner_id, other.id)
    await patch(root, { project_id: null })
    t.match(await read(foreign), { project_id: null, owner_id: owner.id, parent_id: root.id })
  })

  t.test('200: to another owner', async (t) => {
    const [root, middle, leaf] = await createThree()
    t.equal((await patch(middle, { owner_id: other.id })).status, 200)
    t.match(await read(middle, other), { parent_id: null, owner_id: other.id })
    t.match(await read(leaf, other), { parent_id: middle.id, owner_id: other.id })
    t.strictSame(await countsOf(root), [0, 0])
    const inProject = await createTask(owner, { project_id: from.id })
    const subtask = await createSubtask(inProject)
    t.match(await patch(subtask, { owner_id: other.id }), { body: { parent_id: inProject.id } })
    t.match(await patch(inProject, { owner_id: other.id }), { status: 200 })
  })

  t.test('422 for a parent of another project or owner than the target', async (t) => {
    const task = await createTask(owner)
    const inFrom = await createTask(owner, { project_id: from.id })
    const result = await patch(task, { project_id: to.id, parent_id: inFrom.id })
    await expectInvalid(t, result, 'invalid_parent', /same project/)
    const otherUsers = await createTask(other, { assignee_id: owner.id })
    await expectInvalid(t, await patch(task, { parent_id: otherUsers.id }), 'invalid_parent', /same owner/)
  })

  t.test('409 for more than 500 subtasks', async (t) => {
    const root = await createTask(owner, { project_id: from.id })
    const middle = await createSubtask(root)
    const items = Array.from({ length: 500 }, () => ({ title: 'One', parent_id: middle.id }))
    await service.expect('batchTasks', 200, { token, body: { create: items } })
    const attempts = [
      service.call('updateTask', { token, ...paramsOf(root), body: { project_id: to.id } }),
      service.call('moveTask', { token, ...paramsOf(root), body: { project_id: to.id } }),
      service.call('deleteTask', { token, ...paramsOf(root) }),
    ]
    for (const { status, body } of await Promise.all(attempts))
      t.match({ status, body }, { status: 409, body: { code: 'too_many_subtasks' } })
    t.match(await read(root), { project_id: from.id, version: 1, revision: 2 })
    const batch = { delete: [middle, root].map(({ id }) => ({ task_id: id })) }
    const { body: results } = await service.expect('batchTasks', 200, { token, body: batch })
    t.strictSame(
      results.delete.map(({ status }) => status),
      [409, 409],
      'together they are 501',
    )
    t.equal((await patch(root, { title: 'Kept', project_id: from.id })).status, 200)
    await trash(middle)
    t.match(await restore(middle), { subtask_count: 500 })
    t.equal((await patch(middle, { project_id: to.id })).status, 200)
  })
})

t.test('batchTasks', async (t) => {
  const run = async (body: object) => (await service.expect('batchTasks', 200, { token, body })).body

  t.test('200: creates, moves and deletes tasks with subtasks, and rejects invalid parents', async (t) => {
    const parent = await createTask(owner)
    const [goes, moves] = [await createTwo(), await createTwo()]
    const project = await createProject(owner)
    const {
      create,
      update,
      delete: deletions,
    } = await run({
      create: [
        { title: 'New', parent_id: parent.id },
        { title: 'New', parent_id: unknownId },
        { title: 'New', parent_id: parent.id, project_id: project.id },
      ],
      update: [
        { task_id: moves[0].id, patch: { project_id: project.id } },
        { task_id: parent.id, patch: { parent_id: parent.id } },
        { task_id: parent.id, patch: { title: 'Changed' } },
      ],
      delete: [{ task_id: goes[0].id }],
    })
    t.strictSame(
      [...create, ...update, ...deletions].map(({ status, problem }) => [status, problem?.code]),
      [
        [201, undefined],
        [422, 'unknown_reference'],
        [422, 'invalid_parent'],
        [200, undefined],
        [422, 'invalid_parent'],
        [200, undefined],
        [204, undefined],
      ],
    )
    t.strictSame(pointersOf(update[1]?.problem as Schemas['Problem']), ['/update/1/patch/parent_id'])
    t.match(await read(parent), { title: 'Changed', subtask_count: 1, version: 2, revision: 3 })
    t.equal(update[2]?.etag, '"2"', 'counts change after the last item')
    t.equal((await read(moves[1])).project_id, project.id)
    t.equal(await exists(goes[1]), false)
  })

  t.test('200: items for a task and its subtasks', async (t) => {
    const project = await createProject(owner)
    const [root, middle, leaf] = await createThree()
    const personal = await createTask(owner)
    const { update } = await run({
      update: [
        { task_id: root.id, patch: { project_id: project.id } },
        { task_id: middle.id, patch: { title: 'Taken along', status: 'done' } },
        { task_id: leaf.id, patch: { parent_id: personal.id } },
      ],
    })
    t.strictSame(
      update.map(({ status }) => status),
      [200, 200, 422],
      'the last one is in another place by then',
    )
    t.match(await read(middle), {
      title: 'Taken along',
      project_id: project.id,
      parent_id: root.id,
      subtask_count: 1,
    })
    t.match(await read(leaf), { project_id: project.id, parent_id: middle.id })
    t.strictSame(await countsOf(root), [1, 0])
  })

  t.test('200: a task that leaves its project and returns has no parent', async (t) => {
    const project = await createProject(owner)
    const [, subtask] = await createTwo({ project_id: project.id })
    await run({
      update: [null, project.id].map((id) => ({ task_id: subtask.id, patch: { project_id: id } })),
    })
    t.match(await read(subtask), { parent_id: null, project_id: project.id })
  })

  t.test('200: a subtask created in the batch that deletes its parent is trashed, too', async (t) => {
    const parent = await createTask(owner)
    const { create } = await run({
      create: [{ title: 'New', parent_id: parent.id }],
      delete: [{ task_id: parent.id }],
    })
    t.equal(await exists({ id: create[0]?.task_id ?? '' }), false)
    t.match(await restore(parent), { subtask_count: 1, open_subtask_count: 1 })
  })

  t.test('422 for items that together create a cycle or a ninth level', async (t) => {
    const [one, two] = [await createTask(owner), await createTask(owner)]
    const cycle = [
      { task_id: one.id, patch: { parent_id: two.id } },
      { task_id: two.id, patch: { parent_id: one.id } },
    ]
    const [upper, lower, last] = [await createChain(4), await createChain(4), await createTask(owner)]
    const deep = [
      { task_id: lower[0]?.id, patch: { parent_id: upper[3]?.id } },
      { task_id: last.id, patch: { parent_id: lower[3]?.id } },
    ]
    for (const update of [cycle, deep]) {
      const { body } = await service.expect('batchTasks', 422, { token, body: { update, atomic: true } })
      t.equal(body.code, 'invalid_parent')
      const results = await run({ update })
      t.strictSame(
        results.update.map(({ status }) => status),
        [200, 422],
        'the second one sees the first',
      )
    }
    t.strictSame([await parentOf(one), await parentOf(two), await parentOf(last)], [two.id, null, null])
  })

  t.test('409 for each task with subtasks, if those of all tasks are more than 500', async (t) => {
    const idsOf = ({ create }: Schemas['TaskBatchResults']) => create.map(({ task_id }) => task_id ?? '')
    const roots = idsOf(await run({ create: Array.from({ length: 6 }, () => ({ title: 'Root' })) }))
    for (const half of [roots.slice(0, 3), roots.slice(3)]) {
      const parents = Array.from({ length: 84 }, () => half).flat()
      await run({ create: parents.map((parent_id) => ({ title: 'One', parent_id })) })
    }
    const [childless, parent] = [await createTask(owner), await createTask(owner)]
    const results = await run({
      create: [{ title: 'Elsewhere', parent_id: parent.id }],
      delete: [...roots, childless.id].map((task_id) => ({ task_id })),
    })
    t.strictSame(
      new Set(results.delete.slice(0, -1).map(({ status }) => status)),
      new Set([409]),
      'none loses its subtasks',
    )
    t.strictSame([results.create[0]?.status, results.delete.at(-1)?.status], [201, 204])
    t.strictSame(await countsOf({ id: roots[5] ?? '' }), [84, 84])
  })

  t.test('200: 100 subtasks in one batch', async (t) => {
    const parent = await createTask(owner)
    const { create } = await run({
      create: Array.from({ length: 100 }, () => ({ title: 'One', parent_id: parent.id })),
    })
    t.strictSame(await countsOf(parent), [100, 100])
    const ids = create.map(({ task_id }) => task_id)
    await run({ update: ids.map((task_id) => ({ task_id, patch: { status: 'done' } })) })
    t.strictSame(await countsOf(parent), [100, 0])
    await run({ update: ids.map((task_id) => ({ task_id, patch: { parent_id: null } })) })
    t.strictSame(await countsOf(parent), [0, 0])
  })
})

t.test('requests at the same time', async (t) => {
  const rounds = Array.from({ length: 10 }, (_, round) => round)

  t.test('two tasks never become subtasks of each other', async (t) => {
    for (const _ of rounds) {
      const [one, two] = [await createThree(), await createThree()]
      const replies = await Promise.all([
        patch(one[0], { parent_id: two[2].id }),
        patch(two[0], { parent_id: one[2].id }),
      ])
      t.strictSame(
        replies.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 422],
      )
    }
  })

  t.test('a tree never gets more than 8 levels', async (t) => {
    for (const _ of rounds) {
      const upper = await createChain(4)
      const lower = await createChain(4)
      const replies = await Promise.all([
        patch(lower[0] ?? { id: '' }, { parent_id: upper[3]?.id }),
        tryCreate({ parent_id: lower[3]?.id }),
      ])
      t.strictSame(
        replies.map(({ status }) => Math.floor(status / 100)).toSorted((a, b) => a - b),
        [2, 4],
      )
    }
  })

  t.test('a subtask follows its parent to the trash or another project', async (t) => {
    const project = await createProject(owner)
    for (const round of rounds) {
      const [root, leaf] = await createTwo()
      const [moved, , ...created] = await Promise.all([
        round % 2 === 0
          ? service.call('deleteTask', { token, ...paramsOf(root) })
          : patch(root, { project_id: project.id }),
        patch(leaf, { status: 'done' }),
        ...Array.from({ length: 4 }, () => tryCreate({ parent_id: leaf.id })),
      ])
      t.ok(moved.status < 300)
      const statuses = countStatuses(created)
      t.strictSame(
        Object.keys(statuses).filter((status) => !['201', '422'].includes(status)),
        [],
      )
      await checkTrees(t)
    }
  })

  t.test('writes to a parent and its subtasks succeed in any order', async (t) => {
    const parent = await createTask(owner)
    const subtasks = await Promise.all(Array.from({ length: 8 }, () => createSubtask(parent)))
    const all = [...subtasks, parent].map(({ id }) => ({ task_id: id, patch: { status: 'in_progress' } }))
    const replies = await Promise.all([
      ...subtasks.map((subtask) => patch(subtask, { status: 'done' })),
      ...[all, all.toReversed()].map((update) => service.call('batchTasks', { token, body: { update } })),
      ...subtasks.map((subtask) => patch(subtask, { status: 'todo', title: 'Again' })),
    ])
    t.strictSame(new Set(replies.map(({ status }) => status)), new Set([200]))
  })
})

t.test('lists of subtasks', async (t) => {
  const project = await createProject(owner)
  const [one, two] = [await createTask(owner), await createTask(owner, { project_id: project.id })]
  const subtasksOfOne = [await createSubtask(one), await createSubtask(one, { status: 'done' })]
  const subtaskOfTwo = await createSubtask(two, { assignee_id: other.id })
  const deeper = await createSubtask(subtaskOfTwo)
  const ids = (tasks: readonly Pick<Task, 'id'>[]) => tasks.map(({ id }) => id).toSorted()
  const list = async (query: object, account = owner) =>
    ids((await service.expect('listTasks', 200, { token: account.token, query: { ...query } })).body.items)

  t.test('200: the subtasks of one task or several, and tasks without a parent', async (t) => {
    t.strictSame(await list({ parent_id: one.id }), ids(subtasksOfOne))
    t.strictSame(await list({ parent_id: [one.id, two.id] }), ids([...subtasksOfOne, subtaskOfTwo]))
    t.strictSame(await list({ parent_id: one.id.toUpperCase(), status: 'done' }), ids(subtasksOfOne.slice(1)))
    const roots = await list({ parent_id: 'none', limit: 200 })
    t.ok(roots.includes(one.id) && roots.includes(two.id) && !roots.includes(subtaskOfTwo.id))
    const both = await list({ parent_id: ['none', subtaskOfTwo.id], project_id: project.id })
    t.strictSame(both, ids([two, deeper]))
  })

  t.test('200: parent_id and the counts in filters', async (t) => {
    t.strictSame(await list({ filter: `parent_id = ${one.id}` }), ids(subtasksOfOne))
    t.strictSame(
      await list({ filter: `parent_id:* AND project_id = ${project.id}` }),
      ids([subtaskOfTwo, deeper]),
    )
    t.strictSame(
      await list({ filter: `parent_id = ${one.id} OR parent_id = ${two.id}` }),
      ids([...subtasksOfOne, subtaskOfTwo]),
    )
    const counted = { filter: `subtask_count = 2 AND open_subtask_count < 2 AND id = ${one.id}` }
    t.strictSame(await list(counted), [one.id])
  })

  t.test('200: visible tasks only, in every order, and in the lists of projects and users', async (t) => {
    t.strictSame(await list({ parent_id: two.id }, other), [subtaskOfTwo.id])
    t.strictSame(await list({ parent_id: subtaskOfTwo.id }, other), [])
    t.strictSame(await list({ parent_id: one.id }, admin), [])
    t.strictSame(await list({ parent_id: one.id, all: true }, admin), ids(subtasksOfOne))
    for (const sort of ['created_at', '-updated_at', 'due', 'position', 'title'])
      t.strictSame(await list({ parent_id: one.id, sort, limit: 50 }), ids(subtasksOfOne), sort)
    const query = { parent_id: two.id }
    const projectRequest = { token, params: { project_id: project.id }, query }
    t.strictSame(ids((await service.expect('listProjectTasks', 200, projectRequest)).body.items), [
      subtaskOfTwo.id,
    ])
    const userRequest = { token, params: { user_id: other.id }, query }
    t.strictSame(ids((await service.expect('listUserTasks', 200, userRequest)).body.items), [subtaskOfTwo.id])
  })

  t.test('400 for values that are not ids', async () => {
    for (const parent of ['', 'null', 'me']) {
      await service.expect('listTasks', 400, { token, query: { parent_id: parent } })
      await service.expect('listTasks', 400, { token, query: { filter: `parent_id = ${parent || '""'}` } })
    }
  })
})

t.test('all tasks meet the invariants in the end', async (t) => {
  await checkTrees(t)
  const wrong = await db.run(
    `with recursive above as (
      select id, parent_id, 1 as levels from tasks where deleted_at is null
      union all
      select above.id, parent.parent_id, levels + 1 from above join tasks parent on parent.id = above.parent_id
      where levels <= 8
    )
    select from above where levels > 8`,
    [],
  )
  t.equal(wrong.length, 0, 'trees have at most 8 levels and no cycle')
})
