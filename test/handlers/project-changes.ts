import t from 'tap'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { copyActions, type TaskCopy } from '../fixture/copies.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectLife, randomFrom, sightings } from '../fixture/project-life.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { type Account, startService } from '../fixture/service.ts'
import { type Task, taskActions } from '../fixture/tasks.ts'

const { db, options } = await openTestDatabase(t)
const service = await startService(t, { db })
const { newCopy, copyOf, truthOf } = copyActions(service, db)
const { createTask } = taskActions(service)
const rows = projectRows(db)
const admin = await service.register('admin')
const boss = await service.register('boss')
const ann = await service.register('ann')
const bob = await service.register('bob')
const people = [ann, bob]

/** New tasks in a new project of boss. */
const newProjectTasks = async (count: number, fields: object = {}) => {
  const projectId = await rows.newProject(boss)
  const ids: string[] = []
  for (let n = 0; n < count; n += 1) {
    const { id } = await createTask(boss, { title: `task ${n}`, ...fields })
    await rows.moveTask(id, projectId)
    ids.push(id)
  }
  return { projectId, ids }
}

const rename = (id: string) => db.run(`update tasks set title = title || '.' where id = $1`, [id])
const assign = (id: string, to: Account | null) =>
  db.run('update tasks set assignee_id = $2 where id = $1', [id, to?.id ?? null])

type Assertions = Pick<typeof t, 'strictSame' | 'equal'>

interface Changes {
  readonly changed?: readonly string[]
  readonly deleted?: readonly string[]
}

/** Expects the next update of a copy to have these changes, and to make it current. */
const expectChanges = async (
  t: Assertions,
  step: string,
  copy: TaskCopy,
  { changed = [], deleted = [] }: Changes = {},
): Promise<void> => {
  t.strictSame(await copy.update(), { changed, deleted }, step)
  t.strictSame(copy.tasks(), await truthOf(copy), step)
}

t.test('members get the tasks of a project when they join, and lose them when they leave', async (t) => {
  const { projectId, ids } = await newProjectTasks(5)
  const [first = '', second = '', third = '', ...others] = ids
  const copy = await copyOf(ann, { limit: 2 })
  await rows.setMember(projectId, ann, 'viewer')
  await expectChanges(t, 'joined', copy, { changed: ids })
  await rows.setMember(projectId, ann, 'editor')
  await expectChanges(t, 'another role', copy)
  await rename(first)
  await expectChanges(t, 'changed', copy, { changed: [first] })
  await rows.moveTask(second, null)
  await expectChanges(t, 'moved out of the project', copy, { deleted: [second] })
  await rows.removeMember(projectId, ann)
  const { id: created } = await createTask(boss)
  await rows.moveTask(created, projectId)
  await rows.moveTask(second, projectId)
  await rename(third)
  await expectChanges(t, 'left', copy, { deleted: [...others, first, third] })
})

t.test('a change between two pages is not missed by a former member', async (t) => {
  const { projectId, ids } = await newProjectTasks(3)
  await rows.setMember(projectId, ann)
  const copy = await copyOf(ann, { limit: 1 })
  await rows.removeMember(projectId, ann)
  await createTask(ann)
  for (const id of ids.slice(1)) await rename(id)
  await changesToBeKnown(db)
  await copy.step()
  t.equal((await copy.step()).has_more, true)
  await rename(ids[2] ?? '')
  await copy.update()
  t.strictSame(copy.tasks(), await truthOf(copy))
})

t.test('a member who leaves and joins again gets all tasks', async (t) => {
  const { projectId, ids } = await newProjectTasks(3)
  const [first = '', second = '', third = ''] = ids
  await rows.setMember(projectId, ann)
  const copy = await copyOf(ann)
  await rows.removeMember(projectId, ann)
  await rows.moveTask(second, null)
  await rows.setMember(projectId, ann)
  await expectChanges(t, 'back', copy, { changed: [first, third], deleted: [second] })
})

t.test('team members get and lose tasks with their team, unless they are members themselves', async (t) => {
  const { projectId, ids } = await newProjectTasks(2)
  const team = await rows.newTeam(ann)
  const copies = [await copyOf(ann), await copyOf(bob)] as const
  const expectEach = async (step: string, forAnn: Changes, forBob: Changes): Promise<void> => {
    await expectChanges(t, `${step}: ann`, copies[0], forAnn)
    await expectChanges(t, `${step}: bob`, copies[1], forBob)
  }
  await rows.setTeam(projectId, team, 'viewer')
  await expectEach('the team joins', { changed: ids }, {})
  await rows.setTeamMember(team, bob)
  await expectEach('somebody joins the team', {}, { changed: ids })
  await rows.setMember(projectId, bob)
  await rows.removeTeamMember(team, bob)
  await expectEach('a member leaves the team', {}, {})
  await rows.removeTeam(team)
  await expectEach('the team is deleted', { deleted: ids }, {})
})

