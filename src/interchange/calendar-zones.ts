import { type ClockChange, clockChanges, offsetAt } from '../domain/shared/time-zones.ts'

/** Time zones as components of iCalendar (RFC 5545, section 3.6.5), in the notation of jCal (RFC 7265). */

export type Property = [
  name: string,
  parameters: Readonly<Record<string, string>>,
  type: string,
  ...values: (string | number | object)[],
]

export type Component = [name: string, properties: readonly Property[], components: readonly Component[]]

/** Later changes follow the pattern of these years. Before them, the offset of their start is taken. */
const firstYear = 2000
const lastYear = 2050

/** How many years in a row have to be alike for a pattern. */
const leastYears = 5

export const zoneComponent = (timeZone: string): Component => {
  const changes = clockChanges(firstYear, lastYear, timeZone)
  const offset = offsetAt(`${firstYear}-01-01T00:00:00.000Z`, timeZone)
  const initial = observance({ localTime: '1970-01-01T00:00:00', before: offset, after: offset }, [])
  const patterns = [...Map.groupBy(changes, kindOfChange).values()].map(patternOf)
  return ['vtimezone', [['tzid', {}, 'text', timeZone]], [initial, ...patterns.flatMap(observancesOf)]]
}

/** Changes that differ only in the day of the month, on the same weekday. */
const kindOfChange = ({ localTime, before, after }: ClockChange): string =>
  [localTime.slice(5, 7), localTime.slice(11), dateOf(localTime).getUTCDay(), before, after].join()

const dateOf = (localTime: string): Date => new Date(`${localTime.slice(0, 10)}T00:00:00Z`)

interface Pattern {
  readonly single: readonly ClockChange[]
  /** Those that go on every year, in the same week of the month. */
  readonly yearly: readonly ClockChange[]
  /** As in BYDAY: the n-th, or -1 for the last. */
  readonly week: number
}

const patternOf = (changes: readonly ClockChange[]): Pattern => {
  const last = changes.at(-1)
  const weeks = [-1, ...(last ? [weekOf(last)] : [])]
  const runs = weeks.map((week) => ({ week, years: yearsInRow(changes, week) }))
  const { week, years } = runs.toSorted((one, other) => other.years - one.years)[0] ?? { week: 0, years: 0 }
  const goesOn = years >= leastYears && yearOf(last) === lastYear
  const start = goesOn ? changes.length - years : changes.length
  return { single: changes.slice(0, start), yearly: changes.slice(start), week }
}

/** How many of the last changes are in that week, one in each year. */
const yearsInRow = (changes: readonly ClockChange[], week: number): number => {
  const index = changes.findLastIndex(
    (change, number) =>
      !(week === -1 ? isInLastWeek(change) : weekOf(change) === week) ||
      yearOf(change) !== lastYear - (changes.length - 1 - number),
  )
  return changes.length - 1 - index
}

const yearOf = (change: ClockChange | undefined): number => Number(change?.localTime.slice(0, 4))

const weekOf = ({ localTime }: ClockChange): number => Math.ceil(Number(localTime.slice(8, 10)) / 7)

const isInLastWeek = ({ localTime }: ClockChange): boolean => {
  const date = dateOf(localTime)
  const month = date.getUTCMonth()
  date.setUTCDate(date.getUTCDate() + 7)
  return date.getUTCMonth() !== month
}

const weekdays = ['SU', 'MO', 'TU', 'WE', 'TH', 'FR', 'SA']

/** A component for each single change, not one with RDATE, which not all clients read here. */
const observancesOf = ({ single, yearly: [first], week }: Pattern): readonly Component[] => {
  const components = single.map((change) => observance(change, []))
  if (first !== undefined) components.push(observance(first, [ruleOf(first, week)]))
  return components
}

const ruleOf = ({ localTime }: ClockChange, week: number): Property => {
  const byday = `${week}${weekdays[dateOf(localTime).getUTCDay()]}`
  return ['rrule', {}, 'recur', { freq: 'YEARLY', bymonth: Number(localTime.slice(5, 7)), byday }]
}

const observance = ({ localTime, before, after }: ClockChange, repeated: readonly Property[]): Component => [
  after > before ? 'daylight' : 'standard',
  [
    ['dtstart', {}, 'date-time', localTime],
    ['tzoffsetfrom', {}, 'utc-offset', offsetText(before)],
    ['tzoffsetto', {}, 'utc-offset', offsetText(after)],
    ...repeated,
  ],
  [],
]

const offsetText = (minutes: number): string => {
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
  return `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(rest).padStart(2, '0')}`
}
