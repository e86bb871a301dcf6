import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Outcomes, outcomesOfTask, racesOn } from '../fixture/races.ts'
import { type Call, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Writes of tasks that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { expectOutcomes } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const caller = await service.register('caller')
const { createProject, setMember } = projectActions(service)
const { createTask } = taskActions(service)

type Ids = Readonly<
  Record<
    | 'caller'
    | 'project'
    | 'target'
    | 'elsewhere'
    | 'section'
    | 'tag'
    | 'task'
    | 'parent'
    | 'trashed'
    | 'owned'
    | 'person',
    string
  >
>

interface Write {
  readonly operation: OperationId
  /** What it writes, in the test's name. */
  readonly what?: string
  readonly request: (ids: Ids) => Omit<Call, 'token'>
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const taskOutcomes = { ...outcomesOfTask, 'the task is changed': 412 } as const

const newOutcomes = {
  'the caller becomes a viewer': 403,
  'the caller is removed': 422,
  'the project is moved to the trash': 422,
  'the project is archived': 409,
} as const

const targetOutcomes = {
  'the caller becomes a viewer of the target': 403,
  'the target is moved to the trash': 422,
  'the target is archived': 409,
} as const

const referencesOutcomes = {
  'the section is deleted': 422,
  'the tag is deleted': 422,
  'the user is deleted': 422,
} as const

const trashedOutcomes = {
  'the caller becomes a viewer': 404,
  'the caller is removed': 404,
  'the project is archived': 409,
  'the task is deleted for good': 404,
  'the task is restored': 404,
} as const

const task = ({ task: id }: Ids, body?: object): Omit<Call, 'token'> => ({
  params: { task_id: id },
  headers: { 'if-match': '"1"' },
  ...(body && { body }),
})

const references = ({ section, tag, person }: Ids) => ({
  section_id: section,
  tag_ids: [tag],
  assignee_id: person,
})

/** Both as requests of their own, and as the only item of an atomic batch. */
const writes: readonly Write[] = [
  {
    operation: 'createTask',
    request: (ids) => ({ body: { title: 'New', project_id: ids.project, ...references(ids) } }),
    outcomes: { ...newOutcomes, ...referencesOutcomes },
  },
  {
    operation: 'createTask',
    what: 'a subtask',
    request: ({ parent }) => ({ body: { title: 'New', parent_id: parent } }),
    outcomes: { 'the parent is moved to the trash': 422, 'the project is archived': 409 },
  },
  {
    operation: 'updateTask',
    what: 'fields',
    request: (ids) => task(ids, { title: 'Changed', status: 'done', ...references(ids) }),
    outcomes: { ...taskOutcomes, ...referencesOutcomes },
  },
  {
    operation: 'updateTask',
    what: 'the project',
    request: (ids) => task(ids, { project_id: ids.target }),
    outcomes: { ...taskOutcomes, ...targetOutcomes },
  },
  {
    operation: 'updateTask',
    what: 'the parent',
    request: (ids) => task(ids, { parent_id: ids.parent }),
    outcomes: {
      ...taskOutcomes,
      'the parent is moved to the trash': 422,
      'the parent is moved': 422,
      'the parent becomes a subtask': 422,
    },
  },
  {
    operation: 'replaceTask',
    request: ({ task: id }) => ({
      params: { task_id: id },
      headers: { 'if-match': '"1"' },
      body: { title: 'Replaced', description: '', status: 'todo', priority: 'none', owner_id: admin.id },
    }),
    outcomes: taskOutcomes,
  },
  {
    operation: 'moveTask',
    what: 'next to another',
    request: (ids) => task(ids, { after: ids.parent }),
    outcomes: { ...taskOutcomes, 'the parent is moved to the trash': 422, 'the parent is moved': 422 },
  },
  {
    operation: 'moveTask',
    what: 'to a project',
    request: (ids) => task(ids, { project_id: ids.target }),
    outcomes: { ...taskOutcomes, ...targetOutcomes },
  },
  {
    operation: 'moveTask',
    what: 'out of its project',
    request: ({ owned }) => ({ params: { task_id: owned }, body: { project_id: null } }),
    outcomes: { 'the user is deleted': 422, 'the project is archived': 409 },
  },
  {
    operation: 'updateTask',
    what: 'out of its project',
    request: ({ owned }) => ({ params: { task_id: owned }, body: { project_id: null } }),
    outcomes: { 'the user is deleted': 422 },
  },
  {
    operation: 'moveTask',
    what: 'to a section',
    request: (ids) => task(ids, { section_id: ids.section }),
    outcomes: { ...taskOutcomes, 'the section is deleted': 422 },
  },
  { operation: 'deleteTask', request: (ids) => task(ids), outcomes: taskOutcomes },
  {
    operation: 'restoreTask',
    request: ({ trashed }) => ({ params: { task_id: trashed } }),
    outcomes: trashedOutcomes,
  },
  {
    operation: 'deleteTrashedTask',
    request: ({ trashed }) => ({ params: { task_id: trashed } }),
    outcomes: trashedOutcomes,
  },
  {
    operation: 'batchTasks',
    what: 'a creation',
    request: (ids) => ({
      body: { atomic: true, create: [{ title: 'New', project_id: ids.project, ...references(ids) }] },
    }),
    outcomes: { ...newOutcomes, ...referencesOutcomes },
  },
  {
    operation: 'batchTasks',
    what: 'an update',
    request: (ids) => ({
      body: { atomic: true, update: [{ task_id: ids.task, if_match: '"1"', patch: { title: 'Changed' } }] },
    }),
    outcomes: taskOutcomes,
  },
  {
    operation: 'batchTasks',
    what: 'a deletion',
    request: (ids) => ({ body: { atomic: true, delete: [{ task_id: ids.task, if_match: '"1"' }] } }),
    outcomes: taskOutcomes,
  },
  {
    operation: 'batchTasks',
    what: 'a tag',
    request: ({ task: id, tag }) => ({ body: { atomic: true, tag: [{ task_id: id, tag_id: tag }] } }),
    outcomes: {
      'the caller becomes a viewer': 403,
      'the caller is removed': 404,
      'the project is archived': 409,
      'the task is moved to the trash': 404,
      'the tag is deleted': 404,
    },
  },
]

let people = 0

/** Projects that the caller manages, with a task, a parent for it, one in the trash, and one of somebody else; and a project that they cannot see. */
const prepare = async (): Promise<Ids> => {
  const [project, target, elsewhere] = [
    await createProject(admin),
    await createProject(admin),
    await createProject(admin),
  ]
  for (const { id } of [project, target]) await setMember(admin, { id }, caller, 'manager')
  const inProject = { project_id: project.id }
  const [one, parent, trashed] = [
    await createTask(admin, inProject),
    await createTask(admin, inProject),
    await createTask(admin, inProject),
  ]
  const { token } = admin
  await service.expect('deleteTask', 204, { token, params: { task_id: trashed.id } })
  const { body: section } = await service.expect('createSection', 201, {
    token,
    params: inProject,
    body: { name: 'One' },
  })
  const { body: tag } = await service.expect('createTag', 201, { token, body: { name: 'One', ...inProject } })
  people += 1
  const person = await service.register(`person${people}`)
  await setMember(admin, project, person, 'editor')
  const owned = await createTask(admin, { ...inProject, owner_id: person.id })
  return {
    caller: caller.id,
    project: project.id,
    target: target.id,
    elsewhere: elsewhere.id,
    section: section.id,
    tag: tag.id,
    task: one.id,
    parent: parent.id,
    trashed: trashed.id,
    owned: owned.id,
    person: person.id,
  }
}

for (const { operation, what = '', request, outcomes } of writes)
  t.test([operation, what, 'waits'].join(' '), (t) =>
    expectOutcomes(t, outcomes, {
      prepare: async () => ({ ids: await prepare() }),
      send: ({ ids }) => service.call(operation, { token: caller.token, ...request(ids) }),
    }),
  )

t.test('parallel batches never exceed a task quota', async (t) => {
  const owner = await service.register('owner')
  const own = { token: owner.token }
  await service.expect('updateUser', 200, {
    token: admin.token,
    params: { user_id: owner.id },
    body: { task_quota: 50 },
  })
  const create = Array.from({ length: 20 }, () => ({ title: 'One' }))
  const replies = await Promise.all(
    Array.from({ length: 20 }, () => service.call('batchTasks', { ...own, body: { create } })),
  )
  t.equal(replies.filter(({ status }) => status === 200).length, 2)
  t.ok(replies.every(({ status }) => status === 200 || status === 413))
  const { body } = await service.expect('getUserUsage', 200, { ...own, params: { user_id: owner.id } })
  t.equal(body.tasks.used, 40)
})
