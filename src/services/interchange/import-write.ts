import type { Readable } from 'node:stream'
import { insertImportedAttachment } from '../../db/files/attachments.ts'
import { newId } from '../../db/shared/ids.ts'
import {
  colorTags,
  findRecords,
  findSectionsNamed,
  addToCounts,
  type ImportedComment,
  type ImportedProject,
  type ImportedSection,
  type ImportedTask,
  insertHiddenProjects,
  insertImportedComments,
  insertImportedRelation,
  insertImportedSections,
  insertImportedTasks,
  type KnownRecord,
  type RecordKey,
  recordImportedTasks,
  type TaskGrowth,
  writeRecords,
  writeRows,
  type WrittenRow,
} from '../../db/interchange/import-records.ts'
import { chargeAttachment, countTasks, lockStorageUse } from '../../db/shared/quotas.ts'
import { findBlockingPath, lockJoins } from '../../db/tasks/relations.ts'
import { countReminders, insertReminder } from '../../db/tasks/reminders.ts'
import { addNamedTags, type NamedTag } from '../../db/tasks/rows.ts'
import { type ImportUsers, sourceOf } from '../../domain/interchange/imports.ts'
import { grants, type Principal, relationsToProject } from '../../domain/shared/permissions.ts'
import { positionOfNew } from '../../domain/shared/positions.ts'
import { storedRelation } from '../../domain/tasks/relations.ts'
import { fullQuota, maxOpenReminders, maxReminders, morning, remindAt } from '../../domain/tasks/reminders.ts'
import { placeOf } from '../../domain/tasks/fields.ts'
import { noSeries, startSeries, type TaskSeries } from '../../domain/tasks/series.ts'
import { isOpen } from '../../domain/tasks/trees.ts'
import { canonicalName } from '../../domain/shared/text.ts'
import { type ImportFormat, UnreadableFile } from '../../interchange/import-file.ts'
import type {
  AttachmentRecord,
  CommentRecord,
  InterchangeRecord,
  ProjectRecord,
  RelationRecord,
  Reminder,
  SectionRecord,
  TagRecord,
  TaskRecord,
  UserRecord,
} from '../../interchange/records.ts'
import { type Archive, openArchive } from '../../interchange/zip.ts'
import { Problem } from '../../problems/problems.ts'
import { putWithTypeDetection } from '../../storage/content-type.ts'
import { FileTooLarge, type Storage } from '../../storage/storage.ts'
import { expectRoom } from '../files/attaching.ts'
import type { OpTransaction } from '../shared/context.ts'
import {
  digestsOf,
  importedBefore,
  type ImportUpdate,
  patchOfUpdate,
  updateImported,
} from './import-update.ts'
import { ImportFailed, type ImportWork, inLeaseOfActiveOwner } from './import-work.ts'
import { discardFile, keepIfUsed } from '../files/stored-files.ts'
import { openPlan, type TaskPlan } from '../tasks/plan.ts'
import { referencesOfBatch } from '../tasks/references.ts'

/**
 * Writes the records of a file, in transactions of a bounded number of records, each with its rows of the report: what was written before
 * an attempt was interrupted is found again, and not written twice.
 */

export interface WriterDeps {
  readonly storage: Storage
  /** The quota of the installation; null is unlimited. */
  readonly taskQuota: number | null
  readonly attachmentQuotaBytes: number | null
  readonly attachmentMaxBytes: number
}

/** A record with the number of its row. */
export interface NumberedRecord {
  readonly number: number
  readonly record: InterchangeRecord
}

export interface ImportWriter {
  /** Writes records, which name only records that were written before. @throws ImportFailed, ImportLost */
  write(records: readonly NumberedRecord[]): Promise<void>
  close(): Promise<void>
}

/** Records per transaction: about 100 ms. */
const chunkSize = 100

/** A section, and the project that it is in. */
interface SectionPlace {
  readonly id: string
  readonly project_id: string
}

