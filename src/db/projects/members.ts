import type { MemberExpansion } from '../../domain/shared/expansions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import { foldSearch } from '../../domain/shared/text.ts'
import { onlyBranch } from '../access/branches.ts'
import { seesProject } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { conditionsOf, filterOneOf, nameContains } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { newest, selectPageOf } from '../lists/list.ts'
import { lockUser, type MemberRow } from '../shared/lock-member.ts'
import { grantAccess, grantRole } from './memberships.ts'
import { isProjectVisible, lockProject, type ManagedProject, type ProjectFacts } from './rows.ts'
import { projectMemberJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, isNull, type SQL, sql } from '../schema/drizzle.ts'
import { memberships, projectMembers, users } from '../schema/tables.ts'
import { foldedNames } from '../accounts/users.ts'

const membership = aliasedTable(memberships, 'membership')
const member = aliasedTable(memberships, 'member')
const item = aliasedTable(memberships, 'item')
const person = aliasedTable(users, 'person')
const own = aliasedTable(projectMembers, 'own')

/** A project, and a user who may be its member. */
export interface ProjectMemberKey {
  readonly projectId: string
  readonly userId: string
}

const key = { project_id: 'uuid', user_id: 'uuid' } as const

/** The members of a project: rows of `memberships`, with the user's own role in addition. */
const membersOf = (projectId: SQL): SQL => sql`(
  select ${membership.user_id} as id, ${membership.user_id}, ${membership.project_id}, ${membership.role}, ${membership.created_at},
    ${own.role} as direct_role, coalesce(${own.version}, 0) as version, ${person.username}, ${person.display_name}
  from memberships membership join users person on ${person.id} = ${membership.user_id}
    left join project_members own on ${own.project_id} = ${membership.project_id} and ${own.user_id} = ${membership.user_id}
  where ${membership.project_id} = ${projectId})`

const select = query(
  'project_members.select',
  key,
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${projectMemberJson(member, [], p)} as json, ${member}.version
    from ${membersOf(p.project_id)} member where ${member}.id = ${p.user_id} and ${seesProject(p, p.project_id)}`,
)

/** One member, if the caller can see the project. */
export const selectProjectMember = async (
  ctx: StatementContext,
  { projectId, userId }: ProjectMemberKey,
): Promise<MemberRow | null> => firstRow(await select(ctx, { project_id: projectId, user_id: userId }))

/** The access of a user to a project. */
export interface ProjectMemberFacts {
  readonly project_id: string
  readonly user_id: string
  /** Their own role; null for none. */
  readonly role: ProjectRole | null
  /** 0 with access only through a team; null without access. */
  readonly version: number | null
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const selectFacts = builtStatement('project_members.select_facts', key, (db, p) =>
  db
    .select({ role: projectMembers.role, version: projectMembers.version, access: memberships.role })
    .from(users)
    .leftJoin(
      projectMembers,
      and(eq(projectMembers.user_id, users.id), eq(projectMembers.project_id, p.project_id)),
    )
    .leftJoin(memberships, and(eq(memberships.user_id, users.id), eq(memberships.project_id, p.project_id)))
    .where(and(eq(users.id, p.user_id), isNull(users.deleted_at))),
)

/** Locks a user and a project, and reads them, and the access of the user, under the locks. Null unless there are both. */
export const lockProjectMember = async (
  tx: TransactionContext<Principal>,
  { projectId, userId }: ProjectMemberKey,
): Promise<{ readonly project: ProjectFacts; readonly member: ProjectMemberFacts } | null> => {
  const keys = { project_id: projectId, user_id: userId }
  const { project, facts } = await pipeline(tx.db, {
    user: () => lockUser(tx.db, { id: userId }),
    project: () => lockProject(tx, projectId, 'close'),
    facts: () => selectFacts(tx.db, keys),
  })
  const [row] = facts
  if (project === null || row === undefined) return null
  const { role, version, access } = row
  const self: readonly Relation[] = userId === tx.principal.userId ? ['self'] : []
  const member = {
    ...keys,
    role,
    version: version ?? (access === null ? null : 0),
    relations: [...project.relations, ...self],
  }
  return { project, member }
}

/**
 * Gives a user their own role in a project.
 *
 * @throws LastManager when they were its last manager
 */
export const setRole = (
  tx: TransactionContext,
  { id: projectId }: ManagedProject,
  { userId, role }: { readonly userId: string; readonly role: ProjectRole },
): Promise<void> => grantRole(tx, { projectId, userId, role })

const remove = builtStatement('project_members.delete', key, (db, p) =>
  db
    .delete(projectMembers)
    .where(and(eq(projectMembers.project_id, p.project_id), eq(projectMembers.user_id, p.user_id))),
)

/**
 * Removes a member's own role.
 *
 * @throws LastManager when they were the last manager of the project
 */
export const removeRole = async (
  tx: TransactionContext,
  { project_id, user_id }: Authorized<'project_member.remove', ProjectMemberFacts>,
): Promise<void> => {
  await pipeline(tx.db, {
    member: () => remove(tx.db, { project_id, user_id }),
    access: () => grantAccess(tx, { projects: [project_id], users: [user_id] }),
  })
}

/** A member that the transaction has written. The lock of the project keeps it visible. */
export const viewProjectMember = async (
  tx: TransactionContext,
  { projectId, userId }: ProjectMemberKey,
): Promise<MemberRow> => expectRow(await select(tx, { project_id: projectId, user_id: userId }))

/** Filters of a list of members. */
export interface ProjectMemberFilter {
  readonly role?: readonly ProjectRole[]
  /** A part of the username or the display name. */
  readonly q?: string
  readonly expand?: readonly MemberExpansion[]
}

const filterFields = { role: filterOneOf('text', item.role) }

/** A page of the members of a project, if the caller can see it. */
export const selectProjectMembers = (
  ctx: StatementContext<Principal>,
  projectId: string,
  { q, expand = [], ...filter }: ProjectMemberFilter,
  page: PageRequest,
): Promise<Page | null> => {
  const id = parameter('project_id', 'uuid')
  return selectPageOf(
    ctx,
    {
      name: ['project_members', ...expand].join('_'),
      table: memberships,
      from: sql`${membersOf(id)} item`,
      branches: (caller) => onlyBranch(seesProject(caller, id)),
      values: { project_id: projectId },
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(q === undefined ? [] : [nameContains(foldedNames(aliasedTable(users, 'item')), foldSearch(q))]),
      ],
      ...newest,
      json: (row, caller) => projectMemberJson(row, expand, caller),
    },
    page,
    () => isProjectVisible(ctx, projectId),
  )
}
