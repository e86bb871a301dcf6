import { baseName, describeFile, validateFileName } from '../domain/files/file-description.ts'
import { isDay } from '../domain/shared/dates.ts'
import { formatRule, parseRule } from '../domain/tasks/recurrence-rule.ts'
import { maxOffset, maxPerTask, morning } from '../domain/tasks/reminders.ts'
import { maxLevels } from '../domain/tasks/subtasks.ts'
import { type Anchor, anchorOf, isLive, noSeries } from '../domain/tasks/series.ts'
import { isCleanText } from '../domain/shared/text.ts'
import { isEarlier } from '../domain/shared/time-zones.ts'
import { cleanLine, cleanText, limits } from './clean.ts'
import { type Draft, type Drafts, type Fault, isDraft, note, refusal } from './drafts.ts'
import { excerpt } from './fields.ts'
import type {
  AttachmentRecord,
  CommentRecord,
  InterchangeRecord,
  ProjectRecord,
  RecordType,
  RelationRecord,
  Reminder,
  ReportLine,
  SectionRecord,
  TagRecord,
  TaskRecord,
  UserRecord,
} from './records.ts'

/** Makes records of drafts: within the limits of tasks here, each id once, and after what they name. */

export interface CheckOptions {
  /** Whether a row with a value that cannot be carried is refused. Otherwise it is carried without the value. */
  readonly isStrict: boolean
  readonly timeZone: string
}

const maxTags = 100
const maxMetadataKeys = 50

/** What later records need to know of a task. */
interface KnownTask {
  readonly level: number
  readonly project_id: string | null
  /** Whether it or a task above it recurs. */
  readonly recurs: boolean
}

type Ids = Readonly<Record<RecordType, Set<string>>>

interface Known {
  /** Of all records that were made. */
  readonly ids: Ids
  readonly projectOfSection: Map<string, string>
  readonly tasks: Map<string, KnownTask>
}

export async function* checkDrafts(
  items: Drafts,
  options: CheckOptions,
): AsyncGenerator<InterchangeRecord | ReportLine, void> {
  const known: Known = { ids: createIds(), projectOfSection: new Map(), tasks: new Map() }
  const seen = createIds()
  const children: Children = new Map()
  const later: Draft[] = []
  const finish = (draft: Draft) => finished(draft, known, options)
  for await (const item of items) {
    if (!isDraft(item)) yield item
    else if (!isUsableId(idOf(item.record))) yield unusable(item)
    else if (isDuplicate(item, seen)) yield duplicate(item)
    else if (waitsForTask(item, known)) later.push(item)
    else if (item.record.type === 'task' && waitsForParent(item.record, known))
      addTo(children, item.record.parent_id ?? '', item)
    else {
      yield* finish(item)
      yield* release(children, item.record, finish)
    }
  }
  yield* orphans(children, finish)
  for (const draft of later) yield* finish(draft)
  if (known.tasks.size === 0) yield note('no_tasks', 'The file has no tasks that can be imported.')
}

type Finish = (draft: Draft) => Generator<InterchangeRecord | ReportLine, void>

/** Drafts of subtasks by the parent that they wait for. */
type Children = Map<string, Draft[]>

const addTo = (children: Children, id: string, draft: Draft): void => {
  const siblings = children.get(id)
  if (siblings === undefined) children.set(id, [draft])
  else siblings.push(draft)
}

const waitsForParent = ({ parent_id }: TaskRecord, known: Known): boolean =>
  parent_id !== null && !known.tasks.has(parent_id)

/** What hangs on tasks comes after all of them, if it does not come after its own. */
const waitsForTask = ({ record }: Draft, known: Known): boolean => {
  if (record.type === 'relation')
    return !known.tasks.has(record.task_id) || !known.tasks.has(record.other_task_id)
  return (record.type === 'comment' || record.type === 'attachment') && !known.tasks.has(record.task_id)
}

const createIds = (): Ids => ({
  user: new Set(),
  project: new Set(),
  section: new Set(),
  tag: new Set(),
  task: new Set(),
  comment: new Set(),
  relation: new Set(),
  attachment: new Set(),
})

const isDuplicate = ({ record }: Draft, seen: Ids): boolean => {
  const id = idOf(record)
  const ids = seen[record.type]
  if (ids.has(id)) return true
  ids.add(id)
  return false
}

