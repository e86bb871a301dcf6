import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsExport } from '../access/permissions.ts'
import { hasRole } from '../access/access-relations.ts'
import { countingStatement, untilNone } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { pipeline } from '../engine/pipeline.ts'
import { retentionTime } from '../shared/retention.ts'
import { expectRow, firstRow, rowDeletion, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { exportJson, isPending } from '../shared/read-models.ts'
import { isSignInDue } from '../shared/recent.ts'
import { aliasedTable, eq, type SQL, sql } from '../schema/drizzle.ts'
import { exports, memberships, users } from '../schema/tables.ts'
import { inTurn, mayRun, usedBy } from '../shared/running-jobs.ts'
import { touched, touchedBeside } from '../shared/touch.ts'

/**
 * Exports: what users ask for, and what the job writes that makes them. A process takes one by a lease, which it renews while it works;
 * one whose process died is taken again.
 */

const item = aliasedTable(exports, 'item')
const row = aliasedTable(exports, 'row')
const other = aliasedTable(exports, 'other')
const person = aliasedTable(users, 'person')
const membership = aliasedTable(memberships, 'membership')

/** An export as JSON text, and whether it waits or runs. */
export interface ExportRow {
  readonly json: string
  readonly is_pending: boolean
}

const selectOne = query(
  'exports.select',
  { id: 'uuid' },
  { json: 'text', is_pending: 'bool' },
  (p) => sql`
    select ${exportJson(row)} as json, ${isPending(row)} as is_pending from exports row
    where ${row.id} = ${p.id} and ${allowsExport('export.see', p, row)}`,
)

/** One export, if the caller has requested it. */
export const selectExport = async (ctx: StatementContext<Principal>, id: string): Promise<ExportRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** An export that the transaction has written. */
export const viewExport = async (tx: TransactionContext<Principal>, id: string): Promise<ExportRow> =>
  expectRow(await selectOne(tx, { id }))

/** A page of the exports that the caller has requested. */
export const selectExports = (
  { db, principal }: StatementContext<Principal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'exports',
      table: exports,
      branches: (caller) => onlyBranch(allowsExport('export.see', caller, item)),
      ...newest,
      json: exportJson,
    },
    principal,
    page,
  )

/** What to export. */
export interface NewExport {
  /** The user whose view it is. */
  readonly userId: string
  readonly projectId: string | null
}

const insert = builtStatement(
  'exports.insert',
  { id: 'uuid', requested_by: 'uuid', user_id: 'uuid', project_id: 'uuid?' },
  (db, p) => db.insert(exports).values(p),
)

/** Inserts an export, which waits for the job. */
export const insertExport = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  { userId, projectId }: NewExport,
): Promise<void> => {
  await insert(db, { id, requested_by: principal.userId, user_id: userId, project_id: projectId })
}

const countOwn = builtStatement('exports.count', { id: 'uuid' }, (db, p) =>
  db
    .select({ exports: sql<number>`count(*)::int`.as('exports') })
    .from(exports)
    .where(eq(exports.requested_by, p.id)),
)

/** The number of exports of the caller, who is locked. */
export const countExports = async ({ db, principal }: TransactionContext<Principal>): Promise<number> =>
  expectRow(await countOwn(db, { id: principal.userId })).exports

/** What a change of an export depends on. */
export interface ExportFacts {
  readonly id: string
  readonly status: string
  readonly storage_key: string | null
  readonly version: number
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const lock = rowLock('exports.lock', exports, 'update')

const selectFacts = builtStatement('exports.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({
      requested_by: exports.requested_by,
      status: exports.status,
      storage_key: exports.storage_key,
      version: exports.version,
    })
    .from(exports)
    .where(eq(exports.id, p.id)),
)

/** Locks an export of the caller, and reads it under the lock. */
export const lockExport = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<ExportFacts | null> => {
  const { rows } = await pipeline(db, {
    lock: () => lock(db, { id }),
    rows: () => selectFacts(db, { id }),
  })
  const [facts] = rows
  if (facts?.requested_by !== principal.userId) return null
  const { requested_by: _, ...rest } = facts
  return { ...rest, id, relations: ['self'] }
}

type Changeable = Authorized<'export.change', ExportFacts>

const cancel = builtStatement('exports.cancel', { id: 'uuid' }, (db, p) =>
  db
    .update(exports)
    .set({
      status: 'cancelled',
      lease_id: null,
      leased_until: null,
      finished_at: sql`clock_timestamp()`,
      ...touched(exports),
    })
    .where(eq(exports.id, p.id)),
)

/** Cancels an export that is not finished. The process that works on it stops when it renews its lease. */
export const cancelExport = async ({ db }: TransactionContext, { id }: Changeable): Promise<void> => {
  await cancel(db, { id })
}

