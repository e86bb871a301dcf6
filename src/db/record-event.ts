import type { FieldChanges } from '../domain/changes.ts'
import type { TransactionContext } from './engine/context.ts'
import { statement } from './engine/statement.ts'
import { sql } from './schema/drizzle.ts'

const record = statement(
  'events.record',
  { type: 'text', project_id: 'uuid', before: 'json', after: 'json' },
  {},
  (p) =>
    sql`select record_event(${p.type}, null, ${p.project_id}, null, null, null, ${p.before}, ${p.after})::text as recorded`,
)

/** The changes of an event that says only what happened. */
const nothing: FieldChanges = { before: {}, after: {} }

/** Records an event of a project, in the name of the transaction's principal. */
export const recordProjectEvent = async (
  { db }: TransactionContext,
  type: `project.${string}`,
  projectId: string,
  { before, after } = nothing,
): Promise<void> => {
  await record(db, { type, project_id: projectId, before, after })
}
