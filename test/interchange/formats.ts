import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Teardown } from '../../scripts/run/run-to-end.ts'
import { type ImportFormat, type ReadOptions, UnreadableFile } from '../../src/interchange/import-file.ts'
import { checkDrafts } from '../../src/interchange/check.ts'
import { inspect, readFormat, strictFormats } from '../../src/interchange/formats/formats.ts'
import type { InterchangeRecord, ReportLine } from '../../src/interchange/records.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { zipOf } from '../fixture/zip.ts'

/** Files of each format, of which some rows are as they should not be. */

const samples = fileURLToPath(new URL('samples/', import.meta.url))

const read = async (path: string, changes: Partial<ReadOptions> = {}) => {
  const options: ReadOptions = {
    format: 'csv',
    mapping: null,
    fileName: 'upload',
    timeZone: 'Europe/Berlin',
    now: '2026-11-26T10:00:00.000Z',
    ...changes,
  }
  const { timeZone, format } = options
  const items = await Array.fromAsync(
    checkDrafts(readFormat(path, options), { isStrict: strictFormats.has(format), timeZone }),
  )
  const records = items.filter((item): item is InterchangeRecord => !('code' in item))
  const report = items.filter((item): item is ReportLine => 'code' in item)
  return { records, report }
}

const lineOf = ({ severity, row, field, code }: ReportLine): string => [severity, row, field, code].join(' ')

interface Sample {
  readonly format: ImportFormat
  readonly file: (t: Teardown) => Promise<string>
  /** In the order of the file, apart from what the file says of the order. Fields that are not here do not matter. */
  readonly records: readonly object[]
  readonly report: readonly string[]
}

const sample = (name: string) => () => Promise.resolve(join(samples, name))

/** A file that is a zip of these entries. */
const zipped = async (t: Teardown, entries: Readonly<Record<string, Buffer>>): Promise<string> =>
  fileOf(t, await zipOf(entries))

const fileOf = async (t: Teardown, content: Buffer | string): Promise<string> => {
  const path = join(await temporaryFolder(t), 'upload')
  await writeFile(path, content)
  return path
}

const board = '65a0000000000000000000b0'
const [first, second, third] = [1, 2, 3].map((number) => `65a00000000000000000000${number}`)
const home = 'Home [2203306141].csv'

