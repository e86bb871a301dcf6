import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Ajv } from 'ajv'
import t from 'tap'
import { ZipFile } from 'yazl'
import {
  type ExportSource,
  type Manifest,
  partNames,
  recordTypes,
  writeArchive,
} from '../../src/interchange/archive.ts'
import { loadContract } from '../../src/contract/contract.ts'
import { checkDrafts } from '../../src/interchange/check.ts'
import { readFormat } from '../../src/interchange/formats/formats.ts'
import { readOwnArchive } from '../../src/interchange/formats/own-archive.ts'
import { csvFields, UnreadableFile } from '../../src/interchange/import-file.ts'
import type { InterchangeRecord, RecordType, RecordTypes, ReportLine } from '../../src/interchange/records.ts'
import { readCell, writeCell } from '../../src/interchange/table-cells.ts'
import { openArchive } from '../../src/interchange/zip.ts'
import type { Teardown } from '../../scripts/run/run-to-end.ts'
import {
  commentRecord,
  fromArray,
  projectRecord,
  recurringRecord,
  taskRecord,
} from '../fixture/interchange.ts'
import { temporaryFolder } from '../fixture/process.ts'

const content = Buffer.from('Minutes of the meeting')
const sha256 = createHash('sha256').update(content).digest('hex')
const at = '2026-03-01T10:00:00.000Z'

const stamps = { owner_id: 'u1', created_at: at, updated_at: at }

const records: readonly InterchangeRecord[] = [
  { type: 'user', id: 'u1', username: 'ada', display_name: 'Ada' },
  { type: 'user', id: 'u2', username: 'grace', display_name: 'Grace' },
  projectRecord({
    id: 'p1',
    name: 'Ünïcode, "quoted"',
    color: '#1560f0',
    archived_at: at,
    created_at: at,
    metadata: { cost_center: '42' },
    external_source: 'jira',
    external_id: 'X',
  }),
  { type: 'section', id: 's1', project_id: 'p1', name: 'Later' },
  { type: 'tag', id: 't1', name: 'home, sweet', color: '#00ff00', project_id: 'p1' },
  { type: 'tag', id: 't2', name: 'own', color: null, project_id: null },
  taskRecord({
    id: 'a',
    title: '=1+1',
    description: 'Two\nlines',
    status: 'done',
    priority: 'high',
    start_on: '2026-02-27',
    due_on: '2026-02-28',
    completed_at: at,
    owner_id: 'u1',
    assignee_id: 'u2',
    project_id: 'p1',
    section_id: 's1',
    tag_ids: ['t1', 't2'],
    reminders: [
      { at },
      { relative_to: 'due', offset_minutes: -1440, time_of_day: '09:00', snoozed_until: at },
    ],
    metadata: { a: 'b' },
    external_source: 'jira',
    external_id: 'X-1',
    version: 9,
    created_at: at,
    updated_at: at,
  }),
  taskRecord({ id: 'b', project_id: 'p1', parent_id: 'a', ...stamps }),
  recurringRecord({ id: 'c', due_at: at, ...stamps }, { rule: 'FREQ=MONTHLY', time_zone: 'Asia/Tokyo' }),
  commentRecord({
    id: 'k',
    task_id: 'a',
    author_id: 'u2',
    author_name: 'Grace',
    created_at: at,
    edited_at: at,
  }),
  { type: 'relation', task_id: 'a', kind: 'blocks', other_task_id: 'c', created_at: at },
  {
    type: 'attachment',
    id: 'f1',
    task_id: 'a',
    file_name: 'minutes.txt',
    content_type: 'text/plain',
    size: content.length,
    sha256,
    uploaded_by: 'u1',
    created_at: at,
    entry: `files/${sha256}`,
    url: null,
  },
]

const sourceOf = (
  records: readonly InterchangeRecord[],
  changes: Partial<ExportSource> = {},
): ExportSource => {
  const all =
    <Type extends RecordType>(type: Type) =>
    () =>
      fromArray(
        records.filter((record): record is InterchangeRecord & RecordTypes[Type] => record.type === type),
      )
  return {
    user: all('user'),
    project: all('project'),
    section: all('section'),
    tag: all('tag'),
    task: all('task'),
    comment: all('comment'),
    relation: all('relation'),
    attachment: all('attachment'),
    file: () => Promise.resolve(Readable.from([content])),
    ...changes,
  }
}

