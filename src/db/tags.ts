import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { canonicalName, foldSearch } from '../domain/text.ts'
import { allowsTag, countTasksOfTag, tagBranches } from './access/permissions.ts'
import type { OpContext } from './engine/context.ts'
import { creation, readCreation } from './engine/creation.ts'
import type { Created } from './engine/idempotency.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { isOfProjects, nameContains } from './engine/conditions.ts'
import { readOutcome } from './engine/outcome.ts'
import { query } from './engine/statement.ts'
import { countedTagJson, tagJson } from './read-models.ts'
import { purgeBatch } from './purge.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'
import { lockProjects, outcomeOfTaskWrite, readItemOutcome, targetProject } from './task-writes.ts'

/** The fields of a new tag. */
export interface NewTag {
  readonly name: string
  readonly color?: string | null
  /** Null for a personal tag of the caller. */
  readonly project_id?: string | null
}

const tag = sql.raw('tag')

const selectOne = query(
  'tags.select',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${tagJson(tag)} as json from tags tag where id = ${p.id} and ${allowsTag('tag.see', p, tag)}`,
)

/** A tag as JSON text, if the caller can see it. */
export const selectTag = async (ctx: OpContext, id: string): Promise<Outcome<{ readonly json: string }>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

const insert = creation(
  'tags.insert',
  { name: 'text', canonical_name: 'text', color: 'text?', project_id: 'uuid?' },
  { outcome: 'text', json: 'text?' },
  (p) => {
    const project = targetProject(p.project_id)
    const { columns, values } = insertion<'tags'>({
      id: p.id,
      name: p.name,
      canonical_name: p.canonical_name,
      color: p.color,
      owner_id: p.caller,
      project_id: p.project_id,
    })
    return {
      parts: sql`
        visible_projects as (${lockProjects(p, p.project_id)}),
        creation as (
          select case
            when ${project.isForbidden} then 'forbidden'
            when ${project.isArchived} then 'project_archived'
            when ${project.isUnknown} then 'unknown_project'
            else 'done' end as outcome
        ),
        tag as (insert into tags (${columns}) select ${values} from creation where outcome = 'done' returning *),
        created as (select id, ${tagJson(tag)} as json from tag)`,
      select: sql`select outcome, json from creation left join created on true`,
    }
  },
)

/**
 * Creates a tag, owned by the caller or of a project that they may edit. A duplicate name violates tags_owner_name_unique or
 * tags_project_name_unique.
 */
export const insertTag = async (
  ctx: OpContext,
  { name, color = null, project_id = null }: NewTag,
): Promise<Outcome<Created>> => {
  const result = await insert(ctx, () => ({ name, canonical_name: canonicalName(name), color, project_id }))
  return readCreation(result, (row) => readItemOutcome(row))
}

const remove = query(
  'tags.delete',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with target as (
      select * from tags tag where id = ${p.id} and ${allowsTag('tag.see', p, tag)} for update
    ), checked as (
      select id, ${outcomeOfTaskWrite(p, sql`target`, {
        allowed: allowsTag('tag.delete', p, sql`target`),
        etag: sql`${columnsOf<'tags'>(sql`target`).id}::text`,
        ifMatch: p.if_match,
      })} as outcome from target
    ), deleted as (
      update tags set ${assignments<'tags'>({ deleted_at: sql`now()` })} from checked
      where tags.id = checked.id and checked.outcome = 'done' returning tags.id
    ), untagged as (
      delete from task_tags where (task_id, tag_id) in (
        select task_id, tag_id from task_tags join deleted on deleted.id = tag_id
        order by task_id limit ${sql.raw(String(purgeBatch))})
    )
    select outcome from checked`,
)

/** Deletes a tag. Removes it from the first `purgeBatch` tasks in the same statement, and from the others later (`purge.ts`). */
export const deleteTag = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
}

/** Filters of a tag list. */
export interface TagFilter {
  /** A substring of the name. */
  readonly q?: string
  /** Ids, or `none` for tags of no project. */
  readonly project_id?: readonly string[]
  /** All tags of the installation; administrators only. */
  readonly all?: boolean
}

/** A page of the principal's tags that pass the filter, each with the number of tasks in their list that have it. */
export const selectTags = (
  { db, principal }: OpContext<Principal>,
  filter: TagFilter,
  page: PageRequest,
): Promise<Page> => {
  const { q, project_id: projects } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'tags',
      from: sql`tags item`,
      branches: (caller) => tagBranches(reader.role, caller),
      filters: [
        ...(q === undefined ? [] : [nameContains(columnsOf<'tags'>(sql`item`).name_folded, foldSearch(q))]),
        ...(projects === undefined ? [] : [isOfProjects(columnsOf<'tags'>(sql`item`).project_id, projects)]),
      ],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row, caller) => countedTagJson(row, countTasksOfTag(row, reader.role, caller)),
    },
    reader,
    page,
  )
}