const formats: readonly Sample[] = [
  {
    format: 'todoist',
    file: sample('todoist.json'),
    records: [
      { type: 'user', id: '7', display_name: 'Grace' },
      { type: 'project', id: 'p1', name: 'Parent', color: null },
      { type: 'project', id: 'p2', name: 'Parent / Child', color: '#148fad', external_source: 'todoist' },
      { type: 'section', id: 's1', project_id: 'p2', name: 'Soon' },
      { type: 'tag', id: 'home', color: '#dc4c3e' },
      { type: 'tag', id: 'other', color: null },
      {
        type: 'task',
        id: 'top',
        title: 'Top',
        description: 'Text',
        priority: 'medium',
        project_id: 'p2',
        section_id: 's1',
        assignee_id: '7',
        tag_ids: ['home', 'other'],
        due_at: '2026-03-02T08:00:00.000Z',
        created_at: '2026-01-05T08:00:00.123Z',
        recurrence: { rule: 'FREQ=WEEKLY;INTERVAL=2', from: 'completion', time_zone: 'Europe/Paris' },
        reminders: [
          { relative_to: 'due', offset_minutes: -30, time_of_day: null },
          { at: '2026-03-01T17:00:00.000Z' },
        ],
        external_id: 'top',
      },
      // A child that comes before its parent, with the highest priority.
      { type: 'task', id: 'below', parent_id: 'top', priority: 'urgent' },
      {
        type: 'task',
        id: 'done',
        status: 'done',
        completed_at: '2026-02-01T10:00:00.000Z',
        recurrence: null,
      },
      { type: 'task', id: 'both', start_on: '2026-03-01', due_on: '2026-03-05' },
      { type: 'task', id: 'fixed', due_at: '2026-07-01T12:00:00.000Z', recurrence: null },
      { type: 'task', id: 'odd', priority: 'none', due_on: null, tag_ids: [] },
      {
        type: 'comment',
        id: 'n1',
        author_name: 'Grace',
        body: 'Look\n\n[a.pdf](https://files.example/a.pdf)',
      },
      { type: 'task', id: 'b', parent_id: null },
      { type: 'task', id: 'a', parent_id: 'b' },
    ],
    report: [
      'altered 1 parent_id not_supported',
      'refused 2  invalid',
      'refused 11  invalid',
      'altered 2 duration not_supported',
      'altered 2 reminders not_supported',
      'altered 5 due not_supported',
      'altered 6 due invalid_value',
      'altered 6 priority invalid_value',
      'altered 6 labels invalid_value',
      'refused 9 id duplicate',
      'refused 10 title invalid',
      'altered 1 file_attachment remote_file',
      'note   not_supported',
      'altered 8 parent cycle',
      'refused 2 task unknown_reference',
    ],
  },
  {
    format: 'todoist_csv',
    file: async (t) => zipped(t, { [home]: await readFile(join(samples, home)) }),
    records: [
      { type: 'project', id: home, name: 'Home' },
      { type: 'tag', id: 'home' },
      { type: 'tag', id: 'weekend' },
      { type: 'user', id: '7', display_name: 'Grace' },
      {
        type: 'task',
        title: 'Water the ferns',
        priority: 'urgent',
        // The first Monday that is not in the past.
        due_at: '2026-11-30T08:00:00.000Z',
        recurrence: { rule: 'FREQ=WEEKLY;BYDAY=MO' },
        tag_ids: ['home', 'weekend'],
        assignee_id: '7',
      },
      {
        type: 'task',
        title: 'Fill the can',
        priority: 'none',
        due_at: '2026-03-05T13:30:00.000Z',
        parent_id: `${home}#3`,
      },
      {
        type: 'comment',
        author_name: 'Ada',
        body: 'With rain. https://files.example/rain.jpg',
        task_id: `${home}#4`,
      },
      {
        type: 'task',
        title: 'Too deep',
        start_on: '2026-03-01',
        due_on: '2026-03-09',
        parent_id: `${home}#4`,
      },
      { type: 'section', name: 'Later' },
      { type: 'task', title: 'Write', section_id: `${home}#8`, parent_id: null },
    ],
    report: [
      'altered 5 CONTENT remote_file',
      'altered 6 DURATION not_supported',
      'altered 9 PRIORITY invalid_value',
      'altered 9 DATE invalid_value',
      'refused 10 TYPE invalid_value',
    ],
  },
  {
    format: 'vikunja',
    file: async (t) =>
      zipped(t, {
        'data.json': await readFile(join(samples, 'vikunja.json')),
        'filters.json': Buffer.from('[{"id":1}]'),
        'files/77': Buffer.from('abc'),
        VERSION: Buffer.from('v0.24.1'),
      }),
    records: [
      { type: 'project', id: '3', name: 'Work', description: 'About **work**', color: '#ff0000' },
      { type: 'section', id: '40', name: 'To-Do' },
      { type: 'section', id: '41', name: 'Doing' },
      { type: 'project', id: '4', name: 'Work / Inner' },
      { type: 'user', id: '9', username: 'grace' },
      { type: 'tag', id: '8', name: 'home', color: '#00ff00' },
      {
        type: 'task',
        id: '1',
        description: '- one & two',
        status: 'in_progress',
        priority: 'urgent',
        section_id: '41',
        assignee_id: '9',
        tag_ids: ['8'],
        start_at: null,
        due_at: '2026-03-01T09:00:00.000Z',
        completed_at: null,
        recurrence: { rule: 'FREQ=WEEKLY', from: 'completion', anchor: 'due' },
        reminders: [
          { relative_to: 'due', offset_minutes: -60, time_of_day: null },
          // At a time. Its product moves it with the dates.
          { relative_to: 'due', offset_minutes: -2940, time_of_day: null },
        ],
      },
      // Its position is before that of its parent.
      { type: 'task', id: '2', status: 'done', parent_id: '1', completed_at: '2026-02-02T10:00:00.000Z' },
      { type: 'task', id: '5', project_id: '4', recurrence: null },
      { type: 'comment', id: '60', task_id: '1', author_id: '9', edited_at: null },
      // Both tasks have it.
      { type: 'relation', task_id: '1', kind: 'blocks', other_task_id: '5' },
      { type: 'attachment', id: '70', file_name: 'a.txt', entry: 'files/77', size: 3 },
      { type: 'attachment', id: '71', entry: null },
    ],
    report: [
      'altered  parent_project_id not_supported',
      'altered 1 priority invalid_value',
      'altered 1 repeat_after not_supported',
      'altered  file remote_file',
      'note   not_supported',
    ],
  },
  {
    format: 'trello',
    file: sample('trello.json'),
    records: [
      { type: 'project', id: board, name: 'Board', created_at: '2024-01-11T14:49:36.000Z' },
      { type: 'user', id: 'm1', username: 'ada' },
      { type: 'section', id: 'l1', name: 'First' },
      { type: 'section', id: 'l2', name: 'Second' },
      { type: 'tag', id: 't1', name: 'green_dark', color: '#4bce97', project_id: board },
      { type: 'task', id: second, status: 'done', completed_at: '2026-02-02T10:00:00.000Z' },
      {
        type: 'task',
        id: first,
        section_id: 'l1',
        assignee_id: 'm1',
        tag_ids: ['t1'],
        due_at: '2026-03-01T10:00:00.000Z',
        reminders: [{ relative_to: 'due', offset_minutes: -1440, time_of_day: null }],
        metadata: { story_points: '5' },
      },
      { type: 'task', id: third, section_id: null },
      { type: 'task', id: 'k2', parent_id: second },
      { type: 'task', id: 'k3', parent_id: second },
      { type: 'task', id: 'i1', title: 'Sooner', status: 'done', parent_id: first },
      { type: 'task', id: 'i2', title: 'Later', status: 'todo', parent_id: first },
      { type: 'task', id: 'i3', parent_id: 'k2' },
      { type: 'comment', id: 'x1', author_id: null, author_name: 'Left', body: 'Hello' },
      { type: 'attachment', id: 'a1', entry: null, url: 'https://files.example/photo.png' },
    ],
    report: [
      'altered 1 idMembers too_many',
      'altered 3 section unknown_reference',
      'altered 1 file remote_file',
      'note   not_supported',
    ],
  },
  {
    format: 'icalendar',
    file: sample('calendar.ics'),
    records: [
      { type: 'project', name: 'Home, sweet' },
      { type: 'tag', name: 'home' },
      { type: 'tag', name: 'a,b' },
      { type: 'user', id: 'mailto:ada@example.com', display_name: 'Ada L' },
      {
        type: 'task',
        id: 'parent',
        title: 'A long summary that is folded',
        description: 'Two\nlines',
        priority: 'urgent',
        start_at: '2026-03-27T08:00:00.000Z',
        // In a zone that only the file knows.
        due_at: '2026-03-27T09:00:00.000Z',
        recurrence: { rule: 'FREQ=MONTHLY;UNTIL=20271231T225959Z;BYMONTHDAY=31', month_end: 'last_day' },
      },
      {
        type: 'task',
        id: 'child',
        parent_id: 'parent',
        status: 'in_progress',
        priority: 'low',
        due_on: '2026-02-28',
        reminders: [{ relative_to: 'due', offset_minutes: -1440, time_of_day: '09:00' }],
      },
      { type: 'comment', task_id: 'parent', body: 'Looks good' },
      { type: 'task', id: 'done', status: 'done', due_at: '2026-01-01T11:00:00.000Z', recurrence: null },
      { type: 'task', id: 'broken', due_at: null, recurrence: null },
      { type: 'task', id: 'after' },
    ],
    report: [
      'altered 25 SUMMARY invalid_value',
      'altered 41 ATTACH remote_file',
      'altered 50 DUE invalid_value',
      'altered 50 RRULE not_supported',
      'note   not_supported',
    ],
  },
  {
    format: 'csv',
    file: sample('table.csv'),
    records: [
      { type: 'project', id: 'Haushalt' },
      { type: 'section', name: 'Heute' },
      { type: 'tag', id: 'heim' },
      { type: 'tag', id: 'schnell' },
      {
        type: 'task',
        title: 'Wäsche',
        description: 'Zeile 1\nZeile 2',
        due_on: '2026-02-28',
        priority: 'high',
        status: 'todo',
      },
      {
        type: 'task',
        title: 'Bügeln',
        due_at: '2026-03-01T13:30:00.000Z',
        parent_id: 'a4fbe2e12855803609474d04f7f37944',
      },
      { type: 'task', title: '=2+3', due_on: '2026-03-03', status: 'done' },
      { type: 'task', title: 'Falsch', priority: 'none' },
      { type: 'task', title: 'Bügeln', status: 'todo' },
    ],
    report: [
      'refused 6 due invalid_value',
      'refused 8 title invalid',
      'note   not_supported',
      'note   not_supported',
    ],
  },
]

