import {
  type IntegrationFields,
  type Metadata,
  type MetadataPatch,
  noIntegrationFields,
} from '../../domain/shared/integration-fields.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  listReader,
  type Principal,
  type Relation,
  relationsToProject,
} from '../../domain/shared/permissions.ts'
import { readProjectCondition } from '../../domain/projects/condition.ts'
import { parseSort } from '../../domain/shared/sort.ts'
import { foldSearch } from '../../domain/shared/text.ts'
import { allowsProject, projectBranches, seesProject } from '../access/permissions.ts'
import { bindValues, nameContains } from '../statements/conditions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { ContextPlaceholders, StatementContext, TransactionContext } from '../statements/context.ts'
import type { Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, type StatementName } from '../statements/statement.ts'
import { createdAt, newestFirst, selectPage, visibilityCheck } from '../lists/list.ts'
import type { SortField } from '../lists/keyset.ts'
import { holdsIntegration } from '../shared/integration-condition.ts'
import { projectJson } from '../shared/read-models.ts'
import { endVisibility, hasManyTasks } from './redelivery.ts'
import {
  aliasedTable,
  and,
  type AnyPgColumn,
  eq,
  isNull,
  type PgTable,
  type SQL,
  sql,
} from '../schema/drizzle.ts'
import { memberships, projects } from '../schema/tables.ts'
import { touched } from '../shared/touch.ts'

const item = aliasedTable(projects, 'item')

/** A project as JSON text. */
export interface ProjectRow {
  readonly json: string
}

/** The fields of a new project. */
export interface NewProject {
  readonly name: string
  readonly description: string
  readonly color?: string | null
  readonly metadata?: Metadata
  readonly external_source?: string | null
  readonly external_id?: string | null
}

const project = aliasedTable(projects, 'project')
export const projectColumns = { json: 'text' } as const

/** Selects a project by its id; ends with a condition. */
const projectWithId = (p: Placeholders<{ id: 'uuid' }> & ContextPlaceholders): SQL => sql`
  select ${projectJson(project, p)} as json from projects project where ${project.id} = ${p.id}`

const selectOne = query(
  'projects.select',
  { id: 'uuid' },
  projectColumns,
  (p) => sql`${projectWithId(p)} and ${allowsProject('project.see', p, project)}`,
)

const reread = query('projects.reread', { id: 'uuid' }, projectColumns, projectWithId)

/** One project, if the caller can see it. */
export const selectProject = async (ctx: StatementContext, id: string): Promise<ProjectRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** A project that the transaction has changed, whether or not the caller can still see it. */
export const viewProject = async (tx: TransactionContext, id: string): Promise<ProjectRow> =>
  expectRow(await reread(tx, { id }))

/** Whether the caller can see a project. */
export const isProjectVisible = visibilityCheck('projects.check', seesProject)

const fieldParameters = {
  id: 'uuid',
  name: 'text',
  description: 'text',
  color: 'text?',
  metadata: 'json',
  external_source: 'text?',
  external_id: 'text?',
} as const

const insert = builtStatement('projects.insert', fieldParameters, (db, p) => db.insert(projects).values(p))

/** Inserts a project. */
export const insertProject = async (
  { db }: TransactionContext,
  id: string,
  project: NewProject,
): Promise<void> => {
  await insert(db, { color: null, ...noIntegrationFields, ...project, id })
}

/** A merge patch: absent fields are not changed. */
export type ProjectPatch = Partial<Omit<NewProject, 'metadata'>> & {
  readonly metadata?: MetadataPatch
}

