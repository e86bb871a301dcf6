import ICAL from 'ical.js'
import { setImmediate } from 'node:timers/promises'
import { isDay } from '../domain/shared/dates.ts'
import { formatRule } from '../domain/tasks/recurrence-rule.ts'
import { daysInSeries, isLive } from '../domain/tasks/series.ts'
import { atTimeOf, dayAfter, dayOf, instantOf, localTimeOf, shift } from '../domain/shared/time-zones.ts'
import { ruleFrom } from './calendar-rules.ts'
import { type Component, type Property, zoneComponent } from './calendar-zones.ts'
import type { Reminder, TaskRecord } from './records.ts'

/** Writes tasks as iCalendar (RFC 5545 and 7986). ical.js writes the lines; this says which. */

// Bytes. ical.js does not count the space at the start of a folded line, which makes 75.
ICAL.foldLength = 74

/** What comes before the components. */
export interface HeadFacts {
  /** Of the service, for PRODID. */
  readonly generator: string
  readonly name: string
  readonly color: string | null
  /** How often clients should read it again; null for a file. */
  readonly refreshMinutes: number | null
}

/** What the components depend on, beside the tasks. */
export interface ComponentFacts {
  readonly kind: 'todo' | 'event'
  readonly alarms: boolean
  /** Where an all-day date has to become a time, because the other date of the task is one. */
  readonly timeZone: string
}

export interface CalendarFacts extends HeadFacts, ComponentFacts {}

type CalendarFields =
  | 'id'
  | 'title'
  | 'description'
  | 'status'
  | 'priority'
  | 'start_at'
  | 'start_on'
  | 'due_at'
  | 'due_on'
  | 'completed_at'
  | 'parent_id'
  | 'recurrence'
  | 'series_id'
  | 'recurrence_anchor'
  | 'occurrence_number'
  | 'occurrence_at'
  | 'occurrence_on'
  | 'next_task_id'
  | 'reminders'
  | 'version'
  | 'created_at'

export interface CalendarTask extends Pick<TaskRecord, CalendarFields> {
  readonly updated_at: string
  /** Their names. */
  readonly tags: readonly string[]
}

/** The UIDs of tasks, by their ids. */
export const uidsOf = (tasks: readonly CalendarTask[]): Map<string, string> =>
  new Map(tasks.map((task) => [task.id, uidOf(task)]))

/** Yields the text of a calendar in pieces. */
export async function* calendarText(
  facts: CalendarFacts,
  tasks: AsyncIterable<CalendarTask> | Iterable<CalendarTask>,
): AsyncGenerator<string, void> {
  yield calendarHead(facts)
  yield* calendarComponents(facts, tasks)
}

/** The text of a calendar before its components. */
export const calendarHead = (facts: HeadFacts): string =>
  `BEGIN:VCALENDAR\r\n${calendarProperties(facts).map(lineOf).join('')}`

/**
 * Yields the components of a calendar, and its end, in pieces. Tasks without a date are no events. A task names its parent if that comes
 * before it, or is among `uids`.
 */
export async function* calendarComponents(
  facts: ComponentFacts,
  tasks: AsyncIterable<CalendarTask> | Iterable<CalendarTask>,
  uids = new Map<string, string>(),
): AsyncGenerator<string, void> {
  const zones = new Set<string>()
  let written = 0
  for await (const task of tasks) {
    // Tasks from memory would hold the service until the last one is written.
    if (written % tasksInRow === 0) await setImmediate()
    written += 1
    uids.set(task.id, uidOf(task))
    const { zone, components } = componentsOf(facts, task, uids.get(task.parent_id ?? '') ?? null)
    if (zone !== null && !zones.has(zone)) {
      zones.add(zone)
      yield zoneText(zone)
    }
    yield components.map(textOf).join('')
  }
  yield 'END:VCALENDAR\r\n'
}

const tasksInRow = 20

/** At most one for each zone. */
const zoneTexts = new Map<string, string>()

const zoneText = (zone: string): string => {
  const text = zoneTexts.get(zone) ?? textOf(zoneComponent(zone))
  zoneTexts.set(zone, text)
  return text
}

const textOf = (component: Component): string =>
  `${ICAL.stringify.component(component, ICAL.design.icalendar)}\r\n`

const lineOf = (property: Property): string =>
  `${ICAL.stringify.property(property, ICAL.design.icalendar, false)}\r\n`

