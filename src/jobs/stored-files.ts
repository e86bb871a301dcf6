import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../db/engine/client.ts'
import { hasFileHold } from '../db/files/holds.ts'
import { claimFileDeletions, type DeletedFile, deleteFileDeletions } from '../db/files/deletions.ts'
import { restartHistoryIfCopied } from '../db/activity/task-changes.ts'
import type { ListedFile, Storage } from '../storage/storage.ts'
import { attachmentsWithoutFiles, filesWithoutRows } from './inventory.ts'
import { claimFiles, ownershipOf, ownershipConflict } from './ownership.ts'

/** Jobs that keep the storage and the database consistent. */

export interface FileDeps {
  readonly db: Database
  readonly storage: Storage
  readonly log: FastifyBaseLogger
}

/** Files taken from the queue at a time. */
const batchSize = 500

/** Maximum number of attachments without a file that a run logs by id. */
const maxReported = 100

/** Records this database and its current transaction as the owner of the files; logs an error if it is not the owner. */
export const confirmFileOwnership = async ({ db, storage, log }: FileDeps): Promise<void> => {
  const reason = ownershipConflict(await ownershipOf(db, storage))
  const identity = await restartHistoryIfCopied(db)
  if (reason === null) await claimFiles(storage, identity)
  else log.error(`${reason}, so no unreferenced files are deleted; run npm run doctor for help`)
}

const ownsFiles = async ({ db, storage }: FileDeps): Promise<boolean> =>
  ownershipConflict(await ownershipOf(db, storage)) === null

interface QueueOptions {
  /** Milliseconds until the removal of a file is retried. */
  readonly retryAfter: number
  readonly stop: AbortSignal
}

/** Processes the queue of deleted files. A file is removed before its entry in the queue, so a crash only repeats the removal. */
export const removeDeletedFiles = async (
  deps: FileDeps,
  { retryAfter, stop }: QueueOptions,
): Promise<void> => {
  const { db } = deps
  for (let files: readonly DeletedFile[] | null = null; files === null || files.length === batchSize;) {
    if (stop.aborted) return
    files = await claimFileDeletions(db, { limit: batchSize, retryAfter })
    if (files.length === 0 || !(await ownsFiles(deps))) return
    const removed = await removeFiles(deps, files, stop)
    if (removed.length > 0) await deleteFileDeletions(db, removed)
  }
}

interface OrphanOptions {
  /** Minimum age in milliseconds: a younger file may still get a row. */
  readonly grace: number
  readonly stop: AbortSignal
}

/** Removes old files without a row, left behind by crashes. */
export const removeOrphans = async (deps: FileDeps, options: OrphanOptions): Promise<void> => {
  await removeListed(deps, deps.storage.list(), { ...options, isUnfinished: false })
}

/** Removes old unfinished files without a row. */
export const removeUnfinishedOrphans = async (deps: FileDeps, options: OrphanOptions): Promise<void> => {
  await removeListed(deps, deps.storage.listUnfinished(), { ...options, isUnfinished: true })
}

const removeListed = async (
  deps: FileDeps,
  listed: AsyncIterable<ListedFile>,
  { grace, isUnfinished, stop }: OrphanOptions & { readonly isUnfinished: boolean },
): Promise<void> => {
  if (!(await ownsFiles(deps))) return
  // By the clock that has set the times of the files: the clock of this process can be ahead of it.
  const before = new Date((await deps.storage.now()).getTime() - grace)
  for await (const files of filesWithoutRows(deps.db, listed)) {
    // A backup that begins later has no rows of old files that have none now.
    if (await hasFileHold(deps.db)) return
    const old = files.filter(({ modifiedAt }) => modifiedAt < before)
    await removeFiles(
      deps,
      old.map(({ key }) => ({ key, isUnfinished })),
      stop,
    )
    if (stop.aborted) return
  }
}

/** Logs attachments whose file is missing. Their rows stay: they identify the file to restore from a backup. */
export const reportLostFiles = async (
  { db, storage, log }: FileDeps,
  { stop }: { readonly stop: AbortSignal },
): Promise<void> => {
  let lost = 0
  for await (const ids of attachmentsWithoutFiles(db, storage)) {
    for (const id of ids.slice(0, maxReported - lost)) {
      log.warn({ attachment_id: id }, 'The file of an attachment is missing from the storage')
    }
    lost += ids.length
    if (stop.aborted) return
  }
  if (lost > maxReported) {
    log.warn(
      { lost },
      'More files of attachments are missing from the storage; npm run admin -- storage check lists them',
    )
  }
}

/** Removes files one by one and returns the removed keys. A failure does not stop the rest. */
const removeFiles = async (
  { storage, log }: FileDeps,
  files: readonly DeletedFile[],
  stop: AbortSignal,
): Promise<string[]> => {
  const removed: string[] = []
  const failures: unknown[] = []
  for (const { key, isUnfinished } of files) {
    if (stop.aborted) break
    try {
      await (isUnfinished ? storage.removeUnfinished(key) : storage.remove(key))
      removed.push(key)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) {
    log.warn({ err: failures[0], failed: failures.length }, 'Some files could not be removed; will retry')
  }
  return removed
}
