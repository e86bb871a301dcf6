import { formatRule, type Rule } from './recurrence-rule.ts'

/**
 * The calendar days of a rule (RFC 5545, section 3.3.10), without times and time zones. RFC 5545 speaks of parts that expand or limit a
 * set; on whole days all of them say which days of a period belong to the rule, so this tests the days of one period after another.
 */

const msPerDay = 86_400_000

/** Days since 1970-01-01. */
export type DayNumber = number

/** What happens when a month does not have the day of a rule: its last day is taken, or the month is skipped. */
export type MonthEnd = 'last_day' | 'skip'

/** How far ahead of a day the next one is searched: 100 years. Bounds the cost of a rule that never occurs. */
const searchDays = 36_525

export const dayNumber = (day: string): DayNumber => Date.parse(`${day}T00:00:00.000Z`) / msPerDay

const latestDay = dayNumber('9999-12-31')

/** The end of the search for days after one. */
export const lastDayAfter = (after: DayNumber): DayNumber => Math.min(after + searchDays, latestDay)

export const dayText = (day: DayNumber): string => new Date(day * msPerDay).toISOString().slice(0, 10)

/** Unlike Date.UTC, takes the years 1 to 99 as they are. Months outside of 1 to 12 are months of other years. */
const dayOf = (year: number, month: number, day: number): DayNumber =>
  new Date(0).setUTCFullYear(year, month - 1, day) / msPerDay

const yearOf = (day: DayNumber): number => new Date(day * msPerDay).getUTCFullYear()

/** 0 is Monday. 1970-01-01 was a Thursday. */
const weekdayOf = (day: DayNumber): number => modulo(day + 3, 7)

const modulo = (value: number, divisor: number): number => ((value % divisor) + divisor) % divisor

/** Some days in a row. */
interface Span {
  readonly first: DayNumber
  readonly length: number
}

interface Month extends Span {
  readonly number: number
  readonly year: Span
}

const span = (first: DayNumber, end: DayNumber): Span => ({ first, length: end - first })

const monthOf = (day: DayNumber): Month => {
  const date = new Date(day * msPerDay)
  const [year, number] = [date.getUTCFullYear(), date.getUTCMonth() + 1]
  return {
    ...span(dayOf(year, number, 1), dayOf(year, number + 1, 1)),
    number,
    year: span(dayOf(year, 1, 1), dayOf(year + 1, 1, 1)),
  }
}

/** Periods of a frequency have consecutive numbers. */
interface Periods {
  readonly numberOf: (day: DayNumber) => number
  readonly firstDay: (period: number) => DayNumber
}

const periodsOf = ({ freq, weekStart }: Rule): Periods => {
  switch (freq) {
    case 'DAILY':
      return { numberOf: (day) => day, firstDay: (period) => period }
    case 'WEEKLY': {
      // Day 4 was a Monday.
      const start = 4 + weekStart
      return {
        numberOf: (day) => Math.floor((day - start) / 7),
        firstDay: (period) => start + period * 7,
      }
    }
    case 'MONTHLY':
      return {
        numberOf: (day) => {
          const date = new Date(day * msPerDay)
          return date.getUTCFullYear() * 12 + date.getUTCMonth()
        },
        firstDay: (period) => dayOf(0, period + 1, 1),
      }
    case 'YEARLY':
      return {
        numberOf: yearOf,
        firstDay: (period) => dayOf(period, 1, 1),
      }
  }
}

/** A rule with the parts that it takes from the day that the series starts from. */
export const withImplied = (rule: Rule, anchor: DayNumber): Rule => {
  const { freq, byMonth, byMonthDay, byDay } = rule
  if (freq === 'DAILY' || byDay.length > 0 || byMonthDay.length > 0) return rule
  if (freq === 'WEEKLY') return { ...rule, byDay: [{ ordinal: 0, weekday: weekdayOf(anchor) }] }
  const month = monthOf(anchor)
  return {
    ...rule,
    byMonth: freq === 'YEARLY' && byMonth.length === 0 ? [month.number] : byMonth,
    byMonthDay: [anchor - month.first + 1],
  }
}

/** A rule without the parts that it takes from the anchor anyway, such as BYDAY=MO with FREQ=WEEKLY from a Monday. */
export const withoutImplied = (rule: Rule, anchor: string): Rule => {
  const start = dayNumber(anchor)
  const wanted = formatRule(withImplied(rule, start))
  const shorter: readonly Rule[] = [
    { ...rule, byMonth: [], byMonthDay: [], byDay: [] },
    { ...rule, byMonthDay: [], byDay: [] },
  ]
  // BYSETPOS needs another part.
  return (
    (rule.bySetPos.length === 0 && shorter.find((left) => formatRule(withImplied(left, start)) === wanted)) ||
    rule
  )
}

/** The periods of a rule that INTERVAL counts from that of the anchor, and their days. */
interface RulePeriods {
  readonly interval: number
  readonly firstDay: (period: number) => DayNumber
  /** The period that has a day, or else the next one. */
  readonly periodAt: (day: DayNumber) => number
  readonly daysIn: (period: number) => readonly DayNumber[]
}

