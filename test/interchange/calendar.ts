import ICAL from 'ical.js'
import t from 'tap'
import { firstOccurrence, occurrencesAfter, type Series } from '../../src/domain/tasks/recurrence.ts'
import { dayNumber, daysAfter, dayText } from '../../src/domain/tasks/recurrence-days.ts'
import { formatRule } from '../../src/domain/tasks/recurrence-rule.ts'
import { offsetAt } from '../../src/domain/shared/time-zones.ts'
import { type CalendarFacts, calendarText } from '../../src/interchange/calendar.ts'
import { ruleFrom } from '../../src/interchange/calendar-rules.ts'
import { zoneComponent } from '../../src/interchange/calendar-zones.ts'
import type { TaskRecord } from '../../src/interchange/records.ts'
import { recurringRecord, taskRecord } from '../fixture/interchange.ts'

const facts: CalendarFacts = {
  generator: 'Test 1.0',
  name: 'Tasks',
  color: null,
  kind: 'todo',
  alarms: true,
  timeZone: 'Europe/Berlin',
  refreshMinutes: null,
}

const textOf = async (tasks: readonly TaskRecord[], changes: Partial<CalendarFacts> = {}) => {
  const items = tasks.map((task) => ({ ...task, updated_at: '2026-02-01T10:00:00.000Z', tags: task.tag_ids }))
  const pieces = await Array.fromAsync(calendarText({ ...facts, ...changes }, items))
  return pieces.join('')
}

/** The unfolded lines after UID, without those that are the same in all tests. */
const linesOf = async (tasks: readonly TaskRecord[], changes?: Partial<CalendarFacts>) =>
  (await textOf(tasks, changes))
    .replaceAll('\r\n ', '')
    .split('\r\n')
    .filter((line) => !/^(DTSTAMP|LAST-MODIFIED|CALSCALE|PRODID|VERSION|$)/.test(line))

interface Case {
  readonly name: string
  readonly tasks: readonly TaskRecord[]
  readonly changes?: Partial<CalendarFacts>
  /** Lines that are there, in this order. */
  readonly lines: readonly string[]
  /** What no line starts with. */
  readonly without?: readonly string[]
}

const morning = '2026-03-27T08:00:00.000Z'

