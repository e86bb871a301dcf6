import type { ImportOutcome, ImportResult } from '../../domain/interchange/imports.ts'
import type { ProjectRecord } from '../../interchange/records.ts'
import type { StoredRelation } from '../../domain/tasks/relations.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { type TaskFields } from '../../domain/tasks/fields.ts'
import { batchOf, countingStatement } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { anyOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow } from '../statements/row-statements.ts'
import { statement, type StatementName } from '../statements/statement.ts'
import { beginVisibility } from '../projects/redelivery.ts'
import { eq, type SQL, sql } from '../schema/drizzle.ts'
import { importRecords, importRows, tasks } from '../schema/tables.ts'
import { taskColumnNames, taskColumnsOfRow, taskRowsOf } from '../tasks/rows.ts'

/**
 * What imports make of records. Nobody sees new projects while they are filled (`filling_import_id`); when they are complete, they are
 * shown to the owner of the import.
 */

/** What a user's imports know of a record. */
export interface KnownRecord {
  readonly type: string
  readonly source_id: string
  /** The id of what was made, or will be. */
  readonly resource_id: string
  readonly is_made: boolean
  /** The import that has made it; null if it was deleted since. */
  readonly import_id: string | null
  /** The new project that it is in, or is. */
  readonly project_id: string | null
  /** Digests of what a task was last imported with; null for others. */
  readonly fields: Readonly<Record<string, string>> | null
}

const select = builtStatement(
  'import_records.select',
  { user_id: 'uuid', source: 'text', types: 'text[]', ids: 'text[]' },
  (db, p) =>
    db
      .select({
        type: importRecords.type,
        source_id: importRecords.source_id,
        resource_id: importRecords.resource_id,
        is_made: importRecords.is_made,
        import_id: importRecords.import_id,
        project_id: importRecords.project_id,
        fields: importRecords.fields,
      })
      .from(importRecords)
      .innerJoin(
        sql`(select distinct * from unnest(${p.types}, ${p.ids}) wanted (type, source_id)) wanted`,
        sql`${importRecords.user_id} = ${p.user_id} and ${importRecords.source} = ${p.source}
          and ${importRecords.type} = wanted.type and ${importRecords.source_id} = wanted.source_id`,
      ),
)

/** A record, by its type and its id in the file. */
export interface RecordKey {
  readonly type: string
  readonly id: string
}

/** What the caller's imports know of records. */
export const findRecords = async (
  { db, principal }: TransactionContext<Principal>,
  source: string,
  keys: readonly RecordKey[],
): Promise<readonly KnownRecord[]> =>
  keys.length === 0
    ? []
    : await select(db, {
        user_id: principal.userId,
        source,
        types: keys.map(({ type }) => type),
        ids: keys.map(({ id }) => id),
      })

const write = statement(
  'import_records.write',
  { user_id: 'uuid', source: 'text', records: 'json' },
  {},
  (p) => sql`
    insert into import_records (user_id, source, type, source_id, resource_id, is_made, import_id, project_id, fields)
    select ${p.user_id}, ${p.source}, row.type, row.source_id, row.resource_id, row.is_made, row.import_id, row.project_id, row.fields
    from jsonb_to_recordset(${p.records} -> 'rows') as row (
      type text, source_id text, resource_id uuid, is_made boolean, import_id uuid, project_id uuid, fields jsonb)
    on conflict (user_id, source, type, source_id) do update set is_made = excluded.is_made, import_id = excluded.import_id,
      project_id = excluded.project_id, fields = excluded.fields where not import_records.is_made`,
)

/** Writes what the caller's import has made, and the ids that it will use. */
export const writeRecords = async (
  { db, principal }: TransactionContext<Principal>,
  source: string,
  rows: readonly KnownRecord[],
): Promise<void> => {
  await write(db, { user_id: principal.userId, source, records: { rows } })
}

const updateFields = statement(
  'import_records.write_fields',
  { user_id: 'uuid', source: 'text', records: 'json' },
  {},
  (p) => sql`
    update import_records record set fields = row.fields
    from jsonb_to_recordset(${p.records} -> 'rows') as row (source_id text, fields jsonb)
    where record.user_id = ${p.user_id} and record.source = ${p.source} and record.type = 'task' and record.source_id = row.source_id`,
)

