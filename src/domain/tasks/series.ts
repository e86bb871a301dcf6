import { isDay, type TaskDates } from '../shared/dates.ts'
import {
  firstOccurrence,
  nextOccurrence,
  type Occurrences,
  occurrencesAfter,
  type Position,
  type Recurrence,
  type Series,
} from './recurrence.ts'
import { dayNumber, withoutImplied } from './recurrence-days.ts'
import { formatRule, parseRule } from './recurrence-rule.ts'
import { dayAt, dayOf, defaultTimeZone, isEarlier, shift } from '../shared/time-zones.ts'

/** Recurring tasks: each occurrence is a task, and closing it creates the next one. */

/** The date of occurrence 1: which date of the task it is, and its value, a day or an instant. */
export interface Anchor {
  readonly of: 'due' | 'start'
  readonly date: string
  /** From this date to the other one of an occurrence that was not moved. Null without another date; absent before 0.3. */
  readonly days?: number | null
}

/** What a task is in its series. All null for a task that does not recur. */
export interface TaskSeries {
  readonly recurrence: Recurrence | null
  readonly series_id: string | null
  readonly recurrence_anchor: Anchor | null
  readonly occurrence_number: number | null
  /** The date of the occurrence, wherever the task was moved since: one of them is set. */
  readonly occurrence_at: string | null
  readonly occurrence_on: string | null
  /** Set once the task was closed: it is spent, and creates no other one, whatever becomes of this one. */
  readonly next_task_id: string | null
}

/** A recurrence that a task is to have, and which of its dates the series counts from. */
export interface WantedRecurrence extends Recurrence {
  /** By default the present one, or the start if the task has one. */
  readonly anchor?: Anchor['of']
}

/** A recurrence in a request; absent fields keep their values, or have the defaults. */
export type RecurrenceChange = Partial<WantedRecurrence>

const defaults = { from: 'schedule', month_end: 'last_day', missed: 'skip' } as const

/** Why a recurrence in a request is refused. */
export interface RecurrenceFault {
  readonly field: keyof WantedRecurrence
  readonly message: string
}

/** The recurrence of a request, with what it leaves out: the present values, or the defaults. */
export const readRecurrence = (
  sent: RecurrenceChange,
  present: Recurrence | null,
  timeZone: string,
): WantedRecurrence | RecurrenceFault => {
  const { rule, ...others } = { ...(present ?? { ...defaults, time_zone: timeZone }), ...sent }
  if (rule === undefined) return { field: 'rule', message: 'is required to make a task recur' }
  const parsed = parseRule(rule, others.from)
  if ('message' in parsed)
    return { field: 'rule', message: `is not valid: ${parsed.message.replace(/\.$/, '')}` }
  return { rule: formatRule(parsed), ...others }
}

/** The part of a task that its series is. */
export const seriesOf = ({
  recurrence,
  series_id,
  recurrence_anchor,
  occurrence_number,
  occurrence_at,
  occurrence_on,
  next_task_id,
}: TaskSeries): TaskSeries => ({
  recurrence,
  series_id,
  recurrence_anchor,
  occurrence_number,
  occurrence_at,
  occurrence_on,
  next_task_id,
})

export const noSeries: TaskSeries = {
  recurrence: null,
  series_id: null,
  recurrence_anchor: null,
  occurrence_number: null,
  occurrence_at: null,
  occurrence_on: null,
  next_task_id: null,
}

/** The largest number of tasks in a tree that recurs. */
export const maxRecurringTasks = 100

/** The first occurrence of a series: the task with these dates. Null without a date. */
export const startSeries = (
  id: string,
  { anchor: of, ...wanted }: WantedRecurrence,
  dates: TaskDates,
): TaskSeries | null => {
  const anchor = anchorOf(dates, of)
  if (anchor === null) return null
  const recurrence = shortest(wanted, anchor)
  const { number, at, on } = firstOccurrence({ ...recurrence, anchor: anchor.date })
  return {
    recurrence,
    series_id: id,
    recurrence_anchor: { ...anchor, days: daysToOther(dates, anchor.of, on, recurrence.time_zone) },
    occurrence_number: number,
    occurrence_at: at,
    occurrence_on: at === null ? on : null,
    next_task_id: null,
  }
}

