import t from 'tap'
import { generateCases } from '../../../scripts/check/recurrence/cases.ts'
import {
  type EndReason,
  firstOccurrence,
  nextOccurrence,
  type Occurrence,
  occurrencesAfter,
  type Recurrence,
  type Series,
} from '../../../src/domain/tasks/recurrence.ts'
import { countDays, dayNumber, daysAfter, dayText } from '../../../src/domain/tasks/recurrence-days.ts'
import { parseRule } from '../../../src/domain/tasks/recurrence-rule.ts'
import { shift } from '../../../src/domain/shared/time-zones.ts'

/** The dates of a recurring task. `scripts/check/recurrence` compares those of thousands of rules with two libraries. */

interface Case extends Partial<Recurrence> {
  readonly name: string
  readonly rule: string
  /** The anchor, and what follows it: days, or times such as `2026-03-29T01:30Z`. */
  readonly dates: string
  /** Why nothing follows then. */
  readonly end?: EndReason
}

const seriesOf = (anchor: string, settings: Partial<Recurrence> & { readonly rule: string }): Series => ({
  time_zone: 'UTC',
  from: 'schedule',
  month_end: 'skip',
  missed: 'skip',
  ...settings,
  anchor: anchor.replace('Z', ':00.000Z'),
})

const dateOf = ({ on, at }: Occurrence): string => at?.replace(':00.000', '') ?? on

const testCases = (title: string, cases: readonly Case[]): void => {
  t.test(title, async (t) => {
    for (const { name, dates, end, ...settings } of cases) {
      const [anchor = '', ...expected] = dates.split(' ')
      const series = seriesOf(anchor, settings)
      const first = firstOccurrence(series)
      t.equal(dateOf(first), anchor, `${name}: the first`)

      const limit = expected.length + (end ? 1 : 0)
      const { items, hasMore, endReason } = occurrencesAfter(series, first, limit)
      t.strictSame(items.map(dateOf), expected, name)
      t.strictSame({ hasMore, endReason }, { hasMore: !end, endReason: end ?? null }, `${name}: the end`)

      // One at a time, without the ones before.
      let current = first
      for (const date of expected) {
        const next = occurrencesAfter(series, current, 1).items[0]
        t.match(next, { number: current.number + 1 }, `${name}: the number of ${date}`)
        if (!next) break
        t.equal(dateOf(next), date, `${name}: ${date} after the one before`)
        current = next
      }
    }
  })
}

testCases('the examples of RFC 5545, section 3.8.5.3', [
  {
    name: 'every other day',
    rule: 'FREQ=DAILY;INTERVAL=2',
    dates: '1997-09-02 1997-09-04 1997-09-06 1997-09-08',
  },
  {
    name: 'every other week on Tuesday and Thursday, 8 times',
    rule: 'FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH',
    dates: '1997-09-02 1997-09-04 1997-09-16 1997-09-18 1997-09-30 1997-10-02 1997-10-14 1997-10-16',
    end: 'count',
  },
  {
    name: 'the first Friday of the month, until December 24',
    rule: 'FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR',
    dates: '1997-09-05 1997-10-03 1997-11-07 1997-12-05',
    end: 'until',
  },
  {
    name: 'every other month on the first and the last Sunday, 10 times',
    rule: 'FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU',
    dates:
      '1997-09-07 1997-09-28 1997-11-02 1997-11-30 1998-01-04 1998-01-25 1998-03-01 1998-03-29 1998-05-03 1998-05-31',
    end: 'count',
  },
  {
    name: 'the third-to-last day of the month',
    rule: 'FREQ=MONTHLY;BYMONTHDAY=-3',
    dates: '1997-09-28 1997-10-29 1997-11-28 1997-12-29 1998-01-29 1998-02-26',
  },
  {
    name: 'the first and the last day of the month, 10 times',
    rule: 'FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1',
    dates:
      '1997-09-30 1997-10-01 1997-10-31 1997-11-01 1997-11-30 1997-12-01 1997-12-31 1998-01-01 1998-01-31 1998-02-01',
    end: 'count',
  },
  {
    name: 'every 18 months on the 10th to the 12th',
    rule: 'FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11,12',
    dates: '1997-09-10 1997-09-11 1997-09-12 1999-03-10 1999-03-11 1999-03-12',
  },
  {
    name: 'every 20th Monday of the year',
    rule: 'FREQ=YEARLY;BYDAY=20MO',
    dates: '1997-05-19 1998-05-18 1999-05-17',
  },
  {
    name: 'every Thursday in March',
    rule: 'FREQ=YEARLY;BYMONTH=3;BYDAY=TH',
    dates: '1997-03-13 1997-03-20 1997-03-27 1998-03-05 1998-03-12',
  },
  {
    name: 'every Friday the 13th, after an anchor that is none',
    rule: 'FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13',
    dates: '1997-09-02 1998-02-13 1998-03-13 1998-11-13 1999-08-13 2000-10-13',
  },
  {
    name: 'the first Saturday after the first Sunday of the month',
    rule: 'FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13',
    dates: '1997-09-13 1997-10-11 1997-11-08 1997-12-13 1998-01-10 1998-02-07',
  },
  {
    name: 'the day of presidential elections',
    rule: 'FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8',
    dates: '1996-11-05 2000-11-07 2004-11-02',
  },
  {
    name: 'the third Tuesday, Wednesday or Thursday of the month, 3 times',
    rule: 'FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3',
    dates: '1997-09-04 1997-10-07 1997-11-06',
    end: 'count',
  },
  {
    name: 'the second-to-last weekday of the month',
    rule: 'FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2',
    dates: '1997-09-29 1997-10-30 1997-11-27 1997-12-30 1998-01-29 1998-02-26 1998-03-30',
  },
  {
    name: 'weeks that start on Monday',
    rule: 'FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO',
    dates: '1997-08-05 1997-08-10 1997-08-19 1997-08-24',
    end: 'count',
  },
  {
    name: 'weeks that start on Sunday',
    rule: 'FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU',
    dates: '1997-08-05 1997-08-17 1997-08-19 1997-08-31',
    end: 'count',
  },
  {
    name: 'a day that February does not have',
    rule: 'FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5',
    dates: '2007-01-15 2007-01-30 2007-02-15 2007-03-15 2007-03-30',
    end: 'count',
  },
])

