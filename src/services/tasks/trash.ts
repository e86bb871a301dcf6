import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  lockTrashedMembers,
  lockTrashedProject,
  purgeProject,
  selectTrashedProject,
  selectTrashedProjects,
  takeFromTrash,
  type TrashedProjectFacts,
} from '../../db/tasks/project-trash.ts'
import { type ProjectRow, viewProject } from '../../db/projects/rows.ts'
import { recordProjectEvent } from '../../db/shared/record-event.ts'
import type { TaskRow } from '../../db/tasks/single.ts'
import { selectTrash, selectTrashedTask, type TrashFilter } from '../../db/tasks/trash.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Authorized, Principal } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectMayListAll, expectSeen } from '../shared/expectations.ts'
import { deleteTrashedTask } from './single.ts'

/** What changes the trash and leaves work to jobs. Deletions are permanent. */
export interface Trash {
  /** @throws Problem 403, 404, 409 or 412 */
  deleteTrashedTask(ctx: OpContext<Principal>, id: string): Promise<void>
  /** @throws Problem 403, 404 or 412 */
  deleteTrashedProject(ctx: OpContext<Principal>, id: string): Promise<void>
  /** Restores a project with its content. If nobody manages it any more, the caller does. @throws Problem 403, 404 or 412 */
  restoreProject(ctx: OpContext<Principal>, id: string): Promise<ProjectRow>
}

export const createTrash = ({ jobs }: { readonly jobs: Jobs }): Trash => ({
  async deleteTrashedTask(ctx, id) {
    await deleteTrashedTask(ctx, id)
    jobs.wake('remove_deleted_files')
  },

  deleteTrashedProject: (ctx, id) =>
    transaction(ctx, async (tx) => {
      await purgeProject(tx, await openTrashed(tx, id, 'project_trash.delete'))
      tx.afterCommit(() => jobs.wake('purge_deleted_rows'))
    }),

  restoreProject: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const { project } = await pipeline(tx.db, {
        trashedMembers: () => lockTrashedMembers(tx, id),
        project: () => openTrashed(tx, id, 'project_trash.restore'),
      })
      await takeFromTrash(tx, project)
      await recordProjectEvent(tx, 'project.restored', id)
      tx.afterCommit(() => jobs.wake('redeliver_tasks'))
      return last(viewProject(tx, id))
    }),
})

/** A page of the tasks in the trash. @throws Problem 403 */
export const listTrashedTasks = async (
  ctx: OpContext<Principal>,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, filter)
  return selectTrash(ctx, filter, page)
}

/** @throws Problem 404 */
export const getTrashedTask = async (ctx: OpContext<Principal>, id: string): Promise<TaskRow> =>
  expectFound(await selectTrashedTask(ctx, id))

/** A page of the projects in the trash. @throws Problem 403 */
export const listTrashedProjects = async (
  ctx: OpContext<Principal>,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, filter)
  return selectTrashedProjects(ctx, filter, page)
}

/** @throws Problem 404 */
export const getTrashedProject = async (ctx: OpContext<Principal>, id: string): Promise<ProjectRow> =>
  expectFound(await selectTrashedProject(ctx, id))

/**
 * A project in the trash on which the caller has the permission, locked.
 *
 * @throws Problem 404, 403, 412
 */
const openTrashed = async <P extends 'project_trash.restore' | 'project_trash.delete'>(
  tx: OpTransaction<Principal>,
  id: string,
  permission: P,
): Promise<Authorized<P, TrashedProjectFacts>> => {
  const project = expectSeen('project_trash.see', await lockTrashedProject(tx, id))
  const opened = expectMay(permission, project)
  expectMatch(tx, project)
  return opened
}