const facts = {
  createdAt: at,
  generator: 'Test 1.0',
  timeZone: 'Europe/Berlin',
  contract: loadContract().document,
}

const written = async (t: Teardown, source: ExportSource): Promise<string> => {
  const path = join(await temporaryFolder(t), 'export.zip')
  await writeFile(path, writeArchive(source, facts))
  return path
}

const read = async (path: string): Promise<readonly (InterchangeRecord | ReportLine)[]> => {
  const archive = await openArchive(path)
  try {
    return await Array.fromAsync(checkDrafts(readOwnArchive(archive), { isStrict: true, timeZone: 'UTC' }))
  } finally {
    archive.close()
  }
}

/** With its byte order mark, if it has one. */
const partOf = async (path: string, name: string): Promise<string> => {
  const archive = await openArchive(path)
  const part = await buffer(await archive.open(name))
  archive.close()
  return String(part)
}

t.test('records that are written are read again as they were', async (t) => {
  const path = await written(t, sourceOf(records))
  t.strictSame(await read(path), records)

  const manifest = JSON.parse(await partOf(path, 'manifest.json')) as Manifest
  t.strictSame(manifest.counts, {
    users: 2,
    projects: 1,
    sections: 1,
    tags: 2,
    tasks: 3,
    comments: 1,
    relations: 1,
    attachments: 1,
    files: 1,
  })
  for (const { name, size, sha256 } of manifest.parts) {
    const part = Buffer.from(await partOf(path, name))
    t.equal(createHash('sha256').update(part).digest('hex'), sha256, name)
    t.equal(part.length, size, name)
  }
  t.equal(await partOf(path, `files/${sha256}`), String(content))

  const [header, first, second] = (await partOf(path, 'tasks.csv')).split('\r\n')
  t.equal(header, `\uFEFF${csvFields.join()}`, 'spreadsheets see that it is UTF-8')
  t.match(
    first,
    `a,'=1+1,"Two\nlines",done,high,2026-02-27,2026-02-28,${at},${at},"Ünïcode, ""quoted""",Later,`,
  )
  t.match(first, '"""home, sweet"",own",grace,')
  t.match(second, /^b,.*,a,,,,$/)
  const calendar = await partOf(path, 'tasks.ics')
  t.match(calendar, /RELATED-TO;RELTYPE=PARENT:a/)
  t.match(calendar, /RRULE:FREQ=MONTHLY;BYMONTHDAY=1\r\n/)
})

t.test('what a spreadsheet would calculate is text in a table, and is read as it was', async (t) => {
  for (const start of ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r']) {
    const text = `${start}1+1`
    t.equal(writeCell(text), `'${text}`)
    for (const cell of [text, `'${text}`]) t.equal(readCell(writeCell(cell)), cell)
  }
  t.equal(writeCell("'quoted'"), "'quoted'")
})

t.test('the table and the calendar in an export can be imported too', async (t) => {
  const path = await written(t, sourceOf(records))
  const tasksIn = async (format: 'csv' | 'icalendar', part: string) => {
    const file = `${path}.${part}`
    await writeFile(file, await partOf(path, part))
    const options = { format, mapping: null, fileName: part, timeZone: 'UTC', now: at }
    const items = checkDrafts(readFormat(file, options), { isStrict: true, timeZone: 'UTC' })
    return (await Array.fromAsync(items)).filter((item) => 'code' in item || item.type === 'task')
  }
  const common = [
    {
      id: 'a',
      title: '=1+1',
      description: 'Two\nlines',
      status: 'done',
      priority: 'high',
      due_on: '2026-02-28',
    },
    { id: 'b', parent_id: 'a', status: 'todo' },
  ]
  const recurring = { due_at: at, recurrence: { rule: 'FREQ=MONTHLY' } }
  t.match(await tasksIn('csv', 'tasks.csv'), [...common, { id: 'c', ...recurring }])
  t.match((await tasksIn('csv', 'tasks.csv'))[0], {
    tag_ids: ['home, sweet', 'own'],
    project_id: 'Ünïcode, "quoted"',
  })
  const found = await tasksIn('icalendar', 'tasks.ics')
  t.match(found, [
    common[0],
    common[1],
    {
      id: 'series-c',
      due_at: at,
      recurrence: { rule: 'FREQ=MONTHLY;BYMONTHDAY=1', time_zone: 'Asia/Tokyo' },
    },
  ])
})

