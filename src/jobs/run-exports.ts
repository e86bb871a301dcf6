import type { FastifyBaseLogger } from 'fastify'
import { join } from 'node:path'
import { newId } from '../db/shared/ids.ts'
import {
  beginExportFile,
  failExport,
  finishExport,
  releaseExport,
  renewExport,
  takeExport,
  type TakenExport,
} from '../db/interchange/exports.ts'
import { createSpool } from '../interchange/spool.ts'
import { newKey } from '../storage/keys.ts'
import { isFull } from '../storage/storage.ts'
import { type ArchiveDeps, type ArchiveWork, startArchive } from './export-archive.ts'

/** Makes the files of exports: reads the records in batches, then writes them with the attached files into one archive. */

export interface ExportDeps extends ArchiveDeps {
  readonly log: FastifyBaseLogger
  /** For records between reading and writing. */
  readonly folder: string
  /** Checks the disk of the folder. Rejects with StorageFull. */
  readonly checkSpace: () => Promise<void>
  /** How long files are kept. */
  readonly exportDays: number
  /** Lease in milliseconds: how long a crashed process can hold up an export. */
  readonly lease: number
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
  const { db, log, lease, checkSpace } = deps
  const [lost, short] = [new AbortController(), new AbortController()]
  const progress: ArchiveWork['progress'] = { done: 0, total: null }
  const renew = async (): Promise<void> => {
    if (!(await renewExport(db, taken, { ...progress, duration: lease }))) lost.abort()
    await checkSpace().catch((error: unknown) => short.abort(error))
  }
  const timer = setInterval(() => void renew().catch(() => undefined), Math.min(renewalInterval, lease / 3))
  try {
    const signal = AbortSignal.any([stop, lost.signal, short.signal])
    await checkSpace()
    // Of the lease: whoever has lost it must not touch the files of whoever took over.
    const spool = await createSpool(join(deps.folder, taken.lease_id))
    try {
      await makeFile(deps, taken, { scope: scopeOf(taken), signal, progress, spool })
    } finally {
      await spool.remove()
    }
  } catch (error) {
    if (stop.aborted) await releaseExport(db, taken, { wait: 0, refunds: true })
    // Changes nothing if it was cancelled, or another process has taken it.
    else if (lost.signal.aborted) await failExport(db, taken, 'access_lost')
    else if (isFull(error) || isFull(short.signal.reason)) await failExport(db, taken, 'storage_full')
    else {
      log.warn({ err: error, export_id: taken.id }, 'An export failed and will be tried again')
      await releaseExport(db, taken, { wait: retryAfter, refunds: false })
    }
  } finally {
    clearInterval(timer)
  }
}

const scopeOf = (taken: TakenExport): ArchiveWork['scope'] => ({
  userId: taken.user_id,
  projectId: taken.project_id,
  isOwn: taken.user_id === taken.requested_by,
  timeZone: taken.time_zone,
})

/** Milliseconds between two looks at whether an export was cancelled and the disk is short, which also show its progress. */
const renewalInterval = 2_000

const makeFile = async (deps: ExportDeps, taken: TakenExport, work: ArchiveWork): Promise<void> => {
  const { db, storage, exportDays: days } = deps
  const { content, minBytes, maxBytes } = await startArchive(deps, work)
  try {
    const key = newKey()
    if (!(await beginExportFile(db, taken, key))) return
    const { size, sha256 } = await storage.put(content, { minBytes, maxBytes, key })
    if (await finishExport(db, taken, { key, size, sha256, done: work.progress.done, days })) return
    await storage.remove(key)
    await failExport(db, taken, 'access_lost')
  } finally {
    content.destroy()
  }
}