/** Writes what tasks were last imported with. */
export const writeFields = async (
  { db, principal }: TransactionContext<Principal>,
  source: string,
  rows: readonly { readonly source_id: string; readonly fields: Readonly<Record<string, string>> }[],
): Promise<void> => {
  if (rows.length > 0) await updateFields(db, { user_id: principal.userId, source, records: { rows } })
}

/** What became of a row. */
export interface WrittenRow {
  readonly number: number
  readonly outcome: ImportOutcome
  readonly type?: string
  readonly source_id?: string | null
  readonly part?: string | null
  readonly row?: number | null
  readonly field?: string | null
  readonly code?: string
  readonly message?: string
  readonly resource_id?: string
}

// A row that was written before an attempt was interrupted is the same, but for a task that was updated: it does not differ any more.
const insertRows = statement(
  'import_rows.write',
  { import_id: 'uuid', rows: 'json' },
  {},
  (p) => sql`
    insert into import_rows (import_id, number, outcome, type, source_id, part, row, field, code, message, resource_id)
    select ${p.import_id}, row.number, row.outcome, row.type, row.source_id, row.part, row.row, row.field, row.code, row.message, row.resource_id
    from jsonb_to_recordset(${p.rows} -> 'rows') as row (
      number int, outcome text, type text, source_id text, part text, row int, field text, code text, message text, resource_id uuid)
    on conflict (import_id, number) do update set
      outcome = case import_rows.outcome when 'updated' then 'updated' else excluded.outcome end, type = excluded.type, source_id = excluded.source_id,
      part = excluded.part, row = excluded.row, field = excluded.field, code = excluded.code, message = excluded.message,
      resource_id = excluded.resource_id`,
)

/** Writes what became of rows. */
export const writeRows = async (
  { db }: Pick<TransactionContext, 'db'>,
  importId: string,
  rows: readonly WrittenRow[],
): Promise<void> => {
  if (rows.length > 0) await insertRows(db, { import_id: importId, rows: { rows } })
}

const deleteRows = builtStatement('import_rows.delete', { import_id: 'uuid' }, (db, p) =>
  db.delete(importRows).where(eq(importRows.import_id, p.import_id)),
)

/** Deletes the rows of an import, which is read or run anew. */
export const removeRows = async (
  { db }: Pick<TransactionContext, 'db'>,
  { id }: { readonly id: string },
): Promise<void> => {
  await deleteRows(db, { import_id: id })
}

const count = statement(
  'import_rows.count',
  { import_id: 'uuid' },
  { created: 'int', updated: 'int', skipped: 'int', refused: 'int', undone: 'int', kept: 'int' },
  (p) => {
    const outcomeCount = (outcome: ImportOutcome) =>
      sql`count(*) filter (where outcome = ${sql.raw(`'${outcome}'`)})::int as ${sql.raw(outcome)}`
    return sql`
      select ${outcomeCount('created')}, ${outcomeCount('updated')}, ${outcomeCount('skipped')}, ${outcomeCount('refused')}, ${outcomeCount('undone')}, ${outcomeCount('kept')}
      from import_rows where import_id = ${p.import_id}`
  },
)

/** What became of the rows of an import. Those that are undone or kept were created. */
export const countRows = async (
  { db }: Pick<StatementContext, 'db'>,
  { id }: { readonly id: string },
): Promise<ImportResult> => {
  const { created, updated, skipped, refused, undone, kept } = expectRow(await count(db, { import_id: id }))
  return { created: created + undone + kept, updated, skipped, refused, undone, kept }
}

/** Times in files are never later than now. Null stays null, which `least` would leave out. */
const past = (column: string) =>
  sql.raw(`case when row.${column} is not null then least(row.${column}, now()) end`)

const insertProjects = statement(
  'imports.insert_projects',
  { projects: 'json', import_id: 'uuid' },
  {},
  (p) => sql`
    insert into projects (
      id, name, description, color, archived_at, metadata, external_source, external_id, created_at, deleted_at, filling_import_id)
    select row.id, row.name, row.description, row.color, ${past('archived_at')}, row.metadata, row.external_source, row.external_id,
      coalesce(${past('created_at')}, now()), now(), ${p.import_id}
    from jsonb_to_recordset(${p.projects} -> 'rows') as row (
      id uuid, name text, description text, color text, archived_at timestamptz, metadata jsonb, external_source text,
      external_id text, created_at timestamptz)`,
)