/**
 * The series of a task that may have lost the date that it counts from: it goes on from the other one, with the same number. Null
 * without a date.
 */
export const anchoredSeries = (task: TaskSeries, dates: TaskDates): TaskSeries | null => {
  const { recurrence, recurrence_anchor: anchor, series_id, occurrence_number } = task
  if (recurrence === null || anchor === null || series_id === null) return seriesOf(task)
  if (namedDates(dates)[anchor.of] !== null) return seriesOf(task)
  const restarted = startSeries(series_id, recurrence, dates)
  return restarted && { ...restarted, occurrence_number }
}

/** The date that a series counts from: the wanted one if the task has it, or else the other one. */
export const anchorOf = (
  dates: TaskDates,
  wanted: Anchor['of'] = 'start',
): Pick<Anchor, 'of' | 'date'> | null => {
  const named = namedDates(dates)
  const of = named[wanted] === null ? otherOf[wanted] : wanted
  const date = named[of]
  return date === null ? null : { of, date }
}

const otherOf = { start: 'due', due: 'start' } as const

const namedDates = ({ start_at, start_on, due_at, due_on }: TaskDates) => ({
  start: start_at ?? start_on ?? null,
  due: due_at ?? due_on ?? null,
})

/** The days from one day to the date of a task that is not its anchor; null without that. */
const daysToOther = (dates: TaskDates, of: Anchor['of'], from: string, timeZone: string): number | null => {
  const other = namedDates(dates)[otherOf[of]]
  const day = other === null ? null : dayOf(other, timeZone)
  return day !== null && isDay(day) && isDay(from) ? dayNumber(day) - dayNumber(from) : null
}

/**
 * The days from the date that a series counts from to the other one, where the rule has the occurrence: an occurrence that was moved, or
 * whose other date was moved with it, does not change them.
 */
export const daysInSeries = (task: TaskSeries & TaskDates): number | null => {
  const { recurrence, recurrence_anchor: anchor } = task
  const date = task.occurrence_at ?? task.occurrence_on
  if (recurrence === null || anchor === null || date === null) return null
  const { time_zone } = recurrence
  const { [anchor.of]: own, [otherOf[anchor.of]]: other } = namedDates(task)
  const on = dayOf(date, time_zone)
  const isMoved = own !== null && dayOf(own, time_zone) !== on
  return isMoved && other !== null && anchor.days != null
    ? anchor.days
    : daysToOther(task, anchor.of, on, time_zone)
}

/** A series, and where a task is in it. */
const placeInSeries = (task: TaskSeries): (Position & { readonly series: Series }) | null => {
  const { recurrence, recurrence_anchor: anchor, occurrence_number: number } = task
  const date = task.occurrence_at ?? task.occurrence_on
  if (recurrence === null || anchor === null || number === null || date === null) return null
  return { series: { ...recurrence, anchor: anchor.date }, number, on: dayOf(date, recurrence.time_zone) }
}

/** The dates of the occurrences after that of a task; null if it does not recur. */
export const occurrencesOf = (task: TaskSeries, limit: number): Occurrences | null => {
  const place = placeInSeries(task)
  return place === null ? null : occurrencesAfter(place.series, place, limit)
}

/** The dates of a recurrence from the first one. */
export const previewOf = (series: Series, limit: number): Occurrences => {
  const first = firstOccurrence(series)
  // In some time zones, the first and the last instants are on days outside of the years 1 to 9999.
  if (!isDay(first.on)) return { items: [], hasMore: false, endReason: 'exhausted' }
  const { items, ...end } = occurrencesAfter(series, first, limit - 1)
  return { items: [first, ...items], ...end }
}

/** The next occurrence of a task that is closed. */
export interface NextOccurrence extends TaskSeries {
  /** By how many days the dates of its subtasks move. */
  readonly days: number
  /** By how many days the date moves that the series does not count from. */
  readonly otherDays: number
}