const remove = rowDeletion('exports.delete', exports)

/** Deletes an export, and its file through the queue. */
export const removeExport = async ({ db }: TransactionContext, { id }: Changeable): Promise<void> => {
  await remove(db, { id })
}

/** The file of an export. */
export interface ExportFile {
  readonly storage_key: string
  readonly size: number
  readonly sha256: string
  readonly created_at: string
}

/** Whether the requester of the row still may have what is in it: their account lives, and they manage the project. */
const isStillAllowed = (export_: typeof exports): SQL => sql`(
  exists (
    select from users person where ${person.id} = ${export_.requested_by} and ${person.deleted_at} is null and not ${person.is_disabled}
      and (${export_.requested_by} = ${export_.user_id} or ${person.role} = 'admin'))
  and exists (select from users person where ${person.id} = ${export_.user_id} and ${person.deleted_at} is null)
  and (${export_.project_id} is null or exists (
    select from memberships membership
    where ${membership.user_id} = ${export_.user_id} and ${membership.project_id} = ${export_.project_id}
      and ${hasRole(membership.role, 'manager')})))`

const selectFile = query(
  'exports.select_file',
  { id: 'uuid' },
  {
    storage_key: 'text?',
    size: 'int8?',
    sha256: 'text?',
    finished_at: 'text?',
    status: 'text',
    is_allowed: 'bool',
    rests: 'bool',
    user_id: 'text',
  },
  (p) => sql`
    select ${row.storage_key}, ${row.size}, ${row.sha256}, ${row.status}, ${row.finished_at}::text, ${row.user_id}::text,
      ${isStillAllowed(row)} as is_allowed, ${isSignInDue(person)} as rests
    from exports row join users person on ${person.id} = ${row.requested_by} where ${row.id} = ${p.id} and ${allowsExport('export.see', p, row)}`,
)

/**
 * The file of an export that the caller has requested; `null` instead of it if there is none, or the caller may not have it, any more or
 * until they sign in with an identity provider (`rests`).
 */
export const selectExportFile = async (
  ctx: StatementContext<Principal>,
  id: string,
): Promise<{
  readonly user_id: string
  readonly status: string
  readonly rests: boolean
  readonly file: ExportFile | null
} | null> => {
  const found = firstRow(await selectFile(ctx, { id }))
  if (found === null) return null
  const { status, storage_key, size, sha256, finished_at, is_allowed, rests, user_id } = found
  const isThere = storage_key !== null && size !== null && sha256 !== null && finished_at !== null
  const file = isThere && is_allowed && !rests ? { storage_key, size, sha256, created_at: finished_at } : null
  return { user_id, status, rests, file }
}

/** An export that a process works on. */
export interface TakenExport {
  readonly id: string
  readonly lease_id: string
  readonly requested_by: string
  readonly user_id: string
  readonly project_id: string | null
  readonly time_zone: string
  readonly attempts: number
}

/** How often an export is tried. */
const maxAttempts = sql.raw('3')

const lease = (p: { readonly lease: SQL }): SQL => sql`now() + ${p.lease} * interval '1 millisecond'`

/** Whether it has not ended, and no process works on it. */
const isFree = sql`(${row.status} in ('waiting', 'running') and coalesce(${row.leased_until} <= now(), true))`

const lookForOne = statement(
  'exports.look',
  {},
  {},
  () => sql`select from exports row where ${isFree} limit 1`,
)

const take = statement(
  'exports.take',
  { lease_id: 'uuid', lease: 'int' },
  {
    id: 'text',
    requested_by: 'text',
    user_id: 'text',
    project_id: 'text?',
    time_zone: 'text',
    attempts: 'int',
  },
  (p) => {
    const isRun = sql`(not next.rests and ${row.attempts} < ${maxAttempts})`
    // Also while its process is dead: an index allows each user one.
    const isAnotherRunning = sql`exists (
      select from exports other
      where ${other.requested_by} = ${row.requested_by} and ${other.status} = 'running' and ${other.id} <> ${row.id})`
    return sql`
      with next as materialized (
        select ${row.id}, ${isSignInDue(person)} as rests
        from exports row join users person on ${person.id} = ${row.requested_by}
        where ${isFree} and ${mayRun('export', row.requested_by)}
          and not ${isAnotherRunning}
        order by ${usedBy(row.requested_by)}, ${row.created_at} limit 1 for update of row skip locked
      ), taken as ${builder
        .update(row)
        .set({
          status: sql`case when ${isRun} then 'running' else 'failed' end`,
          failure: sql`case when ${isRun} then null when next.rests then 'sign_in_required' else 'interrupted' end`,
          finished_at: sql`case when ${isRun} then null else clock_timestamp() end`,
          attempts: sql`${row.attempts} + 1`,
          renewals: sql`${row.renewals} + 1`,
          lease_id: p.lease_id,
          leased_until: lease(p),
          done: sql`0`,
          total: sql`null`,
          ...touchedBeside(row),
        })
        .from(sql`next`)
        .where(sql`${row.id} = next.id`)
        .returning({
          id: row.id,
          requested_by: row.requested_by,
          user_id: row.user_id,
          project_id: row.project_id,
          attempts: row.attempts,
          status: row.status,
        })}, failed as materialized (select * from taken where taken.status = 'failed'),
      ${tell(sql`failed`, 'failed')}
      select taken.id::text, taken.requested_by::text, taken.user_id::text, taken.project_id::text, ${person.time_zone}, taken.attempts
      from taken join users person on ${person.id} = taken.user_id
      where taken.status = 'running' and (select count(*) from recorded) = 0`
  },
)

