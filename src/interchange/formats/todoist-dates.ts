import { isDay } from '../../domain/shared/dates.ts'
import type { Recurrence } from '../../domain/tasks/recurrence.ts'
import { dayNumber, daysAfter, dayText } from '../../domain/tasks/recurrence-days.ts'
import { formatRule, parseRule } from '../../domain/tasks/recurrence-rule.ts'
import { dayOf, instantAtLocal } from '../../domain/shared/time-zones.ts'

/** The English in which Todoist writes down how often a task recurs, such as "every other friday at 9am". */

export interface Repeated extends Recurrence {
  /** `HH:MM`, if the text has it. */
  readonly time: string | null
}

/** Characters. */
const maxText = 100

const units = { day: 'DAILY', week: 'WEEKLY', month: 'MONTHLY', year: 'YEARLY' } as const
const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
const codes = ['MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU']
const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const ordinals = new Map(
  Object.entries({ first: 1, second: 2, third: 3, fourth: 4, fifth: 5, last: -1, other: 2 }),
)

const ordinalOf = (word: string): number | null =>
  ordinals.get(word) ?? (/^\d{1,2}(st|nd|rd|th)?$/.test(word) ? Number.parseInt(word, 10) : null)

const weekdayOf = (word: string): string | null =>
  (/^(mon|tues?|wed(nes)?|thu(rs?)?|fri|sat(ur)?|sun)(day)?s?$/.test(word) &&
    codes[weekdays.indexOf(word.slice(0, 3))]) ||
  null

const monthOf = (word: string): number | null =>
  /^[a-z]{3,9}$/.test(word) ? monthNames.indexOf(word.slice(0, 3)) + 1 || null : null

const clocks = {
  morning: '09:00',
  afternoon: '12:00',
  noon: '12:00',
  evening: '19:00',
  night: '22:00',
} as const

const shorter = new Map([
  ['daily', 'every day'],
  ['everyday', 'every day'],
  ['weekly', 'every week'],
  ['monthly', 'every month'],
  ['quarterly', 'every quarter'],
  ['yearly', 'every year'],
])

/** The text without its start, which is the date of the task, and with times as numbers. */
const plainText = (text: string): string => {
  const words = text.trim().toLowerCase().replaceAll(/\s+/g, ' ')
  return (shorter.get(words) ?? words)
    .replace(/^after /, 'every! ')
    .replace(/,? (?:starting|from) .+/, '')
    .replace(/^(every!?) (morning|afternoon|evening|night)$/, '$1 day $2')
    .replace(
      / (?:at )?(morning|afternoon|noon|evening|night)$/,
      (_, name: keyof typeof clocks) => ` at ${clocks[name]}`,
    )
    .replace(/ at (\d{1,2})$/, ' at $1:00')
}

/** Null if the text is of another kind: it may be of another language. */
export const parseRepeated = (text: string, timeZone: string): Repeated | null => {
  if (text.length > maxText) return null
  const [, mark, rest] = /^(?:every|ev)(!?)\s(.+)$/.exec(plainText(text)) ?? []
  const [, plain = '', at] =
    /^(.*?)(?:,? (?:at |@ ?)?(\d{1,2}(?::\d{2})?\s*(?:am|pm)|\d{1,2}:\d{2}))?$/.exec(rest?.trim() ?? '') ?? []
  const named = namedRule(plain.trim().replace(/(?<=\d(?:st|nd|rd|th)) of (?:the|each|every) month$/, ''))
  const from = mark === '!' ? 'completion' : 'schedule'
  const rule = named === null ? null : parseRule(named, from)
  if (rule === null || 'message' in rule) return null
  return {
    rule: formatRule(rule),
    time_zone: timeZone,
    from,
    month_end: 'last_day',
    missed: 'skip',
    time: at === undefined ? null : clockOf(at),
  }
}

const namedRule = (text: string): string | null => {
  if (/^(weekday|workday)s?$/.test(text)) return 'FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR'
  if (/^weekends?$/.test(text)) return 'FREQ=WEEKLY;BYDAY=SA,SU'
  if (/^(last day|last day of the month)$/.test(text)) return 'FREQ=MONTHLY;BYMONTHDAY=-1'
  if (text === 'quarter') return 'FREQ=MONTHLY;INTERVAL=3'
  const [, amount, unit] = /^(?:(\d{1,3}|other) )?(day|week|month|year)s?$/.exec(text) ?? []
  if (unit === 'day' || unit === 'week' || unit === 'month' || unit === 'year')
    return `FREQ=${units[unit]}${amount === undefined ? '' : `;INTERVAL=${ordinalOf(amount) ?? amount}`}`
  const [, count = '1', period = '', onDays = ''] =
    /^(?:(\d{1,2}|other) )?(week|month|year)s? on (?:the )?(.+)$/.exec(text) ?? []
  if (period === 'week' || period === 'month' || period === 'year') {
    const inner = onDays.includes(' on ') ? null : namedRule(onDays)
    const isOwn = inner?.startsWith(`FREQ=${units[period]};BY`) && !inner.includes('INTERVAL')
    return isOwn ? `${inner};INTERVAL=${ordinalOf(count) ?? count}` : null
  }
  const words = text.split(/[\s,&]+|\band\b/).filter((word) => word !== '')
  const [first = '', second = ''] = words
  const days = words.map(weekdayOf)
  if (days.length > 0 && !days.includes(null)) return `FREQ=WEEKLY;BYDAY=${days.join(',')}`
  const [ordinal, weekday] = [ordinalOf(first), weekdayOf(second)]
  if (first === 'other' && weekday !== null && words.length === 2)
    return `FREQ=WEEKLY;INTERVAL=2;BYDAY=${weekday}`
  if (ordinal !== null && weekday !== null && words.length === 2)
    return `FREQ=MONTHLY;BYDAY=${ordinal}${weekday}`
  const monthDays = words.map((word) =>
    /^\d{1,2}(st|nd|rd|th)?$/.test(word) ? Number.parseInt(word, 10) : null,
  )
  if (monthDays.length > 0 && !monthDays.includes(null))
    return `FREQ=MONTHLY;BYMONTHDAY=${monthDays.join(',')}`
  const [month, day] =
    monthOf(first) === null ? [monthOf(second), monthDays[0]] : [monthOf(first), monthDays[1]]
  return month !== null && day != null && words.length === 2
    ? `FREQ=YEARLY;BYMONTH=${month};BYMONTHDAY=${day}`
    : null
}

const clockOf = (text: string): string => {
  const [, hour = '0', minute = '00', half] = /^(\d{1,2})(?::(\d{2}))?\s*(am|pm)?$/.exec(text) ?? []
  const hours = half === undefined ? Number(hour) : (Number(hour) % 12) + (half === 'pm' ? 12 : 0)
  return `${String(hours).padStart(2, '0')}:${minute}`
}

/** The first date of something repeated that is not in the past. */
export const firstDate = (
  { rule, from, month_end, time_zone, time }: Repeated,
  now: string,
): string | null => {
  const parsed = parseRule(rule, from)
  const today = dayOf(now, time_zone)
  if ('message' in parsed || !isDay(today)) return null
  const [day] = daysAfter(parsed, month_end, dayNumber(today), dayNumber(today) - 1)
  if (day === undefined) return null
  return time === null ? dayText(day) : instantAtLocal(`${dayText(day)}T${time}:00`, time_zone)
}
