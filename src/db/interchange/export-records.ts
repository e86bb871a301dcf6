import type {
  AttachmentRecord,
  CommentRecord,
  ProjectRecord,
  RelationRecord,
  SectionRecord,
  TagRecord,
  UserRecord,
} from '../../interchange/records.ts'
import type { PlacedTask } from '../../interchange/spool.ts'
import type { Page } from '../../domain/shared/pages.ts'
import { localClient } from '../../domain/activity/audit.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import {
  allowsTask,
  branchesOfProjects,
  type CallerPlaceholders,
  projectBranches,
  seesProject,
  tagBranches,
  taskBranches,
} from '../access/permissions.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext } from '../statements/context.ts'
import { parameter } from '../statements/parameters.ts'
import { query, type StatementName } from '../statements/statement.ts'
import { type ListSource, newest, selectPage } from '../lists/list.ts'
import { type Fields, object, recurrenceJson, tagsOfTask } from '../shared/read-models.ts'
import { aliasedTable, type PgTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import {
  attachments,
  comments,
  projects,
  reminders,
  sections,
  tags,
  taskRelations,
  tasks,
  users,
} from '../schema/tables.ts'

/**
 * What an export has, as records, in batches: what the lists of its user would show at the moment when each batch is read. Lists are
 * read by their access branches, so that nothing grows with what others have.
 */

/** What is read: everything that a user sees, or one of their projects. */
export interface ExportScope {
  readonly userId: string
  readonly projectId: string | null
  /** Whether the user reads it themself: reminders are for nobody else. */
  readonly isOwn: boolean
}

const tag = aliasedTable(tags, 'tag')
const reminder = aliasedTable(reminders, 'reminder')
const section = aliasedTable(sections, 'section')
const comment = aliasedTable(comments, 'comment')
const relation = aliasedTable(taskRelations, 'relation')
const attachment = aliasedTable(attachments, 'attachment')
const person = aliasedTable(users, 'person')

const kind = <Kind extends string>(name: Kind): SQL<Kind> => sql`${sql.raw(`'${name}'`)}`

/** Records per statement: about 10 ms. */
const batchSize = 200

/** Owners and administrators read as members. */
const readerOf = ({ userId }: ExportScope): Principal => ({
  userId,
  role: 'member',
  timeZone: 'UTC',
  taskQuota: null,
  credential: { kind: 'shell' },
})

/** The context of statements that check what the user sees. */
const contextOf = (db: Database, scope: ExportScope): StatementContext<Principal> => ({
  db,
  principal: readerOf(scope),
  client: localClient(''),
})

async function* pagesOf<Table extends PgTable, R>(
  db: Database,
  scope: ExportScope,
  source: Omit<ListSource<'created_at', Table>, 'sortFields' | 'order'>,
): AsyncGenerator<readonly R[], void> {
  const request = { limit: batchSize, offset: 0, includeTotal: false }
  for (let position: Page['next'] = null, isFirst = true; isFirst || position !== null; isFirst = false) {
    const page: Page = await selectPage(db, { ...source, ...newest }, readerOf(scope), {
      ...request,
      position,
    })
    yield JSON.parse(page.items) as readonly R[]
    position = page.next
  }
}

const projectRecord = ({
  id,
  name,
  description,
  color,
  archived_at,
  created_at,
  metadata,
  external_source,
  external_id,
}: typeof projects): SQL =>
  object({
    type: kind('project'),
    id,
    name,
    description,
    color,
    archived_at,
    created_at,
    metadata,
    external_source,
    external_id,
  } satisfies Fields<ProjectRecord>)

/** The projects, newest first. */
export const readProjects = (db: Database, scope: ExportScope): AsyncIterable<readonly ProjectRecord[]> =>
  pagesOf(db, scope, {
    name: `export_projects${scope.projectId === null ? '' : ' of one'}`,
    table: projects,
    branches: (caller) =>
      scope.projectId === null
        ? projectBranches('member', caller)
        : [
            {
              select: (rows) =>
                rows(
                  sql`item.id = ${parameter('project_id', 'uuid')} and ${seesProject(caller, sql`item.id`)}`,
                ),
            },
          ],
    values: { project_id: scope.projectId },
    json: projectRecord,
  })

const tagRecord = ({ id, name, color, project_id }: typeof tags): SQL =>
  object({ type: kind('tag'), id, name, color, project_id } satisfies Fields<TagRecord>)

/** The tags that the user sees. */
export const readTags = (db: Database, scope: ExportScope): AsyncIterable<readonly TagRecord[]> =>
  pagesOf(db, scope, {
    name: 'export_tags',
    table: tags,
    branches: (caller) => tagBranches('member', caller),
    json: tagRecord,
  })

const reminderRecord = object({
  at: reminder.at,
  relative_to: reminder.relative_to,
  offset_minutes: reminder.offset_minutes,
  time_of_day: reminder.time_of_day,
  snoozed_until: reminder.snoozed_until,
})

const taskRecord = (task: typeof tasks, reminded: SQL | null): SQL =>
  object({
    type: kind('task'),
    id: task.id,
    title: task.title,
    description: task.description,
    status: task.status,
    priority: task.priority,
    start_at: task.start_at,
    start_on: task.start_on,
    due_at: task.due_at,
    due_on: task.due_on,
    completed_at: task.completed_at,
    owner_id: task.owner_id,
    assignee_id: task.assignee_id,
    project_id: task.project_id,
    section_id: task.section_id,
    parent_id: task.parent_id,
    tag_ids: sql<string[]>`array(select ${tag.id} from ${tagsOfTask(task)} order by ${tag.name_folded})`,
    reminders:
      reminded === null
        ? sql<[]>`'[]'::json`
        : sql<PlacedTask['reminders']>`(
            select coalesce(json_agg(json_strip_nulls(${reminderRecord}::json) order by ${reminder.id}), '[]') from reminders reminder
            where ${reminder.task_id} = ${task.id} and ${reminder.user_id} = ${reminded})`,
    recurrence: recurrenceJson(task),
    series_id: task.series_id,
    recurrence_anchor: task.recurrence_anchor,
    occurrence_number: task.occurrence_number,
    occurrence_at: task.occurrence_at,
    occurrence_on: task.occurrence_on,
    next_task_id: task.next_task_id,
    metadata: task.metadata,
    external_source: task.external_source,
    external_id: task.external_id,
    position: task.position,
    version: task.version,
    created_at: task.created_at,
    updated_at: task.updated_at,
  } satisfies Fields<PlacedTask>)

/** The tasks, newest first. */
export const readTasks = (db: Database, scope: ExportScope): AsyncIterable<readonly PlacedTask[]> => {
  const { projectId, isOwn } = scope
  return pagesOf(db, scope, {
    name: `export_tasks${projectId === null ? '' : ' of a project'}${isOwn ? ' with reminders' : ''}`,
    table: tasks,
    branches: (caller) =>
      projectId === null
        ? taskBranches('task.see', 'member', caller)
        : branchesOfProjects(parameter('project_ids', 'uuid[]'), 'member', caller),
    values: { project_ids: projectId === null ? [] : [projectId] },
    json: (row, { caller }) => taskRecord(row, isOwn ? caller : null),
  })
}

/** What belongs to some tasks or projects, in the order of `key`, after the row with the last key. */
const childQuery = (
  name: StatementName,
  {
    json,
    from,
    condition,
    key,
  }: {
    readonly json: SQL
    readonly from: SQL
    readonly condition: (p: ParentPlaceholders) => SQL
    readonly key: SQL
  },
) =>
  query(
    name,
    { ids: 'uuid[]', after: 'text' },
    { json: 'text', key: 'text' },
    (p) => sql`
      select ${json} as json, ${key} as key from ${from}
      where ${condition(p)} and ${key} > ${p.after} order by ${key} limit ${sql.raw(String(batchSize))}`,
  )

type ParentPlaceholders = Parameters<Parameters<typeof query<{ ids: 'uuid[]' }, { json: 'text' }>>[3]>[0]

/** Whether the user sees a task. OFFSET keeps the planner from joining all tasks first, which it does before they are analyzed. */
const stillSees = (caller: CallerPlaceholders, taskId: SQLWrapper): SQL =>
  sql`exists (select from tasks where ${tasks.id} = ${taskId} and ${allowsTask('task.see', caller, tasks)} offset 0)`

type ChildQuery = ReturnType<typeof childQuery>

/** Reads all of them. The key of the first row is after the empty text. */
async function* rowsOf<R>(
  db: Database,
  scope: ExportScope,
  ids: readonly string[],
  select: ChildQuery,
): AsyncGenerator<readonly R[], void> {
  const ctx = contextOf(db, scope)
  for (let after: string | undefined = ''; ids.length > 0 && after !== undefined;) {
    const rows: Awaited<ReturnType<ChildQuery>> = await select(ctx, { ids, after })
    yield rows.map(({ json }) => JSON.parse(json) as R)
    after = rows.length < batchSize ? undefined : rows.at(-1)?.key
  }
}

const selectSections = childQuery('export_records.select_sections', {
  json: object({
    type: kind('section'),
    id: section.id,
    project_id: section.project_id,
    name: section.name,
  } satisfies Fields<SectionRecord>),
  from: sql`sections section`,
  condition: (p) => sql`${section.project_id} = any(${p.ids}) and ${seesProject(p, section.project_id)}`,
  key: sql`(${section.project_id}::text || ${section.position} || ' ' || ${section.id}::text) collate "C"`,
})

/** The sections of projects, in their order. */
export const readSections = (
  db: Database,
  scope: ExportScope,
  projectIds: readonly string[],
): AsyncIterable<readonly SectionRecord[]> => rowsOf(db, scope, projectIds, selectSections)

const selectComments = childQuery('export_records.select_comments', {
  json: object({
    type: kind('comment'),
    id: comment.id,
    task_id: comment.task_id,
    author_id: comment.author_id,
    author_name: comment.author_name,
    body: comment.body,
    created_at: comment.created_at,
    edited_at: comment.edited_at,
  } satisfies Fields<CommentRecord>),
  from: sql`comments comment`,
  condition: (p) => sql`${comment.task_id} = any(${p.ids}) and ${stillSees(p, comment.task_id)}`,
  key: sql`${comment.id}::text`,
})

/** The comments on tasks, oldest first. */
export const readComments = (
  db: Database,
  scope: ExportScope,
  taskIds: readonly string[],
): AsyncIterable<readonly CommentRecord[]> => rowsOf(db, scope, taskIds, selectComments)

const selectRelations = childQuery('export_records.select_relations', {
  json: object({
    type: kind('relation'),
    task_id: relation.task_id,
    kind: sql<RelationRecord['kind']>`${relation.kind}`,
    other_task_id: relation.other_task_id,
    created_at: relation.created_at,
  } satisfies Fields<RelationRecord>),
  from: sql`task_relations relation`,
  condition: (p) =>
    sql`${relation.task_id} = any(${p.ids}) and ${stillSees(p, relation.task_id)} and ${stillSees(p, relation.other_task_id)}`,
  key: sql`${relation.id}::text`,
})

/** The relations of tasks to others that the user sees, each once. */
export const readRelations = (
  db: Database,
  scope: ExportScope,
  taskIds: readonly string[],
): AsyncIterable<readonly RelationRecord[]> => rowsOf(db, scope, taskIds, selectRelations)

/** An attachment, and where its file is stored. */
export interface StoredAttachment extends AttachmentRecord {
  readonly storage_key: string
  readonly sha256: string
  readonly size: number
}

const selectAttachments = childQuery('export_records.select_attachments', {
  json: object({
    type: kind('attachment'),
    id: attachment.id,
    task_id: attachment.task_id,
    file_name: attachment.file_name,
    content_type: attachment.content_type,
    size: attachment.size,
    sha256: attachment.sha256,
    uploaded_by: attachment.uploaded_by,
    created_at: attachment.created_at,
    entry: sql<null>`null`,
    url: sql<null>`null`,
    storage_key: attachment.storage_key,
  } satisfies Fields<StoredAttachment>),
  from: sql`attachments attachment`,
  condition: (p) => sql`${attachment.task_id} = any(${p.ids}) and ${stillSees(p, attachment.task_id)}`,
  key: sql`${attachment.id}::text`,
})

/** The attachments of tasks. */
export const readAttachments = (
  db: Database,
  scope: ExportScope,
  taskIds: readonly string[],
): AsyncIterable<readonly StoredAttachment[]> => rowsOf(db, scope, taskIds, selectAttachments)

const selectUsers = childQuery('export_records.select_users', {
  json: object({
    type: kind('user'),
    id: person.id,
    username: sql<string | null>`case when ${person.deleted_at} is null then ${person.username} end`,
    display_name: sql<string>`case when ${person.deleted_at} is null then ${person.display_name} else '' end`,
  } satisfies Fields<UserRecord>),
  from: sql`users person`,
  condition: (p) => sql`${person.id} = any(${p.ids})`,
  key: sql`${person.id}::text`,
})

/** The names of users; nothing else, and no name of those who were deleted. */
export const readUsers = (
  db: Database,
  scope: ExportScope,
  ids: readonly string[],
): AsyncIterable<readonly UserRecord[]> => rowsOf(db, scope, ids, selectUsers)