for (const { format, file, records, report } of formats)
  t.test(format, async (t) => {
    const path = await file(t)
    t.match(await inspect(path), { format })
    const found = await read(path, { format })
    t.match(found.records, records)
    t.equal(found.records.length, records.length)
    t.strictSame(found.report.map(lineOf), report)
  })

/** What a value of somebody's JSON can be instead. */
const odd: readonly unknown[] = [
  null,
  -1,
  1e308,
  '',
  '2026-02-30',
  '9999-12-31T23:59:59Z',
  [],
  {},
  [null, [1]],
  'constructor',
  'a\0\ud800',
  'x'.repeat(70_000),
  `e${'\u0301'.repeat(5000)}`,
]

/** The document with another value in each place, one after another. */
function* variants(
  value: unknown,
  put: (value: unknown) => unknown,
  state = { next: 0 },
): Generator<unknown, void> {
  for (let count = 0; count < 2; count += 1) {
    yield put(odd[state.next % odd.length])
    state.next += 1
  }
  if (Array.isArray(value))
    for (const [index, item] of value.entries())
      yield* variants(item, (item) => put(value.with(index, item)), state)
  else if (typeof value === 'object' && value !== null)
    for (const [name, item] of Object.entries(value))
      yield* variants(item, (item) => put({ ...value, [name]: item }), state)
}

