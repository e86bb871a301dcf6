import { PgDialect, sql } from '../schema/drizzle.ts'
import { allowsTask } from './permissions.ts'

/**
 * The function for routines.sql that tells whether an open task that a user can see blocks a task. A function keeps its plan for
 * the session, so lists of tasks do not get more expensive to plan.
 */
export const blockedRoutine = (): string => {
  const viewer = { caller: sql`viewer`, is_admin: sql`administers`, in_session: sql`false` }
  const { sql: isVisible } = new PgDialect().sqlToQuery(allowsTask('task.see', viewer, sql`blocker`))
  return `
-- Whether an open task that the viewer can see blocks a task.
CREATE OR REPLACE FUNCTION is_blocked(blocked uuid, viewer uuid, administers boolean) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM task_relations relation JOIN tasks blocker ON blocker.id = relation.task_id
    WHERE relation.other_task_id = blocked AND relation.kind = 'blocks' AND blocker.status IN ('todo', 'in_progress')
      AND ${isVisible});
END $$;
`
}
