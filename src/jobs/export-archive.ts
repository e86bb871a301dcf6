import type { Readable } from 'node:stream'
import type { Database } from '../db/engine/client.ts'
import {
  type ExportScope,
  readAttachments,
  readComments,
  readProjects,
  readRelations,
  readSections,
  readTags,
  readTasks,
  readUsers,
  type StoredAttachment,
} from '../db/interchange/export-records.ts'
import { type ExportSource, writeArchive } from '../interchange/archive.ts'
import type { AttachmentRecord, InterchangeRecord } from '../interchange/records.ts'
import type { PlacedTask, Spool } from '../interchange/spool.ts'
import { FileMissing, type Storage, type StoredFile } from '../storage/storage.ts'

/** Makes the archive of an export: reads the records in batches, then writes them with the attached files. */

export interface ArchiveDeps {
  readonly db: Database
  readonly storage: Storage
  /** Name and version of the service. */
  readonly generator: string
  /** The OpenAPI document, from which the schemas of the records are made. */
  readonly contract: Readonly<Record<string, unknown>>
}

/** An archive in progress. */
export interface ArchiveWork {
  readonly scope: ExportScope & {
    /** Of the user. */
    readonly timeZone: string
  }
  /** Aborted when it is not to be made any more. */
  readonly signal: AbortSignal
  /** Records that were read and written. */
  readonly progress: { done: number; total: number | null }
  readonly spool: Spool
}

/** The bytes of an archive, and bounds of their number. */
export interface Archive {
  readonly content: Readable
  readonly minBytes: number
  readonly maxBytes: number
}

/** Where the attached files are stored, by digest, and their sizes. */
type AttachedFiles = ReadonlyMap<string, StoredFile>

/** Bytes that an entry of an archive takes besides its content, and more. */
const entryBytes = 1_024

/** Reads what an archive has, and begins to write it. Whoever reads it destroys it in the end. */
export const startArchive = async (deps: ArchiveDeps, work: ArchiveWork): Promise<Archive> => {
  const { scope, spool, progress, signal } = work
  const files = await collect(deps.db, work)
  await spool.arrange()
  signal.throwIfAborted()
  progress.total = progress.done * 2
  const content = writeArchive(sourceOf(deps.storage, work, files), {
    createdAt: new Date().toISOString(),
    generator: deps.generator,
    contract: deps.contract,
    timeZone: scope.timeZone,
  })
  const cut = (): void => void content.destroy(new Error('The export was stopped'))
  signal.addEventListener('abort', cut)
  content.once('close', () => signal.removeEventListener('abort', cut))
  // The reader reports them, unless it has failed before.
  content.on('error', () => undefined)
  const attached = [...files.values()].reduce((sum, { size }) => sum + size + entryBytes, 0)
  // The tasks are in it three times, in formats that are no longer than the records.
  return { content, minBytes: attached, maxBytes: attached + 4 * spool.size() + 2 ** 20 }
}

/** Reads all records into the spool, and returns the attached files. */
const collect = async (db: Database, work: ArchiveWork): Promise<AttachedFiles> => {
  const { scope } = work
  const files = new Map<string, StoredFile>()
  const named = new Set<string>()
  const usedTags = new Set<string>()

  for await (const projects of readProjects(db, scope)) {
    await add(work, projects)
    const ids = projects.map(({ id }) => id)
    for await (const sections of readSections(db, scope, ids)) await add(work, sections)
  }
  for await (const tasks of readTasks(db, scope)) {
    await add(work, tasks)
    name(
      named,
      tasks.flatMap(({ owner_id, assignee_id }) => [owner_id, assignee_id]),
    )
    name(
      usedTags,
      tasks.flatMap(({ tag_ids }) => tag_ids),
    )
    const ids = tasks.map(({ id }) => id)
    for await (const comments of readComments(db, scope, ids)) {
      await add(work, comments)
      name(
        named,
        comments.map(({ author_id }) => author_id),
      )
    }
    for await (const relations of readRelations(db, scope, ids)) await add(work, relations)
    for await (const attachments of readAttachments(db, scope, ids)) {
      for (const { storage_key: key, sha256, size } of attachments) files.set(sha256, { key, sha256, size })
      await add(work, attachments.map(withoutPlace))
      name(
        named,
        attachments.map(({ uploaded_by }) => uploaded_by),
      )
    }
  }
  for await (const tags of readTags(db, scope)) {
    const projectTags = tags.filter(
      ({ id, project_id }) => usedTags.has(id) || project_id === scope.projectId,
    )
    await add(work, scope.projectId === null ? tags : projectTags)
  }
  for await (const users of readUsers(db, scope, [...named])) await add(work, users)
  return files
}

/** Where a file is stored is nobody's business. */
const withoutPlace = (stored: StoredAttachment): AttachmentRecord => {
  const { storage_key: _, ...record } = stored
  return record
}

const name = (names: Set<string>, ids: readonly (string | null)[]): void => {
  for (const id of ids) if (id !== null) names.add(id)
}

const add = async (
  { spool, progress, signal }: ArchiveWork,
  records: readonly (Exclude<InterchangeRecord, { readonly type: 'task' }> | PlacedTask)[],
): Promise<void> => {
  signal.throwIfAborted()
  await spool.add(records)
  progress.done += records.length
}

/** The records of the spool. The first reading of each type counts as progress. */
const sourceOf = (storage: Storage, { spool, progress }: ArchiveWork, files: AttachedFiles): ExportSource => {
  const counted = new Set<string>()
  async function* count<R>(type: string, records: AsyncIterable<R>): AsyncGenerator<R, void> {
    const isFirst = !counted.has(type)
    counted.add(type)
    for await (const record of records) {
      if (isFirst) progress.done += 1
      yield record
    }
  }
  return {
    user: () => count('user', spool.read('user')),
    project: () => count('project', spool.read('project')),
    section: () => count('section', spool.read('section')),
    tag: () => count('tag', spool.read('tag')),
    task: () => count('task', spool.read('task')),
    comment: () => count('comment', spool.read('comment')),
    relation: () => count('relation', spool.read('relation')),
    attachment: () => count('attachment', spool.read('attachment')),
    file: (sha256) => openFile(storage, files.get(sha256)),
  }
}

/** Null if the file is lost: it was deleted meanwhile, or the storage lacks it. */
const openFile = async (storage: Storage, file: StoredFile | undefined): Promise<Readable | null> => {
  try {
    return file === undefined ? null : await storage.open(file.key)
  } catch (error) {
    if (error instanceof FileMissing) return null
    throw error
  }
}