const idOf = (record: InterchangeRecord): string =>
  record.type === 'relation' ? JSON.stringify([record.task_id, record.kind, record.other_task_id]) : record.id

/** Characters. Ids are kept, to find the record again in a later import. */
const maxId = 500

const isUsableId = (id: string): boolean => id.length <= maxId && isCleanText(id)

const unusable = ({ record, part, row }: Draft): ReportLine =>
  refusal(part, row, {
    field: 'id',
    code: 'invalid_value',
    message: `has more than ${maxId} characters, or ones that are not text: ${excerpt(idOf(record))}`,
  })

const duplicate = ({ record, part, row }: Draft): ReportLine =>
  refusal(
    part,
    row,
    { field: 'id', code: 'duplicate', message: `is that of another ${record.type}` },
    idOf(record),
  )

/** The subtasks that waited for a task, and those below them. */
function* release(
  children: Children,
  record: InterchangeRecord,
  finish: Finish,
): Generator<InterchangeRecord | ReportLine, void> {
  if (record.type !== 'task') return
  const waiting = [record.id]
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    const released = children.get(id) ?? []
    children.delete(id)
    for (const draft of released) yield* finish(draft)
    // Not spread: there can be more than a call has arguments.
    for (const { record } of released.toReversed()) waiting.push(idOf(record))
  }
}

/** Those whose parent never came: it is not in the file, or is below them. */
function* orphans(children: Children, finish: Finish): Generator<InterchangeRecord | ReportLine, void> {
  const held = new Map([...children.values()].flat().map((draft) => [idOf(draft.record), draft]))
  for (const [parent, drafts] of children) {
    if (held.has(parent)) continue
    children.delete(parent)
    for (const draft of drafts) {
      yield* finish(withoutParent(draft, unknown('parent', parent)))
      yield* release(children, draft.record, finish)
    }
  }
  // What is left is below a task that is below itself. That one becomes the top.
  for (let [start] = children.keys(); start !== undefined; [start] = children.keys()) {
    const top = held.get(firstTwice(held, start))
    const parent = top && parentIdOf(top)
    if (!top || !parent) return
    const others = children.get(parent)?.filter((draft) => draft !== top) ?? []
    if (others.length > 0) children.set(parent, others)
    else children.delete(parent)
    const message = 'leads back to the task'
    yield* finish(withoutParent(top, { field: 'parent', code: 'cycle', message }))
    yield* release(children, top.record, finish)
  }
}

/** The first task that is met again on the way up. */
const firstTwice = (held: ReadonlyMap<string, Draft>, start: string): string => {
  const met = new Set<string>()
  let id = start
  while (!met.has(id)) {
    met.add(id)
    const draft = held.get(id)
    id = (draft && parentIdOf(draft)) ?? id
  }
  return id
}

const parentIdOf = ({ record }: Draft): string | null => (record.type === 'task' ? record.parent_id : null)

const withoutParent = ({ record, faults, ...where }: Draft, fault: Fault): Draft => ({
  ...where,
  record: record.type === 'task' ? { ...record, parent_id: null } : record,
  faults: [...faults, fault],
})

/** Faults that are the row's own, not of what it names. */
const strictCodes: ReadonlySet<Fault['code']> = new Set([
  'invalid',
  'invalid_value',
  'too_long',
  'too_many',
  'encoding',
])

/** A record, and the lines of what had to be changed; or the line that says why there is none. */
function* finished(
  { record, part, row, faults }: Draft,
  known: Known,
  { isStrict, timeZone }: CheckOptions,
): Generator<InterchangeRecord | ReportLine, void> {
  const found = [...faults]
  const id = idOf(record)
  const checked = check(record, known, found, timeZone)
  if ('code' in checked) {
    yield refusal(part, row, checked, id)
    return
  }
  const strict = isStrict ? found.find(({ code }) => strictCodes.has(code)) : undefined
  if (strict !== undefined) {
    yield refusal(part, row, strict, id)
    return
  }
  remember(checked, known)
  yield checked
  for (const fault of found) yield { ...refusal(part, row, fault, id), severity: 'altered' }
}

const remember = (record: InterchangeRecord, known: Known): void => {
  known.ids[record.type].add(idOf(record))
  if (record.type === 'section') known.projectOfSection.set(record.id, record.project_id)
  if (record.type !== 'task') return
  const parent = known.tasks.get(record.parent_id ?? '')
  known.tasks.set(record.id, {
    level: (parent?.level ?? 0) + 1,
    project_id: record.project_id,
    recurs: isLive(record) || (parent?.recurs ?? false),
  })
}

