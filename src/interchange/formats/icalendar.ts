import ICAL from 'ical.js'
import { createReadStream } from 'node:fs'
import { canonicalInstant, isDay } from '../../domain/dates.ts'
import { formatRule, parseRule } from '../../domain/recurrence-rule.ts'
import { canonicalTimeZone, instantAtLocal, shift } from '../../domain/time-zones.ts'
import { blankProject, blankTask, dueFields, startFields, tagNamed } from '../blank.ts'
import { type Drafts, type Fault, note, refusal } from '../drafts.ts'
import { excerpt } from '../fields.ts'
import type { ReadOptions } from '../import-file.ts'
import { decode, linesIn } from '../lines.ts'
import type { InterchangeRecord, Reminder, TaskRecord } from '../records.ts'

/**
 * Reads the to-dos of a calendar. ical.js gets each property by itself: one that it cannot parse would take the whole calendar with
 * it, and is one line of the report here.
 */

/** Characters of a component. */
const maxComponent = 4 * 1024 ** 2

const source = 'icalendar'

interface Property {
  readonly name: string
  readonly parameters: Readonly<Record<string, string | readonly string[]>>
  readonly type: string
  /** Of the first value; `values` has all of them. */
  readonly value: unknown
  readonly values: readonly unknown[]
}

interface Component {
  readonly name: string
  readonly line: number
  readonly lines: string[]
  readonly components: Component[]
}

interface Context extends ReadOptions {
  /** Zones that the calendar defines. */
  readonly zones: Map<string, ICAL.Timezone>
}

export async function* readCalendar(path: string, options: ReadOptions): Drafts {
  const context: Context = { ...options, zones: new Map() }
  const seen = new Set<string>()
  const others = new Map<string, number>()
  const project_id = await nameOf(path)
  if (project_id !== null)
    yield { record: { ...blankProject, id: project_id, name: project_id }, part: null, row: null, faults: [] }
  for await (const component of componentsIn(path)) {
    if (typeof component === 'number') {
      const message = 'The component is too long.'
      yield refusal(null, component, { field: null, code: 'too_long', message })
    } else if (component.name === 'VTIMEZONE') addZone(component, context.zones)
    else if (component.name !== 'VTODO') others.set(component.name, (others.get(component.name) ?? 0) + 1)
    else {
      const { named, task, comments, faults } = todoOf(component, context)
      for (const record of named) {
        const key = `${record.type} ${'id' in record ? record.id : ''}`
        if (!seen.has(key)) yield { record, part: null, row: component.line, faults: [] }
        seen.add(key)
      }
      yield { record: { ...task, project_id }, part: null, row: component.line, faults }
      for (const record of comments) yield { record, part: null, row: component.line, faults: [] }
    }
  }
  for (const [name, count] of others)
    yield note('not_supported', `${count} of ${name} are left out: only VTODO is read.`)
}

/** The name of the calendar, which is in its first lines. */
const nameOf = async (path: string): Promise<string | null> => {
  for await (const { text } of unfolded(path)) {
    const [, name] = /^(?:NAME|X-WR-CALNAME)(?:;[^:]*)?:(.*)$/i.exec(text) ?? []
    if (name !== undefined)
      return (
        name
          .replaceAll(/\\([\\;,])/g, '$1')
          .replaceAll(/\\[nN]/g, ' ')
          .trim() || null
      )
    if (/^BEGIN:V(TODO|EVENT|JOURNAL|TIMEZONE)/i.test(text)) return null
  }
  return null
}

/** The lines of a file, each with the ones that continue it. */
async function* unfolded(path: string): AsyncGenerator<{ number: number; text: string }, void> {
  let held: { number: number; bytes: Buffer[] } | null = null
  const textOf = ({ number, bytes }: { number: number; bytes: Buffer[] }) => ({
    number,
    text: decode(Buffer.concat(bytes)).text,
  })
  for await (const { number, bytes } of linesIn(createReadStream(path))) {
    // A line that is too long is cut off, and its component refused by its length.
    const line = bytes ?? Buffer.alloc(maxComponent)
    const content = line.at(-1) === 0x0d ? line.subarray(0, -1) : line
    // Bytes are joined before they are decoded: programs fold within characters.
    if (held !== null && (content[0] === 0x20 || content[0] === 0x09)) held.bytes.push(content.subarray(1))
    else {
      if (held !== null) yield textOf(held)
      held = { number, bytes: [content] }
    }
  }
  if (held !== null) yield textOf(held)
}