/** A new project, which is to be filled. */
export type ImportedProject = Omit<ProjectRecord, 'type'>

export const insertHiddenProjects = async (
  { db }: TransactionContext,
  rows: readonly ImportedProject[],
  importId: string,
): Promise<void> => {
  await insertProjects(db, { projects: { rows }, import_id: importId })
}

const insertSections = statement(
  'imports.insert_sections',
  { sections: 'json' },
  {},
  (p) => sql`
    insert into sections (id, project_id, name, position) select row.id, row.project_id, row.name, row.position
    from jsonb_to_recordset(${p.sections} -> 'rows') as row (id uuid, project_id uuid, name text, position text)`,
)

export interface ImportedSection {
  readonly id: string
  readonly project_id: string
  readonly name: string
  readonly position: string
}

export const insertImportedSections = async (
  { db }: TransactionContext,
  rows: readonly ImportedSection[],
): Promise<void> => {
  await insertSections(db, { sections: { rows } })
}

const findSections = statement(
  'imports.find_sections',
  { project_ids: 'uuid[]', names: 'text[]' },
  { id: 'text', project_id: 'text', name: 'text' },
  (p) => sql`
    select distinct on (project_id, name) id::text, project_id::text, name from sections
    where (project_id, name) in (select * from unnest(${p.project_ids}, ${p.names})) order by project_id, name, position, id`,
)

/** The first sections of projects that have these names. */
export const findSectionsNamed = (
  { db }: TransactionContext,
  wanted: readonly { readonly project_id: string; readonly name: string }[],
) =>
  findSections(db, {
    project_ids: wanted.map(({ project_id }) => project_id),
    names: wanted.map(({ name }) => name),
  })

/** When a task of a row was completed; null if it is not. */
const completedInRow = sql.raw(
  `case when row.status = 'done' then coalesce(least(row.completed_at, now()), now()) end`,
)

/** A task is created no later than it is completed: some files only have the day of one, or only the time of completion. */
const insertTasks = statement(
  'imports.insert_tasks',
  { tasks: 'json' },
  {},
  (p) => sql`
    insert into tasks (id, ${taskColumnNames}, subtask_count, open_subtask_count, created_at, completed_at)
    select row.id, ${taskColumnsOfRow}, row.subtasks, row.open_subtasks,
      least(row.created_at, now(), ${completedInRow}), ${completedInRow}
    from ${taskRowsOf(p.tasks, 'id uuid, subtasks int, open_subtasks int, created_at timestamptz, completed_at timestamptz')}`,
)

export interface ImportedTask extends TaskFields {
  readonly id: string
  readonly subtasks: number
  readonly open_subtasks: number
  readonly created_at: string | null
  readonly completed_at: string | null
}

export const insertImportedTasks = async (
  { db }: TransactionContext,
  rows: readonly ImportedTask[],
): Promise<void> => {
  await insertTasks(db, { tasks: { rows } })
}

const recordImported = statement(
  'events.record_imported',
  { ids: 'uuid[]', import_id: 'uuid' },
  {},
  (p) => sql`
    select count(record_event('task.imported', ${tasks.id}, ${tasks.project_id}, ${tasks.owner_id}, ${tasks.assignee_id},
      ${p.import_id}, '{}', '{}')::text) from tasks where ${tasks.id} = ${anyOf(p.ids)}`,
)

/** Begins the history of tasks. */
export const recordImportedTasks = async (
  { db }: TransactionContext,
  ids: readonly string[],
  importId: string,
): Promise<void> => {
  await recordImported(db, { ids, import_id: importId })
}

const insertComments = statement(
  'imports.insert_comments',
  { comments: 'json' },
  {},
  (p) => sql`
    insert into comments (id, task_id, author_id, author_name, body, created_at, edited_at)
    select row.id, row.task_id, row.author_id, row.author_name, row.body, coalesce(${past('created_at')}, now()), ${past('edited_at')}
    from jsonb_to_recordset(${p.comments} -> 'rows') as row (
      id uuid, task_id uuid, author_id uuid, author_name text, body text, created_at timestamptz, edited_at timestamptz)`,
)

