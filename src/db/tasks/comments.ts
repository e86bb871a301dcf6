import type { CommentExpansion } from '../../domain/shared/expansions.ts'
import { maxMentions, mentionedUsernames } from '../../domain/activity/mentions.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal, Relation } from '../../domain/shared/permissions.ts'
import { parseSort, type SortBy } from '../../domain/shared/sort.ts'
import { foldSearch } from '../../domain/shared/text.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsComment, isSeenBy } from '../access/permissions.ts'
import { bindValues, type Condition, contains } from '../statements/conditions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowDeletion, rowLock } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { createdAt, selectPageOf } from '../lists/list.ts'
import { commentJson } from '../shared/read-models.ts'
import { aliasedTable, eq, sql } from '../schema/drizzle.ts'
import { comments, tasks, users } from '../schema/tables.ts'
import { isTaskVisible } from './visibility.ts'
import { lockTask, type TaskFacts } from './facts.ts'

/** A comment as JSON text, and its version. */
export interface CommentRow {
  readonly json: string
  readonly version: number
}

const comment = aliasedTable(comments, 'comment')
const item = aliasedTable(comments, 'item')
const task = aliasedTable(tasks, 'task')
const person = aliasedTable(users, 'person')

const selectOne = query(
  'comments.select',
  { id: 'uuid' },
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${commentJson(comment, [], p)} as json, ${comment.version}
    from comments comment join tasks task on ${task.id} = ${comment.task_id}
    where ${comment.id} = ${p.id} and ${allowsComment('comment.see', p, comment, task)}`,
)

/** One comment, if the caller sees its task. */
export const selectComment = async (ctx: StatementContext, id: string): Promise<CommentRow | null> =>
  firstRow(await selectOne(ctx, { id }))

const selectMentioned = query(
  'comments.select_mentioned',
  { task_id: 'uuid', usernames: 'text[]' },
  { id: 'text' },
  (p) => sql`
    select ${person.id}::text from tasks task, users person
    where ${task.id} = ${p.task_id} and ${person.username} = any(${p.usernames}) and ${person.deleted_at} is null
      and ${isSeenBy(person, task)}
    order by ${person.id} limit ${sql.raw(String(maxMentions))}`,
)

/** The ids of the users whom a text mentions and who see the task. */
export const findMentioned = async (
  tx: TransactionContext,
  taskId: string,
  body: string,
): Promise<readonly string[]> => {
  const usernames = mentionedUsernames(body)
  if (usernames.length === 0) return []
  const rows = await selectMentioned(tx, { task_id: taskId, usernames })
  return rows.map(({ id }) => id)
}

const insert = builtStatement(
  'comments.insert',
  { id: 'uuid', task_id: 'uuid', author_id: 'uuid', body: 'text', mentions: 'uuid[]' },
  (db, p) =>
    db
      .insert(comments)
      .values({ id: p.id, task_id: p.task_id, author_id: p.author_id, body: p.body, mentions: p.mentions }),
)

/** The text of a comment, and the users whom it mentions. */
interface CommentText {
  readonly body: string
  readonly mentions: readonly string[]
}

/** Inserts a comment by the caller. */
export const insertComment = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  task: Authorized<'comment.add', TaskFacts>,
  text: CommentText,
): Promise<void> => {
  await insert(db, { ...text, id, task_id: task.id, author_id: principal.userId })
}

/** What a change of a comment depends on. */
export interface CommentFacts {
  readonly id: string
  readonly task_id: string
  readonly body: string
  readonly version: number
  /** When the project of its task was archived. */
  readonly archived_at: string | null
  /** What the caller is to it and to its task. */
  readonly relations: readonly Relation[]
}

const selectTaskId = builtStatement('comments.select_task_id', { id: 'uuid' }, (db, p) =>
  db.select({ task_id: comments.task_id }).from(comments).where(eq(comments.id, p.id)),
)

const lock = rowLock('comments.lock', comments, 'update')

const selectFacts = builtStatement('comments.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({ author_id: comments.author_id, body: comments.body, version: comments.version })
    .from(comments)
    .where(eq(comments.id, p.id)),
)

/** Locks a comment and, before it, its task, and reads both under the locks, unless the task is in the trash. */
export const lockComment = async (
  tx: TransactionContext<Principal>,
  id: string,
): Promise<CommentFacts | null> => {
  // A comment stays with its task.
  const [place] = await selectTaskId(tx.db, { id })
  if (place === undefined) return null
  const { task, facts } = await pipeline(tx.db, {
    task: () => lockTask(tx, place.task_id),
    lock: () => lock(tx.db, { id }),
    facts: () => selectFacts(tx.db, { id }),
  })
  const [row] = facts
  if (task === null || row === undefined) return null
  const { author_id, ...comment } = row
  const own: readonly Relation[] = author_id === tx.principal.userId ? ['author'] : []
  return { ...comment, ...place, id, archived_at: task.archived_at, relations: [...task.relations, ...own] }
}

const update = builtStatement('comments.update', { id: 'uuid', body: 'text', mentions: 'uuid[]' }, (db, p) =>
  db
    .update(comments)
    .set({
      body: p.body,
      mentions: p.mentions,
      version: sql`${comments.version} + 1`,
      edited_at: sql`greatest(clock_timestamp(), ${comments.created_at})`,
    })
    .where(eq(comments.id, p.id)),
)

/** Changes the text of a comment. */
export const changeText = async (
  { db }: TransactionContext,
  { id }: Authorized<'comment.change', CommentFacts>,
  text: CommentText,
): Promise<void> => {
  await update(db, { ...text, id })
}

const remove = rowDeletion('comments.delete', comments)

/** Deletes the row of a comment. */
export const removeComment = async (
  { db }: TransactionContext,
  { id }: Authorized<'comment.delete', CommentFacts>,
): Promise<void> => {
  await remove(db, { id })
}

/** A comment that the transaction has written. Its locks keep it visible. */
export const viewComment = async (tx: TransactionContext, id: string): Promise<CommentRow> =>
  expectRow(await selectOne(tx, { id }))

/** Filters and order of a list of comments. */
export interface CommentListQuery {
  /** A part of the text. */
  readonly q?: string
  readonly sort?: string
  readonly expand?: readonly CommentExpansion[]
}

/**
 * The cost of folding an octet, in units of `TextSearch.cost`, of which 40 million take about 50 ms. A microsecond folds 4 octets
 * of accented text, or 70 of ASCII. A column with the folded text would be faster, but double the size of the table.
 */
const foldingCost = 240

const bodyContains = (part: string): Condition =>
  bindValues('part', (bind) => {
    const { body } = item
    return {
      sql: contains(sql`fold_text(${body})`, part, bind),
      search: { cost: sql`octet_length(${body}) * ${bind('float8', foldingCost)}` },
    }
  })

const oldestFirst: readonly SortBy<'created_at'>[] = [{ field: 'created_at', descending: false }]

const orderOf = (sort: string | undefined) =>
  (sort === undefined ? null : parseSort(sort, (name) => (name === 'created_at' ? name : undefined))) ??
  oldestFirst

/** A page of a task's comments, if the caller sees the task. */
export const selectTaskComments = (
  ctx: StatementContext<Principal>,
  taskId: string,
  { q, sort, expand = [] }: CommentListQuery,
  page: PageRequest,
): Promise<Page | null> =>
  selectPageOf(
    ctx,
    {
      name: ['comments', ...expand].join('_'),
      table: comments,
      from: sql`comments item join tasks task on ${task.id} = ${item.task_id}`,
      branches: (caller) => {
        const isOfTask = sql`${item.task_id} = ${parameter('task_id', 'uuid')}`
        return onlyBranch(sql`${isOfTask} and ${allowsComment('comment.see', caller, item, task)}`)
      },
      values: { task_id: taskId },
      filters: q === undefined ? [] : [bodyContains(foldSearch(q))],
      sortFields: { created_at: createdAt },
      order: orderOf(sort),
      json: (row, caller) => commentJson(row, expand, caller),
    },
    page,
    () => isTaskVisible(ctx, taskId),
  )