testCases('months without the day', [
  {
    // The day of the anchor stays: planify#2568 went on from February 28.
    name: 'the 31st, or the last day',
    rule: 'FREQ=MONTHLY',
    month_end: 'last_day',
    dates: '2026-01-31 2026-02-28 2026-03-31 2026-04-30 2026-05-31',
  },
  {
    name: 'the 31st, or no day',
    rule: 'FREQ=MONTHLY',
    dates: '2026-01-31 2026-03-31 2026-05-31 2026-07-31 2026-08-31',
  },
  {
    name: 'the 29th and the 31st are one day of February',
    rule: 'FREQ=MONTHLY;BYMONTHDAY=29,31',
    month_end: 'last_day',
    dates: '2026-01-29 2026-01-31 2026-02-28 2026-03-29 2026-03-31 2026-04-29 2026-04-30',
  },
  {
    name: 'every second month from a 31st',
    rule: 'FREQ=MONTHLY;INTERVAL=2',
    month_end: 'last_day',
    dates: '2027-12-31 2028-02-29 2028-04-30 2028-06-30 2028-08-31',
  },
  {
    name: 'February 29, or the last day',
    rule: 'FREQ=YEARLY',
    month_end: 'last_day',
    dates:
      '2096-02-29 2097-02-28 2098-02-28 2099-02-28 2100-02-28 2101-02-28 2102-02-28 2103-02-28 2104-02-29',
  },
  {
    name: 'February 29, or no day',
    rule: 'FREQ=YEARLY',
    dates: '2092-02-29 2096-02-29 2104-02-29',
  },
  {
    name: 'February 30, or the last day',
    rule: 'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30',
    month_end: 'last_day',
    dates: '2026-01-01 2026-02-28 2027-02-28 2028-02-29',
  },
  {
    name: 'February 30, or no day',
    rule: 'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30',
    dates: '2026-01-01',
    end: 'exhausted',
  },
  {
    name: 'Fridays that are the 31st or the last day',
    rule: 'FREQ=MONTHLY;BYMONTHDAY=31;BYDAY=FR',
    month_end: 'last_day',
    dates: '2026-07-31 2027-04-30 2027-12-31 2028-03-31',
  },
  {
    name: 'a negative day that the month does not have',
    rule: 'FREQ=MONTHLY;BYMONTHDAY=-31',
    month_end: 'last_day',
    dates: '2026-01-01 2026-03-01 2026-05-01',
  },
  {
    name: 'days of other frequencies',
    rule: 'FREQ=DAILY;BYMONTHDAY=31',
    month_end: 'last_day',
    dates: '2026-01-31 2026-03-31',
  },
])

