import type { Database } from './engine/client.ts'
import { statement } from './engine/statement.ts'
import { assignments, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** The exclusive right of one instance to some work. */
export interface Lease {
  readonly name: string
  /** A UUID of the instance. */
  readonly holder: string
  /** Milliseconds after which it expires unless it is renewed. */
  readonly duration: number
}

const parameters = { name: 'text', holder: 'uuid', duration: 'int' } as const

const end = (p: { readonly duration: SQL }): SQL => sql`now() + ${p.duration} * interval '1 millisecond'`

const take = statement('leases.insert', parameters, { name: 'text' }, (p) => {
  const { columns, values } = insertion<'leases'>({ name: p.name, holder: p.holder, expires_at: end(p) })
  const taken = assignments<'leases'>({ holder: sql`excluded.holder`, expires_at: sql`excluded.expires_at` })
  return sql`
    insert into leases (${columns}) values (${values})
    on conflict (name) do update set ${taken} where leases.expires_at <= now()
    returning name`
})

/** Takes a lease that is free or has expired. False when somebody else holds it. */
export const takeLease = async (db: Database, lease: Lease): Promise<boolean> =>
  (await take(db, lease)).length > 0

const renew = statement(
  'leases.renew',
  parameters,
  { name: 'text' },
  (p) => sql`
    update leases set ${assignments<'leases'>({ expires_at: end(p) })}
    where name = ${p.name} and holder = ${p.holder} returning name`,
)

const release = statement(
  'leases.delete',
  { name: 'text', holder: 'uuid' },
  {},
  (p) => sql`delete from leases where name = ${p.name} and holder = ${p.holder}`,
)

/**
 * Runs the work of a taken lease, renews the lease meanwhile, and releases it. The signal that `work` gets is aborted by
 * `stop`, and when somebody else has taken the lease over.
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
  // A failed renewal leaves time for another.
  const timer = setInterval(() => void renewOnce().catch(() => undefined), lease.duration / 3)
  try {
    await work(AbortSignal.any([stop, lost.signal]))
  } finally {
    clearInterval(timer)
    await release(db, { name: lease.name, holder: lease.holder })
  }
}