const isOutermost = ({ name }: Component): boolean => /^V(TODO|EVENT|JOURNAL|TIMEZONE|FREEBUSY)$/.test(name)

/** The components within the calendar; the line of one that is too long. */
async function* componentsIn(path: string): AsyncGenerator<Component | number, void> {
  const open: Component[] = []
  let length = 0
  for await (const { number, text } of unfolded(path)) {
    const [, edge, name = ''] = /^(BEGIN|END):\s*(\S+)\s*$/i.exec(text) ?? []
    const current = open.at(-1)
    if (edge?.toUpperCase() === 'BEGIN') {
      if (name.toUpperCase() === 'VCALENDAR') continue
      const component = { name: name.toUpperCase(), line: number, lines: [], components: [] }
      const [unended] = open
      if (unended !== undefined && isOutermost(component)) {
        // Somebody forgot its end.
        open.length = 0
        yield length > maxComponent ? unended.line : unended
        length = 0
      }
      open.at(-1)?.components.push(component)
      open.push(component)
    } else if (edge !== undefined) {
      if (current?.name !== name.toUpperCase()) continue
      open.pop()
      if (open.length > 0) continue
      yield length > maxComponent ? current.line : current
      length = 0
    } else if (current !== undefined) {
      length += text.length
      if (length <= maxComponent) current.lines.push(text)
    }
  }
  const [left] = open
  if (left !== undefined) yield length > maxComponent ? left.line : left
}

const addZone = (component: Component, zones: Map<string, ICAL.Timezone>): void => {
  try {
    const parsed = new ICAL.Component(ICAL.parse(textOf(component)) as unknown[])
    const tzid = parsed.getFirstPropertyValue('tzid')
    if (typeof tzid === 'string') zones.set(tzid, new ICAL.Timezone({ component: parsed, tzid }))
  } catch {
    // Its times are taken to be in the zone of the user.
  }
}

const textOf = ({ name, lines, components }: Component): string =>
  [`BEGIN:${name}`, ...lines, ...components.map(textOf), `END:${name}`].join('\r\n')

const propertiesOf = ({ lines }: Component, faults: Fault[]): ReadonlyMap<string, readonly Property[]> => {
  const found = lines.flatMap((line): Property[] => {
    const name = /^[A-Za-z0-9-]+/.exec(line)?.[0].toUpperCase() ?? excerpt(line)
    try {
      const [, parameters, type, ...values] = ICAL.parse.property(line, ICAL.design.icalendar) as [
        string,
        Record<string, string | string[]>,
        string,
        ...unknown[],
      ]
      return [{ name, parameters, type, value: values[0], values }]
    } catch {
      faults.push({ field: name, code: 'invalid_value', message: `cannot be read: ${excerpt(line)}` })
      return []
    }
  })
  return Map.groupBy(found, ({ name }) => name)
}