/** What is known of a file while it is written. */
interface Writing {
  readonly work: ImportWork
  readonly limits: WriterDeps
  /** Where ids are unique. */
  readonly source: string
  readonly users: Map<string, UserRecord>
  readonly tags: Map<string, TagRecord>
  /** The sections here, by the ids of those in the file. They are found again by their names. */
  readonly sectionsHere: Map<string, SectionPlace>
  /** Who the users of the file are here. */
  readonly mapped: ReadonlyMap<string, string>
  /** Whose their comments are. Others keep the name of their author only. */
  readonly authors: ReadonlyMap<string, string>
}

export const createImportWriter = (
  limits: WriterDeps,
  work: ImportWork,
  { format, path }: { readonly format: ImportFormat; readonly path: string },
): ImportWriter => {
  const { held } = work
  const own = held.users.filter(({ user_id }) => user_id === held.user_id)
  const writing: Writing = {
    work,
    limits,
    source: sourceOf(format, held.sha256),
    users: new Map(),
    tags: new Map(),
    sectionsHere: new Map(),
    mapped: mapOf(held.users),
    authors: mapOf([...own, ...held.authors]),
  }
  let archive: Promise<Archive> | null = null
  const openEntry = async (name: string): Promise<Readable> => {
    archive ??= openArchive(path)
    return (await archive).open(name)
  }
  return {
    async write(records) {
      let chunk: NumberedRecord[] = []
      const flush = async (): Promise<void> => {
        const written = chunk
        chunk = []
        if (written.length === 0) return
        const sections = await inLeaseOfActiveOwner(work, (tx) => writeChunk(writing, tx, written))
        for (const [id, section] of sections) writing.sectionsHere.set(id, section)
      }
      for (const { number, record } of records) {
        if (record.type === 'user') writing.users.set(record.id, record)
        else if (record.type === 'tag') writing.tags.set(record.id, record)
        else if (record.type === 'attachment') {
          await flush()
          await writeAttachment(writing, { number, record }, openEntry)
        } else {
          chunk.push({ number, record })
          if (chunk.length === chunkSize) await flush()
        }
      }
      await flush()
    },
    async close() {
      if (archive !== null) (await archive.catch(() => null))?.close()
    },
  }
}

const mapOf = (users: ImportUsers): ReadonlyMap<string, string> =>
  new Map(users.map(({ source_id, user_id }) => [source_id, user_id]))

/** A relation of two tasks that the import has made. */
interface PlannedRelation {
  readonly number: number
  readonly record: RelationRecord
  readonly one: KnownRecord
  readonly other: KnownRecord
}

/** What a transaction is going to write. */
interface Chunk extends Writing {
  readonly tx: OpTransaction<Principal>
  /** What was there before, locked, and what changes of it. */
  readonly present: TaskPlan
  readonly known: Map<string, KnownRecord>
  /** The ids of sections that were there before, by their projects and names. */
  readonly sectionsNamed: ReadonlyMap<string, string>
  /** What the import knows from now on, by its key. */
  readonly records: Map<string, KnownRecord>
  readonly rows: WrittenRow[]
  readonly updates: ImportUpdate[]
  readonly projects: ImportedProject[]
  readonly sections: ImportedSection[]
  /** The sections of this transaction, by the ids of those in the file. */
  readonly found: Map<string, SectionPlace>
  readonly tasks: Map<string, ImportedTask>
  readonly namedTags: NamedTag[]
  readonly comments: ImportedComment[]
  readonly relations: PlannedRelation[]
  readonly reminders: { readonly taskId: string; readonly reminder: Reminder }[]
  readonly growth: Map<string, TaskGrowth>
}

const keyOf = (type: string, id: string): string => `${type} ${id}`

/** The id of a record; relations have none of their own. */
const sourceIdOf = (record: InterchangeRecord): string =>
  record.type === 'relation' ? `${record.task_id} ${record.kind} ${record.other_task_id}` : record.id

