import type { Database } from './engine/client.ts'
import { sql } from './engine/drizzle.ts'
import { onlyRow, statement } from './engine/statement.ts'

/** A right to do some work alone, as one instance asks for it. */
export interface Lease {
  readonly name: string
  /** A UUID of the instance. */
  readonly holder: string
  /** Milliseconds after which it is lost unless it is renewed. */
  readonly duration: number
}

const end = (p: { readonly duration: ReturnType<typeof sql> }) =>
  sql`now() + ${p.duration} * interval '1 millisecond'`

const parameters = { name: 'text', holder: 'uuid', duration: 'int' } as const

const take = statement(
  parameters,
  { name: 'text' },
  (p) => sql`
    insert into leases (name, holder, expires_at) values (${p.name}, ${p.holder}, ${end(p)})
    on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where leases.expires_at <= now()
    returning name`,
)

/** Takes a lease that nobody has, or whose holder let it expire. False when somebody has it. */
export const takeLease = async (db: Database, { name, holder, duration }: Lease): Promise<boolean> =>
  onlyRow(await take(db, { name, holder, duration })) !== null

const renew = statement(
  parameters,
  { name: 'text' },
  (p) => sql`
    update leases set expires_at = ${end(p)} where name = ${p.name} and holder = ${p.holder} returning name`,
)

const release = statement(
  { name: 'text', holder: 'uuid' },
  {},
  (p) => sql`delete from leases where name = ${p.name} and holder = ${p.holder}`,
)

/**
 * Does the work that a taken lease is for, renews the lease meanwhile, and releases it. The work's signal tells that it
 * should stop, because `stop` says so or because somebody else has taken the lease over.
 */
export const withLease = async (
  db: Database,
  { name, holder, duration }: Lease,
  stop: AbortSignal,
  work: (stop: AbortSignal) => Promise<void>,
): Promise<void> => {
  const lost = new AbortController()
  const renewOnce = async (): Promise<void> => {
    if ((await renew(db, { name, holder, duration })).length === 0) lost.abort()
  }
  // A renewal that fails leaves time for another.
  const timer = setInterval(() => void renewOnce().catch(() => undefined), duration / 3)
  try {
    await work(AbortSignal.any([stop, lost.signal]))
  } finally {
    clearInterval(timer)
    await release(db, { name, holder })
  }
}
