import { createHash, type Hash } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  archiveFormat,
  archiveVersion,
  type Manifest,
  manifestName,
  partNames,
  recordTypes,
} from '../archive.ts'
import { isDay } from '../../domain/shared/dates.ts'
import { canonicalTimeZone } from '../../domain/shared/time-zones.ts'
import { type Draft, type Drafts, isDraft, note, refusal } from '../drafts.ts'
import { type Fields, fieldsOf } from '../fields.ts'
import { UnreadableFile } from '../import-file.ts'
import { bytesOf, type Line, linesIn } from '../lines.ts'
import type { InterchangeRecord, RecordType, RecordTypes, Reminder, ReportLine } from '../records.ts'
import { decode } from '../text-encoding.ts'
import type { Archive } from '../zip.ts'

/** Reads the exports of this service. */

const maxManifest = 1024 ** 2

/** Null if the archive is not an export of this service. */
export const manifestOf = async (archive: Archive): Promise<Pick<Manifest, 'parts'> | null> => {
  if (!archive.has(manifestName)) return null
  const bytes = await bytesOf(await archive.open(manifestName), maxManifest)
  const manifest = bytes && fieldsOf(parsed(decode(bytes).text))
  if (!manifest || manifest.text('format') !== archiveFormat) return null
  if ((manifest.number('version') ?? 0) > archiveVersion)
    throw new UnreadableFile('damaged', 'The export is from a newer version of the service.')
  const parts = manifest.objects('parts').map((part) => ({
    name: part.text('name'),
    size: part.number('size') ?? 0,
    sha256: part.text('sha256'),
  }))
  return { parts }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export async function* readOwnArchive(archive: Archive): Drafts {
  const manifest = await manifestOf(archive)
  if (manifest === null) throw new UnreadableFile('damaged', 'The archive has no manifest.')
  for (const type of recordTypes) {
    const name = partNames[type]
    if (!archive.has(name)) {
      yield note('incomplete_source', `The archive has no ${name}.`, name)
      continue
    }
    const hash = createHash('sha256')
    const lines = linesIn(hashed(await archive.open(name), hash))
    for await (const line of lines) yield withEntry(draftOf(type, line), archive)
    const part = manifest.parts.find((part) => part.name === name)
    if (part?.sha256 !== hash.digest('hex'))
      yield note('invalid', `${name} is not as it was written: its SHA-256 differs from the manifest.`, name)
  }
}

async function* hashed(stream: Readable, hash: Hash): AsyncGenerator<Buffer, void> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    hash.update(chunk)
    yield chunk
  }
}

/** Files that the service had lost are not in the archive. */
const withEntry = (item: Draft | ReportLine, archive: Archive): Draft | ReportLine =>
  isDraft(item) && item.record.type === 'attachment' && !archive.has(item.record.entry ?? '')
    ? { ...item, record: { ...item.record, entry: null } }
    : item

const draftOf = (type: RecordType, { number, bytes }: Line): Draft | ReportLine => {
  const part = partNames[type]
  if (bytes === null)
    return refusal(part, number, { field: null, code: 'too_long', message: 'The line is too long.' })
  const { text, isValid } = decode(bytes)
  if (!isValid)
    return refusal(part, number, { field: null, code: 'encoding', message: 'The line is not UTF-8.' })
  const fields = fieldsOf(parsed(text))
  const id = fields?.id('id') ?? (type === 'relation' ? '' : null)
  if (fields === null || id === null)
    return refusal(part, number, {
      field: null,
      code: 'invalid',
      message: 'The line is not a JSON object with an id.',
    })
  return { record: readers[type](fields, id), part, row: number, faults: fields.faults }
}

type Readers = {
  readonly [Type in RecordType]: (fields: Fields, id: string) => RecordTypes[Type] & InterchangeRecord
}