const cases: readonly Case[] = [
  {
    name: 'the fields of a task',
    tasks: [
      taskRecord({
        id: 'a',
        title: 'Buy; milk, and\\or bread\u0007',
        description: 'Two\r\nlines',
        status: 'done',
        priority: 'urgent',
        completed_at: '2026-03-01T10:00:00.000Z',
        created_at: '2026-01-01T10:00:00.000Z',
        due_at: morning,
        tag_ids: ['home', 'a,b'],
        version: 7,
      }),
    ],
    lines: [
      'UID:a',
      'CREATED:20260101T100000Z',
      'SEQUENCE:7',
      String.raw`SUMMARY:Buy\; milk\, and\\or bread`,
      String.raw`DESCRIPTION:Two\nlines`,
      'PRIORITY:1',
      String.raw`CATEGORIES:home,a\,b`,
      'STATUS:COMPLETED',
      'PERCENT-COMPLETE:100',
      'COMPLETED:20260301T100000Z',
      'DUE:20260327T080000Z',
    ],
    without: ['DTSTART', 'RRULE', 'BEGIN:VTIMEZONE'],
  },
  {
    name: 'a subtask names its parent',
    tasks: [taskRecord({ id: 'a' }), taskRecord({ id: 'b', parent_id: 'a' })],
    lines: ['UID:a', 'UID:b', 'RELATED-TO;RELTYPE=PARENT:a'],
  },
  {
    name: 'all-day dates of a task',
    tasks: [taskRecord({ id: 'a', start_on: '2026-03-01', due_on: '2026-03-03' })],
    lines: ['DTSTART;VALUE=DATE:20260301', 'DUE;VALUE=DATE:20260303'],
  },
  {
    name: 'the start becomes what the due date is',
    tasks: [
      taskRecord({ id: 'a', start_on: '2026-03-27', due_at: morning }),
      taskRecord({ id: 'b', start_at: morning, due_on: '2026-03-27' }),
    ],
    lines: [
      'UID:a',
      'DTSTART:20260326T230000Z',
      'DUE:20260327T080000Z',
      'UID:b',
      'DUE;VALUE=DATE:20260327',
      'END:VTODO',
    ],
  },
  {
    name: 'an all-day event ends the day after',
    changes: { kind: 'event' },
    tasks: [taskRecord({ id: 'a', start_on: '2026-02-27', due_on: '2026-02-28' })],
    lines: ['DTSTART;VALUE=DATE:20260227', 'DTEND;VALUE=DATE:20260301'],
    without: ['DUE'],
  },
  {
    name: 'a task without a start is an event when it is due',
    changes: { kind: 'event' },
    tasks: [
      taskRecord({ id: 'a', due_on: '2026-02-28', status: 'done' }),
      taskRecord({ id: 'b', due_at: morning, status: 'cancelled' }),
      taskRecord({ id: 'c' }),
    ],
    lines: [
      'SUMMARY:✓ Task a',
      'STATUS:CONFIRMED',
      'TRANSP:TRANSPARENT',
      'DTSTART;VALUE=DATE:20260228',
      'DTEND;VALUE=DATE:20260301',
      'STATUS:CANCELLED',
      'DTSTART:20260327T080000Z',
      'END:VEVENT',
      'END:VCALENDAR',
    ],
    without: ['UID:c'],
  },
  {
    name: 'a time that recurs keeps its zone',
    tasks: [
      recurringRecord({ id: 'a', due_at: morning }, { rule: 'FREQ=WEEKLY', time_zone: 'Europe/Berlin' }),
    ],
    lines: [
      'BEGIN:VTIMEZONE',
      'TZID:Europe/Berlin',
      'END:VTIMEZONE',
      'UID:series-a',
      'DTSTART;TZID=Europe/Berlin:20260327T090000',
      'DUE;TZID=Europe/Berlin:20260327T090000',
      'RRULE:FREQ=WEEKLY;BYDAY=FR',
    ],
  },
  {
    name: 'the rule goes on from the occurrence, with what is left of COUNT, and the days of the anchor',
    tasks: [
      recurringRecord(
        {
          id: 'a',
          due_on: '2026-02-28',
          recurrence_anchor: { of: 'due', date: '2025-12-31' },
          occurrence_number: 3,
          occurrence_on: '2026-02-28',
        },
        { rule: 'FREQ=MONTHLY;COUNT=5' },
      ),
    ],
    lines: [
      'DTSTART;VALUE=DATE:20260228',
      'RRULE:FREQ=MONTHLY;COUNT=3;BYMONTHDAY=28,29,30,31;BYSETPOS=-1',
      'END:VTODO',
    ],
  },
  {
    name: 'UNTIL is of the kind of the dates',
    tasks: [
      recurringRecord(
        { id: 'a', due_at: morning },
        { rule: 'FREQ=DAILY;UNTIL=20260401', time_zone: 'Europe/Berlin' },
      ),
      recurringRecord({ id: 'b', due_on: '2026-03-27' }, { rule: 'FREQ=DAILY;UNTIL=20260401T235959Z' }),
    ],
    lines: ['RRULE:FREQ=DAILY;UNTIL=20260401T215959Z', 'UID:series-b', 'RRULE:FREQ=DAILY;UNTIL=20260401'],
  },
  {
    name: 'a moved occurrence is an override',
    tasks: [
      recurringRecord(
        { id: 'a', due_on: '2026-03-06', occurrence_on: '2026-03-02' },
        { rule: 'FREQ=WEEKLY;BYDAY=MO,FR' },
      ),
    ],
    lines: [
      'UID:series-a',
      'DTSTART;VALUE=DATE:20260302',
      'DUE;VALUE=DATE:20260302',
      'RRULE:FREQ=WEEKLY;BYDAY=MO,FR',
      'UID:series-a',
      'RECURRENCE-ID;VALUE=DATE:20260302',
      'DTSTART;VALUE=DATE:20260306',
    ],
  },
  {
    name: 'an event that recurs from its start to its end',
    changes: { kind: 'event' },
    tasks: [
      recurringRecord(
        { id: 'a', start_at: morning, due_at: '2026-03-27T09:30:00.000Z' },
        { rule: 'FREQ=WEEKLY', time_zone: 'Europe/Berlin' },
      ),
    ],
    lines: [
      'DTSTART;TZID=Europe/Berlin:20260327T090000',
      'DTEND;TZID=Europe/Berlin:20260327T103000',
      'RRULE:FREQ=WEEKLY;BYDAY=FR',
    ],
  },
  {
    name: 'a span of several days that recurs by its start',
    tasks: [
      recurringRecord({ id: 'a', start_on: '2026-05-01', due_on: '2026-05-31' }, { rule: 'FREQ=MONTHLY' }),
      recurringRecord(
        { id: 'b', start_on: '2026-03-27', due_at: '2026-03-28T08:00:00.000Z' },
        { rule: 'FREQ=WEEKLY', time_zone: 'Asia/Tokyo' },
      ),
    ],
    lines: [
      'DTSTART;VALUE=DATE:20260501',
      'DUE;VALUE=DATE:20260531',
      'RRULE:FREQ=MONTHLY;BYMONTHDAY=1',
      'DTSTART;TZID=Asia/Tokyo:20260327T000000',
      'DUE;TZID=Asia/Tokyo:20260328T170000',
      'RRULE:FREQ=WEEKLY;BYDAY=FR',
      'END:VTODO',
    ],
    without: ['RECURRENCE-ID'],
  },
  {
    name: 'a span of several days that recurs by its due date has the rule of its start',
    changes: { kind: 'event' },
    tasks: [
      recurringRecord(
        { id: 'a', start_on: '2026-03-23', due_on: '2026-03-27' },
        { rule: 'FREQ=WEEKLY;INTERVAL=2;BYDAY=WE,FR;WKST=SU', anchor: 'due' },
      ),
      recurringRecord(
        { id: 'b', start_on: '2026-01-28', due_on: '2026-02-01' },
        { rule: 'FREQ=MONTHLY;UNTIL=20260601', anchor: 'due' },
      ),
      recurringRecord(
        { id: 'c', start_at: '2026-03-26T21:00:00.000Z', due_at: '2026-03-27T05:00:00.000Z' },
        { rule: 'FREQ=DAILY;UNTIL=20260330T040000Z', time_zone: 'Europe/Berlin', anchor: 'due' },
      ),
    ],
    lines: [
      'DTSTART;VALUE=DATE:20260323',
      'DTEND;VALUE=DATE:20260328',
      'RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SA;WKST=WE',
      'DTSTART;VALUE=DATE:20260128',
      'DTEND;VALUE=DATE:20260202',
      'RRULE:FREQ=MONTHLY;BYMONTHDAY=-4;UNTIL=20260528',
      'DTSTART;TZID=Europe/Berlin:20260326T220000',
      'DTEND;TZID=Europe/Berlin:20260327T060000',
      'RRULE:FREQ=DAILY;UNTIL=20260329T215959Z',
    ],
  },
  {
    name: 'a span is not shortened for a rule that its start does not have',
    tasks: [
      recurringRecord(
        { id: 'a', start_on: '2026-03-23', due_on: '2026-03-27' },
        { rule: 'FREQ=MONTHLY;BYDAY=-1FR', anchor: 'due' },
      ),
    ],
    lines: ['DTSTART;VALUE=DATE:20260323', 'DUE;VALUE=DATE:20260327'],
    without: ['RRULE'],
  },
  {
    name: 'a moved occurrence leaves the span of the series as it is',
    tasks: [
      recurringRecord(
        {
          id: 'a',
          start_on: '2026-03-04',
          due_on: '2026-03-08',
          occurrence_on: '2026-03-02',
          recurrence_anchor: { of: 'start', date: '2026-03-02', days: 2 },
        },
        { rule: 'FREQ=WEEKLY' },
      ),
    ],
    lines: [
      'DTSTART;VALUE=DATE:20260302',
      'DUE;VALUE=DATE:20260304',
      'RRULE:FREQ=WEEKLY;BYDAY=MO',
      'RECURRENCE-ID;VALUE=DATE:20260302',
      'DTSTART;VALUE=DATE:20260304',
      'DUE;VALUE=DATE:20260308',
    ],
  },
  {
    name: 'there is no rule that does not yield the date, nor one from the completion, nor one of a closed task',
    tasks: [
      recurringRecord({ id: 'a', due_on: '2026-03-03' }, { rule: 'FREQ=WEEKLY;BYDAY=MO' }),
      recurringRecord({ id: 'b', due_on: '2026-03-03' }, { rule: 'FREQ=DAILY', from: 'completion' }),
      recurringRecord({ id: 'c', due_on: '2026-03-03', next_task_id: 'd' }, { rule: 'FREQ=DAILY' }),
    ],
    lines: ['UID:series-a', 'DUE', 'UID:series-b', 'DUE', 'UID:c', 'DUE'],
    without: ['RRULE', 'DTSTART'],
  },
  {
    name: 'reminders are alarms',
    tasks: [
      taskRecord({
        id: 'a',
        start_on: '2026-03-01',
        due_on: '2026-03-03',
        reminders: [
          { at: morning },
          { relative_to: 'due', offset_minutes: -1440, time_of_day: '09:00' },
          { relative_to: 'start', offset_minutes: 0, time_of_day: null },
          { relative_to: 'due', offset_minutes: 0, time_of_day: null, snoozed_until: morning },
        ],
      }),
    ],
    lines: [
      'BEGIN:VALARM',
      'ACTION:DISPLAY',
      'DESCRIPTION:Task a',
      'TRIGGER;VALUE=DATE-TIME:20260327T080000Z',
      'TRIGGER;RELATED=END:-PT15H',
      'TRIGGER;RELATED=START:PT0M',
      'TRIGGER;VALUE=DATE-TIME:20260327T080000Z',
    ],
  },
  {
    name: 'reminders of events count from the end that the event has',
    changes: { kind: 'event' },
    tasks: [
      taskRecord({
        id: 'a',
        start_on: '2026-03-01',
        due_on: '2026-03-03',
        reminders: [{ relative_to: 'due', offset_minutes: 0, time_of_day: '09:00' }],
      }),
      taskRecord({
        id: 'b',
        due_at: morning,
        reminders: [{ relative_to: 'due', offset_minutes: -90, time_of_day: null }],
      }),
    ],
    lines: ['TRIGGER;RELATED=END:-PT15H', 'TRIGGER;RELATED=START:-PT1H30M'],
  },
  {
    name: 'no alarms unless wanted, nor of closed tasks',
    changes: { alarms: false },
    tasks: [taskRecord({ id: 'a', reminders: [{ at: morning }] })],
    lines: ['UID:a'],
    without: ['BEGIN:VALARM'],
  },
  {
    name: 'the calendar',
    changes: { name: 'Work, home', color: '#1560f0', refreshMinutes: 60 },
    tasks: [],
    lines: [
      String.raw`NAME:Work\, home`,
      String.raw`X-WR-CALNAME:Work\, home`,
      'COLOR:royalblue',
      'X-APPLE-CALENDAR-COLOR:#1560f0',
      'REFRESH-INTERVAL;VALUE=DURATION:PT60M',
      'X-PUBLISHED-TTL:PT60M',
    ],
  },
]

