import t from 'tap'
import { parseDate, parsePlanned } from '../../src/interchange/loose-dates.ts'
import { firstDate, parseRepeated } from '../../src/interchange/formats/todoist-dates.ts'

const now = '2026-11-26T10:00:00.000Z'

t.test('parseDate', (t) => {
  const cases: Readonly<Record<string, string | null>> = {
    '2026-03-01': '2026-03-01',
    '2026-3-1': '2026-03-01',
    '2026-03-01T10:00:00Z': '2026-03-01T10:00:00.000Z',
    '2026-03-01 10:00:00+0100': '2026-03-01T09:00:00.000Z',
    '2026-03-01T10:00': '2026-03-01T09:00:00.000Z',
    '2026-07-01 10:00': '2026-07-01T08:00:00.000Z',
    '01/02/2026': '2026-02-01',
    '1.2.26': '2026-02-01',
    '2026/02/01': '2026-02-01',
    '01.02.2026, 14:30': '2026-02-01T13:30:00.000Z',
    '1/2/2026 2:30 PM': '2026-02-01T13:30:00.000Z',
    'Mar 3, 2026': '2026-03-03',
    'March 3rd 2026 at 9am': '2026-03-03T08:00:00.000Z',
    'Tuesday, 3 March 2026': '2026-03-03',
    '3. März 2026': '2026-03-03',
    '3 de mayo de 2026': '2026-05-03',
    '3 août 2026': '2026-08-03',
    '05/Mar/26 2:30 PM': '2026-03-05T13:30:00.000Z',
    // The next one.
    'Dec 24': '2026-12-24',
    '1 Feb': '2027-02-01',
    // The hour that is skipped in spring.
    '2026-03-29 02:30': '2026-03-29T01:30:00.000Z',
    '2026年3月1日': '2026-03-01',
    'Wed May 13 2026 11:21:41 GMT+0200 (CEST)': '2026-05-13T09:21:41.000Z',
    'July 14, 2026 10:00 AM (GMT-3:30)': '2026-07-14T13:30:00.000Z',
    'Wed, 13 May 2026 11:21:41 UTC': '2026-05-13T11:21:41.000Z',
    '1709251200000': '2024-03-01T00:00:00.000Z',
    '2026-03-01 10:00 +99:99': null,
    '2026-02-30': null,
    '31/02/2026': null,
    '2026-03-01 25:00': null,
    '3 Smarch 2026': null,
    tomorrow: null,
    '': null,
    [`${'1'.repeat(40)} ${'a'.repeat(40)}`]: null,
  }
  for (const [text, expected] of Object.entries(cases))
    t.equal(parseDate(text, { order: 'dmy', timeZone: 'Europe/Berlin', now }), expected, text)
  t.end()
})

t.test('midnight is a day', (t) => {
  const cases: Readonly<Record<string, string | null>> = {
    '10/Jan/24 12:00 AM': '2024-01-10',
    '2026-03-01T00:00:00.000Z': '2026-03-01',
    '2026-03-01 00:00': '2026-03-01',
    'Fri Jun 26 2026 00:00:00 GMT+0100 (BST)': '2026-06-26',
    '2026-03-01 00:00:01': '2026-02-28T23:00:01.000Z',
    '2026-03-01 12:00 PM': '2026-03-01T11:00:00.000Z',
    ' 00:00': null,
    [' '.repeat(200_000)]: null,
  }
  for (const [text, expected] of Object.entries(cases))
    t.equal(parsePlanned(text, { order: 'dmy', timeZone: 'Europe/Berlin', now }), expected, text.slice(0, 50))
  t.end()
})

t.test('parseRepeated', (t) => {
  const cases: Readonly<Record<string, readonly [rule: string, first: string] | null>> = {
    'every day': ['FREQ=DAILY', '2026-11-26'],
    'Every other week': ['FREQ=WEEKLY;INTERVAL=2', '2026-11-26'],
    'every 3 months': ['FREQ=MONTHLY;INTERVAL=3', '2026-11-26'],
    'every workday at 18:00': ['FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR', '2026-11-26T17:00:00.000Z'],
    'every mon, wed and friday': ['FREQ=WEEKLY;BYDAY=MO,WE,FR', '2026-11-27'],
    'every other friday 9am': ['FREQ=WEEKLY;INTERVAL=2;BYDAY=FR', '2026-11-27T08:00:00.000Z'],
    'every 3rd tuesday': ['FREQ=MONTHLY;BYDAY=3TU', '2026-12-15'],
    'every last day': ['FREQ=MONTHLY;BYMONTHDAY=-1', '2026-11-30'],
    'every 1st, 15th': ['FREQ=MONTHLY;BYMONTHDAY=1,15', '2026-12-01'],
    'every Mar 3': ['FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=3', '2027-03-03'],
    'every morning': ['FREQ=DAILY', '2026-11-26T08:00:00.000Z'],
    'every sunday night': ['FREQ=WEEKLY;BYDAY=SU', '2026-11-29T21:00:00.000Z'],
    'every day at 9 starting jan 5': ['FREQ=DAILY', '2026-11-26T08:00:00.000Z'],
    'every 2 weeks on mon & fri': ['FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR', '2026-11-27'],
    'every month on the 3rd': ['FREQ=MONTHLY;BYMONTHDAY=3', '2026-12-03'],
    'every 1st of the month': ['FREQ=MONTHLY;BYMONTHDAY=1', '2026-12-01'],
    'every year on Mar 3': ['FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=3', '2027-03-03'],
    Weekly: ['FREQ=WEEKLY', '2026-11-26'],
    'every week on the 3rd': null,
    'every week on week on monday': null,
    'every day until jan 5': null,
    'every full moon': null,
    'jeden Tag': null,
    'every 0 days': null,
    '': null,
  }
  for (const [text, expected] of Object.entries(cases)) {
    const found = parseRepeated(text, 'Europe/Berlin')
    t.strictSame(found && [found.rule, firstDate(found, now)], expected, text)
  }
  for (const text of ['every! 2 weeks', 'after 2 weeks'])
    t.equal(parseRepeated(text, 'UTC')?.from, 'completion', text)
  t.end()
})