t.test('any value in any place', async (t) => {
  const path = await fileOf(t, '')
  for (const [format, name] of [
    ['todoist', 'todoist.json'],
    ['trello', 'trello.json'],
  ] as const) {
    const document: unknown = JSON.parse(await readFile(join(samples, name), 'utf8'))
    for (const variant of variants(document, (value) => value)) {
      await writeFile(path, JSON.stringify(variant))
      const { records } = await read(path, { format }).catch((error: unknown) => {
        if (!(error instanceof UnreadableFile)) t.fail(JSON.stringify(variant).slice(0, 2000), { error })
        return { records: [] }
      })
      if (records.some((record) => JSON.stringify(record).length > 300_000)) t.fail('A record is too large')
    }
  }
  t.pass()
})

t.test('Todoist of earlier versions, and its list of completed tasks', async (t) => {
  const old = {
    projects: [{ id: 1, name: 'Inbox', color: 48 }],
    labels: [{ id: 215, name: 'home', color: 47, item_order: 1 }],
    items: [
      { id: 11, project_id: 1, content: 'A', labels: [215, 216], due: { date: '2026-12-06' } },
      { id: 12, project_id: 1, content: 'B', checked: 1, date_completed: '2026-01-07T13:00:00Z' },
    ],
    reminders: [{ id: 9, item_id: 11, type: 'relative', mm_offset: 30 }],
  }
  const first = await read(await fileOf(t, JSON.stringify(old)), { format: 'todoist' })
  t.match(first.records, [
    { type: 'project', color: '#999999' },
    { type: 'tag', id: 'home', color: '#808080' },
    { type: 'tag', id: '216', color: null },
    { id: '11', tag_ids: ['home', '216'], reminders: [{ offset_minutes: -30 }] },
    { id: '12', status: 'done' },
  ])
  t.strictSame(first.report, [])
  const completed = {
    items: [{ id: 'c', content: 'C', project_id: 'p', completed_at: '2026-01-05T10:00:00.000000Z' }],
    projects: { p: { id: 'p', name: 'Home' } },
    sections: {},
  }
  const second = await read(await fileOf(t, JSON.stringify(completed)), { format: 'todoist' })
  t.match(second.records, [{ type: 'project' }, { status: 'done', project_id: 'p' }])
  t.strictSame(second.report, [])
})

t.test('the order of the board counts in Vikunja', async (t) => {
  const positions = [
    { task_id: 1, project_view_id: 31, position: 2 },
    { task_id: 2, project_view_id: 31, position: 1 },
    { task_id: 1, project_view_id: 30, position: 1 },
    { task_id: 2, project_view_id: 30, position: 2 },
  ]
  const tasks = [1, 2].map((id) => ({ id, title: `Task ${id}`, related_tasks: null, labels: null }))
  const views = [{ id: 31, view_kind: 'kanban' }]
  const data = [{ id: 3, title: 'Work', views, positions, tasks, buckets: null }]
  const path = await zipped(t, {
    'data.json': Buffer.from(JSON.stringify(data)),
    VERSION: Buffer.from('v1.0.0'),
  })
  const { records, report } = await read(path, { format: 'vikunja' })
  t.match(records, [{ type: 'project' }, { id: '2' }, { id: '1' }])
  t.strictSame(report, [])
})

