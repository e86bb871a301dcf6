import type { Database } from './engine/client.ts'
import { statement } from './engine/statement.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** A lease: one instance's exclusive right to a job. */
export interface Lease {
  readonly name: string
  /** The instance's UUID. */
  readonly holder: string
  /** Milliseconds until it expires unless renewed. */
  readonly duration: number
}

const parameters = { name: 'text', holder: 'uuid', duration: 'int' } as const

const expiry = (p: { readonly duration: SQL }): SQL => sql`now() + ${p.duration} * interval '1 millisecond'`

const ofLease = columnsOf<'leases'>(sql.raw('leases'))

const take = statement('leases.insert', parameters, { is_taken: 'bool' }, (p) => {
  const { columns, values } = insertion<'leases'>({ name: p.name, holder: p.holder, expires_at: expiry(p) })
  const hasExpired = sql`${ofLease.expires_at} <= now()`
  const taken = assignments<'leases'>({
    holder: sql`case when ${hasExpired} then excluded.holder else ${ofLease.holder} end`,
    expires_at: sql`excluded.expires_at`,
  })
  return sql`
    insert into leases (${columns}) values (${values})
    on conflict (name) do update set ${taken} where ${hasExpired} or ${ofLease.expires_at} > excluded.expires_at
    returning ${ofLease.holder} = ${p.holder} as is_taken`
})

/**
 * Takes a free or expired lease. Returns false if the lease has not expired. A lease that ends later than a new one would was taken
 * before the clock was set back: it is shortened to the usual duration, in which a live holder renews it.
 */
export const takeLease = async (db: Database, lease: Lease): Promise<boolean> => {
  const [row] = await take(db, lease)
  return row?.is_taken === true
}

const renew = statement(
  'leases.renew',
  parameters,
  { name: 'text' },
  (p) => sql`
    update leases set ${assignments<'leases'>({ expires_at: expiry(p) })}
    where name = ${p.name} and holder = ${p.holder} returning name`,
)

const release = statement(
  'leases.delete',
  { name: 'text', holder: 'uuid' },
  {},
  (p) => sql`delete from leases where name = ${p.name} and holder = ${p.holder}`,
)

/**
 * Runs `work` under a lease that was taken before, renews the lease during the work, and releases it at the end. The signal
 * passed to `work` is aborted by `stop`, and when another instance has taken the lease.
 */
export const withLease = async (
  db: Database,
  lease: Lease,
  stop: AbortSignal,
  work: (stop: AbortSignal) => Promise<void>,
): Promise<void> => {
  const lost = new AbortController()
  const renewOnce = async (): Promise<void> => {
    if ((await renew(db, lease)).length === 0) lost.abort()
  }
  // Three renewals per lease duration: one may fail.
  const timer = setInterval(() => void renewOnce().catch(() => undefined), lease.duration / 3)
  try {
    await work(AbortSignal.any([stop, lost.signal]))
  } finally {
    clearInterval(timer)
    await release(db, { name: lease.name, holder: lease.holder })
  }
}