/** What follows a task that is closed at a time; null if the series ends with it. */
export const nextInSeries = (task: TaskSeries & TaskDates, closedAt: Date): NextOccurrence | null => {
  const place = placeInSeries(task)
  const { recurrence, series_id, recurrence_anchor: anchor } = task
  if (place === null || recurrence === null || anchor === null) return null
  const { time_zone } = recurrence
  const span = daysInSeries(task)
  const length = anchor.of === 'start' ? Math.max(0, span ?? 0) : 0
  const next = nextOccurrence(place.series, place, dayAt(closedAt.getTime(), time_zone), length)
  if (typeof next === 'string') return null
  const days = dayNumber(next.on) - dayNumber(place.on)
  const present = daysToOther(task, anchor.of, place.on, time_zone)
  return {
    recurrence,
    series_id,
    recurrence_anchor: { ...anchor, days: span },
    occurrence_number: next.number,
    occurrence_at: next.at,
    occurrence_on: next.at === null ? next.on : null,
    next_task_id: null,
    days,
    otherDays: span === null || present === null ? days : days + span - present,
  }
}

/**
 * The dates of the next occurrence: the date that the series counts from is that of the occurrence, and the other one keeps its days from
 * it. `timeZone` is that of the owner.
 */
export const datesOfNext = (
  dates: Required<TaskDates>,
  next: NextOccurrence,
  timeZone: string,
): Required<TaskDates> => {
  const shifted = shiftedDates(dates, { ...next, days: next.otherDays }, timeZone)
  const { occurrence_at: at, occurrence_on: on } = next
  if (next.recurrence_anchor?.of === 'start')
    return inOrder({ ...shifted, start_at: at, start_on: on }, timeZone, 'start')
  return inOrder({ ...shifted, due_at: at, due_on: on }, timeZone, 'due')
}

/** Dates shifted by the days between two occurrences. They keep their time of day in the time zone of the series. */
export const shiftedDates = (
  { start_at, start_on, due_at, due_on }: Required<TaskDates>,
  { recurrence, days }: NextOccurrence,
  timeZone: string,
): Required<TaskDates> => {
  const shifted = (date: string | null) =>
    date === null ? null : shift(date, days, recurrence?.time_zone ?? defaultTimeZone)
  const dates = {
    start_at: shifted(start_at),
    start_on: shifted(start_on),
    due_at: shifted(due_at),
    due_on: shifted(due_on),
  }
  return inOrder(dates, timeZone, 'due')
}

/** If dates were moved past each other, or the clock was changed in between, the other one meets the date that counts. */
const inOrder = (
  dates: Required<TaskDates>,
  timeZone: string,
  counts: 'start' | 'due',
): Required<TaskDates> => {
  const { start_at, start_on, due_at, due_on } = dates
  if (!isEarlier(due_at ?? due_on, start_at ?? start_on, timeZone)) return dates
  return counts === 'due'
    ? { ...dates, start_at: due_at, start_on: due_on }
    : { ...dates, due_at: start_at, due_on: start_on }
}

/** Whether closing the task creates another one: it recurs, and is not spent. */
export const isLive = ({ recurrence, next_task_id }: TaskSeries): boolean =>
  recurrence !== null && next_task_id === null

/** A recurrence without what the date of occurrence 1 says anyway. */
const shortest = (recurrence: Recurrence, { date }: Pick<Anchor, 'date'>): Recurrence => {
  const parsed = parseRule(recurrence.rule, recurrence.from)
  const day = dayOf(date, recurrence.time_zone)
  // In some time zones, the first and the last instants are on days outside of the years 1 to 9999.
  if ('message' in parsed || !isDay(day)) return recurrence
  return { ...recurrence, rule: formatRule(withoutImplied(parsed, day)) }
}

/** Whether a recurrence says the same as that of a task. */
export const isSameRecurrence = (
  wanted: WantedRecurrence | null,
  { recurrence, recurrence_anchor: anchor }: TaskSeries,
): boolean => {
  if (wanted === null || recurrence === null || anchor === null) return wanted === recurrence
  const short = shortest(wanted, anchor)
  return (
    (wanted.anchor ?? anchor.of) === anchor.of &&
    recurrenceFields.every((field) => short[field] === recurrence[field])
  )
}

const recurrenceFields = ['rule', 'time_zone', 'from', 'month_end', 'missed'] as const

/** The recurrence of a task as the contract has it. */
export const shownRecurrence = ({ recurrence, recurrence_anchor: anchor }: TaskSeries) =>
  recurrence && anchor && { ...recurrence, anchor: anchor.of }