t.test('tables of Todoist that were saved or packed again', async (t) => {
  const rows = 'TYPE;CONTENT;PRIORITY;INDENT\ntask;A, b;1;1\ntask;C;4;2\n'
  const path = await zipped(t, {
    'Home.csv': Buffer.from(`\ufeff${rows}`),
    '__MACOSX/._Home.csv': Buffer.from([0, 5, 22, 7]),
    'Other.csv': Buffer.from('Name,Status\nA,B\n'),
  })
  t.match(await inspect(path), { format: 'todoist_csv' })
  const { records, report } = await read(path, { format: 'todoist_csv' })
  t.match(
    records.filter(({ type }) => type === 'task'),
    [
      { title: 'A, b', priority: 'urgent' },
      { title: 'C', parent_id: 'Home.csv#2' },
    ],
  )
  t.equal(records.length, 3)
  t.strictSame(report.map(lineOf), ['refused 1  invalid'])
})

t.test('a template of Todoist whose dates count from today', async (t) => {
  const dates = ['in 5 days', 'Today', 'tomorrow at 9:30', 'in a while']
  const rows = dates.map((date) => `task,Water the ferns,4,1,${date}`)
  const path = await fileOf(t, ['TYPE,CONTENT,PRIORITY,INDENT,DATE', ...rows].join('\n'))
  const { records, report } = await read(path, { format: 'todoist_csv' })
  t.match(
    records.filter(({ type }) => type === 'task'),
    [
      { due_on: '2026-12-01' },
      { due_on: '2026-11-26' },
      { due_at: '2026-11-27T08:30:00.000Z' },
      { due_on: null, due_at: null },
    ],
  )
  t.strictSame(report.map(lineOf), ['altered 5 DATE invalid_value'])
})

t.test('a board of Trello whose lists are archived, and whose labels are of its cards', async (t) => {
  const board = {
    id: 'board',
    name: 'Board',
    lists: [{ id: 'old', name: 'Old', closed: true }],
    cards: [
      {
        id: 'a',
        name: 'A',
        desc: 'Text',
        idList: 'old',
        labels: [{ color: 'green', name: 'Bug' }, { color: null }],
        attachments: [
          { id: 'l1', isUpload: false, name: 'Page', url: 'https://example.com/' },
          { id: 'l2', isUpload: false, name: 'https://example.com/', url: 'https://example.com/?a' },
        ],
      },
      { id: 'b', name: 'B', idLabels: ['x'], labels: [{ id: 'x', name: 'X' }] },
    ],
    checklists: [
      { id: 'all', idCard: 'b', name: 'All', checkItems: [{ id: '1', name: 'One', state: 'complete' }] },
      { id: 'none', idCard: 'b', name: 'None', checkItems: [] },
    ],
  }
  const path = await fileOf(t, JSON.stringify(board))
  t.match(await inspect(path), { format: 'trello' })
  const { records, report } = await read(path, { format: 'trello' })
  t.match(
    records.filter(({ type }) => type === 'task' || type === 'tag'),
    [
      { name: 'Bug', color: '#4bce97' },
      { name: 'label', color: null },
      { id: 'x', name: 'X' },
      {
        id: 'a',
        status: 'done',
        tag_ids: ['green Bug', ' '],
        description: 'Text\n\n- [Page](https://example.com/)\n- https://example.com/?a',
      },
      { id: 'b', status: 'todo', tag_ids: ['x'] },
      { id: 'all', status: 'done' },
      { id: 'none', status: 'todo' },
      { id: '1', status: 'done' },
    ],
  )
  t.strictSame(
    report.map(({ message }) => message),
    ['1 archived cards become tasks that are done.'],
  )
})

