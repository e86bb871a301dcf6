import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, memberRemoved, type Outcomes, racesOn } from '../fixture/races.ts'
import { type Call, startService } from '../fixture/service.ts'

/** Writes to members, teams and invitations that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, expectOutcomes } = racesOn({ db, options })
const service = await startService(t, { db, config: { invitationsPerDay: 1_000 } })
const admin = await service.register('admin')
const caller = await service.register('caller')
const { createProject, setMember, createTeam, setTeamMember, setProjectTeam } = projectActions(service)
const rows = projectRows(db)

/** `person` is a member of the project and of the team. */
interface Ids {
  readonly caller: string
  readonly project: string
  readonly team: string
  readonly person: string
  readonly invitation: string
}

interface Prepared {
  readonly ids: Ids
  /** The token of the invitation. */
  readonly token: string
}

/** A project and a team that the caller manages beside the administrator, and an invitation by the caller. */
const prepare = async (): Promise<Prepared> => {
  const [{ id: project }, { id: team }] = [await createProject(admin), await createTeam(admin)]
  const name = `p${newId().replaceAll('-', '').slice(-20)}`
  const { id: person } = await service.register(name)
  await setMember(admin, { id: project }, caller, 'manager')
  await setMember(admin, { id: project }, { id: person }, 'editor')
  await setTeamMember(admin, { id: team }, caller, 'manager')
  await setTeamMember(admin, { id: team }, { id: person }, 'member')
  await setProjectTeam(admin, { id: project }, { id: team }, 'viewer')
  const { body: invitation } = await service.expect('createInvitation', 201, {
    token: caller.token,
    params: { project_id: project },
    body: { email: `${name}@example.org`, role: 'editor' },
  })
  const token = service.invitations.at(-1)?.token ?? ''
  return { ids: { caller: caller.id, project, team, person, invitation: invitation.id }, token }
}