t.test('deleting a project deletes its tasks, and restoring it returns them', async (t) => {
  const { projectId, ids } = await newProjectTasks(3)
  const [first = '', second = '', third = ''] = ids
  await rows.setMember(projectId, ann)
  await assign(second, ann)
  await assign(third, bob)
  // In the end, the assignment is the only reason why ann can see the second task.
  const copies = {
    ann: await copyOf(ann, { limit: 1 }),
    bob: await copyOf(bob),
    boss: await copyOf(boss),
    all: await copyOf(admin, { query: { all: true } }),
  }
  const expectEach = async (
    step: string,
    expected: Readonly<Record<keyof typeof copies, Changes>>,
  ): Promise<void> => {
    for (const name of ['ann', 'bob', 'boss', 'all'] as const)
      await expectChanges(t, `${step}: ${name}`, copies[name], expected[name])
  }
  await rows.trashProject(projectId)
  const removed = { deleted: [first, second, third] }
  await expectEach('trashed', { ann: removed, bob: { deleted: [third] }, boss: removed, all: removed })
  await rows.restoreProject(projectId)
  const back = { changed: [first, second, third] }
  await expectEach('restored', { ann: back, bob: { changed: [third] }, boss: back, all: back })
  await rows.trashProject(projectId)
  await copies.ann.update()
  await rows.restoreProject(projectId)
  await rows.removeMember(projectId, ann)
  await copies.ann.update()
  t.strictSame(copies.ann.tasks(), await truthOf(copies.ann), 'an assignee keeps the assigned tasks')
})

t.test('a former member learns nothing about tasks that they never saw', async (t) => {
  const { projectId, ids } = await newProjectTasks(1)
  await rows.setMember(projectId, ann)
  const copy = await copyOf(ann)
  const { id: older } = await createTask(boss)
  await rows.removeMember(projectId, ann)
  const { id: newer } = await createTask(boss)
  for (const id of [older, newer]) await rows.moveTask(id, projectId)
  await rows.moveTask(older, null)
  await expectChanges(t, 'left', copy, { deleted: ids })
})

t.test('a task assigned while its project is deleted is removed from the copy', async (t) => {
  const { projectId, ids } = await newProjectTasks(1)
  const other = createSqlClient(options)
  t.teardown(() => other.end({ timeout: 0 }))
  const copy = await copyOf(bob)
  await other`begin`
  await other`update tasks set assignee_id = ${bob.id} where id = ${ids[0] ?? ''}`
  const trashed = rows.trashProject(projectId)
  await other`commit`
  await trashed
  await copy.update()
  t.strictSame(copy.tasks(), await truthOf(copy))
})

t.test('a former member misses no change that was not known yet when they read that they left', async (t) => {
  const { projectId, ids } = await newProjectTasks(3)
  const [renamed = '', moved = ''] = ids
  await rows.setMember(projectId, ann)
  const copy = await copyOf(ann, { limit: 1 })
  const earlier = createSqlClient(options)
  t.teardown(() => earlier.end({ timeout: 0 }))
  await rows.removeMember(projectId, ann)
  await changesToBeKnown(db)
  // Until this transaction has ended, the feed knows that the member left, but not what follows.
  await earlier`begin`
  await earlier`select pg_current_xact_id()`
  await rename(renamed)
  await rows.moveTask(moved, null)
  t.ok((await copy.read()).deleted.includes(ids[2] ?? ''), 'the member has read that they left')
  await earlier`commit`
  await copy.update()
  t.strictSame(copy.tasks(), await truthOf(copy))
})

t.test('filters: a task that no longer matches is reported as deleted', async (t) => {
  const { projectId, ids } = await newProjectTasks(2)
  const [first = '', second = ''] = ids
  await rows.setMember(projectId, ann)
  const { id: own } = await createTask(ann, { assignee_id: ann.id })
  const filteredCopy = (query: TaskCopy['query']) => copyOf(ann, { limit: 1, query })
  const copies = {
    project: await filteredCopy({ project_id: [projectId] }),
    personal: await filteredCopy({ project_id: ['none'] }),
    both: await filteredCopy({ project_id: ['none', projectId] }),
    assigned: await filteredCopy({ assignee_id: ['me'], project_id: [projectId] }),
  }
  t.strictSame(
    copies.project
      .tasks()
      .map(({ id }) => id)
      .toSorted(),
    ids.toSorted(),
  )
  t.ok(copies.personal.tasks().some(({ id }) => id === own))
  t.strictSame(copies.assigned.tasks(), [])
  const expectEach = async (step: string): Promise<void> => {
    for (const [name, copy] of Object.entries(copies)) {
      await copy.update()
      t.strictSame(copy.tasks(), await truthOf(copy), `${step}: ${name}`)
    }
  }
  await expectEach('first')
  await assign(first, ann)
  await expectEach('assigned')
  await rows.moveTask(own, projectId)
  await rows.moveTask(second, null)
  await expectEach('moved')
  await assign(first, null)
  await rename(own)
  await expectEach('unassigned')
  await rows.removeMember(projectId, ann)
  await expectEach('left')
  const query = { since: copies.both.cursor(), project_id: [projectId] }
  await service.expect('listTaskChanges', 400, { token: ann.token, query })
  await service.expect('listTaskChanges', 200, {
    token: ann.token,
    query: { since: copies.both.cursor(), project_id: [projectId, 'none'] },
  })
})

