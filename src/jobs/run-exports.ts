import type { FastifyBaseLogger } from 'fastify'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Database } from '../db/engine/client.ts'
import { newId } from '../db/engine/ids.ts'
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
} from '../db/export-records.ts'
import {
  failExport,
  finishExport,
  releaseExport,
  renewExport,
  takeExport,
  type TakenExport,
} from '../db/exports.ts'
import { type ExportSource, writeArchive } from '../interchange/archive.ts'
import type { AttachmentRecord, InterchangeRecord } from '../interchange/records.ts'
import { createSpool, type PlacedTask, type Spool } from '../interchange/spool.ts'
import { FileMissing, type Storage, StorageFull, type StoredFile } from '../storage/storage.ts'

/** Makes the files of exports: reads the records in batches, then writes them with the attached files into one archive. */

export interface ExportDeps {
  readonly db: Database
  readonly storage: Storage
  readonly log: FastifyBaseLogger
  /** For records between reading and writing. */
  readonly folder: string
  /** How long files are kept. */
  readonly exportDays: number
  /** Lease in milliseconds: how long a crashed process can hold up an export. */
  readonly lease: number
  /** Name and version of the service. */
  readonly generator: string
  /** The OpenAPI document, from which the schemas of the records are made. */
  readonly contract: Readonly<Record<string, unknown>>
}

/** Milliseconds until an export that has failed is tried again. */
const retryAfter = 30_000

/** Runs the exports that wait, one after the other. Other jobs and other processes run others at the same time. */
export const createRunExports =
  (deps: ExportDeps) =>
  async (stop: AbortSignal): Promise<void> => {
    while (!stop.aborted) {
      const taken = await takeExport(deps.db, { leaseId: newId(), duration: deps.lease })
      if (taken === null) return
      await runExport(deps, taken, stop)
    }
  }

const runExport = async (deps: ExportDeps, taken: TakenExport, stop: AbortSignal): Promise<void> => {
  const { db, log, lease } = deps
  const lost = new AbortController()
  const spool = createSpool(join(deps.folder, taken.id))
  const progress: Work['progress'] = { done: 0, total: null }
  const renew = async (): Promise<void> => {
    if (!(await renewExport(db, taken, { ...progress, duration: lease }))) lost.abort()
  }
  const timer = setInterval(() => void renew().catch(() => undefined), Math.min(renewalInterval, lease / 3))
  try {
    const signal = AbortSignal.any([stop, lost.signal])
    await makeFile({ deps, taken, signal, progress, spool: await spool, files: new Map() })
  } catch (error) {
    if (stop.aborted) await releaseExport(db, taken, { wait: 0, refunds: true })
    // One that was cancelled, or that another process has taken, is left as it is.
    else if (lost.signal.aborted) await failExport(db, taken, 'access_lost')
    else if (isFull(error)) await failExport(db, taken, 'storage_full')
    else {
      log.warn({ err: error, export_id: taken.id }, 'An export failed and will be tried again')
      await releaseExport(db, taken, { wait: retryAfter, refunds: false })
    }
  } finally {
    clearInterval(timer)
    await spool.then(
      (made) => made.remove(),
      () => undefined,
    )
  }
}

/** Milliseconds between two looks at whether an export was cancelled, which also show its progress. */
const renewalInterval = 2_000

/** Whether there is no space, in the storage or for the spool. */
const isFull = (error: unknown): boolean =>
  error instanceof StorageFull ||
  (error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT'))

/** An export in progress. */
interface Work {
  readonly deps: ExportDeps
  readonly taken: TakenExport
  /** Aborted when the service stops, and when the export is not this process's any more. */
  readonly signal: AbortSignal
  readonly progress: { done: number; total: number | null }
  readonly spool: Spool
  /** Where the attached files are stored, by digest, and their sizes. */
  readonly files: Map<string, StoredFile>
}

const makeFile = async (work: Work): Promise<void> => {
  const { deps, taken, spool, progress } = work
  await collect(work)
  await spool.arrange()
  progress.total = progress.done * 2
  const stored = await store(work)
  const { key, size, sha256 } = stored
  const file = { key, size, sha256, done: progress.done, days: deps.exportDays }
  if (await finishExport(deps.db, taken, file)) return
  await deps.storage.remove(key)
  await failExport(deps.db, taken, 'access_lost')
}

/** Reads all records into the spool. */
const collect = async (work: Work): Promise<void> => {
  const { deps, taken, files } = work
  const { db } = deps
  const scope: ExportScope = {
    userId: taken.user_id,
    projectId: taken.project_id,
    isOwn: taken.user_id === taken.requested_by,
  }
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
    const ofProject = tags.filter(({ id, project_id }) => usedTags.has(id) || project_id === taken.project_id)
    await add(work, taken.project_id === null ? tags : ofProject)
  }
  for await (const users of readUsers(db, scope, [...named])) await add(work, users)
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
  { spool, progress, signal }: Work,
  records: readonly (Exclude<InterchangeRecord, { readonly type: 'task' }> | PlacedTask)[],
): Promise<void> => {
  signal.throwIfAborted()
  await spool.add(records)
  progress.done += records.length
}

/** Bytes that an entry of an archive takes besides its content, and more. */
const entryBytes = 1_024

/** Writes the archive to the storage. */
const store = async (work: Work): Promise<StoredFile> => {
  const { deps, taken, spool, files, signal } = work
  const archive = writeArchive(sourceOf(work), {
    createdAt: new Date().toISOString(),
    generator: deps.generator,
    contract: deps.contract,
    timeZone: taken.time_zone,
  })
  const cut = (): void => void archive.destroy(new Error('The export was stopped'))
  signal.addEventListener('abort', cut)
  // The storage reports them, unless it has failed before.
  archive.on('error', () => undefined)
  const attached = [...files.values()].reduce((sum, { size }) => sum + size + entryBytes, 0)
  try {
    // The tasks are in it three times, in formats that are no longer than the records.
    return await deps.storage.put(archive, {
      maxBytes: attached + 4 * spool.size() + 2 ** 20,
      minBytes: attached,
    })
  } finally {
    signal.removeEventListener('abort', cut)
    archive.destroy()
  }
}

/** The records of the spool. The first reading of each type counts as progress. */
const sourceOf = ({ spool, progress, files, deps }: Work): ExportSource => {
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
    file: (sha256) => openFile(deps.storage, files.get(sha256)),
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
