import { aliasedTable, PgDialect, sql } from '../schema/drizzle.ts'
import { tasks } from '../schema/tables.ts'
import { allowsTask } from './permissions.ts'

/**
 * Generates the function `is_blocked` of routines.sql. It is a function because a session keeps the plans of functions, so
 * that planning lists of tasks does not become slower.
 */
export const blockedRoutine = (): string => {
  const viewer = { caller: sql`viewer`, is_admin: sql`administers`, in_session: sql`false` }
  const { sql: isVisible } = new PgDialect().sqlToQuery(
    allowsTask('task.see', viewer, aliasedTable(tasks, 'blocker')),
  )
  return `
-- Whether a task is blocked by an open task that the viewer can see.
CREATE OR REPLACE FUNCTION is_blocked(blocked uuid, viewer uuid, administers boolean) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM task_relations relation JOIN tasks blocker ON blocker.id = relation.task_id
    WHERE relation.other_task_id = blocked AND relation.kind = 'blocks' AND blocker.status IN ('todo', 'in_progress')
      AND ${isVisible});
END $$;
`
}
