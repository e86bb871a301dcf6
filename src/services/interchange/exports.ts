import type { Readable } from 'node:stream'
import type { components } from '../../../generated/openapi.ts'
import type { CreatedLink, CreateLink } from '../../auth/file-links.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  cancelExport,
  countExports,
  type ExportFile,
  type ExportRow,
  insertExport,
  lockExport,
  removeExport,
  selectExport,
  selectExportFile,
  selectExports,
  viewExport,
} from '../../db/interchange/exports.ts'
import { lockProject } from '../../db/projects/rows.ts'
import { lockCounters, readInterchangeBytes } from '../../db/shared/quotas.ts'
import { lockUser } from '../../db/accounts/users.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import { type BearerPrincipal, type Principal, relationsToUser } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import type { Mailer } from '../../mail/mailer.ts'
import { problems } from '../../problems/problems.ts'
import type { ByteRange, Storage } from '../../storage/storage.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectFound, expectMatch, expectMay, expectProven, expectSeen } from '../shared/expectations.ts'
import { hasReplay, idempotent } from '../shared/idempotency.ts'
import { openUnlessDeleted } from '../files/open-file.ts'

interface Deps {
  readonly storage: Storage
  /** Checks the disk on which records are held between reading and writing. */
  readonly checkSpace: () => Promise<void>
  readonly jobs: Pick<Jobs, 'wake'>
  readonly mailer: Pick<Mailer, 'sendDataExported'>
  readonly createLink: CreateLink
  /** Bytes that a user may keep of exports and imports; null is unlimited. */
  readonly interchangeQuotaBytes: number | null
}

/** The archive of an export. */
interface Archive {
  readonly file: {
    readonly file_name: string
    readonly content_type: string
    readonly detected_content_type: null
    readonly size: number
    readonly sha256: string
    readonly created_at: string
  }
  readonly open: (range?: ByteRange) => Promise<Readable>
}

export interface Exports {
  /**
   * Requests an export.
   *
   * @throws Problem 400, 403, 404, 413, 507
   */
  create(ctx: OpContext<Principal>, wanted: components['schemas']['ExportCreate']): Promise<Created>
  /** Stops an export that has not ended. @throws Problem 404, 412 */
  cancel(ctx: OpContext<Principal>, id: string): Promise<ExportRow>
  /** @throws Problem 404, 412 */
  remove(ctx: OpContext<Principal>, id: string): Promise<void>
  /** Finds the archive of an export. @throws Problem 403, 404, 409 */
  download(ctx: OpContext<Principal>, id: string): Promise<Archive>
  /** Creates a link to the archive of an export, for so many seconds. @throws Problem 403, 404, 409 */
  createLink(ctx: OpContext<BearerPrincipal>, id: string, expiresIn: number): Promise<CreatedLink>
}

/** Exports of one user that are kept. */
const maxExports = 20

/** A page of the caller's exports. */
export const listExports = (ctx: OpContext<Principal>, page: PageRequest): Promise<Page> =>
  selectExports(ctx, page)

/** @throws Problem 404 */
export const getExport = async (ctx: OpContext<Principal>, id: string): Promise<ExportRow> =>
  expectFound(await selectExport(ctx, id))

export const createExports = ({
  storage,
  checkSpace,
  jobs,
  mailer,
  createLink,
  interchangeQuotaBytes: quota,
}: Deps): Exports => ({
  async create(ctx, { project_id: projectId = null, user_id: userId = ctx.principal.userId }) {
    const isOwn = userId === ctx.principal.userId
    if (!isOwn && projectId !== null)
      throw problems.invalidField('/project_id', 'cannot be combined with user_id')
    // A repeat needs no room.
    // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
    if (!(await hasReplay(ctx))) await Promise.all([storage.check(), checkSpace()])
    return idempotent(ctx, async (tx, id) => {
      const { found } = await pipeline(tx.db, {
        counters: () => lockCounters(tx.db, { id: tx.principal.userId }),
        found: () => lockUser(tx, userId, { purpose: 'use' }),
      })
      const user = expectSeen('user.see', found)
      if (!isOwn) expectMay('export.create_for_another', user)
      expectProven(user)
      if (projectId !== null)
        expectMay(
          'export.create_of_project',
          expectSeen('project.see', await lockProject(tx, projectId, 'use')),
        )
      const { used, bytes } = await pipeline(tx.db, {
        used: () => countExports(tx),
        bytes: () => readInterchangeBytes(tx),
      })
      if (used >= maxExports)
        throw problems.quotaExceeded({ resource: 'exports', quota: maxExports, used, size: 1 })
      // The size of the archive is not known.
      if (quota !== null && bytes >= quota)
        throw problems.quotaExceeded({ resource: 'interchange_bytes', quota, used: bytes, size: 1 })
      const { view } = await pipeline(tx.db, {
        export: () => insertExport(tx, id, { userId, projectId }),
        audit: () => (isOwn ? null : recordAudit(tx, 'export.requested', { userId })),
        view: () => viewExport(tx, id),
      })
      tx.afterCommit(() => {
        jobs.wake('run_exports')
        if (!isOwn) mailer.sendDataExported({ to: user.email })
      })
      return view
    })
  },

  cancel: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const found = expectMay('export.change', expectSeen('export.see', await lockExport(tx, id)))
      expectMatch(tx, found)
      if (found.status === 'waiting' || found.status === 'running') await cancelExport(tx, found)
      return last(viewExport(tx, id))
    }),

  remove: (ctx, id) =>
    transaction(ctx, async (tx) => {
      const found = expectMay('export.change', expectSeen('export.see', await lockExport(tx, id)))
      expectMatch(tx, found)
      await removeExport(tx, found)
      tx.afterCommit(() => jobs.wake('remove_deleted_files'))
    }),

  async download(ctx, id) {
    const { userId, file } = await findFile(ctx, id)
    const { storage_key: key, size, sha256, created_at } = file
    return {
      file: {
        file_name: `taskwright-${created_at.slice(0, 10)}.zip`,
        content_type: 'application/zip',
        detected_content_type: null,
        size,
        sha256,
        created_at,
      },
      async open(range) {
        if (userId !== ctx.principal.userId)
          await transaction(ctx, (tx) => recordAudit(tx, 'export.downloaded', { userId }))
        return openUnlessDeleted(
          () => storage.open(key, range),
          () => findFile(ctx, id),
        )
      },
    }
  },

  async createLink(ctx, id, expiresIn) {
    await findFile(ctx, id)
    return createLink(ctx.principal, { resourceId: id, disposition: 'attachment', expiresIn })
  },
})

/** The file of an export of the caller, and the user whose view it has. @throws Problem 403, 404, 409 */
const findFile = async (
  ctx: OpContext<Principal>,
  id: string,
): Promise<{ readonly userId: string; readonly file: ExportFile }> => {
  const { principal } = ctx
  const { user_id: userId, status, rests, file } = expectFound(await selectExportFile(ctx, id))
  // Whoever made a link was allowed to, and `file` depends on their role.
  if (userId !== principal.userId && principal.credential.kind !== 'link')
    expectMay('export.download_of_another', { relations: relationsToUser(principal, userId) })
  if (file === null) throw rests ? problems.exportRests() : problems.exportWithoutFile(status)
  return { userId, file }
}
