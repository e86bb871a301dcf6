const dateTime =
  /^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/

/** In milliseconds since the epoch. */
export const earliestInstant = Date.parse('0001-01-01T00:00:00.000Z')
export const latestInstant = Date.parse('9999-12-31T23:59:59.999Z')

/** What times are accepted, in words. */
export const timeLimits = 'in the years 0001 to 9999 of UTC, without a leap second'

/**
 * How the query parameters `*_after` and `*_before` compare: a range includes its start and excludes its end. So ranges that follow
 * each other have no value twice and miss none.
 */
export const rangeOperators = { after: '>=', before: '<' } as const

/** Whether text is an RFC 3339 time whose year in UTC is 1 to 9999. */
export const isInstant = (text: string): boolean => {
  if (!dateTime.test(text) || !isCalendarDay(text)) return false
  const time = Date.parse(text.toUpperCase())
  return time >= earliestInstant && time <= latestInstant
}

/** Whether text is a day (`YYYY-MM-DD`) of the years 1 to 9999. */
export const isDay = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && !text.startsWith('0000') && isCalendarDay(text)

/** Date.parse accepts February 30 as March 2. */
const isCalendarDay = (text: string): boolean => {
  const [year, month, day] = text.slice(0, 10).split('-').map(Number)
  const last = new Date(Date.UTC(2000, month ?? 0, 0))
  last.setUTCFullYear(year ?? 0, month ?? 0, 0)
  return (month ?? 0) >= 1 && (month ?? 0) <= 12 && (day ?? 0) >= 1 && (day ?? 0) <= last.getUTCDate()
}

/** The time in UTC with milliseconds; null if the text is not an RFC 3339 time. */
export const canonicalInstant = (text: string): string | null =>
  isInstant(text) ? new Date(text.toUpperCase()).toISOString() : null

/**
 * The canonical form of a time or a day in a query; null if the text is neither. Also accepts an offset without a colon, as
 * `strftime` writes it, and an offset with a space for `+`, which a URL without percent-encoding yields.
 */
export const canonicalTimeOrDay = (text: string): string | null =>
  isDay(text) ? text : canonicalInstant(text.replace(/([ +-])(\d\d):?(\d\d)$/, withColon))

const withColon = (_: string, sign: string, hours: string, minutes: string): string =>
  `${sign === ' ' ? '+' : sign}${hours}:${minutes}`

/** The dates of a task in a request: instants in UTC with milliseconds, and days. */
export interface TaskDates {
  readonly start_at?: string | null
  readonly start_on?: string | null
  readonly due_at?: string | null
  readonly due_on?: string | null
}

/** Adds to a merge patch: setting a time removes the all-day date, and vice versa, unless the patch sets both. */
export const replacingOtherKind = <Patch extends TaskDates>(patch: Patch): Patch => ({
  ...(patch.start_at != null && { start_on: null }),
  ...(patch.start_on != null && { start_at: null }),
  ...(patch.due_at != null && { due_on: null }),
  ...(patch.due_on != null && { due_at: null }),
  ...patch,
})

/** A contradiction between two dates of the same request. */
export type DateConflict = 'start_twice' | 'due_twice' | 'due_at_before_start' | 'due_on_before_start'

/**
 * The contradictions between the dates of a request alone. The statement that writes the task compares them with its stored
 * dates, and compares times with days, which takes a time zone.
 */
export const conflictsOf = ({ start_at, start_on, due_at, due_on }: TaskDates): readonly DateConflict[] => [
  ...(start_at != null && start_on != null ? (['start_twice'] as const) : []),
  ...(due_at != null && due_on != null ? (['due_twice'] as const) : []),
  ...(isBefore(due_at, start_at) ? (['due_at_before_start'] as const) : []),
  ...(isBefore(due_on, start_on) ? (['due_on_before_start'] as const) : []),
]

/** Compares as text: both dates have the same canonical form. */
const isBefore = (one: string | null | undefined, other: string | null | undefined): boolean =>
  one != null && other != null && one < other