const rulePeriods = (rule: Rule, monthEnd: MonthEnd, anchor: DayNumber): RulePeriods => {
  const matches = testOf(withImplied(rule, anchor), monthEnd)
  const positions = new Set(rule.bySetPos)
  const { numberOf, firstDay } = periodsOf(rule)
  const { interval } = rule
  const start = numberOf(anchor)
  return {
    interval,
    firstDay,
    periodAt: (day) => start + Math.ceil((numberOf(day) - start) / interval) * interval,
    daysIn: (period) => atPositions(matching(matches, firstDay(period), firstDay(period + 1)), positions),
  }
}

/** The days of a rule after `after`, up to `lastDayAfter`. `after` is the anchor or later: the rule says nothing of days before. */
export function* daysAfter(
  rule: Rule,
  monthEnd: MonthEnd,
  anchor: DayNumber,
  after: DayNumber,
): Generator<DayNumber, void> {
  const { interval, firstDay, periodAt, daysIn } = rulePeriods(rule, monthEnd, anchor)
  const last = lastDayAfter(after)
  for (let period = periodAt(after); firstDay(period) <= last; period += interval)
    for (const day of daysIn(period)) if (day > after && day <= last) yield day
}

/**
 * The number of days of a rule that `daysAfter` has before `end`, however far that is. Years that begin on the same weekday, have the same
 * length, and begin at the same place of INTERVAL have equally many, so few of them are evaluated.
 */
export const countDays = (
  rule: Rule,
  monthEnd: MonthEnd,
  anchor: DayNumber,
  after: DayNumber,
  end: DayNumber,
): number => {
  const { interval, firstDay, periodAt, daysIn } = rulePeriods(rule, monthEnd, anchor)
  const firstPeriodOf = (year: number): number => {
    const first = dayOf(year, 1, 1)
    const period = periodAt(first)
    return firstDay(period) < first ? period + interval : period
  }
  const countOf = (year: number): number => {
    let count = 0
    const next = firstPeriodOf(year + 1)
    for (let period = firstPeriodOf(year); period < next; period += interval)
      count += daysIn(period).filter((day) => day > after && day < end).length
    return count
  }

  const counts = new Map<string, number>()
  const countOfWhole = (year: number): number => {
    const first = dayOf(year, 1, 1)
    const key = [weekdayOf(first), dayOf(year + 1, 1, 1) - first, firstDay(firstPeriodOf(year)) - first].join(
      ' ',
    )
    const count = counts.get(key) ?? countOf(year)
    counts.set(key, count)
    return count
  }

  // A week belongs to the year that it begins in.
  const [firstYear, lastYear] = [yearOf(after), yearOf(end)]
  let sum = 0
  for (let year = firstYear - 1; year <= lastYear; year += 1)
    sum += year > firstYear && year < lastYear - 1 ? countOfWhole(year) : countOf(year)
  return sum
}

const matching = (
  matches: (day: DayNumber) => boolean,
  first: DayNumber,
  end: DayNumber,
): readonly DayNumber[] => {
  const days: DayNumber[] = []
  for (let day = first; day < end; day += 1) if (matches(day)) days.push(day)
  return days
}

const atPositions = (days: readonly DayNumber[], positions: ReadonlySet<number>): readonly DayNumber[] =>
  positions.size === 0
    ? days
    : days.filter((_day, index) => positions.has(index + 1) || positions.has(index - days.length))

const testOf = (
  { freq, byMonth, byMonthDay, byDay }: Rule,
  monthEnd: MonthEnd,
): ((day: DayNumber) => boolean) => {
  const months = new Set(byMonth)
  const monthDays = new Set(byMonthDay)
  const takesLastDay = monthEnd === 'last_day' && (freq === 'MONTHLY' || freq === 'YEARLY')
  const isMonthDay = (day: number, length: number): boolean =>
    monthDays.has(day) ||
    monthDays.has(day - length - 1) ||
    (takesLastDay && day === length && byMonthDay.some((wanted) => wanted > length))

  // 1MO counts in the month, or with FREQ=YEARLY and without BYMONTH in the year.
  const countsInYear = freq === 'YEARLY' && byMonth.length === 0
  const ordinals = Map.groupBy(byDay, ({ weekday }) => weekday)
  const isWeekday = (day: DayNumber, { first, length }: Span): boolean => {
    const before = Math.floor((day - first) / 7)
    const after = Math.floor((first + length - 1 - day) / 7)
    return (
      ordinals
        .get(weekdayOf(day))
        ?.some(({ ordinal }) => ordinal === 0 || ordinal === before + 1 || ordinal === -after - 1) ?? false
    )
  }

  // Most days are in the same month as the day before.
  let month = monthOf(0)
  return (day) => {
    if (!isIn(day, month)) month = monthOf(day)
    return (
      (months.size === 0 || months.has(month.number)) &&
      (monthDays.size === 0 || isMonthDay(day - month.first + 1, month.length)) &&
      (ordinals.size === 0 || isWeekday(day, countsInYear ? month.year : month))
    )
  }
}

const isIn = (day: DayNumber, { first, length }: Span): boolean => day >= first && day < first + length
