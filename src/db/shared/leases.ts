import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { leases } from '../schema/tables.ts'

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

const take = builtStatement('leases.insert', parameters, (db, p) => {
  const hasExpired = sql`${leases.expires_at} <= now()`
  return db
    .insert(leases)
    .values({ name: p.name, holder: p.holder, expires_at: expiry(p) })
    .onConflictDoUpdate({
      target: leases.name,
      set: {
        holder: sql`case when ${hasExpired} then excluded.holder else ${leases.holder} end`,
        expires_at: sql`excluded.expires_at`,
      },
      setWhere: sql`${hasExpired} or ${leases.expires_at} > excluded.expires_at`,
    })
    .returning({ holder: leases.holder })
})

/**
 * Takes a free or expired lease. Returns false if the lease has not expired. A lease that ends later than a new one would was taken
 * before the clock was set back: it is shortened to the usual duration, in which a live holder renews it.
 */
export const takeLease = async (db: Database, lease: Lease): Promise<boolean> => {
  const [row] = await take(db, lease)
  return row?.holder === lease.holder
}

const renew = builtStatement('leases.renew', parameters, (db, p) =>
  db
    .update(leases)
    .set({ expires_at: expiry(p) })
    .where(and(eq(leases.name, p.name), eq(leases.holder, p.holder)))
    .returning({ name: leases.name }),
)

const release = builtStatement('leases.delete', { name: 'text', holder: 'uuid' }, (db, p) =>
  db.delete(leases).where(and(eq(leases.name, p.name), eq(leases.holder, p.holder))),
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
