import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { checkDrafts } from '../../src/interchange/check.ts'
import { inspect, readFormat } from '../../src/interchange/formats/formats.ts'
import { temporaryFolder } from '../fixture/process.ts'

/** Calendars in the shape of programs that write them. */

interface Case {
  readonly name: string
  /** The lines of the to-dos, each with a summary added. */
  readonly todos: readonly (readonly string[])[]
  /** The lines before them. */
  readonly head?: readonly string[]
  readonly records: readonly object[]
  readonly report?: readonly string[]
}

const daily = ['UID:a', 'RRULE:FREQ=DAILY;COUNT=4', 'DTSTART;TZID=America/Chicago:20261220T170000']
const doneOn = (day: string) => [
  'UID:a',
  `RECURRENCE-ID;TZID=America/Chicago:${day}T170000`,
  `DUE;TZID=America/Chicago:${day}T170000`,
  'STATUS:COMPLETED',
]

const weekly = 'RRULE:FREQ=WEEKLY'
const alarm = (...lines: readonly string[]) => ['BEGIN:VALARM', ...lines, 'END:VALARM']

const cases: readonly Case[] = [
  {
    name: 'Nextcloud: the color of the list, places and addresses',
    head: ['X-WR-CALNAME:List', 'X-APPLE-CALENDAR-COLOR:#317CCCFF'],
    todos: [['UID:a', 'LOCATION:Berlin', 'URL:https://example.com/', 'GEO:1;2'], ['LOCATION:']],
    records: [
      { type: 'project', name: 'List', color: '#317ccc' },
      { metadata: { location: 'Berlin', url: 'https://example.com/' } },
      { metadata: {} },
    ],
    report: ['GEO is left out'],
  },
  {
    name: 'dates without their type, with the marks of ISO 8601, or empty',
    todos: [
      ['DUE:20260301', 'COMPLETED;VALUE=DATE:20260302'],
      ['DUE:2026-03-01T09:00:00Z', 'DTSTART:2026-03-01'],
      ['DUE:20260301T0900', 'DTSTART:'],
      ['DUE:tomorrow'],
    ],
    records: [
      { due_on: '2026-03-01', completed_at: '2026-03-02T00:00:00.000Z' },
      { due_at: '2026-03-01T09:00:00.000Z', start_on: '2026-03-01' },
      { due_at: '2026-03-01T08:00:00.000Z', start_on: null },
      { due_on: null },
    ],
    report: ['DUE is not a date: "tomo-rr-ow"'],
  },
  {
    name: 'Nextcloud, Apple and tasks.org: the order of the list',
    todos: [
      ['UID:a', 'CATEGORIES:home', 'X-APPLE-SORT-ORDER:3'],
      ['UID:b', 'RELATED-TO:a', 'X-APPLE-SORT-ORDER:1'],
      ['UID:c', 'CREATED:20010101T000002Z'],
      ['UID:d', 'CATEGORIES:home', 'X-APPLE-SORT-ORDER:1'],
    ],
    records: [
      { type: 'tag' },
      { id: 'd', tag_ids: ['home'] },
      { id: 'c' },
      { id: 'a', tag_ids: ['home'] },
      { id: 'b', parent_id: 'a' },
    ],
  },
  {
    name: 'Evolution: zones with a prefix, or that say their names elsewhere',
    head: [
      'BEGIN:VTIMEZONE',
      'TZID:Custom',
      'X-LIC-LOCATION:Asia/Tokyo',
      'BEGIN:STANDARD',
      'DTSTART:19700101T000000',
      'TZOFFSETFROM:+0900',
      'TZOFFSETTO:+0900',
      'END:STANDARD',
      'END:VTIMEZONE',
    ],
    todos: [
      [
        'RRULE:FREQ=DAILY',
        'DUE;TZID=/freeassociation.sourceforge.net/America/Argentina/Buenos_Aires:20260301T090000',
      ],
      ['RRULE:FREQ=DAILY', 'DUE;TZID=Custom:20260301T090000'],
      [
        'DTSTART;TZID=Romance Standard Time:20260301T080000',
        'DUE;TZID=Romance Standard Time:20260301T090000',
      ],
    ],
    records: [
      {
        due_at: '2026-03-01T12:00:00.000Z',
        recurrence: { time_zone: 'America/Argentina/Buenos_Aires' },
      },
      { due_at: '2026-03-01T00:00:00.000Z', recurrence: { time_zone: 'Asia/Tokyo' } },
      { due_at: '2026-03-01T08:00:00.000Z' },
    ],
    report: [
      '2 times are in the zone "Romance Standard Time", which is not known. They are taken to be in yours.',
    ],
  },
  {
    name: 'Thunderbird: a to-do that recurs stays on its first date, with others for those that are done',
    todos: [daily, doneOn('20261220'), doneOn('20261221')],
    records: [
      {
        id: 'a',
        start_at: '2026-12-22T23:00:00.000Z',
        status: 'todo',
        recurrence: { rule: 'FREQ=DAILY;COUNT=2' },
      },
      { status: 'done', due_at: '2026-12-20T23:00:00.000Z' },
      { status: 'done', due_at: '2026-12-21T23:00:00.000Z' },
    ],
  },
  {
    name: 'a rule counts from DTSTART, as do exceptions',
    todos: [
      [
        'DTSTART;TZID=Europe/Berlin:20260302T220000',
        'DUE;TZID=Europe/Berlin:20260303T060000',
        'RRULE:FREQ=WEEKLY;BYDAY=MO',
        'EXDATE;TZID=Europe/Berlin:20260302T220000',
      ],
    ],
    records: [
      {
        start_at: '2026-03-09T21:00:00.000Z',
        due_at: '2026-03-10T05:00:00.000Z',
        recurrence: { rule: 'FREQ=WEEKLY;BYDAY=MO', time_zone: 'Europe/Berlin' },
      },
    ],
  },
  {
    name: 'a to-do that recurs without an occurrence left is done',
    todos: [
      [
        ...daily,
        'EXDATE;TZID=America/Chicago:20261220T170000,20261221T170000,20261222T170000,20261223T170000',
      ],
    ],
    records: [{ status: 'done', recurrence: null }],
  },
  {
    name: 'exceptions that are yet to come are lost',
    todos: [
      [
        ...daily,
        'EXDATE;TZID=America/Chicago:20261220T170000',
        'EXDATE;TZID=America/Chicago:20261223T170000',
      ],
      ['UID:a', 'RECURRENCE-ID;TZID=America/Chicago:20261221T170000', 'DUE:20261225T100000Z'],
    ],
    records: [{ start_at: '2026-12-22T23:00:00.000Z' }, { due_at: '2026-12-25T10:00:00.000Z' }],
    report: [
      'EXDATE is left out',
      'RECURRENCE-ID is left out: an occurrence that differs becomes a task of its own',
    ],
  },
  {
    name: 'alarms of Apple for a place, and of old programs without their type',
    todos: [
      [
        'BEGIN:VALARM',
        'TRIGGER;VALUE=DATE-TIME:19760401T005545Z',
        'X-APPLE-PROXIMITY:ARRIVE',
        'END:VALARM',
        'BEGIN:VALARM',
        'TRIGGER:20260301T090000Z',
        'END:VALARM',
        'ATTACH;ENCODING=BASE64;VALUE=BINARY:AAAA',
      ],
    ],
    records: [{ reminders: [{ at: '2026-03-01T09:00:00.000Z' }] }],
    report: ['ATTACH is left out: files in a calendar are not read', 'VALARM is left out: it is of a place'],
  },
  {
    name: 'equal alarms are one',
    todos: [
      [
        'DUE;VALUE=DATE:20260301',
        ...['-PT15H', '-P0DT15H', 'PT9H', 'PT9H'].flatMap((trigger) => alarm(`TRIGGER:${trigger}`)),
      ],
    ],
    records: [
      {
        reminders: [
          { relative_to: 'due', offset_minutes: -1440, time_of_day: '09:00' },
          { relative_to: 'due', offset_minutes: 0, time_of_day: '09:00' },
        ],
      },
    ],
  },
  {
    name: 'alarms that are none (Apple), of a place, and snoozed (RFC 9074)',
    todos: [
      [
        'DUE:20260301T090000Z',
        ...alarm('ACTION:NONE', 'TRIGGER;VALUE=DATE-TIME:19760401T005545Z'),
        ...alarm('TRIGGER;RELATED=END:PT0S', 'PROXIMITY:ARRIVE'),
        ...alarm('UID:one', 'TRIGGER;RELATED=END:-PT1H'),
        ...alarm('UID:two', 'TRIGGER;VALUE=DATE-TIME:20260301T083000Z', 'RELATED-TO;RELTYPE=SNOOZE:one'),
        ...alarm('TRIGGER;VALUE=DATE-TIME:20260301T084500Z', 'RELATED-TO;RELTYPE=SNOOZE:gone'),
      ],
    ],
    records: [
      {
        reminders: [
          { relative_to: 'due', offset_minutes: -60, snoozed_until: '2026-03-01T08:30:00.000Z' },
          { at: '2026-03-01T08:45:00.000Z' },
        ],
      },
    ],
    report: ['VALARM is left out: it is of a place'],
  },
  {
    name: 'alarms that repeat, or go to others',
    todos: [
      [
        'DUE:20260301T090000Z',
        ...alarm('TRIGGER;RELATED=END:-PT1H', 'REPEAT:3', 'DURATION:PT5M'),
        ...alarm('TRIGGER;RELATED=END:-PT2H', 'REPEAT:0', 'ACTION:EMAIL', 'ATTENDEE:mailto:ada@example.com'),
        ...alarm('ACTION:NONE', 'TRIGGER;VALUE=DATE-TIME:19760401T005545Z', 'REPEAT:3', 'DURATION:PT5M'),
      ],
    ],
    records: [
      {
        reminders: [
          { relative_to: 'due', offset_minutes: -60 },
          { relative_to: 'due', offset_minutes: -120 },
        ],
      },
    ],
    report: [
      'REPEAT is left out: a reminder fires once',
      'ATTENDEE is left out: a reminder is for you alone',
    ],
  },
  {
    name: 'alarms at a time of to-dos that recur, which the next occurrence has too',
    todos: [
      ['DUE:20260329T090000Z', weekly, ...alarm('TRIGGER;VALUE=DATE-TIME:20260329T083000Z')],
      // The day before has the same time of day, but 23 hours lie in between.
      [
        'DUE;TZID=Europe/Berlin:20260329T090000',
        weekly,
        ...alarm('TRIGGER;VALUE=DATE-TIME:20260328T080000Z'),
      ],
      ['DUE;VALUE=DATE:20260301', weekly, ...alarm('TRIGGER;VALUE=DATE-TIME:20260227T170000Z')],
      ['DTSTART;VALUE=DATE:20260301', weekly, ...alarm('TRIGGER;VALUE=DATE-TIME:20260301T070000Z')],
      ['DUE;VALUE=DATE:20260301', weekly, ...alarm('TRIGGER;VALUE=DATE-TIME:20240227T170000Z')],
      ['DUE;VALUE=DATE:20260301', ...alarm('TRIGGER;VALUE=DATE-TIME:20260227T170000Z')],
    ],
    records: [
      { reminders: [{ relative_to: 'due', offset_minutes: -30 }] },
      { reminders: [{ relative_to: 'due', offset_minutes: -1440 }] },
      { reminders: [{ relative_to: 'due', offset_minutes: -2880, time_of_day: '18:00' }] },
      { reminders: [{ relative_to: 'start', offset_minutes: 0, time_of_day: '08:00' }] },
      { reminders: [{ at: '2024-02-27T17:00:00.000Z' }] },
      { reminders: [{ at: '2026-02-27T17:00:00.000Z' }] },
    ],
    report: ['VALARM is of this occurrence alone: the next one has no reminder at its time'],
  },
]

