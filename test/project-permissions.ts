import t from 'tap'
import type { Permission } from '../src/domain/permissions.ts'
import { createMatrix, type Rule as RuleFor, type Scenario } from './fixture/matrix.ts'
import type { OperationId } from '../src/contract/contract.ts'
import { operations } from './fixture/operations.ts'
import { projectActions } from './fixture/projects.ts'
import { type Account, startService } from './fixture/service.ts'
import { createWorlds, type World } from './fixture/world.ts'

/**
 * The matrix of permissions in a project: every operation on a project, and on the tasks, tags and files in it, asked by
 * everybody who has to do with the project. The tables say who may do what in words of their own.
 */

/**
 * `manager` created the project and everything in it, `inTeam` is an editor through a team, `former` was an editor and has left, and
 * `assignee` is assigned every task without being a member.
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
  'attachment.see': { see: whoSeeTasks, may: whoSeeTasks },
  'attachment.add': { see: whoSeeTasks, may: [...editors, 'assignee'] },
  'attachment.delete': { see: whoSeeTasks, may: managers },
  'upload.continue': { see: ['manager'], may: ['manager'] },
  'tag.see': { see: whoSeeTasks, may: whoSeeTasks },
  'tag.delete': { see: whoSeeTasks, may: editors },
  'task_tag.see': { see: whoSeeTasks, may: whoSeeTasks },
  'task_tag.change': { see: whoSeeTasks, may: [...editors, 'assignee'] },
  'project.see': { see: whoSeeProject, may: whoSeeProject },
  'project.edit': { see: whoSeeProject, may: editors },
  'project.manage': { see: whoSeeProject, may: managers },
  'project_member.remove': { see: whoSeeProject, may: managers },
  'project_trash.see': { see: managers, may: managers },
  'project_trash.restore': { see: managers, may: managers },
  'project_trash.delete': { see: managers, may: managers },
}

/** The requests of the registry about a member are about `other`, who is an editor then. */
const aboutOther = (may: readonly Persona[]): readonly Scenario<Persona, ProjectWorld>[] => [
  { rule: { see: [...whoSeeProject, 'other'], may } },
]

const scenarios: Partial<Record<OperationId, readonly Scenario<Persona, ProjectWorld>[]>> = {
  getProjectMember: aboutOther([...whoSeeProject, 'other']),
  setProjectMember: aboutOther(managers),
  removeProjectMember: aboutOther([...managers, 'other']),
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

const { createProject, setMember, createTeam, setTeamMember, setProjectTeam } = projectActions(service)

/** A project with all members, which `former` has left. */
const newSharedProject = async (manager: Account, former: Account) => {
  const { token } = manager
  const project = await createProject(manager)
  const ofProject = { project_id: project.id }
  const { viewer, commenter, editor, inTeam } = people
  await setMember(manager, project, viewer, 'viewer')
  await setMember(manager, project, commenter, 'commenter')
  await setMember(manager, project, editor, 'editor')
  await setMember(manager, project, former, 'editor')
  await service.expect('removeProjectMember', 204, { token, params: { ...ofProject, user_id: former.id } })
  const team = await createTeam(manager, 'A team')
  await setTeamMember(manager, team, inTeam, 'member')
  await setProjectTeam(manager, project, team, 'editor')
  return project
}

/** Invites somebody once: an address gets only so many mails. */
const invite = async ({ token }: Account, project_id: string, { email }: Account): Promise<void> => {
  await service.expect('createInvitation', 201, {
    token,
    params: { project_id },
    body: { email, role: 'editor' },
  })
}

const newWorld = await createWorlds(service, admin, async (owner, former) => {
  const { id: project_id } = await newSharedProject(owner, former)
  await invite(owner, project_id, people.invited)
  return { fields: { project_id }, newProject: () => newSharedProject(owner, former) }
})
// Everybody and everything in it but the owner's account stays as it is, whatever is asked.
const world: ProjectWorld = { ...(await newWorld()), ...people }

const { scenariosOf, tryScenario } = createMatrix<Persona, ProjectWorld>({
  service,
  admin,
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
      await t.test(scenario.what ?? 'as it is', (t) => tryScenario(t, operation, scenario))
  })
}
