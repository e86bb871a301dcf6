import t from 'tap'
import type { components } from '../generated/openapi.ts'
import type { Permission } from '../src/domain/shared/permissions.ts'
import { changesToBeKnown } from './fixture/changes.ts'
import { openStream, type StreamClient } from './fixture/event-stream.ts'
import { createMatrix, type Rule as RuleFor, type Scenario } from './fixture/matrix.ts'
import type { OperationId } from '../src/contract/contract.ts'
import { operations } from './fixture/operations.ts'
import { projectActions } from './fixture/projects.ts'
import { type Account, startService } from './fixture/service.ts'
import { type Task, taskActions } from './fixture/tasks.ts'
import { createWorlds, type World } from './fixture/world.ts'

type Schemas = components['schemas']
type Event = Schemas['Event']

/**
 * The permission matrix of a project: every operation on a project and on its tasks, tags and files, called by everybody
 * with a relation to the project. The tables state the rules independently of the service.
 */

/**
 * `manager` created the project and everything in it, `inTeam` is an editor through a team, `former` was an editor and has
 * left, and `assignee` is assigned every task and is not a member.
 */
const members = ['viewer', 'commenter', 'editor', 'inTeam', 'manager'] as const
const personas = [...members, 'assignee', 'former', 'invited', 'other', 'admin'] as const
type Persona = (typeof personas)[number]
type Rule = RuleFor<Persona>

type Members = Readonly<Record<'viewer' | 'commenter' | 'editor' | 'inTeam' | 'invited', Account>>
type ProjectWorld = World & Members

const whoSeeTasks: readonly Persona[] = [...members, 'assignee', 'admin']
const whoSeeProject: readonly Persona[] = [...members, 'admin']
const editors: readonly Persona[] = ['editor', 'inTeam', 'manager', 'admin']
const managers: readonly Persona[] = ['manager', 'admin']

const rules: Partial<Record<Permission, Rule>> = {
  'task.see': { see: whoSeeTasks, may: whoSeeTasks },
  'task.change': { see: whoSeeTasks, may: [...editors, 'assignee'] },
  'task.move': { see: whoSeeTasks, may: editors },
  'task.delete': { see: whoSeeTasks, may: editors },
  'trash.see': { see: editors, may: editors },
  'trash.restore': { see: editors, may: editors },
  'trash.delete': { see: editors, may: editors },
  'event.see': { see: whoSeeTasks, may: whoSeeTasks },
  'notification.see': { see: ['manager'], may: ['manager'] },
  'export.see': { see: ['manager'], may: ['manager'] },
  'export.change': { see: ['manager'], may: ['manager'] },
  'import.see': { see: ['manager'], may: ['manager'] },
  'import.change': { see: ['manager'], may: ['manager'] },
  'reminder.see': { see: ['manager'], may: ['manager'] },
  'reminder.change': { see: ['manager'], may: ['manager'] },
  'notification.change': { see: ['manager'], may: ['manager'] },
  'attachment.see': { see: whoSeeTasks, may: whoSeeTasks },
  'attachment.add': { see: whoSeeTasks, may: [...editors, 'assignee'] },
  'attachment.delete': { see: whoSeeTasks, may: managers },
  'upload.continue': { see: ['manager'], may: ['manager'] },
  'comment.see': { see: whoSeeTasks, may: whoSeeTasks },
  'comment.add': { see: whoSeeTasks, may: ['commenter', ...editors, 'assignee'] },
  'comment.change': { see: whoSeeTasks, may: ['manager'] },
  'comment.delete': { see: whoSeeTasks, may: managers },
  'tag.see': { see: whoSeeTasks, may: whoSeeTasks },
  'tag.delete': { see: whoSeeTasks, may: editors },
  'task_tag.see': { see: whoSeeTasks, may: whoSeeTasks },
  'task_tag.change': { see: whoSeeTasks, may: [...editors, 'assignee'] },
  'project.see': { see: whoSeeProject, may: whoSeeProject },
  'project.edit': { see: whoSeeProject, may: editors },
  'project.manage': { see: whoSeeProject, may: managers },
  'project_member.remove': { see: whoSeeProject, may: managers },
  'webhook.see': { see: managers, may: managers },
  'webhook.change': { see: managers, may: managers },
  'project_trash.see': { see: managers, may: managers },
  'project_trash.restore': { see: managers, may: managers },
  'project_trash.delete': { see: managers, may: managers },
}

/** In the registry's requests about a member, the member is `other`, an editor. */
const aboutOther = (may: readonly Persona[]): readonly Scenario<Persona, ProjectWorld>[] => [
  { rule: { see: [...whoSeeProject, 'other'], may } },
]

