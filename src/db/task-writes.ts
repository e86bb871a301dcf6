import { done, missing, type Outcome } from '../domain/outcome.ts'
import { allowsProject, allowsTag, allowsTask, allowsTaskTag } from './access/permissions.ts'
import { isInArchivedProject } from './access/access-relations.ts'
import type { ContextPlaceholders } from './engine/context.ts'
import { listOf } from './engine/conditions.ts'
import type { Created } from './engine/idempotency.ts'
import { type Checks, outcomeOfChecks, readOutcome, setActorAndReturnDone } from './engine/outcome.ts'
import { assignments, columnsOf, type ColumnValues, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'
import { listOfTask } from './schema/task-order.ts'

/**
 * Parts of the statements that write tasks: for one task, and for a batch of up to 500 items. Both share every rule.
 */

const task = sql.raw('task')

/** The version of a task as text, which If-Match is compared with. */
export const taskVersionText = (row: SQL): SQL => sql`${columnsOf<'tasks'>(row).version}::text`

/** The fields of a JSON object as SQL values; a missing field is null. */
const fieldsOf = (json: SQL) => ({
  title: sql`${json} ->> 'title'`,
  description: sql`${json} ->> 'description'`,
  status: sql`${json} ->> 'status'`,
  priority: sql`${json} ->> 'priority'`,
  start_at: sql`(${json} ->> 'start_at')::timestamptz`,
  start_on: sql`(${json} ->> 'start_on')::date`,
  due_at: sql`(${json} ->> 'due_at')::timestamptz`,
  due_on: sql`(${json} ->> 'due_on')::date`,
  owner_id: sql`(${json} ->> 'owner_id')::uuid`,
  assignee_id: sql`(${json} ->> 'assignee_id')::uuid`,
  project_id: sql`(${json} ->> 'project_id')::uuid`,
  section_id: sql`(${json} ->> 'section_id')::uuid`,
  parent_id: sql`(${json} ->> 'parent_id')::uuid`,
})

type Field = keyof ReturnType<typeof fieldsOf>

const dateFields = ['start_at', 'start_on', 'due_at', 'due_on'] as const
type DateField = (typeof dateFields)[number]

/**
 * A field's value after a merge patch: the value in the patch, or the current one if the patch does not have the field. A task that
 * leaves its project also leaves its section and its parent; a personal task that gets another owner leaves its parent.
 */
const patched = (patch: SQL, row: SQL) => {
  const values = fieldsOf(patch)
  const present = columnsOf<'tasks'>(row)
  const has = (field: Field): SQL => sql`${patch} ? ${sql.raw(`'${field}'`)}`
  const keeps = (field: 'project_id' | 'owner_id'): SQL =>
    sql`(not ${has(field)} or ${values[field]} is not distinct from ${present[field]})`
  const keepsPlace = sql`(${keeps('project_id')} and (${present.project_id} is not null or ${keeps('owner_id')}))`
  const isKept: Partial<Record<Field, SQL>> = { section_id: keeps('project_id'), parent_id: keepsPlace }
  return (field: Field): SQL => {
    const condition = isKept[field]
    const kept =
      condition === undefined ? present[field] : sql`case when ${condition} then ${present[field]} end`
    return sql`case when ${has(field)} then ${values[field]} else ${kept} end`
  }
}

/** The completion time: null unless the task is done; otherwise `before`, or now if `before` is null. */
const completedAt = (status: SQL, before: SQL): SQL =>
  sql`case when ${status} = 'done' then coalesce(${before}, clock_timestamp()) end`

type DateValues = (field: DateField) => SQL

/** Refusals of a request that sets both the time and the all-day date. */
const refusalsOfBothKinds = (sent: DateValues): SQL => sql`
  when ${sent('start_at')} is not null and ${sent('start_on')} is not null then 'start_twice'
  when ${sent('due_at')} is not null and ${sent('due_on')} is not null then 'due_twice'`

/**
 * Refusals of a due date before the start. A time and a day are compared by days in the owner's time zone. (Of the same kind, a
 * check constraint on the table compares them as well, for rows that are not written by the service.)
 */
const refusalsOfDueDate = (date: DateValues, owner: SQL, isMoved: SQL = sql`true`): SQL => {
  const { id, time_zone } = columnsOf<'users'>(sql.raw('users'))
  const zone = sql`(select ${time_zone} from users where ${id} = ${owner})`
  const isBeforeStart = sql`case
    when ${date('start_on')} is null and ${date('due_on')} is null then ${date('due_at')} < ${date('start_at')}
    else coalesce(${date('due_on')}, day_in_zone(${date('due_at')}, ${zone}))
      < coalesce(${date('start_on')}, day_in_zone(${date('start_at')}, ${zone})) end`
  return sql`
    when ${isMoved} and ${isBeforeStart}
      then case when ${date('due_on')} is null then 'due_at_before_start' else 'due_on_before_start' end`
}

/** Whether a patch changes a date. Other patches are never refused for dates, even if the owner's time zone has changed. */
const movesDate = (patch: SQL, row: SQL): SQL => {
  const present = columnsOf<'tasks'>(row)
  const values = dateFields.map(patched(patch, row))
  return sql`(${listOf(values)}) is distinct from (${listOf(dateFields.map((field) => present[field]))})`
}

/** The users with these ids, locked against deletion. */
const lockPeople = (ids: SQL): SQL =>
  sql`select id from users where id in (${ids}) and ${columnsOf<'users'>(sql`users`).deleted_at} is null order by id for key share`

/** The tags with these ids that the caller can see, locked against deletion. */
export const lockTags = (p: ContextPlaceholders, ids: SQL): SQL =>
  sql`select * from tags tag where id in (${ids}) and ${allowsTag('tag.see', p, sql`tag`)} order by id for key share`

/** The projects with these ids that the caller can see, locked against deletion, with the caller's permissions on them. */
export const lockProjects = (p: ContextPlaceholders, ids: SQL): SQL => {
  const project = sql.raw('project')
  const { id, archived_at } = columnsOf<'projects'>(project)
  return sql`
    select ${id}, ${archived_at} is not null as is_archived, ${allowsProject('project.edit', p, project)} as may_edit
    from projects project where ${id} in (${ids}) and ${allowsProject('project.see', p, project)}
    order by ${id} for key share`
}

/** The sections with these ids, locked against deletion. */
export const lockSections = (ids: SQL): SQL =>
  sql`select id, project_id from sections where id in (${ids}) order by id for key share`

/** The users, projects, sections and tags that a statement's items refer to, as queries of ids. */
interface References {
  readonly people: SQL
  readonly projects: SQL
  readonly sections: SQL
  readonly tags: SQL
}

/** The references of new tasks. Reads `creations`. */
export const referencesOfCreations: References = {
  people: sql`
  select owner_id from creations union select ${fieldsOf(sql`item`).assignee_id} from creations`,
  projects: sql`select project_id from creations`,
  sections: sql`select ${fieldsOf(sql`item`).section_id} from creations`,
  tags: sql`select unnest(tag_ids) from creations`,
}

/** The references of patches, except tags: rows of a relation with `patch`. */
export const referencesOfPatches = (from: SQL): Omit<References, 'tags'> => {
  const { owner_id, assignee_id, project_id, section_id } = fieldsOf(sql`patch`)
  return {
    people: sql`select ${owner_id} from ${from} union select ${assignee_id} from ${from}`,
    projects: sql`select ${project_id} from ${from}`,
    sections: sql`select ${section_id} from ${from}`,
  }
}

/**
 * The common table expressions `people`, `visible_projects`, `visible_sections` and `visible_tags`: the referenced rows that exist
 * and that the caller can see, locked against deletion. `checkedCreations`, `changeOutcome` and `joinUnknownTag` refuse references
 * to other rows.
 */
export const lockReferences = (
  p: ContextPlaceholders,
  { people, projects, sections, tags }: References,
): SQL => sql`people as (
        ${lockPeople(people)}
      ), visible_projects as (
        ${lockProjects(p, projects)}
      ), visible_sections as (
        ${lockSections(sections)}
      ), visible_tags as (
        ${lockTags(p, tags)}
      )`

const lockTasksIf = (condition: SQL, p: ContextPlaceholders, ids: SQL): SQL => sql`
  select * from tasks task where id in (${ids}) and ${allowsTask('task.see', p, task)} and ${condition}
  order by id for no key update`

/** The tasks with these ids that the caller can see, locked in id order. */
export const lockTasks = (p: ContextPlaceholders, ids: SQL): SQL => lockTasksIf(sql`true`, p, ids)

/** The same, after their trees. Reads `trees`. */
export const lockTasksOfTrees = (p: ContextPlaceholders, ids: SQL): SQL =>
  lockTasksIf(sql`(select are_locked from trees)`, p, ids)

/** The tasks whose trees a statement writes to, as queries of ids. */
interface TreeWrites {
  /** Written tasks, whose parents count them. */
  readonly tasks: SQL
  /** New parents. */
  readonly parents: SQL
  /** Tasks that are moved, or deleted, with their subtasks. */
  readonly roots: SQL
}

const noTasks = sql`select null::uuid where false`

/**
 * The common table expressions `trees`, which locks the trees that the statement writes to, and `visible_parents`, the new parents
 * that the caller can see.
 */
export const lockTrees = (
  p: ContextPlaceholders,
  { tasks = noTasks, parents = noTasks, roots = noTasks }: Partial<TreeWrites>,
): SQL => sql`
  trees as materialized (
    select lock_trees(array(${tasks}), array(${parents}), array(${roots})) as are_locked
  ), visible_parents as (
    ${lockTasksOfTrees(p, parents)}
  )`

/** The common table expression `subtasks`: whether the tasks with these ids have too many subtasks to move. */
export const checkSubtaskCount = (ids: SQL): SQL =>
  sql`subtasks as (select have_too_many_subtasks(array(${ids})) as are_too_many)`

/** The tree writes of patches: rows of a relation with `task_id` and `patch`. */
export const treesOfPatches = (from: SQL): TreeWrites => {
  const { parent_id } = fieldsOf(sql`patch`)
  return {
    tasks: sql`select task_id from ${from} where patch ?| array['status', 'owner_id', 'project_id', 'parent_id']`,
    parents: sql`select ${parent_id} from ${from} where ${parent_id} is not null`,
    roots: sql`select task_id from ${from} where patch ?| array['owner_id', 'project_id']`,
  }
}

/** The ids of parents of new tasks: rows of a relation with `item`. */
export const parentsOfCreations = (from: SQL): SQL => {
  const { parent_id } = fieldsOf(sql`item`)
  return sql`select ${parent_id} from ${from} where ${parent_id} is not null`
}

/** Whether an item references a user who is not in `people`. */
const isUnknown = (user: SQL): SQL => sql`${user} is not null and ${user} not in (select id from people)`

const unknownPeople = (owner: SQL, assignee: SQL): SQL => sql`
  when ${isUnknown(owner)} then 'unknown_owner'
  when ${isUnknown(assignee)} then 'unknown_assignee'`

/** The checks on the project that a task or tag is created in, or a task moved to. Reads `visible_projects`. */
export const targetProject = (id: SQL) => {
  const has = (condition: SQL): SQL =>
    sql`exists (select from visible_projects where visible_projects.id = ${id} and ${condition})`
  return {
    isUnknown: sql`(${id} is not null and not ${has(sql`true`)})`,
    isForbidden: has(sql`not may_edit`),
    isArchived: has(sql`is_archived`),
  }
}

/** Whether a section does not belong to the project. Reads `visible_sections`; an invisible project is refused elsewhere. */
const isUnknownSection = (section: SQL, project: SQL): SQL =>
  sql`${section} is not null and not exists (
    select from visible_sections where visible_sections.id = ${section} and visible_sections.project_id = ${project})`

interface TargetCheck {
  /** The project after the change. */
  readonly project: SQL
  /** The section that the request names; null for none. */
  readonly section: SQL
  readonly isMove: SQL
  readonly target: ReturnType<typeof targetProject>
}

/** Refusals of the project and the section that a change puts a task into. */
const refusalsOfTarget = ({ project, section, isMove, target }: TargetCheck): SQL => sql`
  when ${isMove} and ${target.isArchived} then 'project_archived'
  when ${isMove} and ${target.isUnknown} then 'unknown_project'
  when ${isUnknownSection(section, project)} then 'unknown_section'`

/** Whether two tasks are in the same place: a project, or the personal tasks of one owner. */
export const isSamePlace = (one: Place, other: Place): SQL => sql`${listOfTask(one)} = ${listOfTask(other)}`

type Place = Parameters<typeof listOfTask>[0]

interface ParentCheck {
  readonly id: SQL
  /** The parent that the request names; null for none. */
  readonly parent: SQL
  /** Whether the request sets the place or the parent of the task. */
  readonly isPlaced: SQL
  /** The place of the task after the change. */
  readonly place: Place
}

/** Refusals of a parent. Reads `visible_parents`. */
const refusalsOfParent = ({ id, parent, isPlaced, place }: ParentCheck): SQL => {
  const isNamed = sql`${parent} is not null and ${isPlaced}`
  const inPlace = isSamePlace(columnsOf<'tasks'>(sql`parent`), place)
  return sql`
    when ${isNamed} and ${parent} not in (select id from visible_parents) then 'unknown_parent'
    when ${isNamed} and not exists (select from visible_parents parent where parent.id = ${parent} and ${inPlace})
      then 'parent_elsewhere'
    when ${isNamed} and parent_refusal(${id}, ${parent}) is not null then parent_refusal(${id}, ${parent})`
}

/** Refuses a change that would move more subtasks than one statement should write. Reads `subtasks`. */
const refusalOfSubtasks = (row: SQL, leaves: SQL): SQL => {
  const { subtask_count } = columnsOf<'tasks'>(row)
  return sql`when ${leaves} and ${subtask_count} > 0 and (select are_too_many from subtasks) then 'too_many_subtasks'`
}

/**
 * The new tasks in `from`, for `creations`: `id`, `item`, `owner_id`, `project_id` (by default, that of the parent), and other
 * columns. Reads `visible_parents`.
 */
export const creationsOf = (from: SQL): SQL => {
  const { project_id, parent_id } = fieldsOf(sql`item`)
  return sql`
    select new_task.*, case when item ? 'project_id' then ${project_id} else parent.project_id end as project_id
    from (${from}) new_task left join visible_parents parent on parent.id = ${parent_id}`
}

/** The tags that a merge patch sets: sorted, without duplicates; null if it does not have them. */
export const tagsInPatch = (patch: SQL): SQL => sql`case when ${patch} ? 'tag_ids' then array(
  select distinct value::uuid from jsonb_array_elements_text(${patch} -> 'tag_ids') order by 1) end`

/** Joins `unknown`: one of the tags that the caller cannot see, if any. Reads `visible_tags`. */
export const joinUnknownTag = (tagIds: SQL): SQL => sql`
  left join lateral (
    select tag_id::text as unknown_tag from unnest(${tagIds}) labels (tag_id)
    where tag_id not in (select id from visible_tags) limit 1
  ) unknown on true`

/**
 * The rows of `creations` (`id`, `item`, `owner_id`, `project_id`, `tag_ids`, `tag_names`) with their outcomes. Reads what
 * `lockReferences` and `lockTrees` have locked.
 */
export const checkedCreations = (p: ContextPlaceholders): SQL => {
  const fields = fieldsOf(sql`item`)
  const project = targetProject(sql`project_id`)
  return sql`
    select creations.*, unknown_tag, case
      ${refusalsOfBothKinds((field) => fields[field])}
      ${refusalsOfDueDate((field) => fields[field], sql`owner_id`)}
      when ${project.isUnknown} then 'unknown_project'
      when owner_id <> ${p.caller} and not ${allowsTask('task.create_for_another', p, sql`creations`)} then 'forbidden'
      when ${project.isForbidden} then 'forbidden'
      when ${project.isArchived} then 'project_archived'
      when ${isUnknownSection(fields.section_id, sql`creations.project_id`)} then 'unknown_section'
      ${refusalsOfParent({
        id: sql`creations.id`,
        parent: fields.parent_id,
        isPlaced: sql`true`,
        place: { project_id: sql`creations.project_id`, owner_id: sql`creations.owner_id` },
      })}
      when unknown_tag is not null then 'unknown_tag'
      ${unknownPeople(sql`owner_id`, fields.assignee_id)}
      else ${setActorAndReturnDone(p)} end as outcome
    from creations ${joinUnknownTag(sql`tag_ids`)}`
}

/** Inserts the tasks of creations; `from` may include a WHERE clause. */
export const insertTasks = (from: SQL): SQL => {
  const { owner_id: _, ...fields } = fieldsOf(sql`item`)
  const { columns, values } = insertion<'tasks'>({
    id: sql`id`,
    ...fields,
    project_id: sql`project_id`,
    position: sql`item ->> 'position'`,
    completed_at: completedAt(fields.status, sql`now()`),
    owner_id: sql`owner_id`,
  })
  return sql`insert into tasks (${columns}) select ${values} from ${from}`
}

/**
 * The common table expression `named_tags`: the tags for the `tag_names` of the new tasks `creation` in `from`. A task in a project
 * gets tags of the project, a personal task tags of the caller. Missing tags are created; if another statement creates the same tag
 * concurrently, that tag is used.
 */
export const createNamedTags = (p: ContextPlaceholders, from: SQL): SQL => {
  const { columns, values } = insertion<'tags'>({
    id: sql`id`,
    name: sql`name`,
    canonical_name: sql`canonical_name`,
    owner_id: p.caller,
    project_id: sql`project_id`,
  })
  const update = assignments<'tags'>({ canonical_name: sql`excluded.canonical_name` })
  return sql`
    labels as (
      select distinct on (project_id, label.canonical_name) creation.project_id, label.*
      from ${from}, jsonb_to_recordset(tag_names) as label (id uuid, name text, canonical_name text)
      order by project_id, label.canonical_name
    ), own_tags as (
      select * from tags
      where owner_id = ${p.caller} and project_id is null and deleted_at is null
        and canonical_name in (select canonical_name from labels where project_id is null)
      order by id for key share
    ), project_tags as (
      select * from tags
      where deleted_at is null
        and (project_id, canonical_name) in (select project_id, canonical_name from labels where project_id is not null)
      order by id for key share
    ), new_own_tags as (
      insert into tags (${columns}) select ${values} from labels
      where project_id is null and canonical_name not in (select canonical_name from own_tags) order by canonical_name
      on conflict (owner_id, canonical_name) where deleted_at is null and project_id is null do update set ${update}
      returning *
    ), new_project_tags as (
      insert into tags (${columns}) select ${values} from labels
      where project_id is not null
        and (project_id, canonical_name) not in (select project_id, canonical_name from project_tags)
      order by project_id, canonical_name
      on conflict (project_id, canonical_name) where deleted_at is null and project_id is not null do update set ${update}
      returning *
    ), named_tags as (
      select * from own_tags union all select * from project_tags
      union all select * from new_own_tags union all select * from new_project_tags
    )`
}

/** Inserts the tags of the new tasks in `from`. Reads `named_tags`. */
export const insertTagsOfTasks = (from: SQL): SQL => {
  const { columns } = insertion<'task_tags'>({ task_id: sql`id`, tag_id: sql`tag_id` })
  return sql`
    insert into task_tags (${columns}) select creation.id, tag_id from (select * from ${from}) creation, lateral (
      select unnest(tag_ids) union
      select named.id from jsonb_to_recordset(tag_names) as label (canonical_name text)
        join named_tags named
          on named.canonical_name = label.canonical_name and named.project_id is not distinct from creation.project_id
    ) labels (tag_id)`
}

/**
 * The outcome of a write to the row `task`, or to what belongs to it: its tags, attachments and uploads. Every write to a task
 * in an archived project is refused here.
 */
export const outcomeOfTaskWrite = (
  p: Pick<ContextPlaceholders, 'if_none_match' | 'caller'>,
  row: SQL,
  { refusals = sql``, ...checks }: Checks & { readonly ifMatch: SQL },
): SQL =>
  outcomeOfChecks(p, {
    ...checks,
    refusals: sql`when ${isInArchivedProject(row)} then 'project_archived' ${refusals}`,
  })

interface PatchCheck {
  readonly patch: SQL
  readonly ifMatch: SQL
}

/**
 * The outcome of a merge patch of a row that the caller can see. Reads what `lockReferences` and `lockTrees` have locked, `subtasks`
 * (`checkSubtaskCount`), and `unknown` (`joinUnknownTag`).
 */
export const changeOutcome = (p: ContextPlaceholders, row: SQL, { patch, ifMatch }: PatchCheck): SQL => {
  const sent = fieldsOf(patch)
  const { owner_id: owner, assignee_id: assignee } = sent
  const value = patched(patch, row)
  const {
    id,
    owner_id: presentOwner,
    project_id: presentProject,
    section_id: presentSection,
    parent_id: presentParent,
  } = columnsOf<'tasks'>(row)
  const isTransfer = sql`coalesce(${owner} <> ${presentOwner}, false)`
  const isMove = sql`(${value('project_id')} is distinct from ${presentProject})`
  const isReparented = sql`${value('parent_id')} is distinct from ${presentParent}`
  const isRegrouped = sql`(${isMove} or ${isReparented} or ${value('section_id')} is distinct from ${presentSection})`
  const place = { project_id: value('project_id'), owner_id: value('owner_id') }
  const leavesPlace = sql`not ${isSamePlace(place, columnsOf<'tasks'>(row))}`
  const target = targetProject(sent.project_id)
  return outcomeOfTaskWrite(p, row, {
    allowed: sql`${allowsTask('task.change', p, row)}
      and (not ${isTransfer} or ${allowsTask('task.transfer', p, row)})
      and (not ${isRegrouped} or ${allowsTask('task.move', p, row)})
      and not (${isMove} and ${target.isForbidden})`,
    etag: taskVersionText(row),
    ifMatch,
    refusals: sql`
      ${refusalsOfBothKinds((field) => sent[field])}
      ${refusalsOfDueDate(value, value('owner_id'), movesDate(patch, row))}
      ${refusalsOfTarget({ project: value('project_id'), section: sent.section_id, isMove, target })}
      ${refusalsOfParent({ id, parent: sent.parent_id, isPlaced: sql`(${isReparented} or ${leavesPlace})`, place })}
      when unknown_tag is not null then 'unknown_tag'
      ${unknownPeople(owner, assignee)}
      ${refusalOfSubtasks(row, leavesPlace)}`,
  })
}

interface MoveCheck extends Pick<TargetCheck, 'project' | 'section'> {
  readonly refusals: SQL
}

/** The outcome of moving a row that the caller can see. Reads `visible_projects`, `visible_sections` and `subtasks`. */
export const outcomeOfMove = (
  p: ContextPlaceholders,
  row: SQL,
  { project, section, refusals }: MoveCheck,
): SQL => {
  const isMove = sql`(${project} is distinct from ${columnsOf<'tasks'>(row).project_id})`
  const target = targetProject(project)
  return outcomeOfTaskWrite(p, row, {
    allowed: sql`${allowsTask('task.move', p, row)} and not (${isMove} and ${target.isForbidden})`,
    etag: taskVersionText(row),
    ifMatch: p.if_match,
    refusals: sql`
      ${refusalsOfTarget({ project, section, isMove, target })}
      ${refusalOfSubtasks(row, isMove)}
      ${refusals}`,
  })
}

/** The outcome of moving a row that the caller can see to the trash. Reads `subtasks`. */
export const deletionOutcome = (p: ContextPlaceholders, row: SQL, ifMatch: SQL): SQL =>
  outcomeOfTaskWrite(p, row, {
    allowed: allowsTask('task.delete', p, row),
    etag: taskVersionText(row),
    ifMatch,
    refusals: refusalOfSubtasks(row, sql`true`),
  })

/** The outcome of adding a tag to a row that the caller can see. Reads `visible_tags`. */
export const linkOutcome = (p: ContextPlaceholders, row: SQL, tagId: SQL): SQL => {
  const allowed = allowsTaskTag('task_tag.change', p, row)
  const isLinked = sql`exists (
    select from task_tags where task_id = ${columnsOf<'tasks'>(row).id} and tag_id = ${tagId})`
  return sql`case when ${tagId} not in (select id from visible_tags) then 'missing'
    else ${outcomeOfTaskWrite(p, row, { allowed, etag: null, exists: isLinked, ifMatch: sql`null` })} end`
}

/** The outcome of removing a tag from a row that the caller can see. A tag that it does not have is `missing`. */
export const unlinkOutcome = (
  p: ContextPlaceholders,
  row: SQL,
  { isLinked, ifMatch }: { readonly isLinked: SQL; readonly ifMatch: SQL },
): SQL => {
  const allowed = allowsTaskTag('task_tag.change', p, row)
  return sql`case when not ${isLinked} then 'missing'
    else ${outcomeOfTaskWrite(p, row, { allowed, etag: taskVersionText(row), ifMatch })} end`
}

const changeableFields = [
  'title',
  'description',
  'status',
  'priority',
  ...dateFields,
  'owner_id',
  'assignee_id',
  'project_id',
  'section_id',
  'parent_id',
] as const satisfies readonly Field[]

/** Whether a merge patch changes a field of a row. */
export const patchChanges = (patch: SQL, row: SQL): SQL => {
  const values = fieldsOf(patch)
  const present = columnsOf<'tasks'>(row)
  const changes = changeableFields.map(
    (field) =>
      sql`(${patch} ? ${sql.raw(`'${field}'`)} and ${values[field]} is distinct from ${present[field]})`,
  )
  return sql`(${sql.join(changes, sql` or `)})`
}

/** The fields of a row after a merge patch, as columns with their names. */
export const patchedFields = (patch: SQL, row: SQL): SQL => {
  const value = patched(patch, row)
  return sql.join(
    changeableFields.map((field) => sql`${value(field)} as ${sql.raw(field)}`),
    sql`, `,
  )
}

/** Adds the section and the parent after a move to the patch, so that merging later patches does not change them. */
export const withPlace = (patch: SQL, row: SQL): SQL => {
  const value = patched(patch, row)
  return sql`${patch} || case when ${patch} ?| array['owner_id', 'project_id'] then
    jsonb_build_object('section_id', ${value('section_id')}, 'parent_id', ${value('parent_id')}) else '{}' end`
}

/**
 * An update of the tasks `task` by merge patches: rows `change` with `id`, `patch`, and the columns that `columns` uses. A patch with
 * a project also has the `position` in it.
 */
interface TaskUpdate {
  readonly from: SQL
  readonly condition: SQL
  /** The completion time before the change. */
  readonly completedBefore: SQL
  /** Columns that are not in patches. */
  readonly columns: ColumnValues<'tasks'>
}

export const updateTasks = ({ from, condition, completedBefore, columns }: TaskUpdate): SQL => {
  const value = patched(sql`change.patch`, task)
  const present = columnsOf<'tasks'>(task)
  const changed = assignments<'tasks'>({
    title: value('title'),
    description: value('description'),
    status: value('status'),
    priority: value('priority'),
    start_at: value('start_at'),
    start_on: value('start_on'),
    due_at: value('due_at'),
    due_on: value('due_on'),
    owner_id: value('owner_id'),
    assignee_id: value('assignee_id'),
    project_id: value('project_id'),
    section_id: value('section_id'),
    parent_id: value('parent_id'),
    position: sql`case when ${value('project_id')} is not distinct from ${present.project_id} then ${present.position}
      else change.patch ->> 'position' end`,
    completed_at: completedAt(value('status'), completedBefore),
    ...columns,
  })
  return sql`update tasks task set ${changed} from ${from} where task.id = change.id and ${condition}`
}

/** A query that replaces the tags of tasks: rows with `task_id` and `tag_ids`, sorted. It has one row. */
export const replaceTags = (replacements: SQL): SQL => sql`
  select replace_task_tags(jsonb_agg(to_jsonb(replacement)))::text as done from (${replacements}) replacement`

/** Increments the version of the tasks in `ids`. */
export const touchTasks = (ids: SQL): SQL => sql`
  update tasks task set ${assignments<'tasks'>({ version: sql`task.version + 1` })} where id in (${ids})`

/**
 * The version of a locked task after a trigger on another table has incremented it. The trigger runs at the end of the statement,
 * so the statement itself reads the earlier version.
 */
export const versionAfterTrigger = (row: SQL): SQL => sql`${columnsOf<'tasks'>(row).version} + 1`

/** A resource that was added to a task, and the new version of the task. */
export interface AddedToTask extends Created {
  readonly taskVersion: number
}

/** What is stored as the response to adding something to a task: the JSON text of the resource, and the column `task_version`. */
export const addedToTask = (json: SQL): SQL =>
  sql`json_build_object('task_version', task_version, 'added', ${json})::text`

/** The same text as `addedToTask`. */
export const additionText = ({ json, taskVersion }: Pick<AddedToTask, 'json' | 'taskVersion'>): string =>
  JSON.stringify({ task_version: taskVersion, added: json })

/** The result of adding something to a task, whose response has that text. */
export const parseAddition = ({ json, ...created }: Created): AddedToTask => {
  const { added, task_version: taskVersion } = JSON.parse(json) as {
    readonly added: string
    readonly task_version: number
  }
  return { ...created, json: added, taskVersion }
}

/** The result of adding something to a task, whose response `addedToTask` stores. */
export const readAddition = (creation: Outcome<Created>): Outcome<AddedToTask> =>
  creation.outcome === 'done' ? done(parseAddition(creation.value)) : creation

/** The columns of the statements above that contain an item's outcome. */
interface ItemRow {
  readonly outcome: string
  readonly unknown_tag?: string | null
}

/** Reads an item's outcome. `tagIds` are the ones in the request; an unknown tag is reported by its position in them. */
export const readItemOutcome = <R extends ItemRow>(
  row: R | null | undefined,
  tagIds: readonly string[] = [],
): Outcome<R> => {
  if (row == null) return missing
  switch (row.outcome) {
    case 'done':
      return done(row)
    case 'unknown_owner':
      return { outcome: 'unknown_reference', pointer: '/owner_id', kind: 'user' }
    case 'unknown_assignee':
      return { outcome: 'unknown_reference', pointer: '/assignee_id', kind: 'user' }
    case 'unknown_project':
      return { outcome: 'unknown_reference', pointer: '/project_id', kind: 'project' }
    case 'unknown_section':
      return { outcome: 'unknown_reference', pointer: '/section_id', kind: 'section' }
    case 'unknown_parent':
      return { outcome: 'unknown_reference', pointer: '/parent_id', kind: 'task' }
    case 'unknown_before':
      return { outcome: 'unknown_reference', pointer: '/before', kind: 'task' }
    case 'unknown_after':
      return { outcome: 'unknown_reference', pointer: '/after', kind: 'task' }
    case 'unknown_tag': {
      const place = tagIds.indexOf(row.unknown_tag ?? '')
      return { outcome: 'unknown_reference', pointer: `/tag_ids/${place}`, kind: 'tag' }
    }
    default:
      return readOutcome(row)
  }
}
