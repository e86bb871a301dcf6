import { createReadStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { checkDrafts } from '../../src/interchange/check.ts'
import { inspect, readFormat } from '../../src/interchange/formats/formats.ts'
import type { InterchangeRecord } from '../../src/interchange/records.ts'
import { rowsOf } from '../../src/interchange/table-rows.ts'
import { temporaryFolder } from '../fixture/process.ts'

/** Tables in the shape of products that write them, and what is guessed of them. */

interface Case {
  readonly name: string
  readonly rows: readonly string[]
  readonly encoding?: 'latin1'
  readonly mapping?: object
  /** In the order of the file. */
  readonly tasks: readonly object[]
  readonly comments?: readonly object[]
  /** Other records, by their types. */
  readonly others?: readonly string[]
  readonly report?: readonly string[]
}

const cases: readonly Case[] = [
  {
    name: 'Jira has a column for each label, two ids of an issue, and midnight for a day',
    rows: [
      'Summary,Issue key,Issue id,Status,Priority,Created,Resolved,Due date,Labels,Labels,Parent',
      'Top,AB-1,10001,QA,Lowest,12/Mar/26 9:41 AM,,31/Mar/26 12:00 AM,red,blue,',
      'Sub,AB-2,10002,Done,Highest,12/Mar/26 9:41 AM,13/Mar/26 9:41 AM,,,,10001',
    ],
    tasks: [
      { id: 'AB-1', status: 'todo', priority: 'low', due_on: '2026-03-31', tag_ids: ['red', 'blue'] },
      { parent_id: 'AB-1', status: 'done', priority: 'urgent', completed_at: '2026-03-13T08:41:00.000Z' },
    ],
    others: ['tag red', 'tag blue'],
    report: ['The status "QA" is not known: 1 of the tasks.'],
  },
  {
    name: 'Jira and Pivotal Tracker have a column for each comment',
    rows: [
      'Summary,Issue key,Created,Comment,Comment',
      'Talked about,AB-1,12/Mar/26 9:41 AM,13/Mar/26 9:41 AM;ada;First; second,' +
        '14/Mar/26 9:41 AM;557058:f58131cb-b67d-43c7-b30d-6b58d40bd077;Third',
      'Tracked,AB-2,12/Mar/26 9:41 AM,"Fourth (a part) (Grace Hopper - Mar 15, 2026)",Plain; text',
    ],
    tasks: [{ title: 'Talked about' }, { title: 'Tracked' }],
    comments: [
      { author_name: 'ada', created_at: '2026-03-13T08:41:00.000Z', body: 'First; second' },
      { author_name: null, created_at: '2026-03-14T08:41:00.000Z', body: 'Third' },
      { author_name: 'Grace Hopper', created_at: '2026-03-15T00:00:00.000Z', body: 'Fourth (a part)' },
      { author_name: null, created_at: null, body: 'Plain; text' },
    ],
  },
  {
    name: 'TickTick says what the file is before its columns, counts priorities from below, and has days in a zone',
    rows: [
      '"Date: 2026-06-15+0000"',
      '"Status: ',
      '0 Normal',
      '1 Completed"',
      '"Folder Name","List Name","Title","Content","Is Check list","Start Date","Due Date","Repeat","Priority","Status",' +
        '"Timezone","Is All Day","Column Name","taskId","parentId"',
      'F,Home,Day,Text,N,2026-12-11T23:00:00+0000,2026-12-11T23:00:00+0000,RRULE:FREQ=DAILY,5,0,Europe/Paris,true,Soon,1,',
      'F,Home,Time,,N,,2026-12-11T00:00:00+0000,RRULE:FREQ=DAILY,1,2,Asia/Tokyo,false,,2,1',
    ],
    tasks: [
      {
        title: 'Day',
        description: 'Text',
        priority: 'high',
        start_on: null,
        due_on: '2026-12-12',
        project_id: 'Home',
        recurrence: { rule: 'FREQ=DAILY', time_zone: 'Europe/Paris' },
      },
      {
        due_at: '2026-12-11T00:00:00.000Z',
        status: 'done',
        priority: 'low',
        parent_id: '1',
        recurrence: null,
      },
    ],
    others: ['project Home', 'section Soon'],
  },
  {
    name: 'Planner names a plan first, and separates people by semicolons',
    rows: [
      'Plan name,Launch',
      'Date of export,11/26/2026',
      '',
      'Task Name,Bucket Name,Progress,Priority,Assigned To,Due date,Completed Date,Labels',
      'A,Soon,Not started,Important,Ada;Bob,12/01/2026,,Red;Blue',
      'B,,Completed,Urgent,,12/13/2026,11/20/2026,',
    ],
    tasks: [
      { priority: 'high', assignee_id: 'Ada', due_on: '2026-12-01', section_id: '["upload","Soon"]' },
      { priority: 'urgent', status: 'done', project_id: null, due_on: '2026-12-13' },
    ],
    others: ['project upload', 'section Soon', 'tag Red', 'tag Blue', 'user Ada'],
    report: ['has 2; the first one becomes the assignee'],
  },
  {
    name: 'Notion writes two dates in one cell, and addresses behind names',
    rows: [
      'Name,Assign,Date,Parent item,Priority',
      'A,"Ada, Bob","October 8, 2026 → October 29, 2026",,🔴 High',
      'B,,"July 1, 2026 10:00 AM (GMT+2)",A (https://www.notion.so/a-1),',
    ],
    tasks: [
      { start_on: '2026-10-08', due_on: '2026-10-29', assignee_id: 'Ada', priority: 'high' },
      { due_at: '2026-07-01T08:00:00.000Z', parent_id: '9609509ec7f341f47c77d3f02283da4e' },
    ],
    others: ['user Ada'],
    report: ['has 2; the first one becomes the assignee'],
  },
  {
    name: 'Linear writes the dates of JavaScript, and ClickUp milliseconds and brackets',
    rows: [
      'ID,Title,Created,Completed,Due Date,Labels,Parent,Assignees',
      '1,A,Wed May 13 2026 11:21:41 GMT+0000 (Coordinated Universal Time),,Fri Jun 26 2026 00:00:00 GMT+0100,[red],null,"[Ada, Bob]"',
      '2,B,1706774400000,true,,,1,[]',
      '3,C,,1709251200000,,,,',
    ],
    tasks: [
      { created_at: '2026-05-13T11:21:41.000Z', due_on: '2026-06-26', tag_ids: ['red'], assignee_id: 'Ada' },
      { created_at: '2024-02-01T08:00:00.000Z', status: 'done', completed_at: null, parent_id: '1' },
      { status: 'done', completed_at: '2024-03-01T00:00:00.000Z' },
    ],
    others: ['tag red', 'user Ada'],
    report: ['has 2; the first one becomes the assignee'],
  },
  {
    name: 'monday.com repeats the columns for each group',
    rows: ['Board', 'Name,Status,Date', 'A,Working on it,2026-03-01', 'Name,Status,Date', 'B,50%,-'],
    tasks: [
      { title: 'A', status: 'in_progress' },
      { title: 'B', status: 'in_progress', due_on: null },
    ],
  },
  {
    name: 'a column with the better name is preferred, and a date says that something is done',
    rows: [
      'Category,Completed,Tags,Name,Title,Created,Resolved',
      'x,2026-03-01,y,Other,A,-,',
      ',soon,,,B,the other day,yesterday',
      ',false,,,C,,no',
    ],
    mapping: { columns: ['skip', 'status', 'tags', 'skip', 'title', 'created_at', 'completed_at'] },
    tasks: [
      { status: 'done', completed_at: '2026-03-01T00:00:00.000Z', tag_ids: ['y'] },
      { status: 'todo' },
      { status: 'todo' },
    ],
    others: ['tag y'],
    report: [
      'Dates that cannot be read in the column of completed_at: 1 of the tasks.',
      'The status "soon" is not known: 1 of the tasks.',
      'Dates that cannot be read in the column of created_at: 1 of the tasks.',
    ],
  },
  {
    name: 'Toodledo has the time of a day in another column, and 3 is its highest priority',
    rows: [
      '"TASK","FOLDER","CONTEXT","STARTDATE","STARTTIME","DUEDATE","DUETIME","REPEAT","PRIORITY","TAG","STATUS","STAR","NOTE"',
      'A,Home,work,2026-04-10,10:56 am,2026-09-07,8:00 pm,Weekly,3,x,Next Action,Yes,Text',
      'B,,,,,2026-09-07,,,0,,Active,,',
      'C,,,,,,,,-1,,,,',
    ],
    tasks: [
      {
        start_at: '2026-04-10T08:56:00.000Z',
        due_at: '2026-09-07T18:00:00.000Z',
        priority: 'urgent',
        project_id: 'Home',
        tag_ids: ['x'],
      },
      { due_on: '2026-09-07', priority: 'none', status: 'in_progress' },
      { due_on: null, priority: 'low' },
    ],
    others: ['project Home', 'tag x'],
  },
  {
    name: 'Pivotal Tracker finishes a story before it is accepted',
    rows: [
      'Id,Title,Iteration,Priority,Current State,Created at,Accepted at,Deadline,Owned By',
      '1,A,3,p1 - High,accepted,"Jun 1, 2026","Jun 3, 2026",,Ada',
      '2,B,3,p3 - Low,finished,"Jun 1, 2026",,"Jul 1, 2026",',
      '3,C,,,unstarted,"Jun 1, 2026",,,',
    ],
    tasks: [
      { status: 'done', completed_at: '2026-06-03T00:00:00.000Z', priority: 'high', assignee_id: 'Ada' },
      { status: 'in_progress', priority: 'low', due_on: '2026-07-01' },
      { status: 'todo' },
    ],
    others: ['user Ada'],
  },
  {
    name: 'GitLab has times in UTC, which the name of the column says',
    rows: [
      'Title,Issue ID,State,Assignee,Due Date,Created At (UTC),Closed At (UTC)',
      'A,1,Closed,Unassigned,2026-02-01,2026-01-28 14:25:11,2026-01-30 15:27:32',
    ],
    tasks: [
      {
        due_on: '2026-02-01',
        created_at: '2026-01-28T14:25:11.000Z',
        completed_at: '2026-01-30T15:27:32.000Z',
        assignee_id: null,
      },
    ],
  },
  {
    name: 'names with remarks, fields and states of one’s own in Jira, and priorities with numbers',
    rows: [
      'Summary,Status,Priority (1-4),Custom field (Start date),Custom field (Target end),Labels (all),Created,Status Category',
      'A,Readiness review,2 - High,06/Jul/26 12:00 AM,10/Jul/26 12:00 AM,red|blue,1706774400,In Progress',
      'B,Shipped,4. Low,,,,1706774400000.0,Done',
    ],
    mapping: {
      columns: ['title', 'status', 'priority', 'start', 'due', 'tags', 'created_at', 'skip'],
    },
    tasks: [
      {
        status: 'in_progress',
        priority: 'high',
        start_on: '2026-07-06',
        due_on: '2026-07-10',
        tag_ids: ['red', 'blue'],
        created_at: '2024-02-01T08:00:00.000Z',
      },
      { status: 'done', priority: 'low', created_at: '2024-02-01T08:00:00.000Z' },
    ],
    others: ['tag red', 'tag blue'],
  },
  {
    name: 'a table without names, whose values are also names of columns',
    rows: [
      '9,CLOSED,Paint the door,Deadline,2026-02-06 23:42:20 +0000 UTC,https://example.com/9',
      '8,OPEN,Mend the roof,,2026-02-06 22:42:20 +0000 UTC,https://example.com/8',
      '7,CLOSED,Mow the lawn,Deadline,2026-02-06 21:42:20 +0000 UTC,https://example.com/7',
    ],
    mapping: { has_header: false, columns: ['skip', 'skip', 'title', 'skip', 'skip', 'skip'] },
    tasks: [{ title: 'Paint the door' }, { title: 'Mend the roof' }, { title: 'Mow the lawn' }],
  },
  {
    name: 'words for how a task recurs',
    rows: ['Title,Due,Recurring', 'A,2026-03-01,Weekly', 'B,2026-03-01,every! 2 days', 'C,2026-03-01,FALSE'],
    tasks: [
      { recurrence: { rule: 'FREQ=WEEKLY', from: 'schedule' } },
      { recurrence: { rule: 'FREQ=DAILY;INTERVAL=2', from: 'completion' } },
      { recurrence: null },
    ],
  },
  {
    name: 'which date a task recurs by',
    rows: [
      'Title,Start,Due,Recurrence,Anchor',
      'A,2026-03-01,2026-03-03,FREQ=WEEKLY,due',
      'B,2026-03-01,2026-03-03,FREQ=WEEKLY,Start date',
      'C,2026-03-01,2026-03-03,FREQ=WEEKLY,stern',
      'D,2026-03-01,2026-03-03,FREQ=WEEKLY,',
    ],
    tasks: [
      { recurrence: { anchor: 'due' } },
      { recurrence: { anchor: 'start' } },
      { recurrence: { anchor: undefined } },
      { recurrence: { anchor: undefined } },
    ],
    report: ['The anchor "stern" is not known: 1 of the tasks.'],
  },
  {
    name: 'German, of Excel',
    encoding: 'latin1',
    rows: [
      'sep=;',
      'Betreff;Fällig am;Priorität;Status;Kategorien',
      'Büro;31.03.2026;Höchste;Nicht begonnen;a;b',
      'B;1.4.26;;Erledigt;',
    ],
    mapping: { delimiter: ';', encoding: 'windows-1252' },
    tasks: [
      { title: 'Büro', due_on: '2026-03-31', priority: 'urgent', status: 'todo', tag_ids: ['a'] },
      { due_on: '2026-04-01', status: 'done' },
    ],
    others: ['tag a'],
  },
  {
    name: 'Jira in German, where a column is named as a status',
    rows: [
      'Zusammenfassung,Vorgangsschlüssel,Vorgangs-ID,Status,Priorität,Zugewiesene Person,Erstellt,Erledigt,Übergeordnet',
      'A,AB-1,100,Zu erledigen,Niedrigste,Ada,23.10.2026 11:02,,',
      'B,AB-2,101,Fertig,,,23.10.2026 11:02,24.10.2026 11:02,100',
    ],
    tasks: [
      { id: 'AB-1', status: 'todo', priority: 'low', assignee_id: 'Ada' },
      { status: 'done', parent_id: 'AB-1', completed_at: '2026-10-24T09:02:00.000Z' },
    ],
    others: ['user Ada'],
  },
  {
    name: 'French, with the day first',
    rows: ["Nom de la tâche,Statut,Priorité,Date d'échéance", 'A,Terminée,Haute,01/02/2026'],
    mapping: { date_order: 'dmy' },
    tasks: [{ status: 'done', priority: 'high', due_on: '2026-02-01' }],
  },
  {
    name: 'Japanese',
    rows: ['タスク名,ステータス,優先度,期限,担当者', 'A,進行中,高,2026年3月1日,花子'],
    tasks: [{ status: 'in_progress', priority: 'high', due_on: '2026-03-01', assignee_id: '花子' }],
    others: ['user 花子'],
  },
]

for (const { name, rows, encoding, mapping = {}, tasks, comments = [], others = [], report = [] } of cases)
  t.test(name, async (t) => {
    const path = join(await temporaryFolder(t), 'upload.csv')
    await writeFile(path, Buffer.from(rows.join('\r\n'), encoding))
    const { csv } = await inspect(path)
    t.match(csv?.mapping, mapping)
    const options = { format: 'csv', mapping: csv?.mapping ?? null, fileName: 'upload.csv' } as const
    const zone = { timeZone: 'Europe/Berlin', now: '2026-11-26T10:00:00.000Z' }
    const items = await Array.fromAsync(
      checkDrafts(readFormat(path, { ...options, ...zone }), { isStrict: true, timeZone: zone.timeZone }),
    )
    const records = items.filter((item): item is InterchangeRecord => !('code' in item))
    const found = records.filter(({ type }) => type === 'task')
    t.match(found, tasks)
    t.equal(found.length, tasks.length)
    const commented = records.filter(({ type }) => type === 'comment')
    t.match(commented, comments)
    t.equal(commented.length, comments.length)
    t.strictSame(
      records.flatMap((record) =>
        'name' in record
          ? `${record.type} ${record.name}`
          : 'display_name' in record
            ? `user ${record.display_name}`
            : [],
      ),
      others,
    )
    t.strictSame(
      items.flatMap((item) => ('code' in item ? item.message : [])),
      report,
    )
  })

t.test('words that are not known have a few notes only', async (t) => {
  const path = join(await temporaryFolder(t), 'upload.csv')
  const rows = Array.from({ length: 100 }, (_, index) => `A,word ${index}`)
  await writeFile(path, ['title,priority', ...rows].join('\n'))
  const options = { format: 'csv', mapping: null, fileName: 'upload', timeZone: 'UTC', now: '' } as const
  const items = await Array.fromAsync(readFormat(path, options))
  t.equal(items.length, 121)
  t.match(items.at(-1), { severity: 'note', message: 'Other words are not known: 80 of the tasks.' })
})

t.test('cells that are shown have no U+0000', async (t) => {
  const path = join(await temporaryFolder(t), 'upload.csv')
  await writeFile(path, `title,no\0tes\nA\0B,C\nLong,${'x'.repeat(300)}\n`)
  t.match((await inspect(path)).csv, { names: ['title', 'notes'], rows: [['AB', 'C']] })
})

t.test('a row that does not end is one line of the report', async (t) => {
  const path = join(await temporaryFolder(t), 'upload.csv')
  await writeFile(path, `title,notes\nA,B\nC,"${'x'.repeat(3_000_000)}`)
  const form = { delimiter: ',', encoding: 'utf-8' } as const
  const rows = await Array.fromAsync(rowsOf(createReadStream(path), form))
  t.match(rows, [
    { number: 1, cells: ['title', 'notes'] },
    { number: 2, cells: ['A', 'B'] },
    { number: 3, cells: [], problem: /does not end/ },
  ])
  t.equal(rows.length, 3)
})
