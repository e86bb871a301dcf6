import { sql } from 'drizzle-orm'
import { done, found, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { Database } from './client.ts'
import { newId } from './ids.ts'
import { attachmentJson, instantText } from './json.ts'
import {
  createdAt,
  filterBy,
  conditionsOf,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './list.ts'
import { checkedOutcome, ifMatchParameter, readOutcome } from './outcome.ts'
import { allowsAttachment, callerOf, callerParameters } from './permissions.ts'
import { onlyRow, statement } from './statement.ts'

/** A file that the storage holds and that is about to belong to a task. */
export interface NewAttachment {
  readonly taskId: string
  readonly fileName: string
  readonly contentType: string
  readonly size: number
  readonly sha256: string
  readonly storageKey: string
}

/** What a download needs to know; `created_at` is RFC 3339. */
export interface AttachmentFile {
  readonly file_name: string
  readonly content_type: string
  readonly size: number
  readonly sha256: string
  readonly storage_key: string
  readonly created_at: string
}

const attachment = sql.raw('attachment')
const task = sql.raw('task')

const mayAttach = statement(
  { task_id: 'uuid', ...callerParameters },
  { outcome: 'text' },
  (p) => sql`
    select case when ${allowsAttachment('attachment.add', p, attachment, task)} then 'done' else 'forbidden' end as outcome
    from tasks task where id = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/** Whether the principal may attach to the task, to be asked before a file is taken in. */
export const checkMayAttach = async (
  db: Database,
  principal: Principal,
  taskId: string,
): Promise<Outcome<unknown>> =>
  readOutcome(onlyRow(await mayAttach(db, { task_id: taskId, ...callerOf(principal) })))

const insert = statement(
  {
    id: 'uuid',
    task_id: 'uuid',
    file_name: 'text',
    content_type: 'text',
    size: 'int8',
    sha256: 'text',
    storage_key: 'text',
    ...callerParameters,
  },
  { outcome: 'text', json: 'text?' },
  (p) => sql`
    with target as (
      select * from tasks task
      where id = ${p.task_id} and ${allowsAttachment('attachment.see', p, attachment, task)} for no key update
    ), checked as (
      select case when ${allowsAttachment('attachment.add', p, attachment, sql`target`)} then 'done' else 'forbidden' end
        as outcome
      from target
    ), added as (
      insert into attachments (id, task_id, file_name, content_type, size, sha256, storage_key, uploaded_by)
      select ${p.id}, ${p.task_id}, ${p.file_name}, ${p.content_type}, ${p.size}, ${p.sha256}, ${p.storage_key}, ${p.caller}
      from checked where outcome = 'done'
      returning *
    )
    select outcome, ${attachmentJson(sql`added`)} as json from checked left join added on true`,
)

/** Makes a stored file an attachment, if the principal still may. */
export const insertAttachment = async (
  db: Database,
  principal: Principal,
  { taskId, fileName, contentType, size, sha256, storageKey }: NewAttachment,
): Promise<Outcome<{ readonly id: string; readonly json: string }>> => {
  const id = newId()
  const file = { file_name: fileName, content_type: contentType, size, sha256, storage_key: storageKey }
  const rows = await insert(db, { id, task_id: taskId, ...file, ...callerOf(principal) })
  const result = readOutcome(onlyRow(rows))
  if (result.outcome !== 'done') return result
  return result.value.json === null ? missing : done({ id, json: result.value.json })
}

const selectVisible = statement(
  { id: 'uuid', ...callerParameters },
  {
    file_name: 'text',
    content_type: 'text',
    size: 'int8',
    sha256: 'text',
    storage_key: 'text',
    created_at: 'text',
  },
  (p) => sql`
    select file_name, content_type, size, sha256, storage_key,
      ${instantText(sql`attachment.created_at`)} as created_at
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

const filters = { task_id: filterBy('uuid', (value) => sql`item.task_id = ${value}`) }

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
      conditions: conditionsOf(filters, { task_id: taskId }),
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