/**
 * Takes an export of the user whose jobs were worked on least, the one that has waited for longest, unless as many are running as may be,
 * or another process is taking one. One whose process died goes before the others of its requester. One whose requester has to sign in
 * with an identity provider fails instead.
 */
export const takeExport = async (
  db: Database,
  { leaseId, duration }: { readonly leaseId: string; readonly duration: number },
): Promise<TakenExport | null> => {
  const taken = await inTurn(db, {
    look: (runner) => lookForOne(runner, {}),
    take: async (transaction) => firstRow(await take(transaction, { lease_id: leaseId, lease: duration })),
  })
  return taken === null ? null : { ...taken, lease_id: leaseId }
}

const renew = countingStatement(
  'exports.renew',
  { id: 'uuid', lease_id: 'uuid', lease: 'int', done: 'int', total: 'int?' },
  (p) => sql`
    update exports row set leased_until = ${lease(p)}, renewals = ${row.renewals} + 1, done = ${p.done}, total = ${p.total}
    where ${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} and ${row.status} = 'running' and ${isStillAllowed(row)} returning 1`,
)

/** What has been done of an export. */
export interface ExportProgress {
  readonly done: number
  readonly total: number | null
}

/** Renews the lease of an export. False if it is not this process's any more, was cancelled, or its requester may not have it any more. */
export const renewExport = async (
  db: Database,
  { id, lease_id }: TakenExport,
  { done, total, duration }: ExportProgress & { readonly duration: number },
): Promise<boolean> => (await renew(db, { id, lease_id, lease: duration, done, total })) === 1

const beginFile = countingStatement(
  'exports.begin_file',
  { id: 'uuid', lease_id: 'uuid', key: 'text' },
  (p) => sql`
    update exports row set writing_key = ${p.key}
    where ${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} and ${row.status} = 'running' returning 1`,
)

/** Records the key of the file that is going to be written, so that no job takes it for abandoned. False as by `renewExport`. */
export const beginExportFile = async (
  db: Database,
  { id, lease_id }: TakenExport,
  key: string,
): Promise<boolean> => (await beginFile(db, { id, lease_id, key })) === 1

/** Archives of a user that are kept. */
const maxArchives = 3

/** Deletes the archives of the rows of `old`, as common table expressions. */
const withoutArchives = sql`marked as ${builder
  .update(row)
  .set({ status: sql`'expired'`, storage_key: sql`null`, ...touchedBeside(row) })
  .from(sql`old`)
  .where(sql`${row.id} = old.id`)}`

const finish = statement(
  'exports.finish',
  {
    id: 'uuid',
    lease_id: 'uuid',
    storage_key: 'text',
    size: 'int8',
    sha256: 'text',
    done: 'int',
    days: 'int',
  },
  { finished: 'int8' },
  (p) => sql`
    with finished as ${builder
      .update(row)
      .set({
        status: sql`'finished'`,
        storage_key: p.storage_key,
        size: sql`${p.size}`,
        sha256: p.sha256,
        done: sql`${p.done}`,
        total: sql`${p.done}`,
        lease_id: sql`null`,
        leased_until: sql`null`,
        finished_at: sql`clock_timestamp()`,
        expires_at: sql`now() + make_interval(days => ${p.days})`,
        ...touchedBeside(row),
      })
      .where(
        sql`${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} and ${row.status} = 'running' and ${isStillAllowed(row)}`,
      )
      .returning({ id: row.id, requested_by: row.requested_by })},
    ${tell(sql`finished`, 'finished')},
    old as materialized (
      select ${other.id}, ${other.storage_key} from finished join exports other
        on ${other.requested_by} = finished.requested_by and ${other.storage_key} is not null
      order by ${other.created_at} desc, ${other.id} desc offset ${sql.raw(String(maxArchives - 1))}
      for update of other skip locked
    ), ${withoutArchives}, removed as (
      insert into file_deletions (storage_key) select storage_key from old
    )
    select count(*) as finished from finished left join recorded on true`,
)

