import { isDay } from '../domain/dates.ts'
import type { Series } from '../domain/recurrence.ts'
import { dayNumber, daysAfter, type MonthEnd, withImplied } from '../domain/recurrence-days.ts'
import { parseRule, type Rule } from '../domain/recurrence-rule.ts'
import { dayOf, lastInstantOf } from '../domain/time-zones.ts'

/** The shortest length of each month. */
const monthLengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** The days that not every month has. */
const isMissingSomewhere = (day: number): boolean => day > 28

/** An occurrence that a rule of iCalendar starts from: its number, and its date. */
export interface Start {
  readonly number: number
  readonly date: string
}

/** The rule of a series from an occurrence on; null if iCalendar has none that yields the date of the occurrence. */
export const ruleFrom = (series: Series, { number, date }: Start): Rule | null => {
  const { anchor, time_zone, from, month_end } = series
  const parsed = parseRule(series.rule, from)
  const [first, day] = [dayOf(anchor, time_zone), dayOf(date, time_zone)]
  if (from === 'completion' || 'message' in parsed || !isDay(first) || !isDay(day)) return null
  const rule = withoutMonthEnd(withImplied(parsed, dayNumber(first)), month_end)
  if (rule === null) return null
  const [match] = daysAfter(rule, 'skip', dayNumber(day), dayNumber(day) - 1)
  if (match !== dayNumber(day)) return null
  const { count, until } = rule
  return {
    ...rule,
    count: count === null ? null : count - number + 1,
    until: until === null ? null : isDay(date) ? dayOf(until, time_zone) : lastInstantOf(until, time_zone),
  }
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
