import {
  type busyStatuses,
  type ImportExisting,
  type ImportFailure,
  type ImportOutcome,
  type ImportPreview,
  type ImportResult,
  type ImportTable,
  type ImportUsers,
} from '../../domain/interchange/imports.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsImport } from '../access/permissions.ts'
import { batchOf, countingStatement, deletionInBatches, untilNone } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { conditionsOf, filterOneOf } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { retentionTime } from '../shared/retention.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPage, selectPageOf } from '../lists/list.ts'
import { importJson, importRowJson, isImportBusy } from '../shared/read-models.ts'
import { aliasedTable, and, eq, isNull, type SQL, sql } from '../schema/drizzle.ts'
import { importRecords, importRows, imports, uploads, users } from '../schema/tables.ts'
import { inTurn, mayRun, usedBy } from '../shared/running-jobs.ts'
import { touched, touchedBeside } from '../shared/touch.ts'

/**
 * Imports: what users upload and ask for, and what the job writes that reads files. A process takes one by a lease, which it renews while
 * it works; one whose process died is taken again.
 */

const item = aliasedTable(imports, 'item')
const row = aliasedTable(imports, 'row')
const other = aliasedTable(imports, 'other')
const line = aliasedTable(importRows, 'item')
const person = aliasedTable(users, 'person')

/** An import as JSON text, and whether something happens in the background. */
export interface ImportRow {
  readonly json: string
  readonly is_pending: boolean
}

const selectOne = query(
  'imports.select',
  { id: 'uuid' },
  { json: 'text', is_pending: 'bool' },
  (p) => sql`
    select ${importJson(row)} as json, ${isImportBusy(row)} as is_pending from imports row
    where ${row.id} = ${p.id} and ${allowsImport('import.see', p, row)}`,
)

/** One import of the caller. */
export const selectImport = async (ctx: StatementContext<Principal>, id: string): Promise<ImportRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** An import that the transaction has written. */
export const viewImport = async (tx: TransactionContext<Principal>, id: string): Promise<ImportRow> =>
  expectRow(await selectOne(tx, { id }))

/** A page of the caller's imports. */
export const selectImports = (
  { db, principal }: StatementContext<Principal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'imports',
      table: imports,
      branches: (caller) => onlyBranch(allowsImport('import.see', caller, item)),
      ...newest,
      json: importJson,
    },
    principal,
    page,
  )

const rowFilters = { outcome: filterOneOf('text', line.outcome) }

/** A page of what became of the rows of an import, in their order; null unless it is the caller's. */
export const selectImportRows = (
  ctx: StatementContext<Principal>,
  id: string,
  filter: { readonly outcome?: readonly ImportOutcome[] },
  page: PageRequest,
): Promise<Page | null> => {
  const importParameter = parameter('import_id', 'uuid')
  return selectPageOf(
    ctx,
    {
      name: 'import_rows',
      table: importRows,
      branches: (caller) =>
        onlyBranch(sql`${line.import_id} = ${importParameter} and exists (
          select from imports row where ${row.id} = ${importParameter} and ${allowsImport('import.see', caller, row)})`),
      values: { import_id: id },
      filters: conditionsOf(rowFilters, filter),
      sortFields: { number: { value: line.number, type: 'int', isNullable: false, isIndexed: true } },
      order: [{ field: 'number', descending: false }],
      json: importRowJson,
    },
    page,
    async () => (await selectImport(ctx, id)) !== null,
  )
}

/** A file that was uploaded to be imported. */
export interface NewImport {
  readonly file_name: string
  readonly storage_key: string
  readonly size: number
  readonly sha256: string
}

const insert = builtStatement(
  'imports.insert',
  {
    id: 'uuid',
    user_id: 'uuid',
    file_name: 'text',
    storage_key: 'text',
    size: 'int8',
    sha256: 'text',
    days: 'int',
  },
  (db, { days, ...p }) =>
    db
      .insert(imports)
      .values({ ...p, size: sql`${p.size}`, file_expires_at: sql`now() + make_interval(days => ${days})` }),
)

/** Inserts an import, whose file the job will read. */
export const insertImport = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  file: NewImport,
  days: number,
): Promise<void> => {
  await insert(db, { ...file, id, user_id: principal.userId, days })
}

const countOwn = builtStatement('imports.count', { id: 'uuid' }, (db, p) =>
  db
    .select({ imports: sql<number>`count(*)::int`.as('imports') })
    .from(imports)
    .where(and(eq(imports.user_id, p.id), isNull(imports.deleted_at))),
)

