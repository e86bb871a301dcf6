import { storedRelation, type RelationKind } from '../../domain/tasks/relations.ts'
import { blankProject, blankTask } from '../blank.ts'
import { type Draft, type Drafts, note } from '../drafts.ts'
import { type Fields, fieldsOf } from '../fields.ts'
import { type ReadOptions, UnreadableFile } from '../import-file.ts'
import { readDocument } from '../json-document.ts'
import { bytesOf } from '../lines.ts'
import { textOfHtml } from '../plain-text.ts'
import { draftsOfList, maxNesting } from '../json-rows.ts'
import type { AttachmentRecord, Reminder, ReportLine, TaskRecord } from '../records.ts'
import { lostReminder, recurringReminders } from '../recurring-reminders.ts'
import type { Archive } from '../zip.ts'

/** Reads the exports of Vikunja: an archive of projects with their tasks, and of files by their number. */

const source = 'vikunja'

/** From 0.21 on, projects are in projects; before, there were lists in namespaces. */
const firstVersion = [0, 21]

/** 5 is `DO NOW`. */
const priorities = ['none', 'low', 'medium', 'high', 'urgent', 'urgent'] as const

/** What Vikunja writes for no time at all. */
const noTime = '0001-01-01T00:00:00.000Z'

const relationKinds = new Map<string, RelationKind>([
  ['blocking', 'blocks'],
  ['blocked', 'blocked_by'],
  ['duplicateof', 'duplicates'],
  ['duplicates', 'duplicated_by'],
  ['related', 'relates_to'],
  ['precedes', 'relates_to'],
  ['follows', 'relates_to'],
  ['copiedfrom', 'relates_to'],
  ['copiedto', 'relates_to'],
])

interface Project {
  readonly fields: Fields
  readonly id: string
  readonly path: string
}

export async function* readVikunja(archive: Archive, options: ReadOptions): Drafts {
  const version = (await bytesOf(await archive.open('VERSION'), 1000))?.toString() ?? ''
  const [, major = '0', minor = '0'] = /^v?(\d+)\.(\d+)/.exec(version) ?? []
  if (/^v?\d/.test(version) && Number(major) === firstVersion[0] && Number(minor) < (firstVersion[1] ?? 0))
    throw new UnreadableFile(
      'damaged',
      `Exports of Vikunja can be read from version 0.21 on; this is ${version}.`,
    )
  const { value, notes } = await readDocument({ archive, name: 'data.json' })
  yield* notes
  if (!Array.isArray(value)) throw new UnreadableFile('damaged', 'data.json is not a list of projects.')
  const projects = projectsIn(value)
  const seen = new Set<string>()
  const once = (draft: Draft): readonly Draft[] => {
    const key = `${draft.record.type} ${'id' in draft.record ? draft.record.id : JSON.stringify(draft.record)}`
    if (seen.has(key)) return []
    seen.add(key)
    return [draft]
  }
  for (const project of projects) yield* projectDrafts(project)
  for (const project of projects)
    for (const item of tasks(project, options))
      yield* 'record' in item && item.record.type !== 'task' ? once(item) : [item]
  for (const project of projects)
    for (const task of project.fields.objects('tasks')) yield* [...hangingOn(task, archive)].flatMap(once)
  if (archive.has('filters.json')) {
    const filters = await readDocument({ archive, name: 'filters.json' })
    if (Array.isArray(filters.value) && filters.value.length > 0)
      yield note('not_supported', 'Saved filters are left out.', 'filters.json')
  }
}

/** Projects in the order of their parents, with what shows where they were. Those with negative ids are made of filters. */
const projectsIn = (found: readonly unknown[]): readonly Project[] => {
  const all = new Map<string, Fields>()
  const parents = new Map<string, string>()
  const waiting = [...found]
  // Grows meanwhile.
  for (const item of waiting) {
    const fields = fieldsOf(item)
    const id = fields?.id('id') ?? null
    if (fields === null || id === null || id.startsWith('-') || all.has(id)) continue
    all.set(id, fields)
    const parent = fields.id('parent_project_id')
    if (parent !== null && parent !== '0') parents.set(id, parent)
    for (const child of fields.list('child_projects')) {
      waiting.push(child)
      parents.set(fieldsOf(child)?.id('id') ?? '', id)
    }
  }
  const pathOf = (id: string): string => {
    const titles: string[] = []
    const met = new Set<string>()
    for (
      let at: string | undefined = id;
      at !== undefined && !met.has(at) && met.size < maxNesting;
      at = parents.get(at)
    ) {
      met.add(at)
      const title = all.get(at)?.text('title') ?? ''
      if (title !== '') titles.unshift(title)
    }
    return titles.join(' / ')
  }
  return [...all].map(([id, fields]) => ({ fields, id, path: pathOf(id) }))
}