t.test('the guess of a table', async (t) => {
  const cases = [
    {
      text: 'Title\tDue Date\nA\t2026/3/1\n',
      mapping: { delimiter: '\t', date_order: 'ymd', columns: ['title', 'due'] },
    },
    { text: 'name,labels\nA,b\n', mapping: { delimiter: ',', columns: ['title', 'tags'] } },
    { text: 'name,date\nA,13/01/2026\n', mapping: { date_order: 'dmy' } },
    { text: 'name,date\nA,01/13/2026\n', mapping: { date_order: 'mdy' } },
    { text: 'due,What,Where\n2026-03-01,A,B\n', mapping: { columns: ['due', 'title', 'skip'] } },
    {
      text: '1,,Epic,Milk,x\n2,1,Epic,Bread,y\n',
      mapping: { columns: ['skip', 'skip', 'skip', 'title', 'skip'] },
    },
    { text: 'Milk\nBread\n', mapping: { has_header: false, columns: ['title'] } },
    { text: '\ufeffTitle\nÄ\n', encoding: 'utf16le', mapping: { encoding: 'utf-16le', columns: ['title'] } },
    { text: '\ufeffTitle\nÄ\n', mapping: { encoding: 'utf-8', columns: ['title'] } },
  ] as const
  for (const { text, mapping, ...rest } of cases) {
    const path = await fileOf(t, Buffer.from(text, 'encoding' in rest ? rest.encoding : 'utf8'))
    t.match((await inspect(path)).csv?.mapping, mapping, text)
  }
  const chosen = await read(await fileOf(t, 'x;Bread;y'), {
    mapping: {
      encoding: 'utf-8',
      delimiter: ';',
      has_header: false,
      date_order: 'ymd',
      columns: ['skip', 'title'],
    },
  })
  t.match(chosen.records, [{ title: 'Bread' }])
  const none = {
    encoding: 'utf-8',
    delimiter: ',',
    has_header: false,
    date_order: 'ymd',
    columns: ['id'],
  } as const
  await t.rejects(read(await fileOf(t, 'x'), { mapping: none }), { name: 'UnreadableFile', why: 'damaged' })
})

t.test('rows that cannot be read leave the others', async (t) => {
  const rows = [
    'title,due',
    'A,2026-01-01',
    'B "quoted",2026-01-02',
    'C',
    'D,1,2,3,4',
    `${'E'.repeat(600)},`,
    'F,',
  ]
  const { records, report } = await read(await fileOf(t, [...rows, '"G,'].join('\n')))
  t.match(records, [{ title: 'A' }, { title: 'B "quoted"' }, { title: 'C' }, { title: 'F' }])
  t.strictSame(report.map(lineOf), [
    'refused 5 due invalid_value',
    'refused 6 title too_long',
    'refused 8  invalid',
  ])
})

t.test('a text with a stray U+0000', async (t) => {
  const path = await fileOf(t, `title,description\nA\0B,${'x'.repeat(200)}\n`)
  t.match(await inspect(path), { format: 'csv' })
  t.match((await read(path)).records, [{ title: 'A B' }])
})

t.test('what is no file of any format', async (t) => {
  for (const content of [
    '',
    '{"a":1}',
    '[1]',
    '{"_id":"wekan","cards":[],"lists":[]}',
    Buffer.from([0, 1, 2, 3]),
    '  ',
  ])
    t.equal((await inspect(await fileOf(t, content))).format, null, String(content))
  t.equal((await inspect(await zipped(t, { 'inner.zip': Buffer.from('PK') }))).format, null)
  for (const [format, content] of [
    ['trello', '{"id":'],
    ['todoist', '[]'],
    ['vikunja', 'PK'],
    ['taskwright', 'text'],
  ] as const)
    await t.rejects(
      read(await fileOf(t, content), { format }),
      { name: 'UnreadableFile', why: 'damaged' },
      format,
    )
  const old = { VERSION: Buffer.from('v0.20.4'), 'data.json': Buffer.from('[]') }
  await t.rejects(read(await zipped(t, old), { format: 'vikunja' }), {
    name: 'UnreadableFile',
    why: 'damaged',
  })
})

t.test('parents come first, whatever the order of the rows', async (t) => {
  const rows = Array.from(
    { length: 5000 },
    (_, index) => `${index},Task ${index},${index === 4999 ? '' : index + 1}`,
  )
  const path = await fileOf(t, ['id,title,parent', ...rows].join('\n'))
  const { records, report } = await read(path)
  t.equal(records.length, 5000)
  const seen = new Set<string>()
  for (const task of records) {
    if (task.type !== 'task') continue
    t.ok(task.parent_id === null || seen.has(task.parent_id))
    seen.add(task.id)
  }
  // Every eighth task would be too deep.
  t.equal(report.length, 624)
  t.match(report[0], { code: 'too_deep' })
})
