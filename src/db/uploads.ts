import { done, found, missing, type Outcome } from '../domain/outcome.ts'
import { leaseSeconds, uploadHours } from '../domain/uploads.ts'
import { allowsAttachment, allowsOwn, type CallerPlaceholders } from './access/permissions.ts'
import {
  insertionColumns,
  insertionOutcome,
  readInsertionOutcome,
  type QuotaClaim,
  quotaParameters,
  uploaderQuota,
  type UploadLease,
} from './attachments.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { OpContext } from './engine/context.ts'
import { instantText } from './engine/instant-text.ts'
import { readOutcome } from './engine/outcome.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { minStepBack, retentionTime } from './engine/retention.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { outcomeOfTaskWrite } from './task-writes.ts'

/** A new resumable upload. `size` is the size of the whole file. */
export interface NewUpload extends QuotaClaim {
  readonly id: string
  readonly taskId: string
  readonly fileName: string
  /** Null if the client declares none. */
  readonly contentType: string | null
  /** Expected digest of the whole file, in hexadecimal; null if the client sent none. */
  readonly sha256: string | null
  /** The value of Upload-Metadata. */
  readonly metadata: string
  readonly storageKey: string
}

/** The progress of an upload. */
export interface UploadProgress {
  /** The offset at which the client continues: see `resumeOffset`. */
  readonly upload_offset: number
  /** RFC 3339. */
  readonly expires_at: string
  /** The id of the attachment; null until the upload is complete. */
  readonly attachment_id: string | null
  /** The version of the task with the attachment; null before. */
  readonly task_version: number | null
}

export interface Upload extends UploadProgress {
  readonly task_id: string
  readonly file_name: string
  readonly content_type: string | null
  readonly sha256: string | null
  readonly upload_metadata: string
  readonly upload_length: number
  /** Bytes that are durable. */
  readonly stored: number
  readonly storage_key: string
}

const attachment = sql.raw('attachment')
const task = sql.raw('task')
const upload = sql.raw('upload')
const tasks = columnsOf<'tasks'>(task)
const uploads = columnsOf<'uploads'>(sql.raw('uploads'))

const newExpiry = sql.raw(`now() + interval '${uploadHours} hours'`)
const newLeaseEnd = sql.raw(`now() + interval '${leaseSeconds} seconds'`)

/**
 * The offset for the client. When all bytes are stored but there is no attachment yet, it is one byte short, so that the client sends
 * the last byte again and gets the outcome of the upload in the response.
 */
const resumeOffset = (row: SQL): SQL => {
  const { attachment_id, upload_offset, upload_length } = columnsOf<'uploads'>(row)
  return sql`case
    when ${attachment_id} is null then least(${upload_offset}, greatest(${upload_length} - 1, 0))
    else ${upload_offset} end`
}

const uploadColumns = {
  task_id: 'text',
  file_name: 'text',
  content_type: 'text?',
  sha256: 'text?',
  upload_metadata: 'text',
  upload_length: 'int8',
  upload_offset: 'int8',
  stored: 'int8',
  storage_key: 'text',
  attachment_id: 'text?',
  task_version: 'int?',
  expires_at: 'text',
} as const

const selectedColumns = (row: SQL): SQL => {
  const columns = columnsOf<'uploads'>(row)
  return sql`
    ${columns.task_id}::text, ${columns.file_name}, ${columns.content_type}, ${columns.sha256},
    ${columns.upload_metadata}, ${columns.upload_length}, ${resumeOffset(row)} as upload_offset,
    ${columns.upload_offset} as stored, ${columns.storage_key}, ${columns.attachment_id}::text, ${columns.task_version},
    ${instantText(columns.expires_at)} as expires_at`
}

/** A condition on the row `upload`. */
const isOwn = (p: CallerPlaceholders & Placeholders<{ id: 'uuid' }>): SQL =>
  sql`${columnsOf<'uploads'>(upload).id} = ${p.id} and ${allowsOwn('upload.continue', p, upload)}`

