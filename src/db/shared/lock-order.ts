/**
 * The order in which every transaction locks rows, of requests, jobs and imports alike. Two that lock in the same order wait for each other,
 * but never both. Rows of one kind are locked by id.
 *
 * - What a transaction works on alone comes first: an Idempotency-Key, the administrators as a whole, an import or an export.
 * - Then the kinds below. Foreign keys of written columns lock the rows that they refer to, `for key share`, so these are locked before,
 *   too: the users whom tasks are given to, and the followers of a task that is repeated.
 * - Then what hangs on them: comments, attachments, uploads, relations, reminders, and the number of reminders of a user.
 * - Counts come last: the commit writes them (`write_counts` in routines.sql).
 *
 * A user is locked `for key share` to refer to them, `for no key update` to change what they use (quotas) and most of their fields, and
 * `for update` to change what others compute from or refer to: their names, their address, their time zone, and whether they exist. So
 * attaching a file does not wait for those who close tasks that the same user is reminded of.
 *
 * Jobs that find rows of several kinds in another order skip those that are locked.
 */
export const lockOrder = ['users', 'teams', 'projects', 'sections', 'tags', 'tasks'] as const
