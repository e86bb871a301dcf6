import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { leaseSeconds, uploadHours } from '../domain/uploads.ts'
import { addingOutcome, expectRoom, type Room, roomParameters, type UploadLease } from './attachments.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import { instantText } from './engine/instant-text.ts'
import { readOutcome } from './engine/outcome.ts'
import {
  allowsAttachment,
  allowsOwn,
  callerOf,
  callerParameters,
  type CallerPlaceholders,
} from './access/permissions.ts'
import { onlyRow, type Placeholders, statement } from './engine/statement.ts'

/** A file that is about to arrive in pieces. */
export interface NewUpload {
  readonly id: string
  readonly taskId: string
  readonly fileName: string
  readonly contentType: string
  /** What the whole file is to have; null when that is not said. */
  readonly sha256: string | null
  readonly metadata: string
  readonly storageKey: string
}

/** An upload as a request finds it; `expires_at` is RFC 3339. */
export interface Upload {
  readonly task_id: string
  readonly file_name: string
  readonly content_type: string
  readonly sha256: string | null
  readonly upload_metadata: string
  readonly upload_length: number
  /** Where its client is to continue: see `tellableOffset`. */
  readonly upload_offset: number
  /** Bytes that are durable. */
  readonly stored: number
  readonly storage_key: string
  readonly attachment_id: string | null
  readonly expires_at: string
}

const attachment = sql.raw('attachment')
const task = sql.raw('task')
const upload = sql.raw('upload')

const untilExpiry = sql.raw(`now() + interval '${uploadHours} hours'`)
const untilLeaseEnds = sql.raw(`now() + interval '${leaseSeconds} seconds'`)

/**
 * The offset that a client is told. While an upload whose bytes are all there is no attachment yet, it lacks its last byte:
 * so the client comes back with it, and gets to know how the upload ended.
 */
const tellableOffset = (row: SQL): SQL => sql`case
  when ${row}.attachment_id is null then least(${row}.upload_offset, greatest(${row}.upload_length - 1, 0))
  else ${row}.upload_offset end`

const uploadColumns = {
  task_id: 'text',
  file_name: 'text',
  content_type: 'text',
  sha256: 'text?',
  upload_metadata: 'text',
  upload_length: 'int8',
  upload_offset: 'int8',
  stored: 'int8',
  storage_key: 'text',
  attachment_id: 'text?',
  expires_at: 'text',
} as const

const selectedColumns = (row: SQL): SQL => sql`
  ${row}.task_id::text, ${row}.file_name, ${row}.content_type, ${row}.sha256, ${row}.upload_metadata,
  ${row}.upload_length, ${tellableOffset(row)} as upload_offset, ${row}.upload_offset as stored, ${row}.storage_key,
  ${row}.attachment_id::text, ${instantText(sql`${row}.expires_at`)} as expires_at`

const isOwn = (p: CallerPlaceholders & { readonly id: SQL }): SQL =>
  sql`upload.id = ${p.id} and ${allowsOwn('upload.continue', p, upload)}`

const insert = statement(
  {
    id: 'uuid',
    task_id: 'uuid',
    file_name: 'text',
    content_type: 'text',
    sha256: 'text?',
    upload_metadata: 'text',
    storage_key: 'text',
    ...roomParameters,
    ...callerParameters,
  },
  { outcome: 'text', used: 'int8', expires_at: 'text?' },
  (p) => sql`
    with uploader as (
      select attachment_bytes + coalesce((
        select sum(upload_length) from uploads where user_id = users.id and attachment_id is null
      ), 0)::bigint as used
      from users where id = ${p.caller}
    ), checked as (
      select ${addingOutcome(p, task, sql`used`)} as outcome, used
      from tasks task cross join uploader
      where task.id = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)}
    ), added as (
      insert into uploads (
        id, task_id, user_id, file_name, content_type, sha256, upload_metadata, upload_length, storage_key, expires_at)
      select
        ${p.id}, ${p.task_id}, ${p.caller}, ${p.file_name}, ${p.content_type}, ${p.sha256}, ${p.upload_metadata},
        ${p.size}, ${p.storage_key}, ${untilExpiry}
      from checked where outcome = 'done'
      returning expires_at
    )
    select outcome, used, ${instantText(sql`expires_at`)} as expires_at from checked left join added on true`,
)

/**
 * Begins an upload of so many bytes, if the principal may attach to the task; answers with when it expires. What their
 * other uploads are still to bring counts as used: so they cannot fill the storage with files that they may not keep. (Of
 * two that begin at once both may pass. In the end `insertAttachment` decides.)
 *
 * @throws QuotaExceeded when there is no room for it
 */
export const insertUpload = async (
  db: Database,
  principal: Principal,
  file: NewUpload,
  room: Room,
): Promise<Outcome<{ readonly expires_at: string | null }>> => {
  const rows = await insert(db, {
    id: file.id,
    task_id: file.taskId,
    file_name: file.fileName,
    content_type: file.contentType,
    sha256: file.sha256,
    upload_metadata: file.metadata,
    storage_key: file.storageKey,
    ...room,
    ...callerOf(principal),
  })
  return readOutcome(expectRoom(onlyRow(rows), room))
}