const readers: Readers = {
  user: (f, id) => ({
    type: 'user',
    id,
    username: f.id('username'),
    display_name: f.text('display_name'),
  }),
  project: (f, id) => ({
    type: 'project',
    id,
    name: f.text('name'),
    description: f.text('description'),
    color: f.id('color'),
    archived_at: f.instant('archived_at'),
    created_at: f.instant('created_at'),
    ...external(f),
  }),
  section: (f, id) => ({
    type: 'section',
    id,
    project_id: f.text('project_id'),
    name: f.text('name'),
  }),
  tag: (f, id) => ({
    type: 'tag',
    id,
    name: f.text('name'),
    color: f.id('color'),
    project_id: f.id('project_id'),
  }),
  task: (f, id) => ({
    type: 'task',
    id,
    title: f.text('title'),
    description: f.text('description'),
    status: f.choice('status', ['todo', 'in_progress', 'done', 'cancelled'], 'todo'),
    priority: f.choice('priority', ['none', 'low', 'medium', 'high', 'urgent'], 'none'),
    start_at: f.instant('start_at'),
    start_on: f.day('start_on'),
    due_at: f.instant('due_at'),
    due_on: f.day('due_on'),
    completed_at: f.instant('completed_at'),
    owner_id: f.id('owner_id'),
    assignee_id: f.id('assignee_id'),
    project_id: f.id('project_id'),
    section_id: f.id('section_id'),
    parent_id: f.id('parent_id'),
    tag_ids: f.list('tag_ids').map(String),
    recurrence: recurrenceOf(f.object('recurrence')),
    series_id: f.id('series_id'),
    recurrence_anchor: anchorOf(f.object('recurrence_anchor')),
    occurrence_number: f.number('occurrence_number'),
    occurrence_at: f.instant('occurrence_at'),
    occurrence_on: f.day('occurrence_on'),
    next_task_id: f.id('next_task_id'),
    reminders: f.objects('reminders').flatMap(reminderOf),
    version: f.number('version') ?? 1,
    created_at: f.instant('created_at'),
    updated_at: f.instant('updated_at'),
    ...external(f),
  }),
  comment: (f, id) => ({
    type: 'comment',
    id,
    task_id: f.text('task_id'),
    author_id: f.id('author_id'),
    author_name: f.id('author_name'),
    body: f.text('body'),
    created_at: f.instant('created_at'),
    edited_at: f.instant('edited_at'),
  }),
  relation: (f) => ({
    type: 'relation',
    task_id: f.text('task_id'),
    kind: f.choice('kind', ['blocks', 'duplicates', 'relates_to'], 'relates_to'),
    other_task_id: f.text('other_task_id'),
    created_at: f.instant('created_at'),
  }),
  attachment: (f, id) => ({
    type: 'attachment',
    id,
    task_id: f.text('task_id'),
    file_name: f.text('file_name'),
    content_type: f.id('content_type'),
    size: f.number('size'),
    sha256: f.id('sha256'),
    uploaded_by: f.id('uploaded_by'),
    created_at: f.instant('created_at'),
    entry: f.id('entry'),
    url: f.id('url'),
  }),
}

const external = (f: Fields) => ({
  metadata: f.object('metadata')?.texts() ?? {},
  external_source: f.id('external_source'),
  external_id: f.id('external_id'),
})

const recurrenceOf = (f: Fields | null) =>
  f && {
    rule: f.text('rule'),
    time_zone: canonicalTimeZone(f.text('time_zone')) ?? 'UTC',
    from: f.choice('from', ['schedule', 'completion'], 'schedule'),
    month_end: f.choice('month_end', ['last_day', 'skip'], 'last_day'),
    missed: f.choice('missed', ['skip', 'each'], 'skip'),
    // Absent before 0.3, where series counted from the due date.
    anchor: f.choice('anchor', ['due', 'start'], 'due'),
  }

const anchorOf = (f: Fields | null) => {
  const date = f && (isDay(f.text('date')) ? f.text('date') : f.instant('date'))
  return f && date ? { of: f.choice('of', ['due', 'start'], 'due'), date, days: f.number('days') } : null
}

const reminderOf = (f: Fields): readonly Reminder[] => {
  const snoozed_until = f.instant('snoozed_until')
  const snooze = snoozed_until === null ? {} : { snoozed_until }
  if (f.has('at')) {
    const at = f.instant('at')
    return at === null ? [] : [{ at, ...snooze }]
  }
  return [
    {
      ...snooze,
      relative_to: f.choice('relative_to', ['due', 'start'], 'due'),
      offset_minutes: Math.round(f.number('offset_minutes') ?? 0),
      time_of_day: /^([01]\d|2[0-3]):[0-5]\d$/.test(f.text('time_of_day')) ? f.text('time_of_day') : null,
    },
  ]
}
