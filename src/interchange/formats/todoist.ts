import { canonicalInstant, isDay } from '../../domain/shared/dates.ts'
import { canonicalTimeZone, instantAtLocal } from '../../domain/shared/time-zones.ts'
import { blankProject, blankTask, dueFields, startFields, tagNamed } from '../blank.ts'
import { type Draft, type Drafts, note, rootNotes } from '../drafts.ts'
import { excerpt, type Fields, fieldsOf } from '../fields.ts'
import { type ReadOptions, UnreadableFile } from '../import-file.ts'
import { readDocument } from '../json-document.ts'
import { draftsOfList, maxNesting } from '../json-rows.ts'
import type { InterchangeRecord, Reminder, ReportLine, TaskRecord } from '../records.ts'
import { lostReminder, recurringReminders } from '../recurring-reminders.ts'
import { parseRepeated } from './todoist-dates.ts'

/** Reads what the sync endpoint of Todoist's API (version 1, and 9 before it) returns for everything. */

const source = 'todoist'

/** The API counts priorities from below: 1 is none, which the application shows as the fourth. */
const priorities = new Map<number, TaskRecord['priority']>([
  [1, 'none'],
  [2, 'medium'],
  [3, 'high'],
  [4, 'urgent'],
])

/** The names of colors in the API. */
const colors = new Map(
  Object.entries({
    berry_red: '#b8255f',
    red: '#dc4c3e',
    orange: '#c77100',
    yellow: '#b29104',
    olive_green: '#949c31',
    lime_green: '#65a33a',
    green: '#369307',
    mint_green: '#42a393',
    teal: '#148fad',
    sky_blue: '#319dc0',
    light_blue: '#6988a4',
    blue: '#4180ff',
    grape: '#692ec2',
    violet: '#ca3fee',
    lavender: '#a4698c',
    magenta: '#e05095',
    salmon: '#c9766f',
    charcoal: '#808080',
    grey: '#999999',
    taupe: '#8f7a69',
  }),
)

/** Version 8 of the API and those before it have numbers of colors, in the same order. */
const colorOf = (f: Fields): string | null => {
  const name = f.text('color')
  return colors.get(name) ?? [...colors.values()][Number(name) - firstColor] ?? null
}

const firstColor = 30

export async function* readTodoist(path: string, options: ReadOptions): Drafts {
  const { value, notes } = await readDocument(path)
  yield* notes
  const root = fieldsOf(withLists(value))
  if (root === null) throw new UnreadableFile('damaged', 'The file is not an object with lists.')
  const zone = root.object('user')?.object('tz_info')?.text('timezone') ?? ''
  const context = { timeZone: canonicalTimeZone(zone) ?? options.timeZone, now: options.now }

  yield* each(root, 'collaborators', (f, id) => ({
    type: 'user',
    id,
    username: null,
    display_name: f.text('full_name') || f.text('email'),
  }))
  const names = projectNames(root)
  yield* each(root, 'projects', (f, id) => {
    if (f.id('parent_id') !== null)
      f.fault(
        'parent_id',
        'is left out: projects have no projects in them, so the name has both',
        'not_supported',
      )
    return {
      ...blankProject,
      id,
      name: names(id),
      description: f.text('description'),
      color: colorOf(f),
      archived_at: f.flag('is_archived') ? (f.instant('updated_at') ?? context.now) : null,
      created_at: f.instant('created_at'),
      external_source: source,
      external_id: id,
    }
  })
  yield* each(root, 'sections', (f, id) => ({
    type: 'section',
    id,
    project_id: f.id('project_id') ?? '',
    name: f.text('name'),
  }))
  const labels = labelNames(root)
  yield* tags(root, labels)
  yield* items(root, context, labels)
  yield* comments(root)
  if (root.objects('project_notes').length > 0)
    yield note('not_supported', 'Comments on projects are left out.', 'project_notes')
  if (root.objects('filters').length > 0) yield note('not_supported', 'Filters are left out.', 'filters')
  yield* rootNotes(root)
}

