import { dayNumber, dayText, type MonthEnd } from '../../../src/domain/tasks/recurrence-days.ts'
import { formatRule, type Rule } from '../../../src/domain/tasks/recurrence-rule.ts'

/** What the oracles are asked, and where their answers are expected to differ. */

interface Question {
  readonly rule: Rule
  /** The day that the series starts from. */
  readonly anchor: string
  readonly month_end: MonthEnd
}

export const oracles = ['dateutil', 'libical'] as const

export type Oracle = (typeof oracles)[number]

/** How many days of a series are compared. */
const limit = 30

/** The last day that is compared: 25 years after the anchor. */
export const lastDay = (anchor: string): string => dayText(dayNumber(anchor) + 25 * 365)

/** A line for an oracle; null if it cannot express the question. COUNT becomes the limit, because it counts the anchor here. */
export const lineFor = (oracle: Oracle, question: Question): string | null => {
  const { rule, anchor } = question
  const last = lastDay(anchor)
  const until = rule.until !== null && rule.until < last ? rule.until : last
  const rules = rulesFor[oracle]({ ...question, rule: { ...rule, count: null, until } })
  const most = rule.count === null ? limit : Math.min(limit, rule.count - 1)
  return rules && [rules.join('|'), basic(anchor), basic(until), most].join(' ')
}

/** The line that an oracle prints for some days. */
export const answerFor = (days: readonly string[], anchor: string): string =>
  days
    .slice(0, limit)
    .filter((day) => day <= lastDay(anchor))
    .map(basic)
    .join(' ')

const basic = (day: string): string => day.replaceAll('-', '')

/** Rules whose days together are those of the question. */
const rulesFor: Readonly<Record<Oracle, (question: Question) => readonly string[] | null>> = {
  dateutil: (question) =>
    canBeSplit(question) ? withoutMonthEnd(question).flatMap(withoutMixedDays).map(formatRule) : null,
  libical: (question) => [
    formatRule(question.rule) + (takesLastDay(question) ? ';RSCALE=GREGORIAN;SKIP=BACKWARD' : ''),
  ],
}

const takesLastDay = ({ rule: { freq }, month_end }: Question): boolean =>
  month_end === 'last_day' && (freq === 'MONTHLY' || freq === 'YEARLY')

/** Several rules cannot say what counts in periods that they share. */
const canBeSplit = (question: Question): boolean => {
  const { freq, byMonth, byDay, bySetPos } = question.rule
  if (bySetPos.length > 0 && isMixed(question.rule)) return false
  const countsInYear = bySetPos.length > 0 || (byMonth.length === 0 && byDay.some(hasNumber))
  return !(takesLastDay(question) && freq === 'YEARLY' && countsInYear)
}

/** Without `last_day`: for the months of each length, a rule that has the last day in place of the days that they do not have. */
const withoutMonthEnd = (question: Question): readonly Rule[] => {
  const { rule, anchor } = question
  const [, month = 0, day = 0] = anchor.split('-').map(Number)
  const isImplied = rule.byDay.length + rule.byMonthDay.length === 0
  const byMonthDay = isImplied ? [day] : rule.byMonthDay
  const byMonth = isImplied && rule.byMonth.length === 0 && rule.freq === 'YEARLY' ? [month] : rule.byMonth
  if (!takesLastDay(question) || byMonthDay.length === 0) return [rule]
  const inMonths = ({ length, months }: (typeof monthLengths)[number]): Rule => ({
    ...rule,
    byMonth: byMonth.length === 0 ? months : months.filter((number) => byMonth.includes(number)),
    byMonthDay: byMonthDay.map((number) => (number > length ? -1 : number)),
  })
  return monthLengths.map(inMonths).filter(({ byMonth }) => byMonth.length > 0)
}

/** February 29 is a last day in every year that has it. */
const monthLengths = [
  { length: 31, months: [1, 3, 5, 7, 8, 10, 12] },
  { length: 30, months: [4, 6, 9, 11] },
  { length: 28, months: [2] },
]

/** BYDAY=MO,1FR is every Monday and the first Friday. dateutil takes it for Mondays that are first Fridays. */
const withoutMixedDays = (rule: Rule): readonly Rule[] =>
  isMixed(rule)
    ? [
        { ...rule, byDay: rule.byDay.filter(hasNumber) },
        { ...rule, byDay: rule.byDay.filter((day) => !hasNumber(day)) },
      ]
    : [rule]

const isMixed = ({ byDay }: Rule): boolean => byDay.some(hasNumber) && !byDay.every(hasNumber)

const hasNumber = ({ ordinal }: Rule['byDay'][number]): boolean => ordinal !== 0

/** Questions to which the answer of an oracle may differ, and why ours is right. */
interface Difference {
  readonly oracle: Oracle
  readonly section: string
  readonly reason: string
  readonly applies: (question: Question) => boolean
}

export const differences: readonly Difference[] = [
  {
    oracle: 'dateutil',
    section: 'RFC 5545, 3.3.10, BYSETPOS',
    reason: 'Positions count in the whole week. In the first week, dateutil counts from the anchor.',
    applies: ({ rule: { freq, bySetPos } }) => freq === 'WEEKLY' && bySetPos.length > 0,
  },
  {
    oracle: 'libical',
    section: 'RFC 5545, 3.3.10, BYSETPOS',
    reason:
      'Positions count in periods of any frequency. libical ignores BYSETPOS with FREQ=DAILY and FREQ=WEEKLY.',
    applies: ({ rule: { freq, bySetPos } }) => (freq === 'DAILY' || freq === 'WEEKLY') && bySetPos.length > 0,
  },
  {
    oracle: 'libical',
    section: 'RFC 5545, 3.3.10, WKST',
    reason:
      'INTERVAL counts from the week of the anchor. libical counts from the week before or after for some BYDAY=SU and WKST.',
    applies: ({ rule: { freq, interval, byDay, weekStart } }) =>
      freq === 'WEEKLY' && interval > 1 && (byDay.length === 1 || weekStart > 0),
  },
  {
    oracle: 'libical',
    section: 'RFC 5545, 3.3.10, BYMONTHDAY',
    reason: 'Negative days count from the end of the month. libical ignores them with FREQ=DAILY.',
    applies: ({ rule: { freq, byMonthDay } }) => freq === 'DAILY' && byMonthDay.some((day) => day < 0),
  },
  {
    oracle: 'libical',
    section: 'RFC 5545, 3.3.10, the table of expansions',
    reason:
      'With FREQ=YEARLY, BYMONTHDAY alone expands to days of all months. libical takes the month of the anchor.',
    applies: ({ rule: { freq, byMonth, byMonthDay } }) =>
      freq === 'YEARLY' && byMonth.length === 0 && byMonthDay.length > 0,
  },
  {
    oracle: 'libical',
    section: 'RFC 5545, 3.8.5.3',
    reason:
      'A day occurs once. When two days become the last one of February, libical has it twice for BYSETPOS.',
    applies: (question) =>
      takesLastDay(question) &&
      question.rule.bySetPos.length > 0 &&
      question.rule.byMonthDay.filter((day) => day >= 28).length > 1,
  },
  {
    oracle: 'libical',
    section: 'RFC 7529, 4.1',
    reason:
      'month_end is about days 29 to 31. SKIP=BACKWARD also moves days -31 to -29, into the month before.',
    applies: (question) => takesLastDay(question) && question.rule.byMonthDay.some((day) => day < -28),
  },
]
