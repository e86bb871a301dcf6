import { Temporal } from 'temporal-polyfill'
import { earliestInstant, isDay, isInstant, latestInstant } from './dates.ts'

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

/** The number of days from one day to another; negative if that is earlier. */
export const daysBetween = (from: string, to: string): number =>
  Temporal.PlainDate.from(from).until(Temporal.PlainDate.from(to)).days

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

/** The day of a time in the zone. A day is returned unchanged. `infinity` or `-infinity` as by `dayAt`. */
export const dayOf = (timeOrDay: string, timeZone: string): string =>
  isDay(timeOrDay) ? timeOrDay : dayAt(Date.parse(timeOrDay), timeZone)

/** Whether a date is before another one; a time and a day are compared by days. False without one of them. */
export const isEarlier = (one: string | null, other: string | null, timeZone: string): boolean => {
  if (one === null || other === null) return false
  return isDay(one) === isDay(other) ? one < other : dayOf(one, timeZone) < dayOf(other, timeZone)
}

/**
 * The time on a day at the time of day that `time` has in the zone; null outside of the years 1 to 9999. Where the clock skips it, it
 * is as much later as the clock skips; where the clock repeats it, it is the first.
 */
export const atTimeOf = (time: string, day: string, timeZone: string): string | null =>
  atTime(zonedTime(Date.parse(time), timeZone).toPlainTime(), day, timeZone)

/** The time on a day at a time of day (`HH:MM`), likewise. */
export const atTime = (
  plainTime: string | Temporal.PlainTime,
  day: string,
  timeZone: string,
): string | null => {
  const { epochMilliseconds } = Temporal.PlainDate.from(day).toZonedDateTime({ timeZone, plainTime })
  return epochMilliseconds < earliestInstant || epochMilliseconds > latestInstant
    ? null
    : new Date(epochMilliseconds).toISOString()
}

/** The time in the zone, as `2026-12-31T23:59:59`. */
export const localTimeOf = (time: string, timeZone: string): string =>
  zonedTime(Date.parse(time), timeZone).toPlainDateTime().toString({ smallestUnit: 'second' })

/** The instant of a time in the zone, as `atTimeOf`; null if it is not a time, or outside of the years 1 to 9999. */
export const instantAtLocal = (localTime: string, timeZone: string): string | null => {
  if (!isInstant(`${localTime}Z`)) return null
  const { epochMilliseconds } = Temporal.PlainDateTime.from(localTime).toZonedDateTime(timeZone)
  return epochMilliseconds < earliestInstant || epochMilliseconds > latestInstant
    ? null
    : new Date(epochMilliseconds).toISOString()
}

/** A change of the offset from UTC, in minutes. */
export interface ClockChange {
  /** On the clock that is changed. */
  readonly localTime: string
  readonly before: number
  readonly after: number
}

/** The changes in a range of years, in their order. */
export const clockChanges = (
  firstYear: number,
  lastYear: number,
  timeZone: string,
): readonly ClockChange[] => {
  const changes: ClockChange[] = []
  let time: Temporal.ZonedDateTime | null = zonedTime(Date.UTC(firstYear, 0, 1), timeZone)
  for (;;) {
    const before = offsetMinutes(time)
    time = time.getTimeZoneTransition('next')
    if (time === null || time.year > lastYear) return changes
    const after = offsetMinutes(time)
    const localTime = time.toPlainDateTime().add({ minutes: before - after })
    changes.push({ localTime: localTime.toString({ smallestUnit: 'second' }), before, after })
  }
}

/** The offset from UTC at a time, in minutes. */
export const offsetAt = (time: string, timeZone: string): number =>
  offsetMinutes(zonedTime(Date.parse(time), timeZone))

const offsetMinutes = ({ offsetNanoseconds }: Temporal.ZonedDateTime): number =>
  Math.round(offsetNanoseconds / 60_000_000_000)

/** Moves a time or a day by days of the calendar, as `atTimeOf`; null outside of the years 1 to 9999. */
export const shift = (timeOrDay: string, days: number, timeZone: string): string | null => {
  const present = dayOf(timeOrDay, timeZone)
  if (!isDay(present)) return null
  const day = Temporal.PlainDate.from(present).add({ days })
  if (day.year < 1 || day.year > 9999) return null
  return isDay(timeOrDay) ? day.toString() : atTimeOf(timeOrDay, day.toString(), timeZone)
}

/**
 * The days from `from` until before `end` that the zone left out when it crossed the date line, as Pacific/Apia left out 2011-12-30:
 * they are missing from the hours that pass in between.
 */
export const missingDays = (from: string, end: string, timeZone: string): readonly string[] => {
  const [first, last] = [Temporal.PlainDate.from(from), Temporal.PlainDate.from(end)]
  const { days } = first.until(last)
  const hours =
    (last.toZonedDateTime(timeZone).epochMilliseconds - first.toZonedDateTime(timeZone).epochMilliseconds) /
    3_600_000
  if (hours > days * 24 - 12) return []
  if (days === 1) return [from]
  const middle = first.add({ days: Math.floor(days / 2) }).toString()
  return [...missingDays(from, middle, timeZone), ...missingDays(middle, end, timeZone)]
}

const zonedTime = (milliseconds: number, timeZone: string): Temporal.ZonedDateTime =>
  Temporal.Instant.fromEpochMilliseconds(milliseconds).toZonedDateTimeISO(timeZone)
