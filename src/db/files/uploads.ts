import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import {
  leaseSeconds,
  uploadHours,
  type UploadLease,
  type UploadOutcome,
} from '../../domain/files/uploads.ts'
import type { AttachableTask } from './attachments.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { minStepBack, retentionTime } from '../shared/retention.ts'
import type { ParametersOf, Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, rowDeletion, rowLock } from '../statements/row-statements.ts'
import { and, eq, isNotNull, isNull, sql } from '../schema/drizzle.ts'
import { tasks, uploads } from '../schema/tables.ts'

/** A new resumable upload. */
export interface NewUpload {
  readonly file_name: string
  /** Null if the client declares none. */
  readonly content_type: string | null
  /** Expected digest of the whole file, in hexadecimal; null if the client sent none. */
  readonly sha256: string | null
  /** The value of Upload-Metadata. */
  readonly upload_metadata: string
  /** Size of the whole file. */
  readonly upload_length: number
  readonly storage_key: string
}

/** An upload as it was stored. */
export interface Upload extends NewUpload, UploadOutcome {
  readonly id: string
  /** The task that the file is attached to; null for a file to import. */
  readonly task_id: string | null
  /** Bytes that are durable. */
  readonly stored: number
  /** RFC 3339. */
  readonly expires_at: string
  readonly is_expired: boolean
  /** Whether a request holds the lease. */
  readonly is_leased: boolean
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

/** An upload that the caller was found to be allowed to continue. */
export type OwnUpload = Authorized<'upload.continue', Upload>

const newExpiry = sql.raw(`now() + interval '${uploadHours} hours'`)
const newLeaseEnd = sql.raw(`now() + interval '${leaseSeconds} seconds'`)

const insert = builtStatement(
  'uploads.insert',
  {
    id: 'uuid',
    task_id: 'uuid?',
    user_id: 'uuid',
    file_name: 'text',
    content_type: 'text?',
    sha256: 'text?',
    upload_metadata: 'text',
    upload_length: 'int8',
    storage_key: 'text',
  } satisfies ParametersOf<typeof uploads>,
  (db, p) =>
    db
      .insert(uploads)
      .values({ ...p, expires_at: newExpiry })
      .returning({ expires_at: uploads.expires_at }),
)

/** Inserts an upload of the caller: to a task, or to be imported. Returns when it expires. */
export const insertUpload = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  task: AttachableTask | null,
  upload: NewUpload,
): Promise<string> => {
  const task_id = task === null ? null : task.id
  const row = expectRow(await insert(db, { ...upload, id, task_id, user_id: principal.userId }))
  return row.expires_at
}

const sumUnfinished = builtStatement('uploads.sum_unfinished', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ bytes: sql<number>`coalesce(sum(${uploads.upload_length}), 0)::float8` })
    .from(uploads)
    .where(and(eq(uploads.user_id, p.user_id), isNotNull(uploads.task_id), isNull(uploads.attachment_id))),
)

/** The full sizes of the caller's unfinished uploads to tasks. */
export const unfinishedBytes = async ({ db, principal }: TransactionContext<Principal>): Promise<number> =>
  (await sumUnfinished(db, { user_id: principal.userId }))[0]?.bytes ?? 0

const countUnfinished = builtStatement('uploads.count_unfinished_imports', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ uploads: sql<number>`count(*)::int`.as('uploads') })
    .from(uploads)
    .where(
      and(
        eq(uploads.user_id, p.user_id),
        isNull(uploads.task_id),
        isNull(uploads.import_id),
        sql`${uploads.expires_at} > now()`,
      ),
    ),
)

/** The number of unfinished uploads of files that the caller, who is locked, wants to import. */
export const countUnfinishedImports = async ({
  db,
  principal,
}: TransactionContext<Principal>): Promise<number> =>
  expectRow(await countUnfinished(db, { user_id: principal.userId })).uploads

const select = builtStatement('uploads.select', { id: 'uuid' }, (db, p) =>
  db
    .select({
      id: uploads.id,
      task_id: uploads.task_id,
      user_id: uploads.user_id,
      file_name: uploads.file_name,
      content_type: uploads.content_type,
      sha256: uploads.sha256,
      upload_metadata: uploads.upload_metadata,
      upload_length: uploads.upload_length,
      stored: uploads.upload_offset,
      storage_key: uploads.storage_key,
      attachment_id: uploads.attachment_id,
      task_version: uploads.task_version,
      import_id: uploads.import_id,
      expires_at: uploads.expires_at,
      is_expired: sql<boolean>`${uploads.expires_at} <= now()`,
      // A lease that ends later was taken before the clock was set back.
      is_leased: sql<boolean>`coalesce(
        ${uploads.leased_until} > now() and ${uploads.leased_until} <= ${newLeaseEnd} + ${minStepBack}, false)`,
    })
    .from(uploads)
    .where(eq(uploads.id, p.id)),
)

/** An upload, without a lock. */
export const readUpload = async (
  { db, principal }: StatementContext<Principal>,
  id: string,
): Promise<Upload | null> => {
  const [row] = await select(db, { id })
  if (row === undefined) return null
  const { user_id, ...upload } = row
  return { ...upload, relations: user_id === principal.userId ? ['self'] : [] }
}