export interface ImportedComment {
  readonly id: string
  readonly task_id: string
  readonly author_id: string | null
  readonly author_name: string | null
  readonly body: string
  readonly created_at: string | null
  readonly edited_at: string | null
}

export const insertImportedComments = async (
  { db }: TransactionContext,
  rows: readonly ImportedComment[],
): Promise<void> => {
  await insertComments(db, { comments: { rows } })
}

const insertRelation = statement(
  'imports.insert_relation',
  { id: 'uuid', from_id: 'uuid', kind: 'text', to_id: 'uuid', created_at: 'instant?' },
  { id: 'text' },
  (p) => sql`
    insert into task_relations (id, task_id, kind, other_task_id, created_at)
    values (${p.id}, ${p.from_id}, ${p.kind}, ${p.to_id}, coalesce(least(${p.created_at}, now()), now())) on conflict do nothing
    returning id::text`,
)

/** Relates two tasks that an import has made, and returns whether they were not related before. */
export const insertImportedRelation = async (
  { db }: TransactionContext,
  id: string,
  { taskId, kind, otherTaskId }: StoredRelation,
  createdAt: string | null,
): Promise<boolean> => {
  const rows = await insertRelation(db, {
    id,
    from_id: taskId,
    kind,
    to_id: otherTaskId,
    created_at: createdAt,
  })
  return rows.length > 0
}

const setColors = statement(
  'imports.color_tags',
  { tags: 'json' },
  {},
  (p) => sql`
    update tags set color = row.color from jsonb_to_recordset(${p.tags} -> 'rows') as row (id uuid, color text)
    where tags.id = row.id and row.color is not null`,
)

/** Gives tags that were created with these ids their colors. */
export const colorTags = async (
  { db }: TransactionContext,
  rows: readonly { readonly id: string; readonly color: string | null }[],
): Promise<void> => {
  await setColors(db, { tags: { rows } })
}

/** By how many what belongs to a task becomes more. */
export interface TaskGrowth {
  readonly id: string
  readonly subtasks: number
  readonly open_subtasks: number
  readonly comments: number
  readonly attachments: number
  readonly blockers: number
}

const grow = statement(
  'imports.grow_tasks',
  { tasks: 'json', import_id: 'uuid' },
  {},
  (p) => sql`
    with grown as (
      update tasks set subtask_count = subtask_count + row.subtasks, open_subtask_count = open_subtask_count + row.open_subtasks,
        comment_count = comment_count + row.comments, attachment_count = attachment_count + row.attachments,
        blocker_count = blocker_count + row.blockers, side_changes = side_changes + 1, updated_at = greatest(clock_timestamp(), tasks.created_at)
      from jsonb_to_recordset(${p.tasks} -> 'rows') as row (
        id uuid, subtasks int, open_subtasks int, comments int, attachments int, blockers int)
      where tasks.id = row.id returning tasks.id
    )
    update import_records record set version = record.version + 1 from grown
    where record.import_id = ${p.import_id} and record.type = 'task' and record.resource_id = grown.id`,
)

/** Counts what an import adds to tasks. Those that it has created itself stay untouched. */
export const addToCounts = async (
  { db }: TransactionContext,
  rows: readonly TaskGrowth[],
  importId: string,
): Promise<void> => {
  if (rows.length > 0) await grow(db, { tasks: { rows }, import_id: importId })
}

const selectHidden = statement(
  'imports.select_hidden_projects',
  { import_id: 'uuid', limit: 'int?' },
  { id: 'text' },
  (p) => sql`
    select id::text from projects where filling_import_id = ${p.import_id} and purged_at is null order by id limit ${p.limit} for update`,
)

const insertManagers = statement(
  'imports.insert_managers',
  { ids: 'uuid[]', user_id: 'uuid' },
  {},
  (p) => sql`
    insert into project_members (project_id, user_id, role) select id, ${p.user_id}, 'manager' from unnest(${p.ids}) project (id)`,
)

const restoreProjects = statement(
  'imports.show_projects',
  { ids: 'uuid[]', import_id: 'uuid' },
  {},
  (p) => sql`
    with shown as (
      update projects set deleted_at = null, filling_import_id = null, visible_in = pg_current_xact_id(), is_redelivering = true, version = version + 1
      where id = ${anyOf(p.ids)} returning id, version
    ), recorded as (
      update import_records record set version = shown.version from shown
      where record.import_id = ${p.import_id} and record.type = 'project' and record.resource_id = shown.id
    )
    select count(record_event('project.created', null, id, null, null, null, '{}', '{}')) as shown from shown`,
)

