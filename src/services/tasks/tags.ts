import type { TransactionContext } from '../../db/statements/context.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { lockProject } from '../../db/projects/rows.ts'
import type { EditableProject } from '../../db/tasks/sections.ts'
import {
  hideTag,
  insertTag,
  lockTag,
  selectTag,
  selectTags,
  type TagFilter,
  viewTag,
} from '../../db/tasks/tags.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import {
  expectActive,
  expectFound,
  expectKnown,
  expectMay,
  expectMayListAll,
  expectSeen,
  expectTag,
} from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** The fields of a request to create a tag. */
export interface TagRequest {
  readonly name: string
  readonly color?: string | null
  /** Null for a personal tag of the caller. */
  readonly project_id?: string | null
}

export interface Tags {
  /** @throws Problem 409 when the name is taken or the project is archived, 403, 422 */
  create(ctx: OpContext<Principal>, request: TagRequest): Promise<Created>
  /** Deletes a tag. The tasks that have it lose it. */
  delete(ctx: OpContext<Principal>, id: string): Promise<void>
}

export const createTags = ({ jobs }: { readonly jobs: Jobs }): Tags => ({
  create: (ctx, { name, color = null, project_id = null }) =>
    idempotent(ctx, async (tx, id) => {
      const project = project_id === null ? null : await editNamed(tx, project_id)
      const { view } = await pipeline(tx.db, {
        tag: () => insertTag(tx, id, { name, color, project }),
        view: () => viewTag(tx, id),
      })
      return view
    }),

  delete: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const seen = expectSeen('tag.see', await lockTag(tx, id))
      const tag = expectMay('tag.delete', seen)
      // A tag never changes, so its ETag is its id.
      expectTag(tx, tag.id)
      expectActive(tag)
      await hideTag(tx, tag)
      tx.afterCommit(() => jobs.wake('purge_deleted_rows'))
    }),
})

/** A page of the tags that the caller can see. @throws Problem 403 */
export const listTags = async (
  ctx: OpContext<Principal>,
  filter: TagFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, filter)
  return selectTags(ctx, filter, page)
}

/** @throws Problem 404 */
export const getTag = async (ctx: OpContext<Principal>, id: string): Promise<{ readonly json: string }> =>
  expectFound(await selectTag(ctx, id))

/**
 * A project that the body names and the caller may edit, locked.
 *
 * @throws Problem 422, 403, 409
 */
const editNamed = async (tx: TransactionContext<Principal>, id: string): Promise<EditableProject> => {
  const project = await lockProject(tx, id, 'use')
  const known = expectKnown('project.see', project, { pointer: '/project_id', kind: 'project' })
  const editable = expectMay('project.edit', known)
  expectActive(editable)
  return editable
}
