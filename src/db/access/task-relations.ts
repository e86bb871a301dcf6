import { permissions } from '../../domain/permissions.ts'
import { type SQL, sql } from '../schema/drizzle.ts'
import type { RowsOf } from './branches.ts'

/**
 * A relation between a user and a task, as named in `domain/permissions.ts`. This is its only definition in SQL: predicates,
 * the access branches of lists and of the change feed, and the triggers' `task_viewers` are built from it.
 */
interface TaskRelation {
  /** Whether `user` has the relation to the row `task`. */
  readonly holds: (task: SQL, user: SQL) => SQL
  /** The rows `item` to which `user` has the relation. Uses an index. */
  readonly branch: (user: SQL, rows: RowsOf) => SQL
  /** For triggers: an array of the ids of the users with the relation to the row `task`. Null means nobody. */
  readonly users: string
  /** The task columns that determine the relation. */
  readonly columns: readonly string[]
}

/** A relation to the user whose id is in a column of the task. */
const byColumn = (name: 'owner_id' | 'assignee_id'): TaskRelation => {
  const column = sql.raw(name)
  return {
    holds: (task, user) => sql`${task}.${column} = ${user}`,
    branch: (user, rows) => rows(sql`item.${column} = ${user}`),
    users: `ARRAY[task.${name}]`,
    columns: [name],
  }
}

export const taskRelations = {
  owner: byColumn('owner_id'),
  assignee: byColumn('assignee_id'),
} as const satisfies Readonly<Record<string, TaskRelation>>

export type TaskRelationName = keyof typeof taskRelations

const isTaskRelation = (name: string): name is TaskRelationName => Object.hasOwn(taskRelations, name)

/** The relations that make a task visible to a user who is not an administrator; any one is enough. */
export const relationsToSee = (permission: 'task.see' | 'trash.see'): readonly TaskRelationName[] => {
  const names: readonly string[] = permissions[permission]
  return names.filter(isTaskRelation)
}

/** Functions and triggers for routines.sql: the viewers of a task, and the effects of a change of viewers. */
export const viewerRoutines = (): string => {
  const relations = relationsToSee('task.see').map((name) => taskRelations[name])
  const users = relations.map((relation) => relation.users).join(' || ')
  const columns = [...relations.flatMap((relation) => relation.columns), 'deleted_at']
  const rowOf = (row: string): string => `(${columns.map((column) => `${row}.${column}`).join(', ')})`
  const trigger = (name: string, routine: string): string => `
CREATE OR REPLACE TRIGGER ${name} AFTER UPDATE ON tasks FOR EACH ROW
  WHEN (${rowOf('OLD')} IS DISTINCT FROM ${rowOf('NEW')}) EXECUTE FUNCTION ${routine}();
`
  return `-- Who sees a task: every user with a relation to it, and the administrators (null); nobody while it is in the trash.
CREATE OR REPLACE FUNCTION task_viewers(task tasks) RETURNS uuid[] LANGUAGE sql IMMUTABLE
RETURN CASE WHEN task.deleted_at IS NULL THEN ${users} || ARRAY[NULL::uuid] ELSE '{}' END;
${trigger('tasks_viewers_changed', 'keep_tombstones')}${trigger('tasks_tags_viewers_changed', 'count_tags_of_task')}`
}