/** Few, because the projects are locked meanwhile. */
const shownAtOnce = 100

/**
 * Shows up to 100 new projects of an import to its owner, who manages them. Nobody is a member of them yet. Returns whether more may be
 * hidden.
 */
export const showProjects = async (
  { db, principal }: TransactionContext<Principal>,
  { id }: { readonly id: string },
): Promise<boolean> => {
  const hidden = await selectHidden(db, { import_id: id, limit: shownAtOnce })
  if (hidden.length === 0) return false
  const ids = hidden.map((project) => project.id)
  await pipeline(db, {
    managers: () => insertManagers(db, { ids, user_id: principal.userId }),
    projects: () => restoreProjects(db, { ids, import_id: id }),
    visibility: () => beginVisibility(db, ids),
  })
  return ids.length === shownAtOnce
}

const purge = statement(
  'imports.purge_projects',
  { ids: 'uuid[]', import_id: 'uuid' },
  {},
  (p) => sql`
    with purged as (update projects set purged_at = now() where id = ${anyOf(p.ids)} returning id)
    delete from import_records record using purged
    where record.import_id = ${p.import_id} and record.project_id = purged.id`,
)

/** Marks the new projects of an import that are not complete for deletion, so that they can be imported again. Returns their ids. */
export const purgeHiddenProjects = async (
  { db }: TransactionContext,
  { id }: { readonly id: string },
): Promise<readonly string[]> => {
  const ids = (await selectHidden(db, { import_id: id, limit: null })).map((project) => project.id)
  if (ids.length > 0) await purge(db, { ids, import_id: id })
  return ids
}

/** A statement that deletes up to 1,000 records of an import that meet a condition. */
const forgetting = (name: StatementName, condition: SQL) =>
  countingStatement(
    name,
    { import_id: 'uuid' },
    (p) => sql`
    delete from import_records where ${batchOf(importRecords, sql`${importRecords.import_id} = ${p.import_id} and ${condition}`, 1000)} returning 1`,
  )

const isInProject = (condition: SQL): SQL =>
  sql`exists (select from projects project where project.id = ${importRecords.project_id} and ${condition})`

const forgetInHidden = forgetting(
  'import_records.forget_hidden',
  sql`${importRecords.type} <> 'project' and ${isInProject(sql`project.filling_import_id = ${importRecords.import_id}`)}`,
)

/** Forgets up to 1,000 records in new projects that are not complete. Returns their number. */
export const forgetHidden = ({ db }: Pick<TransactionContext, 'db'>, importId: string): Promise<number> =>
  forgetInHidden(db, { import_id: importId })

// Until the tables are analyzed, the planner takes an import for a few rows, and would join by reading all of them for each row: these
// statements have scalar subqueries, and mark rows by the primary key.
const selectCreated = statement(
  'import_rows.select_created',
  { import_id: 'uuid', type: 'text', after: 'int', limit: 'int' },
  { id: 'text', number: 'int', resource_id: 'text' },
  (p) => sql`
    select row.id::text, row.number, row.resource_id::text from import_rows row
    where row.import_id = ${p.import_id} and row.outcome = 'created' and row.type = ${p.type} and row.number > ${p.after}
      and (
        select project.deleted_at from import_records record join projects project on project.id = record.project_id
        where record.import_id = row.import_id and record.type = row.type and record.resource_id = row.resource_id) is null
    order by row.number limit ${p.limit}`,
)

/** A row of the outcome `created`: undoing has not decided yet whether what it has created goes or stays. */
export interface CreatedRow {
  readonly id: string
  readonly number: number
  readonly resource_id: string
}

/** The rows of a type that have created something, parents before their subtasks. What is in the trash with its project is left out. */
export const selectCreatedRows = (
  { db }: Pick<StatementContext, 'db'>,
  {
    importId,
    type,
    after,
    limit,
  }: {
    readonly importId: string
    readonly type: 'project' | 'task'
    readonly after: number
    readonly limit: number
  },
): Promise<readonly CreatedRow[]> => selectCreated(db, { import_id: importId, type, after, limit })

