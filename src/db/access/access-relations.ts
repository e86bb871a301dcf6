import { permissions } from '../../domain/shared/permissions.ts'
import { projectRoles, type ProjectRole } from '../../domain/shared/project-roles.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { memberships, projects, tasks, users } from '../schema/tables.ts'
import { type FirstRows, type RowsOf, rowsOfMemberships } from './branches.ts'

const item = aliasedTable(tasks, 'item')
const membership = aliasedTable(memberships, 'membership')

/** The columns that the relations to a task depend on: of a row of `tasks`, or of an event that records them. */
export type TaskPlace = Readonly<Record<'owner_id' | 'assignee_id' | 'project_id', SQLWrapper>>

/**
 * A relation between a user and a task, as named in `domain/shared/permissions.ts`. This is its only definition in SQL: predicates,
 * the access branches of lists and of the change feed, and the triggers' `task_viewers` are built from it.
 */
export interface AccessRelation {
  /** Whether `user` has the relation to the row `task`. */
  readonly holds: (task: TaskPlace, user: SQLWrapper) => SQL
  /** The same for a row that `user` can see: never null, and without the conditions that every visible task meets. */
  readonly holdsIfVisible: (task: TaskPlace, user: SQLWrapper) => SQL
  /** The rows `item` to which `user` has the relation. Uses an index. */
  readonly branch: (user: SQLWrapper, rows: RowsOf, first: FirstRows | null) => SQL
  /** In `branch`: the transaction in which the relation to all tasks of a project began. Null if it begins by a change of a task. */
  readonly beganIn: SQL | null
  /**
   * For triggers, the viewer with the relation to the row `task`, and the condition under which there is one. A viewer is a project,
   * which stands for its members, or a user. Null if the viewers of another relation include all users with this one.
   */
  readonly viewer: {
    readonly project_id: string
    readonly user_id: string
    readonly condition: string
  } | null
  /** The task columns that determine the relation. */
  readonly columns: readonly string[]
}

/** The owner of a personal task. In a project, owning a task gives no access. */
const isOwner = (task: TaskPlace, user: SQLWrapper): SQL => sql`(${isOwnedBy(task, user)})`

const isOwnedBy = (task: TaskPlace, user: SQLWrapper): SQL =>
  sql`${task.owner_id} = ${user} and ${task.project_id} is null`

const owner: AccessRelation = {
  holds: isOwner,
  holdsIfVisible: isOwner,
  branch: (user, rows) => rows(isOwnedBy(item, user)),
  beganIn: null,
  viewer: { project_id: 'NULL', user_id: '(task).owner_id', condition: '(task).project_id IS NULL' },
  columns: ['owner_id', 'project_id'],
}

const isAssignee = (task: TaskPlace, user: SQLWrapper): SQL =>
  sql`coalesce(${task.assignee_id} = ${user}, false)`

const assignee: AccessRelation = {
  // In this order, so that the second condition is not evaluated without an assignee.
  holds: (task, user) => sql`(${isAssignee(task, user)} and ${isListLive(task)})`,
  holdsIfVisible: isAssignee,
  branch: (user, rows) => rows(sql`${item.assignee_id} = ${user} and ${isListLive(item)}`),
  beganIn: null,
  viewer: {
    project_id: '(task).project_id',
    user_id: '(task).assignee_id',
    condition: '(task).assignee_id IS NOT NULL',
  },
  columns: ['assignee_id', 'project_id'],
}

/** Membership of the task's project, with this role or one that includes it. */
const memberAs = (role: ProjectRole): AccessRelation => ({
  holds: (task, user) => isMember(task.project_id, user, role),
  holdsIfVisible: (task, user) => isMember(task.project_id, user, role),
  branch: (user, rows, first) =>
    rowsOfMemberships(
      user,
      hasRole(membership.role, role),
      (options) => rows(sql`${item.project_id} = ${membership.project_id}`, options),
      first,
    ),
  beganIn: sql`${membership.joined_in}`,
  viewer:
    role === 'viewer'
      ? { project_id: '(task).project_id', user_id: 'NULL', condition: '(task).project_id IS NOT NULL' }
      : null,
  columns: ['project_id'],
})

