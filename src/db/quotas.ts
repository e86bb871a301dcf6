import { sql } from './schema/drizzle.ts'
import { statement } from './engine/statement.ts'

/** How many tasks a user owns, those in the trash included; counts no further than `limit`. */
export const countOwnedTasks = statement(
  'quotas.count_owned_tasks',
  { owner_id: 'uuid', limit: 'int8' },
  { tasks: 'int8' },
  (p) => sql`
    select count(*) as tasks from (
      select from tasks where owner_id = ${p.owner_id} limit ${p.limit}
    ) owned`,
)
