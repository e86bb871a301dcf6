import { done, found, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import {
  type Created,
  createOnce,
  type Idempotency,
  idempotencyParameters,
  idempotencyValues,
  keepAnswer,
} from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { instantText } from './engine/instant-text.ts'
import { attachmentJson } from './read-models.ts'
import {
  createdAt,
  filterBy,
  conditionsOf,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { checkedOutcome, ifMatchParameter, readOutcome } from './engine/outcome.ts'
import { allowsAttachment, callerOf, callerParameters, ownerReadByAdmin } from './access/permissions.ts'
import { QuotaExceeded } from './quotas.ts'
import { onlyRow, type Placeholders, statement } from './engine/statement.ts'

/** A file that the storage holds and that is about to belong to a task. */
export interface NewAttachment {
  readonly taskId: string
  readonly fileName: string
  /** As the client claimed it. */
  readonly contentType: string
  /** As the first bytes look; null when they look like nothing that is known. */
  readonly detectedContentType: string | null
  readonly size: number
  readonly sha256: string
  readonly storageKey: string
  /** The upload that it arrived by in pieces, and that is complete with it; null when it came at once. */
  readonly upload: UploadLease | null
}

/** The right of one request to write to an upload, until another request has it. */
export interface UploadLease {
  readonly id: string
  readonly leaseId: string
}

/** What a download needs to know; `created_at` is RFC 3339. */
export interface AttachmentFile {
  readonly file_name: string
  readonly content_type: string
  readonly detected_content_type: string | null
  readonly size: number
  readonly sha256: string
  readonly storage_key: string
  readonly created_at: string
  /** The owner of its task, if the caller sees that only as an administrator. */
  readonly owner_read_by_admin: string | null
}

const attachment = sql.raw('attachment')
const task = sql.raw('task')

/** What a file needs, as far as that is known, and what all files of its uploader may take; null for any number. */
export interface Room {
  readonly size: number
  readonly quota: number | null
}

export const roomParameters = { size: 'int8', quota: 'int8?' } as const

/** The outcome of the checks on an attachment to be: `row` is its task, `used` what the uploader's files take. */
export const addingOutcome = (
  p: Placeholders<typeof roomParameters & typeof callerParameters>,
  row: SQL,
  used: SQL,
): SQL => sql`case
  when not (${allowsAttachment('attachment.add', p, attachment, row)}) then 'forbidden'
  when ${used} + ${p.size} > ${p.quota} then 'over_quota'
  else 'done' end`

/** @throws QuotaExceeded */
export const expectRoom = <R extends { readonly outcome: string; readonly used: number }>(
  row: R | null,
  { size, quota }: Room,
): R | null => {
  if (row?.outcome === 'over_quota') {
    throw new QuotaExceeded('attachment_bytes', { quota: quota ?? 0, used: row.used, size })
  }
  return row
}

const mayAttach = statement(
  { task_id: 'uuid', ...roomParameters, ...callerParameters },
  { outcome: 'text', used: 'int8' },
  (p) => sql`
    select ${addingOutcome(p, task, sql`uploader.attachment_bytes`)} as outcome, uploader.attachment_bytes as used
    from tasks task join users uploader on uploader.id = ${p.caller}
    where task.id = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/**
 * Whether the principal may attach a file to the task, to be asked before it is taken in.
 *
 * @throws QuotaExceeded when there is no room for it
 */
export const checkMayAttach = async (
  db: Database,
  principal: Principal,
  taskId: string,
  { size, quota }: Room = { size: 0, quota: null },
): Promise<Outcome<unknown>> => {
  const row = onlyRow(await mayAttach(db, { task_id: taskId, size, quota, ...callerOf(principal) }))
  return readOutcome(expectRoom(row, { size, quota }))
}

// The task is locked before the uploader, as its deletion does it. The uploader's lock is what makes one upload wait for
// another's bytes to be counted; a trigger counts them.
const insert = statement(
  {
    id: 'uuid',
    task_id: 'uuid',
    file_name: 'text',
    content_type: 'text',
    detected_content_type: 'text?',
    sha256: 'text',
    storage_key: 'text',
    upload_id: 'uuid?',
    lease_id: 'uuid?',
    ...roomParameters,
    ...callerParameters,
    ...idempotencyParameters,
  },
  { outcome: 'text', used: 'int8', json: 'text?' },
  (p) => sql`
    with target as (
      select * from tasks task
      where id = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)} for no key update
    ), uploader as (
      select attachment_bytes from users where id = ${p.caller} and exists (select from target) for no key update
    ), checked as (
      select ${addingOutcome(p, sql`target`, sql`attachment_bytes`)} as outcome, coalesce(attachment_bytes, 0) as used
      from target left join uploader on true
    ), finished as (
      update uploads
      set attachment_id = ${p.id}, upload_offset = upload_length, lease_id = null, leased_until = null
      from checked
      where uploads.id = ${p.upload_id} and uploads.lease_id = ${p.lease_id} and checked.outcome = 'done'
      returning uploads.id
    ), added as (
      insert into attachments (
        id, task_id, file_name, content_type, detected_content_type, size, sha256, storage_key, uploaded_by)
      select
        ${p.id}, ${p.task_id}, ${p.file_name}, ${p.content_type}, ${p.detected_content_type}, ${p.size}, ${p.sha256},
        ${p.storage_key}, ${p.caller}
      from checked where outcome = 'done' and (${p.upload_id} is null or exists (select from finished))
      returning *
    ), created as (
      select id, ${attachmentJson(sql`added`)} as json from added
    ), kept as (
      ${keepAnswer(p, sql`created`)}
    )
    select outcome, used, json from checked left join created on true`,
)

/**
 * Makes a stored file an attachment, if the principal still may and `quota` bytes are enough for all files that they
 * attached; null for any number. A repeat of an earlier request gets its answer, and does nothing with the file. With an
 * upload it is missing as well when the upload is gone, or the lease is another request's.
 *
 * @throws QuotaExceeded
 * @throws IdempotencyKeyReused when the key was used with another file
 */
export const insertAttachment = (
  db: Database,
  principal: Principal,
  file: NewAttachment,
  quota: number | null,
  idempotency: Idempotency | null,
): Promise<Outcome<Created>> =>
  createOnce(db, idempotency, () => create(db, principal, file, quota, idempotency), done)

const create = async (
  db: Database,
  principal: Principal,
  file: NewAttachment,
  quota: number | null,
  idempotency: Idempotency | null,
): Promise<Outcome<Created>> => {
  const id = newId()
  const rows = await insert(db, {
    id,
    task_id: file.taskId,
    file_name: file.fileName,
    content_type: file.contentType,
    detected_content_type: file.detectedContentType,
    size: file.size,
    sha256: file.sha256,
    storage_key: file.storageKey,
    upload_id: file.upload?.id ?? null,
    lease_id: file.upload?.leaseId ?? null,
    quota,
    ...callerOf(principal),
    ...idempotencyValues(idempotency),
  })
  const result = readOutcome(expectRoom(onlyRow(rows), { size: file.size, quota }))
  if (result.outcome !== 'done') return result
  return result.value.json === null ? missing : done({ id, json: result.value.json, replayed: false })
}

const selectVisible = statement(
  { id: 'uuid', ...callerParameters },
  {
    file_name: 'text',
    content_type: 'text',
    detected_content_type: 'text?',
    size: 'int8',
    sha256: 'text',
    storage_key: 'text',
    created_at: 'text',
    owner_read_by_admin: 'text?',
  },
  (p) => sql`
    select file_name, content_type, detected_content_type, size, sha256, storage_key,
      ${instantText(sql`attachment.created_at`)} as created_at,
      ${ownerReadByAdmin('task.see', p, task)} as owner_read_by_admin
    from attachments attachment join tasks task on task.id = attachment.task_id
    where attachment.id = ${p.id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/** Where an attachment's file is and how it is described, if the principal sees its task. */
export const selectAttachment = async (
  db: Database,
  principal: Principal,
  id: string,
): Promise<Outcome<AttachmentFile>> => {
  return found(onlyRow(await selectVisible(db, { id, ...callerOf(principal) })))
}

const remove = statement(
  { id: 'uuid', ...callerParameters, ...ifMatchParameter },
  { outcome: 'text' },
  (p) => sql`
    with target as (
      select attachment.id, ${checkedOutcome(
        allowsAttachment('attachment.delete', p, attachment, task),
        sql`attachment.sha256`,
        p.if_match,
      )} as outcome
      from attachments attachment join tasks task on task.id = attachment.task_id
      where attachment.id = ${p.id} and ${allowsAttachment('attachment.see', p, attachment, task)}
    ), removed as (
      delete from attachments using target
      where attachments.id = target.id and target.outcome = 'done' returning attachments.id
    )
    select case when outcome = 'done' and removed.id is null then 'missing' else outcome end as outcome
    from target left join removed on true`,
)

/** Deletes an attachment; its file follows through the outbox. `ifMatch` holds SHA-256 digests, null for any. */
export const deleteAttachment = async (
  db: Database,
  principal: Principal,
  id: string,
  ifMatch: readonly string[] | null,
): Promise<Outcome<unknown>> =>
  readOutcome(onlyRow(await remove(db, { id, ...callerOf(principal), if_match: ifMatch })))

const fields = { task_id: filterBy('uuid', (value) => sql`item.task_id = ${value}`) }

/** A page of a task's attachments, if the principal sees the task. */
export const selectTaskAttachments = async (
  db: Database,
  principal: Principal,
  taskId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const listed = await selectPage(
    db,
    {
      name: 'attachments',
      from: sql`attachments item join tasks task on task.id = item.task_id`,
      seenBecause: (caller) => [allowsAttachment('attachment.see', caller, sql`item`, task)],
      conditions: conditionsOf(fields, { task_id: taskId }),
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => attachmentJson(row),
    },
    principal,
    page,
  )
  if (listed.items !== '[]') return done(listed)
  // A page with items proves that the task is seen; an empty one has to ask.
  const seen = await checkMayAttach(db, principal, taskId)
  return seen.outcome === 'missing' ? missing : done(listed)
}