/** What a record is, and what it names. */
const keysOf = (record: InterchangeRecord): readonly RecordKey[] => {
  const keys: (RecordKey | null)[] = [{ type: record.type, id: sourceIdOf(record) }]
  const name = (type: string, id: string | null): void => void keys.push(id === null ? null : { type, id })
  if (record.type === 'section') name('project', record.project_id)
  if (record.type === 'task') {
    name('project', record.project_id)
    name('task', record.parent_id)
    name('task', record.next_task_id)
    name('series', record.series_id)
  }
  if (record.type === 'comment' || record.type === 'attachment' || record.type === 'relation')
    name('task', record.task_id)
  if (record.type === 'relation') name('task', record.other_task_id)
  return keys.filter((key) => key !== null)
}

/** Locks and reads what records name, and what they change. */
const openChunk = async (
  writing: Writing,
  tx: OpTransaction<Principal>,
  records: readonly InterchangeRecord[],
): Promise<Chunk> => {
  const { held } = writing.work
  const { userId } = tx.principal
  const found = await findRecords(tx, writing.source, records.flatMap(keysOf))
  const known = new Map(found.map((record) => [keyOf(record.type, record.source_id), record]))
  const made = (type: string) => found.filter((one) => one.is_made && one.type === type)
  const namedSections = records.flatMap((record) => {
    if (record.type !== 'section') return []
    const project_id = held.project_id ?? known.get(keyOf('project', record.project_id))?.resource_id
    return project_id === undefined ? [] : [{ project_id, name: record.name }]
  })
  const sections = namedSections.length === 0 ? [] : await findSectionsNamed(tx, namedSections)
  const sectionsOfTasks = records.flatMap((record) =>
    record.type === 'task' ? (writing.sectionsHere.get(record.section_id ?? '')?.id ?? []) : [],
  )
  const updated = records.flatMap((record) => {
    const one = known.get(keyOf(record.type, sourceIdOf(record)))
    return record.type === 'task' &&
      held.existing === 'update' &&
      one?.is_made === true &&
      one.import_id !== held.id
      ? [{ task_id: one.resource_id, patch: patchOfUpdate({ record, known: one }) }]
      : []
  })
  const ids = (rows: readonly { readonly resource_id: string }[]) =>
    rows.map(({ resource_id }) => resource_id)
  const references = referencesOfBatch({ update: updated }, userId)
  const present = await openPlan(tx, {
    ...references,
    users: [...new Set([userId, ...writing.mapped.values(), ...writing.authors.values()])],
    projects: [...(held.project_id === null ? [] : [held.project_id]), ...ids(made('project'))],
    sections: [...sectionsOfTasks, ...sections.map(({ id }) => id)],
    tasks: ids(made('task')),
  })
  const live = (mapped: ReadonlyMap<string, string>): ReadonlyMap<string, string> =>
    new Map([...mapped].filter(([, id]) => present.facts.users.get(id.toLowerCase())?.deleted_at === null))
  if (held.project_id !== null && !isEditable(present, held.project_id)) throw new ImportFailed('access_lost')
  return {
    ...writing,
    tx,
    present,
    mapped: live(writing.mapped),
    authors: live(writing.authors),
    known,
    sectionsNamed: new Map(sections.map(({ project_id, name, id }) => [keyOf(project_id, name), id])),
    records: new Map(),
    rows: [],
    updates: [],
    projects: [],
    sections: [],
    found: new Map(),
    tasks: new Map(),
    namedTags: [],
    comments: [],
    relations: [],
    reminders: [],
    growth: new Map(),
  }
}

/** Whether the owner of the import may write to a project that was there before. */
const isEditable = ({ facts, principal }: TaskPlan, id: string): boolean => {
  const project = facts.projects.get(id)
  return (
    project?.deleted_at === null &&
    project.archived_at === null &&
    grants('project.edit', relationsToProject(principal, project.role))
  )
}

const writeChunk = async (
  writing: Writing,
  tx: OpTransaction<Principal>,
  items: readonly NumberedRecord[],
): Promise<ReadonlyMap<string, SectionPlace>> => {
  const chunk = await openChunk(
    writing,
    tx,
    items.map(({ record }) => record),
  )
  for (const item of items) plan(chunk, item)
  await writePlanned(chunk)
  return chunk.found
}

