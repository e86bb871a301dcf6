import type { FastifyBaseLogger } from 'fastify'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Database } from '../../db/engine/client.ts'
import { UnstorableText } from '../../db/engine/errors.ts'
import { newId } from '../../db/shared/ids.ts'
import { localClient } from '../../domain/activity/audit.ts'
import { createContext } from '../shared/context.ts'
import { countRows, showProjects, writeRows, type WrittenRow } from '../../db/interchange/import-records.ts'
import {
  discardImport,
  endImport,
  previewImport,
  releaseImport,
  renewImport,
  takeImport,
  type HeldImport,
} from '../../db/interchange/imports.ts'
import {
  type ImportFailure,
  type ImportPreview,
  type ImportTable,
  maxPreviewedRows,
  maxPreviewedUsers,
} from '../../domain/interchange/imports.ts'
import {
  type CsvMapping,
  type ImportFormat,
  isDelimiter,
  isImportFormat,
  isTextEncoding,
  type ReadOptions,
  UnreadableFile,
} from '../../interchange/import-file.ts'
import { type FileReader, openFileReader } from '../../interchange/read.ts'
import type { ReportLine } from '../../interchange/records.ts'
import { openFolder } from '../../storage/free-space.ts'
import { FileMissing, isFull } from '../../storage/storage.ts'
import { discardProjects } from './import-discard.ts'
import { undoRun } from './import-undo.ts'
import {
  ImportFailed,
  ImportLost,
  type ImportWork,
  inLeaseOfActiveOwner,
  inLease,
  principalOfImport,
} from './import-work.ts'
import { createImportWriter, type WriterDeps } from './import-write.ts'

/** Does what imports wait for: reads files for a preview, writes what is in them, and undoes that. */

export interface RunImportsDeps extends WriterDeps {
  readonly db: Database
  readonly log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  /** For the files of imports while they are read. */
  readonly folder: string
  /** Bytes of its disk that files of imports do not fill. */
  readonly diskReserveBytes: number
  /** Lease in milliseconds: how long a crashed process can hold up an import. */
  readonly lease: number
  /** The id of the user whose imports are to be run; null for all. */
  readonly onlyUserId: string | null
}

/** How often an import is tried. */
const maxAttempts = 3

/** Milliseconds until an import that has failed is tried again. */
const retryAfter = 30_000

/** Milliseconds between two looks at whether an import was cancelled, which also show its progress. */
const renewalInterval = 2_000

/** Does what waits, one after the other. Other jobs and other processes do more at the same time. */
export const createRunImports =
  (deps: RunImportsDeps) =>
  async (stop: AbortSignal): Promise<void> => {
    while (!stop.aborted) {
      const held = await takeImport(deps.db, {
        leaseId: newId(),
        duration: deps.lease,
        onlyUserId: deps.onlyUserId,
      })
      if (held === null) return
      await workOn(deps, held, stop)
    }
  }

/** Reads, writes, undoes or discards, by the status of the import. */
const workOn = async (deps: RunImportsDeps, held: HeldImport, stop: AbortSignal): Promise<void> => {
  const { db, log, lease } = deps
  const lost = new AbortController()
  const progress: ImportWork['progress'] = { done: 0, total: null }
  const renew = async (): Promise<void> => {
    if (!(await renewImport(db, held, { ...progress, duration: lease }))) lost.abort(new ImportLost())
  }
  const timer = setInterval(() => void renew().catch(() => undefined), Math.min(renewalInterval, lease / 3))
  const work = {
    ctx: createContext(db, principalOfImport(held), localClient(newId())),
    held,
    signal: AbortSignal.any([stop, lost.signal]),
    progress,
  }
  // Of the lease: whoever has lost it must not touch the files of whoever took over.
  const folder = join(deps.folder, held.lease_id)
  try {
    if (held.status === 'discarding') await discardProjects(work)
    else if (held.attempts > maxAttempts) throw new ImportFailed('interrupted')
    else if (held.status === 'undoing') await undoRun(work)
    else
      await withFile(deps, work, folder, (file) =>
        held.status === 'reading' ? read(work, file) : write(deps, work, file),
      )
  } catch (error) {
    const failure = failureOf(error)
    // If another process has taken it, or it was cancelled, its lease is not the one that is released here.
    if (stop.aborted || lost.signal.aborted || error instanceof ImportLost)
      await releaseImport(db, held, { wait: 0, refunds: true })
    else if (failure !== null) {
      log.info({ err: error, import_id: held.id, failure }, 'An import failed')
      await fail(work, failure)
    } else {
      log.warn({ err: error, import_id: held.id }, 'An import failed and will be tried again')
      await releaseImport(db, held, { wait: retryAfter, refunds: false })
    }
  } finally {
    clearInterval(timer)
    await rm(folder, { recursive: true, force: true })
  }
}

