import { sql } from 'drizzle-orm'
import { found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { foldText } from '../domain/text.ts'
import type { Database } from './client.ts'
import {
  type Created,
  createOnce,
  type Idempotency,
  idempotencyParameters,
  idempotencyValues,
  keepAnswer,
} from './idempotency.ts'
import { newId } from './ids.ts'
import { tagJson } from './json.ts'
import { type Page, type PageRequest, selectPage } from './list.ts'
import { allowsTag, callerOf, callerParameters } from './permissions.ts'
import { prepareRemoval } from './removal.ts'
import { onlyRow, statement } from './statement.ts'

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

/** Deletes a tag and so takes it off every task. */
export const deleteTag = prepareRemoval({
  table: 'tags',
  to: 'nowhere',
  see: 'tag.see',
  remove: 'tag.delete',
  allows: allowsTag,
  etag: (row) => sql`${row}.id::text`,
})

/** A page of the tags that the principal sees. */
export const selectTags = (db: Database, principal: Principal, page: PageRequest): Promise<Page> =>
  selectPage(
    db,
    {
      shape: 'tags',
      parameters: {},
      values: {},
      from: sql`tags item`,
      where: (_p, caller) => [allowsTag('tag.see', caller, sql`item`)],
      json: (row) => tagJson(row),
    },
    principal,
    page,
  )
