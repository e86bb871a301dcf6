import type { CommentExpansion } from '../domain/expansions.ts'
import { maxMentions, mentionedUsernames } from '../domain/mentions.ts'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { parseSort, type SortBy } from '../domain/sort.ts'
import { foldSearch } from '../domain/text.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsComment, isSeenBy } from './access/permissions.ts'
import { bindValues, type Condition, contains } from './engine/conditions.ts'
import type { OpContext } from './engine/context.ts'
import { creation, readCreation } from './engine/creation.ts'
import { outcomeOfDeletion, readChangedRow, readOutcome } from './engine/outcome.ts'
import { parameter } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { createdAt, type Page, pageIfVisible, type PageRequest, selectPage } from './lists/list.ts'
import { commentJson } from './read-models.ts'
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

/** A comment as JSON text, and its version. */
export interface CommentRow {
  readonly json: string
  readonly version: number
}

const comment = sql.raw('comment')
const task = sql.raw('task')
const target = sql.raw('target')
const columns = columnsOf<'comments'>(comment)
const tasks = columnsOf<'tasks'>(task)

const selectOne = query(
  'comments.select',
  { id: 'uuid' },
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${commentJson(comment, [], p)} as json, ${columns.version}
    from comments comment join tasks task on ${tasks.id} = ${columns.task_id}
    where ${columns.id} = ${p.id} and ${allowsComment('comment.see', p, comment, task)}`,
)

/** One comment, if the caller sees its task. */
export const selectComment = async (ctx: OpContext, id: string): Promise<Outcome<CommentRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

/** The ids of the users with these usernames who see the row `row` of tasks. */
const mentionsOf = (usernames: SQL, row: SQL): SQL => {
  const person = sql.raw('person')
  const { id, username, deleted_at } = columnsOf<'users'>(person)
  return sql`array(
    select ${id} from users person
    where ${username} = any(${usernames}) and ${deleted_at} is null and ${isSeenBy(person, row)}
    order by ${id} limit ${sql.raw(String(maxMentions))})`
}

const insert = creation(
  'comments.insert',
  { task_id: 'uuid', body: 'text', usernames: 'text[]' },
  { outcome: 'text', json: 'text?' },
  (p) => {
    const outcome = outcomeOfTaskWrite(p, target, {
      allowed: allowsComment('comment.add', p, comment, target),
      etag: null,
      ifMatch: p.if_match,
    })
    const added = insertion<'comments'>({
      id: p.id,
      task_id: p.task_id,
      author_id: p.caller,
      body: p.body,
      mentions: mentionsOf(p.usernames, target),
    })
    return {
      parts: sql`
        target as (
          select * from tasks task
          where ${tasks.id} = ${p.task_id} and ${allowsComment('comment.see', p, comment, task)}
          for no key update
        ), checked as (
          select ${outcome} as outcome, ${versionAfterTrigger(target)} as task_version from target
        ), added as (
          insert into comments (${added.columns}) select ${added.values} from checked, target
          where outcome = 'done' returning *
        ), created as (
          select id, ${addedToTask(commentJson(sql`added`, [], p))} as json from added, checked
        )`,
      select: sql`select outcome, json from checked left join created on true`,
    }
  },
)

/** Adds a comment to a task, and returns the new version of the task. */
export const insertComment = async (
  ctx: OpContext<Principal>,
  { taskId, body }: { readonly taskId: string; readonly body: string },
): Promise<Outcome<AddedToTask>> => {
  const result = await insert(ctx, () => ({ task_id: taskId, body, usernames: mentionedUsernames(body) }))
  return readAddition(readCreation(result, readOutcome))
}

const change = query(
  'comments.update',
  { id: 'uuid', body: 'text?', usernames: 'text[]' },
  { outcome: 'text', json: 'text?', version: 'int?' },
  (p) => {
    const outcome = outcomeOfTaskWrite(p, task, {
      allowed: allowsComment('comment.change', p, comment, task),
      etag: sql`${columns.version}::text`,
      ifMatch: p.if_match,
    })
    const { body } = columnsOf<'comments'>(sql`comments`)
    // The mentions of unchanged text are kept, even of users who no longer see the task.
    const changed = assignments<'comments'>({
      body: sql`coalesce(${p.body}, ${body})`,
      mentions: sql`case when ${p.body} <> ${body} then target.mentioned else comments.mentions end`,
    })
    return sql`
      with target as (
        select ${columns.id}, ${outcome} as outcome, ${mentionsOf(p.usernames, task)} as mentioned
        from comments comment join tasks task on ${tasks.id} = ${columns.task_id}
        where ${columns.id} = ${p.id} and ${allowsComment('comment.see', p, comment, task)}
        for no key update of comment
      ), changed as (
        update comments set ${changed} from target
        where comments.id = target.id and target.outcome = 'done' returning comments.*
      )
      select outcome, ${commentJson(sql`changed`, [], p)} as json, changed.version
      from target left join changed on true`
  },
)

/** Changes the text of a comment. Does nothing if the text is unchanged. */
export const updateComment = async (
  ctx: OpContext<Principal>,
  id: string,
  { body }: { readonly body?: string },
): Promise<Outcome<CommentRow>> => {
  const [row] = await change(ctx, { id, body: body ?? null, usernames: mentionedUsernames(body ?? '') })
  return readChangedRow(readOutcome(row))
}

// The task is locked before the comment, in the order of the task's deletion.
const remove = query('comments.delete', { id: 'uuid' }, { outcome: 'text', task_version: 'int' }, (p) => {
  const outcome = outcomeOfTaskWrite(p, task, {
    allowed: allowsComment('comment.delete', p, comment, task),
    etag: sql`${columns.version}::text`,
    ifMatch: p.if_match,
  })
  return sql`
    with target as (
      select ${columns.id}, ${versionAfterTrigger(task)} as task_version, ${outcome} as outcome
      from comments comment join tasks task on ${tasks.id} = ${columns.task_id}
      where ${columns.id} = ${p.id} and ${allowsComment('comment.see', p, comment, task)}
      for no key update of task, comment
    ), removed as (
      delete from comments using target
      where comments.id = target.id and target.outcome = 'done' returning comments.id
    )
    select ${outcomeOfDeletion(sql`removed.id is null`)} as outcome, task_version
    from target left join removed on true`
})

/** Deletes a comment, and returns the new version of its task. */
export const deleteComment = async (
  ctx: OpContext,
  id: string,
): Promise<Outcome<{ readonly task_version: number }>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
}

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
    const { body } = columnsOf<'comments'>(sql.raw('item'))
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
export const selectTaskComments = async (
  ctx: OpContext<Principal>,
  taskId: string,
  { q, sort, expand = [] }: CommentListQuery,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const item = sql.raw('item')
  const listed = await selectPage(
    ctx.db,
    {
      name: ['comments', ...expand].join('_'),
      from: sql`comments item join tasks task on task.id = item.task_id`,
      branches: (caller) => {
        const ofTask = sql`${columnsOf<'comments'>(item).task_id} = ${parameter('task_id', 'uuid')}`
        return onlyBranch(sql`${ofTask} and ${allowsComment('comment.see', caller, item, task)}`)
      },
      values: { task_id: taskId },
      filters: q === undefined ? [] : [bodyContains(foldSearch(q))],
      sortFields: { created_at: createdAt },
      order: orderOf(sort),
      json: (row, caller) => commentJson(row, expand, caller),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(listed, () => isTaskVisible(ctx, taskId))
}