function* projectDrafts({ fields: f, id, path }: Project): Generator<Draft, void> {
  const part = 'data.json'
  if (path !== f.text('title'))
    f.fault(
      'parent_project_id',
      'is left out: projects have no projects in them, so the name has both',
      'not_supported',
    )
  const color = f.text('hex_color').replace(/^#/, '')
  const record = {
    ...blankProject,
    id,
    name: path,
    description: textOfHtml(f.text('description')),
    color: color === '' ? null : `#${color}`,
    archived_at: f.flag('is_archived') ? f.instant('updated') : null,
    created_at: time(f, 'created'),
    external_source: source,
    external_id: id,
  }
  yield { record, part, row: null, faults: [...f.faults] }
  for (const bucket of bucketsOf(f))
    yield {
      record: { type: 'section', id: bucket.id('id') ?? '', project_id: id, name: bucket.text('title') },
      part,
      row: null,
      faults: [],
    }
}

/** The columns of the project's first board. */
const bucketsOf = (project: Fields): readonly Fields[] => {
  const buckets = project.objects('buckets').filter((bucket) => bucket.id('id') !== null)
  const view = boardOf(project)
  return buckets
    .filter((bucket) => view === null || bucket.id('project_view_id') === view)
    .toSorted((one, other) => (one.number('position') ?? 0) - (other.number('position') ?? 0))
}

const boardOf = (project: Fields): string | null =>
  project
    .objects('views')
    .find((view) => ['kanban', '3'].includes(view.text('view_kind')))
    ?.id('id') ??
  project
    .objects('buckets')
    .find((bucket) => bucket.id('project_view_id') !== null)
    ?.id('project_view_id') ??
  null

const time = (f: Fields, name: string): string | null => {
  const found = f.instant(name)
  return found === noTime ? null : found
}

const tasks = (
  { fields, id: project_id }: Project,
  options: ReadOptions,
): Generator<Draft | ReportLine, void> => {
  const view = boardOf(fields)
  const buckets = new Set(bucketsOf(fields).map((bucket) => bucket.id('id')))
  const bucketOf = new Map(
    fields
      .objects('task_buckets')
      .filter((entry) => view === null || isIn(entry, view))
      .map((entry) => [entry.id('task_id'), entry.id('bucket_id')]),
  )
  // Those in the board count most.
  const positionOf = new Map(
    fields
      .objects('positions')
      .toSorted((one, other) => Number(isIn(one, view)) - Number(isIn(other, view)))
      .map((entry) => [entry.id('task_id'), entry.number('position')]),
  )
  const order = (f: Fields): number => positionOf.get(f.id('id')) ?? f.number('position') ?? 0
  return draftsOfList(fields.list('tasks'), `data.json, ${fields.text('title')}`, order, (f, id) => {
    const bucket = bucketOf.get(id) ?? f.id('bucket_id')
    const section_id = buckets.has(bucket) ? bucket : null
    return [...usersOf(f), ...labelsOf(f), { ...taskOf(f, id, options), project_id, section_id }]
  })
}

const isIn = (entry: Fields, view: string | null): boolean => entry.id('project_view_id') === view

const userOf = (f: Fields) =>
  ({
    type: 'user',
    id: f.id('id') ?? '',
    username: f.id('username'),
    display_name: f.text('name') || f.text('username'),
  }) as const

const usersOf = (task: Fields) => [
  ...task.objects('assignees').map(userOf),
  ...[task.object('created_by')].flatMap((f) => (f?.id('id') ? [userOf(f)] : [])),
]

const labelsOf = (task: Fields) =>
  task.objects('labels').map((label) => {
    const color = label.text('hex_color').replace(/^#/, '')
    return {
      type: 'tag',
      id: label.id('id') ?? '',
      name: label.text('title'),
      color: color === '' ? null : `#${color}`,
      project_id: null,
    } as const
  })

const taskOf = (f: Fields, id: string, { timeZone }: ReadOptions): TaskRecord => {
  const isDone = f.flag('done')
  const [due, end] = [time(f, 'due_date'), time(f, 'end_date')]
  if (due !== null && end !== null)
    f.fault('end_date', 'is left out: the task is due at another time', 'not_supported')
  const priority = f.number('priority') ?? 0
  if (priorities[priority] === undefined) f.fault('priority', `is not from 0 to 5: ${priority}`)
  const [assignee = null, ...others] = f.objects('assignees').map((user) => user.id('id'))
  if (others.length > 0)
    f.fault('assignees', `has ${others.length + 1}; the first one becomes the assignee`, 'too_many')
  const [parent = null] =
    f
      .object('related_tasks')
      ?.objects('parenttask')
      .map((task) => task.id('id')) ?? []
  const task: TaskRecord = {
    ...blankTask,
    id,
    title: f.text('title'),
    description: textOfHtml(f.text('description')),
    status: isDone ? 'done' : (f.number('percent_done') ?? 0) > 0 ? 'in_progress' : 'todo',
    priority: priorities[priority] ?? 'none',
    start_at: time(f, 'start_date'),
    due_at: due ?? end,
    completed_at: time(f, 'done_at'),
    owner_id: f.object('created_by')?.id('id') ?? null,
    assignee_id: assignee,
    parent_id: parent,
    tag_ids: f.objects('labels').map((label) => label.id('id') ?? ''),
    reminders: f.objects('reminders').flatMap((reminder) => reminderOf(reminder, f)),
    recurrence: isDone ? null : recurrenceOf(f, timeZone),
    created_at: time(f, 'created'),
    updated_at: time(f, 'updated'),
    external_source: source,
    external_id: id,
  }
  const lost = () => f.fault('reminders', lostReminder, 'not_supported')
  return { ...task, reminders: recurringReminders(task, timeZone, lost) }
}

const day = 86_400

/** `repeat_after` is in seconds; a mode of 1 is every month, and of 2 from when the task is done. */
const recurrenceOf = (f: Fields, time_zone: string): TaskRecord['recurrence'] => {
  const seconds = f.number('repeat_after') ?? 0
  const mode = f.number('repeat_mode') ?? 0
  const common = { time_zone, month_end: 'last_day', missed: 'skip', anchor: 'due' } as const
  if (mode === 1) return { ...common, rule: 'FREQ=MONTHLY', from: 'schedule' }
  if (seconds <= 0) return null
  if (seconds % day > 0) {
    f.fault('repeat_after', `is left out: ${seconds} seconds are not whole days`, 'not_supported')
    return null
  }
  const weeks = seconds / day / 7
  const rule = Number.isInteger(weeks)
    ? `FREQ=WEEKLY;INTERVAL=${weeks}`
    : `FREQ=DAILY;INTERVAL=${seconds / day}`
  return { ...common, rule, from: mode === 2 ? 'completion' : 'schedule' }
}

const reminderOf = (reminder: Fields, task: Fields): readonly Reminder[] => {
  const to = reminder.text('relative_to')
  if (to === 'due_date' || to === 'start_date') {
    const offset_minutes = Math.round((reminder.number('relative_period') ?? 0) / 60)
    return [{ relative_to: to === 'due_date' ? 'due' : 'start', offset_minutes, time_of_day: null }]
  }
  const at = time(reminder, 'reminder')
  if (at !== null) return [{ at }]
  task.fault('reminders', 'has one without a time', 'invalid_value')
  return []
}

/** Comments, relations and files of a task. */
function* hangingOn(task: Fields, archive: Archive): Generator<Draft, void> {
  const task_id = task.id('id') ?? ''
  const where = { part: 'data.json', row: null }
  for (const f of task.objects('comments')) {
    const author = f.object('author')
    const record = {
      type: 'comment',
      id: f.id('id') ?? '',
      task_id,
      author_id: author?.id('id') ?? null,
      author_name: author === null ? null : author.text('name') || author.id('username'),
      body: textOfHtml(f.text('comment')),
      created_at: time(f, 'created'),
      edited_at: f.text('updated') === f.text('created') ? null : time(f, 'updated'),
    } as const
    yield { ...where, record, faults: [] }
  }
  const related = task.object('related_tasks')
  for (const [name, kind] of relationKinds)
    for (const other of related?.objects(name) ?? []) {
      const { taskId, otherTaskId, ...stored } = storedRelation(task_id, kind, other.id('id') ?? '')
      const record = {
        type: 'relation',
        task_id: taskId,
        kind: stored.kind,
        other_task_id: otherTaskId,
        created_at: null,
      } as const
      yield { ...where, record, faults: [] }
    }
  for (const f of task.objects('attachments'))
    yield { ...where, record: attachmentOf(f, task_id, archive), faults: [] }
}

const attachmentOf = (f: Fields, task_id: string, archive: Archive): AttachmentRecord => {
  const file = f.object('file')
  const entry = `files/${file?.id('id') ?? ''}`
  return {
    type: 'attachment',
    id: f.id('id') ?? '',
    task_id,
    file_name: file?.text('name') ?? 'file',
    content_type: file?.id('mime') ?? null,
    size: file?.number('size') ?? null,
    sha256: null,
    uploaded_by: f.object('created_by')?.id('id') ?? null,
    created_at: time(f, 'created'),
    entry: archive.has(entry) ? entry : null,
    url: null,
  }
}
