import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, memberRemoved, racesOn, roleSet } from '../fixture/races.ts'
import { type Call, startService } from '../fixture/service.ts'

/** Writes to projects and comments that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { skip, resultAfter } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const caller = await service.register('caller')
const { createProject, setMember } = projectActions(service)

/** The ids of what a write and a change refer to. */
type Ids = Readonly<Record<'project' | 'task' | 'comment' | 'elsewhere', string>>

/** What happens while a write waits. */
interface Change {
  /** The row that is held: of the project, or of the task. */
  readonly holds: 'project' | 'task'
  readonly sql: (ids: Ids) => string
}

const ofCaller = ({ project }: Ids) => ({ project, user: caller.id })

const changes = {
  'the caller becomes a viewer': {
    holds: 'project',
    sql: (ids) => roleSet(ofCaller(ids), 'viewer'),
  },
  'the caller is removed': {
    holds: 'project',
    sql: (ids) => memberRemoved(ofCaller(ids)),
  },
  'the project is moved to the trash': {
    holds: 'project',
    sql: ({ project }) => `update projects set deleted_at = now() where id = '${project}'`,
  },
  'the project is archived': {
    holds: 'project',
    sql: ({ project }) => `update projects set archived_at = now() where id = '${project}'`,
  },
  'the project is changed': {
    holds: 'project',
    sql: ({ project }) => `update projects set version = version + 1 where id = '${project}'`,
  },
  'the task is moved to the trash': {
    holds: 'task',
    sql: ({ task }) => `update tasks set deleted_at = now() where id = '${task}'`,
  },
  'the task is moved out of sight': {
    holds: 'task',
    sql: ({ task, elsewhere }) => `update tasks set project_id = '${elsewhere}' where id = '${task}'`,
  },
  'the comment is deleted': {
    holds: 'task',
    sql: ({ comment }) => `delete from comments where id = '${comment}'`,
  },
} satisfies Readonly<Record<string, Change>>

type Outcomes = { readonly [What in keyof typeof changes]?: number }

interface Write {
  readonly request: (ids: Ids) => Omit<Call, 'token'>
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const ofProject = {
  'the caller becomes a viewer': 403,
  'the caller is removed': 404,
  'the project is moved to the trash': 404,
  'the project is changed': 412,
} as const

const ofTask = {
  'the caller becomes a viewer': 403,
  'the caller is removed': 404,
  'the project is moved to the trash': 404,
  'the project is archived': 409,
  'the task is moved to the trash': 404,
  'the task is moved out of sight': 404,
} as const

const project = ({ project: id }: Ids, body?: object): Omit<Call, 'token'> => ({
  params: { project_id: id },
  headers: { 'if-match': '"1"' },
  ...(body && { body }),
})

const writes: { readonly [Operation in OperationId]?: Write } = {
  updateProject: {
    request: (ids) => project(ids, { name: 'Changed' }),
    outcomes: { ...ofProject, 'the project is archived': 409 },
  },
  replaceProject: {
    request: ({ project: id }) => ({
      params: { project_id: id },
      body: { name: 'Replaced', description: '' },
    }),
    outcomes: { ...ofProject, 'the project is changed': 200, 'the project is archived': 409 },
  },
  archiveProject: { request: project, outcomes: ofProject },
  unarchiveProject: { request: project, outcomes: ofProject },
  deleteProject: { request: project, outcomes: ofProject },
  createComment: {
    request: ({ task }) => ({ params: { task_id: task }, body: { body: 'A comment' } }),
    outcomes: ofTask,
  },
  updateComment: {
    request: ({ comment }) => ({ params: { comment_id: comment }, body: { body: 'Changed' } }),
    // The author may change it in any role.
    outcomes: { ...ofTask, 'the caller becomes a viewer': 200, 'the comment is deleted': 404 },
  },
  deleteComment: {
    request: ({ comment }) => ({ params: { comment_id: comment } }),
    outcomes: { ...ofTask, 'the caller becomes a viewer': 204, 'the comment is deleted': 404 },
  },
}

/** A project that the caller manages, with a task and their comment, and a project that they cannot see. */
const prepare = async (): Promise<Ids> => {
  const [{ id }, elsewhere] = [await createProject(admin), await createProject(admin)]
  await setMember(admin, { id }, caller, 'manager')
  const { body: task } = await service.expect('createTask', 201, {
    token: admin.token,
    body: { title: 'A task', project_id: id },
  })
  const { body: comment } = await service.expect('createComment', 201, {
    token: caller.token,
    params: { task_id: task.id },
    body: { body: 'A comment' },
  })
  return { project: id, task: task.id, comment: comment.id, elsewhere: elsewhere.id }
}

for (const [operation, { request, outcomes }] of Object.entries(writes))
  t.test(`${operation} waits`, { skip }, async (t) => {
    for (const [what, status] of Object.entries(outcomes)) {
      const ids = await prepare()
      const { holds, sql } = changes[what as keyof typeof changes]
      const race = { hold: [held(`${holds}s where id = '${ids[holds]}'`)], change: sql(ids) }
      const reply = await resultAfter(t, race, () =>
        service.call(operation as OperationId, { token: caller.token, ...request(ids) }),
      )
      t.equal(reply.status, status, what)
    }
  })