testCases('what the anchor means', [
  {
    name: 'it is the first even if the rule does not match it, and COUNT counts it',
    rule: 'FREQ=WEEKLY;BYDAY=MO;COUNT=3',
    dates: '2026-11-26 2026-11-30 2026-12-07',
    end: 'count',
  },
  {
    name: 'its position in the month does not count',
    rule: 'FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1',
    dates: '2026-11-26 2026-12-01 2027-01-01 2027-02-01',
  },
  {
    name: 'BYSETPOS counts days before it',
    rule: 'FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=-1,2',
    dates: '2026-11-26 2026-11-27 2026-12-02 2026-12-04',
  },
  {
    name: 'INTERVAL counts from its month',
    rule: 'FREQ=MONTHLY;INTERVAL=3;BYDAY=1MO',
    dates: '2026-11-26 2027-02-01 2027-05-03',
  },
  {
    name: 'INTERVAL counts from its year',
    rule: 'FREQ=YEARLY;INTERVAL=2;BYMONTH=1;BYMONTHDAY=1',
    dates: '2025-12-31 2027-01-01 2029-01-01',
  },
  {
    name: 'the year ends within a week of INTERVAL',
    rule: 'FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR',
    dates: '2026-12-28 2027-01-01 2027-01-11 2027-01-15',
  },
  {
    name: 'BYMONTHDAY of a year is in each month',
    rule: 'FREQ=YEARLY;BYMONTHDAY=1',
    dates: '2026-11-01 2026-12-01 2027-01-01',
  },
])

testCases('COUNT and UNTIL', [
  { name: 'one', rule: 'FREQ=DAILY;COUNT=1', dates: '2026-11-26', end: 'count' },
  { name: 'before the anchor', rule: 'FREQ=DAILY;UNTIL=20200101', dates: '2026-11-26', end: 'until' },
  {
    name: 'a day, and a time on it',
    rule: 'FREQ=DAILY;UNTIL=20261127',
    time_zone: 'America/New_York',
    // 22:00 in New York is the next day in UTC.
    dates: '2026-11-27T03:00Z 2026-11-28T03:00Z',
    end: 'until',
  },
  {
    name: 'an instant, included',
    rule: 'FREQ=DAILY;UNTIL=20261128T030000Z',
    time_zone: 'America/New_York',
    dates: '2026-11-27T03:00Z 2026-11-28T03:00Z',
    end: 'until',
  },
  {
    name: 'an instant, just before',
    rule: 'FREQ=DAILY;UNTIL=20261128T025959Z',
    time_zone: 'America/New_York',
    dates: '2026-11-27T03:00Z',
    end: 'until',
  },
  {
    name: 'an instant, and a day that it is on',
    rule: 'FREQ=DAILY;UNTIL=20261128T030000Z',
    time_zone: 'America/New_York',
    dates: '2026-11-26 2026-11-27',
    end: 'until',
  },
])

testCases('time zones', [
  {
    name: 'Berlin, when summer time starts',
    rule: 'FREQ=DAILY',
    time_zone: 'Europe/Berlin',
    dates: '2026-03-28T08:00Z 2026-03-29T07:00Z 2026-03-30T07:00Z',
  },
  {
    name: 'Berlin, when summer time ends',
    rule: 'FREQ=DAILY',
    time_zone: 'Europe/Berlin',
    dates: '2026-10-24T07:00Z 2026-10-25T08:00Z 2026-10-26T08:00Z',
  },
  {
    // 03:30, and 02:30 again on the next day: tasks/tasks#1634 stayed at 03:30.
    name: '02:30 on the day without it',
    rule: 'FREQ=DAILY',
    time_zone: 'Europe/Berlin',
    dates: '2026-03-28T01:30Z 2026-03-29T01:30Z 2026-03-30T00:30Z',
  },
  {
    name: '02:30 on the day that has it twice is the first one',
    rule: 'FREQ=DAILY',
    time_zone: 'Europe/Berlin',
    dates: '2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z',
  },
  {
    name: 'the southern summer',
    rule: 'FREQ=WEEKLY',
    time_zone: 'Australia/Lord_Howe',
    dates: '2026-03-28T22:00Z 2026-04-04T22:30Z 2026-04-11T22:30Z',
  },
  {
    name: 'a day that starts at 01:00',
    rule: 'FREQ=DAILY',
    time_zone: 'America/Santiago',
    dates: '2026-09-05T04:00Z 2026-09-06T04:00Z 2026-09-07T03:00Z',
  },
  {
    name: 'the day of the week is the one in the zone',
    rule: 'FREQ=WEEKLY;BYDAY=MO',
    time_zone: 'Asia/Tokyo',
    dates: '2026-11-29T23:00Z 2026-12-06T23:00Z',
  },
  {
    name: 'Apia had no 30 December 2011',
    rule: 'FREQ=DAILY;COUNT=4',
    time_zone: 'Pacific/Apia',
    // 09:00 on 28, 29 and 31 December and 1 January.
    dates: '2011-12-28T19:00Z 2011-12-29T19:00Z 2011-12-30T19:00Z 2011-12-31T19:00Z',
    end: 'count',
  },
  {
    name: 'nor did its days',
    rule: 'FREQ=DAILY',
    time_zone: 'Pacific/Apia',
    dates: '2011-12-28 2011-12-29 2011-12-31 2012-01-01',
  },
  {
    name: 'weekly, on the missing day',
    rule: 'FREQ=WEEKLY',
    time_zone: 'Pacific/Apia',
    dates: '2011-12-23 2012-01-06 2012-01-13',
  },
  {
    name: 'a time that falls on the next day is not lost',
    rule: 'FREQ=DAILY',
    time_zone: 'America/Scoresbysund',
    // 23:30 on March 28, 00:30 on March 30 (23:00 to 24:00 of March 29 are skipped), 23:30 on March 30.
    dates: '2025-03-29T01:30Z 2025-03-30T01:30Z 2025-03-31T00:30Z',
  },
])

