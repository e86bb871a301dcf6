import t from 'tap'
import { readReminder, remindAt, type ReminderTime } from '../../../src/domain/tasks/reminders.ts'

const none = { start_at: null, start_on: null, due_at: null, due_on: null }

const relative = (relative_to: 'due' | 'start', offset_minutes = 0, time_of_day = '09:00'): ReminderTime => ({
  at: null,
  relative_to,
  offset_minutes,
  time_of_day,
})

t.test('when a reminder is due', async (t) => {
  const berlin = 'Europe/Berlin'
  const cases: readonly (readonly [
    what: string,
    reminder: ReminderTime,
    dates: Partial<typeof none> | { readonly [name: string]: string },
    expected: string | null,
    timeZone?: string,
  ])[] = [
    [
      'at a time',
      { ...relative('due'), relative_to: null, at: '2026-11-05T08:00:00.000Z' },
      {},
      '2026-11-05T08:00:00.000Z',
    ],
    ['when it is due', relative('due'), { due_at: '2026-11-05T08:30:00.000Z' }, '2026-11-05T08:30:00.000Z'],
    [
      'when it starts',
      relative('start'),
      { start_at: '2026-11-04T08:30:00.000Z', due_on: '2026-11-09' },
      '2026-11-04T08:30:00.000Z',
    ],
    [
      'an hour before',
      relative('due', -60),
      { due_at: '2026-11-05T08:30:00.000Z' },
      '2026-11-05T07:30:00.000Z',
    ],
    ['after it', relative('due', 90), { due_at: '2026-11-05T08:30:00.000Z' }, '2026-11-05T10:00:00.000Z'],
    [
      'an all-day date, in the morning',
      relative('due'),
      { due_on: '2026-11-05' },
      '2026-11-05T08:00:00.000Z',
    ],
    [
      'an all-day date, at another time',
      relative('due', 0, '18:30'),
      { due_on: '2026-11-05' },
      '2026-11-05T17:30:00.000Z',
    ],
    [
      'the time of day of a date with a time is its own',
      relative('due', 0, '18:30'),
      { due_at: '2026-11-05T08:30:00.000Z' },
      '2026-11-05T08:30:00.000Z',
    ],
    [
      'the day before an all-day date',
      relative('due', -1440),
      { due_on: '2026-11-05' },
      '2026-11-04T08:00:00.000Z',
    ],
    [
      'an hour before the morning of an all-day date',
      relative('due', -60),
      { due_on: '2026-11-05' },
      '2026-11-05T07:00:00.000Z',
    ],
    // Clocks go back on 2026-10-25 and forward on 2026-03-29.
    [
      'a day is a day of the calendar: of 25 hours',
      relative('due', -1440),
      { due_at: '2026-10-25T08:00:00.000Z' },
      '2026-10-24T07:00:00.000Z',
    ],
    ['and of 23', relative('due', -1440), { due_at: '2026-03-29T07:00:00.000Z' }, '2026-03-28T08:00:00.000Z'],
    [
      '1,439 minutes are not',
      relative('due', -1439),
      { due_at: '2026-10-25T08:00:00.000Z' },
      '2026-10-24T08:01:00.000Z',
    ],
    [
      'a time that the clock skips',
      relative('due', 0, '02:30'),
      { due_on: '2026-03-29' },
      '2026-03-29T01:30:00.000Z',
    ],
    [
      'a time that the clock repeats',
      relative('due', 0, '02:30'),
      { due_on: '2026-10-25' },
      '2026-10-25T00:30:00.000Z',
    ],
    [
      'a day that the zone left out',
      relative('due', 0),
      { due_on: '2011-12-30' },
      '2011-12-30T19:00:00.000Z',
      'Pacific/Apia',
    ],
    [
      'another zone',
      relative('due', -2880, '23:59'),
      { due_on: '2026-11-05' },
      '2026-11-04T07:59:00.000Z',
      'America/Los_Angeles',
    ],
    ['no such date', relative('due'), { start_on: '2026-11-05' }, null],
    ['before the year 1', relative('due', -1440), { due_on: '0001-01-01' }, null],
    ['after the year 9999', relative('due', 1440), { due_at: '9999-12-31T12:00:00.000Z' }, null],
    ['minutes after the year 9999', relative('due', 60), { due_at: '9999-12-31T23:30:00.000Z' }, null],
  ]
  for (const [what, reminder, dates, expected, timeZone = berlin] of cases)
    t.equal(remindAt(reminder, { ...none, ...dates }, timeZone), expected, what)
})

t.test('what a request makes of a reminder', async (t) => {
  const at = '2026-11-05T08:00:00.000Z'
  const atTime = { at, relative_to: null, offset_minutes: null, time_of_day: null }
  t.strictSame(readReminder({ at }), atTime)
  t.strictSame(readReminder({ relative_to: 'due' }), relative('due'))
  t.strictSame(readReminder({ at }, relative('start', -60)), atTime, 'a time replaces the date')
  t.strictSame(readReminder({ relative_to: 'due' }, atTime), relative('due'), 'a date replaces the time')
  t.strictSame(readReminder({ offset_minutes: -5 }, relative('start')), relative('start', -5))
  t.strictSame(
    readReminder({ offset_minutes: null, time_of_day: null }, relative('start', -5, '10:00')),
    relative('start'),
    'null is the default',
  )
  t.strictSame(readReminder({}, relative('start', -5)), relative('start', -5))
  t.strictSame(
    readReminder(relative('due', 5, '10:00'), atTime),
    relative('due', 5, '10:00'),
    'read and sent back',
  )

  t.match(readReminder({}), { field: 'at' })
  t.match(readReminder({ offset_minutes: 5 }), { field: 'at' }, 'without a date')
  t.match(readReminder({ at: null }, atTime), { field: 'at' })
  t.match(readReminder({ relative_to: null }, relative('due')), { field: 'at' })
  t.match(readReminder({ at, relative_to: 'due' }), { field: 'relative_to' })
  t.match(readReminder({ at, offset_minutes: 5 }), { field: 'offset_minutes' })
  t.match(readReminder({ time_of_day: '10:00' }, atTime), { field: 'time_of_day' })
})
