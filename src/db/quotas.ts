import { sql } from './schema/drizzle.ts'
import { statement } from './engine/statement.ts'

/** The number of tasks that a user owns, including the trash. Stops counting at `limit`. */
export const countOwnedTasks = statement(
  'quotas.count_owned_tasks',
  { owner_id: 'uuid', limit: 'int8' },
  { tasks: 'int8' },
  (p) => sql`
    select count(*) as tasks from (
      select from tasks where owner_id = ${p.owner_id} limit ${p.limit}
    ) owned`,
)
