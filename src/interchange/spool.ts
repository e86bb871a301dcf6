import { once } from 'node:events'
import { createReadStream, createWriteStream, type WriteStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { InterchangeRecord, RecordType, RecordTypes, SourceId, TaskRecord } from './records.ts'

/**
 * Holds records in files between reading and writing them, because an archive has them in another order than the one in which they are
 * found. Only the places of tasks are in memory: about 200 bytes each.
 */

/** A task with its place in the manual order of its project, or of its owner. */
export type PlacedTask = TaskRecord & { readonly position: string }

/** Any other record. */
type OtherRecord = Exclude<InterchangeRecord, { readonly type: 'task' }>

export interface Spool {
  /** Bytes that were added. */
  readonly size: () => number
  /** Adds records, each with its id once. */
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

const sorted = 'sorted-tasks'

/** Makes a spool in a new folder. */
export const createSpool = async (folder: string): Promise<Spool> => {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const pathOf = (name: string): string => join(folder, `${name}.jsonl`)
  const files = new Map<RecordType, WriteStream>()
  const places: Place[] = []
  let ids: ReadonlySet<SourceId> = new Set()
  const projects = new Set<SourceId>()
  let size = 0
  let taskOffset = 0

  const fileOf = (type: RecordType): WriteStream => {
    const file = files.get(type) ?? createWriteStream(pathOf(type), { mode: 0o600 })
    files.set(type, file)
    return file
  }

  const lineOf = (record: OtherRecord | PlacedTask): string => {
    const line = `${JSON.stringify(record)}\n`
    const length = Buffer.byteLength(line)
    size += length
    if (record.type === 'project') projects.add(record.id)
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
    const isPlaced = record.project_id !== null && projects.has(record.project_id)
    const ifThere = (id: SourceId | null): SourceId | null => (id !== null && ids.has(id) ? id : null)
    return {
      ...record,
      project_id: isPlaced ? record.project_id : null,
      section_id: isPlaced ? record.section_id : null,
      parent_id: ifThere(record.parent_id),
      next_task_id: ifThere(record.next_task_id),
    }
  }

  return {
    size: () => size,
    async add(records) {
      for (const [type, ofType] of Map.groupBy(records, (record) => record.type)) {
        const file = fileOf(type)
        if (!file.write(ofType.map(lineOf).join(''))) await once(file, 'drain')
      }
    },
    async arrange() {
      for (const file of files.values()) {
        file.end()
        await once(file, 'close')
      }
      if (places.length === 0) return
      ids = new Set(places.map(({ id }) => id))
      const source = await open(pathOf('task'))
      const target = createWriteStream(pathOf(sorted), { mode: 0o600 })
      try {
        for (const { offset, length } of inOrder(places, ids)) {
          const { buffer } = await source.read({ buffer: Buffer.alloc(length), position: offset })
          const line = JSON.stringify(whole(JSON.parse(buffer.toString()) as PlacedTask))
          if (!target.write(`${line}\n`)) await once(target, 'drain')
        }
      } finally {
        await source.close()
        target.end()
        await once(target, 'close')
      }
    },
    async *read<Type extends RecordType>(type: Type) {
      if (!files.has(type)) return
      const input = createReadStream(pathOf(type === 'task' ? sorted : type))
      for await (const line of createInterface({ input })) {
        const record = JSON.parse(line) as RecordTypes[Type]
        // The other task of a relation can be outside of what is exported.
        if (record.type !== 'relation' || ids.has(record.other_task_id)) yield record
      }
    },
    async remove() {
      for (const file of files.values()) file.destroy()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Parents before their subtasks. One whose parent is not there is at the top. */
function* inOrder(places: readonly Place[], ids: ReadonlySet<SourceId>): Generator<Place, void> {
  const isBefore = (one: Place, other: Place): number => (one.order < other.order ? -1 : 1)
  const children = Map.groupBy(places, ({ parentId }) =>
    parentId !== null && ids.has(parentId) ? parentId : null,
  )
  const lastFirst = (parentId: SourceId | null): Place[] =>
    (children.get(parentId) ?? []).toSorted(isBefore).toReversed()
  const stack = lastFirst(null)
  for (let place = stack.pop(); place !== undefined; place = stack.pop()) {
    yield place
    stack.push(...lastFirst(place.id))
  }
}