const calendarProperties = ({ generator, name, color, refreshMinutes }: HeadFacts): Property[] => [
  ['version', {}, 'text', '2.0'],
  ['prodid', {}, 'text', `-//Taskwright//${plainText(generator)}//EN`],
  ['calscale', {}, 'text', 'GREGORIAN'],
  // The second name is what clients read that do not know RFC 7986; so with the color and the interval.
  ['name', {}, 'unknown', escaped(name)],
  ['x-wr-calname', {}, 'unknown', escaped(name)],
  ...optional(color, (color) => [
    ['color', {}, 'unknown', nearestColorName(color)],
    ['x-apple-calendar-color', {}, 'unknown', color],
  ]),
  ...optional(refreshMinutes, (minutes) => [
    ['refresh-interval', {}, 'duration', `PT${minutes}M`],
    ['x-published-ttl', {}, 'unknown', `PT${minutes}M`],
  ]),
]

const optional = <Value>(value: Value | null, properties: (value: Value) => Property[]): Property[] =>
  value === null ? [] : properties(value)

/** Without controls other than line breaks, which iCalendar cannot have. */
const plainText = (text: string): string => text.replaceAll(/\r\n?/g, '\n').replaceAll(/[^\P{Cc}\n\t]/gu, '')

/** The escaping of properties that ical.js does not know as text. */
const escaped = (text: string): string =>
  plainText(text)
    .replaceAll(/[\\;,]/g, String.raw`\$&`)
    .replaceAll('\n', String.raw`\n`)

/** RFC 7986 has names of CSS for colors, of which these are far enough apart. */
const colorNames = {
  black: 0x00_00_00,
  gray: 0x80_80_80,
  silver: 0xc0_c0_c0,
  white: 0xff_ff_ff,
  maroon: 0x80_00_00,
  brown: 0xa5_2a_2a,
  red: 0xff_00_00,
  tomato: 0xff_63_47,
  orange: 0xff_a5_00,
  gold: 0xff_d7_00,
  yellow: 0xff_ff_00,
  olive: 0x80_80_00,
  green: 0x00_80_00,
  limegreen: 0x32_cd_32,
  teal: 0x00_80_80,
  turquoise: 0x40_e0_d0,
  deepskyblue: 0x00_bf_ff,
  royalblue: 0x41_69_e1,
  blue: 0x00_00_ff,
  navy: 0x00_00_80,
  indigo: 0x4b_00_82,
  purple: 0x80_00_80,
  magenta: 0xff_00_ff,
  hotpink: 0xff_69_b4,
  pink: 0xff_c0_cb,
} as const

const nearestColorName = (color: string): string => {
  const wanted = Number.parseInt(color.slice(1), 16)
  const distance = (other: number): number =>
    [16, 8, 0].reduce((sum, shift) => sum + (((wanted >> shift) & 255) - ((other >> shift) & 255)) ** 2, 0)
  const nearest = Object.entries(colorNames).reduce((best, other) =>
    distance(other[1]) < distance(best[1]) ? other : best,
  )
  return nearest[0]
}

/** The task whose closing creates the next one stands for its series; the ones before it for themselves. */
const uidOf = (task: CalendarTask): string => (isLive(task) && task.series_id) || task.id

/** The start and the due date of a task, each a day or an instant. */
interface Dates {
  readonly start: string | null
  readonly due: string | null
}

const datesOf = ({ start_at, start_on, due_at, due_on }: CalendarTask): Dates => ({
  start: start_at ?? start_on,
  due: due_at ?? due_on,
})

interface Written {
  /** The zone that the components refer to. */
  readonly zone: string | null
  readonly components: readonly Component[]
}

const componentsOf = (facts: ComponentFacts, task: CalendarTask, parentUid: string | null): Written => {
  const dates = sameKind(datesOf(task), task.recurrence?.time_zone ?? facts.timeZone)
  if (facts.kind === 'event' && dates.start === null && dates.due === null)
    return { zone: null, components: [] }
  const component = (placed: readonly Property[], dates: Dates): Component => [
    facts.kind === 'todo' ? 'vtodo' : 'vevent',
    [...propertiesOf(facts, task, parentUid), ...placed],
    facts.alarms && !isClosed(task) ? alarmsOf(facts, task, dates) : [],
  ]
  const recurring = recurringOf(task, dates)
  if (recurring === null) return { zone: null, components: [component(placedOf(facts, dates, null), dates)] }
  const { master, rule, zone, isMoved } = recurring
  const recurs: Property = ['rrule', {}, 'recur', ICAL.Recur.fromString(rule).toJSON()]
  const components = [component([...placedOf(facts, master, zone), recurs], master)]
  const instance = dateProperty('recurrence-id', master.start ?? master.due ?? '', zone)
  if (isMoved) components.push(component([instance, ...placedOf(facts, dates, zone)], dates))
  return { zone: zone !== 'UTC' && [master, dates].some(hasTime) ? zone : null, components }
}

