import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal, type Role } from '../domain/permissions.ts'
import { foldSearch, foldText } from '../domain/text.ts'
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
import { countedTagJson, tagJson } from './read-models.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import {
  allowsTag,
  allowsTagApart,
  callerOf,
  callerParameters,
  type CallerPlaceholders,
} from './access/permissions.ts'
import { prepareRemoval, type Removal } from './removal.ts'
import { nameContains } from './lists/search.ts'
import { onlyRow, statement } from './engine/statement.ts'

/** The fields of a new tag. */
export interface NewTag {
  readonly name: string
  readonly color?: string | null
}

const tag = sql.raw('tag')

const selectVisible = statement(
  { id: 'uuid', ...callerParameters },
  { json: 'text' },
  (p) =>
    sql`select ${tagJson(tag)} as json from tags tag where id = ${p.id} and ${allowsTag('tag.see', p, tag)}`,
)

/** One tag's JSON text, if the principal sees it. */
export const selectTag = async (
  db: Database,
  principal: Principal,
  id: string,
): Promise<Outcome<{ readonly json: string }>> => {
  return found(onlyRow(await selectVisible(db, { id, ...callerOf(principal) })))
}

const insert = statement(
  { id: 'uuid', name: 'text', name_folded: 'text', color: 'text?', caller: 'uuid', ...idempotencyParameters },
  { json: 'text' },
  (p) => sql`
    with tag as (
      insert into tags (id, name, name_folded, color, owner_id)
      values (${p.id}, ${p.name}, ${p.name_folded}, ${p.color}, ${p.caller}) returning *
    ), created as (
      select id, ${tagJson(tag)} as json from tag
    ), kept as (
      ${keepAnswer(p, sql`created`)}
    )
    select json from created`,
)

/** Creates a tag of the principal. A name that they have already breaks tags_owner_name_unique. */
export const insertTag = (
  db: Database,
  principal: Principal,
  { name, color = null }: NewTag,
  idempotency: Idempotency | null,
): Promise<Created> =>
  createOnce(
    db,
    idempotency,
    () => create(db, principal, { name, color }, idempotency),
    (earlier) => earlier,
  )

const create = async (
  db: Database,
  principal: Principal,
  { name, color }: Required<NewTag>,
  idempotency: Idempotency | null,
): Promise<Created> => {
  const id = newId()
  const values = { id, name, name_folded: foldText(name), color, caller: principal.userId }
  const row = onlyRow(await insert(db, { ...values, ...idempotencyValues(idempotency) }))
  if (row === null) throw new Error('A creation answers with a row')
  return { id, json: row.json, replayed: false }
}

const remove = prepareRemoval({
  table: 'tags',
  to: 'purge',
  see: 'tag.see',
  remove: 'tag.delete',
  allows: allowsTag,
  etag: (row) => sql`${row}.id::text`,
})

/**
 * Deletes a tag. The first of the tasks that carry it change with the same statement, the others soon after (`purge.ts`).
 */
export const deleteTag: Removal = remove

/** Which tags a list holds. */
export interface TagFilter {
  /** A part of the name. */
  readonly q?: string
  /** Everything in the installation, for an administrator. */
  readonly all?: boolean
}

/** A page of the principal's tags that pass the filter, each with how many tasks of their list carry it. */
export const selectTags = (
  db: Database,
  principal: Principal,
  filter: TagFilter,
  page: PageRequest,
): Promise<Page> => {
  const { q } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'tags',
      from: sql`tags item`,
      seenBecause: (caller) =>
        allowsTagApart(
          'tag.see',
          reader.role,
          caller,
          sql`item`,
          sql`select tag_id from ${countsFor(reader.role, caller)}`,
        ),
      filters: q === undefined ? [] : [nameContains(sql`fold_text(item.name)`, foldSearch(q))],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => countedTagJson(row, countTasks(row, reader.role, caller)),
    },
    reader,
    page,
  )
}

/** Counts of the tasks that the reader sees, by tag. */
const countsFor = (role: Role, caller: CallerPlaceholders): SQL =>
  role === 'admin' ? sql`tag_counts where user_id is null` : sql`tag_counts where user_id = ${caller.caller}`

/** How many tasks with the tag the reader sees. */
const countTasks = (row: SQL, role: Role, caller: CallerPlaceholders): SQL =>
  sql`coalesce((select tasks from ${countsFor(role, caller)} and tag_id = ${row}.id), 0)`
