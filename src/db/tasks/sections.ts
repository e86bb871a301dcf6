import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsProject, seesProject } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { ContextPlaceholders, StatementContext, TransactionContext } from '../statements/context.ts'
import { anyOf, parameter, type Placeholders } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowDeletion } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { selectPageOf } from '../lists/list.ts'
import { type Destination, NoRoom, positionsOf } from '../shared/positions.ts'
import { isProjectVisible, lockProject, type ProjectFacts } from '../projects/rows.ts'
import { sectionJson } from '../shared/read-models.ts'
import { recordTaskEvents } from './record-events.ts'
import { aliasedTable, and, eq, isNull, type SQL, sql } from '../schema/drizzle.ts'
import { projects, sections, tasks } from '../schema/tables.ts'
import { lockTaskRows } from './facts.ts'
import { touched } from '../shared/touch.ts'

const item = aliasedTable(sections, 'item')

/** A section as JSON text, and its version. */
export interface SectionRow {
  readonly json: string
  readonly version: number
}

/** A section in the path of a request. */
export interface SectionPath {
  readonly projectId: string
  readonly sectionId: string
}

const project = aliasedTable(projects, 'project')
const section = aliasedTable(sections, 'section')
const pathParameters = { project_id: 'uuid', id: 'uuid' } as const

/** The section of the path, joined with its project, if the caller can see it; ends with a condition. */
const visibleSection = (p: Placeholders<typeof pathParameters> & ContextPlaceholders): SQL => sql`
  sections section join projects project on ${project.id} = ${section.project_id}
  where ${section.id} = ${p.id} and ${section.project_id} = ${p.project_id} and ${allowsProject('project.see', p, project)}`

const selectOne = query(
  'sections.select',
  pathParameters,
  { json: 'text', version: 'int' },
  (p) => sql`select ${sectionJson(section)} as json, ${section.version} from ${visibleSection(p)}`,
)

/** One section, if the caller can see its project. */
export const selectSection = async (
  ctx: StatementContext,
  { projectId, sectionId }: SectionPath,
): Promise<SectionRow | null> => firstRow(await selectOne(ctx, { project_id: projectId, id: sectionId }))

