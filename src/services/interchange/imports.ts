import { isDeepStrictEqual } from 'node:util'
import type { components } from '../../../generated/openapi.ts'
import type { FileForm } from '../../contract/files.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { removeRows } from '../../db/interchange/import-records.ts'
import {
  changeOptions,
  type ChangeableImport,
  endImport,
  type ImportFacts,
  type ImportOptions,
  type ImportRow,
  lockImport,
  queueImport,
  removeImport,
  selectImport,
  selectImportRows,
  selectImports,
  viewImport,
} from '../../db/interchange/imports.ts'
import { lockProject } from '../../db/projects/rows.ts'
import { lockUser, selectLiveUsers } from '../../db/accounts/users.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import { type ImportOutcome, type ImportTable, isBusy } from '../../domain/interchange/imports.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { problems } from '../../problems/problems.ts'
import type { Storage } from '../../storage/storage.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'
import {
  expectActive,
  expectFound,
  expectKnown,
  expectMatch,
  expectMay,
  expectProven,
  expectSeen,
} from '../shared/expectations.ts'
import { withContent } from '../shared/idempotency.ts'
import { addImport, checkImportable } from '../files/importing.ts'
import { discardFile, keepIfUsed } from '../files/stored-files.ts'

interface Deps {
  readonly storage: Storage
  readonly jobs: Pick<Jobs, 'wake'>
  readonly importMaxBytes: number
  readonly importFileDays: number
  /** Bytes that a user may keep of exports and imports; null is unlimited. */
  readonly interchangeQuotaBytes: number | null
}

type ImportPatch = components['schemas']['ImportPatch']

export interface Imports {
  /** Receives a file, which the job will read. @throws Problem 400, 403, 413, 422, 507 */
  create(ctx: OpContext<Principal>, form: FileForm): Promise<Created>
  /** Changes how a file is imported. @throws Problem 400, 404, 409, 412, 422 */
  update(ctx: OpContext<Principal>, id: string, patch: ImportPatch): Promise<ImportRow>
  /** Runs an import as it was previewed in a version. @throws Problem 403, 404, 409, 412 */
  run(ctx: OpContext<Principal>, id: string, version: number): Promise<ImportRow>
  /** Moves what an import has created to the trash. @throws Problem 404, 409, 412 */
  undo(ctx: OpContext<Principal>, id: string): Promise<ImportRow>
  /** Stops an import that has not ended. @throws Problem 404, 412 */
  cancel(ctx: OpContext<Principal>, id: string): Promise<ImportRow>
  /** @throws Problem 404, 412 */
  remove(ctx: OpContext<Principal>, id: string): Promise<void>
}

/** A page of the caller's imports. */
export const listImports = (ctx: OpContext<Principal>, page: PageRequest): Promise<Page> =>
  selectImports(ctx, page)

/** @throws Problem 404 */
export const getImport = async (ctx: OpContext<Principal>, id: string): Promise<ImportRow> =>
  expectFound(await selectImport(ctx, id))

/** What became of the rows of an import. @throws Problem 404 */
export const listImportRows = async (
  ctx: OpContext<Principal>,
  id: string,
  filter: { readonly outcome?: readonly ImportOutcome[] },
  page: PageRequest,
): Promise<Page> => expectFound(await selectImportRows(ctx, id, filter, page))

export const createImports = ({
  storage,
  jobs,
  importMaxBytes,
  importFileDays,
  interchangeQuotaBytes: quota,
}: Deps): Imports => ({
  async create(ctx, form) {
    await checkImportable(ctx, { size: form.minSize, quota })
    const { fileName, stored } = await form.receive(
      (content) =>
        storage.put(content, {
          maxBytes: Math.min(importMaxBytes, form.maxSize),
          minBytes: form.minSize,
        }),
      (file) => discardFile(storage, file),
    )
    const { key: storage_key, size, sha256 } = stored
    const received = withContent(ctx, [fileName, sha256])
    const file = { file_name: fileName, storage_key, size, sha256 }
    const create = () => addImport(received, file, { jobs, days: importFileDays, quota, upload: null })
    return keepIfUsed(storage, stored, create, ({ replayed }) => !replayed)
  },

  update: (ctx, id, patch) =>
    transaction(ctx, async (tx) => {
      const found = await openImport(tx, id)
      expectMatch(tx, found)
      expectUnread(found)
      const options = await optionsAfter(tx, found, patch)
      if (!isDeepStrictEqual({ ...found, ...options }, found)) await changeOptions(tx, found, options)
      const isReadAnew = found.status === 'failed' || options.format !== found.format
      if (isReadAnew || !isDeepStrictEqual(options.csv, found.csv)) {
        expectFile(found)
        await pipeline(tx.db, {
          rows: () => removeRows(tx, found),
          import: () => queueImport(tx, found, 'reading'),
        })
        tx.afterCommit(() => jobs.wake('run_imports'))
      }
      return last(viewImport(tx, id))
    }),

  run: (ctx, id, version) =>
    transaction(ctx, async (tx) => {
      const user = await lockUser(tx, tx.principal.userId, { purpose: 'change' })
      const found = await openImport(tx, id)
      expectProven(expectSeen('user.see', user))
      expectMatch(tx, found)
      if (found.version !== version) throw problems.preconditionFailed()
      expectRunnable(found)
      if (found.project_id !== null) await expectTarget(tx, found.project_id)
      await pipeline(tx.db, {
        rows: () => removeRows(tx, found),
        import: () => queueImport(tx, found, 'running'),
      })
      tx.afterCommit(() => jobs.wake('run_imports'))
      return last(viewImport(tx, id))
    }),

  undo: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const found = await openImport(tx, id)
      expectMatch(tx, found)
      const { status } = found
      if (status !== 'undoing' && status !== 'undone') {
        if (isBusy(status) || !found.has_run)
          throw problems.importState(status, 'Only one that has run and ended can be undone.')
        await queueImport(tx, found, 'undoing')
        tx.afterCommit(() => jobs.wake('run_imports'))
      }
      return last(viewImport(tx, id))
    }),

  cancel: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const found = await openImport(tx, id)
      expectMatch(tx, found)
      if (found.status === 'reading' || found.status === 'ready')
        await endImport(tx, found, { status: 'cancelled' })
      else if (found.status === 'running') {
        await queueImport(tx, found, 'discarding')
        tx.afterCommit(() => jobs.wake('run_imports'))
      }
      return last(viewImport(tx, id))
    }),

  remove: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const found = await openImport(tx, id)
      expectMatch(tx, found)
      await removeImport(tx, found)
      tx.afterCommit(() => {
        jobs.wake('run_imports')
        jobs.wake('expire_imports')
        jobs.wake('remove_deleted_files')
      })
    }),
})