/** Whether a role of `memberships` or `project_grants` is `least`, or one that includes it. */
export const hasRole = (role: SQLWrapper, least: ProjectRole): SQL => {
  if (least === 'viewer') return sql`true`
  const sufficient = projectRoles.slice(projectRoles.indexOf(least)).map((name) => sql.raw(`'${name}'`))
  return sql`${role} in (${sql.join(sufficient, sql`, `)})`
}

/**
 * Whether `user` is a member of the project, with the role or one that includes it. Here and below, OFFSET keeps the planner from
 * adding a hashed plan for the subquery, which would read all projects of the user to check one.
 */
export const isMember = (projectId: SQLWrapper, user: SQLWrapper, role: ProjectRole): SQL => sql`exists (
  select from memberships membership
  where ${membership.user_id} = ${user} and ${membership.project_id} = ${projectId}
    and ${hasRole(membership.role, role)} offset 0)`

/**
 * Whether the project of the row `task` is not in the trash; for a personal task, whether its owner has not been deleted. Either
 * hides the tasks and webhooks immediately. Deleted users are few, since they are purged soon. Uses an array operator, because
 * the planner overestimates how many rows `<> all` removes.
 */
export const isListLive = ({ owner_id, project_id }: Omit<TaskPlace, 'assignee_id'>): SQL => sql`case
  when ${project_id} is null
  then not (array(select id from users where ${users.deleted_at} is not null) @> array[${owner_id}])
  else ${isProjectLive(project_id)} end`

/** Whether a project is not in the trash. */
export const isProjectLive = (projectId: SQLWrapper): SQL =>
  sql`exists (select from projects where ${projects.id} = ${projectId} and ${projects.deleted_at} is null offset 0)`

export const accessRelations = {
  owner,
  assignee,
  viewer: memberAs('viewer'),
  commenter: memberAs('commenter'),
  editor: memberAs('editor'),
  manager: memberAs('manager'),
} satisfies Readonly<Record<string, AccessRelation>>

export type AccessRelationName = keyof typeof accessRelations

const isAccessRelation = (name: string): name is AccessRelationName => Object.hasOwn(accessRelations, name)

/** The relations that make a task visible to a user who is not an administrator; any one is enough. */
export const relationsToSee = (permission: 'task.see' | 'trash.see'): readonly AccessRelationName[] => {
  const names: readonly string[] = permissions[permission]
  return names.filter(isAccessRelation)
}

/** Functions and triggers for routines.sql: the viewers of a task, and the effects of a change of viewers. */
export const viewerRoutines = (): string => {
  const relations = relationsToSee('task.see').map((name): AccessRelation => accessRelations[name])
  const viewers = relations.flatMap(({ viewer }) => (viewer === null ? [] : [viewer]))
  const rows = [...viewers, { project_id: 'NULL', user_id: 'NULL', condition: 'true' }].map(
    ({ project_id, user_id, condition }) =>
      `SELECT ${project_id}::uuid, ${user_id}::uuid WHERE (task).deleted_at IS NULL AND ${condition}`,
  )
  const columns = [...new Set([...relations.flatMap((relation) => relation.columns), 'deleted_at'])]
  const rowOf = (row: string): string => `(${columns.map((column) => `${row}.${column}`).join(', ')})`
  const trigger = (name: string, routine: string): string => `
CREATE OR REPLACE TRIGGER ${name} AFTER UPDATE ON tasks FOR EACH ROW
  WHEN (${rowOf('OLD')} IS DISTINCT FROM ${rowOf('NEW')}) EXECUTE FUNCTION ${routine}();
`
  return `-- The viewers of a task, one per row: the members of its project (user_id null), a user, and the administrators (both null).
-- A task in the trash has none.
CREATE OR REPLACE FUNCTION task_viewers(task tasks) RETURNS TABLE (project_id uuid, user_id uuid) LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  ${rows.join('\n  UNION ')};
END;
${trigger('tasks_viewers_changed', 'write_tombstones')}${trigger('tasks_tags_viewers_changed', 'count_tags_of_task')}`
}
