import { found, missing, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { allowsProject, trashedProjectBranches } from './access/permissions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { ConstraintViolation } from './engine/errors.ts'
import { checkedOutcome, readOutcome } from './engine/outcome.ts'
import type { Placeholders } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { deletedAt, lastDeletedFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { projectColumns, type ProjectRow, rereadProject } from './projects.ts'
import { trashedProjectJson, trashedProjectVariant } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import type { TrashFilter } from './trash.ts'

const project = sql.raw('project')
const target = sql.raw('target')

/** A page of the projects in the trash that the caller may restore, most recently deleted first. */
export const selectTrashedProjects = (
  { db, principal }: OpContext<Principal>,
  filter: TrashFilter,
  page: PageRequest,
): Promise<Page> => {
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'trashed_projects',
      from: sql`projects item`,
      branches: (caller) => trashedProjectBranches(reader.role, caller),
      filters: [],
      sortFields: { deleted_at: deletedAt },
      order: lastDeletedFirst,
      json: trashedProjectJson,
    },
    reader,
    page,
  )
}

const selectOne = query(
  'trashed_projects.select',
  { id: 'uuid' },
  projectColumns,
  (p) => sql`
    select ${trashedProjectJson(project, p)} as json, version, ${trashedProjectVariant(project, p)} as variant
    from projects project where id = ${p.id} and ${allowsProject('project_trash.see', p, project)}`,
)

/** One project in the trash, if the caller may restore it. */
export const selectTrashedProject = async (ctx: OpContext, id: string): Promise<Outcome<ProjectRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

type TrashPermission = 'project_trash.restore' | 'project_trash.delete'

/** The common table expressions `target`, the locked row, and `checked`, the outcome. */
const checkedTarget = (
  p: Placeholders<{ id: 'uuid' }> & ContextPlaceholders,
  permission: TrashPermission,
): SQL => sql`
  target as (
    select * from projects project where id = ${p.id} and ${allowsProject('project_trash.see', p, project)} for update
  ), checked as (
    select id, ${checkedOutcome(p, {
      allowed: allowsProject(permission, p, target),
      etag: sql`${columnsOf<'projects'>(target).version}::text`,
    })} as outcome from target
  )`

const restore = query('trashed_projects.restore', { id: 'uuid' }, { outcome: 'text' }, (p) => {
  const manager = insertion<'project_members'>({
    project_id: sql`id`,
    user_id: p.caller,
    role: sql`'manager'`,
  })
  return sql`
    with ${checkedTarget(p, 'project_trash.restore')}, managed as (
      insert into project_members (${manager.columns}) select ${manager.values} from checked
      where outcome = 'done' and not exists (
        select from project_grants granted join users person on person.id = granted.user_id
        where granted.project_id = checked.id and granted.role = 'manager' and ${columnsOf<'users'>(sql`person`).deleted_at} is null)
      on conflict (project_id, user_id) do update set role = excluded.role
    ), restored as (
      update projects set ${assignments<'projects'>({ deleted_at: sql`null` })} from checked
      where projects.id = checked.id and checked.outcome = 'done'
    )
    select outcome from checked`
})

/** Restores a project, unless its only manager is deleted while the statement waits for its lock: it is then `missing`. */
const restoreUnlessLeft = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  try {
    const [row] = await restore(ctx, { id })
    return readOutcome(row)
  } catch (error) {
    if (error instanceof ConstraintViolation && error.constraint === 'projects_have_manager') return missing
    throw error
  }
}

/** Restores a project from the trash; triggers restore the access of its members. If it has no manager, the caller becomes one. */
export const restoreProject = async (ctx: OpContext, id: string): Promise<Outcome<ProjectRow>> => {
  const result = await restoreUnlessLeft(ctx, id)
  return result.outcome === 'done' ? rereadProject(ctx, id) : result
}

const remove = query(
  'trashed_projects.delete',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with ${checkedTarget(p, 'project_trash.delete')}, purged as (
      update projects set ${assignments<'projects'>({ purged_at: sql`now()` })} from checked
      where projects.id = checked.id and checked.outcome = 'done'
    )
    select outcome from checked`,
)

/** Deletes a project in the trash permanently. It disappears immediately; its content is deleted in batches (`purge.ts`). */
export const deleteTrashedProject = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
}