/** The number of imports of the caller. */
export const countImports = async ({ db, principal }: StatementContext<Principal>): Promise<number> =>
  expectRow(await countOwn(db, { id: principal.userId })).imports

/** What a change of an import depends on. */
export interface ImportFacts {
  readonly id: string
  readonly status: string
  readonly failure: ImportFailure | null
  readonly format: string | null
  readonly csv: ImportTable | null
  readonly project_id: string | null
  readonly existing: ImportExisting
  readonly users: ImportUsers
  readonly storage_key: string | null
  /** Whether the file could be read. */
  readonly has_preview: boolean
  /** Whether it has run, whatever came of it. */
  readonly has_run: boolean
  readonly version: number
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const lock = rowLock('imports.lock', imports, 'update')

const factColumns = {
  user_id: imports.user_id,
  status: imports.status,
  failure: imports.failure,
  format: imports.format,
  csv: imports.csv,
  project_id: imports.project_id,
  existing: imports.existing,
  users: imports.users,
  storage_key: imports.storage_key,
  has_preview: sql<boolean>`(${imports.preview} is not null)`.as('has_preview'),
  has_run: sql<boolean>`(${imports.result} is not null)`.as('has_run'),
  version: imports.version,
}

const selectFacts = builtStatement('imports.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select(factColumns)
    .from(imports)
    .where(and(eq(imports.id, p.id), isNull(imports.deleted_at))),
)

/** Locks an import of the caller, and reads it under the lock. The process that works on it waits meanwhile. */
export const lockImport = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<ImportFacts | null> => {
  const { rows } = await pipeline(db, {
    lock: () => lock(db, { id }),
    rows: () => selectFacts(db, { id }),
  })
  const [facts] = rows
  if (facts?.user_id !== principal.userId) return null
  const { user_id: _, ...rest } = facts
  return { ...rest, id, relations: ['self'] }
}

/** An import that its owner may change. */
export type ChangeableImport = Authorized<'import.change', ImportFacts>

/** How a file is imported. */
export type ImportOptions = Pick<ImportFacts, 'format' | 'csv' | 'project_id' | 'existing' | 'users'>

const update = builtStatement(
  'imports.update',
  { id: 'uuid', format: 'text?', csv: 'text?', project_id: 'uuid?', existing: 'text', users: 'text' },
  (db, p) =>
    db
      .update(imports)
      .set({
        format: p.format,
        csv: sql`${p.csv}::jsonb`,
        project_id: p.project_id,
        existing: sql`${p.existing}`,
        users: sql`${p.users}::jsonb`,
        ...touched(imports),
      })
      .where(eq(imports.id, p.id)),
)

const jsonOrNull = (value: object | null): string | null => (value === null ? null : JSON.stringify(value))

/** Changes how a file is imported. */
export const changeOptions = async (
  { db }: TransactionContext,
  { id }: ChangeableImport,
  { csv, users: mapped, ...options }: ImportOptions,
): Promise<void> => {
  await update(db, { ...options, id, csv: jsonOrNull(csv), users: JSON.stringify(mapped) })
}

const start = builtStatement('imports.start', { id: 'uuid', status: 'text', failure: 'text?' }, (db, p) =>
  db
    .update(imports)
    .set({
      status: p.status,
      failure: p.failure,
      preview: sql`case when ${p.status} <> 'reading' then ${imports.preview} end`,
      attempts: 0,
      done: 0,
      total: null,
      lease_id: null,
      leased_until: null,
      finished_at: null,
      ...touched(imports),
    })
    .where(eq(imports.id, p.id)),
)

/** Gives an import to the job. */
export const queueImport = async (
  { db }: TransactionContext,
  { id }: ChangeableImport,
  status: (typeof busyStatuses)[number],
): Promise<void> => {
  await start(db, { id, status, failure: null })
}

/** Lets the job remove the new projects of a held import that has failed. */
export const discardImport = async (
  { db }: TransactionContext,
  { id }: HeldImport,
  failure: ImportFailure,
): Promise<void> => {
  await start(db, { id, status: 'discarding', failure })
}

const attribute = builtStatement('imports.set_authors', { id: 'uuid', authors: 'text' }, (db, p) =>
  db
    .update(imports)
    .set({ authors: sql`${p.authors}::jsonb` })
    .where(eq(imports.id, p.id)),
)

/** Sets whose the comments of users of the file are here. */
export const setAuthors = async (
  { db }: TransactionContext,
  { id }: ChangeableImport,
  authors: ImportUsers,
): Promise<void> => {
  await attribute(db, { id, authors: JSON.stringify(authors) })
}

const goesOn = sql`${row.status} in ('undoing', 'discarding')`

const remove = statement(
  'imports.delete',
  { id: 'uuid' },
  {},
  (p) => sql`
    with file as (
      insert into file_deletions (storage_key)
      select ${row.storage_key} from imports row where ${row.id} = ${p.id} and ${row.storage_key} is not null
    ), upload as (
      delete from uploads where ${uploads.import_id} = ${p.id}
    )
    update imports row set deleted_at = now(), storage_key = null,
      lease_id = case when ${goesOn} then ${row.lease_id} end,
      leased_until = case when ${goesOn} then ${row.leased_until} end,
      status = case when ${goesOn} then ${row.status} when ${row.status} = 'running' then 'discarding' else 'cancelled' end
    where ${row.id} = ${p.id}`,
)

/**
 * Deletes an import with the upload that it was, and its file through the queue. Jobs complete its undo, remove its new projects that are
 * not complete, and its rows.
 */
export const removeImport = async ({ db }: TransactionContext, { id }: ChangeableImport): Promise<void> => {
  await remove(db, { id })
}

/** An import that a process works on. */
export interface HeldImport extends ImportOptions {
  readonly id: string
  /** Whose the comments of users of the file are here. */
  readonly authors: ImportUsers
  readonly lease_id: string
  readonly user_id: string
  readonly time_zone: string
  readonly task_quota: number | null
  readonly status: string
  /** Why it has failed, if its new projects are to be removed for that. */
  readonly failure: ImportFailure | null
  readonly attempts: number
  readonly file_name: string
  readonly storage_key: string | null
  readonly size: number
  readonly sha256: string
  readonly created_at: string
}

const lease = (p: { readonly lease: SQL }): SQL => sql`now() + ${p.lease} * interval '1 millisecond'`

/** Whether it is busy, and no process works on it. */
const isFree = sql`(${isImportBusy(row)} and coalesce(${row.leased_until} <= now(), true))`

const lookForOne = statement(
  'imports.look',
  {},
  {},
  () => sql`select from imports row where ${isFree} limit 1`,
)

const take = statement(
  'imports.take',
  { lease_id: 'uuid', lease: 'int', user_id: 'uuid?' },
  { id: 'text' },
  (p) => {
    // Of those of a user, what is discarded goes first: its tasks count against the quota. Nothing changes a busy import but its lease
    // and its progress, so the others are in the order in which they were asked for.
    const place = ({ status, updated_at, id }: typeof imports): SQL =>
      sql`(${status} <> 'discarding', ${updated_at}, ${id})`
    const isEarlier = sql`${place(other)} < ${place(row)}`
    return sql`
      with next as materialized (
        select ${row.id} from imports row
        where ${isFree} and ${mayRun('import', row.user_id)}
          and ${row.user_id} = coalesce(${p.user_id}, ${row.user_id})
          and not exists (
            select from imports other where ${isImportBusy(other)} and ${other.user_id} = ${row.user_id} and ${isEarlier})
        order by ${usedBy(row.user_id)}, ${place(row)} limit 1 for update of row skip locked
      ), taken as ${builder
        .update(row)
        .set({
          attempts: sql`${row.attempts} + 1`,
          renewals: sql`${row.renewals} + 1`,
          lease_id: p.lease_id,
          leased_until: lease(p),
          done: sql`0`,
          total: sql`null`,
        })
        .from(sql`next`)
        .where(sql`${row.id} = next.id`)
        .returning({ id: row.id })}
      select taken.id::text from taken`
  },
)

const selectTaken = builtStatement('imports.select_taken', { id: 'uuid', lease_id: 'uuid' }, (db, p) =>
  db
    .select({
      ...factColumns,
      authors: imports.authors,
      attempts: imports.attempts,
      file_name: imports.file_name,
      size: imports.size,
      sha256: imports.sha256,
      created_at: imports.created_at,
      time_zone: users.time_zone,
      task_quota: users.task_quota,
    })
    .from(imports)
    .innerJoin(users, eq(users.id, imports.user_id))
    .where(and(eq(imports.id, p.id), eq(imports.lease_id, p.lease_id))),
)

/**
 * Takes an import of a user, or of the one of all whose jobs were worked on least, unless as many jobs are running as may be, its owner has
 * one that runs, or another process is taking one. Those of a user take turns: one that waits to be tried again is not overtaken by another.
 */
export const takeImport = async (
  db: Database,
  {
    leaseId,
    duration,
    onlyUserId,
  }: { readonly leaseId: string; readonly duration: number; readonly onlyUserId: string | null },
): Promise<HeldImport | null> => {
  const taken = await inTurn(db, {
    look: (runner) => lookForOne(runner, {}),
    take: async (transaction) =>
      firstRow(await take(transaction, { lease_id: leaseId, lease: duration, user_id: onlyUserId })),
  })
  if (taken === null) return null
  const found = firstRow(await selectTaken(db, { id: taken.id, lease_id: leaseId }))
  return found && { ...found, id: taken.id, lease_id: leaseId }
}

const renew = countingStatement(
  'imports.renew',
  { id: 'uuid', lease_id: 'uuid', lease: 'int', done: 'int', total: 'int?' },
  (p) => sql`
    update imports row set leased_until = ${lease(p)}, renewals = ${row.renewals} + 1, done = ${p.done}, total = ${p.total}
    where ${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} returning 1`,
)

/** Renews the lease of an import. False if it is not this process's any more, or was cancelled. */
export const renewImport = async (
  db: Database,
  { id, lease_id }: HeldImport,
  {
    done,
    total,
    duration,
  }: { readonly done: number; readonly total: number | null; readonly duration: number },
): Promise<boolean> => (await renew(db, { id, lease_id, lease: duration, done, total })) === 1

const hold = statement(
  'imports.hold',
  { id: 'uuid', lease_id: 'uuid' },
  { is_owner_active: 'bool' },
  (p) => sql`
    select ${person.deleted_at} is null and not ${person.is_disabled} as is_owner_active
    from imports row join users person on ${person.id} = ${row.user_id}
    where ${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id} for no key update of row`,
)

/** An import that is this process's until the end of the transaction. */
export interface ImportLease {
  /** Whether its owner was neither disabled nor deleted. */
  readonly is_owner_active: boolean
}

/** Keeps an import for this process until the end of the transaction; null if it is not this process's any more. */
export const holdImport = async (
  { db }: Pick<TransactionContext, 'db'>,
  { id, lease_id }: HeldImport,
): Promise<ImportLease | null> => firstRow(await hold(db, { id, lease_id }))

const finishReading = builtStatement(
  'imports.finish_reading',
  { id: 'uuid', format: 'text', csv: 'text?', preview: 'text', done: 'int' },
  (db, p) =>
    db
      .update(imports)
      .set({
        status: 'ready',
        format: p.format,
        csv: sql`${p.csv}::jsonb`,
        preview: sql`${p.preview}::jsonb`,
        done: sql`${p.done}`,
        total: sql`${p.done}`,
        lease_id: null,
        leased_until: null,
        ...touched(imports),
      })
      .where(eq(imports.id, p.id)),
)

/** What was found in a file. */
export interface ReadFile {
  readonly format: string
  readonly csv: ImportTable | null
  readonly preview: ImportPreview
  readonly done: number
}

/** Makes a held import ready. */
export const previewImport = async (
  { db }: TransactionContext,
  { id }: HeldImport,
  { csv, preview, ...read }: ReadFile,
): Promise<void> => {
  await finishReading(db, { ...read, id, csv: jsonOrNull(csv), preview: JSON.stringify(preview) })
}

const end = statement(
  'imports.end',
  { id: 'uuid', status: 'text', failure: 'text?', result: 'text?', done: 'int?' },
  {},
  (p) => sql`
    with ended as ${builder
      .update(row)
      .set({
        status: p.status,
        failure: p.failure,
        result: sql`coalesce(${p.result}::jsonb, ${row.result})`,
        done: sql`coalesce(${p.done}, ${row.done})`,
        total: sql`coalesce(${p.done}, ${row.total})`,
        lease_id: sql`null`,
        leased_until: sql`null`,
        finished_at: sql`clock_timestamp()`,
        ...touchedBeside(row),
      })
      .where(sql`${row.id} = ${p.id}`)
      .returning({
        id: row.id,
        user_id: row.user_id,
        deleted_at: row.deleted_at,
      })}, recorded as materialized (
      select ended.*, record_event_for(ended.user_id, 'import.finished', null, null, null, null, ended.id, '{}',
        jsonb_build_object('status', ${p.status}::text)) as event_id
      from ended join users person on ${person.id} = ended.user_id and ${person.deleted_at} is null where ended.deleted_at is null
    ), notified as (
      insert into notifications (id, user_id, reason, event_id, import_id, created_at)
      select event_id(clock_timestamp(), 0), user_id, 'import', event_id, recorded.id, clock_timestamp()
      from recorded where ${p.status} in ('finished', 'failed')
    )
    select count(*) as ended from recorded`,
)

/** How an import ended. */
export interface ImportEnd {
  readonly status: 'finished' | 'failed' | 'cancelled' | 'undone'
  readonly failure?: ImportFailure | null
  readonly result?: ImportResult
  /** Rows that were read or written, all of them. */
  readonly done?: number
}

/** Ends a held or locked import, and tells its owner, unless one of them was deleted. */
export const endImport = async (
  { db }: TransactionContext,
  { id }: { readonly id: string },
  { status, failure, result, done }: ImportEnd,
): Promise<void> => {
  await end(db, {
    id,
    status,
    failure: failure ?? null,
    result: jsonOrNull(result ?? null),
    done: done ?? null,
  })
}

const release = statement(
  'imports.release',
  { id: 'uuid', lease_id: 'uuid', wait: 'int', refunds: 'bool' },
  {},
  (p) => sql`
    update imports row set lease_id = null, leased_until = now() + ${p.wait} * interval '1 millisecond',
      attempts = ${row.attempts} - ${p.refunds}::int
    where ${row.id} = ${p.id} and ${row.lease_id} = ${p.lease_id}`,
)

/** Gives an import back, to be taken again after `wait` milliseconds. With `refunds`, the attempt does not count. */
export const releaseImport = async (
  db: Database,
  { id, lease_id }: HeldImport,
  options: { readonly wait: number; readonly refunds: boolean },
): Promise<void> => {
  await release(db, { id, lease_id, ...options })
}

const selectLeases = statement(
  'imports.select_leases',
  {},
  { lease_id: 'text' },
  () => sql`select ${row.lease_id}::text from imports row where ${row.lease_id} is not null`,
)

/** The leases of imports, also those that another process may take over: their own may only be slow. */
export const selectImportLeases = async (db: Database): Promise<ReadonlySet<string>> =>
  new Set((await selectLeases(db, {})).map(({ lease_id }) => lease_id))

const batch = 100

const expireFile = countingStatement(
  'imports.expire_files',
  {},
  () => sql`
    insert into file_deletions (storage_key) select storage_key from expired returning 1`,
  () => sql`
    old as materialized (
      select ${row.id}, ${row.storage_key} from imports row
      where ${row.storage_key} is not null and ${row.file_expires_at} < ${retentionTime} and not ${isImportBusy(row)}
      limit ${sql.raw(String(batch))} for update skip locked
    ), marked as ${builder
      .update(row)
      .set({ storage_key: sql`null`, ...touchedBeside(row) })
      .from(sql`old`)
      .where(sql`${row.id} = old.id`)},
    expired as (select storage_key from old)`,
)

const deleteOld = countingStatement(
  'imports.delete_old',
  { days: 'int' },
  () =>
    builder
      .update(row)
      .set({ deleted_at: sql`now()`, storage_key: sql`null` })
      .from(sql`old`)
      .where(sql`${row.id} = old.id`)
      .returning({ changed: sql`1` }),
  (p) => sql`
    old as materialized (
      select ${row.id}, ${row.storage_key} from imports row
      where ${row.deleted_at} is null and ${row.created_at} < ${retentionTime} - make_interval(days => ${p.days}) and not ${isImportBusy(row)}
      limit ${sql.raw(String(batch))} for update skip locked
    ), file as (
      insert into file_deletions (storage_key) select storage_key from old where storage_key is not null
    )`,
)

/** Imports that nobody sees or changes any more. */
const isOver = sql`(${row.deleted_at} is not null and not ${isImportBusy(row)})`

const removeOldRows = deletionInBatches('import_rows.purge', {
  parameters: {},
  table: importRows,
  condition: () => sql`${importRows.import_id} in (select ${row.id} from imports row where ${isOver})`,
})

const leaveOldRecords = countingStatement(
  'import_records.leave',
  {},
  () => sql`
    update import_records set import_id = null where ${batchOf(
      importRecords,
      sql`${importRecords.import_id} in (select ${row.id} from imports row where ${isOver})`,
      500,
    )} returning 1`,
)

const removeOld = deletionInBatches('imports.purge', {
  parameters: {},
  table: imports,
  condition: () => sql`${imports.id} in (select ${row.id} from imports row where ${isOver})`,
  limit: 1,
})

/**
 * Deletes files after their time, and imports that are so many days old. Those that were deleted go with their rows, which can be very many,
 * in batches.
 */
export const expireImports = async (db: Database, days: number, stop: AbortSignal): Promise<void> => {
  await untilNone(() => expireFile(db, {}), stop)
  await untilNone(() => deleteOld(db, { days }), stop)
  await removeOldRows(db, {}, stop)
  await untilNone(() => leaveOldRecords(db, {}), stop)
  await removeOld(db, {}, stop)
}