const insert = query(
  'uploads.insert',
  {
    id: 'uuid',
    task_id: 'uuid',
    file_name: 'text',
    content_type: 'text?',
    sha256: 'text?',
    upload_metadata: 'text',
    storage_key: 'text',
    ...quotaParameters,
  },
  { ...insertionColumns, expires_at: 'text?' },
  (p) => {
    const users = columnsOf<'users'>(sql`users`)
    const { columns, values } = insertion<'uploads'>({
      id: p.id,
      task_id: p.task_id,
      user_id: p.caller,
      file_name: p.file_name,
      content_type: p.content_type,
      sha256: p.sha256,
      upload_metadata: p.upload_metadata,
      upload_length: p.size,
      storage_key: p.storage_key,
      expires_at: newExpiry,
    })
    return sql`
      with uploader as (
        select ${users.attachment_bytes} + coalesce((
          select sum(${uploads.upload_length}) from uploads
          where ${uploads.user_id} = ${users.id} and ${uploads.attachment_id} is null
        ), 0)::bigint as used, ${uploaderQuota(p, sql`users`)} as quota
        from users where ${users.id} = ${p.caller}
      ), checked as (
        select ${insertionOutcome(p, { row: task, used: sql`used`, quota: sql`quota` })} as outcome, used, quota
        from tasks task cross join uploader
        where ${tasks.id} = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)}
      ), added as (
        insert into uploads (${columns}) select ${values} from checked where outcome = 'done'
        returning ${uploads.expires_at}
      )
      select outcome, used, coalesce(quota, 0) as quota, ${instantText(sql`expires_at`)} as expires_at from checked left join added on true`
  },
)

/**
 * Creates an upload, if the caller may attach a file to the task. The full sizes of the caller's unfinished uploads count against the
 * quota, so that they cannot fill the storage with files that will be refused. Two concurrent creations may both pass;
 * `insertAttachment` decides.
 */
export const insertUpload = async (
  ctx: OpContext,
  file: NewUpload,
): Promise<Outcome<{ readonly expires_at: string }>> => {
  const [row] = await insert(ctx, {
    id: file.id,
    task_id: file.taskId,
    file_name: file.fileName,
    content_type: file.contentType,
    sha256: file.sha256,
    upload_metadata: file.metadata,
    storage_key: file.storageKey,
    size: file.size,
    quota: file.quota,
  })
  const checked = readInsertionOutcome(row, file)
  if (checked.outcome !== 'done') return checked
  const { expires_at } = checked.value
  return expires_at === null ? missing : done({ expires_at })
}

const select = query('uploads.select', { id: 'uuid' }, { outcome: 'text', ...uploadColumns }, (p) => {
  const { expires_at } = columnsOf<'uploads'>(upload)
  return sql`
      select case when ${expires_at} <= now() then 'upload_gone' else 'done' end as outcome, ${selectedColumns(upload)}
      from uploads upload where ${isOwn(p)}`
})

/** The caller's own upload. */
export const selectUpload = async (ctx: OpContext, id: string): Promise<Outcome<Upload>> => {
  const [row] = await select(ctx, { id })
  return readOutcome(row)
}

const lease = query(
  'uploads.lease',
  { id: 'uuid', upload_offset: 'int8', lease_id: 'uuid' },
  { outcome: 'text', ...uploadColumns },
  (p) => {
    const target = sql.raw('target')
    const { id, expires_at, leased_until } = columnsOf<'uploads'>(target)
    return sql`
      with target as (
        select upload.*, ${tasks.project_id}, ${allowsAttachment('attachment.add', p, attachment, task)} as may_add
        from uploads upload join tasks task on ${tasks.id} = ${columnsOf<'uploads'>(upload).task_id}
        where ${isOwn(p)} and ${allowsAttachment('attachment.see', p, attachment, task)}
        for update of upload
      ), checked as (
        select ${id}, ${outcomeOfTaskWrite(p, target, {
          allowed: sql`may_add`,
          etag: null,
          exists: sql`true`,
          ifMatch: p.if_match,
          refusals: sql`
            when ${expires_at} <= now() then 'upload_gone'
            when ${leased_until} > now() and ${leased_until} <= ${newLeaseEnd} + ${minStepBack} then 'upload_locked'
            when ${resumeOffset(target)} <> ${p.upload_offset} then 'upload_conflict'`,
        })} as outcome
        from target
      ), leased as (
        update uploads set ${assignments<'uploads'>({ lease_id: p.lease_id, leased_until: newLeaseEnd })}
        from checked
        where ${uploads.id} = checked.id and checked.outcome = 'done' and ${uploads.attachment_id} is null
      )
      select outcome, ${selectedColumns(target)} from target join checked on checked.id = ${id}`
  },
)