t.test('calendarText', async (t) => {
  for (const { name, tasks, changes, lines, without = [] } of cases) {
    const written = await linesOf(tasks, changes)
    let from = 0
    for (const line of lines) {
      const index = written.findIndex((text, index) => index >= from && text.startsWith(line))
      t.ok(index >= 0, `${name}: ${line}`, { written })
      from = index + 1
    }
    for (const line of without)
      t.notOk(
        written.some((text) => text.startsWith(line)),
        `${name}: no ${line}`,
      )
    // Each component by itself, as our own reader takes them.
    t.doesNotThrow(() => void ICAL.parse(written.join('\r\n')), name)
  }
})

t.test('lines have at most 75 bytes, and no character in two', async (t) => {
  const text = await textOf([taskRecord({ id: 'a', title: 'ä€😀'.repeat(100), tag_ids: ['x'.repeat(200)] })])
  for (const line of text.split('\r\n')) {
    t.ok(Buffer.byteLength(line) <= 75, line)
    t.ok(line.isWellFormed())
  }
})

t.test('the rule of iCalendar has the days of the series', (t) => {
  const rules = [
    'FREQ=MONTHLY',
    'FREQ=MONTHLY;INTERVAL=5',
    'FREQ=MONTHLY;BYMONTHDAY=15,28,31',
    'FREQ=MONTHLY;BYMONTHDAY=29',
    'FREQ=MONTHLY;BYMONTH=2,4;BYMONTHDAY=30',
    'FREQ=MONTHLY;BYDAY=-1FR',
    'FREQ=YEARLY',
    'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29',
    'FREQ=YEARLY;BYMONTH=2,6;BYMONTHDAY=1,31',
    'FREQ=YEARLY;BYMONTH=1,3;BYMONTHDAY=31;INTERVAL=2',
    'FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH',
    'FREQ=DAILY;INTERVAL=3',
    'FREQ=MONTHLY;BYMONTHDAY=1,7',
    'FREQ=MONTHLY;BYMONTHDAY=-1',
    'FREQ=MONTHLY;BYMONTH=1,3;BYMONTHDAY=1',
    'FREQ=YEARLY;BYMONTH=1,3;BYMONTHDAY=15',
    'FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1,2;INTERVAL=3',
    'FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,TH,SU;BYSETPOS=-1;WKST=TH',
    'FREQ=DAILY;INTERVAL=3;BYDAY=MO,SU',
    'FREQ=DAILY;BYMONTH=1,2',
  ]
  const shifted = new Set<string>()
  for (const rule of rules) {
    for (const anchor of ['2024-01-31', '2024-02-29', '2025-05-15', '2026-12-31']) {
      const series: Series = {
        rule,
        anchor,
        month_end: 'last_day',
        time_zone: 'UTC',
        from: 'schedule',
        missed: 'each',
      }
      const { items } = occurrencesAfter(series, firstOccurrence(series), 30)
      const [start] = items.slice(7)
      if (start === undefined) continue
      for (const daysBefore of [0, 1, 5, 12, 27]) {
        const found = ruleFrom(series, { number: start.number, date: start.on }, daysBefore)
        if (found === null) {
          t.ok(daysBefore > 0, `${rule} from ${anchor} has a rule`)
          continue
        }
        if (daysBefore > 0) shifted.add(rule)
        const day = dayNumber(start.on) - daysBefore
        const days = [...daysAfter(found, 'skip', day, day)].slice(0, 22)
        const expected = items.slice(8).map(({ on }) => dayText(dayNumber(on) - daysBefore))
        t.strictSame(
          days.map(dayText),
          expected,
          `${rule} from ${anchor}, ${daysBefore} days before: ${formatRule(found)}`,
        )
      }
    }
  }
  t.strictSame(
    shifted,
    new Set([
      'FREQ=MONTHLY',
      'FREQ=MONTHLY;INTERVAL=5',
      'FREQ=MONTHLY;BYMONTHDAY=1,7',
      'FREQ=MONTHLY;BYMONTHDAY=-1',
      'FREQ=MONTHLY;BYMONTH=1,3;BYMONTHDAY=1',
      'FREQ=YEARLY',
      'FREQ=YEARLY;BYMONTH=1,3;BYMONTHDAY=15',
      'FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1,2;INTERVAL=3',
      'FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH',
      'FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,TH,SU;BYSETPOS=-1;WKST=TH',
      'FREQ=DAILY;INTERVAL=3',
      'FREQ=DAILY;INTERVAL=3;BYDAY=MO,SU',
    ]),
    'the rules that some start has too',
  )
  const mixed: Series = {
    rule: 'FREQ=MONTHLY;BYMONTHDAY=30,31',
    anchor: '2026-01-30',
    month_end: 'last_day',
    time_zone: 'UTC',
    from: 'schedule',
    missed: 'each',
  }
  t.equal(ruleFrom(mixed, { number: 1, date: '2026-01-30' }), null)
  t.end()
})

t.test('zoneComponent has the offsets of the zone', (t) => {
  const zones = [
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Asia/Kolkata',
    'Africa/Casablanca',
  ]
  for (const name of [...zones, 'America/Sao_Paulo', 'Pacific/Apia', 'Asia/Jerusalem', 'Europe/Dublin']) {
    const zone = ICAL.Timezone.fromData({ component: new ICAL.Component(zoneComponent(name)), tzid: name })
    for (let time = Date.UTC(2001, 0, 1, 12); time < Date.UTC(2049, 0, 1); time += 37.3 * 86_400_000) {
      const at = new Date(time)
      const offset = offsetAt(at.toISOString(), name)
      const local = new Date(time + offset * 60_000).toISOString().slice(0, 19)
      const seconds = zone.utcOffset(ICAL.Time.fromDateTimeString(local))
      if (seconds !== offset * 60) {
        t.equal(seconds, offset * 60, `${name} at ${at.toISOString()}`)
        break
      }
    }
  }
  t.match(ICAL.stringify.component(zoneComponent('Europe/Berlin'), ICAL.design.icalendar), /BYDAY=-1SU/)
  t.end()
})
