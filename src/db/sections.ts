import { done, found, type Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsProject, seesProject } from './access/permissions.ts'
import { type ContextPlaceholders, type OpContext, withoutConditions } from './engine/context.ts'
import { type Created, creation, readCreation } from './engine/creation.ts'
import { DatabaseUnavailable, OutcomeUnknown } from './engine/errors.ts'
import { checkedOutcome, readChangedRow, readOutcome } from './engine/outcome.ts'
import { parameter, type Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { type Page, pageIfVisible, type PageRequest, selectPage } from './lists/list.ts'
import {
  type Destination,
  destinationOf,
  destinationParameters,
  gapColumns,
  gapFields,
  joinAnchor,
  joinGap,
  type OrderedList,
  type PlaceValues,
  placedRows,
  placeParameters,
  placeRow,
  refusalsOfPlace,
  rebalanceRows,
  windowColumns,
  windowFields,
} from './positions.ts'
import { isProjectVisible } from './projects.ts'
import { sectionJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

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

const project = sql.raw('project')
const section = sql.raw('section')
const { id, version, project_id } = columnsOf<'sections'>(section)

/** The sections of the project `project`. */
const sectionsOfProject: OrderedList = {
  table: sql`sections`,
  holds: (row) => sql`${columnsOf<'sections'>(row).project_id} = project.id`,
}

const pathParameters = { project_id: 'uuid', id: 'uuid' } as const

/** The section of the path, joined with its project, if the caller can see it; ends with a condition. */
const visibleSection = (p: Placeholders<typeof pathParameters> & ContextPlaceholders): SQL => sql`
  sections section join projects project on project.id = ${project_id}
  where ${id} = ${p.id} and ${project_id} = ${p.project_id} and ${allowsProject('project.see', p, project)}`

const selectOne = query(
  'sections.select',
  pathParameters,
  { json: 'text', version: 'int' },
  (p) => sql`select ${sectionJson(section)} as json, ${version} from ${visibleSection(p)}`,
)

/** One section, if the caller can see its project. */
export const selectSection = async (
  ctx: OpContext,
  { projectId, sectionId }: SectionPath,
): Promise<Outcome<SectionRow>> => {
  const [row] = await selectOne(ctx, { project_id: projectId, id: sectionId })
  return found(row)
}

/** A page of the sections of a project in their order, if the caller can see it. */
export const selectSections = async (
  ctx: OpContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Outcome<Page>> => {
  const projectParameter = parameter('project_id', 'uuid')
  const sections = await selectPage(
    ctx.db,
    {
      name: 'sections',
      from: sql`sections item`,
      branches: (caller) =>
        onlyBranch(
          sql`${columnsOf<'sections'>(sql`item`).project_id} = ${projectParameter} and ${seesProject(caller, projectParameter)}`,
        ),
      values: { project_id: projectId },
      filters: [],
      sortFields: {
        position: { value: sql`item.position`, type: 'text', isNullable: false, isIndexed: true },
      },
      order: [{ field: 'position', descending: false }],
      json: (row) => sectionJson(row),
    },
    ctx.principal,
    page,
  )
  return pageIfVisible(sections, () => isProjectVisible(ctx, projectId))
}

const moveParameters = { ...pathParameters, ...destinationParameters } as const

const selectGap = query('sections.select_gap', moveParameters, gapColumns, (p) => {
  return sql`
    select ${gapFields} from projects project ${joinGap(sectionsOfProject, p)}
    where project.id = ${p.project_id} and ${allowsProject('project.see', p, project)}`
})

const selectWindow = query(
  'sections.select_window',
  { ...moveParameters, size: 'int' },
  windowColumns,
  (p) => sql`
    select ${windowFields(sectionsOfProject, p, p.size)} from projects project ${joinAnchor(sectionsOfProject, p)}
    where project.id = ${p.project_id} and ${allowsProject('project.see', p, project)}`,
)

const rebalance = query('sections.rebalance', { moved: 'json' }, {}, (p) =>
  rebalanceRows(sql`sections`, p.moved),
)

/** The section of the path, locked, with the checks on its project. */
const lockSection = (p: Placeholders<typeof pathParameters> & ContextPlaceholders): SQL => sql`
  select section.*, ${columnsOf<'projects'>(project).archived_at} is not null as is_archived, ${allowsProject('project.edit', p, project)} as may_edit
  from ${visibleSection(p)} for no key update of section`

/** The rows that a place is checked against: the sections of the project, locked where the destination is. */
const lockNeighbours = (p: {
  readonly project_id: SQL
  readonly id: SQL
  readonly anchor: SQL
  readonly neighbours: SQL
}): SQL => sql`
  select ${id}, position from sections section
  where ${project_id} = ${p.project_id} and ${id} <> ${p.id} and (${id} = ${p.anchor}
    or ${id} in (select read.id from ${placedRows(p.neighbours)}))
  order by ${id} for no key update`

const writeParameters = { ...destinationParameters, ...placeParameters } as const

/** The refusals of a write to a section. Reads `neighbours`. */
const refusalsOfWrite = (
  p: Placeholders<typeof writeParameters>,
  { isArchived, isMoved }: { readonly isArchived: SQL; readonly isMoved: SQL },
): SQL => sql`
  when ${isArchived} then 'project_archived'
  when not ${isMoved} then 'done'
  when ${p.anchor} is not null and ${p.anchor} not in (select id from neighbours) then 'unknown_' || ${p.side}
  ${refusalsOfPlace(p, sql`neighbours`)}`

const readSectionOutcome = <R extends { readonly outcome: string }>(row: R | null | undefined): Outcome<R> =>
  row?.outcome === 'unknown_before' || row?.outcome === 'unknown_after'
    ? { outcome: 'unknown_reference', pointer: `/${row.outcome.slice('unknown_'.length)}`, kind: 'section' }
    : readOutcome(row)

const place = <R>(
  ctx: OpContext,
  projectId: string,
  destination: Destination,
  write: (place: (id: string) => Promise<PlaceValues & Destination>) => Promise<R>,
  outcomeOf: (written: R) => string | undefined,
): Promise<R> => {
  const move = { project_id: projectId, ...destination }
  return placeRow(destination.side, {
    readGap: async (sectionId) => (await selectGap(ctx, { ...move, id: sectionId }))[0],
    write: (placeOf) => write(async (sectionId) => ({ ...(await placeOf(sectionId)), ...destination })),
    outcomeOf,
    readWindow: async (sectionId, size) => (await selectWindow(ctx, { ...move, id: sectionId, size }))[0],
    rebalance: (moved) => rebalance(ctx, { moved }),
  })
}

/** The place of a section in a request. At most one field is set. */
interface SectionPlace {
  readonly before?: string
  readonly after?: string
}

/** The fields of a new section. */
export interface NewSection extends SectionPlace {
  readonly name: string
}

const insert = creation(
  'sections.insert',
  { ...writeParameters, project_id: 'uuid', name: 'text' },
  { outcome: 'text', json: 'text?' },
  (p) => {
    const { columns, values } = insertion<'sections'>({
      id: p.id,
      project_id: p.project_id,
      name: p.name,
      position: p.position,
    })
    const outcome = checkedOutcome(p, {
      allowed: allowsProject('project.edit', p, project),
      etag: null,
      refusals: refusalsOfWrite(p, {
        isArchived: sql`${columnsOf<'projects'>(project).archived_at} is not null`,
        isMoved: sql`true`,
      }),
    })
    return {
      parts: sql`
        neighbours as (
          ${lockNeighbours(p)}
        ), checked as (
          select ${outcome} as outcome from projects project
          where project.id = ${p.project_id} and ${allowsProject('project.see', p, project)}
        ), section as (
          insert into sections (${columns}) select ${values} from checked where outcome = 'done' returning *
        ), created as (
          select id, ${sectionJson(section)} as json from section
        )`,
      select: sql`select outcome, created.json from checked left join created on true`,
    }
  },
)

/** Creates a section, by default at the end. */
export const insertSection = async (
  ctx: OpContext<Principal>,
  projectId: string,
  { name, ...where }: NewSection,
): Promise<Outcome<Created>> => {
  const result = await place(
    ctx,
    projectId,
    destinationOf(where),
    (placeOf) => insert(ctx, async (newId) => ({ ...(await placeOf(newId)), project_id: projectId, name })),
    (written) => (written.replayed ? undefined : written.row?.outcome),
  )
  return readCreation(result, readSectionOutcome)
}

const change = query(
  'sections.update',
  { ...pathParameters, ...writeParameters, name: 'text?', is_moved: 'bool' },
  { outcome: 'text', json: 'text?', version: 'int?' },
  (p) => {
    const outcome = checkedOutcome(p, {
      allowed: sql`may_edit`,
      etag: sql`version::text`,
      refusals: refusalsOfWrite(p, { isArchived: sql`is_archived`, isMoved: p.is_moved }),
    })
    return sql`
      with neighbours as (
        ${lockNeighbours(p)}
      ), target as (
        ${lockSection(p)}
      ), checked as (
        select id, ${outcome} as outcome from target
      ), section as (
        update sections set ${assignments<'sections'>({
          name: sql`coalesce(${p.name}, sections.name)`,
          position: sql`case when ${p.is_moved} then ${p.position} else sections.position end`,
        })} from checked where sections.id = checked.id and outcome = 'done' returning sections.*
      )
      select outcome, ${sectionJson(section)} as json, section.version from checked left join section on true`
  },
)

/** A merge patch, which can also move the section. */
export type SectionPatch = Partial<NewSection>

/** Changes a section. */
export const updateSection = async (
  ctx: OpContext,
  { projectId, sectionId }: SectionPath,
  { name, ...where }: SectionPatch,
): Promise<Outcome<SectionRow>> => {
  const fields = { project_id: projectId, id: sectionId, name: name ?? null }
  const destination = destinationOf(where)
  const [row] =
    destination.side === 'end'
      ? await change(ctx, { ...fields, ...destination, is_moved: false, position: null, neighbours: {} })
      : await place(
          ctx,
          projectId,
          destination,
          async (placeOf) => change(ctx, { ...(await placeOf(sectionId)), ...fields, is_moved: true }),
          ([written]) => written?.outcome,
        )
  return readChangedRow(readSectionOutcome(row))
}

/** Tasks per statement; each takes up to a millisecond. */
const batch = 100

const remove = query(
  'sections.delete',
  { ...pathParameters, limit: 'int' },
  { outcome: 'text', has_more: 'bool' },
  (p) => {
    const task = columnsOf<'tasks'>(sql`tasks`)
    const outcome = checkedOutcome(p, {
      allowed: sql`may_edit`,
      etag: sql`version::text`,
      refusals: sql`when is_archived then 'project_archived'`,
    })
    return sql`
      with target as (
        ${lockSection(p)}
      ), checked as (
        select id, ${outcome} as outcome from target
      ), grouped as materialized (
        select ${task.id} from tasks, checked
        where ${task.project_id} = ${p.project_id} and ${task.section_id} = checked.id and outcome = 'done' limit ${p.limit} + 1
      ), emptied as (
        update tasks set ${assignments<'tasks'>({ section_id: sql`null` })}
        where ${task.id} in (select id from grouped limit ${p.limit}) and (select count(*) from grouped) > ${p.limit}
      ), deleted as (
        delete from sections using checked
        where sections.id = checked.id and outcome = 'done' and (select count(*) from grouped) <= ${p.limit}
      )
      select outcome, (select count(*) from grouped) > ${p.limit} as has_more from checked`
  },
)

/**
 * Deletes a section. Its tasks are taken out of it in batches, the last ones by a trigger. Once some are, there is no refusal that
 * would mean that nothing has changed: the ETag is not compared again, and an outage leaves the outcome unknown.
 */
export const deleteSection = async (
  ctx: OpContext,
  { projectId, sectionId }: SectionPath,
): Promise<Outcome<unknown>> => {
  const values = { project_id: projectId, id: sectionId, limit: batch }
  const [first] = await remove(ctx, values)
  let row = first
  try {
    while (row?.outcome === 'done' && row.has_more) [row] = await remove(withoutConditions(ctx), values)
  } catch (error) {
    if (error instanceof DatabaseUnavailable) throw new OutcomeUnknown({ cause: error })
    throw error
  }
  // Meanwhile, another request may have deleted the section.
  return row === undefined && first !== undefined ? done(null) : readOutcome(row)
}
