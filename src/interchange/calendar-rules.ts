import { isDay } from '../domain/shared/dates.ts'
import type { Series } from '../domain/tasks/recurrence.ts'
import { dayNumber, daysAfter, type MonthEnd, withImplied } from '../domain/tasks/recurrence-days.ts'
import { parseRule, type Rule } from '../domain/tasks/recurrence-rule.ts'
import { atTimeOf, dayOf, lastInstantOf, shift } from '../domain/shared/time-zones.ts'

/** The shortest length of each month. */
const monthLengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** The days that not every month has. */
const isMissingSomewhere = (day: number): boolean => day > 28

/** An occurrence that a rule of iCalendar starts from: its number, and its date. */
export interface Start {
  readonly number: number
  readonly date: string
}

/**
 * The rule of a series from an occurrence on, for a component that begins some days before the dates of the series. Null if iCalendar has
 * none that yields the day on which the occurrence begins.
 */
export const ruleFrom = (series: Series, { number, date }: Start, daysBefore = 0): Rule | null => {
  const { anchor, time_zone, from, month_end } = series
  const parsed = parseRule(series.rule, from)
  const [first, day] = [dayOf(anchor, time_zone), dayOf(date, time_zone)]
  if (from === 'completion' || 'message' in parsed || !isDay(first) || !isDay(day)) return null
  const own = withoutMonthEnd(withImplied(parsed, dayNumber(first)), month_end)
  const rule = own === null || daysBefore === 0 ? own : earlier(own, daysBefore)
  if (rule === null) return null
  const start = dayNumber(day) - daysBefore
  const [match] = daysAfter(rule, 'skip', start, start - 1)
  if (match !== start) return null
  const { count, until } = rule
  const last = until === null || daysBefore === 0 ? until : lastStart(until, date, daysBefore, time_zone)
  return {
    ...rule,
    count: count === null ? null : count - number + 1,
    until: last === null ? null : isDay(date) ? dayOf(last, time_zone) : lastInstantOf(last, time_zone),
  }
}

/** The day on which the last occurrence up to UNTIL begins, some days before its date. */
const lastStart = (until: string, date: string, daysBefore: number, timeZone: string): string | null => {
  const day = dayOf(until, timeZone)
  const isPast = !isDay(until) && !isDay(date) && (atTimeOf(date, day, timeZone) ?? '') > until
  return shift(day, isPast ? -daysBefore - 1 : -daysBefore, timeZone)
}

/** The rule of the days that are some days before those of a rule; null if there may be none. */
const earlier = (rule: Rule, days: number): Rule | null => {
  const { freq, interval, byMonth, byMonthDay, byDay, bySetPos, weekStart } = rule
  const weekdayBefore = (weekday: number): number => (((weekday - days) % 7) + 7) % 7
  if (freq === 'WEEKLY' || freq === 'DAILY')
    return byMonth.length + byMonthDay.length > 0
      ? null
      : {
          ...rule,
          byDay: byDay
            .map((entry) => ({ ...entry, weekday: weekdayBefore(entry.weekday) }))
            .toSorted((one, other) => one.weekday - other.weekday),
          weekStart: weekdayBefore(weekStart),
        }
  // Days before the 1st are those from the end of the month before.
  const moved = byMonthDay.map((day) => (day > days || day < 0 ? day - days : day - days - 1))
  const leavesMonth = byMonthDay.map((day) => day > 0 && day <= days)
  const everyMonthHas = [...byMonthDay, ...moved].every((day) => Math.abs(day) <= 28)
  if (byDay.length + bySetPos.length > 0 || !everyMonthHas || new Set(leavesMonth).size > 1) return null
  if (leavesMonth[0] !== true) return { ...rule, byMonthDay: moved }
  // The month before January is in another period of a year.
  if (freq === 'YEARLY' && interval > 1 && byMonth.length !== 1) return null
  const monthsBefore = byMonth.map((month) => (month === 1 ? 12 : month - 1))
  return { ...rule, byMonthDay: moved, byMonth: monthsBefore.toSorted((one, other) => one - other) }
}

/**
 * The same days in the syntax of RFC 5545, which has no `last_day`: for the 31st, the last of the days 28 to 31. Null if there are no
 * such positions.
 */
const withoutMonthEnd = (rule: Rule, monthEnd: MonthEnd): Rule | null => {
  const { freq, interval, byMonth, byMonthDay, byDay, bySetPos } = rule
  const missing = byMonthDay.filter(isMissingSomewhere)
  if (monthEnd === 'skip' || missing.length === 0 || !(freq === 'MONTHLY' || freq === 'YEARLY')) return rule
  const haveAll = byMonth.every((month) => Math.max(...missing) <= (monthLengths[month - 1] ?? 0))
  if (byMonth.length > 0 && haveAll) return rule
  const [last, ...others] = missing
  const before = byMonthDay.filter((day) => !isMissingSomewhere(day))
  if (last === undefined || others.length + byDay.length + bySetPos.length > 0) return null
  if (before.some((day) => day < 0)) return null
  // Positions count in the month only.
  const isYearly = freq === 'YEARLY' && byMonth.length !== 1
  if (isYearly && interval > 1) return null
  const days = [28, 29, 30, 31].filter((day) => day <= last && !before.includes(day))
  return {
    ...rule,
    freq: isYearly ? 'MONTHLY' : freq,
    byMonthDay: [...before, ...days],
    bySetPos: [...before.map((_, index) => index + 1), -1],
  }
}
