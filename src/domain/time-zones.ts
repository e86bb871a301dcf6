import { Temporal } from 'temporal-polyfill'
import { earliestInstant, isDay } from './dates.ts'

/**
 * Time zones of the IANA database, by name, and the calendar days in them. Only names that `canonicalTimeZone` has accepted may
 * be passed to the other functions. The library keeps one formatter for each zone, so at most some 600.
 */

export const defaultTimeZone = 'UTC'

/** A name, not an offset such as `+01:00`, which knows no daylight saving time. */
const ianaName = /^[A-Za-z][\w+-]*(?:\/[\w+-]+){0,2}$/

/**
 * The name in the spelling of the IANA database, ignoring case; null if no zone has it. An alias such as `Asia/Calcutta` stays
 * an alias.
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
 * The first instant of a day, which daylight saving time can move from 00:00; a time stays as it is. Takes and returns what
 * `canonicalTimeOrDay` does.
 */
export const instantOf = (timeOrDay: string, timeZone: string): string => {
  if (!isDay(timeOrDay)) return timeOrDay
  const { epochMilliseconds } = Temporal.PlainDate.from(timeOrDay).toZonedDateTime(timeZone)
  return new Date(Math.max(epochMilliseconds, earliestInstant)).toISOString()
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