const selectSections = statement(
  'import_rows.select_created_sections',
  { import_id: 'uuid' },
  { id: 'text', number: 'int', resource_id: 'text', project_id: 'text' },
  (p) => sql`
    select row.id::text, row.number, section.id::text as resource_id, section.project_id::text from import_rows row
      join sections section on section.id = row.resource_id
      join projects project on project.id = section.project_id and project.deleted_at is null
    where row.import_id = ${p.import_id} and row.outcome = 'created' and row.type = 'section' order by row.number`,
)

export interface CreatedSection extends CreatedRow {
  readonly project_id: string
}

/** The same for sections. */
export const selectCreatedSections = (
  { db }: Pick<StatementContext, 'db'>,
  importId: string,
): Promise<readonly CreatedSection[]> => selectSections(db, { import_id: importId })

/**
 * Whether a task is not as an import has created it. Its revision counts its comments, attachments and subtasks; neither the text of a
 * comment nor a relation. Relations to tasks that are being deleted permanently are not counted: they may be the import's own.
 */
const isTaskTouched = (importId: SQL): SQL => sql`((
    select record.version from import_records record
    where record.import_id = ${importId} and record.type = 'task' and record.resource_id = task.id) is distinct from task.version + task.side_changes
  or exists (select from comments comment where comment.task_id = task.id and comment.version > 1)
  or exists (
    select from task_relations relation where task.id in (relation.task_id, relation.other_task_id) and not coalesce((
      select record.is_made from import_records record
      where record.import_id = ${importId} and record.type = 'relation' and record.resource_id = relation.id), false)
      and not exists (
        select from tasks other join projects project on project.id = other.project_id
        where other.id in (relation.task_id, relation.other_task_id) and project.purged_at is not null)))`

const selectTouched = statement(
  'import_records.select_touched',
  { import_id: 'uuid', ids: 'uuid[]' },
  { id: 'text' },
  (p) => sql`
    select task.id::text from tasks task where task.id = ${anyOf(p.ids)} and ${isTaskTouched(p.import_id)}`,
)

/** Those of locked tasks that somebody has changed since an import has created them, or that it has not created. */
export const findTouchedTasks = async (
  { db }: TransactionContext,
  importId: string,
  ids: readonly string[],
): Promise<ReadonlySet<string>> =>
  new Set((await selectTouched(db, { import_id: importId, ids })).map(({ id }) => id))

const isTouched = statement(
  'imports.is_project_touched',
  { id: 'uuid', import_id: 'uuid', sections: 'uuid[]' },
  { is_touched: 'bool' },
  (p) => sql`
    select made.version is distinct from project.version
      or (select count(*) > 1 from memberships where project_id = project.id)
      or exists (
        select from sections section
        where section.project_id = project.id and (section.version > 1 or section.id <> all(${p.sections})))
      or exists (
        select from tasks task
        where task.project_id = project.id and (task.deleted_at is not null or ${isTaskTouched(p.import_id)}))
      as is_touched
    from projects project left join import_records made
      on made.import_id = ${p.import_id} and made.type = 'project' and made.resource_id = project.id
    where project.id = ${p.id}`,
)

/** Whether somebody has changed a locked project, its members, sections or tasks since an import has created it with these sections. */
export const isProjectTouched = async (
  { db }: TransactionContext,
  importId: string,
  { resource_id: id }: CreatedRow,
  sections: readonly string[],
): Promise<boolean> => expectRow(await isTouched(db, { id, import_id: importId, sections })).is_touched

const raiseRevisions = statement(
  'import_records.raise_revisions',
  { import_id: 'uuid', ids: 'uuid[]' },
  {},
  (p) => sql`
    update import_records set version = version + 1
    where import_id = ${p.import_id} and type = 'task' and resource_id = ${anyOf(p.ids)}`,
)

/** Undoing gives tasks a new revision when it takes subtasks from them, which is not a change by somebody. */
export const followRevisions = async (
  { db }: TransactionContext,
  importId: string,
  ids: readonly string[],
): Promise<void> => {
  if (ids.length > 0) await raiseRevisions(db, { import_id: importId, ids })
}