for (const { name, todos, head = [], records, report = [] } of cases)
  t.test(name, async (t) => {
    const path = join(await temporaryFolder(t), 'upload')
    const components = todos.map((lines) => ['BEGIN:VTODO', 'SUMMARY:A', ...lines, 'END:VTODO'].join('\r\n'))
    await writeFile(path, ['BEGIN:VCALENDAR', ...head, ...components, 'END:VCALENDAR', ''].join('\r\n'))
    const timeZone = 'Europe/Berlin'
    const options = { mapping: null, fileName: 'upload', timeZone, now: '2026-11-26T10:00:00.000Z' }
    const items = await Array.fromAsync(
      checkDrafts(readFormat(path, { ...options, format: 'icalendar' }), { isStrict: false, timeZone }),
    )
    const found = items.filter((item) => !('code' in item))
    t.match(found, records)
    t.equal(found.length, records.length)
    t.strictSame(
      items.flatMap((item) =>
        'code' in item ? `${item.field === null ? '' : `${item.field} `}${item.message}` : [],
      ),
      report,
    )
  })

t.test('text in the code page of Windows', async (t) => {
  const path = join(await temporaryFolder(t), 'upload')
  await writeFile(path, Buffer.from('BEGIN:VTODO\nSUMMARY:Büro\nEND:VTODO\n', 'latin1'))
  const options = { mapping: null, fileName: 'upload', timeZone: 'UTC', now: '2026-11-26T10:00:00.000Z' }
  t.match(await Array.fromAsync(readFormat(path, { ...options, format: 'icalendar' })), [
    { record: { title: 'Büro' } },
  ])
})

t.test('a to-do without a calendar around it', async (t) => {
  const path = join(await temporaryFolder(t), 'upload')
  await writeFile(path, 'BEGIN:VTODO\nSUMMARY:A\nEND:VTODO\n')
  t.match(await inspect(path), { format: 'icalendar' })
})