const plan = (chunk: Chunk, { number, record }: NumberedRecord): void => {
  // With a target, the projects of the file do not matter.
  if (record.type === 'project' && chunk.work.held.project_id !== null) return
  if (isPresent(chunk, number, record)) return
  if (record.type === 'project') planProject(chunk, number, record)
  else if (record.type === 'section') planSection(chunk, number, record)
  else if (record.type === 'task') planTask(chunk, number, record)
  else if (record.type === 'comment') planComment(chunk, number, record)
  else if (record.type === 'relation') planRelation(chunk, number, record)
}

/** Whether a record was made before. One that this import has made already has its row. */
const isPresent = (chunk: Chunk, number: number, record: InterchangeRecord): boolean => {
  const present = chunk.known.get(keyOf(record.type, sourceIdOf(record)))
  if (present?.is_made !== true) return false
  const { id, existing } = chunk.work.held
  if (present.import_id === id) return true
  if (record.type === 'task' && existing === 'update') chunk.updates.push({ number, record, known: present })
  else
    chunk.rows.push({
      ...rowOf(number, record),
      ...importedBefore,
      outcome: 'skipped',
      resource_id: present.resource_id,
    })
  return true
}

const rowOf = (number: number, record: InterchangeRecord) => ({
  number,
  type: record.type,
  source_id: record.type === 'relation' ? null : record.id,
})

/** Takes the id of a record that is made. */
const make = (
  chunk: Chunk,
  number: number,
  record: InterchangeRecord,
  projectId: string | null,
  note: Pick<WrittenRow, 'field' | 'code' | 'message'> = {},
  id: string = chunk.known.get(keyOf(record.type, sourceIdOf(record)))?.resource_id ?? newId(),
): string => {
  const fields = record.type === 'task' ? digestsOf(record) : null
  remember(chunk, { type: record.type, id: sourceIdOf(record) }, id, projectId, true, fields)
  chunk.rows.push({ ...rowOf(number, record), ...note, outcome: 'created', resource_id: id })
  return id
}

const remember = (
  chunk: Chunk,
  { type, id }: RecordKey,
  resource_id: string,
  project_id: string | null,
  is_made: boolean,
  fields: KnownRecord['fields'] = null,
): void => {
  const { id: import_id } = chunk.work.held
  const known = { type, source_id: id, resource_id, is_made, import_id, project_id, fields }
  chunk.known.set(keyOf(type, id), known)
  chunk.records.set(keyOf(type, id), known)
}

const refuse = (
  { rows }: Pick<Chunk, 'rows'>,
  number: number,
  record: InterchangeRecord,
  reason: Required<Pick<WrittenRow, 'field' | 'code' | 'message'>>,
): void => void rows.push({ ...rowOf(number, record), ...reason, outcome: 'refused' })

const unknown = (field: string) => ({
  field,
  code: 'unknown_reference',
  message: 'was refused, or was deleted here',
})

const planProject = (chunk: Chunk, number: number, project: ProjectRecord): void => {
  const id = newId()
  make(chunk, number, project, id, {}, id)
  const { type: _, ...fields } = project
  chunk.projects.push({ ...fields, id })
}

/** Where the records of a project of the file go; undefined if they cannot. `isNew`: to a project that the import has created. */
const placeIn = (
  chunk: Chunk,
  sourceId: string | null,
): { readonly id: string | null; readonly isNew: boolean } | undefined => {
  const { project_id: target, id: importId } = chunk.work.held
  if (target !== null) return { id: target, isNew: false }
  if (sourceId === null) return { id: null, isNew: false }
  const known = chunk.known.get(keyOf('project', sourceId))
  if (known?.is_made !== true) return undefined
  if (known.import_id === importId) return { id: known.resource_id, isNew: true }
  return isEditable(chunk.present, known.resource_id) ? { id: known.resource_id, isNew: false } : undefined
}