testCases('from the completion', [
  {
    name: 'the day is the one of the completion',
    rule: 'FREQ=MONTHLY',
    from: 'completion',
    month_end: 'last_day',
    dates: '2026-01-31 2026-02-28 2026-03-28',
  },
  {
    name: 'COUNT',
    rule: 'FREQ=DAILY;INTERVAL=3;COUNT=3',
    from: 'completion',
    dates: '2026-01-31 2026-02-03 2026-02-06',
    end: 'count',
  },
  {
    name: 'UNTIL',
    rule: 'FREQ=WEEKLY;UNTIL=20260208',
    from: 'completion',
    dates: '2026-01-31 2026-02-07',
    end: 'until',
  },
])

testCases('rules that are rare, or never match', [
  {
    name: 'nothing within 100 years',
    rule: 'FREQ=DAILY;INTERVAL=99999;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO',
    dates: '2026-11-26',
    end: 'exhausted',
  },
  {
    name: 'another weekday',
    rule: 'FREQ=DAILY;INTERVAL=7;BYDAY=FR',
    dates: '2026-11-26',
    end: 'exhausted',
  },
  {
    name: 'another month',
    rule: 'FREQ=MONTHLY;INTERVAL=12;BYMONTH=2',
    dates: '2026-11-26',
    end: 'exhausted',
  },
  {
    name: 'more than 100 years',
    rule: 'FREQ=YEARLY;INTERVAL=1000000000',
    dates: '2026-11-26',
    end: 'exhausted',
  },
  {
    name: 'a position that no year has',
    rule: 'FREQ=YEARLY;BYDAY=MO;BYSETPOS=54',
    dates: '2026-11-26',
    end: 'exhausted',
  },
  {
    name: 'the last one within 100 years of the one before',
    rule: 'FREQ=YEARLY;INTERVAL=60;UNTIL=21000101',
    dates: '2026-11-26 2086-11-26',
    end: 'until',
  },
  {
    name: 'Mondays that are February 29',
    rule: 'FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO',
    dates: '2026-11-26 2044-02-29 2072-02-29 2112-02-29',
  },
  {
    name: 'the last day that a task can have',
    rule: 'FREQ=DAILY',
    dates: '9999-12-30 9999-12-31',
    end: 'exhausted',
  },
  {
    name: 'the last time that a task can have',
    rule: 'FREQ=DAILY',
    time_zone: 'America/New_York',
    dates: '9999-12-31T03:00Z',
    end: 'exhausted',
  },
  {
    name: 'a day after the last one',
    rule: 'FREQ=DAILY',
    time_zone: 'Asia/Tokyo',
    dates: '9999-12-31T23:00Z',
    end: 'exhausted',
  },
])

interface Completion extends Partial<Recurrence> {
  readonly name: string
  readonly rule: string
  readonly anchor: string
  readonly current: readonly [number: number, on: string]
  readonly completedOn: string
  readonly length?: number
  readonly next: readonly [number: number, date: string] | EndReason
}