/** Comments by others than the authors of `newComment`. */
const commentByRequest = (persona: 'commenter' | 'editor') => async (world: ProjectWorld) => {
  const params = { task_id: (await world.newTask()).id }
  const request = { token: world[persona].token, params, body: { body: 'A comment' } }
  return { params: { comment_id: (await service.expect('createComment', 201, request)).body.id } }
}

const commentOfFormerRequest = async ({ newComment, former }: ProjectWorld) => ({
  params: { comment_id: (await newComment(former)).id },
})

const scenarios: Partial<Record<OperationId, readonly Scenario<Persona, ProjectWorld>[]>> = {
  getProjectMember: aboutOther([...whoSeeProject, 'other']),
  setProjectMember: aboutOther(managers),
  removeProjectMember: aboutOther([...managers, 'other']),
  updateComment: [
    {
      what: 'by a commenter',
      rule: { see: whoSeeTasks, may: ['commenter'] },
      request: async (world) => ({
        ...(await commentByRequest('commenter')(world)),
        body: { body: 'An edit' },
      }),
    },
    {
      what: 'by an editor',
      rule: { see: whoSeeTasks, may: ['editor'] },
      request: async (world) => ({ ...(await commentByRequest('editor')(world)), body: { body: 'An edit' } }),
    },
    {
      what: 'by a former member',
      rule: { see: whoSeeTasks, may: [] },
      request: async (world) => ({ ...(await commentOfFormerRequest(world)), body: { body: 'An edit' } }),
    },
  ],
  deleteComment: [
    {
      what: 'by a commenter',
      rule: { see: whoSeeTasks, may: [...managers, 'commenter'] },
      request: commentByRequest('commenter'),
    },
    {
      what: 'by an editor',
      rule: { see: whoSeeTasks, may: [...managers, 'editor'] },
      request: commentByRequest('editor'),
    },
    { what: 'by a former member', request: commentOfFormerRequest },
  ],
}

const service = await startService(t)
const admin = await service.register('admin')
const people: Members = {
  viewer: await service.register('viewer'),
  commenter: await service.register('commenter'),
  editor: await service.register('editor'),
  inTeam: await service.register('in-team'),
  invited: await service.register('invited'),
}

const { addComment, createTask } = taskActions(service)
const { createProject, setMember, removeMember, createTeam, setTeamMember, setProjectTeam } =
  projectActions(service)

/** A project with all members, which `former` has left. `inTeam` is in the team. */
const newSharedProject = async (manager: Account, former: Account, team: Schemas['Team']) => {
  const project = await createProject(manager)
  const { viewer, commenter, editor } = people
  await setMember(manager, project, viewer, 'viewer')
  await setMember(manager, project, commenter, 'commenter')
  await setMember(manager, project, editor, 'editor')
  await setMember(manager, project, former, 'editor')
  await removeMember(manager, project, former)
  await setProjectTeam(manager, project, team, 'editor')
  return project
}

/** Invites somebody. Called once, because mails to an address are limited. */
const invite = async ({ token }: Account, project_id: string, { email }: Account): Promise<void> => {
  await service.expect('createInvitation', 201, {
    token,
    params: { project_id },
    body: { email, role: 'editor' },
  })
}

const place = async (owner: Account, former: Account) => {
  const team = await createTeam(owner)
  await setTeamMember(owner, team, people.inTeam, 'member')
  const newProject = () => newSharedProject(owner, former, team)
  const { id: project_id } = await newProject()
  await invite(owner, project_id, people.invited)
  return { fields: { project_id }, newProject }
}
const newWorld = await createWorlds(service, admin, { place })
// One world is enough, because only requests on the owner's account change what others depend on.
const world: ProjectWorld = { ...(await newWorld()), ...people }

const { scenariosOf, tryScenario } = createMatrix<Persona, ProjectWorld>({
  service,
  admin,
  world,
  newWorld: async () => world,
  personas,
  accountOf: (world, persona) => (persona === 'manager' ? world.owner : world[persona]),
  rules,
  scenarios,
  holders: [],
  administrator: 'admin',
})

for (const operation of operations) {
  if (rules[operation.permission] === undefined) continue
  t.test(operation.id, async (t) => {
    for (const scenario of scenariosOf(operation))
      await t.test(scenario.what ?? 'request of the registry', (t) => tryScenario(t, operation, scenario))
  })
}

/** Personas that see only the assigned task of the project, or none. */
const seesOnlyAssigned = (persona: Persona): boolean => persona === 'assignee'
const seesNothing = (persona: Persona): boolean => !whoSeeTasks.includes(persona)