/** The list of completed tasks has its projects and sections by their ids. */
const withLists = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const listed = Object.entries(value).map(([name, item]: [string, unknown]) => [
    name,
    (name === 'projects' || name === 'sections') && typeof item === 'object' && item !== null
      ? Object.values(item)
      : item,
  ])
  return Object.fromEntries(listed)
}

/** The drafts of a list that are not deleted, in the order of the application. */
const each = (
  root: Fields,
  part: string,
  record: (fields: Fields, id: string) => InterchangeRecord,
): Generator<Draft | ReportLine, void> =>
  draftsOfList(root.list(part), part, orderOf, (f, id) => (f.flag('is_deleted') ? [] : [record(f, id)]))

const orderOf = (f: Fields): number =>
  f.number('child_order') ?? f.number('section_order') ?? f.number('item_order') ?? 0

const projectNames = (root: Fields): ((id: string) => string) => {
  const projects = new Map(root.objects('projects').map((f) => [f.id('id'), f]))
  return (id) => {
    const names: string[] = []
    const met = new Set<string | null>()
    for (
      let at: string | null = id;
      at !== null && !met.has(at) && met.size < maxNesting;
      at = projects.get(at)?.id('parent_id') ?? null
    ) {
      met.add(at)
      const name = projects.get(at)?.text('name') ?? ''
      if (name !== '') names.unshift(name)
    }
    return names.join(' / ')
  }
}

/** Tasks have the names of their labels; in version 8 of the API and those before it, their ids. */
const labelNames = (root: Fields): ((task: Fields) => readonly string[]) => {
  const names = new Map(root.objects('labels').map((f) => [f.id('id'), f.text('name')]))
  return (task) =>
    task
      .list('labels')
      .map((label) => (typeof label === 'number' ? names.get(String(label)) || String(label) : String(label)))
}

/** The labels of the file's list, and those that only its tasks have. */
function* tags(root: Fields, labels: ReturnType<typeof labelNames>): Generator<Draft, void> {
  const colorsByName = new Map(root.objects('labels').map((f) => [f.text('name'), colorOf(f)]))
  const used = root.list('items').flatMap((item) => {
    const fields = fieldsOf(item)
    return fields === null ? [] : labels(fields)
  })
  for (const name of new Set([...colorsByName.keys(), ...used]))
    if (name !== '')
      yield {
        record: { ...tagNamed(name), color: colorsByName.get(name) ?? null },
        part: 'labels',
        row: null,
        faults: [],
      }
}

interface Context {
  readonly timeZone: string
  readonly now: string
}

function* items(
  root: Fields,
  context: Context,
  labels: ReturnType<typeof labelNames>,
): ReturnType<typeof each> {
  const reminders = Map.groupBy(root.objects('reminders'), (f) => f.id('item_id'))
  yield* each(root, 'items', (f, id) => {
    const completed_at = f.instant('completed_at') ?? f.instant('date_completed')
    // In the list of completed tasks, it is not said.
    const isDone = f.has('checked') ? f.flag('checked') : completed_at !== null
    const dates = datesOf(f, isDone, context)
    const priority = f.number('priority') ?? 1
    if (!priorities.has(priority)) f.fault('priority', `is not from 1 to 4: ${priority}`)
    const duration = f.object('duration')
    if (duration !== null) f.fault('duration', 'is left out: tasks have no duration', 'not_supported')
    return {
      ...blankTask,
      ...dates,
      id,
      title: f.text('content'),
      description: f.text('description'),
      status: isDone ? 'done' : 'todo',
      priority: priorities.get(priority) ?? 'none',
      completed_at,
      created_at: f.instant('added_at') ?? f.instant('date_added'),
      updated_at: f.instant('updated_at'),
      project_id: f.id('project_id'),
      section_id: f.id('section_id'),
      parent_id: f.id('parent_id'),
      assignee_id: f.id('responsible_uid'),
      tag_ids: labels(f),
      reminders: (reminders.get(id) ?? []).flatMap((reminder) => reminderOf(reminder, f, dates, context)),
      external_source: source,
      external_id: id,
    }
  })
}

