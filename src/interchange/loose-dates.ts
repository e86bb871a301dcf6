import { canonicalInstant, isDay } from '../domain/shared/dates.ts'
import { dayOf, instantAtLocal } from '../domain/shared/time-zones.ts'

/** Dates as people and programs write them: a day, or an instant in UTC. */

export type DateOrder = 'ymd' | 'dmy' | 'mdy'

export interface DateContext {
  readonly order: DateOrder
  readonly timeZone: string
  /** The time that dates without a year come after. */
  readonly now: string
}

/** The languages whose names of months are known. Where two differ, the first one counts. */
const languages = ['en', 'de', 'fr', 'es', 'it', 'pt', 'nl', 'sv', 'da', 'pl', 'cs', 'tr', 'ru', 'uk']

const monthsOf = (language: string): readonly [string, number][] =>
  (['long', 'short'] as const).flatMap((month) => {
    const format = new Intl.DateTimeFormat(language, { day: 'numeric', month, timeZone: 'UTC' })
    return Array.from({ length: 12 }, (_, index): [string, number] => [
      partOf(format, Date.UTC(2026, index, 1)),
      index + 1,
    ])
  })

let knownMonths: ReadonlyMap<string, number> | undefined

/** The number of a month. The names are collected at the first one: a process is started for each file, and most have none. */
const monthNamed = (text: string): number | undefined => {
  knownMonths ??= new Map(languages.flatMap(monthsOf).toReversed())
  return knownMonths.get(nameOf(text))
}

function partOf(format: Intl.DateTimeFormat, time: number): string {
  const month = format.formatToParts(time).find(({ type }) => type === 'month')?.value ?? ''
  return nameOf(month)
}

function nameOf(text: string): string {
  return text.toLowerCase().replace(/\.$/, '')
}