/** A page of the sections of a project in their order, if the caller can see it. */
export const selectSections = (
  ctx: StatementContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Page | null> => {
  const projectParameter = parameter('project_id', 'uuid')
  return selectPageOf(
    ctx,
    {
      name: 'sections',
      table: sections,
      branches: (caller) =>
        onlyBranch(
          sql`${item.project_id} = ${projectParameter} and ${seesProject(caller, projectParameter)}`,
        ),
      values: { project_id: projectId },
      sortFields: {
        position: { value: item.position, type: 'text', isNullable: false, isIndexed: true },
      },
      order: [{ field: 'position', descending: false }],
      json: sectionJson,
    },
    page,
    () => isProjectVisible(ctx, projectId),
  )
}

/** A section that the transaction has written. The lock of its project keeps it visible. */
export const viewSection = async (
  tx: TransactionContext,
  { projectId, sectionId }: SectionPath,
): Promise<SectionRow> => expectRow(await selectOne(tx, { project_id: projectId, id: sectionId }))

/** The section of the path. */
const atPath = (p: Placeholders<typeof pathParameters>) =>
  and(eq(sections.id, p.id), eq(sections.project_id, p.project_id))

/** The tasks of the section of the path. */
const isInSection = (p: Placeholders<typeof pathParameters>) =>
  and(eq(tasks.project_id, p.project_id), eq(tasks.section_id, p.id))

/** What a change of a section depends on. */
export interface SectionFacts<Project = ProjectFacts | null> {
  readonly id: string
  readonly name: string
  readonly position: string
  readonly version: number
  /** Null in the trash. */
  readonly project: Project
}

/** A project whose content the caller was found to be allowed to edit. */
export type EditableProject = Authorized<'project.edit', ProjectFacts>

/** A section of such a project. */
export type EditableSection = SectionFacts<EditableProject>

const lockToChange = builtStatement('sections.lock_to_change', pathParameters, (db, p) =>
  db.select({ id: sections.id }).from(sections).where(atPath(p)).for('no key update'),
)

const lockToDelete = builtStatement('sections.lock_to_delete', pathParameters, (db, p) =>
  db.select({ id: sections.id }).from(sections).where(atPath(p)).for('update'),
)

const selectFacts = builtStatement('sections.select_facts', pathParameters, (db, p) =>
  db
    .select({
      id: sections.id,
      name: sections.name,
      position: sections.position,
      version: sections.version,
    })
    .from(sections)
    .where(atPath(p)),
)

/**
 * Locks a project and its section, and reads both under the locks. The lock of the project also keeps the order of its sections,
 * which one transaction at a time changes. `delete` waits for writers who put tasks into the section, and they for it.
 */
export const lockSection = async (
  tx: TransactionContext<Principal>,
  { projectId, sectionId }: SectionPath,
  purpose: 'change' | 'delete',
): Promise<SectionFacts | null> => {
  const path = { project_id: projectId, id: sectionId }
  const lock = purpose === 'change' ? lockToChange : lockToDelete
  const { projectFacts, facts } = await pipeline(tx.db, {
    projectFacts: () => lockProject(tx, projectId, 'change'),
    lock: () => lock(tx.db, path),
    facts: () => selectFacts(tx.db, path),
  })
  const [row] = facts
  return row === undefined ? null : { ...row, project: projectFacts }
}

const spread = builtStatement('sections.spread', { ids: 'uuid[]', positions: 'text[]' }, (db, p) =>
  db
    .update(sections)
    .set({ position: sql`moved.position`, ...touched(sections) })
    .from(sql`unnest(${p.ids}, ${p.positions}) as moved (id, position)`)
    .where(eq(sections.id, sql`moved.id`)),
)

const positions = positionsOf('sections', {
  table: sections,
  isListed: (projectId) => sql`${item.project_id} = ${projectId}`,
  spread: (db, rows) => spread(db, { ids: rows.map((row) => row.id), positions: rows.map(({ to }) => to) }),
})

/**
 * The position of a section at its destination; null unless that is next to another section of the project. If there is no room, the
 * sections around it make some.
 */
export const findSectionPosition = async (
  { db }: TransactionContext,
  { id: project_id }: EditableProject,
  id: string,
  destination: Destination,
): Promise<string | null> => {
  const move = { ...destination, list: project_id, id }
  try {
    return await positions.find(db, move)
  } catch (error) {
    if (!(error instanceof NoRoom)) throw error
    // The locked project keeps others from moving its sections.
    await positions.makeRoom(db, move)
    return positions.find(db, move)
  }
}

/** The fields of a section that a request sets, the place as a position. */
interface SectionFields {
  readonly name: string
  readonly position: string
}

const insert = builtStatement(
  'sections.insert',
  { ...pathParameters, name: 'text', position: 'text' },
  (db, p) =>
    db.insert(sections).values({ id: p.id, project_id: p.project_id, name: p.name, position: p.position }),
)

/** Inserts a section. */
export const insertSection = async (
  { db }: TransactionContext,
  { id: project_id }: EditableProject,
  id: string,
  { name, position }: SectionFields,
): Promise<void> => {
  await insert(db, { id, project_id, name, position })
}

const update = builtStatement('sections.update', { id: 'uuid', name: 'text', position: 'text' }, (db, p) =>
  db
    .update(sections)
    .set({ name: p.name, position: p.position, ...touched(sections) })
    .where(eq(sections.id, p.id)),
)

/** Changes a section. */
export const updateFields = async (
  { db }: TransactionContext,
  { id }: EditableSection,
  { name, position }: SectionFields,
): Promise<void> => {
  await update(db, { id, name, position })
}

/** Tasks that leave a deleted section in one transaction; each takes up to a millisecond. */
export const tasksPerBatch = 100

const selectTasks = builtStatement('sections.select_tasks', pathParameters, (db, p) =>
  db.select({ id: tasks.id }).from(tasks).where(isInSection(p)).limit(tasksPerBatch),
)

/** The ids of up to `tasksPerBatch` tasks of a locked section, those in the trash included. */
export const tasksInSection = async (
  { db }: TransactionContext,
  { id, project }: EditableSection,
): Promise<readonly string[]> =>
  (await selectTasks(db, { project_id: project.id, id })).map((task) => task.id)

const takeOut = builtStatement('sections.take_tasks_out', { ...pathParameters, ids: 'uuid[]' }, (db, p) =>
  db
    .update(tasks)
    .set({ section_id: null, ...touched(tasks) })
    .where(and(eq(tasks.id, anyOf(p.ids)), isInSection(p)))
    .returning({
      task_id: tasks.id,
      project_id: tasks.project_id,
      owner_id: tasks.owner_id,
      assignee_id: tasks.assignee_id,
    }),
)

/** Takes tasks out of a section, unless they have left it meanwhile. */
export const takeTasksOut = async (
  tx: TransactionContext,
  { id, project }: EditableSection,
  ids: readonly string[],
): Promise<void> => {
  const { taken } = await pipeline(tx.db, {
    lock: () => lockTaskRows(tx.db, { ids }),
    taken: () => takeOut(tx.db, { project_id: project.id, id, ids }),
  })
  const type = 'task.updated'
  const [before, after] = [{ section_id: id }, { section_id: null }]
  const events = taken.map(({ task_id, project_id, owner_id, assignee_id }) => {
    return { type, task_id, project_id, owner_id, assignee_id, before, after } as const
  })
  if (events.length > 0) await recordTaskEvents(tx, events)
}

const findLiveTask = builtStatement('sections.find_live_task', pathParameters, (db, p) =>
  db
    .select({ id: tasks.id })
    .from(tasks)
    .where(and(isInSection(p), isNull(tasks.deleted_at)))
    .limit(1),
)

/** Whether a locked section has tasks that are not in the trash. */
export const hasLiveTasks = async (
  { db }: TransactionContext,
  { id, project }: EditableSection,
): Promise<boolean> => (await findLiveTask(db, { project_id: project.id, id })).length > 0

const remove = rowDeletion('sections.delete', sections)

/** Deletes a section without tasks. */
export const removeSection = async ({ db }: TransactionContext, { id }: EditableSection): Promise<void> => {
  await remove(db, { id })
}