const select = statement(
  { id: 'uuid', ...callerParameters },
  { outcome: 'text', ...uploadColumns },
  (p) => sql`
    select case when upload.expires_at <= now() then 'upload_gone' else 'done' end as outcome, ${selectedColumns(upload)}
    from uploads upload where ${isOwn(p)}`,
)

/** The principal's own upload. */
export const selectUpload = async (
  db: Database,
  principal: Principal,
  id: string,
): Promise<Outcome<Upload>> => readOutcome(onlyRow(await select(db, { id, ...callerOf(principal) })))

const lease = statement(
  { id: 'uuid', upload_offset: 'int8', lease_id: 'uuid', ...callerParameters },
  { outcome: 'text', ...uploadColumns },
  (p) => sql`
    with target as (
      select upload.*, ${allowsAttachment('attachment.add', p, attachment, task)} as may_add
      from uploads upload join tasks task on task.id = upload.task_id
      where ${isOwn(p)} and ${allowsAttachment('attachment.see', p, attachment, task)}
      for update of upload
    ), checked as (
      select id, case
        when not may_add then 'forbidden'
        when expires_at <= now() then 'upload_gone'
        when leased_until > now() then 'upload_locked'
        when ${tellableOffset(sql`target`)} <> ${p.upload_offset} then 'upload_conflict'
        else 'done' end as outcome
      from target
    ), leased as (
      update uploads set lease_id = ${p.lease_id}, leased_until = ${untilLeaseEnds}
      from checked where uploads.id = checked.id and checked.outcome = 'done' and uploads.attachment_id is null
    )
    select outcome, ${selectedColumns(sql`target`)} from target join checked on checked.id = target.id`,
)

/**
 * Lets one request write to the principal's own upload at an offset, until the lease ends or runs out. No lease is made for
 * one that is complete.
 */
export const leaseUpload = async (
  db: Database,
  principal: Principal,
  { id, leaseId }: UploadLease,
  offset: number,
): Promise<Outcome<Upload>> =>
  readOutcome(
    onlyRow(await lease(db, { id, upload_offset: offset, lease_id: leaseId, ...callerOf(principal) })),
  )

const leaseParameters = { id: 'uuid', lease_id: 'uuid' } as const

const isLeased = (p: Placeholders<typeof leaseParameters>): SQL =>
  sql`id = ${p.id} and lease_id = ${p.lease_id}`

const renew = statement(
  leaseParameters,
  { id: 'text' },
  (p) => sql`update uploads set leased_until = ${untilLeaseEnds} where ${isLeased(p)} returning id::text`,
)

/** Renews a lease; missing when another request has taken it, or the upload is gone. */
export const renewLease = async (db: Database, { id, leaseId }: UploadLease): Promise<Outcome<unknown>> =>
  found(onlyRow(await renew(db, { id, lease_id: leaseId })))

const record = statement(
  { upload_offset: 'int8', ...leaseParameters },
  { expires_at: 'text' },
  (p) => sql`
    update uploads
    set upload_offset = ${p.upload_offset}, leased_until = ${untilLeaseEnds}, expires_at = ${untilExpiry}
    where ${isLeased(p)} returning ${instantText(sql`expires_at`)} as expires_at`,
)

/** Records how many bytes are durable and renews the lease; missing as with `renewLease`. */
export const recordOffset = async (
  db: Database,
  { id, leaseId }: UploadLease,
  offset: number,
): Promise<Outcome<{ readonly expires_at: string }>> =>
  found(onlyRow(await record(db, { id, lease_id: leaseId, upload_offset: offset })))

const release = statement(
  leaseParameters,
  {},
  (p) => sql`update uploads set lease_id = null, leased_until = null where ${isLeased(p)}`,
)

/** Ends a lease, if it is still held. */
export const endLease = async (db: Database, { id, leaseId }: UploadLease): Promise<void> => {
  await release(db, { id, lease_id: leaseId })
}

const removeLeased = statement(leaseParameters, {}, (p) => sql`delete from uploads where ${isLeased(p)}`)

/** Gives up an upload that is leased; its bytes follow through the outbox. */
export const deleteLeasedUpload = async (db: Database, { id, leaseId }: UploadLease): Promise<void> => {
  await removeLeased(db, { id, lease_id: leaseId })
}

const remove = statement(
  { id: 'uuid', ...callerParameters },
  { id: 'text' },
  (p) => sql`delete from uploads upload where ${isOwn(p)} returning id::text`,
)

/** Deletes the principal's own upload; its bytes follow through the outbox, unless they are an attachment's. */
export const deleteUpload = async (
  db: Database,
  principal: Principal,
  id: string,
): Promise<Outcome<unknown>> => found(onlyRow(await remove(db, { id, ...callerOf(principal) })))

/** Gives up uploads whose next piece has not come in time. */
export const removeExpiredUploads = deletionInBatches({}, 'uploads', () => sql`expires_at <= now()`)