const iso =
  /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ,]{1,3}(?:at |um |à )?(\d{1,2})(?::(\d{2}))?(?::(\d{2})(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?)?$/i
const numeric =
  /^(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})(?:[T ,]{1,3}(?:at |um |à )?(\d{1,2})(?::(\d{2}))?(?::(\d{2})(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?)?$/i
const dayFirst =
  /^(?:\p{L}+\.?,? )?(\d{1,2})(?:\.|st|nd|rd|th|er)?[ /-](?:de |of )?(\p{L}+)\.?,?(?:[ /-](?:de )?(\d{4}|\d\d))?(?:[T ,]{1,3}(?:at |um |à )?(\d{1,2})(?::(\d{2}))?(?::(\d{2})(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?)?$/iu
const monthFirst =
  /^(?:\p{L}+\.?,? )??(\p{L}+)\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?(?:[T ,]{1,3}(?:at |um |à )?(\d{1,2})(?::(\d{2}))?(?::(\d{2})(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?)?$/iu

/** Characters. */
const maxText = 100

/** An offset, which may be followed by the name of the zone, as JavaScript and Notion write it. */
const zone =
  / ?\(?(?:(?:GMT|UTC)(?: ?([+-](?:0?\d|1[0-4]))(?::?([0-5]\d))?)?|([+-](?:0\d|1[0-4]))(?::?([0-5]\d))?)\)?(?: \([^()]*\))?$/i

/** Null if the text is not a date. */
export const parseDate = (text: string, context: DateContext): string | null => {
  const trimmed = text.trim().replace(/^(\d{4})年(\d{1,2})月(\d{1,2})日/, '$1-$2-$3')
  if (trimmed.length > maxText) return null
  if (isDay(trimmed)) return trimmed
  // Milliseconds, or seconds, since 1970.
  const [, digits = ''] = /^(1\d{9}(?:\d{3})?)(?:\.0*)?$/.exec(trimmed) ?? []
  if (digits !== '') return new Date(Number(digits.padEnd(13, '0'))).toISOString()
  const instant = canonicalInstant(trimmed.replace(' ', 'T').replace(/([+-]\d\d):?(\d\d)$/, '$1:$2'))
  if (instant !== null) return instant
  const found = zone.exec(trimmed)
  const local = trimmed.slice(0, found?.index)
  // Without a time, it is the end of a date.
  if (found === null || !/\d:\d\d/.test(local)) return parts(trimmed, context)
  const hours = found[1] ?? found[3] ?? '0'
  const minutes = found[2] ?? found[4] ?? '0'
  const time = parts(local, { ...context, timeZone: 'UTC' })
  const offset = Number(hours) * 60 + (hours.startsWith('-') ? -1 : 1) * Number(minutes)
  return time === null ? null : canonicalInstant(new Date(Date.parse(time) - offset * 60_000).toISOString())
}

/** Midnight, and what follows it. */
const midnight =
  /[T ,]{1,3}(?:0?0:00(?::00(?:[.,]0{1,9})?)?|12:00(?::00)? ?a\.?m\.?)(?:$|[^\d:p ].*| $| [^p].*)/i

/** The date of something to come: many programs write a day as its midnight, in whatever zone. */
export const parsePlanned = (text: string, context: DateContext): string | null =>
  (text.length <= maxText ? parseDate(text.replace(midnight, ''), context) : null) ?? parseDate(text, context)

const parts = (text: string, context: DateContext): string | null => {
  const calendar = iso.exec(text)
  if (calendar) return dateFrom(calendar, [1, 2, 3], context)
  const numbers = numeric.exec(text)
  if (numbers) {
    const order = numbers[1]?.length === 4 ? 'ymd' : context.order === 'ymd' ? 'dmy' : context.order
    return dateFrom(numbers, { ymd: [1, 2, 3], dmy: [3, 2, 1], mdy: [3, 1, 2] }[order], context)
  }
  const named = dayFirst.exec(text)
  if (named) return dateFrom(named, [3, 2, 1], context)
  const english = monthFirst.exec(text)
  return english ? dateFrom(english, [3, 1, 2], context) : null
}

const dateFrom = (
  match: RegExpExecArray,
  [yearAt = 0, monthAt = 0, dayAt = 0]: readonly number[],
  context: DateContext,
): string | null => {
  const monthText = match[monthAt] ?? ''
  const month = /^\d+$/.test(monthText) ? Number(monthText) : monthNamed(monthText)
  if (month === undefined) return null
  const year = match[yearAt]
  const dayIn = (year: number): string =>
    [String(year).padStart(4, '0'), pad(month), pad(Number(match[dayAt]))].join('-')
  const today = dayOf(context.now, context.timeZone)
  const thisYear = Number(today.slice(0, 4))
  const full = year === undefined ? null : year.length <= 2 ? 2000 + Number(year) : Number(year)
  const next = dayIn(thisYear) < today ? dayIn(thisYear + 1) : dayIn(thisYear)
  const day = full === null ? next : dayIn(full)
  if (!isDay(day)) return null
  return withTime(day, match.slice(-4), context.timeZone)
}

const withTime = (
  day: string,
  [hour, minute = '0', second = '0', half]: readonly (string | undefined)[],
  timeZone: string,
): string | null => {
  if (hour === undefined) return day
  const clock = half === undefined ? Number(hour) : (Number(hour) % 12) + (/^p/i.test(half) ? 12 : 0)
  return instantAtLocal(`${day}T${pad(clock)}:${pad(Number(minute))}:${pad(Number(second))}`, timeZone)
}

const pad = (value: number): string => String(value).padStart(2, '0')

/** What the numbers of some dates can mean; null if they do not say. */
export const orderOf = (texts: Iterable<string>): DateOrder | null => {
  for (const text of texts) {
    const [, first = '', second = ''] = /^\s*(\d{1,4})[./-](\d{1,2})[./-]\d{1,4}\b/.exec(text) ?? []
    if (first.length === 4) return 'ymd'
    if (Number(first) > 12) return 'dmy'
    if (Number(second) > 12) return 'mdy'
  }
  return null
}