const planSection = (chunk: Chunk, number: number, section: SectionRecord): void => {
  const place = placeIn(chunk, section.project_id)
  if (place === undefined || place.id === null) return refuse(chunk, number, section, unknown('project'))
  const { id: project_id } = place
  const { name } = section
  const named = chunk.sectionsNamed.get(keyOf(project_id, name))
  const present =
    chunk.sections.find((one) => one.project_id === project_id && one.name === name)?.id ??
    (named !== undefined && chunk.present.facts.sections.has(named) ? named : undefined)
  const id = present ?? newId()
  chunk.found.set(section.id, { id, project_id })
  if (present !== undefined) return
  chunk.rows.push({ ...rowOf(number, section), outcome: 'created', resource_id: id })
  chunk.sections.push({ id, project_id, name, position: positionOfNew(id) })
}

/** The section of a task, unless it was deleted meanwhile. */
const sectionOf = (chunk: Chunk, sourceId: string | null, projectId: string | null): string | null => {
  if (sourceId === null) return null
  const written = chunk.sectionsHere.get(sourceId)
  const section =
    chunk.found.get(sourceId) ??
    (written && chunk.present.facts.sections.has(written.id) ? written : undefined)
  return section?.project_id === projectId ? section.id : null
}

const planTask = (chunk: Chunk, number: number, task: TaskRecord): void => {
  const { userId } = chunk.tx.principal
  const place = placeIn(chunk, task.project_id)
  if (place === undefined) return refuse(chunk, number, task, unknown('project'))
  const project_id = place.id
  const parent = parentOf(chunk, task.parent_id, placeOf({ project_id, owner_id: userId }))
  const id = make(
    chunk,
    number,
    task,
    place.isNew ? project_id : null,
    parent === undefined ? unknown('parent') : {},
  )
  const parent_id = parent ?? null
  const open = isOpen(task.status) ? 1 : 0
  if (parent_id !== null) addToCount(chunk, parent_id, { subtasks: 1, open_subtasks: open })
  const { title, description, status, priority, start_at, start_on, due_at, due_on } = task
  const { metadata, external_source, external_id, created_at, completed_at } = task
  chunk.tasks.set(id, {
    id,
    title,
    description,
    status,
    priority,
    start_at,
    start_on,
    due_at,
    due_on,
    owner_id: userId,
    assignee_id: (task.assignee_id !== null && chunk.mapped.get(task.assignee_id)) || null,
    project_id,
    section_id: sectionOf(chunk, task.section_id, project_id),
    parent_id,
    position: positionOfNew(id),
    ...seriesIn(chunk, id, task),
    metadata,
    external_source,
    external_id,
    created_at,
    completed_at,
    subtasks: 0,
    open_subtasks: 0,
  })
  for (const tagId of task.tag_ids) {
    const name = chunk.tags.get(tagId)?.name
    if (name !== undefined)
      chunk.namedTags.push({
        task_id: id,
        id: newId(),
        name,
        canonical_name: canonicalName(name),
        project_id,
      })
  }
  for (const reminder of task.reminders) chunk.reminders.push({ taskId: id, reminder })
}

/** The id of a parent in the same place; null without one, undefined if it is elsewhere, or gone. */
const parentOf = (chunk: Chunk, sourceId: string | null, place: string): string | null | undefined => {
  if (sourceId === null) return null
  const known = chunk.known.get(keyOf('task', sourceId))
  if (known?.is_made !== true) return undefined
  if (known.import_id === chunk.work.held.id) return known.resource_id
  const parent = chunk.present.tasks.get(known.resource_id)
  return parent?.isTrashed === false && placeOf(parent) === place ? parent.id : undefined
}