const hasTime = ({ start, due }: Dates): boolean => !isDay(start ?? due ?? '')

const isClosed = ({ status }: CalendarTask): boolean => status === 'done' || status === 'cancelled'

/** Two dates of one kind, as iCalendar has them: the start becomes what the due date is. A start after the due date is left out. */
const sameKind = ({ start, due }: Dates, timeZone: string): Dates => {
  if (start === null || due === null) return { start, due }
  const likeDue = isDay(due) ? dayOf(start, timeZone) : instantOf(start, timeZone)
  return { start: likeDue > due ? null : likeDue, due }
}

interface Recurring {
  /** The dates of the occurrence that the rule starts from: those of the task, unless it was moved. */
  readonly master: Dates
  readonly rule: string
  readonly zone: string
  readonly isMoved: boolean
}

const recurringOf = (task: CalendarTask, { start, due }: Dates): Recurring | null => {
  const { recurrence, recurrence_anchor: anchor, occurrence_number: number } = task
  const occurrence = task.occurrence_at ?? task.occurrence_on
  if (recurrence === null || anchor === null || number === null || occurrence === null || !isLive(task))
    return null
  const { time_zone: zone } = recurrence
  const on = dayOf(occurrence, zone)
  if (!isDay(on)) return null
  const [own, other] = anchor.of === 'due' ? [due, start] : [start, due]
  // The start is of the kind of the due date, which the date of the series need not be.
  const date = isDay(own ?? occurrence) ? on : instantOf(occurrence, zone)
  const days = daysInSeries(task)
  const unmoved = other === null || days === null ? null : onDay(other, shift(on, days, zone), zone)
  const hasBoth = unmoved !== null && isDay(unmoved) === isDay(date)
  const master =
    anchor.of === 'start'
      ? { start: date, due: hasBoth && unmoved >= date ? unmoved : null }
      : { start: hasBoth && unmoved < date ? unmoved : null, due: date }
  // The rule counts from the start of a component.
  const daysBefore = anchor.of === 'due' && master.start !== null ? -(days ?? 0) : 0
  const rule = ruleFrom({ ...recurrence, anchor: anchor.date }, { number, date }, daysBefore)
  return rule && { master, rule: formatRule(rule), zone, isMoved: own !== date }
}

/** A date at its time of day on another day. */
const onDay = (date: string, day: string | null, zone: string): string | null =>
  day === null || isDay(date) ? day : atTimeOf(date, day, zone)

/** The dates of a component. Times that do not recur are in UTC. */
const placedOf = ({ kind }: ComponentFacts, { start, due }: Dates, zone: string | null): Property[] => {
  const first = start ?? due
  if (kind === 'event') return eventDates(first ?? '', start === null ? null : due, zone)
  // A rule needs a start. DUE must be later than it, but clients show tasks that recur only with both.
  const begins = zone !== null ? first : start === due ? null : start
  return [
    ...optional(begins, (date) => [dateProperty('dtstart', date, zone)]),
    ...optional(due, (date) => [dateProperty('due', date, zone)]),
  ]
}

/** The end of all-day events is the day after the last one. Without an end, a time has no duration, and a day is the whole day. */
const eventDates = (start: string, last: string | null, zone: string | null): Property[] => {
  const end = isDay(start) ? dayAfter(last ?? start) : last
  return [
    dateProperty('dtstart', start, zone),
    ...optional(end === 'infinity' || end === start ? null : end, (date) => [
      dateProperty('dtend', date, zone),
    ]),
  ]
}

const dateProperty = (name: string, date: string, zone: string | null): Property => {
  if (isDay(date)) return [name, {}, 'date', date]
  return zone === null || zone === 'UTC'
    ? [name, {}, 'date-time', utc(date)]
    : [name, { tzid: zone }, 'date-time', localTimeOf(date, zone)]
}

/** Without milliseconds, which iCalendar does not have. */
const utc = (instant: string): string => `${instant.slice(0, 19)}Z`

const todoStatus = {
  todo: 'NEEDS-ACTION',
  in_progress: 'IN-PROCESS',
  done: 'COMPLETED',
  cancelled: 'CANCELLED',
} as const