const todoOf = (component: Component, context: Context) => {
  const faults: Fault[] = []
  const properties = propertiesOf(component, faults)
  const first = (name: string): Property | null => properties.get(name)?.[0] ?? null
  const text = (name: string): string => textValue(first(name))
  const date = (name: string): string | null => dateOf(first(name), context, faults)
  const instance = text('RECURRENCE-ID')
  const uid = text('UID') || `line ${component.line}`
  const id = instance === '' ? uid : `${uid} ${instance}`
  const tags = (properties.get('CATEGORIES') ?? [])
    .flatMap(({ values }) => values.map(String))
    .map((name) => name.trim())
  const assignee = first('ATTENDEE')
  const assignee_id = textValue(assignee) || null
  const parent = (properties.get('RELATED-TO') ?? []).find(
    ({ parameters }) => (parameters.reltype ?? 'PARENT').toString().toUpperCase() === 'PARENT',
  )
  const completed = date('COMPLETED')
  const status = statusOf(text('STATUS'), text('PERCENT-COMPLETE'), completed !== null)
  const start = date('DTSTART')
  const due = date('DUE') ?? (start === null ? null : endOf(start, text('DURATION'), context))
  const isSame = due !== null && due === start
  for (const { value } of properties.get('ATTACH') ?? [])
    faults.push({
      field: 'ATTACH',
      code: 'remote_file',
      message: `is not fetched: ${excerpt(String(value))}`,
    })
  const task: TaskRecord = {
    ...blankTask,
    id,
    title: text('SUMMARY') || (text('DESCRIPTION').split('\n')[0] ?? ''),
    description: text('DESCRIPTION'),
    status,
    priority: priorityOf(text('PRIORITY'), faults),
    ...startFields(isSame ? null : start),
    ...dueFields(due),
    completed_at: completed?.includes('T') ? completed : null,
    created_at: instantOnly(date('CREATED')),
    updated_at: instantOnly(date('LAST-MODIFIED')),
    assignee_id,
    parent_id: textValue(parent ?? null) || null,
    tag_ids: [...new Set(tags)].filter((name) => name !== ''),
    recurrence:
      instance !== '' || status === 'done' || status === 'cancelled'
        ? null
        : recurrenceOf(first('RRULE'), zoneOf(first('DUE') ?? first('DTSTART'), context), faults),
    reminders: component.components
      .flatMap((alarm) => reminderOf(alarm, context, faults))
      .map((reminder) => ofDates(reminder, isSame ? null : start, due)),
    external_source: source,
    external_id: uid,
  }
  const named: InterchangeRecord[] = task.tag_ids.map(tagNamed)
  if (assignee_id !== null) {
    const name = String(assignee?.parameters.cn ?? assignee_id.replace(/^mailto:/i, ''))
    named.push({ type: 'user', id: assignee_id, username: null, display_name: name })
  }
  const comments = (properties.get('COMMENT') ?? []).map(
    (property, index) =>
      ({
        type: 'comment',
        id: `${id} ${index + 1}`,
        task_id: id,
        author_id: null,
        author_name: null,
        body: textValue(property),
        created_at: null,
        edited_at: null,
      }) as const,
  )
  if (instance !== '')
    faults.push({
      field: 'RECURRENCE-ID',
      code: 'not_supported',
      message: 'is left out: an occurrence that differs becomes a task of its own',
    })
  for (const name of ['EXDATE', 'RDATE', 'GEO', 'LOCATION', 'URL'])
    if (properties.has(name)) faults.push({ field: name, code: 'not_supported', message: 'is left out' })
  return { task, named, comments, faults }
}

const textValue = (property: Property | null): string =>
  typeof property?.value === 'string' || typeof property?.value === 'number' ? String(property.value) : ''

const instantOnly = (date: string | null): string | null => (date?.includes('T') ? date : null)

const zoneOf = (property: Property | null, { timeZone }: Context): string =>
  canonicalTimeZone(String(property?.parameters.tzid ?? '')) ?? timeZone

/** A day, or an instant: in UTC, in a zone, or in that of the user. */
const dateOf = (property: Property | null, context: Context, faults: Fault[]): string | null => {
  if (property === null) return null
  const text = textValue(property)
  const found = isDay(text) ? text : instantOf(text, property, context)
  if (found === null)
    faults.push({ field: property.name, code: 'invalid_value', message: `is not a date: ${excerpt(text)}` })
  return found
}

const instantOf = (text: string, { parameters }: Property, context: Context): string | null => {
  if (/Z$/i.test(text)) return canonicalInstant(text)
  const tzid = String(parameters.tzid ?? '')
  const zone = context.zones.get(tzid)
  const local = text.slice(0, 19)
  if (canonicalTimeZone(tzid) !== null || zone === undefined)
    return instantAtLocal(local, canonicalTimeZone(tzid) ?? context.timeZone)
  try {
    const offset = zone.utcOffset(ICAL.Time.fromDateTimeString(local))
    return canonicalInstant(new Date(Date.parse(`${local}Z`) - offset * 1000).toISOString())
  } catch {
    return instantAtLocal(local, context.timeZone)
  }
}