/** The series of a task: its own, with new ids, or a new one that starts with it. */
const seriesIn = (chunk: Chunk, id: string, task: TaskRecord): TaskSeries => {
  const { series_id, recurrence_anchor, occurrence_number, occurrence_at, occurrence_on } = task
  if (task.recurrence === null) return noSeries
  if (series_id === null) return startSeries(id, task.recurrence, task) ?? noSeries
  const { anchor: _, ...recurrence } = task.recurrence
  return {
    recurrence,
    series_id: idFor(chunk, { type: 'series', id: series_id }),
    recurrence_anchor,
    occurrence_number,
    occurrence_at,
    occurrence_on,
    next_task_id: task.next_task_id === null ? null : idFor(chunk, { type: 'task', id: task.next_task_id }),
  }
}

/** The id of a record that may come later. */
const idFor = (chunk: Chunk, key: RecordKey): string => {
  const known = chunk.known.get(keyOf(key.type, key.id))
  if (known !== undefined) return known.resource_id
  const id = newId()
  remember(chunk, key, id, null, false)
  return id
}

const addToCount = (
  { growth }: Pick<Chunk, 'growth'>,
  id: string,
  by: Partial<Omit<TaskGrowth, 'id'>>,
): void => {
  const none = { id, subtasks: 0, open_subtasks: 0, comments: 0, attachments: 0, blockers: 0 }
  const { subtasks, open_subtasks, comments, attachments, blockers } = growth.get(id) ?? none
  growth.set(id, {
    id,
    subtasks: subtasks + (by.subtasks ?? 0),
    open_subtasks: open_subtasks + (by.open_subtasks ?? 0),
    comments: comments + (by.comments ?? 0),
    attachments: attachments + (by.attachments ?? 0),
    blockers: blockers + (by.blockers ?? 0),
  })
}

/** The task that this import has made of a record. Nothing is added to those that were there before. */
const madeTask = (chunk: Chunk, sourceId: string): KnownRecord | null => {
  const known = chunk.known.get(keyOf('task', sourceId))
  return known?.is_made === true && known.import_id === chunk.work.held.id ? known : null
}

/** A record of tasks that were refused; or skipped, since an earlier import has created them. */
const leaveOut = (
  chunk: Chunk,
  number: number,
  record: InterchangeRecord,
  taskIds: readonly string[],
): void => {
  const isRefused = taskIds.some((id) => chunk.known.get(keyOf('task', id))?.is_made !== true)
  if (isRefused) return refuse(chunk, number, record, unknown('task'))
  const message = 'An earlier import has created its task.'
  chunk.rows.push({ ...rowOf(number, record), outcome: 'skipped', code: 'imported_before', message })
}

const planComment = (chunk: Chunk, number: number, comment: CommentRecord): void => {
  const task = madeTask(chunk, comment.task_id)
  if (task === null) return leaveOut(chunk, number, comment, [comment.task_id])
  const { body, created_at, edited_at } = comment
  const sourceId = comment.author_id ?? ''
  const author_id = chunk.authors.get(sourceId) ?? null
  const name = comment.author_name ?? chunk.users.get(sourceId)?.display_name ?? null
  const author_name = author_id === null ? name : null
  const id = make(chunk, number, comment, task.project_id)
  chunk.comments.push({ id, task_id: task.resource_id, author_id, author_name, body, created_at, edited_at })
  addToCount(chunk, task.resource_id, { comments: 1 })
}

const planRelation = (chunk: Chunk, number: number, record: RelationRecord): void => {
  const [one, other] = [madeTask(chunk, record.task_id), madeTask(chunk, record.other_task_id)]
  if (one === null || other === null)
    return leaveOut(chunk, number, record, [record.task_id, record.other_task_id])
  chunk.relations.push({ number, record, one, other })
}

