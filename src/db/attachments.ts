import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsAttachment } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { creation, readCreation } from './engine/creation.ts'
import { instantText } from './engine/instant-text.ts'
import { outcomeOfDeletion, readOutcome } from './engine/outcome.ts'
import { parameter, type Placeholders, type Row } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { effectiveQuota } from './quotas.ts'
import { attachmentJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { isTaskVisible } from './task-pages.ts'
import {
  type AddedToTask,
  addedToTask,
  outcomeOfTaskWrite,
  readAddition,
  versionAfterTrigger,
} from './task-writes.ts'

/** The bytes that a file claims of a storage quota. */
export interface QuotaClaim {
  /** Size in bytes, or a lower bound if it is not known yet. */
  readonly size: number
  /** Maximum total size in bytes of the attachments of a user without their own quota; null for no limit. */
  readonly quota: number | null
}

/** Claims nothing, so that the quota is not checked. */
export const noQuotaClaim: QuotaClaim = { size: 0, quota: null }

/** A stored file that is to become an attachment of a task. */
export interface NewAttachment extends QuotaClaim {
  readonly taskId: string
  readonly fileName: string
  /** The media type from the client. */
  readonly contentType: string
  /** The media type detected from the first bytes; null if unknown. */
  readonly detectedContentType: string | null
  readonly sha256: string
  readonly storageKey: string
  /** The resumable upload that becomes this attachment; null if the file came in one request. */
  readonly upload: UploadLease | null
}

/** The exclusive right of one request to write to an upload. */
export interface UploadLease {
  readonly id: string
  readonly leaseId: string
}

/** A file to download; `created_at` is RFC 3339. */
export interface AttachmentFile {
  readonly file_name: string
  readonly content_type: string
  readonly detected_content_type: string | null
  readonly size: number
  readonly sha256: string
  readonly storage_key: string
  readonly created_at: string
}

const attachment = sql.raw('attachment')
const task = sql.raw('task')
const columns = columnsOf<'attachments'>(attachment)
const tasks = columnsOf<'tasks'>(task)

export const quotaParameters = { size: 'int8', quota: 'int8?' } as const

/** What the checks on a new attachment read. */
interface InsertionCheck {
  /** Its task. */
  readonly row: SQL
  /** The bytes that count against the quota. */
  readonly used: SQL
  /** The quota that applies to the uploader; null for any number of bytes. */
  readonly quota: SQL
}

/** The outcome of the checks on a new attachment. An empty file fits any quota. */
export const insertionOutcome = (
  p: Placeholders<typeof quotaParameters> & ContextPlaceholders,
  { row, used, quota }: InsertionCheck,
): SQL =>
  outcomeOfTaskWrite(p, row, {
    allowed: allowsAttachment('attachment.add', p, attachment, row),
    etag: null,
    ifMatch: p.if_match,
    refusals: sql`when ${p.size} > 0 and ${used} + ${p.size} > ${quota} then 'quota_exceeded'`,
  })

/** The columns that `readInsertionOutcome` reads; `quota` is 0 for any number of bytes. */
export const insertionColumns = { outcome: 'text', used: 'int8', quota: 'int8' } as const

/** Reads the outcome of `insertionOutcome`. */
export const readInsertionOutcome = <R extends Row<typeof insertionColumns>>(
  row: R | null | undefined,
  { size }: QuotaClaim,
): Outcome<R> =>
  row?.outcome === 'quota_exceeded'
    ? { outcome: 'quota_exceeded', resource: 'attachment_bytes', quota: row.quota, used: row.used, size }
    : readOutcome(row)

/** The quota of the row `uploader` of users; null for any number of bytes. */
export const uploaderQuota = (p: Placeholders<typeof quotaParameters>, row: SQL): SQL =>
  effectiveQuota(columnsOf<'users'>(row).attachment_quota_bytes, p.quota)

const uploader = sql.raw('uploader')

const checkInsertion = query(
  'attachments.check_insertion',
  { task_id: 'uuid', ...quotaParameters },
  insertionColumns,
  (p) => {
    const { id, attachment_bytes: used } = columnsOf<'users'>(uploader)
    const quota = uploaderQuota(p, uploader)
    return sql`
      select ${insertionOutcome(p, { row: task, used, quota })} as outcome, ${used} as used, coalesce(${quota}, 0) as quota
      from tasks task join users uploader on ${id} = ${p.caller}
      where ${tasks.id} = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)}`
  },
)

/** Checks whether the caller may attach a file to the task, before it is received. */
export const checkMayAttach = async (
  ctx: OpContext,
  { taskId, size, quota }: QuotaClaim & { readonly taskId: string },
): Promise<Outcome<unknown>> => {
  const [row] = await checkInsertion(ctx, { task_id: taskId, size, quota })
  return readInsertionOutcome(row, { size, quota })
}

// The task is locked before the uploader, in the order of the task's deletion. The lock of the uploader makes concurrent
// insertions wait until a trigger has counted the bytes of the first.
const insert = creation(
  'attachments.insert',
  {
    task_id: 'uuid',
    file_name: 'text',
    content_type: 'text',
    detected_content_type: 'text?',
    sha256: 'text',
    storage_key: 'text',
    upload_id: 'uuid?',
    lease_id: 'uuid?',
    ...quotaParameters,
  },
  { ...insertionColumns, json: 'text?' },
  (p) => {
    const users = columnsOf<'users'>(sql`users`)
    const uploads = columnsOf<'uploads'>(sql`uploads`)
    const added = insertion<'attachments'>({
      id: p.id,
      task_id: p.task_id,
      file_name: p.file_name,
      content_type: p.content_type,
      detected_content_type: p.detected_content_type,
      size: p.size,
      sha256: p.sha256,
      storage_key: p.storage_key,
      uploaded_by: p.caller,
    })
    const finished = assignments<'uploads'>({
      attachment_id: p.id,
      task_version: sql`checked.task_version`,
      upload_offset: uploads.upload_length,
      lease_id: sql`null`,
      leased_until: sql`null`,
    })
    return {
      parts: sql`
        target as (
          select * from tasks task
          where ${tasks.id} = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)}
          for no key update
        ), uploader as (
          select ${users.attachment_bytes} as used, ${uploaderQuota(p, sql`users`)} as quota from users
          where ${users.id} = ${p.caller} and exists (select from target) for no key update
        ), checked as (
          select ${insertionOutcome(p, { row: sql`target`, used: sql`used`, quota: sql`quota` })} as outcome,
            coalesce(used, 0) as used, coalesce(quota, 0) as quota, ${versionAfterTrigger(sql`target`)} as task_version
          from target left join uploader on true
        ), finished as (
          update uploads set ${finished} from checked
          where ${uploads.id} = ${p.upload_id} and ${uploads.lease_id} = ${p.lease_id} and checked.outcome = 'done'
          returning ${uploads.id}
        ), added as (
          insert into attachments (${added.columns}) select ${added.values} from checked
          where outcome = 'done' and (${p.upload_id} is null or exists (select from finished))
          returning *
        ), created as (
          select id, ${addedToTask(attachmentJson(sql`added`))} as json from added, checked
        )`,
      select: sql`select outcome, used, quota, json from checked left join created on true`,
    }
  },
)

/**
 * Makes a stored file an attachment, if the caller still may. If the result is `replayed`, the file was not used. Missing if its
 * upload is gone or another request has taken the lease.
 */
export const insertAttachment = async (
  ctx: OpContext,
  file: NewAttachment,
): Promise<Outcome<AddedToTask>> => {
  const result = await insert(ctx, () => ({
    task_id: file.taskId,
    file_name: file.fileName,
    content_type: file.contentType,
    detected_content_type: file.detectedContentType,
    size: file.size,
    quota: file.quota,
    sha256: file.sha256,
    storage_key: file.storageKey,
    upload_id: file.upload?.id ?? null,
    lease_id: file.upload?.leaseId ?? null,
  }))
  return readAddition(readCreation(result, (row) => readInsertionOutcome(row, file)))
}

const selectFile = query(
  'attachments.select_file',
  { id: 'uuid' },
  {
    file_name: 'text',
    content_type: 'text',
    detected_content_type: 'text?',
    size: 'int8',
    sha256: 'text',
    storage_key: 'text',
    created_at: 'text',
  },
  (p) => sql`
    select ${columns.file_name}, ${columns.content_type}, ${columns.detected_content_type}, ${columns.size},
      ${columns.sha256}, ${columns.storage_key}, ${instantText(columns.created_at)} as created_at
    from attachments attachment join tasks task on ${tasks.id} = ${columns.task_id}
    where ${columns.id} = ${p.id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/** The file of an attachment, if the caller sees its task. */
export const selectAttachmentFile = async (ctx: OpContext, id: string): Promise<Outcome<AttachmentFile>> => {
  const [row] = await selectFile(ctx, { id })
  return found(row)
}

const remove = query(
  'attachments.delete',
  { id: 'uuid' },
  { outcome: 'text', task_version: 'int' },
  (p) => sql`
    with target as (
      select ${columns.id}, ${versionAfterTrigger(task)} as task_version, ${outcomeOfTaskWrite(p, task, {
        allowed: allowsAttachment('attachment.delete', p, attachment, task),
        etag: columns.sha256,
        ifMatch: p.if_match,
      })} as outcome
      from attachments attachment join tasks task on ${tasks.id} = ${columns.task_id}
      where ${columns.id} = ${p.id} and ${allowsAttachment('attachment.see', p, attachment, task)}
      for no key update of task
    ), removed as (
      delete from attachments using target
      where attachments.id = target.id and target.outcome = 'done' returning attachments.id
    )
    select ${outcomeOfDeletion(sql`removed.id is null`)} as outcome, task_version
    from target left join removed on true`,
)

/** Deletes an attachment, and returns the new version of its task. A trigger queues the file for removal. */
export const deleteAttachment = async (
  ctx: OpContext,
  id: string,
): Promise<Outcome<{ readonly task_version: number }>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
}

const item = sql.raw('item')

/** A page of a task's attachments, if the caller sees the task. */
export const selectTaskAttachments = async (
  ctx: OpContext<Principal>,
  { taskId, page }: { readonly taskId: string; readonly page: PageRequest },
): Promise<Outcome<Page>> => {
  const listed = await selectPage(
    ctx.db,
    {
      name: 'attachments',
      from: sql`attachments item join tasks task on task.id = item.task_id`,
      branches: (caller) => {
        const ofTask = sql`${columnsOf<'attachments'>(item).task_id} = ${parameter('task_id', 'uuid')}`
        return onlyBranch(sql`${ofTask} and ${allowsAttachment('attachment.see', caller, item, task)}`)
      },
      values: { task_id: taskId },
      filters: [],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => attachmentJson(row),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(listed, () => isTaskVisible(ctx, taskId))
}