interface Write {
  readonly request: (ids: Ids) => Call
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const projectOutcomes = {
  'the caller becomes a viewer': 403,
  'the caller leaves with the team': 404,
  'the project is moved to the trash': 404,
} as const

const managedTeamOutcomes = {
  'the caller becomes a member': 403,
  'the caller leaves the team': 404,
  'the team is deleted': 404,
} as const

const ifFirst = { headers: { 'if-match': '"1"' } }

const member = ({ project, person }: Ids) => ({ params: { project_id: project, user_id: person } })
const teamOf = ({ project, team }: Ids) => ({ params: { project_id: project, team_id: team } })
const memberOf = ({ team, person }: Ids) => ({ params: { team_id: team, user_id: person } })

const writes: { readonly [Operation in OperationId]?: Write } = {
  setProjectMember: {
    request: (ids) => ({ ...member(ids), ...ifFirst, body: { role: 'commenter' } }),
    outcomes: {
      ...projectOutcomes,
      'the member gets another role': 412,
      'the member is removed': 412,
      'the member keeps access through the team': 412,
      'the user is deleted': 404,
    },
  },
  removeProjectMember: {
    request: (ids) => member(ids),
    outcomes: {
      ...projectOutcomes,
      'the member is removed': 404,
      'the member keeps access through the team': 409,
      'the user is deleted': 404,
    },
  },
  setProjectTeam: {
    request: (ids) => ({ ...teamOf(ids), ...ifFirst, body: { role: 'commenter' } }),
    outcomes: {
      ...projectOutcomes,
      'the team gets another role': 412,
      'the team is removed': 412,
      'the team is deleted': 404,
    },
  },
  removeProjectTeam: {
    request: (ids) => ({ ...teamOf(ids), ...ifFirst }),
    outcomes: {
      ...projectOutcomes,
      'the team gets another role': 412,
      'the team is removed': 404,
      'the team is deleted': 404,
    },
  },
  createInvitation: {
    request: ({ project }) => ({
      params: { project_id: project },
      body: { email: `${newId()}@example.org`, role: 'viewer' },
    }),
    outcomes: projectOutcomes,
  },
  revokeInvitation: {
    request: ({ project, invitation }) => ({ params: { project_id: project, invitation_id: invitation } }),
    outcomes: { ...projectOutcomes, 'the invitation is revoked': 404 },
  },
  updateTeam: {
    request: ({ team }) => ({ params: { team_id: team }, ...ifFirst, body: { name: 'Changed' } }),
    outcomes: { ...managedTeamOutcomes, 'the team is changed': 412 },
  },
  deleteTeam: {
    request: ({ team }) => ({ params: { team_id: team }, ...ifFirst }),
    outcomes: { ...managedTeamOutcomes, 'the team is changed': 412 },
  },
  setTeamMember: {
    request: (ids) => ({ ...memberOf(ids), ...ifFirst, body: { role: 'manager' } }),
    outcomes: {
      ...managedTeamOutcomes,
      'the other one gets another role in the team': 412,
      'the other one leaves the team': 412,
      'the user is deleted': 404,
    },
  },
  removeTeamMember: {
    request: (ids) => ({ ...memberOf(ids), ...ifFirst }),
    outcomes: {
      ...managedTeamOutcomes,
      'the other one gets another role in the team': 412,
      'the other one leaves the team': 404,
      'the user is deleted': 404,
    },
  },
}

for (const [operation, { request, outcomes }] of Object.entries(writes))
  t.test(`${operation} waits`, (t) =>
    expectOutcomes(t, outcomes, {
      prepare,
      send: ({ ids }) => service.call(operation as OperationId, { token: caller.token, ...request(ids) }),
    }),
  )

t.test('an invitation is accepted while it ends: 422', async (t) => {
  const guest = await service.register('guest')
  const outcomes = {
    'the invitation is revoked': 422,
    'the caller becomes a viewer': 422,
    'the project is moved to the trash': 422,
  } as const
  const accept = (token: string) => service.call('acceptInvitation', { token: guest.token, body: { token } })
  const register = (token: string) => {
    const username = `u${newId().replaceAll('-', '').slice(-20)}`
    const email = `${username}@example.org`
    return service.call('register', {
      body: { username, email, password: 'a good password', invitation_token: token },
    })
  }
  for (const request of [accept, register])
    await expectOutcomes(t, outcomes, {
      prepare,
      send: async ({ token }) => {
        const reply = await request(token)
        t.match(reply.body, { code: 'invitation_invalid' }, request.name)
        return reply
      },
    })
})

t.test('the other manager leaves while a manager gives the role up: 409', async (t) => {
  const isRefused = { status: 409, body: { code: 'last_manager' } }
  const { token } = caller
  const callerPath = ({ project }: Ids) => ({ project_id: project, user_id: caller.id })
  const inProject: readonly ((ids: Ids) => ReturnType<typeof service.call>)[] = [
    (ids) => service.call('setProjectMember', { token, params: callerPath(ids), body: { role: 'editor' } }),
    (ids) => service.call('removeProjectMember', { token, params: callerPath(ids) }),
  ]
  for (const send of inProject) {
    const { ids } = await prepare()
    const change = memberRemoved({ project: ids.project, user: admin.id })
    t.match(
      await resultAfter(t, { hold: [held(`projects where id = '${ids.project}'`)], change }, () => send(ids)),
      isRefused,
    )
  }
  const params = ({ team }: Ids) => ({ team_id: team, user_id: caller.id })
  const inTeam: readonly ((ids: Ids) => ReturnType<typeof service.call>)[] = [
    (ids) => service.call('setTeamMember', { token, params: params(ids), body: { role: 'member' } }),
    (ids) => service.call('removeTeamMember', { token, params: params(ids) }),
  ]
  for (const send of inTeam) {
    const { ids } = await prepare()
    const change = `delete from team_members where team_id = '${ids.team}' and user_id = '${admin.id}'`
    t.match(
      await resultAfter(t, { hold: [held(`teams where id = '${ids.team}'`)], change }, () => send(ids)),
      isRefused,
    )
  }
  const throughTeam: readonly ((ids: Ids) => ReturnType<typeof service.call>)[] = [
    (ids) => service.call('deleteTeam', { token, params: { team_id: ids.team } }),
    (ids) => service.call('removeProjectTeam', { token, params: teamOf(ids).params }),
    (ids) => service.call('setProjectTeam', { token, params: teamOf(ids).params, body: { role: 'editor' } }),
  ]
  for (const send of throughTeam) {
    const { ids } = await prepare()
    await rows.setTeam(ids.project, { id: ids.team }, 'manager')
    await rows.setMember(ids.project, caller, 'editor')
    const change = memberRemoved({ project: ids.project, user: admin.id })
    t.match(
      await resultAfter(t, { hold: [held(`projects where id = '${ids.project}'`)], change }, () => send(ids)),
      isRefused,
    )
  }
})