const writePlanned = async (chunk: Chunk): Promise<void> => {
  const { tx, source, tasks, namedTags } = chunk
  const { id: importId } = chunk.work.held
  countInside(chunk)
  if (chunk.projects.length > 0) await insertHiddenProjects(tx, chunk.projects, importId)
  if (chunk.sections.length > 0) await insertImportedSections(tx, chunk.sections)
  if (tasks.size > 0) {
    await insertImportedTasks(tx, [...tasks.values()])
    await recordImportedTasks(tx, [...tasks.keys()], importId)
  }
  if (namedTags.length > 0) {
    await addNamedTags(tx, namedTags)
    const colors = new Map([...chunk.tags.values()].map(({ name, color }) => [canonicalName(name), color]))
    await colorTags(
      tx,
      namedTags.map(({ id, canonical_name }) => ({ id, color: colors.get(canonical_name) ?? null })),
    )
  }
  if (chunk.comments.length > 0) await insertImportedComments(tx, chunk.comments)
  for (const relation of chunk.relations) await writeRelation(chunk, relation)
  await writeReminders(chunk)
  await writeRecords(tx, source, [...chunk.records.values()])
  await addToCounts(tx, [...chunk.growth.values()], importId)
  if (chunk.updates.length > 0)
    chunk.rows.push(...(await updateImported(tx, source, chunk.present, chunk.updates)))
  await writeRows(tx, importId, chunk.rows)
  if (tasks.size > 0) await expectQuota(chunk)
}

/** Counts subtasks of tasks of the same transaction with these, which are not written yet. */
const countInside = ({ tasks, growth }: Chunk): void => {
  for (const [id, { subtasks, open_subtasks, ...others }] of growth) {
    const task = tasks.get(id)
    if (task === undefined) continue
    tasks.set(id, { ...task, subtasks, open_subtasks })
    if (others.comments === 0 && others.blockers === 0) growth.delete(id)
    else growth.set(id, { ...others, subtasks: 0, open_subtasks: 0 })
  }
}

/** A relation that would make a task wait for itself is refused. */
const writeRelation = async (
  chunk: Chunk,
  { number, record, one, other }: PlannedRelation,
): Promise<void> => {
  const { tx } = chunk
  const stored = storedRelation(one.resource_id, record.kind, other.resource_id)
  if (stored.kind === 'blocks') {
    await lockJoins(tx)
    const path = await findBlockingPath(tx, stored)
    if (path === 'too_many')
      return refuse(chunk, number, record, {
        field: 'kind',
        code: 'too_many',
        message: 'its task blocks too many others',
      })
    if (path !== null)
      return refuse(chunk, number, record, {
        field: 'kind',
        code: 'cycle',
        message: 'would make a task wait for itself',
      })
  }
  const id = make(chunk, number, record, one.project_id)
  const isNew = await insertImportedRelation(tx, id, stored, record.created_at)
  if (isNew && stored.kind === 'blocks') addToCount(chunk, stored.otherTaskId, { blockers: 1 })
}

/** Those that are past do not fire. More than a user may have are left out, and the rows of their tasks say so. */
const writeReminders = async ({ tx, present, tasks, reminders, rows }: Chunk): Promise<void> => {
  if (reminders.length === 0) return
  const counts = { ...(await countReminders(tx)) }
  const leftOut = new Set(
    reminders.filter(({ taskId }) => {
      const isTaskOpen = isOpen(tasks.get(taskId)?.status ?? 'done')
      if (fullQuota(counts, { isOpen: isTaskOpen }) !== null) return true
      counts.reminders += 1
      if (isTaskOpen) counts.open_reminders += 1
      return false
    }),
  )
  const incomplete = new Set([...leftOut].map(({ taskId }) => taskId))
  for (const [index, row] of rows.entries())
    if (row.resource_id !== undefined && incomplete.has(row.resource_id))
      rows[index] = {
        ...row,
        field: 'reminders',
        code: 'quota_exceeded',
        message: `Reminders are left out: you can have ${maxReminders}, and ${maxOpenReminders} of open tasks.`,
      }
  const timeZone = present.facts.users.get(tx.principal.userId)?.time_zone ?? tx.principal.timeZone
  for (const imported of reminders) {
    const { taskId, reminder } = imported
    const task = tasks.get(taskId)
    if (task === undefined || leftOut.has(imported)) continue
    const time =
      'at' in reminder
        ? { at: reminder.at, relative_to: null, offset_minutes: null, time_of_day: null }
        : { at: null, ...reminder, time_of_day: reminder.time_of_day ?? morning }
    const { snoozed_until = null } = reminder
    const remind_at = snoozed_until ?? remindAt(time, task, timeZone)
    await insertReminder(tx, newId(), taskId, { ...time, snoozed_until, remind_at })
  }
}