t.test('an assignee sees neither the parent nor the subtask of the assigned task', async (t) => {
  const { db } = service.deps
  const { token } = world.owner
  const accountOf = (persona: Persona): Account => (persona === 'manager' ? world.owner : world[persona])
  const { project_id } = await world.newTask()
  await changesToBeKnown(db)
  const streams = new Map<Persona, StreamClient>()
  for (const persona of personas) {
    const query = persona === 'admin' ? '?all=true' : ''
    streams.set(persona, await openStream(t, service, { token: accountOf(persona).token, query }))
  }

  const parent = await createTask(world.owner, { title: 'Parent', project_id })
  const assigned = await createTask(world.owner, { parent_id: parent.id, assignee_id: world.assignee.id })
  const subtask = await createTask(world.owner, { parent_id: assigned.id })
  const tasks = [parent, assigned, subtask]
  for (const { id: task_id } of tasks) {
    await addComment(world.owner, task_id)
    await service.expect('updateTask', 200, { token, params: { task_id }, body: { status: 'done' } })
  }
  const relation = { task_id: assigned.id, kind: 'relates_to', other_task_id: subtask.id }
  await service.expect('addTaskRelation', 204, { token, params: relation })

  const eventTypes = ['task.created', 'comment.created', 'task.updated']
  const related = [assigned, subtask].map(({ id }) => `task.related ${id}`)
  const eventsOf = ({ id }: Pick<Task, 'id'>): readonly string[] => eventTypes.map((type) => `${type} ${id}`)
  const seenBy = (persona: Persona): readonly string[] => {
    if (seesNothing(persona)) return []
    return seesOnlyAssigned(persona) ? eventsOf(assigned) : [...tasks.flatMap(eventsOf), ...related]
  }
  const namesOf = (events: readonly Pick<Event, 'type' | 'task_id'>[]): readonly string[] =>
    events
      .filter(({ task_id }) => tasks.some(({ id }) => id === task_id))
      .map((event) => `${event.type} ${event.task_id}`)
  await changesToBeKnown(db)

  for (const persona of personas) {
    await t.test(persona, async (t) => {
      const account = accountOf(persona)
      const own = { token: account.token }
      const expected = seenBy(persona)
      const all = persona === 'admin' ? { all: true } : {}

      const { body: activity } = await service.expect('listEvents', 200, {
        ...own,
        query: { limit: 200, ...all },
      })
      t.strictSame(namesOf(activity.items).toSorted(), expected.toSorted(), 'activity')

      const last = await createTask(account, { title: 'The last event' })
      const streamed: Event[] = []
      for (let id: string | null = null; id !== last.id; id = streamed.at(-1)?.task_id ?? null) {
        const sent = await streams.get(persona)?.next()
        if (sent !== undefined) streamed.push(sent.data)
      }
      t.strictSame(namesOf(streamed).toSorted(), expected.toSorted(), 'stream')

      const listed: string[] = []
      for (const { id: task_id } of tasks) {
        const params = { task_id }
        const isSeen = expected.some((name) => name.endsWith(task_id))
        const history = await service.call('listTaskEvents', { ...own, params })
        t.equal(history.status, isSeen ? 200 : 404, 'history')
        const taskEvents = expected.filter((name) => name.endsWith(task_id)).toSorted()
        if (isSeen)
          t.strictSame(namesOf((history.body as { items: Event[] }).items).toSorted(), taskEvents, 'history')
        const query = { parent_id: [task_id], ...all }
        listed.push(
          ...(await service.expect('listTasks', 200, { ...own, query })).body.items.map(({ id }) => id),
        )
      }
      const subtasks = seesOnlyAssigned(persona) ? [assigned.id] : [assigned.id, subtask.id]
      t.strictSame(listed, seesNothing(persona) ? [] : subtasks, 'subtasks')
      if (seesNothing(persona)) return

      const params = { task_id: assigned.id }
      const expansion = { ...own, params, query: { expand: 'parent,subtasks' } }
      const { body: task } = await service.expect('getTask', 200, expansion)
      const [parents, children] = seesOnlyAssigned(persona) ? [undefined, []] : [parent.id, [subtask.id]]
      t.equal(task.parent?.id, parents, 'expanded parent')
      t.strictSame(
        task.subtasks?.map(({ id }) => id),
        children,
        'expanded subtasks',
      )
      const { body: relations } = await service.expect('listTaskRelations', 200, { ...own, params })
      t.equal(relations.items.length, seesOnlyAssigned(persona) ? 0 : 1, 'relations')
    })
  }
})