/**
 * Tells the requester of each row that its export has ended: an event and a notification, as common table expressions. A user who was
 * deleted gets none: their removal locks the user before their exports, and would wait for this statement, and it for the removal.
 */
function tell(rows: SQL, status: 'finished' | 'failed'): SQL {
  return sql`recorded as materialized (
    select ended.*, record_event_for(ended.requested_by, 'export.finished', null, null, null, null, ended.id, '{}',
      jsonb_build_object('status', ${sql.raw(`'${status}'`)})) as event_id from ${rows} ended
  ), notified as (
    insert into notifications (id, user_id, reason, event_id, export_id, created_at)
    select event_id(clock_timestamp(), row_number() over ()), requested_by, 'export', event_id, recorded.id, clock_timestamp()
    from recorded join users person on ${person.id} = requested_by and ${person.deleted_at} is null
  )`
}

/** A file that was stored for an export. */
export interface StoredExport {
  readonly key: string
  readonly size: number
  readonly sha256: string
  /** Records. */
  readonly done: number
}

/** Finishes an export with its file, for so many days, and deletes the archives before the last ones. False as by `renewExport`. */
export const finishExport = async (
  db: Database,
  { id, lease_id }: TakenExport,
  { key, days, ...file }: StoredExport & { readonly days: number },
): Promise<boolean> =>
  expectRow(await finish(db, { ...file, id, lease_id, storage_key: key, days })).finished === 1

const fail = statement(
  'exports.fail',
  { id: 'uuid', lease_id: 'uuid', failure: 'text' },
  { failed: 'int8' },
  (p) => sql`
    with failed as ${builder
      .update(row)
      .set({
        status: sql`'failed'`,
        failure: p.failure,
        lease_id: sql`null`,
        leased_until: sql`null`,
        finished_at: sql`clock_timestamp()`,
        ...touchedBeside(row),
      })
      .where(sql`${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} and ${row.status} = 'running'`)
      .returning({ id: row.id, requested_by: row.requested_by })},
    ${tell(sql`failed`, 'failed')}
    select count(*) as failed from failed left join recorded on true`,
)

/** Why an export fails. */
export type ExportFailure = 'access_lost' | 'storage_full' | 'interrupted'

/** Ends an export without a file, unless it was cancelled or taken by another process. */
export const failExport = async (
  db: Database,
  { id, lease_id }: TakenExport,
  failure: ExportFailure,
): Promise<void> => {
  await fail(db, { id, lease_id, failure })
}

const release = statement(
  'exports.release',
  { id: 'uuid', lease_id: 'uuid', wait: 'int', refunds: 'bool' },
  {},
  (p) => sql`
    update exports row set status = 'waiting', lease_id = null, leased_until = now() + ${p.wait} * interval '1 millisecond',
      attempts = ${row.attempts} - ${p.refunds}::int, side_changes = ${row.side_changes} + 1, updated_at = ${touchedBeside(row).updated_at}
    where ${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} and ${row.status} = 'running'`,
)

/** Gives an export back, to be taken again after `wait` milliseconds. With `refunds`, the attempt does not count. */
export const releaseExport = async (
  db: Database,
  { id, lease_id }: TakenExport,
  options: { readonly wait: number; readonly refunds: boolean },
): Promise<void> => {
  await release(db, { id, lease_id, ...options })
}

const selectLeases = statement(
  'exports.select_leases',
  {},
  { lease_id: 'text' },
  () =>
    sql`select ${row.lease_id}::text from exports row where ${row.status} = 'running' and ${row.lease_id} is not null`,
)

/** The leases of exports, also those that another process may take over: their own may only be slow. */
export const selectExportLeases = async (db: Database): Promise<ReadonlySet<string>> =>
  new Set((await selectLeases(db, {})).map(({ lease_id }) => lease_id))

const batch = 100

const expire = countingStatement(
  'exports.expire',
  {},
  () => sql`
    insert into file_deletions (storage_key) select storage_key from expired returning 1`,
  () => sql`
    old as materialized (
      select ${row.id}, ${row.storage_key} from exports row
      where ${row.storage_key} is not null and (${row.expires_at} < ${retentionTime} or not ${isStillAllowed(row)})
      limit ${sql.raw(String(batch))} for update skip locked
    ), ${withoutArchives},
    expired as (select storage_key from old)`,
)

/** Deletes the files of exports after their time, and of those whose requesters may not have them any more. */
export const expireExports = async (db: Database, stop: AbortSignal): Promise<void> => {
  await untilNone(() => expire(db, {}), stop)
}
