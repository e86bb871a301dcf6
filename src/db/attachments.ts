import { found, type Outcome } from '../domain/outcome.ts'
import type { Authorized, Principal, Relation } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsAttachment } from './access/permissions.ts'
import { builtStatement } from './engine/built-statement.ts'
import type { OpContext, TransactionContext } from './engine/context.ts'
import { instantText } from './engine/instant-text.ts'
import { parameter } from './engine/parameters.ts'
import { query, statement } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  pageIfVisible,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { attachmentJson } from './read-models.ts'
import { columnsOf } from './schema/columns.ts'
import { eq, sql } from './schema/drizzle.ts'
import { attachments, users } from './schema/tables.ts'
import { lockTask, type TaskFacts } from './task-facts.ts'
import { isTaskVisible } from './task-pages.ts'

/** A stored file that is to become an attachment. */
export interface NewAttachment {
  readonly file_name: string
  /** The media type from the client. */
  readonly content_type: string
  /** The media type detected from the first bytes; null if unknown. */
  readonly detected_content_type: string | null
  readonly size: number
  readonly sha256: string
  readonly storage_key: string
}

/** A task to which the caller was found to be allowed to attach files. */
export type AttachableTask = Authorized<'attachment.add', TaskFacts>

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

const insert = builtStatement(
  'attachments.insert',
  {
    id: 'uuid',
    task_id: 'uuid',
    file_name: 'text',
    content_type: 'text',
    detected_content_type: 'text?',
    size: 'int8',
    sha256: 'text',
    storage_key: 'text',
    uploaded_by: 'uuid',
  },
  (db, p) =>
    db.insert(attachments).values({
      id: p.id,
      task_id: p.task_id,
      file_name: p.file_name,
      content_type: p.content_type,
      detected_content_type: p.detected_content_type,
      size: p.size,
      sha256: p.sha256,
      storage_key: p.storage_key,
      uploaded_by: p.uploaded_by,
    }),
)

/** Inserts an attachment by the caller. */
export const insertAttachment = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  task: AttachableTask,
  file: NewAttachment,
): Promise<void> => {
  await insert(db, { id, task_id: task.id, uploaded_by: principal.userId, ...file })
}

const reread = query(
  'attachments.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${attachmentJson(attachment)} as json from attachments attachment where ${columns.id} = ${p.id}`,
)

/** An attachment that the transaction has written. */
export const viewAttachment = async (
  tx: TransactionContext,
  id: string,
): Promise<{ readonly json: string }> => {
  const [row] = await reread(tx, { id })
  if (row === undefined) throw new Error('The written attachment is gone')
  return row
}

/** What the deletion of an attachment depends on. */
export interface AttachmentFacts {
  readonly id: string
  readonly task_id: string
  readonly file_name: string
  readonly content_type: string
  readonly size: number
  readonly sha256: string
  /** When the project of its task was archived. */
  readonly archived_at: string | null
  /** What the caller is to it and to its task. */
  readonly relations: readonly Relation[]
}

const selectTaskId = builtStatement('attachments.select_task_id', { id: 'uuid' }, (db, p) =>
  db.select({ task_id: attachments.task_id }).from(attachments).where(eq(attachments.id, p.id)),
)

const lockUploader = builtStatement('attachments.lock_uploader', { id: 'uuid' }, (db, p) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(eq(users.id, sql`(select uploaded_by from attachments where attachments.id = ${p.id})`))
    .for('no key update'),
)

const lockAllUploaders = statement(
  'attachments.lock_uploaders',
  { task_id: 'uuid' },
  {},
  (p) => sql`
    with recursive tree as (
      select id, deleted_at from tasks where id = ${p.task_id}
      union select subtask.id, subtask.deleted_at from tree
        join tasks subtask on subtask.parent_id = tree.id and subtask.deleted_at = tree.deleted_at
    )
    select id::text from users
    where id in (select uploaded_by from attachments join tree on tree.id = task_id) order by id for no key update`,
)

/** Locks the users who attached files to a task in the trash and to what was deleted with it, before the tasks are locked. */
export const lockUploaders = async ({ db }: TransactionContext, taskId: string): Promise<void> => {
  await lockAllUploaders(db, { task_id: taskId })
}

const selectFacts = builtStatement('attachments.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({
      file_name: attachments.file_name,
      content_type: attachments.content_type,
      size: attachments.size,
      sha256: attachments.sha256,
      uploaded_by: attachments.uploaded_by,
    })
    .from(attachments)
    .where(eq(attachments.id, p.id)),
)

/**
 * Locks the uploader of an attachment and then its task, and reads both under the locks, unless the task is in the trash. Whoever deletes an attachment holds
 * the lock of its task.
 */
export const lockAttachment = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<AttachmentFacts | null> => {
  // An attachment stays with its task.
  const [place] = await selectTaskId(tx.db, { id })
  if (place === undefined) return null
  const [, task, [row]] = await Promise.all([
    lockUploader(tx.db, { id }),
    lockTask(tx, place.task_id),
    selectFacts(tx.db, { id }),
  ])
  if (task === null || row === undefined) return null
  const { uploaded_by, ...file } = row
  const relations: Relation[] = [...task.relations]
  if (uploaded_by === tx.principal.userId) relations.push('uploader')
  if (task.owner_id === tx.principal.userId) relations.push('task_owner')
  return { ...file, ...place, id, archived_at: task.archived_at, relations }
}

const remove = builtStatement('attachments.delete', { id: 'uuid' }, (db, p) =>
  db.delete(attachments).where(eq(attachments.id, p.id)),
)

/** Deletes the row of an attachment. Triggers queue its files for removal, and subtract it from what its uploader uses. */
export const removeAttachment = async (
  { db }: TransactionContext,
  { id }: Authorized<'attachment.delete', AttachmentFacts>,
): Promise<void> => {
  await remove(db, { id })
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
