import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsAttachment } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { instantText } from '../statements/instant-text.ts'
import { parameter, type ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowDeletion } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPageOf } from '../lists/list.ts'
import { attachmentJson } from '../shared/read-models.ts'
import { aliasedTable, eq, sql } from '../schema/drizzle.ts'
import { attachments, tasks, users } from '../schema/tables.ts'
import { lockTask, type TaskFacts } from '../tasks/facts.ts'
import { isTaskVisible } from '../tasks/visibility.ts'

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
export interface AttachmentFile extends NewAttachment {
  readonly created_at: string
}

const attachment = aliasedTable(attachments, 'attachment')
const item = aliasedTable(attachments, 'item')
const task = aliasedTable(tasks, 'task')

const newParameters = {
  id: 'uuid',
  task_id: 'uuid',
  file_name: 'text',
  content_type: 'text',
  detected_content_type: 'text?',
  size: 'int8',
  sha256: 'text',
  storage_key: 'text',
  uploaded_by: 'uuid',
} as const satisfies ParametersOf<typeof attachments>

const insert = builtStatement('attachments.insert', newParameters, (db, p) =>
  db.insert(attachments).values(p),
)

/** Inserts an attachment by the caller. */
export const insertAttachment = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  task: AttachableTask,
  file: NewAttachment,
): Promise<void> => {
  await insert(db, { ...file, id, task_id: task.id, uploaded_by: principal.userId })
}

/** A file that an import has found, with its time, which is never later than now. */
export interface ImportedAttachment extends NewAttachment {
  readonly id: string
  readonly task_id: string
  readonly created_at: string | null
}

const insertImported = builtStatement(
  'attachments.insert_imported',
  { ...newParameters, created_at: 'instant?' },
  (db, { created_at, ...p }) =>
    db.insert(attachments).values({ ...p, created_at: sql`coalesce(least(${created_at}, now()), now())` }),
)

/** Attaches a file to a task that an import has made. */
export const insertImportedAttachment = async (
  { db, principal }: TransactionContext<Principal>,
  attachment: ImportedAttachment,
): Promise<void> => {
  await insertImported(db, { ...attachment, uploaded_by: principal.userId })
}

const reread = query(
  'attachments.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${attachmentJson(attachment)} as json from attachments attachment where ${attachment.id} = ${p.id}`,
)

/** An attachment that the transaction has written. */
export const viewAttachment = async (
  tx: TransactionContext,
  id: string,
): Promise<{ readonly json: string }> => expectRow(await reread(tx, { id }))

/** What the deletion of an attachment depends on. */
export interface AttachmentFacts extends Pick<
  NewAttachment,
  'file_name' | 'content_type' | 'size' | 'sha256'
> {
  readonly id: string
  readonly task_id: string
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
  const { task, facts } = await pipeline(tx.db, {
    uploader: () => lockUploader(tx.db, { id }),
    task: () => lockTask(tx, place.task_id),
    facts: () => selectFacts(tx.db, { id }),
  })
  const [row] = facts
  if (task === null || row === undefined) return null
  const { uploaded_by, ...file } = row
  const relations: Relation[] = [...task.relations]
  if (uploaded_by === tx.principal.userId) relations.push('uploader')
  if (task.owner_id === tx.principal.userId) relations.push('task_owner')
  return { ...file, ...place, id, archived_at: task.archived_at, relations }
}

const remove = rowDeletion('attachments.delete', attachments)

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
    select ${attachment.file_name}, ${attachment.content_type}, ${attachment.detected_content_type}, ${attachment.size},
      ${attachment.sha256}, ${attachment.storage_key}, ${instantText(attachment.created_at)} as created_at
    from attachments attachment join tasks task on ${task.id} = ${attachment.task_id}
    where ${attachment.id} = ${p.id} and ${allowsAttachment('attachment.see', p, attachment, task)}`,
)

/** The file of an attachment, if the caller sees its task. */
export const selectAttachmentFile = async (
  ctx: StatementContext,
  id: string,
): Promise<AttachmentFile | null> => firstRow(await selectFile(ctx, { id }))

/** A page of a task's attachments, if the caller sees the task. */
export const selectTaskAttachments = (
  ctx: StatementContext<Principal>,
  { taskId, page }: { readonly taskId: string; readonly page: PageRequest },
): Promise<Page | null> =>
  selectPageOf(
    ctx,
    {
      name: 'attachments',
      table: attachments,
      from: sql`attachments item join tasks task on ${task.id} = ${item.task_id}`,
      branches: (caller) => {
        const isOfTask = sql`${item.task_id} = ${parameter('task_id', 'uuid')}`
        return onlyBranch(sql`${isOfTask} and ${allowsAttachment('attachment.see', caller, item, task)}`)
      },
      values: { task_id: taskId },
      ...newest,
      json: attachmentJson,
    },
    page,
    () => isTaskVisible(ctx, taskId),
  )