/** Null for what may go away. */
const failureOf = (error: unknown): ImportFailure | null => {
  if (error instanceof ImportFailed) return error.failure
  if (error instanceof UnreadableFile) return error.why
  if (error instanceof FileMissing || error instanceof UnstorableText) return 'damaged'
  return isFull(error) ? 'storage_full' : null
}

/** Ends an import, unless it was cancelled or taken by another process. New projects that are not complete are removed before. */
const fail = async (work: ImportWork, failure: ImportFailure): Promise<void> => {
  const { held } = work
  try {
    await inLease({ ...work, signal: new AbortController().signal }, async (tx) => {
      if (held.status === 'running') return discardImport(tx, held, failure)
      const result = held.status === 'reading' ? {} : { result: await countRows(tx, held) }
      return endImport(tx, held, { status: 'failed', failure, ...result })
    })
  } catch (error) {
    if (!(error instanceof ImportLost)) throw error
  }
}

/** The file of an import on the disk of this machine. */
interface FetchedFile {
  readonly path: string
  readonly reader: FileReader
}

/** Opens the file of an import, and closes its reader when it was used. */
const withFile = async (
  deps: RunImportsDeps,
  work: ImportWork,
  folder: string,
  use: (file: FetchedFile) => Promise<void>,
): Promise<void> => {
  const path = await fetchFile(deps, work, folder)
  const reader = openFileReader(path, work.signal)
  try {
    await use({ path, reader })
  } finally {
    reader.close()
  }
}

/** Copies the file of an import to the disk. Returns its path. @throws StorageFull */
const fetchFile = async (
  { storage, diskReserveBytes }: RunImportsDeps,
  { held, signal }: ImportWork,
  folder: string,
): Promise<string> => {
  const { storage_key: key } = held
  if (key === null) throw new ImportFailed('damaged')
  const path = join(folder, 'file')
  await openFolder(folder, diskReserveBytes, held.size)
  await pipeline(await storage.open(key), createWriteStream(path, { mode: 0o600 }), { signal })
  return path
}

const optionsOf = (
  { file_name: fileName, time_zone: timeZone, created_at: now }: HeldImport,
  format: ImportFormat,
  csv: ImportTable | null,
): ReadOptions => {
  const mapping = csv && mappingOf(csv)
  return { format, mapping, fileName, timeZone, now }
}

/** How a table is read, without its first rows. */
const mappingOf = ({ encoding, delimiter, has_header, date_order, columns }: ImportTable): CsvMapping => ({
  // The contract has no others.
  encoding: isTextEncoding(encoding) ? encoding : 'utf-8',
  delimiter: isDelimiter(delimiter) ? delimiter : ',',
  has_header,
  date_order,
  columns,
})

