import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Outcomes, outcomesOfTask, racesOn } from '../fixture/races.ts'
import { type Call, startService } from '../fixture/service.ts'

/** Writes to projects and comments that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { expectOutcomes } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const caller = await service.register('caller')
const { createProject, setMember } = projectActions(service)

type Ids = Readonly<Record<'caller' | 'project' | 'task' | 'comment' | 'elsewhere', string>>

interface Write {
  readonly request: (ids: Ids) => Omit<Call, 'token'>
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const projectOutcomes = {
  'the caller becomes a viewer': 403,
  'the caller is removed': 404,
  'the project is moved to the trash': 404,
  'the project is changed': 412,
} as const satisfies Outcomes

const project = ({ project: id }: Ids, body?: object): Omit<Call, 'token'> => ({
  params: { project_id: id },
  headers: { 'if-match': '"1"' },
  ...(body && { body }),
})

const writes: { readonly [Operation in OperationId]?: Write } = {
  updateProject: {
    request: (ids) => project(ids, { name: 'Changed' }),
    outcomes: { ...projectOutcomes, 'the project is archived': 409 },
  },
  replaceProject: {
    request: ({ project: id }) => ({
      params: { project_id: id },
      body: { name: 'Replaced', description: '' },
    }),
    outcomes: { ...projectOutcomes, 'the project is changed': 200, 'the project is archived': 409 },
  },
  archiveProject: { request: project, outcomes: projectOutcomes },
  unarchiveProject: { request: project, outcomes: projectOutcomes },
  deleteProject: { request: project, outcomes: projectOutcomes },
  createComment: {
    request: ({ task }) => ({ params: { task_id: task }, body: { body: 'A comment' } }),
    outcomes: outcomesOfTask,
  },
  updateComment: {
    request: ({ comment }) => ({ params: { comment_id: comment }, body: { body: 'Changed' } }),
    // The author may change it in any role.
    outcomes: { ...outcomesOfTask, 'the caller becomes a viewer': 200, 'the comment is deleted': 404 },
  },
  deleteComment: {
    request: ({ comment }) => ({ params: { comment_id: comment } }),
    outcomes: { ...outcomesOfTask, 'the caller becomes a viewer': 204, 'the comment is deleted': 404 },
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
  return { caller: caller.id, project: id, task: task.id, comment: comment.id, elsewhere: elsewhere.id }
}

for (const [operation, { request, outcomes }] of Object.entries(writes))
  t.test(`${operation} waits`, (t) =>
    expectOutcomes(t, outcomes, {
      prepare: async () => ({ ids: await prepare() }),
      send: ({ ids }) => service.call(operation as OperationId, { token: caller.token, ...request(ids) }),
    }),
  )