/** What a change of a project depends on. */
export interface ProjectFacts extends IntegrationFields {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly color: string | null
  readonly archived_at: string | null
  readonly version: number
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const lockToChange = rowLock('projects.lock_to_change', projects, 'no key update')

/** Locks a project against writers of its tasks as well. */
export const lockToClose = rowLock('projects.lock_to_close', projects, 'update')

const lockToUse = rowLock('projects.lock_to_use', projects, 'key share')

/** Locks the project of a row, which never changes its project, against being closed. */
export const projectLock = (
  name: StatementName,
  table: PgTable & { readonly id: AnyPgColumn; readonly project_id: AnyPgColumn },
) =>
  builtStatement(name, { id: 'uuid' }, (db, p) =>
    db
      .select({ id: projects.id })
      .from(projects)
      .where(eq(projects.id, db.select({ id: table.project_id }).from(table).where(eq(table.id, p.id))))
      .for('key share'),
  )

const lockFor = { change: lockToChange, close: lockToClose, use: lockToUse } as const

const selectFacts = builtStatement('projects.select_facts', { id: 'uuid', caller: 'uuid' }, (db, p) =>
  db
    .select({
      id: projects.id,
      name: projects.name,
      description: projects.description,
      color: projects.color,
      metadata: projects.metadata,
      external_source: projects.external_source,
      external_id: projects.external_id,
      archived_at: projects.archived_at,
      version: projects.version,
      role: memberships.role,
    })
    .from(projects)
    .leftJoin(memberships, and(eq(memberships.project_id, projects.id), eq(memberships.user_id, p.caller)))
    .where(and(eq(projects.id, p.id), isNull(projects.deleted_at))),
)

/** A project, unless it is in the trash. */
export const readProject = async (
  { db, principal }: StatementContext<Principal>,
  id: string,
): Promise<ProjectFacts | null> => {
  const [row] = await selectFacts(db, { id, caller: principal.userId })
  if (row === undefined) return null
  const { role, ...project } = row
  return { ...project, relations: relationsToProject(principal, role) }
}

/**
 * Locks a project, and reads it under the lock, unless it is in the trash. `close`, to archive it, to move it to the trash or to
 * change who has access to it, waits for writers of what belongs to it, which `use` it, and they for it.
 */
export const lockProject = async (
  tx: TransactionContext<Principal>,
  id: string,
  purpose: keyof typeof lockFor,
): Promise<ProjectFacts | null> => {
  const { project } = await pipeline(tx.db, {
    lock: () => lockFor[purpose](tx.db, { id }),
    project: () => readProject(tx, id),
  })
  return project
}

/** A project that the caller was found to manage. */
export type ManagedProject = Authorized<'project.manage', ProjectFacts>

const update = builtStatement('projects.update', fieldParameters, (db, { id, ...fields }) =>
  db
    .update(projects)
    .set({ ...fields, ...touched(projects) })
    .where(eq(projects.id, id)),
)

/** Changes fields of a project. */
export const updateFields = async (
  { db }: TransactionContext,
  { id, ...present }: ManagedProject,
  changed: Partial<NewProject>,
): Promise<void> => {
  const { name, description, color, metadata, external_source, external_id } = { ...present, ...changed }
  await update(db, { id, name, description, color, metadata, external_source, external_id })
}

const archive = builtStatement('projects.archive', { id: 'uuid', is_archived: 'bool' }, (db, p) =>
  db
    .update(projects)
    .set({ archived_at: sql`case when ${p.is_archived} then now() end`, ...touched(projects) })
    .where(eq(projects.id, p.id)),
)

/** Archives or unarchives a project. */
export const setArchived = async (
  { db }: TransactionContext,
  { id }: ManagedProject,
  isArchived: boolean,
): Promise<void> => {
  await archive(db, { id, is_archived: isArchived })
}

const trash = builtStatement('projects.trash', { id: 'uuid' }, (db, p) =>
  db
    .update(projects)
    .set({ deleted_at: sql`now()`, is_redelivering: hasManyTasks, ...touched(projects) })
    .where(eq(projects.id, p.id)),
)

/** Moves a project with its content to the trash, which ends the access of its members. */
export const moveToTrash = async ({ db }: TransactionContext, { id }: ManagedProject): Promise<void> => {
  await pipeline(db, {
    project: () => trash(db, { id }),
    visibility: () => endVisibility(db, [id]),
  })
}

/** Filters and order of a list of projects. */
export interface ProjectListQuery {
  /** A substring of the name. */
  readonly q?: string
  readonly include_archived?: boolean
  readonly filter?: string
  readonly sort?: string
  /** All projects of the installation; administrators only. */
  readonly all?: boolean
}

const sortFields = {
  created_at: createdAt,
  updated_at: { value: item.updated_at, type: 'instant', isNullable: false, isIndexed: false },
  name: {
    value: item.name_folded,
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

const isNotArchived = { sql: sql`${item.archived_at} is null`, values: {}, plansAlike: true }

/** A page of the caller's projects that pass the filter. @throws FilterError */
export const selectProjects = (
  { db, principal }: StatementContext<Principal>,
  filter: ProjectListQuery,
  page: PageRequest,
): Promise<Page> => {
  const { q, include_archived = false, sort } = filter
  const condition = readProjectCondition(filter.filter ?? '')
  const reader = listReader(principal, filter)
  return selectPage<ProjectSortField, typeof projects>(
    db,
    {
      name: 'projects',
      table: projects,
      branches: (caller) => projectBranches(reader.role, caller),
      filters: [
        ...(include_archived ? [] : [isNotArchived]),
        ...(q === undefined ? [] : [nameContains(item.name_folded, foldSearch(q))]),
        ...(condition === null
          ? []
          : [bindValues('filter', (bind) => ({ sql: holdsIntegration(condition, item, bind) }))]),
      ],
      sortFields,
      order: orderOf(sort),
      json: projectJson,
    },
    reader,
    page,
  )
}
