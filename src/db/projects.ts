import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { parseSort } from '../domain/sort.ts'
import { foldSearch } from '../domain/text.ts'
import { allowsProject, projectBranches } from './access/permissions.ts'
import { nameContains } from './engine/conditions.ts'
import type { OpContext } from './engine/context.ts'
import { type Created, creation, expectCreated } from './engine/creation.ts'
import { query } from './engine/statement.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import type { SortField } from './lists/keyset.ts'
import { projectJson, projectVariant } from './read-models.ts'
import { columnsOf, insertion } from './schema/columns.ts'
import { sql } from './schema/drizzle.ts'

/** A project as JSON text, its version, and what else of it the caller sees. */
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
const projectColumns = { json: 'text', version: 'int', variant: 'text' } as const

const selectOne = query(
  'projects.select',
  { id: 'uuid' },
  projectColumns,
  (p) => sql`
    select ${projectJson(project, p)} as json, version, ${projectVariant(project, p)} as variant
    from projects project where id = ${p.id} and ${allowsProject('project.see', p, project)}`,
)

/** One project, if the caller can see it. */
export const selectProject = async (ctx: OpContext, id: string): Promise<Outcome<ProjectRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

/** What its creator sees of a new project: the manager and only member of a project without tasks. */
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
        project as (insert into projects (${columns}) values (${values}) returning *),
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

/** Filters and order of a list of projects. */
export interface ProjectListQuery {
  /** A part of the name. */
  readonly q?: string
  readonly include_archived?: boolean
  readonly sort?: string
  /** All projects of the installation; administrators only. */
  readonly all?: boolean
}

const sortFields = {
  created_at: createdAt,
  updated_at: { value: sql`item.updated_at`, type: 'instant', isNullable: false, isIndexed: false },
  name: { value: sql`item.name_folded`, type: 'text', isNullable: false, isIndexed: false },
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
        ...(q === undefined ? [] : [nameContains(sql`item.name_folded`, foldSearch(q))]),
      ],
      sortFields,
      order: orderOf(sort),
      json: projectJson,
    },
    reader,
    page,
  )
}