const tagCountsOf = (tasks: readonly Task[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { tags } of tasks) for (const { name } of tags) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

/** Expects a copy to equal the list of tasks, and the tag counts to match those tasks. */
const expectCurrent = async (t: Assertions, copy: TaskCopy, step: string): Promise<readonly Task[]> => {
  const truth = await truthOf(copy)
  t.strictSame(copy.tasks(), truth, `${step}: the copy`)
  const { token } = copy.account
  const { body } = await service.expect('listTags', 200, { token, query: { ...copy.query, limit: 200 } })
  const counted = body.items.filter(({ task_count }) => task_count > 0)
  t.strictSame(
    Object.fromEntries(counted.map(({ name, task_count }) => [name, task_count])),
    tagCountsOf(truth),
    `${step}: the tags`,
  )
  t.equal(new Set(body.items.map(({ id }) => id)).size, body.items.length, `${step}: each tag once`)
  return truth
}

t.test('copies and counts are right after random changes; deletions name only seen tasks', async (t) => {
  const { next } = await projectLife(db, { seed: 1, manager: boss, people })
  const { below, one } = randomFrom(2)
  const copies = [boss, ...people].map((account, index) => newCopy(account, { limit: 1 + 2 * index }))
  copies.push(newCopy(admin, { limit: 3, query: { all: true } }))
  const everSeen = new Set<string>()
  const see = async (): Promise<ReadonlyMap<string, ReadonlySet<string>>> => {
    const seen = await sightings(db)
    for (const [user, tasks] of seen) for (const id of tasks) everSeen.add(`${user} ${id}`)
    return seen
  }
  const expectSeen = ({ account }: TaskCopy, deleted: readonly string[]): void => {
    const unseen = deleted.filter((id) => account !== admin && !everSeen.has(`${account.id} ${id}`))
    t.strictSame(unseen, [], account.user.username)
  }
  for (const copy of copies) await copy.update()
  for (let n = 1; n <= 75; n += 1) {
    await next()
    const seen = await see()
    if (below(3) === 0) {
      const copy = one(copies)
      expectSeen(copy, (await copy.step()).deleted)
    }
    for (const copy of n % 15 === 0 ? copies : []) {
      const { id, user } = copy.account
      expectSeen(copy, (await copy.update()).deleted)
      const truth = await expectCurrent(t, copy, `${user.username} after ${n}`)
      if (copy.account === admin) continue
      t.strictSame(
        truth.map((task) => task.id),
        [...(seen.get(id) ?? [])].toSorted(),
        `${user.username} sees`,
      )
    }
  }
})

t.test('copies updated during concurrent changes of tasks and members are right in the end', async (t) => {
  const { next } = await projectLife(db, { seed: 7, manager: boss, people })
  const copies = [boss, ...people, ...people].map((account, index) =>
    newCopy(account, { limit: 1 + 3 * index }),
  )
  copies.push(newCopy(admin, { limit: 3, query: { all: true } }))
  const writing = new AbortController()
  const writer = async (): Promise<void> => {
    for (let n = 0; n < 25; n += 1) await next()
  }
  const readers = copies.map(async (copy) => {
    while (!writing.signal.aborted) await copy.step()
  })
  await Promise.all(Array.from({ length: 6 }, writer))
  writing.abort()
  await Promise.all(readers)
  for (const copy of copies) {
    await copy.update()
    await expectCurrent(t, copy, copy.account.user.username)
  }
})

t.test('an assignee who is no member loses the tasks of a large project, and gets them back', async (t) => {
  const outsider = await service.register('outsider')
  const projectId = await rows.newProject(boss)
  const count = 250
  await db.run(
    `insert into tasks (id, title, description, status, priority, owner_id, assignee_id, project_id)
    select event_id(clock_timestamp(), number), 'A task', '', 'todo', 'none', $1, $2, $3 from generate_series(1, ${count}) number`,
    [boss.id, outsider.id, projectId],
  )
  const copy = await copyOf(outsider)
  const request = { token: boss.token, params: { project_id: projectId } }
  const delivered = () =>
    eventually('all tasks are delivered', async () => {
      const rest = await db.run('select from projects where is_redelivering', [])
      return rest.length === 0
    })
  await service.expect('deleteProject', 204, request)
  await delivered()
  t.equal((await copy.update()).deleted.length, count)
  t.strictSame(copy.tasks(), await truthOf(copy))
  await service.expect('restoreProject', 200, request)
  await delivered()
  t.equal((await copy.update()).changed.length, count)
  t.strictSame(copy.tasks(), await truthOf(copy))
})
