import t from 'tap'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { copyActions, type TaskCopy } from '../fixture/copies.ts'
import { openTestDatabase } from '../fixture/database.ts'
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

/** New tasks of a new project of boss. */
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

interface Told {
  readonly changed?: readonly string[]
  readonly deleted?: readonly string[]
}

/** Expects a copy to be told this, and to be right then. */
const expectTold = async (
  t: Assertions,
  what: string,
  copy: TaskCopy,
  { changed = [], deleted = [] }: Told = {},
): Promise<void> => {
  t.strictSame(await copy.update(), { changed, deleted }, what)
  t.strictSame(copy.tasks(), await truthOf(copy), what)
}

t.test('a member gets the tasks of a project when they join, and loses them when they leave', async (t) => {
  const { projectId, ids } = await newProjectTasks(5)
  const [first = '', second = '', third = '', ...others] = ids
  const copy = await copyOf(ann, { limit: 2 })
  await rows.setMember(projectId, ann, 'viewer')
  await expectTold(t, 'joined', copy, { changed: ids })
  await rows.setMember(projectId, ann, 'editor')
  await expectTold(t, 'another role', copy)
  await rename(first)
  await expectTold(t, 'changed', copy, { changed: [first] })
  await rows.moveTask(second, null)
  await expectTold(t, 'moved out of the project', copy, { deleted: [second] })
  await rows.removeMember(projectId, ann)
  const { id: created } = await createTask(boss)
  await rows.moveTask(created, projectId)
  await rows.moveTask(second, projectId)
  await rename(third)
  await expectTold(t, 'left', copy, { deleted: [...others, first, third] })
})

t.test('what changes after somebody has left is not missed between two pages', async (t) => {
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

t.test('whoever leaves and joins again has everything', async (t) => {
  const { projectId, ids } = await newProjectTasks(3)
  const [first = '', second = '', third = ''] = ids
  await rows.setMember(projectId, ann)
  const copy = await copyOf(ann)
  await rows.removeMember(projectId, ann)
  await rows.moveTask(second, null)
  await rows.setMember(projectId, ann)
  await expectTold(t, 'back', copy, { changed: [first, third], deleted: [second] })
})

t.test('teams join and leave as their members do', async (t) => {
  const { projectId, ids } = await newProjectTasks(2)
  const team = await rows.newTeam(ann)
  const copies = [await copyOf(ann), await copyOf(bob)] as const
  const expectEach = async (what: string, ofAnn: Told, ofBob: Told): Promise<void> => {
    await expectTold(t, `${what}: ann`, copies[0], ofAnn)
    await expectTold(t, `${what}: bob`, copies[1], ofBob)
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

t.test('a project that moves to the trash takes its tasks along, and brings them back', async (t) => {
  const { projectId, ids } = await newProjectTasks(3)
  const [first = '', second = '', third = ''] = ids
  await rows.setMember(projectId, ann)
  await assign(second, ann)
  await assign(third, bob)
  // Of ann it is the last reason to see the second one.
  const copies = {
    ann: await copyOf(ann, { limit: 1 }),
    bob: await copyOf(bob),
    boss: await copyOf(boss),
    all: await copyOf(admin, { query: { all: true } }),
  }
  const expectEach = async (
    what: string,
    told: Readonly<Record<keyof typeof copies, Told>>,
  ): Promise<void> => {
    for (const name of ['ann', 'bob', 'boss', 'all'] as const)
      await expectTold(t, `${what}: ${name}`, copies[name], told[name])
  }
  await rows.trashProject(projectId)
  const gone = { deleted: [first, second, third] }
  await expectEach('trashed', { ann: gone, bob: { deleted: [third] }, boss: gone, all: gone })
  await rows.restoreProject(projectId)
  const back = { changed: [first, second, third] }
  await expectEach('restored', { ann: back, bob: { changed: [third] }, boss: back, all: back })
  await rows.trashProject(projectId)
  await copies.ann.update()
  await rows.restoreProject(projectId)
  await rows.removeMember(projectId, ann)
  await copies.ann.update()
  t.strictSame(copies.ann.tasks(), await truthOf(copies.ann), 'an assignee is left with what is assigned')
})

t.test('a former member is not told of tasks that they have not seen', async (t) => {
  const { projectId, ids } = await newProjectTasks(1)
  await rows.setMember(projectId, ann)
  const copy = await copyOf(ann)
  const { id: older } = await createTask(boss)
  await rows.removeMember(projectId, ann)
  const { id: newer } = await createTask(boss)
  for (const id of [older, newer]) await rows.moveTask(id, projectId)
  await rows.moveTask(older, null)
  await expectTold(t, 'left', copy, { deleted: ids })
})

const serverOptions = options.kind === 'server' ? options : null
const unlessServer = { skip: serverOptions === null && 'the embedded database has one session' }

t.test('who is assigned a task while its project moves to the trash loses it', unlessServer, async (t) => {
  if (serverOptions === null) return
  const { projectId, ids } = await newProjectTasks(1)
  const other = createSqlClient(serverOptions)
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

t.test('filters: a task that stops to match is reported as deleted', async (t) => {
  const { projectId, ids } = await newProjectTasks(2)
  const [first = '', second = ''] = ids
  await rows.setMember(projectId, ann)
  const { id: own } = await createTask(ann, { assignee_id: ann.id })
  const of = (query: TaskCopy['query']) => copyOf(ann, { limit: 1, query })
  const copies = {
    project: await of({ project_id: [projectId] }),
    personal: await of({ project_id: ['none'] }),
    both: await of({ project_id: ['none', projectId] }),
    assigned: await of({ assignee_id: ['me'], project_id: [projectId] }),
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
  const expectEach = async (what: string): Promise<void> => {
    for (const [name, copy] of Object.entries(copies)) {
      await copy.update()
      t.strictSame(copy.tasks(), await truthOf(copy), `${what}: ${name}`)
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

const namesOf = (tasks: readonly Task[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { tags } of tasks) for (const { name } of tags) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

/** Expects a copy to be what the list has, and the tags to be counted as they are on the tasks. */
const expectRight = async (t: Assertions, copy: TaskCopy, what: string): Promise<readonly Task[]> => {
  const truth = await truthOf(copy)
  t.strictSame(copy.tasks(), truth, `${what}: the copy`)
  const { token } = copy.account
  const { body } = await service.expect('listTags', 200, { token, query: { ...copy.query, limit: 200 } })
  const counted = body.items.filter(({ task_count }) => task_count > 0)
  t.strictSame(
    Object.fromEntries(counted.map(({ name, task_count }) => [name, task_count])),
    namesOf(truth),
    `${what}: the tags`,
  )
  t.equal(new Set(body.items.map(({ id }) => id)).size, body.items.length, `${what}: each tag once`)
  return truth
}

t.test(
  'whatever happens, copies and counts are right, and nobody is told of what they have not seen',
  async (t) => {
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
        const truth = await expectRight(t, copy, `${user.username} after ${n}`)
        if (copy.account === admin) continue
        t.strictSame(
          truth.map((task) => task.id),
          [...(seen.get(id) ?? [])].toSorted(),
          `${user.username} sees`,
        )
      }
    }
  },
)

t.test('copies that are kept while people come and go and others write are right in the end', async (t) => {
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
    await expectRight(t, copy, copy.account.user.username)
  }
})
