import { Temporal } from 'temporal-polyfill'
import { earliestInstant, isDay, latestInstant } from './dates.ts'

/**
 * Time zones of the IANA database, by name, and the calendar days in them. The other functions take only names that
 * `canonicalTimeZone` has returned: the library caches one formatter per name, so this bounds the cache to about 600.
 */

export const defaultTimeZone = 'UTC'

/** A name, not an offset such as `+01:00`, which has no daylight saving time. */
const ianaName = /^[A-Za-z][\w+-]*(?:\/[\w+-]+){0,2}$/

/**
 * The name in the spelling of the IANA database; null if no zone has it. Ignores case, and keeps aliases such as
 * `Asia/Calcutta`.
 */
export const canonicalTimeZone = (name: string): string | null => {
  if (!ianaName.test(name)) return null
  try {
    return zonedTime(0, name).timeZoneId
  } catch {
    return null
  }
}

/**
 * The first instant of a day, which is not 00:00 where daylight saving time starts at midnight. A time is returned unchanged.
 * Takes and returns the forms of `canonicalTimeOrDay`.
 */
export const instantOf = (timeOrDay: string, timeZone: string): string => {
  if (!isDay(timeOrDay)) return timeOrDay
  const { epochMilliseconds } = Temporal.PlainDate.from(timeOrDay).toZonedDateTime(timeZone)
  return new Date(Math.max(epochMilliseconds, earliestInstant)).toISOString()
}

/** The last millisecond of a day. A time is returned unchanged, as by `instantOf`. */
export const lastInstantOf = (timeOrDay: string, timeZone: string): string => {
  if (!isDay(timeOrDay)) return timeOrDay
  const { epochMilliseconds } = Temporal.PlainDate.from(timeOrDay).add({ days: 1 }).toZonedDateTime(timeZone)
  return new Date(Math.min(epochMilliseconds - 1, latestInstant)).toISOString()
}

/** The next day; `infinity` after the year 9999. */
export const dayAfter = (day: string): string => {
  const next = Temporal.PlainDate.from(day).add({ days: 1 })
  return next.year > 9999 ? 'infinity' : next.toString()
}

/** The day at a time in milliseconds, plus `days`; `infinity` or `-infinity` outside of the years 1 to 9999. */
export const dayAt = (
  milliseconds: number,
  timeZone: string,
  { days = 0 }: { readonly days?: number } = {},
): string => {
  const day = zonedTime(milliseconds, timeZone).toPlainDate().add({ days })
  if (day.year > 9999) return 'infinity'
  return day.year < 1 ? '-infinity' : day.toString()
}

const zonedTime = (milliseconds: number, timeZone: string): Temporal.ZonedDateTime =>
  Temporal.Instant.fromEpochMilliseconds(milliseconds).toZonedDateTimeISO(timeZone)
