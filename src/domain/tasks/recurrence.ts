import { isDay } from '../shared/dates.ts'
import {
  countDays,
  type DayNumber,
  dayNumber,
  daysAfter,
  dayText,
  lastDayAfter,
  type MonthEnd,
} from './recurrence-days.ts'
import { type From, parseRule, type Rule } from './recurrence-rule.ts'
import { atTimeOf, dayOf, missingDays } from '../shared/time-zones.ts'

/**
 * The occurrences of a recurring task. A rule is evaluated on calendar days; then the time of day is resolved in the time zone, so that
 * 09:00 stays 09:00 when daylight saving time starts or ends.
 */

export interface Recurrence {
  /** As `formatRule` returns it. */
  readonly rule: string
  /** As `canonicalTimeZone` returns it. */
  readonly time_zone: string
  readonly from: From
  readonly month_end: MonthEnd
  /** Whether occurrences that have passed when the one before is completed are left out, or follow each. */
  readonly missed: 'skip' | 'each'
}

/**
 * A recurrence and the date that the task had when it was set: a day or an instant. This is occurrence 1, even if the rule does not
 * match it.
 */
export interface Series extends Recurrence {
  readonly anchor: string
}

/** The number counts from 1. `on` is the day in the time zone by the rule, even if the task was moved since. */
export interface Position {
  readonly number: number
  readonly on: string
}

export interface Occurrence extends Position {
  /** The instant; null if the anchor is a day. */
  readonly at: string | null
}

/** Why nothing follows: COUNT, UNTIL, or no day of the next 100 years, or up to the year 9999, matches the rule. */
export type EndReason = 'count' | 'until' | 'exhausted'

export interface Occurrences {
  readonly items: readonly Occurrence[]
  /** Whether more follow after the last of `items`, which may be fewer than asked for. */
  readonly hasMore: boolean
  /** Null if `hasMore`. */
  readonly endReason: EndReason | null
}

export const firstOccurrence = ({ anchor, time_zone }: Series): Occurrence => ({
  number: 1,
  on: dayOf(anchor, time_zone),
  at: isDay(anchor) ? null : anchor,
})

/** At most `limit` occurrences after one. With `from: completion`, as if each is completed on its day. */
export const occurrencesAfter = (series: Series, after: Position, limit: number): Occurrences => {
  const rule = ruleOf(series)
  const items: Occurrence[] = []
  for (const candidate of candidatesAfter(series, rule, after)) {
    const next = resolve(series, rule, candidate)
    if (typeof next === 'string') return { items, hasMore: false, endReason: next }
    if (items.length === limit) return { items, hasMore: true, endReason: null }
    items.push(next)
  }
  // Nothing more was found within 100 years of `after`; search on from the last one.
  const last = items.at(-1)
  return last
    ? { ...occurrencesAfter(series, last, 0), items }
    : { items, hasMore: false, endReason: 'exhausted' }
}

/**
 * What follows an occurrence that is completed on a day in the time zone. An occurrence is missed if it is over before that day; it takes
 * `length` more days than that of its date.
 */
export const nextOccurrence = (
  series: Series,
  current: Position,
  completedOn: string,
  length = 0,
): Occurrence | EndReason => {
  const rule = ruleOf(series)
  const after = series.from === 'completion' ? { ...current, on: completedOn } : current
  const earliest = series.missed === 'skip' ? dayText(dayNumber(completedOn) - length) : after.on
  const [next] = candidatesAfter(series, rule, after, earliest)
  return next === undefined ? 'exhausted' : resolve(series, rule, next)
}

const ruleOf = ({ rule, from }: Recurrence): Rule => {
  const parsed = parseRule(rule, from)
  if ('message' in parsed) throw new TypeError(`Not a canonical rule: ${parsed.message}`)
  return parsed
}

interface Candidate {
  readonly number: number
  readonly day: DayNumber
}

/** What follows a position by the days alone, without COUNT and UNTIL, and is not before a day. */
function* candidatesAfter(
  series: Series,
  rule: Rule,
  after: Position,
  earliest = after.on,
): Generator<Candidate, void> {
  const anchor = dayOf(series.anchor, series.time_zone)
  // In some time zones, the first and the last instants are on days outside of the years 1 to 9999.
  if (!isDay(anchor) || !isDay(after.on)) return
  const passed = earliest > after.on ? passMissed(series, rule, dayNumber(anchor), after, earliest) : after
  const days =
    series.from === 'schedule'
      ? existingDays(series, rule, dayNumber(anchor), dayNumber(passed.on))
      : chainAfter(series, rule, dayNumber(passed.on))
  let { number } = passed
  for (const day of days) {
    number += 1
    yield { number, day }
  }
}

/** The day before `earliest`, with the number of the last occurrence up to it. */
const passMissed = (
  { month_end, time_zone }: Series,
  rule: Rule,
  anchor: DayNumber,
  { number, on }: Position,
  earliest: string,
): Position => {
  const count = (after: DayNumber, end: DayNumber): number => countDays(rule, month_end, anchor, after, end)
  const [after, end] = [dayNumber(on), dayNumber(earliest)]
  const missing = missingDays(dayText(after + 1), earliest, time_zone).map(dayNumber)
  const matching = missing.filter((day) => count(day - 1, day + 1) > 0)
  return { number: number + count(after, end) - matching.length, on: dayText(end - 1) }
}

/** Counts each day from the one before. */
function* chainAfter(series: Series, rule: Rule, start: DayNumber): Generator<DayNumber, void> {
  let [day] = existingDays(series, rule, start, start)
  while (day !== undefined) {
    yield day
    ;[day] = existingDays(series, rule, day, day)
  }
}

function* existingDays(
  { month_end, time_zone }: Series,
  rule: Rule,
  anchor: DayNumber,
  after: DayNumber,
): Generator<DayNumber, void> {
  const missing = new Set(missingDays(dayText(after), dayText(lastDayAfter(after)), time_zone).map(dayNumber))
  for (const day of daysAfter(rule, month_end, anchor, after)) if (!missing.has(day)) yield day
}

const resolve = (
  { anchor, time_zone }: Series,
  { count, until }: Rule,
  { number, day }: Candidate,
): Occurrence | EndReason => {
  if (count !== null && number > count) return 'count'
  const on = dayText(day)
  const at = isDay(anchor) ? null : atTimeOf(anchor, on, time_zone)
  if (at === null && !isDay(anchor)) return 'exhausted'
  if (until !== null && isPast(until, on, at, time_zone)) return 'until'
  return { number, on, at }
}

/** Compares days if one of the two is a day. */
const isPast = (until: string, on: string, at: string | null, time_zone: string): boolean =>
  at === null || isDay(until) ? on > dayOf(until, time_zone) : at > until
