import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { parseSort } from '../domain/sort.ts'
import { foldSearch } from '../domain/text.ts'
import { allowsProject, projectBranches, seesProject } from './access/permissions.ts'
import { nameContains } from './engine/conditions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { type Created, creation, expectCreated } from './engine/creation.ts'
import { checkedOutcome, setActorAndReturnDone, readChangedRow, readOutcome } from './engine/outcome.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import {
  createdAt,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
  visibilityCheck,
} from './lists/list.ts'
import type { SortField } from './lists/keyset.ts'
import { projectJson, projectVariant } from './read-models.ts'
import { assignments, columnsOf, type ColumnValues, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** A project as JSON text, its version, and the variant of its entity tag. */
export interface ProjectRow {
  readonly json: string
  readonly version: number
  /** Changes with the caller's role and the counts, which are not part of the version. */
  readonly variant: string
}

/** The fields of a new project. */
export interface NewProject {
  readonly name: string
  readonly description: string
  readonly color?: string | null
}

const project = sql.raw('project')
export const projectColumns = { json: 'text', version: 'int', variant: 'text' } as const

/** Selects a project by its id; ends with a condition. */
const projectWithId = (p: Placeholders<{ id: 'uuid' }> & ContextPlaceholders): SQL => sql`
  select ${projectJson(project, p)} as json, version, ${projectVariant(project, p)} as variant
  from projects project where id = ${p.id}`

const selectOne = query(
  'projects.select',
  { id: 'uuid' },
  projectColumns,
  (p) => sql`${projectWithId(p)} and ${allowsProject('project.see', p, project)}`,
)

const reread = query('projects.reread', { id: 'uuid' }, projectColumns, projectWithId)

/** One project, if the caller can see it. */
export const selectProject = async (ctx: OpContext, id: string): Promise<Outcome<ProjectRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

/** A project that the caller has just changed, whether or not they can still see it. */
export const rereadProject = async (ctx: OpContext, id: string): Promise<Outcome<ProjectRow>> => {
  const [row] = await reread(ctx, { id })
  return found(row)
}

/** Whether the caller can see a project. */
export const isProjectVisible = visibilityCheck('projects.check', seesProject)

/** The fields of a new project that depend on other rows: the creator is the manager and only member, and there are no tasks. */
const ofCreator = { role: sql`'manager'`, member_count: sql`1`, open_task_count: sql`0` }

/** The variant of a new project. */
export const newProjectVariant = 'manager-1-0'

const insert = creation(
  'projects.insert',
  { name: 'text', description: 'text', color: 'text?' },
  { json: 'text' },
  (p) => {
    const { columns, values } = insertion<'projects'>({
      id: p.id,
      name: p.name,
      description: p.description,
      color: p.color,
    })
    const member = insertion<'project_members'>({
      project_id: sql`id`,
      user_id: p.caller,
      role: sql`'manager'`,
    })
    return {
      parts: sql`
        project as (insert into projects (${columns}) select ${values} where ${setActorAndReturnDone(p)} = 'done' returning *),
        member as (insert into project_members (${member.columns}) select ${member.values} from project),
        created as (select id, ${projectJson(project, p, ofCreator)} as json from project)`,
      select: sql`select json from created`,
    }
  },
)

/** Creates a project, which the caller manages. */
export const insertProject = (
  ctx: OpContext<Principal>,
  { name, description, color = null }: NewProject,
): Promise<Created> => insert(ctx, () => ({ name, description, color })).then(expectCreated)

/** A merge patch: absent fields are not changed. */
export type ProjectPatch = Partial<NewProject>

const target = sql.raw('target')

const changedColumns = { outcome: 'text', json: 'text?', version: 'int?', variant: 'text' } as const

interface Change {
  readonly values: ColumnValues<'projects'>
  /** Further refusals, as WHEN branches on the row `target`. */
  readonly refusals?: SQL
}

/** A statement that changes a project which the caller manages. */
const changeOf = (
  p: Placeholders<{ id: 'uuid' }> & ContextPlaceholders,
  { values, refusals = sql`` }: Change,
): SQL => {
  const { id, version } = columnsOf<'projects'>(target)
  const changed = sql.raw('changed')
  const outcome = checkedOutcome(p, {
    allowed: allowsProject('project.manage', p, target),
    etag: sql`${version}::text`,
    refusals,
  })
  return sql`
    with target as (
      select * from projects project where ${columnsOf<'projects'>(project).id} = ${p.id}
        and ${allowsProject('project.see', p, project)} for no key update
    ), checked as (
      select ${id}, ${outcome} as outcome from target
    ), changed as (
      update projects project set ${assignments<'projects'>(values)} from checked
      where project.id = checked.id and checked.outcome = 'done' returning project.*
    )
    select outcome, ${projectJson(changed, p)} as json, changed.version, ${projectVariant(changed, p)} as variant
    from checked left join changed on true`
}

const update = query('projects.update', { id: 'uuid', patch: 'json' }, changedColumns, (p) => {
  const present = columnsOf<'projects'>(project)
  const patched = (field: keyof ProjectPatch): SQL => {
    const name = sql.raw(`'${field}'`)
    return sql`case when ${p.patch} ? ${name} then ${p.patch} ->> ${name} else ${present[field]} end`
  }
  return changeOf(p, {
    values: { name: patched('name'), description: patched('description'), color: patched('color') },
    refusals: sql`when ${columnsOf<'projects'>(target).archived_at} is not null then 'project_archived'`,
  })
})

const archive = query('projects.archive', { id: 'uuid', archives: 'bool' }, changedColumns, (p) => {
  const { archived_at } = columnsOf<'projects'>(project)
  return changeOf(p, {
    values: { archived_at: sql`case when ${p.archives} then coalesce(${archived_at}, now()) end` },
  })
})

/** Changes a project that is not archived. */
export const updateProject = async (
  ctx: OpContext,
  id: string,
  patch: ProjectPatch,
): Promise<Outcome<ProjectRow>> => {
  const [row] = await update(ctx, { id, patch })
  return readChangedRow(readOutcome(row))
}

/** Archives or unarchives a project. Idempotent. */
export const setProjectArchived = async (
  ctx: OpContext,
  id: string,
  archives: boolean,
): Promise<Outcome<ProjectRow>> => {
  const [row] = await archive(ctx, { id, archives })
  return readChangedRow(readOutcome(row))
}

const trash = query(
  'projects.trash',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with target as (
      select * from projects project where id = ${p.id} and ${allowsProject('project.see', p, project)} for update
    ), checked as (
      select id, ${checkedOutcome(p, {
        allowed: allowsProject('project.manage', p, target),
        etag: sql`${columnsOf<'projects'>(target).version}::text`,
      })} as outcome from target
    ), trashed as (
      update projects set ${assignments<'projects'>({ deleted_at: sql`now()` })} from checked
      where projects.id = checked.id and checked.outcome = 'done'
    )
    select outcome from checked`,
)

/** Moves a project with its content to the trash; triggers end the access of its members. */
export const deleteProject = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  const [row] = await trash(ctx, { id })
  return readOutcome(row)
}

/** Filters and order of a list of projects. */
export interface ProjectListQuery {
  /** A substring of the name. */
  readonly q?: string
  readonly include_archived?: boolean
  readonly sort?: string
  /** All projects of the installation; administrators only. */
  readonly all?: boolean
}

const sortFields = {
  created_at: createdAt,
  updated_at: { value: sql`item.updated_at`, type: 'instant', isNullable: false, isIndexed: false },
  name: {
    value: columnsOf<'projects'>(sql`item`).name_folded,
    type: 'text',
    isNullable: false,
    isIndexed: false,
  },
} as const satisfies Readonly<Record<string, SortField>>

type ProjectSortField = keyof typeof sortFields

const isSortField = (name: string): name is ProjectSortField => Object.hasOwn(sortFields, name)

const orderOf = (sort: string | undefined) =>
  (sort === undefined ? null : parseSort(sort, (name) => (isSortField(name) ? name : undefined))) ??
  newestFirst

const isNotArchived = { sql: sql`${columnsOf<'projects'>(sql`item`).archived_at} is null`, values: {} }

/** A page of the caller's projects that pass the filter. */
export const selectProjects = (
  { db, principal }: OpContext<Principal>,
  filter: ProjectListQuery,
  page: PageRequest,
): Promise<Page> => {
  const { q, include_archived = false, sort } = filter
  const reader = listReader(principal, filter)
  return selectPage<ProjectSortField>(
    db,
    {
      name: 'projects',
      from: sql`projects item`,
      branches: (caller) => projectBranches(reader.role, caller),
      filters: [
        ...(include_archived ? [] : [isNotArchived]),
        ...(q === undefined
          ? []
          : [nameContains(columnsOf<'projects'>(sql`item`).name_folded, foldSearch(q))]),
      ],
      sortFields,
      order: orderOf(sort),
      json: projectJson,
    },
    reader,
    page,
  )
}