const check = (
  record: InterchangeRecord,
  known: Known,
  faults: Fault[],
  timeZone: string,
): InterchangeRecord | Fault => {
  switch (record.type) {
    case 'user':
      return checkUser(record)
    case 'project':
      return checkProject(record, faults)
    case 'section':
      return checkSection(record, known, faults)
    case 'tag':
      return checkTag(record, known, faults)
    case 'task':
      return checkTask(record, known, faults, timeZone)
    case 'comment':
      return checkComment(record, known, faults)
    case 'relation':
      return checkRelation(record, known)
    case 'attachment':
      return checkAttachment(record, known, faults)
  }
}

const checkUser = (user: UserRecord): UserRecord => ({
  ...user,
  username: user.username === null ? null : cleanLine(user.username, 'displayName', []) || null,
  display_name: cleanLine(user.display_name, 'displayName', []) || user.username || user.id,
})

const checkProject = (project: ProjectRecord, faults: Fault[]): ProjectRecord => ({
  ...project,
  ...checkExternal(project, faults),
  name: cleanLine(project.name, 'projectName', faults, 'name') || unnamed(faults, 'name'),
  description: cleanText(project.description, 'projectDescription', faults, 'description'),
  color: checkColor(project.color, faults),
})

const unnamed = (faults: Fault[], field: string): string => {
  faults.push({ field, code: 'invalid', message: 'is empty' })
  return 'Untitled'
}

