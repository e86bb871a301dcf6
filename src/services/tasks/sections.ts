import type { TransactionContext } from '../../db/statements/context.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { type Destination, destinationOf } from '../../db/shared/positions.ts'
import { lockProject } from '../../db/projects/rows.ts'
import {
  type EditableProject,
  type EditableSection,
  findSectionPosition,
  insertSection,
  lockSection,
  removeSection,
  type SectionFacts,
  type SectionPath,
  type SectionRow,
  selectSection,
  selectSections,
  takeTasksOut,
  tasksInSection,
  tasksPerBatch,
  updateFields,
  viewSection,
} from '../../db/tasks/sections.ts'
import { changedFields } from '../../domain/activity/changes.ts'
import { fieldConflicts } from '../../domain/shared/field-conflicts.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction, type OpTransaction } from '../shared/context.ts'
import {
  expectActive,
  expectFields,
  expectFound,
  expectMatch,
  expectMay,
  expectSeen,
} from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** The place of a section in a request. At most one field is set. */
interface SectionPlace {
  readonly before?: string
  readonly after?: string
}

/** The fields of a new section. */
interface NewSection extends SectionPlace {
  readonly name: string
}

/** A merge patch, which can also move the section. */
type SectionPatch = Partial<NewSection>
type SectionExpectation = Pick<SectionPatch, 'name'>

/** A page of the sections of a project. @throws Problem 404 */
export const listProjectSections = async (
  ctx: OpContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Page> => expectFound(await selectSections(ctx, projectId, page))

/** @throws Problem 404 */
export const getSection = async (ctx: OpContext<Principal>, path: SectionPath): Promise<SectionRow> =>
  expectFound(await selectSection(ctx, path))

/**
 * The position of a section at its destination.
 *
 * @throws Problem 422 unless that is next to another section of the project
 */
const positionOf = async (
  tx: TransactionContext,
  project: EditableProject,
  id: string,
  destination: Destination,
): Promise<string> => {
  const position = await findSectionPosition(tx, project, id, destination)
  if (position === null) throw problems.unknownReference(`/${destination.side}`, 'section')
  return position
}

/** Creates a section, by default at the end. */
export const createSection = (
  ctx: OpContext<Principal>,
  projectId: string,
  { name, ...place }: NewSection,
): Promise<Created> => {
  return idempotent(ctx, async (tx, id) => {
    const project = expectSeen('project.see', await lockProject(tx, projectId, 'change'))
    const editable = expectMay('project.edit', project)
    expectActive(project)
    const position = await positionOf(tx, editable, id, destinationOf(place))
    const { view } = await pipeline(tx.db, {
      section: () => insertSection(tx, editable, id, { name, position }),
      view: () => viewSection(tx, { projectId, sectionId: id }),
    })
    return view
  })
}

/**
 * The locked section, if the caller may write it.
 *
 * @throws Problem 404, 403, 412, 409
 */
export const expectEditable = (
  tx: OpTransaction<Principal>,
  section: SectionFacts | null,
  expected: SectionExpectation = {},
): EditableSection => {
  if (section === null) throw problems.notFound()
  const project = expectSeen('project.see', section.project)
  const editable = expectMay('project.edit', project)
  expectFields(fieldConflicts<Required<SectionExpectation>>(expected, section))
  expectMatch(tx, section)
  expectActive(project)
  return { ...section, project: editable }
}

/** Renames a section, moves it, or both, if it has the expected name. */
export const updateSection = (
  ctx: OpContext<Principal>,
  path: SectionPath,
  { name, expect = {}, ...place }: SectionPatch & { readonly expect?: SectionExpectation },
): Promise<SectionRow> => {
  return transaction(ctx, async (tx) => {
    const section = expectEditable(tx, await lockSection(tx, path, 'change'), expect)
    const destination = destinationOf(place)
    const isMoved = destination.side !== 'end'
    const fields = {
      name: name ?? section.name,
      position: isMoved ? await positionOf(tx, section.project, section.id, destination) : section.position,
    }
    if (changedFields(['name', 'position'], section, fields) !== null) await updateFields(tx, section, fields)
    return last(viewSection(tx, path))
  })
}

/** Takes tasks out of a section, and deletes it if these are the last ones. Whether it is deleted. */
export const deleteIfEmptied = async (tx: TransactionContext, section: EditableSection): Promise<boolean> => {
  const tasks = await tasksInSection(tx, section)
  if (tasks.length === tasksPerBatch) {
    // A full batch: there may be more.
    await takeTasksOut(tx, section, tasks)
    return false
  }
  // The events of the tasks follow the deletion.
  await pipeline(tx.db, {
    tasks: () => takeTasksOut(tx, section, tasks),
    section: () => removeSection(tx, section),
  })
  return true
}

/**
 * Deletes a section. Its tasks are taken out of it in batches. Once some are, there is no refusal that would mean that nothing has
 * changed: what the caller was allowed to begin is finished, whatever they may do by then, and although the project is archived or moved
 * to the trash meanwhile. An outage leaves the outcome unknown. No job goes on then: what is left is a section with fewer tasks, which the
 * same request deletes.
 */
export const deleteSection = async (ctx: OpContext<Principal>, path: SectionPath): Promise<void> => {
  const begun = await transaction(ctx, async (tx) => {
    const section = expectEditable(tx, await lockSection(tx, path, 'delete'))
    return (await deleteIfEmptied(tx, section)) ? null : section
  })
  if (begun !== null) await finishDeletion(ctx, path, begun)
}

const finishDeletion = async (
  ctx: OpContext<Principal>,
  path: SectionPath,
  section: EditableSection,
): Promise<void> => {
  // Another request may have deleted it meanwhile.
  const deleteNext = () =>
    transaction(
      ctx,
      async (tx) => (await lockSection(tx, path, 'delete')) === null || deleteIfEmptied(tx, section),
    )
  while (!(await deleteNext()));
}