const endOf = (start: string, duration: string, { timeZone }: Context): string | null => {
  if (duration === '') return null
  try {
    const { weeks, days, hours, minutes, seconds, isNegative } = ICAL.Duration.fromString(duration)
    if (isNegative) return null
    const moved = shift(start, weeks * 7 + days, timeZone)
    if (moved === null || isDay(moved)) return moved
    const time = (hours * 60 + minutes) * 60 + seconds
    return canonicalInstant(new Date(Date.parse(moved) + time * 1000).toISOString())
  } catch {
    return null
  }
}

const statusOf = (status: string, percent: string, isCompleted: boolean): TaskRecord['status'] => {
  if (status.toUpperCase() === 'CANCELLED') return 'cancelled'
  if (status.toUpperCase() === 'COMPLETED' || isCompleted || Number(percent) >= 100) return 'done'
  return status.toUpperCase() === 'IN-PROCESS' || Number(percent) > 0 ? 'in_progress' : 'todo'
}

/** 1 is the highest; 5 is in the middle, and 9 the lowest. */
const priorityOf = (text: string, faults: Fault[]): TaskRecord['priority'] => {
  const number = Number(text)
  if (text === '' || number === 0) return 'none'
  if (number === 1) return 'urgent'
  if (number > 1 && number < 5) return 'high'
  if (number === 5) return 'medium'
  if (number > 5 && number < 10) return 'low'
  faults.push({ field: 'PRIORITY', code: 'invalid_value', message: `is not from 0 to 9: ${excerpt(text)}` })
  return 'none'
}

/** How `last_day` is written in iCalendar. */
const lastDay = /;BYMONTHDAY=28(?:,29)?(?:,30)?,(29|30|31);BYSETPOS=-1$/

const recurrenceOf = (
  property: Property | null,
  time_zone: string,
  faults: Fault[],
): TaskRecord['recurrence'] => {
  if (property === null) return null
  const text = ruleText(property.value)
  const canonical = parseRule(text, 'schedule')
  if ('message' in canonical) {
    faults.push({ field: 'RRULE', code: 'not_supported', message: `is left out: ${canonical.message}` })
    return null
  }
  const rule = formatRule(canonical)
  const [, last] = lastDay.exec(rule) ?? []
  const common = { time_zone, from: 'schedule', missed: 'skip' } as const
  return last === undefined
    ? { ...common, rule, month_end: 'skip' }
    : { ...common, rule: rule.replace(lastDay, `;BYMONTHDAY=${last}`), month_end: 'last_day' }
}

/** ical.js has a rule as an object. */
const ruleText = (value: unknown): string => {
  if (typeof value !== 'object' || value === null) return String(value)
  return Object.entries(value as Record<string, unknown>)
    .map(
      ([part, item]) => `${part}=${part === 'until' ? String(item).replaceAll(/[-:]/g, '') : String(item)}`,
    )
    .join(';')
}

/** Programs write alarms of the start for tasks that are only due. Alarms of a day count from its first minute. */
const ofDates = (reminder: Reminder, start: string | null, due: string | null): Reminder => {
  if ('at' in reminder) return reminder
  const relative_to = reminder.relative_to === 'start' && start === null ? 'due' : reminder.relative_to
  const date = relative_to === 'due' ? due : start
  if (date === null || date.includes('T')) return { ...reminder, relative_to }
  const offset_minutes = Math.floor(reminder.offset_minutes / 1440) * 1440
  const minutes = reminder.offset_minutes - offset_minutes
  const pad = (number: number): string => String(number).padStart(2, '0')
  return { relative_to, offset_minutes, time_of_day: `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}` }
}

const reminderOf = (alarm: Component, context: Context, faults: Fault[]): readonly Reminder[] => {
  if (alarm.name !== 'VALARM') return []
  const trigger = propertiesOf(alarm, faults).get('TRIGGER')?.[0] ?? null
  if (trigger === null) return []
  if (trigger.type === 'date-time') {
    const at = instantOnly(dateOf(trigger, context, faults))
    return at === null ? [] : [{ at }]
  }
  const relative_to = String(trigger.parameters.related ?? 'START').toUpperCase() === 'END' ? 'due' : 'start'
  try {
    const seconds = ICAL.Duration.fromString(textValue(trigger)).toSeconds()
    return [{ relative_to, offset_minutes: Math.round(seconds / 60), time_of_day: null }]
  } catch {
    faults.push({ field: 'TRIGGER', code: 'invalid_value', message: 'is not a duration' })
    return []
  }
}