const completions: readonly Completion[] = [
  {
    name: 'on its day',
    rule: 'FREQ=DAILY',
    anchor: '2026-11-01',
    current: [1, '2026-11-01'],
    completedOn: '2026-11-01',
    next: [2, '2026-11-02'],
  },
  {
    name: 'a day late, the one of today is next',
    rule: 'FREQ=DAILY',
    anchor: '2026-11-01',
    current: [1, '2026-11-01'],
    completedOn: '2026-11-02',
    next: [2, '2026-11-02'],
  },
  {
    name: 'late, missed ones are skipped and counted',
    rule: 'FREQ=WEEKLY;BYDAY=MO,TH',
    anchor: '2026-11-02',
    current: [1, '2026-11-02'],
    completedOn: '2026-11-14',
    next: [5, '2026-11-16'],
  },
  {
    name: 'late, and each missed one follows',
    rule: 'FREQ=WEEKLY;BYDAY=MO,TH',
    missed: 'each',
    anchor: '2026-11-02',
    current: [1, '2026-11-02'],
    completedOn: '2026-11-14',
    next: [2, '2026-11-05'],
  },
  {
    name: 'late, on the last day of one that takes five',
    rule: 'FREQ=MONTHLY',
    anchor: '2026-09-01',
    current: [1, '2026-09-01'],
    completedOn: '2026-11-05',
    length: 4,
    next: [3, '2026-11-01'],
  },
  {
    name: 'late, after the last day of one that takes five',
    rule: 'FREQ=MONTHLY',
    anchor: '2026-09-01',
    current: [1, '2026-09-01'],
    completedOn: '2026-11-06',
    length: 4,
    next: [4, '2026-12-01'],
  },
  {
    name: 'late, within the days of the next one that takes longer than the rule',
    rule: 'FREQ=DAILY',
    anchor: '2026-09-01',
    current: [1, '2026-09-01'],
    completedOn: '2026-09-02',
    length: 4,
    next: [2, '2026-09-02'],
  },
  {
    name: 'late, past COUNT',
    rule: 'FREQ=DAILY;COUNT=5',
    anchor: '2026-11-01',
    current: [1, '2026-11-01'],
    completedOn: '2026-11-06',
    next: 'count',
  },
  {
    name: 'late, the last of COUNT',
    rule: 'FREQ=DAILY;COUNT=6',
    anchor: '2026-11-01',
    current: [1, '2026-11-01'],
    completedOn: '2026-11-06',
    next: [6, '2026-11-06'],
  },
  {
    name: 'late, past UNTIL',
    rule: 'FREQ=DAILY;UNTIL=20261105',
    anchor: '2026-11-01',
    current: [1, '2026-11-01'],
    completedOn: '2026-11-06',
    next: 'until',
  },
  {
    name: 'ten years late',
    rule: 'FREQ=DAILY',
    anchor: '2016-11-26T08:00Z',
    time_zone: 'Europe/Berlin',
    current: [1, '2016-11-26'],
    completedOn: '2026-11-26',
    next: [3653, '2026-11-26T08:00Z'],
  },
  {
    name: 'late, from the first day of spreadsheets',
    rule: 'FREQ=DAILY',
    anchor: '1900-01-01',
    current: [1, '1900-01-01'],
    completedOn: '2026-11-26',
    next: [46_351, '2026-11-26'],
  },
  {
    name: 'two thousand years late, past COUNT',
    rule: 'FREQ=DAILY;COUNT=739945',
    anchor: '0001-01-01',
    current: [1, '0001-01-01'],
    completedOn: '2026-11-26',
    next: 'count',
  },
  {
    name: 'two thousand years late, the last of COUNT',
    rule: 'FREQ=DAILY;COUNT=739946',
    anchor: '0001-01-01',
    current: [1, '0001-01-01'],
    completedOn: '2026-11-26',
    next: [739_946, '2026-11-26'],
  },
  {
    name: 'centuries late, past a day that the zone left out and the rule does not have',
    rule: 'FREQ=WEEKLY',
    time_zone: 'Pacific/Apia',
    anchor: '1800-01-06',
    current: [1, '1800-01-06'],
    completedOn: '2026-11-26',
    next: [11_840, '2026-11-30'],
  },
  {
    name: 'late, past a day that the zone left out',
    rule: 'FREQ=DAILY',
    time_zone: 'Pacific/Apia',
    anchor: '2011-12-28',
    current: [1, '2011-12-28'],
    completedOn: '2012-01-02',
    next: [5, '2012-01-02'],
  },
  {
    name: 'early',
    rule: 'FREQ=WEEKLY',
    anchor: '2026-11-02',
    current: [2, '2026-11-09'],
    completedOn: '2026-11-03',
    next: [3, '2026-11-16'],
  },
  {
    // obsidian-tasks#1924 counted from the day of completion.
    name: 'early, and the next one early too',
    rule: 'FREQ=WEEKLY',
    anchor: '2026-11-02',
    current: [3, '2026-11-16'],
    completedOn: '2026-11-03',
    next: [4, '2026-11-23'],
  },
  {
    name: 'number 100,000',
    rule: 'FREQ=DAILY;COUNT=1000000000',
    anchor: '1753-02-11',
    current: [99_999, '2026-11-25'],
    completedOn: '2026-11-25',
    next: [100_000, '2026-11-26'],
  },
  {
    name: 'from the completion, late',
    rule: 'FREQ=DAILY;INTERVAL=3',
    from: 'completion',
    anchor: '2026-11-01T08:00Z',
    time_zone: 'Europe/Berlin',
    current: [1, '2026-11-01'],
    completedOn: '2026-11-10',
    next: [2, '2026-11-13T08:00Z'],
  },
  {
    name: 'from the completion, early',
    rule: 'FREQ=MONTHLY',
    from: 'completion',
    anchor: '2026-11-20',
    current: [1, '2026-11-20'],
    completedOn: '2026-10-31',
    next: [2, '2026-12-31'],
  },
  {
    name: 'from the completion, early, on the last day of the month',
    rule: 'FREQ=MONTHLY',
    from: 'completion',
    month_end: 'last_day',
    anchor: '2026-11-20',
    current: [1, '2026-11-20'],
    completedOn: '2026-10-31',
    next: [2, '2026-11-30'],
  },
]