const markHidden = countingStatement(
  'import_rows.mark_hidden',
  { import_id: 'uuid' },
  (p) => sql`
    update import_rows set outcome = 'undone' where id in (
      select row.id from import_rows row
        join import_records record
          on record.import_id = row.import_id and record.type = row.type and record.resource_id = row.resource_id
        join projects project on project.id = record.project_id and project.filling_import_id = ${p.import_id}
      where row.import_id = ${p.import_id} and row.outcome = 'created'
      union all
      select row.id from import_rows row
        join sections section on row.type = 'section' and section.id = row.resource_id
        join projects project on project.id = section.project_id and project.filling_import_id = ${p.import_id}
      where row.import_id = ${p.import_id} and row.outcome = 'created' limit 1000)
    returning 1`,
)

/** Writes that up to 1,000 of the resources in new projects that are not complete are gone. Returns their number. */
export const markHiddenRows = ({ db }: Pick<TransactionContext, 'db'>, importId: string): Promise<number> =>
  markHidden(db, { import_id: importId })

const forgetOther = forgetting(
  'import_records.forget_undone',
  sql`(${importRecords.type} not in ('project', 'task') or ${isInProject(sql`project.deleted_at is not null`)}
    or exists (select from tasks task where task.id = ${importRecords.resource_id} and task.deleted_at is not null))`,
)

/** Forgets up to 1,000 records of what is in the trash again, so that they can be imported once more. Returns their number. */
export const forgetUndone = ({ db }: Pick<TransactionContext, 'db'>, importId: string): Promise<number> =>
  forgetOther(db, { import_id: importId })

/** Why something that an import has created stays when it is undone. */
export interface KeptReason {
  readonly code: 'changed' | 'not_allowed'
  readonly message: string
}

const mark = countingStatement(
  'import_rows.mark',
  { marks: 'json' },
  (p) => sql`
    update import_rows row set outcome = case when mark.code is null then 'undone' else 'kept' end, code = mark.code, message = mark.message
    from jsonb_to_recordset(${p.marks} -> 'rows') as mark (id uuid, code text, message text)
    where row.id = mark.id returning 1`,
)

/** Writes, by the ids of rows, what is gone again, and what stays and why. A reason of null: it is gone. Returns their number. */
export const markUndone = async (
  { db }: TransactionContext,
  marks: ReadonlyMap<string, KeptReason | null>,
): Promise<number> => {
  const rows = [...marks].map(([id, reason]) => {
    return { id, code: reason?.code ?? null, message: reason?.message ?? null }
  })
  return mark(db, { marks: { rows } })
}

const markRemaining = countingStatement(
  'import_rows.mark_remaining',
  { import_id: 'uuid' },
  () => sql`
    update import_rows row set outcome = case when other.is_there then 'kept' else 'undone' end,
      code = case when other.is_there then 'changed' end,
      message = case when other.is_there then 'What it belongs to stays.' end
    from other where row.id = other.id returning 1`,
  (p) => sql`
    live as not materialized (
      select task.id from tasks task left join projects project on project.id = task.project_id
      where task.deleted_at is null and project.deleted_at is null
    ), other as materialized (
      select id, case type
        when 'project' then exists (select from projects where id = resource_id and deleted_at is null)
        when 'section' then exists (
          select from sections section join projects project on project.id = section.project_id and project.deleted_at is null
          where section.id = resource_id)
        when 'task' then exists (select from live where live.id = resource_id)
        when 'comment' then exists (select from comments comment join live on live.id = comment.task_id where comment.id = resource_id)
        when 'attachment' then exists (
          select from attachments attachment join live on live.id = attachment.task_id where attachment.id = resource_id)
        else resource_id in (
          select relation.id from import_records record join task_relations relation on relation.task_id = record.resource_id
            join live on live.id = relation.task_id join tasks task on task.id = relation.other_task_id and task.deleted_at is null
          where record.import_id = ${p.import_id} and record.type = 'task')
        end as is_there
      from import_rows where import_id = ${p.import_id} and outcome = 'created' limit 1000
    )`,
)

/**
 * Writes of up to 1,000 rows that are still `created` whether what they have created is gone with what it belongs to, or stays with it.
 * Returns their number.
 */
export const markRemainingRows = (
  { db }: Pick<TransactionContext, 'db'>,
  importId: string,
): Promise<number> => markRemaining(db, { import_id: importId })