const expectQuota = async ({ tx, tasks, limits }: Chunk): Promise<void> => {
  const { userId } = tx.principal
  for (const { tasks: owned, task_quota } of await countTasks(tx, new Map([[userId, tasks.size]]))) {
    const quota = task_quota === null ? limits.taskQuota : task_quota || null
    if (quota !== null && owned > quota) throw new ImportFailed('quota_exceeded')
  }
}

/** Stores the content of an attachment, and attaches it. Content that is elsewhere is not fetched. */
const writeAttachment = async (
  writing: Writing,
  { number, record }: { readonly number: number; readonly record: AttachmentRecord },
  openEntry: (name: string) => Promise<Readable>,
): Promise<void> => {
  const { work, limits } = writing
  if (record.entry === null) return
  const isNeeded = await inLeaseOfActiveOwner(work, async (tx) => {
    const chunk = await openChunk(writing, tx, [record])
    if (!isPresent(chunk, number, record)) {
      if (madeTask(chunk, record.task_id) !== null) return true
      leaveOut(chunk, number, record, [record.task_id])
    }
    await writeRows(tx, work.held.id, chunk.rows)
    return false
  })
  if (!isNeeded) return
  const refuseFile = (code: string, message: string): Promise<void> =>
    inLeaseOfActiveOwner(work, (tx) => {
      const rows: WrittenRow[] = []
      refuse({ rows }, number, record, { field: 'file', code, message })
      return writeRows(tx, work.held.id, rows)
    })
  const stored = await storeFile(limits, () => openEntry(record.entry ?? ''))
  if (stored === 'too_large')
    return refuseFile('too_long', `is larger than ${limits.attachmentMaxBytes} bytes`)
  if (stored === 'damaged') return refuseFile('invalid', 'cannot be read from the archive')
  if (record.sha256 !== null && record.sha256 !== stored.sha256) {
    await discardFile(limits.storage, stored)
    return refuseFile('invalid', 'does not have the SHA-256 that the archive says')
  }
  const attach = (): Promise<boolean> =>
    inLeaseOfActiveOwner(work, async (tx) => {
      const use = await lockStorageUse(tx)
      const chunk = await openChunk(writing, tx, [record])
      const task = madeTask(chunk, record.task_id)
      if (task === null || isPresent(chunk, number, record)) return false
      expectRoom(use, { size: stored.size, quota: limits.attachmentQuotaBytes })
      const id = make(chunk, number, record, task.project_id)
      await insertImportedAttachment(tx, {
        id,
        task_id: task.resource_id,
        file_name: record.file_name,
        content_type: record.content_type ?? stored.guessedContentType,
        detected_content_type: stored.detectedContentType,
        size: stored.size,
        sha256: stored.sha256,
        storage_key: stored.key,
        created_at: record.created_at,
      })
      await chargeAttachment(tx, stored.size)
      addToCount(chunk, task.resource_id, { attachments: 1 })
      await writePlanned(chunk)
      return true
    })
  try {
    await keepIfUsed(limits.storage, stored, attach, (isAttached) => isAttached)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    await refuseFile('quota_exceeded', 'does not fit into your attachment quota')
  }
}

/** Stores the content of an entry of an archive, unless it is too large, or the archive is damaged there. */
const storeFile = async ({ storage, attachmentMaxBytes }: WriterDeps, openEntry: () => Promise<Readable>) => {
  let isDamaged = false
  try {
    const content = await openEntry()
    content.once('error', () => (isDamaged = true))
    return await putWithTypeDetection(storage, content, { maxBytes: attachmentMaxBytes })
  } catch (error) {
    if (error instanceof FileTooLarge) return 'too_large'
    if (isDamaged || error instanceof UnreadableFile) return 'damaged'
    throw error
  }
}
