import { sql } from './engine/drizzle.ts'
import { statement } from './engine/statement.ts'

/** What a quota is about: bytes of all files that a user attached, or how many tasks a user owns. */
export type QuotaResource = 'attachment_bytes' | 'tasks'

/** A user would have more than they may. */
export class QuotaExceeded extends Error {
  override readonly name = 'QuotaExceeded'
  readonly resource: QuotaResource
  readonly quota: number
  /** What they have already. */
  readonly used: number
  /** What the request adds, as far as that is known. */
  readonly size: number

  constructor(
    resource: QuotaResource,
    { quota, used, size }: { readonly quota: number; readonly used: number; readonly size: number },
  ) {
    super(`${size} more ${resource} and the ${used} that are used exceed the quota of ${quota}`)
    this.resource = resource
    this.quota = quota
    this.used = used
    this.size = size
  }
}

/** How many tasks a user owns, those in the trash included; counts no further than `limit`. */
export const countOwnedTasks = statement(
  { owner_id: 'uuid', limit: 'int8' },
  { tasks: 'int8' },
  (p) => sql`
    select count(*) as tasks from (
      select from tasks where owner_id = ${p.owner_id} limit ${p.limit}
    ) owned`,
)