const checkColor = (color: string | null, faults: Fault[]): string | null => {
  if (color === null || /^#[0-9a-f]{6}$/i.test(color)) return color?.toLowerCase() ?? null
  faults.push({ field: 'color', code: 'invalid_value', message: 'is not a color such as #1a2b3c' })
  return null
}

const checkSection = (section: SectionRecord, known: Known, faults: Fault[]): SectionRecord | Fault => {
  if (!known.ids.project.has(section.project_id)) return unknown('project', section.project_id)
  return {
    ...section,
    name: cleanLine(section.name, 'sectionName', faults, 'name') || unnamed(faults, 'name'),
  }
}

const checkTag = (tag: TagRecord, known: Known, faults: Fault[]): TagRecord | Fault => {
  const name = cleanLine(tag.name, 'tagName', faults, 'name')
  if (name === '') return { field: 'name', code: 'invalid', message: 'is empty' }
  const project_id = known.ids.project.has(tag.project_id ?? '') ? tag.project_id : null
  return { ...tag, name, project_id, color: checkColor(tag.color, faults) }
}

const unknown = (field: string, id: string): Fault => ({
  field,
  code: 'unknown_reference',
  message: `is not in the file, or was refused: ${excerpt(id)}`,
})

const checkTask = (task: TaskRecord, known: Known, faults: Fault[], timeZone: string): TaskRecord | Fault => {
  const title = cleanLine(task.title, 'title', faults)
  if (title === '') return { field: 'title', code: 'invalid', message: 'is empty' }
  const isCut = faults.some(({ field, code }) => field === 'title' && code === 'too_long')
  const parent = parentOf(task, known, faults)
  const project_id = parent === null ? projectOf(task, known, faults) : parent.known.project_id
  const dated = withDates(task, faults, timeZone)
  return {
    ...dated,
    ...checkExternal(task, faults),
    ...checkSeries(dated, parent?.known ?? null, faults),
    title,
    version: isCount(task.version) ? task.version : 1,
    description: cleanText(`${isCut ? `${task.title}\n\n` : ''}${task.description}`, 'description', faults),
    completed_at: task.status === 'done' ? task.completed_at : null,
    parent_id: parent?.id ?? null,
    project_id,
    section_id: sectionOf(task, project_id, known, faults),
    owner_id: userOf('owner', task.owner_id, known, faults),
    assignee_id: userOf('assignee', task.assignee_id, known, faults),
    tag_ids: tagsOf(task, known, faults),
    reminders: remindersOf(dated, faults),
  }
}

/** The parent, or the nearest task above it that has a level left below. */
const parentOf = (
  { parent_id }: TaskRecord,
  known: Known,
  faults: Fault[],
): { readonly id: string; readonly known: KnownTask } | null => {
  if (parent_id === null) return null
  const parent = known.tasks.get(parent_id)
  if (parent === undefined) {
    faults.push(unknown('parent', parent_id))
    return null
  }
  if (parent.level < maxLevels) return { id: parent_id, known: parent }
  faults.push({
    field: 'parent',
    code: 'too_deep',
    message: `is left out: a tree of tasks has at most ${maxLevels} levels`,
  })
  return null
}

const projectOf = ({ project_id }: TaskRecord, known: Known, faults: Fault[]): string | null => {
  if (project_id === null || known.ids.project.has(project_id)) return project_id
  faults.push(unknown('project', project_id))
  return null
}

const sectionOf = (
  { section_id }: TaskRecord,
  projectId: string | null,
  known: Known,
  faults: Fault[],
): string | null => {
  if (section_id === null) return null
  const project = known.projectOfSection.get(section_id)
  if (project === undefined) faults.push(unknown('section', section_id))
  return project !== undefined && project === projectId ? section_id : null
}

const userOf = (
  field: 'owner' | 'assignee',
  id: string | null,
  known: Known,
  faults: Fault[],
): string | null => {
  if (id === null || known.ids.user.has(id)) return id
  faults.push(unknown(field, id))
  return null
}

const tagsOf = ({ tag_ids }: TaskRecord, known: Known, faults: Fault[]): readonly string[] => {
  const ids = [...new Set(tag_ids)]
  for (const id of ids) if (!known.ids.tag.has(id)) faults.push(unknown('tag', id))
  const found = ids.filter((id) => known.ids.tag.has(id))
  if (found.length > maxTags)
    faults.push({ field: 'tags', code: 'too_many', message: `has ${found.length}; the limit is ${maxTags}` })
  return found.slice(0, maxTags)
}

/** A start after the due date is left out. */
const withDates = (task: TaskRecord, faults: Fault[], timeZone: string): TaskRecord => {
  if ((task.due_at !== null && task.due_on !== null) || (task.start_at !== null && task.start_on !== null)) {
    faults.push({ field: 'due', code: 'invalid_value', message: 'is a time and a day' })
    return withDates({ ...task, due_at: null, start_at: null }, faults, timeZone)
  }
  if (!isEarlier(task.due_at ?? task.due_on, task.start_at ?? task.start_on, timeZone)) return task
  faults.push({ field: 'start', code: 'invalid_value', message: 'is after the due date' })
  return { ...task, start_at: null, start_on: null }
}

/** Equal ones are one. */
const remindersOf = (task: TaskRecord, faults: Fault[]): TaskRecord['reminders'] => {
  const has = { due: task.due_at ?? task.due_on, start: task.start_at ?? task.start_on }
  const different = [...new Map(task.reminders.map((reminder) => [timeKeyOf(reminder), reminder])).values()]
  const possible = different.filter(
    (reminder) =>
      'at' in reminder ||
      (has[reminder.relative_to] !== null && Math.abs(reminder.offset_minutes) <= maxOffset),
  )
  if (possible.length < different.length)
    faults.push({
      field: 'reminders',
      code: 'not_supported',
      message: 'has a reminder of a date that the task does not have, or more than a year away from it',
    })
  if (possible.length > maxPerTask)
    faults.push({
      field: 'reminders',
      code: 'too_many',
      message: `has ${possible.length}; the limit is ${maxPerTask}`,
    })
  return possible.slice(0, maxPerTask)
}

const timeKeyOf = (reminder: Reminder): string =>
  'at' in reminder
    ? reminder.at
    : `${reminder.relative_to} ${reminder.offset_minutes} ${reminder.time_of_day ?? morning}`

const checkSeries = (task: TaskRecord, parent: KnownTask | null, faults: Fault[]) => {
  const { recurrence } = task
  const withoutSeries = (message: string) => {
    faults.push({ field: 'recurrence', code: 'not_supported', message: `is left out: ${message}` })
    return noSeries
  }
  if (recurrence === null) return noSeries
  const rule = parseRule(recurrence.rule, recurrence.from)
  if ('message' in rule) return withoutSeries(rule.message)
  const anchor = anchorOf(task)
  if (anchor === null && task.recurrence_anchor === null)
    return withoutSeries('a task without a date cannot recur')
  if (parent?.recurs === true && task.next_task_id === null)
    return withoutSeries('a subtask of a task that recurs cannot recur itself')
  const { series_id, recurrence_anchor, occurrence_number, occurrence_at, occurrence_on, next_task_id } = task
  const isWhole =
    series_id !== null &&
    recurrence_anchor !== null &&
    isCount(occurrence_number) &&
    (occurrence_at === null) === (occurrence_on !== null) &&
    isDay(recurrence_anchor.date) === (occurrence_on !== null)
  return {
    ...(isWhole
      ? {
          series_id,
          recurrence_anchor: { ...recurrence_anchor, days: daysOf(recurrence_anchor) },
          occurrence_number,
          occurrence_at,
          occurrence_on,
          next_task_id,
        }
      : noSeries),
    recurrence: { ...recurrence, rule: formatRule(rule) },
  }
}

/** Null if no date is so many days from another one. */
const daysOf = ({ days = null }: Anchor): number | null =>
  Number.isInteger(days) && Math.abs(Number(days)) < maxDays ? days : null

/** The days of the years 1 to 9999. */
const maxDays = 3_652_059

const isCount = (number: number | null): boolean =>
  Number.isInteger(number) && Number(number) >= 1 && Number(number) <= 1_000_000_000

const checkExternal = (
  {
    metadata,
    external_source,
    external_id,
  }: Pick<TaskRecord, 'metadata' | 'external_source' | 'external_id'>,
  faults: Fault[],
): Pick<TaskRecord, 'metadata' | 'external_source' | 'external_id'> => {
  const entries = Object.entries(metadata)
  const valid = entries
    .filter(
      ([key, value]) =>
        /^[a-z][a-z0-9_]{0,39}$/.test(key) && value.length <= limits.metadataValue && isCleanText(value),
    )
    .slice(0, maxMetadataKeys)
  if (valid.length < entries.length)
    faults.push({
      field: 'metadata',
      code: 'invalid_value',
      message: 'has keys or values that are not valid',
    })
  return {
    metadata: Object.fromEntries(valid),
    external_source:
      external_source && cleanText(external_source, 'externalSource', faults, 'external_source'),
    external_id: external_id && cleanText(external_id, 'externalId', faults, 'external_id'),
  }
}

const checkComment = (comment: CommentRecord, known: Known, faults: Fault[]): CommentRecord | Fault => {
  if (!known.tasks.has(comment.task_id)) return unknown('task', comment.task_id)
  const body = cleanText(comment.body, 'body', faults)
  if (body.trim() === '') return { field: 'body', code: 'invalid', message: 'is empty' }
  return {
    ...comment,
    body,
    author_id: known.ids.user.has(comment.author_id ?? '') ? comment.author_id : null,
    author_name:
      comment.author_name === null ? null : cleanLine(comment.author_name, 'displayName', []) || null,
  }
}

const checkRelation = (relation: RelationRecord, known: Known): RelationRecord | Fault => {
  const { task_id, other_task_id } = relation
  const missing = [task_id, other_task_id].find((id) => !known.tasks.has(id))
  if (missing !== undefined) return unknown('task', missing)
  if (task_id === other_task_id)
    return { field: 'other_task_id', code: 'invalid_value', message: 'is the task itself' }
  return relation
}

const checkAttachment = (
  attachment: AttachmentRecord,
  known: Known,
  faults: Fault[],
): AttachmentRecord | Fault => {
  if (!known.tasks.has(attachment.task_id)) return unknown('task', attachment.task_id)
  const base = baseName(attachment.file_name)
    .replaceAll(/\p{Cc}/gu, '')
    .toWellFormed()
  const name = Array.from(base).slice(-limits.fileName).join('')
  const isValid = validateFileName(name) === null
  if (attachment.entry !== null && (!isValid || name !== attachment.file_name))
    faults.push({ field: 'file_name', code: 'invalid_value', message: 'is not a valid file name' })
  const { fileName, contentType } = describeFile(isValid ? name : 'file', attachment.content_type)
  if (attachment.entry === null)
    faults.push({
      field: 'file',
      code: 'remote_file',
      message: `is not fetched: ${attachment.url === null ? 'it is lost' : excerpt(attachment.url)}`,
    })
  return {
    ...attachment,
    file_name: fileName,
    content_type: contentType,
    size: Number.isSafeInteger(attachment.size) && Number(attachment.size) >= 0 ? attachment.size : null,
    sha256: /^[0-9a-f]{64}$/.test(attachment.sha256 ?? '') ? attachment.sha256 : null,
    uploaded_by: known.ids.user.has(attachment.uploaded_by ?? '') ? attachment.uploaded_by : null,
  }
}