/**
 * Leases the caller's own upload to a request that writes at this offset. A complete upload is returned without a lease.
 */
export const leaseUpload = async (
  ctx: OpContext,
  { id, leaseId, offset }: UploadLease & { readonly offset: number },
): Promise<Outcome<Upload>> => {
  const [row] = await lease(ctx, { id, upload_offset: offset, lease_id: leaseId })
  return readOutcome(row)
}

const leaseParameters = { id: 'uuid', lease_id: 'uuid' } as const

const isLeased = (p: Placeholders<typeof leaseParameters>): SQL =>
  sql`${uploads.id} = ${p.id} and ${uploads.lease_id} = ${p.lease_id}`

/** The row of an upload that is still leased; `upload_locked` if another request has taken the lease. */
const leased = <T>(row: T | undefined): Outcome<T> =>
  row === undefined ? { outcome: 'upload_locked' } : done(row)

const renew = query(
  'uploads.renew_lease',
  leaseParameters,
  { id: 'text' },
  (p) => sql`
    update uploads set ${assignments<'uploads'>({ leased_until: newLeaseEnd })} where ${isLeased(p)}
    returning ${uploads.id}::text`,
)

/** Renews a lease. `upload_locked` if another request has taken it or the upload is gone. */
export const renewLease = async (ctx: OpContext, { id, leaseId }: UploadLease): Promise<Outcome<unknown>> => {
  const [row] = await renew(ctx, { id, lease_id: leaseId })
  return leased(row)
}

const record = query(
  'uploads.record_offset',
  { upload_offset: 'int8', ...leaseParameters },
  { expires_at: 'text' },
  (p) => {
    const recorded = assignments<'uploads'>({
      upload_offset: p.upload_offset,
      leased_until: newLeaseEnd,
      expires_at: newExpiry,
    })
    return sql`
      update uploads set ${recorded} where ${isLeased(p)} returning ${instantText(uploads.expires_at)} as expires_at`
  },
)

/** Records the number of durable bytes, and renews the lease. `upload_locked` as with `renewLease`. */
export const recordOffset = async (
  ctx: OpContext,
  { id, leaseId, offset }: UploadLease & { readonly offset: number },
): Promise<Outcome<{ readonly expires_at: string }>> => {
  const [row] = await record(ctx, { id, lease_id: leaseId, upload_offset: offset })
  return leased(row)
}

const release = query(
  'uploads.end_lease',
  leaseParameters,
  {},
  (p) => sql`
    update uploads set ${assignments<'uploads'>({ lease_id: sql`null`, leased_until: sql`null` })}
    where ${isLeased(p)}`,
)

/** Ends a lease, if it is still held. */
export const endLease = async (ctx: OpContext, { id, leaseId }: UploadLease): Promise<void> => {
  await release(ctx, { id, lease_id: leaseId })
}

const removeLeased = query(
  'uploads.delete_leased',
  leaseParameters,
  {},
  (p) => sql`delete from uploads where ${isLeased(p)}`,
)

/** Deletes a leased upload. A trigger queues its bytes for removal. */
export const deleteLeasedUpload = async (ctx: OpContext, { id, leaseId }: UploadLease): Promise<void> => {
  await removeLeased(ctx, { id, lease_id: leaseId })
}

const remove = query(
  'uploads.delete',
  { id: 'uuid' },
  { id: 'text' },
  (p) => sql`delete from uploads upload where ${isOwn(p)} returning ${columnsOf<'uploads'>(upload).id}::text`,
)

/** Deletes the caller's own upload. A trigger queues its bytes for removal, unless they belong to an attachment. */
export const deleteUpload = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return found(row)
}

/** Deletes uploads that have waited too long for their next chunk. */
export const removeExpiredUploads = deletionInBatches('uploads.delete_expired', {
  parameters: {},
  table: 'uploads',
  condition: () => sql`${uploads.expires_at} <= ${retentionTime}`,
})