/** An import of the caller, locked. @throws Problem 404 */
export const openImport = async (tx: OpTransaction<Principal>, id: string): Promise<ChangeableImport> =>
  expectMay('import.change', expectSeen('import.see', await lockImport(tx, id)))

/** Requires that an import has not run: that it is ready, or that its file could not be read. */
const expectUnread = ({ status, has_preview }: ImportFacts): void => {
  if (status !== 'ready' && (status !== 'failed' || has_preview))
    throw problems.importState(status, 'Only one that is ready can be changed.')
}

/** Requires that an import can be run as it was previewed. @throws Problem 409 */
export const expectRunnable = (found: ImportFacts): void => {
  if (found.status !== 'ready') throw problems.importState(found.status, 'Only one that is ready can be run.')
  expectFile(found)
}

/** Requires that the file was not deleted. */
const expectFile = ({ storage_key }: ImportFacts): void => {
  if (storage_key === null) throw problems.importState('without its file', 'Upload the file again.')
}

/** The options of an import after a patch. A table without a mapping gets a guess. */
const optionsAfter = async (
  tx: OpTransaction<Principal>,
  found: ImportFacts,
  patch: ImportPatch,
): Promise<ImportOptions> => {
  const { format = found.format, project_id = found.project_id } = patch
  const { existing = found.existing, users = found.users } = patch
  if (patch.users !== undefined) await expectUsers(tx, patch.users)
  if (patch.project_id != null && project_id !== found.project_id) await expectTarget(tx, patch.project_id)
  const csv = tableAfter(format === found.format ? found.csv : null, patch.csv)
  if (csv !== null && format !== 'csv') throw problems.invalidField('/csv', 'is only for the format csv')
  return { format, csv, project_id, existing, users }
}

/** A table of which the encoding is known: other characters can make other rows and names, so the reader guesses the rest. */
const unreadTable = {
  delimiter: ',',
  has_header: true,
  date_order: 'ymd',
  columns: [],
} satisfies Partial<ImportTable>

/** How a table is read after a merge patch. */
const tableAfter = (stored: ImportTable | null, sent: ImportPatch['csv']): ImportTable | null => {
  if (sent === undefined || sent === null) return sent === undefined ? stored : null
  // Without columns, only its encoding is known.
  const present = stored !== null && stored.columns.length > 0 ? stored : null
  const shown = { names: stored?.names ?? [], rows: stored?.rows ?? [] }
  const table = { ...present, ...sent, ...shown }
  const { encoding, delimiter, has_header, date_order, columns } = table
  const isOtherEncoding = encoding !== undefined && encoding !== present?.encoding
  if (isOtherEncoding && isDeepStrictEqual(table, { ...present, encoding, ...shown }))
    return { encoding, ...unreadTable, ...shown }
  if (!encoding || !delimiter || has_header === undefined || !date_order || !columns)
    throw problems.invalidField('/csv', 'must have all fields, because the format was another one')
  const fields = columns.filter((field) => field !== 'skip')
  if (!fields.includes('title')) throw problems.invalidField('/csv/columns', 'must include the title')
  if (new Set(fields).size < fields.length)
    throw problems.invalidField('/csv/columns', 'must have each field only once')
  return { encoding, delimiter, has_header, date_order, columns, ...shown }
}

/** Requires a project that the caller may edit. */
const expectTarget = async (tx: OpTransaction<Principal>, id: string): Promise<void> => {
  // The job acts as a member, whatever the role of the caller.
  const project = await lockProject({ ...tx, principal: { ...tx.principal, role: 'member' } }, id, 'use')
  const known = expectKnown('project.see', project, { pointer: '/project_id', kind: 'project' })
  expectActive(expectMay('project.edit', known))
}

/** Requires users, each for another one of the file. */
const expectUsers = async (
  tx: OpTransaction<Principal>,
  users: NonNullable<ImportPatch['users']>,
): Promise<void> => {
  const known = await selectLiveUsers(
    tx,
    users.map(({ user_id }) => user_id),
  )
  for (const [index, { source_id, user_id }] of users.entries()) {
    if (users.findIndex((one) => one.source_id === source_id) < index)
      throw problems.invalidField(`/users/${index}/source_id`, 'must appear only once')
    if (!known.has(user_id)) throw problems.unknownReference(`/users/${index}/user_id`, 'user')
  }
}
