import { type SQL, sql } from '../schema/drizzle.ts'

/**
 * Common table expressions for a permanent deletion of tasks by a job. `deletable` has the ids of up to `limit` tasks that meet a
 * condition. They are locked, and so is what their deletion changes: their parents, the tasks that they are related to, and the users whose
 * files they have. A job never waits for these rows, in whose order it cannot lock: if another transaction has locked one, the task is
 * left to a later round.
 */
export const deletableTasks = (condition: SQL, limit: SQL): SQL => sql`
  candidates as materialized (
    select id, parent_id from tasks where ${condition} limit ${limit} for update skip locked
  ), touched as materialized (
    select candidates.id, parent.id as task_id from candidates join tasks parent on parent.id = candidates.parent_id
    union select candidates.id, other_task_id from candidates join task_relations on task_id = candidates.id
    union select candidates.id, task_id from candidates join task_relations on other_task_id = candidates.id
  ), charged as materialized (
    select distinct candidates.id, uploaded_by as user_id from candidates join attachments on task_id = candidates.id
    where uploaded_by is not null
  ), locked_tasks as materialized (
    select id from tasks where id in (select task_id from touched except select id from candidates) for no key update skip locked
  ), locked_users as materialized (
    select id from users where id in (select user_id from charged) for no key update skip locked
  ), deletable as (
    select id from candidates
    where not exists (
      select from touched where touched.id = candidates.id
        and task_id not in (select id from candidates union all select id from locked_tasks))
    and not exists (
      select from charged where charged.id = candidates.id and user_id not in (select id from locked_users))
  )`
