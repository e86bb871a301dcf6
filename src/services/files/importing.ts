import { pipeline } from '../../db/engine/pipeline.ts'
import { countImports, insertImport, type NewImport, viewImport } from '../../db/interchange/imports.ts'
import { lockCounters, readInterchangeBytes } from '../../db/shared/quotas.ts'
import { countUnfinishedImports, finishUpload, lockLeased } from '../../db/files/uploads.ts'
import { readCaller } from '../../db/accounts/users.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import { maxImports } from '../../domain/interchange/imports.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { UploadLease } from '../../domain/files/uploads.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext, OpTransaction } from '../shared/context.ts'
import { expectProven } from '../shared/expectations.ts'
import { hasReplay, idempotent } from '../shared/idempotency.ts'

/** What importing a file in one request and by a resumable upload have in common. */

/** What decides whether the caller may import another file. */
interface Importer {
  readonly is_proven: boolean
  /** Imports that count against the limit. */
  readonly used: number
  /** What they keep of exports and imports, in bytes. */
  readonly bytes: number
}

/** Room for a file. */
export interface ImportRoom {
  /** Bytes that the file adds, as far as they are known. */
  readonly size: number
  /** Bytes that a user may keep of exports and imports; null is unlimited. */
  readonly quota: number | null
}

/**
 * Requires a recent proof of identity, and room for another import and its file.
 *
 * @throws Problem 403, 413
 */
const expectImportable = ({ is_proven, used, bytes }: Importer, { size, quota }: ImportRoom): void => {
  expectProven({ is_proven })
  if (used >= maxImports)
    throw problems.quotaExceeded({ resource: 'imports', quota: maxImports, used, size: 1 })
  if (quota !== null && bytes + size > quota)
    throw problems.quotaExceeded({ resource: 'interchange_bytes', quota, used: bytes, size })
}

/**
 * Checks before the file of a request is received that it can be imported. `addImport` decides under a lock.
 *
 * @throws Problem 403, 413
 */
export const checkImportable = async (ctx: OpContext<Principal>, room: ImportRoom): Promise<void> => {
  // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
  const [{ is_proven }, used, bytes] = await Promise.all([
    readCaller(ctx),
    countImports(ctx),
    readInterchangeBytes(ctx),
  ])
  // A repeat needs no room. Looked up last, because its import may be among those that were counted.
  if (!(await hasReplay(ctx))) expectImportable({ is_proven, used, bytes }, room)
}

const lockImporter = (tx: OpTransaction<Principal>) => lockCounters(tx.db, { id: tx.principal.userId })

/**
 * Requires that the caller may start to upload a file to import. Their unfinished uploads count as imports, so that they cannot fill the
 * storage. The caller stays locked.
 *
 * @throws Problem 403, 413
 */
export const expectMayStartImport = async (tx: OpTransaction<Principal>, room: ImportRoom): Promise<void> => {
  const { caller, imports, unfinished, bytes } = await pipeline(tx.db, {
    lock: () => lockImporter(tx),
    caller: () => readCaller(tx),
    imports: () => countImports(tx),
    unfinished: () => countUnfinishedImports(tx),
    bytes: () => readInterchangeBytes(tx),
  })
  expectImportable({ is_proven: caller.is_proven, used: imports + unfinished, bytes }, room)
}

/** How a stored file came, and what is done with it. */
interface Arrival {
  readonly jobs: Pick<Jobs, 'wake'>
  /** Days for which the file is kept. */
  readonly days: number
  /** Bytes that a user may keep of exports and imports; null is unlimited. */
  readonly quota: number | null
  /** The resumable upload that becomes the import; null if the file came in one request. */
  readonly upload: UploadLease | null
}

/** Makes a stored file an import, if the caller still may. If the result is `replayed`, the file was not used. */
export const addImport = (
  ctx: OpContext<Principal>,
  file: NewImport,
  { jobs, days, quota, upload }: Arrival,
): Promise<Created> =>
  idempotent(ctx, async (tx, id) => {
    const { caller, used, bytes, isHeld } = await pipeline(tx.db, {
      lock: () => lockImporter(tx),
      caller: () => readCaller(tx),
      used: () => countImports(tx),
      bytes: () => readInterchangeBytes(tx),
      isHeld: () => upload === null || lockLeased(tx, upload),
    })
    // Identity was proven when the upload was started, which may be hours ago. Its bytes count since then.
    expectImportable(
      { is_proven: caller.is_proven || upload !== null, used, bytes },
      { size: upload === null ? file.size : 0, quota },
    )
    if (!isHeld) throw problems.notFound()
    const { view } = await pipeline(tx.db, {
      import: () => insertImport(tx, id, file, days),
      upload: () => upload !== null && finishUpload(tx, upload, { import_id: id }),
      view: () => viewImport(tx, id),
    })
    tx.afterCommit(() => jobs.wake('run_imports'))
    return view
  })