const datesOf = (f: Fields, isDone: boolean, context: Context) => {
  const due = f.object('due')
  const date = due && dateOf(due, context)
  const deadline = f.object('deadline')?.day('date') ?? null
  const recurrence = due?.flag('is_recurring') && !isDone ? recurrenceOf(f, due, context) : null
  if (deadline === null || date === null || recurrence !== null) {
    if (deadline !== null && recurrence !== null)
      f.fault('deadline', 'is left out: the task recurs by its date', 'not_supported')
    return { ...dueFields(date ?? deadline), ...startFields(null), recurrence }
  }
  // The date is when to begin with it then.
  return { ...startFields(date), ...dueFields(deadline), recurrence }
}

/** A day, a time in the zone of the date or of the user, or a time in UTC. */
const dateOf = (due: Fields, { timeZone }: Context): string | null => {
  const text = due.text('date')
  if (isDay(text)) return text
  const zone = canonicalTimeZone(due.text('timezone')) ?? timeZone
  const found = canonicalInstant(text) ?? instantAtLocal(text.slice(0, 19), zone)
  if (found === null && text !== '') due.fault('due', `is not a date: ${excerpt(text)}`)
  return found
}

const recurrenceOf = (f: Fields, due: Fields, { timeZone }: Context): TaskRecord['recurrence'] => {
  const text = due.text('string')
  const found = parseRepeated(text, canonicalTimeZone(due.text('timezone')) ?? timeZone)
  if (found === null) {
    f.fault('due', `is not carried as a recurrence: ${excerpt(text)}`, 'not_supported')
    return null
  }
  const { time: _, ...recurrence } = found
  return recurrence
}

const reminderOf = (
  reminder: Fields,
  f: Fields,
  dates: ReturnType<typeof datesOf>,
  context: Context,
): readonly Reminder[] => {
  if (reminder.flag('is_deleted')) return []
  const type = reminder.text('type')
  if (type === 'absolute') {
    const due = reminder.object('due')
    const at = due && dateOf(due, context)
    if (due !== null && at?.includes('T')) {
      const absolute = [{ at }]
      const lost = () => f.fault('reminders', lostReminder, 'not_supported')
      return due.flag('is_recurring')
        ? recurringReminders({ ...blankTask, ...dates, reminders: absolute }, context.timeZone, lost)
        : absolute
    }
  }
  const offset = reminder.number('minute_offset') ?? reminder.number('mm_offset')
  if (type === 'relative' && offset !== null) {
    const relative_to = dates.start_at === null && dates.start_on === null ? 'due' : 'start'
    return [{ relative_to, offset_minutes: offset === 0 ? 0 : -offset, time_of_day: null }]
  }
  f.fault('reminders', `has one of a kind that is left out: ${excerpt(type)}`, 'not_supported')
  return []
}

function* comments(root: Fields): ReturnType<typeof each> {
  const people = new Map(root.objects('collaborators').map((f) => [f.id('id'), f.text('full_name')]))
  yield* each(root, 'notes', (f, id) => {
    const file = f.object('file_attachment')
    const body = [f.text('content'), file === null ? '' : linkOf(file)].filter((text) => text !== '')
    if (file !== null)
      f.fault('file_attachment', 'is not fetched; the comment has its address', 'remote_file')
    const author = f.id('posted_uid')
    return {
      type: 'comment',
      id,
      task_id: f.id('item_id') ?? '',
      author_id: author,
      author_name: people.get(author) || null,
      body: body.join('\n\n'),
      created_at: f.instant('posted_at') ?? f.instant('posted'),
      edited_at: null,
    }
  })
}

const linkOf = (file: Fields): string => {
  const url = file.text('file_url') || file.text('url')
  const name = file.text('file_name') || file.text('title') || url
  return url === '' ? name : `[${name}](${url})`
}
