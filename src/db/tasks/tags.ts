import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  listReader,
  type Principal,
  type Relation,
  relationsToOwned,
} from '../../domain/shared/permissions.ts'
import { canonicalName, foldSearch } from '../../domain/shared/text.ts'
import { allowsTag, countTasksOfTag, seesTaggedTask, tagBranches } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import { isOfProjects, nameContains } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { projectLock } from '../projects/rows.ts'
import { purgeBatch } from './purge.ts'
import { countedTagJson, tagJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, isNull, sql } from '../schema/drizzle.ts'
import { memberships, projects, tags, taskTags } from '../schema/tables.ts'
import type { EditableProject } from './sections.ts'
import { untagging } from './tag-links.ts'

const item = aliasedTable(tags, 'item')
const link = aliasedTable(taskTags, 'link')

const tag = aliasedTable(tags, 'tag')

const selectOne = query(
  'tags.select',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${tagJson(tag)} as json from tags tag where ${tag.id} = ${p.id} and ${allowsTag('tag.see', p, tag)}`,
)

/** A tag as JSON text, if the caller can see it. */
export const selectTag = async (
  ctx: StatementContext,
  id: string,
): Promise<{ readonly json: string } | null> => firstRow(await selectOne(ctx, { id }))

/** The fields of a new tag. */
export interface NewTag {
  readonly name: string
  readonly color: string | null
  /** Null for a personal tag of the caller. */
  readonly project: EditableProject | null
}

const insert = builtStatement(
  'tags.insert',
  {
    id: 'uuid',
    name: 'text',
    canonical_name: 'text',
    color: 'text?',
    owner_id: 'uuid',
    project_id: 'uuid?',
  } satisfies ParametersOf<typeof tags>,
  (db, p) => db.insert(tags).values(p),
)

/** Inserts a tag of the caller. A duplicate name violates tags_owner_name_unique or tags_project_name_unique. */
export const insertTag = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  { name, color, project }: NewTag,
): Promise<void> => {
  await insert(db, {
    id,
    name,
    canonical_name: canonicalName(name),
    color,
    owner_id: principal.userId,
    project_id: project?.id ?? null,
  })
}

/** A tag that the transaction has written. Its locks keep it visible. */
export const viewTag = async (tx: TransactionContext, id: string): Promise<{ readonly json: string }> =>
  expectRow(await selectOne(tx, { id }))

/** What the deletion of a tag depends on. */
export interface TagFacts {
  readonly id: string
  /** When its project was archived. */
  readonly archived_at: string | null
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const lockProject = projectLock('tags.lock_project', tags)

const lock = rowLock('tags.lock', tags, 'update')

const selectFacts = builtStatement('tags.select_facts', { id: 'uuid', caller: 'uuid' }, (db, p) => {
  const reader = { caller: p.caller, is_admin: sql`false`, in_session: sql`false` }
  return db
    .select({
      id: tags.id,
      owner_id: tags.owner_id,
      project_id: tags.project_id,
      archived_at: projects.archived_at,
      role: memberships.role,
      sees_tagged_task: sql<boolean>`${seesTaggedTask(reader, tags)}`,
    })
    .from(tags)
    .leftJoin(projects, eq(projects.id, tags.project_id))
    .leftJoin(
      memberships,
      and(eq(memberships.project_id, tags.project_id), eq(memberships.user_id, p.caller)),
    )
    .where(and(eq(tags.id, p.id), isNull(tags.deleted_at)))
})

/** Locks a tag against writers who add it to tasks, and its project against being closed, and reads it under the locks, unless it is deleted. */
export const lockTag = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<TagFacts | null> => {
  const { facts } = await pipeline(db, {
    project: () => lockProject(db, { id }),
    lock: () => lock(db, { id }),
    facts: () => selectFacts(db, { id, caller: principal.userId }),
  })
  const [row] = facts
  if (row === undefined) return null
  const { id: tagId, archived_at, sees_tagged_task, role, ...owned } = row
  const through: readonly Relation[] = sees_tagged_task ? ['sees_tagged_task'] : []
  return { id: tagId, archived_at, relations: [...relationsToOwned(principal, owned, role), ...through] }
}

const markDeleted = builtStatement('tags.mark_deleted', { id: 'uuid' }, (db, p) =>
  db
    .update(tags)
    .set({ deleted_at: sql`now()` })
    .where(eq(tags.id, p.id)),
)

const untag = untagging('task_tags.delete_of_tag', (p) => sql`${link.tag_id} = ${p.id}`, purgeBatch)

/**
 * Hides a tag from every reader, and takes it from up to `purgeBatch` tasks. It is taken from the others later (`purge.ts`), as from those
 * that another transaction has locked.
 */
export const hideTag = async (
  tx: TransactionContext,
  { id }: Authorized<'tag.delete', TagFacts>,
): Promise<void> => {
  await pipeline(tx.db, {
    tag: () => markDeleted(tx.db, { id }),
    links: () => untag(tx, { id }),
  })
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
  { db, principal }: StatementContext<Principal>,
  filter: TagFilter,
  page: PageRequest,
): Promise<Page> => {
  const { q, project_id: projects } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'tags',
      table: tags,
      branches: (caller) => tagBranches(reader.role, caller),
      filters: [
        ...(q === undefined ? [] : [nameContains(item.name_folded, foldSearch(q))]),
        ...(projects === undefined ? [] : [isOfProjects(item.project_id, projects)]),
      ],
      ...newest,
      json: (row, caller) => countedTagJson(row, countTasksOfTag(row, reader.role, caller)),
    },
    reader,
    page,
  )
}