const lock = rowLock('uploads.lock', uploads, 'update')

/** Locks an upload, and reads it under the lock. */
export const lockUpload = async (tx: TransactionContext<Principal>, id: string): Promise<Upload | null> => {
  const { upload } = await pipeline(tx.db, {
    lock: () => lock(tx.db, { id }),
    upload: () => readUpload(tx, id),
  })
  return upload
}

const leaseParameters = { id: 'uuid', lease_id: 'uuid' } as const

const isHeld = (p: Placeholders<typeof leaseParameters>) =>
  and(eq(uploads.id, p.id), eq(uploads.lease_id, p.lease_id))

const take = builtStatement('uploads.lease', leaseParameters, (db, p) =>
  db.update(uploads).set({ lease_id: p.lease_id, leased_until: newLeaseEnd }).where(eq(uploads.id, p.id)),
)

/** Leases a locked upload to a request, which then writes to it. */
export const takeLease = async (
  { db }: TransactionContext,
  { id }: OwnUpload,
  leaseId: string,
): Promise<void> => {
  await take(db, { id, lease_id: leaseId })
}

// Statements of the request that holds the lease. Each is a transaction of its own, since bytes are stored between them, and finds out
// by its condition whether the lease is still held.

const renew = builtStatement('uploads.renew_lease', leaseParameters, (db, p) =>
  db.update(uploads).set({ leased_until: newLeaseEnd }).where(isHeld(p)).returning({ id: uploads.id }),
)

/** Renews a lease. Returns false if another request has taken it or the upload is gone. */
export const renewLease = async ({ db }: StatementContext, { id, leaseId }: UploadLease): Promise<boolean> =>
  (await renew(db, { id, lease_id: leaseId })).length > 0

const record = builtStatement(
  'uploads.record_offset',
  { ...leaseParameters, upload_offset: 'int8' },
  (db, p) =>
    db
      .update(uploads)
      .set({ upload_offset: p.upload_offset, leased_until: newLeaseEnd, expires_at: newExpiry })
      .where(isHeld(p))
      .returning({ expires_at: uploads.expires_at }),
)

/** Records the number of durable bytes, and renews the lease. Returns when the upload expires; null if the lease is lost. */
export const recordOffset = async (
  { db }: StatementContext,
  { id, leaseId }: UploadLease,
  offset: number,
): Promise<string | null> =>
  (await record(db, { id, lease_id: leaseId, upload_offset: offset }))[0]?.expires_at ?? null

const release = builtStatement('uploads.end_lease', leaseParameters, (db, p) =>
  db.update(uploads).set({ lease_id: null, leased_until: null }).where(isHeld(p)),
)

/** Ends a lease, if it is still held. */
export const endLease = async ({ db }: StatementContext, { id, leaseId }: UploadLease): Promise<void> => {
  await release(db, { id, lease_id: leaseId })
}

const removeLeased = builtStatement('uploads.delete_leased', leaseParameters, (db, p) =>
  db.delete(uploads).where(isHeld(p)),
)

/** Deletes a leased upload. A trigger queues its bytes for removal. */
export const deleteLeasedUpload = async (
  { db }: StatementContext,
  { id, leaseId }: UploadLease,
): Promise<void> => {
  await removeLeased(db, { id, lease_id: leaseId })
}

// The condition is on the locked row alone, which PostgreSQL reads again after waiting for it.
const lockHeld = builtStatement('uploads.lock_leased', leaseParameters, (db, p) =>
  db.select({ id: uploads.id }).from(uploads).where(isHeld(p)).for('no key update'),
)

/** Locks an upload. Returns whether the lease is still held. */
export const lockLeased = async (
  { db }: TransactionContext,
  { id, leaseId }: UploadLease,
): Promise<boolean> => (await lockHeld(db, { id, lease_id: leaseId })).length > 0

const finish = builtStatement(
  'uploads.finish',
  { id: 'uuid', attachment_id: 'uuid?', import_id: 'uuid?' },
  (db, p) =>
    db
      .update(uploads)
      .set({
        attachment_id: p.attachment_id,
        task_version: sql`(select ${tasks.version} from ${tasks} where ${tasks.id} = ${uploads.task_id})`,
        import_id: p.import_id,
        upload_offset: sql`${uploads.upload_length}`,
        lease_id: null,
        leased_until: null,
      })
      .where(eq(uploads.id, p.id)),
)

/** Records that a locked upload has become an attachment, which its task counts, or an import, and ends the lease. */
export const finishUpload = async (
  { db }: TransactionContext,
  { id }: UploadLease,
  outcome: { readonly attachment_id: string } | { readonly import_id: string },
): Promise<void> => {
  await finish(db, { id, attachment_id: null, import_id: null, ...outcome })
}

const remove = rowDeletion('uploads.delete', uploads)

/** Deletes an upload. A trigger queues its bytes for removal, unless they belong to an attachment or an import. */
export const removeUpload = async ({ db }: TransactionContext, { id }: OwnUpload): Promise<void> => {
  await remove(db, { id })
}

/** Deletes uploads that have waited too long for their next chunk. */
export const removeExpiredUploads = deletionInBatches('uploads.delete_expired', {
  parameters: {},
  table: uploads,
  condition: () => sql`${uploads.expires_at} <= ${retentionTime}`,
})
