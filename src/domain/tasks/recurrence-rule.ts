import { isDay, isInstant } from '../shared/dates.ts'

/**
 * Recurrence rules in the syntax of RFC 5545, section 3.3.10: text to data and back. The rule says nothing of the date that a series
 * starts from, which `recurrence-days.ts` combines with it.
 */

type Frequency = 'DAILY' | 'WEEKLY' | 'MONTHLY' | 'YEARLY'

/** A day of the week: 0 is Monday, as in `weekdays`. */
type Weekday = number

const weekdays = ['MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU']

/** An entry of BYDAY: every such weekday if `ordinal` is 0, else the n-th of the month or the year, from the end if negative. */
interface WeekdayNumber {
  readonly ordinal: number
  readonly weekday: Weekday
}

/** Lists are sorted, without duplicates, and empty if the rule does not have the part. */
export interface Rule {
  readonly freq: Frequency
  readonly interval: number
  readonly count: number | null
  /** A day, or an instant in UTC. */
  readonly until: string | null
  readonly byMonth: readonly number[]
  readonly byMonthDay: readonly number[]
  readonly byDay: readonly WeekdayNumber[]
  readonly bySetPos: readonly number[]
  readonly weekStart: Weekday
}

/** Why a text is not a rule, and which part of it; null if no part can be named. */
export interface RuleFault {
  readonly part: string | null
  readonly message: string
}

/** Where the next occurrence is counted from. */
export type From = 'schedule' | 'completion'

const maxRuleLength = 500
const maxNumber = 1_000_000_000

/** Thrown and caught in this file. */
class Refused extends Error {
  readonly fault: RuleFault

  constructor(part: string | null, message: string) {
    super(message)
    this.fault = { part, message }
  }
}

/** Parses the value of an RRULE. Ignores case, and accepts `RRULE:` in front, which many libraries write. */
export const parseRule = (text: string, from: From): Rule | RuleFault => {
  try {
    if (text.length > maxRuleLength)
      throw new Refused(null, `A rule has at most ${maxRuleLength} characters.`)
    const rule = ruleFrom(partsOf(text.toUpperCase().replace(/^RRULE:/, '')))
    if (from === 'completion') expectIntervalOnly(rule)
    return rule
  } catch (error) {
    if (error instanceof Refused) return error.fault
    throw error
  }
}

/** The text of a rule: equal rules have the same one. A part that has its default, or no effect, is left out. */
export const formatRule = (rule: Rule): string =>
  Object.entries({
    FREQ: rule.freq,
    INTERVAL: rule.interval === 1 ? '' : rule.interval,
    COUNT: rule.count ?? '',
    UNTIL: rule.until?.replace(/\.\d+|[-:]/g, '') ?? '',
    BYMONTH: rule.byMonth,
    BYMONTHDAY: rule.byMonthDay,
    BYDAY: rule.byDay.map(({ ordinal, weekday }) => `${ordinal === 0 ? '' : ordinal}${weekdays[weekday]}`),
    BYSETPOS: rule.bySetPos,
    WKST: rule.weekStart === 0 || !hasWeeks(rule) ? '' : weekdays[rule.weekStart],
  })
    .map(([part, value]) => [part, String(value)])
    .filter(([, value]) => value !== '')
    .map(([part, value]) => `${part}=${value}`)
    .join(';')

/** Whether the start of the week matters: for the phase of INTERVAL, or for the order of the days in a week. */
const hasWeeks = ({ freq, interval, byDay, bySetPos }: Rule): boolean =>
  freq === 'WEEKLY' && byDay.length > 0 && (interval > 1 || bySetPos.length > 0)

const supported = 'FREQ, INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY, BYDAY, BYSETPOS and WKST'

/** Parts, and properties of iCalendar, that a rule does not have here, and what to do instead. */
const hints = new Map(
  Object.entries({
    BYHOUR: 'The time of day is that of the task.',
    BYMINUTE: 'The time of day is that of the task.',
    BYSECOND: 'The time of day is that of the task.',
    BYYEARDAY: 'Use BYMONTH with BYMONTHDAY.',
    BYWEEKNO: 'Use BYMONTH with BYDAY, or FREQ=WEEKLY.',
    RSCALE: 'Days are those of the Gregorian calendar.',
    SKIP: 'Use month_end.',
    DTSTART: 'The series starts at the date of the task.',
  }),
)

type Parts = ReadonlyMap<string, string>

const partsOf = (text: string): Parts => {
  const parts = new Map<string, string>()
  for (const pair of text.split(';')) {
    const [, part, value] = /^([A-Z][A-Z-]{0,29})[=:;](.*)$/s.exec(pair) ?? []
    if (part === undefined || value === undefined)
      throw new Refused(null, 'Write a rule as NAME=VALUE;NAME=VALUE, as in FREQ=WEEKLY;BYDAY=MO,WE.')
    if (parts.has(part)) throw new Refused(part, `${part} is there twice.`)
    parts.set(part, value)
  }
  return parts
}

