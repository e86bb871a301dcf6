import { dayNumber, dayText, type MonthEnd } from '../../../src/domain/tasks/recurrence-days.ts'

/** A rule with the day that its series starts from. */
export interface Case {
  readonly rule: string
  readonly anchor: string
  readonly month_end: MonthEnd
}

/** Cases that depend on the seed only. All of their rules are valid. */
export const generateCases = (amount: number, seed: number): readonly Case[] => {
  const random = randomNumbers(seed)
  const chance = (probability: number): boolean => random() < probability
  const integer = (least: number, most: number): number => least + Math.floor(random() * (most - least + 1))
  const pick = <Value>(values: readonly Value[]): Value => {
    const value = values[integer(0, values.length - 1)]
    if (value === undefined) throw new RangeError('Nothing to pick from')
    return value
  }
  const list = (most: number, item: () => string): string =>
    [...new Set(Array.from({ length: integer(1, most) }, item))].join(',')
  const signed = (most: number): string => `${chance(0.3) ? '-' : ''}${integer(1, most)}`

  const generateRule = (anchor: string): string => {
    const freq = pick(['DAILY', 'WEEKLY', 'MONTHLY', 'YEARLY'] as const)
    const months = chance(0.35) ? list(4, () => String(integer(1, 12))) : ''
    const monthDay = (): string => (chance(0.5) ? String(integer(28, 31)) : signed(31))
    const monthDays = freq !== 'WEEKLY' && chance(0.4) ? list(4, monthDay) : ''
    // A weekday with a number is rarely on a day of the month: most rules with both never occur.
    const numbered = freq === 'DAILY' || freq === 'WEEKLY' ? 0 : monthDays === '' ? 0.4 : 0.1
    const mostNumber = freq === 'YEARLY' && months === '' ? 53 : 5
    const weekday = (): string => (chance(numbered) ? signed(mostNumber) : '') + pick(weekdays)
    const parts = {
      INTERVAL: chance(0.4) ? String(pick([2, 3, 4, 5, 6, 7, 12, 13, 20])) : '',
      BYMONTH: months,
      BYMONTHDAY: monthDays,
      BYDAY: chance(0.5) ? list(5, weekday) : '',
      WKST: chance(0.3) ? pick(weekdays) : '',
    }
    const mostPosition = Math.min(chance(0.85) ? 3 : 366, mostPositions[freq])
    const hasDays = months + monthDays + parts.BYDAY !== ''
    const end = chance(0.4)
      ? { UNTIL: dayText(dayNumber(anchor) + integer(1, 4_000)).replaceAll('-', '') }
      : { COUNT: String(integer(1, 20)) }
    return Object.entries({
      FREQ: freq,
      ...parts,
      BYSETPOS: hasDays && chance(0.25) ? list(3, () => signed(mostPosition)) : '',
      ...(chance(0.3) && end),
    })
      .filter(([, value]) => value !== '')
      .map(([part, value]) => `${part}=${value}`)
      .join(';')
  }

  return Array.from({ length: amount }, () => {
    const month = `${integer(1990, 2035)}-${String(integer(1, 12)).padStart(2, '0')}`
    const day = dayNumber(`${month}-01`) + (chance(0.4) ? integer(27, 30) : integer(0, 27))
    const anchor = dayText(day)
    return { rule: generateRule(anchor), anchor, month_end: pick(['skip', 'last_day'] as const) }
  })
}

const weekdays = ['MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU']

/** How many days a period can have. */
const mostPositions = { DAILY: 1, WEEKLY: 7, MONTHLY: 31, YEARLY: 366 } as const

/** Numbers from 0 to 1: the generator mulberry32. */
const randomNumbers = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0
    let value = Math.imul(state ^ (state >>> 15), state | 1)
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61)
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296
  }
}