t.test('the table in an export says which date a task recurs by', async (t) => {
  const dates = { start_on: '2026-03-02', due_on: '2026-03-06' }
  const rule = 'FREQ=WEEKLY;INTERVAL=2'
  const path = await written(
    t,
    sourceOf([
      recurringRecord({ id: 'd', ...dates }, { rule, anchor: 'due' }),
      recurringRecord({ id: 'e', ...dates }, { rule, anchor: 'start' }),
    ]),
  )
  const file = `${path}.csv`
  await writeFile(file, await partOf(path, 'tasks.csv'))
  const options = { format: 'csv', mapping: null, fileName: 'tasks.csv', timeZone: 'UTC', now: at } as const
  const items = checkDrafts(readFormat(file, options), { isStrict: true, timeZone: 'UTC' })
  t.match(await Array.fromAsync(items), [
    { id: 'd', ...dates, recurrence: { rule, anchor: 'due' } },
    { id: 'e', ...dates, recurrence: { rule, anchor: 'start' } },
  ])
})

t.test('lines are as their schemas say, which are made from the contract', async (t) => {
  const path = await written(t, sourceOf(records))
  const schemas = JSON.parse(await partOf(path, 'schemas.json')) as Record<string, object>
  const ajv = new Ajv({ strict: true, allowUnionTypes: true, validateFormats: false })
  for (const type of recordTypes) {
    const isValid = ajv.compile(schemas[type] ?? false)
    const lines = (await partOf(path, partNames[type])).trim().split('\n')
    for (const line of lines) t.ok(isValid(JSON.parse(line)), type, { errors: isValid.errors })
    t.notOk(isValid({ type, id: 'a' }), `${type} without the rest`)
  }
  t.match(schemas.task, { properties: { title: { maxLength: 500 }, due_on: { type: ['string', 'null'] } } })
})

t.test('lines that are not as they should be are refused, and named', async (t) => {
  const lines = [
    '{"id":"a","title":"Kept","tag_ids":["t9"],"project_id":null}',
    '{"id":"b","title":" "}',
    'not JSON',
    '{"title":"Without an id"}',
    '{"id":"c","title":"Date","due_on":"2026-02-30"}',
    '{"id":"a","title":"Twice"}',
    '{"id":"d","title":"Below","parent_id":"b"}',
    `{"id":"e","title":"${'x'.repeat(501)}"}`,
    `{"id":"f","title":"${randomBytes(1_500_000).toString('hex')}"}`,
    Buffer.from('7b226964223a2267222c227469746c65223a22ff227d', 'hex'),
  ]
  const path = await zipOf(t, {
    'manifest.json': Buffer.from('{"format":"taskwright-export","version":1,"parts":null}'),
    'tasks.jsonl': Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')])),
  })
  const found = (await read(path)).filter((item) => !('code' in item) || item.severity !== 'note')
  t.match(found, [
    { type: 'task', id: 'a', tag_ids: [] },
    { severity: 'altered', row: 1, code: 'unknown_reference', field: 'tag' },
    { severity: 'refused', row: 2, code: 'invalid', field: 'title' },
    { severity: 'refused', row: 3, code: 'invalid' },
    { severity: 'refused', row: 4, code: 'invalid' },
    { severity: 'refused', row: 5, code: 'invalid_value', field: 'due_on' },
    { severity: 'refused', row: 6, code: 'duplicate' },
    { severity: 'refused', row: 8, code: 'too_long', field: 'title' },
    { severity: 'refused', row: 9, code: 'too_long' },
    { severity: 'refused', row: 10, code: 'encoding' },
    { type: 'task', id: 'd', parent_id: null },
    { severity: 'altered', row: 7, code: 'unknown_reference', field: 'parent' },
  ])
  t.equal(found.length, 12)
})