const ruleFrom = (parts: Parts): Rule => {
  const { FREQ, INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY, BYDAY, BYSETPOS, WKST, ...others } =
    Object.fromEntries(parts)
  for (const part of Object.keys(others))
    throw new Refused(part, `${part} is not supported. ${hints.get(part) ?? `Expected ${supported}.`}`)
  if (COUNT !== undefined && UNTIL !== undefined)
    throw new Refused('UNTIL', 'COUNT and UNTIL exclude each other.')
  const freq = frequency(FREQ)
  const byMonth = numbers('BYMONTH', BYMONTH, 12, { signed: false })
  const rule: Rule = {
    freq,
    interval: INTERVAL === undefined ? 1 : number('INTERVAL', INTERVAL, maxNumber, { signed: false }),
    count: COUNT === undefined ? null : number('COUNT', COUNT, maxNumber, { signed: false }),
    until: UNTIL === undefined ? null : until(UNTIL),
    byMonth,
    byMonthDay: numbers('BYMONTHDAY', BYMONTHDAY, 31),
    byDay: weekdayNumbers(BYDAY, freq, byMonth),
    bySetPos: numbers('BYSETPOS', BYSETPOS, daysIn[freq]),
    weekStart: WKST === undefined ? 0 : weekday('WKST', WKST),
  }
  if (freq === 'WEEKLY' && rule.byMonthDay.length > 0)
    throw new Refused('BYMONTHDAY', 'BYMONTHDAY has no meaning with FREQ=WEEKLY. Use FREQ=MONTHLY.')
  if (rule.bySetPos.length > 0 && byMonth.length + rule.byMonthDay.length + rule.byDay.length === 0)
    throw new Refused('BYSETPOS', 'BYSETPOS selects from the days of BYMONTH, BYMONTHDAY or BYDAY. Add one.')
  return rule
}

const expectIntervalOnly = ({ byMonth, byMonthDay, byDay, bySetPos }: Rule): void => {
  for (const [part, { length }] of Object.entries({
    BYMONTH: byMonth,
    BYMONTHDAY: byMonthDay,
    BYDAY: byDay,
    BYSETPOS: bySetPos,
  }))
    if (length > 0)
      throw new Refused(
        part,
        `${part} names days of the calendar, so it needs from = schedule. A rule from the completion has FREQ, INTERVAL, COUNT and UNTIL.`,
      )
}

/** How many days a period of each frequency can have. */
const daysIn = { DAILY: 1, WEEKLY: 7, MONTHLY: 31, YEARLY: 366 } as const

const frequency = (text: string | undefined): Frequency => {
  if (text === 'DAILY' || text === 'WEEKLY' || text === 'MONTHLY' || text === 'YEARLY') return text
  throw new Refused('FREQ', 'FREQ is required: DAILY, WEEKLY, MONTHLY or YEARLY.')
}

const number = (part: string, text: string, most: number, { signed = true } = {}): number => {
  const value = (signed ? /^[+-]?\d{1,10}$/ : /^\d{1,10}$/).test(text) ? Number(text) : 0
  if (value === 0 || Math.abs(value) > most)
    throw new Refused(
      part,
      `${part} has numbers from 1 to ${most}${signed ? `, or -1 to -${most} from the end` : ''}.`,
    )
  return value
}

const numbers = (
  part: string,
  text: string | undefined,
  most: number,
  sign?: { readonly signed: boolean },
): readonly number[] =>
  text === undefined
    ? []
    : [...new Set(text.split(',').map((item) => number(part, item, most, sign)))].toSorted(fromStartFirst)

/** 1, 2, 3, …, -3, -2, -1: the order in a period. */
const fromStartFirst = (one: number, other: number): number =>
  Number(one < 0) - Number(other < 0) || one - other

const weekday = (part: string, text: string): Weekday => {
  const index = weekdays.indexOf(text)
  if (index < 0) throw new Refused(part, `${part} has the days MO, TU, WE, TH, FR, SA and SU.`)
  return index
}

const weekdayNumbers = (
  text: string | undefined,
  freq: Frequency,
  byMonth: readonly number[],
): readonly WeekdayNumber[] => {
  const most = freq === 'YEARLY' && byMonth.length === 0 ? 53 : 5
  const entries = new Map<string, WeekdayNumber>()
  for (const item of text?.split(',') ?? []) {
    const [, digits = '', name = ''] = /^([+-]?\d*)(.*)$/s.exec(item) ?? []
    if (digits !== '' && (freq === 'DAILY' || freq === 'WEEKLY'))
      throw new Refused('BYDAY', 'BYDAY has numbers, as in 1MO, only with FREQ=MONTHLY and FREQ=YEARLY.')
    const entry = {
      ordinal: digits === '' ? 0 : number('BYDAY', digits, most),
      weekday: weekday('BYDAY', name),
    }
    entries.set(`${entry.ordinal}${entry.weekday}`, entry)
  }
  return [...entries.values()].toSorted(
    (one, other) => fromStartFirst(one.ordinal, other.ordinal) || one.weekday - other.weekday,
  )
}

const until = (text: string): string => {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)Z)?$/.exec(text) ?? []
  const date = `${year}-${month}-${day}`
  const value = hour === undefined ? date : `${date}T${hour}:${minute}:${second}.000Z`
  if (!isDay(value) && !isInstant(value))
    throw new Refused('UNTIL', 'UNTIL is a day, as in 20271231, or a time in UTC, as in 20271231T225959Z.')
  return value
}
