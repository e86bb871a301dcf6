import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { InterchangeRecord, RecordType, RecordTypes, SourceId, TaskRecord } from './records.ts'

/**
 * Holds records in files between reading and writing them, because an archive has them in another order than the one in which they are
 * found. Only the places of tasks are in memory: about 200 bytes each. What is read in batches can have changed in between, so the records
 * are made to fit together here.
 */

/** A task with its place in the manual order of its project, or of its owner. */
export type PlacedTask = TaskRecord & { readonly position: string }

/** Any other record. */
type OtherRecord = Exclude<InterchangeRecord, { readonly type: 'task' }>

export interface Spool {
  /** Bytes that were added. */
  readonly size: () => number
  /** Adds records. One with an id that was added before is left out. */
  add(records: readonly (OtherRecord | PlacedTask)[]): Promise<void>
  /** Ends adding, and puts the tasks in order: parents before their subtasks, each level in the manual order. */
  arrange(): Promise<void>
  /** The records of a type; tasks only after `arrange`. */
  read<Type extends RecordType>(type: Type): AsyncIterable<RecordTypes[Type]>
  /** Deletes the files. */
  remove(): Promise<void>
}

/** Where a task is in the file, and in the order. */
interface Place {
  readonly id: SourceId
  readonly parentId: SourceId | null
  readonly order: string
  readonly offset: number
  readonly length: number
}

const arranged = 'arranged-tasks'

/** Bytes that are written at a time. */
const chunkSize = 65_536

/** Makes a spool in a new folder. */
export const createSpool = async (folder: string): Promise<Spool> => {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const pathOf = (name: string): string => join(folder, `${name}.jsonl`)
  const files = new Map<RecordType, FileHandle>()
  const places: Place[] = []
  const added = new Map<RecordType, Set<SourceId>>()
  const roots = new Set<SourceId>()
  let size = 0
  let taskOffset = 0

  const has = (type: RecordType, id: SourceId | null): boolean =>
    id !== null && added.get(type)?.has(id) === true

  const fileOf = async (type: RecordType): Promise<FileHandle> => {
    const file = files.get(type) ?? (await open(pathOf(type), 'w', 0o600))
    files.set(type, file)
    return file
  }

  /** Whether a record is new. */
  const note = (record: OtherRecord | PlacedTask): boolean => {
    if (record.type === 'relation') return true
    const ids = added.get(record.type) ?? new Set()
    added.set(record.type, ids)
    if (ids.has(record.id)) return false
    ids.add(record.id)
    return true
  }

  const lineOf = (record: OtherRecord | PlacedTask): string => {
    const line = `${JSON.stringify(record)}\n`
    const length = Buffer.byteLength(line)
    size += length
    if (record.type === 'task') {
      const { id, parent_id: parentId, project_id, position } = record
      places.push({
        id,
        parentId,
        order: `${project_id ?? ''} ${position} ${id}`,
        offset: taskOffset,
        length,
      })
      taskOffset += length
    }
    return line
  }

  /** A task without what is not in the export: it names only records that are. */
  const whole = (task: PlacedTask): TaskRecord => {
    const { position: _, ...record } = task
    const ifThere = (type: RecordType, id: SourceId | null): SourceId | null => (has(type, id) ? id : null)
    const project_id = ifThere('project', record.project_id)
    return {
      ...record,
      project_id,
      section_id: project_id === null ? null : ifThere('section', record.section_id),
      parent_id: roots.has(record.id) ? null : record.parent_id,
      next_task_id: ifThere('task', record.next_task_id),
      tag_ids: record.tag_ids.filter((id) => has('tag', id)),
    }
  }

  /** A comment, attachment or relation can be of a task that was read in another batch, or not at all. */
  const isWhole = (record: InterchangeRecord): boolean => {
    if (record.type === 'relation') return has('task', record.task_id) && has('task', record.other_task_id)
    return record.type === 'comment' || record.type === 'attachment' ? has('task', record.task_id) : true
  }

  return {
    size: () => size,
    async add(records) {
      const wanted = records.filter(note)
      for (const [type, recordsOfType] of Map.groupBy(wanted, (record) => record.type))
        await (await fileOf(type)).appendFile(recordsOfType.map(lineOf).join(''))
    },
    async arrange() {
      for (const file of files.values()) await file.close()
      if (places.length === 0) return
      const [source, target] = [await open(pathOf('task')), await open(pathOf(arranged), 'w', 0o600)]
      try {
        let chunk = ''
        for (const { offset, length } of inOrder(places, roots)) {
          const { buffer } = await source.read({ buffer: Buffer.alloc(length), position: offset })
          chunk += `${JSON.stringify(whole(JSON.parse(buffer.toString()) as PlacedTask))}\n`
          if (chunk.length < chunkSize) continue
          await target.appendFile(chunk)
          chunk = ''
        }
        await target.appendFile(chunk)
      } finally {
        await Promise.all([source.close(), target.close()])
      }
    },
    async *read<Type extends RecordType>(type: Type) {
      if (!files.has(type)) return
      const file = await open(pathOf(type === 'task' ? arranged : type))
      for await (const line of linesOf(file)) {
        const record = JSON.parse(line) as RecordTypes[Type]
        if (isWhole(record)) yield record
      }
    },
    async remove() {
      await Promise.allSettled([...files.values()].map((file) => file.close()))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The lines of a file. Only a line feed ends one: JSON has no other, but can have the line separators of Unicode. Closes the file. */
async function* linesOf(file: FileHandle): AsyncGenerator<string, void> {
  let rest = ''
  for await (const chunk of file.createReadStream({ encoding: 'utf8' })) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

/**
 * Parents before their subtasks. At the top, which is noted in `roots`, are those without a parent that is there. If tasks were moved while
 * they were read, their parents can form a cycle: one of them is then at the top.
 */
function* inOrder(places: readonly Place[], roots: Set<SourceId>): Generator<Place, void> {
  const ids = new Set(places.map(({ id }) => id))
  const isTop = ({ parentId }: Place): boolean => parentId === null || !ids.has(parentId)
  const children = Map.groupBy(places, ({ parentId }) => parentId)
  const left = new Set(ids)
  const walk = function* (tops: readonly Place[]): Generator<Place, void> {
    const stack = lastFirst(tops)
    for (const { id } of stack) roots.add(id)
    for (let place = stack.pop(); place !== undefined; place = stack.pop()) {
      if (!left.delete(place.id)) continue
      yield place
      for (const child of lastFirst(children.get(place.id) ?? [])) stack.push(child)
    }
  }
  yield* walk(places.filter(isTop))
  for (const place of places) if (left.has(place.id)) yield* walk([place])
}

const lastFirst = (places: readonly Place[]): Place[] =>
  places.toSorted((one, other) => (one.order < other.order ? 1 : -1))