t.test('a series counts from the date that the archive says, and before 0.3 from the due date', async (t) => {
  const dates = { start_on: '2026-03-02', due_on: '2026-03-06' }
  const recurrence = {
    rule: 'FREQ=WEEKLY',
    time_zone: 'UTC',
    from: 'schedule',
    month_end: 'skip',
    missed: 'skip',
  }
  const whole = { series_id: 's', occurrence_number: 1, occurrence_on: '2026-03-06' }
  const tasks = [
    { ...dates, recurrence },
    { ...dates, recurrence: { ...recurrence, anchor: 'start' } },
    { ...dates, recurrence, ...whole, recurrence_anchor: { of: 'due', date: '2026-03-06' } },
    { ...dates, recurrence, ...whole, recurrence_anchor: { of: 'due', date: '2026-03-06', days: 1e9 } },
    { ...dates, recurrence, ...whole, recurrence_anchor: { of: 'due', date: '2026-03-06', days: -4 } },
  ]
  const path = await zipOf(t, {
    'manifest.json': Buffer.from('{"format":"taskwright-export","version":1,"parts":null}'),
    'tasks.jsonl': Buffer.from(
      tasks.map((task, id) => `${JSON.stringify({ id: `${id}`, title: 'A', ...task })}\n`).join(''),
    ),
  })
  const of = { of: 'due', date: '2026-03-06' }
  const found = (await read(path)).filter((item) => !('code' in item))
  t.match(found, [
    { recurrence: { anchor: 'due' }, recurrence_anchor: null },
    { recurrence: { anchor: 'start' }, recurrence_anchor: null },
    { recurrence_anchor: { ...of, days: null } },
    { recurrence_anchor: { ...of, days: null } },
    { recurrence_anchor: { ...of, days: -4 } },
  ])
})

t.test('a changed part is noted', async (t) => {
  const path = await zipOf(t, {
    'manifest.json': Buffer.from(
      `{"format":"taskwright-export","version":1,"parts":[{"name":"tasks.jsonl","sha256":"00"}]}`,
    ),
    'tasks.jsonl': Buffer.from('{"id":"a","title":"A"}\n'),
  })
  const notes = (await read(path)).filter((item) => 'code' in item)
  t.ok(notes.some(({ code, part }) => code === 'invalid' && part === 'tasks.jsonl'))
  const newer = await zipOf(t, { 'manifest.json': Buffer.from('{"format":"taskwright-export","version":2}') })
  await t.rejects(read(newer), { name: 'UnreadableFile', why: 'damaged' })
})

t.test('lost files are in the manifest, and a failing source fails the archive', async (t) => {
  const path = await written(t, sourceOf(records, { file: () => Promise.resolve(null) }))
  t.strictSame((JSON.parse(await partOf(path, 'manifest.json')) as Manifest).missing_files, [sha256])
  t.match((await read(path)).slice(-1), [{ code: 'remote_file' }])

  const failing: Partial<ExportSource> = {
    async *comment() {
      yield commentRecord({ id: 'k', task_id: 'a' })
      await Promise.reject(new Error('The right was lost'))
    },
  }
  await t.rejects(buffer(writeArchive(sourceOf(records, failing), facts)), { message: 'The right was lost' })
  const broken = (): Promise<Readable> =>
    Promise.resolve(new PassThrough().destroy(new Error('The disk broke')))
  await t.rejects(buffer(writeArchive(sourceOf(records, { file: broken }), facts)), {
    message: 'The disk broke',
  })
})

t.test('the source is left when the reader of the archive goes', async (t) => {
  const left = Promise.withResolvers<number>()
  const endless: Partial<ExportSource> = {
    async *task() {
      let count = 0
      try {
        for (;;) {
          count += 1
          yield await Promise.resolve(
            taskRecord({ id: `${count}`, description: `${Math.random()}`.repeat(50) }),
          )
        }
      } finally {
        left.resolve(count)
      }
    },
  }
  const archive = writeArchive(sourceOf([], endless), facts)
  let length = 0
  for await (const chunk of archive as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > 100_000) break
  }
  // Nothing was read far ahead either.
  t.ok((await left.promise) < 100_000)
})