/** 1 is the highest, and 0 is none, which is left out. */
const priorities = { none: null, low: 9, medium: 5, high: 3, urgent: 1 } as const

const propertiesOf = (
  { kind }: ComponentFacts,
  task: CalendarTask,
  parentUid: string | null,
): readonly Property[] => [
  ['uid', {}, 'text', uidOf(task)],
  ['dtstamp', {}, 'date-time', utc(task.updated_at)],
  ['last-modified', {}, 'date-time', utc(task.updated_at)],
  ...optional(task.created_at, (at) => [['created', {}, 'date-time', utc(at)]]),
  ['sequence', {}, 'integer', sequenceOf(task)],
  // Events cannot be done.
  [
    'summary',
    {},
    'text',
    `${kind === 'event' && task.status === 'done' ? '✓ ' : ''}${plainText(task.title)}`,
  ],
  ...(task.description === ''
    ? []
    : [['description', {}, 'text', plainText(task.description)] satisfies Property]),
  ...optional(priorities[task.priority], (priority) => [['priority', {}, 'integer', priority]]),
  ...(task.tags.length === 0
    ? []
    : [['categories', {}, 'text', ...task.tags.map(plainText)] satisfies Property]),
  ...optional(parentUid, (uid) => [['related-to', { reltype: 'PARENT' }, 'text', uid]]),
  ...(kind === 'todo' ? todoProperties(task) : eventProperties(task)),
]

const todoProperties = ({ status, completed_at }: CalendarTask): readonly Property[] => [
  ['status', {}, 'text', todoStatus[status]],
  ...(status === 'done' ? [['percent-complete', {}, 'integer', 100] satisfies Property] : []),
  ...optional(completed_at, (at) => [['completed', {}, 'date-time', utc(at)]]),
]

const eventProperties = ({ status }: CalendarTask): readonly Property[] => [
  ['status', {}, 'text', status === 'cancelled' ? 'CANCELLED' : 'CONFIRMED'],
  // A task does not make anybody busy.
  ['transp', {}, 'text', 'TRANSPARENT'],
]

const alarmsOf = (facts: ComponentFacts, task: CalendarTask, dates: Dates): readonly Component[] =>
  task.reminders.flatMap((reminder): Component[] => {
    const trigger = triggerOf(facts, reminder, dates)
    if (trigger === null) return []
    const description: Property = ['description', {}, 'text', plainText(task.title)]
    return [['valarm', [['action', {}, 'text', 'DISPLAY'], description, trigger], []]]
  })

/** Increases with each change of what has the same UID: the tasks of a series have it in turn, each with versions of its own. */
const sequenceOf = ({ series_id, version, updated_at }: CalendarTask): number =>
  series_id === null ? version : Math.floor((Date.parse(updated_at) - Date.UTC(2020, 0, 1)) / 1_000)

const triggerOf = ({ kind }: ComponentFacts, reminder: Reminder, { start, due }: Dates): Property | null => {
  if (reminder.snoozed_until !== undefined) return ['trigger', {}, 'date-time', utc(reminder.snoozed_until)]
  if ('at' in reminder) return ['trigger', {}, 'date-time', utc(reminder.at)]
  const date = reminder.relative_to === 'due' ? due : start
  if (date === null) return null
  const [hours = 0, minutes = 0] = (isDay(date) ? (reminder.time_of_day ?? '') : '').split(':').map(Number)
  const offset = reminder.offset_minutes + hours * 60 + minutes
  // An event without a start, or without a duration, starts when it is due.
  const hasEnd = start !== null && (isDay(start) || start !== due)
  const atEnd = reminder.relative_to === 'due' && (kind === 'todo' || hasEnd)
  // An all-day event ends a day later.
  const early = atEnd && kind === 'event' && isDay(date) ? 1440 : 0
  return ['trigger', { related: atEnd ? 'END' : 'START' }, 'duration', durationText(offset - early)]
}

/** Days are those of the calendar. */
const durationText = (minutes: number): string => {
  const amount = Math.abs(minutes)
  const [days, hours, rest] = [Math.floor(amount / 1440), Math.floor(amount / 60) % 24, amount % 60]
  const time = `${hours > 0 ? `${hours}H` : ''}${rest > 0 || amount === 0 ? `${rest}M` : ''}`
  return `${minutes < 0 ? '-' : ''}P${days > 0 ? `${days}D` : ''}${time === '' ? '' : `T${time}`}`
}
