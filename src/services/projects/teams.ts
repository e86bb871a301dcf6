import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  insertTeam,
  lockTeam,
  type ManagedTeam,
  projectsOfTeam,
  removeTeam,
  rename,
  selectTeam,
  selectTeams,
  type TeamFilter,
  type TeamRow,
  viewTeam,
} from '../../db/projects/teams.ts'
import { fieldConflicts } from '../../domain/shared/field-conflicts.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type OpContext, transaction, type OpTransaction } from '../shared/context.ts'
import {
  expectFields,
  expectFound,
  expectMatch,
  expectMay,
  expectMayListAll,
  expectSeen,
} from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** A page of the caller's teams. @throws Problem 403 */
export const listTeams = async (
  ctx: OpContext<Principal>,
  filter: TeamFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, filter)
  return selectTeams(ctx, filter, page)
}

/** @throws Problem 404 */
export const getTeam = async (ctx: OpContext<Principal>, id: string): Promise<TeamRow> =>
  expectFound(await selectTeam(ctx, id))

/** Creates a team, which the caller manages. */
export const createTeam = (ctx: OpContext<Principal>, name: string): Promise<Created> =>
  idempotent(ctx, async (tx, id) => {
    const { view } = await pipeline(tx.db, {
      team: () => insertTeam(tx, id, name),
      view: () => viewTeam(tx, id),
    })
    return view
  })

/**
 * A team that the caller manages, locked.
 *
 * @throws Problem 404, 403, 412
 */
const manage = async (
  tx: OpTransaction<Principal>,
  id: string,
  purpose: 'change' | 'delete',
  expected: TeamPatch = {},
): Promise<ManagedTeam> => {
  const team = expectMay('team.manage', expectSeen('team.see', await lockTeam(tx, id, purpose)))
  expectFields(fieldConflicts<Required<TeamPatch>>(expected, team))
  expectMatch(tx, team)
  return team
}

interface TeamPatch {
  readonly name?: string
}

/** Renames a team, if it has the expected name. */
export const updateTeam = (
  ctx: OpContext<Principal>,
  id: string,
  { name, expect = {} }: TeamPatch & { readonly expect?: TeamPatch },
): Promise<TeamRow> =>
  transaction(ctx, async (tx) => {
    const team = await manage(tx, id, 'change', expect)
    if (name !== undefined && name !== team.name) await rename(tx, team, name)
    return last(viewTeam(tx, id))
  })

/** Deletes a team, which ends the access that its members have through it. */
export const deleteTeam = (ctx: OpContext<Principal>, id: string): Promise<void> =>
  transaction(ctx, async (tx) => {
    const { team, projects } = await pipeline(tx.db, {
      team: () => manage(tx, id, 'delete'),
      projects: () => projectsOfTeam(tx, id),
    })
    await removeTeam(tx, team, projects)
  })