/** A zip of these entries. `damage` changes its bytes. */
const zipOf = async (
  t: Teardown,
  entries: Readonly<Record<string, Buffer>>,
  damage: (bytes: Buffer) => Buffer = (bytes) => bytes,
): Promise<string> => {
  const zip = new ZipFile()
  for (const [name, bytes] of Object.entries(entries)) zip.addBuffer(bytes, name)
  zip.end()
  const path = join(await temporaryFolder(t), 'made.zip')
  await writeFile(path, damage(await buffer(zip.outputStream)))
  return path
}

const renamed =
  (from: string, to: string) =>
  (bytes: Buffer): Buffer =>
    Buffer.from(bytes.toString('latin1').replaceAll(from, to), 'latin1')

/** Where the central directory says that the second entry is, becomes where the first one is. */
const overlapped = (bytes: Buffer): Buffer => {
  const directory = bytes.lastIndexOf(Buffer.from('PK\u0001\u0002', 'latin1'))
  bytes.writeUInt32LE(0, directory + 42)
  return bytes
}

const encrypted = (bytes: Buffer): Buffer => {
  const directory = bytes.lastIndexOf(Buffer.from('PK\u0001\u0002', 'latin1'))
  bytes.writeUInt16LE(bytes.readUInt16LE(directory + 8) | 1, directory + 8)
  return bytes
}

t.test('openArchive', async (t) => {
  const small = { 'a.txt': Buffer.from('A'), 'b.txt': Buffer.from('B') }
  const cases = [
    { name: 'a bomb', entries: { zeros: Buffer.alloc(20 * 1024 ** 2) }, why: 'unsafe' },
    { name: 'overlapping entries', entries: small, damage: overlapped, why: 'unsafe' },
    { name: 'a name twice', entries: small, damage: renamed('b.txt', 'a.txt'), why: 'unsafe' },
    {
      name: 'a way out',
      entries: { 'xx/a.txt': Buffer.from('A') },
      damage: renamed('xx/', '../'),
      why: 'unsafe',
    },
    {
      name: 'an absolute name',
      entries: { 'x/a.txt': Buffer.from('A') },
      damage: renamed('x/', '//'),
      why: 'unsafe',
    },
    { name: 'an encrypted entry', entries: small, damage: encrypted, why: 'unsafe' },
    {
      name: 'a cut archive',
      entries: small,
      damage: (bytes: Buffer) => bytes.subarray(0, -30),
      why: 'damaged',
    },
    { name: 'no archive', entries: small, damage: () => Buffer.from('PK'), why: 'damaged' },
  ] as const
  for (const { name, entries, why, ...rest } of cases) {
    const path = await zipOf(t, entries, 'damage' in rest ? rest.damage : undefined)
    await t.rejects(openArchive(path), { name: 'UnreadableFile', why }, name)
  }

  const commented = new ZipFile()
  const options = { compress: false, fileComment: 'x'.repeat(65_000) }
  for (let index = 0; index < 1_040; index += 1) commented.addBuffer(Buffer.alloc(0), String(index), options)
  commented.end()
  const directory = join(await temporaryFolder(t), 'made.zip')
  await writeFile(directory, commented.outputStream)
  await t.rejects(openArchive(directory), { name: 'UnreadableFile', why: 'too_large' }, 'a large directory')

  // The size in the central directory is smaller than the file: reading it fails rather than inflating it.
  const path = await zipOf(t, { zeros: Buffer.alloc(5000) }, (bytes) => {
    bytes.writeUInt32LE(10, bytes.lastIndexOf(Buffer.from('PK\u0001\u0002', 'latin1')) + 24)
    return bytes
  })
  const archive = await openArchive(path)
  await t.rejects(archive.open('zeros').then(buffer))
  await t.rejects(archive.open('missing'), UnreadableFile)
  archive.close()
  t.ok((await readFile(path)).length > 0)
})

t.test('each type of record has a part', (t) => {
  t.strictSame(Object.keys(partNames), [...new Set(records.map(({ type }) => type))])
  t.end()
})