t.test('a completion is followed by the next occurrence', async (t) => {
  for (const { name, anchor, current, completedOn, length, next, ...settings } of completions) {
    const [number, on] = current
    const found = nextOccurrence(seriesOf(anchor, settings), { number, on }, completedOn, length)
    t.strictSame(typeof found === 'string' ? found : [found.number, dateOf(found)], next, name)
  }
})

t.test('days are counted as they are listed', async (t) => {
  for (const { rule: text, anchor, month_end } of generateCases(200, 2)) {
    const rule = parseRule(text, 'schedule')
    if ('message' in rule) throw new Error(rule.message)
    const start = dayNumber(anchor)
    const end = start + 40 * 365
    const listed = daysAfter(rule, month_end, start, start)
      .filter((day) => day < end)
      .toArray()
    t.equal(
      countDays(rule, month_end, start, start, end),
      listed.length,
      `${text} from ${anchor}, ${month_end}`,
    )
    const middle = listed[Math.floor(listed.length / 2)] ?? start
    t.equal(
      countDays(rule, month_end, start, middle, end),
      listed.filter((day) => day > middle).length,
      `${text} from ${anchor}, ${month_end}, after ${dayText(middle)}`,
    )
  }
})

const shifts: readonly (readonly [date: string, days: number, time_zone: string, shifted: string | null])[] =
  [
    ['2026-02-27', 2, 'Europe/Berlin', '2026-03-01'],
    ['2026-03-01', -1, 'Europe/Berlin', '2026-02-28'],
    ['2026-03-28T08:00:00.000Z', 1, 'Europe/Berlin', '2026-03-29T07:00:00.000Z'],
    ['2026-03-29T07:00:00.000Z', -1, 'Europe/Berlin', '2026-03-28T08:00:00.000Z'],
    ['2026-03-28T01:30:00.000Z', 1, 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-10-24T00:30:00.000Z', 1, 'Europe/Berlin', '2026-10-25T00:30:00.000Z'],
    ['2026-11-27T03:00:00.123Z', 1, 'America/New_York', '2026-11-28T03:00:00.123Z'],
    ['9999-12-31', 1, 'UTC', null],
    ['0001-01-01', -1, 'UTC', null],
    ['9999-12-31T12:00:00.000Z', 1, 'UTC', null],
    ['9999-12-30T23:00:00.000Z', 1, 'America/New_York', '9999-12-31T23:00:00.000Z'],
  ]

t.test('dates are shifted by days of the calendar', async (t) => {
  for (const [date, days, time_zone, shifted] of shifts)
    t.equal(shift(date, days, time_zone), shifted, `${date} by ${days} in ${time_zone}`)
})
