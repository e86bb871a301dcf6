import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { grantRole } from '../../db/projects/memberships.ts'
import {
  insertProject,
  lockProject,
  type ManagedProject,
  moveToTrash,
  type NewProject,
  type ProjectListQuery,
  type ProjectPatch,
  type ProjectRow,
  selectProject,
  selectProjects,
  setArchived,
  updateFields,
  viewProject,
} from '../../db/projects/rows.ts'
import { recordProjectEvent } from '../../db/shared/record-event.ts'
import { changedFields } from '../../domain/activity/changes.ts'
import { fieldConflicts } from '../../domain/shared/field-conflicts.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import { isEmptyMetadata } from '../../domain/shared/integration-fields.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { type OpContext, transaction, type OpTransaction } from '../shared/context.ts'
import {
  expectActive,
  expectFields,
  expectFound,
  expectMatch,
  expectMay,
  expectMayListAll,
  expectSeen,
} from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'
import { expectMetadata, metadataAfter } from '../shared/metadata.ts'

const fields = ['name', 'description', 'color', 'metadata', 'external_source', 'external_id'] as const

/** What an event says of a new project. */
const valuesOf = ({ color, metadata = {}, external_source, external_id, ...required }: NewProject) => ({
  ...required,
  ...(color != null && { color }),
  ...(!isEmptyMetadata(metadata) && { metadata }),
  ...(external_source != null && { external_source }),
  ...(external_id != null && { external_id }),
})

/** A page of the caller's projects. @throws Problem 403 */
export const listProjects = async (
  ctx: OpContext<Principal>,
  query: ProjectListQuery,
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, query)
  return selectProjects(ctx, query, page)
}

/** @throws Problem 404 */
export const getProject = async (ctx: OpContext<Principal>, id: string): Promise<ProjectRow> =>
  expectFound(await selectProject(ctx, id))

/** Creates a project, which the caller manages. */
export const createProject = (ctx: OpContext<Principal>, project: NewProject): Promise<Created> => {
  expectMetadata(project.metadata ?? {})
  const after = valuesOf(project)
  return idempotent(ctx, async (tx, id) => {
    await pipeline(tx.db, {
      project: () => insertProject(tx, id, project),
      event: () => recordProjectEvent(tx, 'project.created', id, { before: {}, after }),
      role: () => grantRole(tx, { projectId: id, userId: tx.principal.userId, role: 'manager' }),
    })
    return viewProject(tx, id)
  })
}

/**
 * A project that the caller manages, locked.
 *
 * @throws Problem 404, 403, 412
 */
const manage = async (
  tx: OpTransaction<Principal>,
  id: string,
  purpose: 'change' | 'close',
  expected: ProjectPatch = {},
): Promise<ManagedProject> => {
  const project = expectSeen('project.see', await lockProject(tx, id, purpose))
  const managed = expectMay('project.manage', project)
  expectFields(fieldConflicts<Required<ProjectPatch>>(expected, project))
  expectMatch(tx, project)
  return managed
}

/** Changes a project that is not archived, if its fields have the expected values. */
export const updateProject = (
  ctx: OpContext<Principal>,
  id: string,
  { expect = {}, metadata: sentMetadata, ...patch }: ProjectPatch & { readonly expect?: ProjectPatch },
  { replacesMetadata = false } = {},
): Promise<ProjectRow> => {
  expectMetadata(sentMetadata ?? {})
  expectMetadata(expect.metadata ?? {}, '/expect/metadata')
  return transaction(ctx, async (tx) => {
    const project = await manage(tx, id, 'change', expect)
    const after = { ...patch, metadata: metadataAfter(project.metadata, sentMetadata, replacesMetadata) }
    expectActive(project)
    const changes = changedFields(fields, project, after)
    if (changes !== null)
      await pipeline(tx.db, {
        fields: () => updateFields(tx, project, after),
        event: () => recordProjectEvent(tx, 'project.updated', id, changes),
      })
    return last(viewProject(tx, id))
  })
}

/** Archives or unarchives a project. Idempotent. */
export const setProjectArchived = (
  ctx: OpContext<Principal>,
  id: string,
  isArchived: boolean,
): Promise<ProjectRow> =>
  transaction(ctx, async (tx) => {
    const project = await manage(tx, id, 'close')
    if (isArchived !== (project.archived_at !== null))
      await pipeline(tx.db, {
        archived: () => setArchived(tx, project, isArchived),
        event: () => recordProjectEvent(tx, isArchived ? 'project.archived' : 'project.unarchived', id),
      })
    return last(viewProject(tx, id))
  })

/** The changes of projects that leave work to jobs. */
export interface Projects {
  /** Moves a project with its content to the trash, which ends the access of its members. @throws Problem 403, 404 or 412 */
  delete(ctx: OpContext<Principal>, id: string): Promise<void>
}

export const createProjects = ({ jobs }: { readonly jobs: Jobs }): Projects => ({
  delete: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const project = await manage(tx, id, 'close')
      await pipeline(tx.db, {
        project: () => moveToTrash(tx, project),
        event: () => recordProjectEvent(tx, 'project.deleted', id),
      })
      tx.afterCommit(() => jobs.wake('redeliver_tasks'))
    }),
})