/** Reads a file for its preview. */
const read = async (work: ImportWork, { reader }: FetchedFile): Promise<void> => {
  const { held, progress } = work
  const { format, csv } = await formatOf(held, reader)
  const preview: Writable<ImportPreview> = {
    projects: 0,
    sections: 0,
    tags: 0,
    tasks: 0,
    comments: 0,
    relations: 0,
    attachments: 0,
    attachment_bytes: 0,
    refused: 0,
    altered: 0,
    users: [],
  }
  let kept = 0
  const number = numbering()
  for await (const { records, report } of reader.read(optionsOf(held, format, csv))) {
    for (const record of records) {
      number()
      if (record.type === 'user') {
        const { id: source_id, username, display_name } = record
        if (preview.users.length < maxPreviewedUsers)
          preview.users.push({ source_id, username, display_name })
      } else if (record.type !== 'attachment') preview[`${record.type}s`] += 1
      else if (record.entry !== null) {
        preview.attachments += 1
        preview.attachment_bytes += record.size ?? 0
      }
    }
    const rows = report.map((line) => rowOf(line, number()))
    for (const { outcome } of rows) if (outcome === 'refused' || outcome === 'altered') preview[outcome] += 1
    progress.done += records.length + report.length
    const shown = rows.slice(0, maxPreviewedRows - kept)
    kept += shown.length
    if (shown.length > 0) await inLeaseOfActiveOwner(work, (tx) => writeRows(tx, held.id, shown))
  }
  await inLeaseOfActiveOwner(work, (tx) =>
    previewImport(tx, held, { format, csv, preview, done: progress.done }),
  )
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] }

/** The numbers of rows: a file is read in the same order each time. */
const numbering = (): (() => number) => {
  let number = 0
  return () => (number += 1)
}

/** The line of a report as a row. */
const rowOf = (
  { severity, part, row, id, field, code, message }: ReportLine,
  number: number,
): WrittenRow => ({
  number,
  outcome: severity,
  source_id: id,
  part,
  row,
  field,
  code,
  message,
})

/** The format that was set, or is recognized, and how a table is read. */
const formatOf = async (
  held: HeldImport,
  reader: FileReader,
): Promise<{ readonly format: ImportFormat; readonly csv: ImportTable | null }> => {
  const { csv, status } = held
  const format = held.format !== null && isImportFormat(held.format) ? held.format : null
  // A table is inspected whenever it is read another way.
  const isKnown = format !== 'csv' || (csv !== null && status === 'running')
  if (format !== null && isKnown) return { format, csv }
  const inspection = await reader.inspect({ format, mapping: csv && mappingOf(csv) })
  const found = format ?? inspection.format
  if (found === null) throw new ImportFailed('unknown_format')
  if (found !== 'csv') return { format: found, csv: null }
  if (inspection.csv === null) throw new ImportFailed('damaged')
  const { mapping, names, rows } = inspection.csv
  return {
    format: found,
    csv: {
      ...mapping,
      columns: mapping.columns.slice(),
      names: names.slice(),
      rows: rows.map((row) => row.slice()),
    },
  }
}

/** Writes what is in a file, and shows its new projects. */
const write = async (
  deps: RunImportsDeps,
  work: ImportWork,
  { path, reader }: FetchedFile,
): Promise<void> => {
  const { held, progress } = work
  const { format, csv } = await formatOf(held, reader)
  const writer = createImportWriter(deps, work, { format, path })
  const number = numbering()
  try {
    for await (const { records, report } of reader.read(optionsOf(held, format, csv))) {
      await writer.write(records.map((record) => ({ number: number(), record })))
      const rows = report.map((line) => rowOf(line, number()))
      if (rows.length > 0) await inLeaseOfActiveOwner(work, (tx) => writeRows(tx, held.id, rows))
      progress.done += records.length + report.length
    }
  } finally {
    await writer.close()
  }
  await showAndEnd(work)
}

/** Shows the new projects, and ends the import with the last of them. */
const showAndEnd = async (work: ImportWork): Promise<void> => {
  const { held, progress } = work
  const hasEnded = await inLeaseOfActiveOwner(work, async (tx) => {
    if (await showProjects(tx, held)) return false
    const result = await countRows(tx, held)
    await endImport(tx, held, { status: 'finished', result, done: progress.done })
    return true
  })
  if (!hasEnded) await showAndEnd(work)
}
