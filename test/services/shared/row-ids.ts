import t from 'tap'
import { localClient } from '../../../src/domain/activity/audit.ts'
import { insertComment } from '../../../src/db/tasks/comments.ts'
import { lockTask } from '../../../src/db/tasks/facts.ts'
import { type BearerPrincipal, shellPrincipal } from '../../../src/domain/shared/permissions.ts'
import { createContext, type OpContext, transaction } from '../../../src/services/shared/context.ts'
import { expectMay, expectSeen } from '../../../src/services/shared/expectations.ts'
import { updateFeed } from '../../../src/services/interchange/feeds.ts'
import { createProject, updateProject } from '../../../src/services/projects/lifecycle.ts'
import { updateTask } from '../../../src/services/tasks/single.ts'
import { updateUser } from '../../../src/services/accounts/users.ts'
import { projectActions } from '../../fixture/projects.ts'
import { type Account, startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

/**
 * Which row is written is never read from the fields that a client sent. No request gets here with more fields than its operation has:
 * this is what would happen if the validation let one through.
 */

const service = await startService(t)
const { db } = service.deps
await service.register('admin')
const [ada, eve] = [await service.register('ada'), await service.register('eve')]
const { createTask } = taskActions(service)
const projects = projectActions(service)

const contextOf = ({ id }: Account): OpContext<BearerPrincipal> => {
  const credential = { kind: 'session', sessionId: id } as const
  const principal: BearerPrincipal = { ...shellPrincipal, userId: id, role: 'member', credential }
  return createContext(db, principal, localClient('test'))
}
const ctx = contextOf(eve)

const namesOf = async (table: string, name: string, ids: readonly [string, string]) => {
  const rows = await db.run(`select id::text, ${name} as name from ${table} where id in ($1, $2)`, ids)
  const names = new Map(rows.map((row) => [row.id, row.name]))
  return ids.map((id) => names.get(id))
}

const createFeed = async ({ token }: Account) =>
  (await service.expect('createFeed', 201, { token, body: { name: 'Before', kind: 'todo' } })).body.id

t.test('a change is that of the row that was locked and checked', async (t) => {
  /** Changes the name of the own row by fields that have the id of the other one. */
  const isOwnOnly = async (
    [table, name]: readonly [string, string],
    [own, other]: readonly [string, string],
    change: (id: string) => Promise<unknown>,
  ) => {
    const [, before] = await namesOf(table, name, [own, other])
    await change(other)
    t.strictSame(await namesOf(table, name, [own, other]), ['changed', before], table)
  }

  const ownProject = (await projects.createProject(eve, 'Mine')).id
  const otherProject = (await projects.createProject(ada, 'Hers')).id
  await isOwnOnly(['projects', 'name'], [ownProject, otherProject], (id) => {
    const patch = { id, name: 'changed' }
    return updateProject(ctx, ownProject, patch)
  })
  const [ownFeed, otherFeed] = [await createFeed(eve), await createFeed(ada)]
  await isOwnOnly(['feeds', 'name'], [ownFeed, otherFeed], (id) => {
    const patch = { id, name: 'changed' }
    return updateFeed(ctx, ownFeed, patch)
  })
  await isOwnOnly(['users', 'display_name'], [eve.id, ada.id], (id) => {
    const change = { id, display_name: 'changed' }
    return updateUser(ctx, { id: eve.id, change, undoHash: Buffer.alloc(32) })
  })
  const ownTask = (await createTask(eve, { title: 'Mine' })).id
  const otherTask = (await createTask(ada, { title: 'Hers' })).id
  await isOwnOnly(['tasks', 'title'], [ownTask, otherTask], (id) => {
    const patch = { id, title: 'changed' }
    return updateTask(ctx, ownTask, patch, null)
  })
})

t.test('a new row has its own id, place and author', async (t) => {
  const id = '0199c0df-0000-7000-8000-000000000001'
  const fields = { id, name: 'New', description: '' }
  const project = await createProject(ctx, fields)
  t.not(project.id, id)
  t.strictSame(await namesOf('projects', 'name', [project.id, id]), ['New', undefined])

  const [own, other] = [await createTask(eve, { title: 'Mine' }), await createTask(ada, { title: 'Hers' })]
  const text = { task_id: other.id, author_id: ada.id, body: 'Hello', mentions: [] }
  await transaction(ctx, async (tx) => {
    const task = expectMay('comment.add', expectSeen('comment.see', await lockTask(tx, own.id)))
    await insertComment(tx, id, task, text)
  })
  const rows = await db.run('select task_id::text, author_id::text from comments', [])
  t.strictSame([...rows], [{ task_id: own.id, author_id: eve.id }])
})
