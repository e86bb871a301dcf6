import type { Readable } from 'node:stream'
import { recordAudit } from '../../db/activity/audit.ts'
import { lockProject } from '../../db/projects/rows.ts'
import { lockUser } from '../../db/accounts/users.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { createSpool } from '../../interchange/spool.ts'
import { type ArchiveDeps, type ArchiveWork, startArchive } from '../../jobs/export-archive.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectMay, expectSeen } from '../shared/expectations.ts'

/** An export for the operator, who needs neither an account nor a running service. */
export interface ShellExport {
  /** The user whose view it is. */
  readonly userId: string
  /** A project that the user manages; null for everything that they see. */
  readonly projectId: string | null
  /** For records between reading and writing. */
  readonly folder: string
}

/**
 * Makes the archive of a user, by the rules of an export by an administrator and with its audit events. `write` reads its content.
 * Returns the number of records.
 *
 * @throws Problem 403, 404
 */
export const exportFromShell = async (
  ctx: OpContext<Principal>,
  deps: Omit<ArchiveDeps, 'db'>,
  { userId, projectId, folder }: ShellExport,
  write: (content: Readable) => Promise<void>,
): Promise<number> => {
  const timeZone = await transaction(ctx, async (tx) => {
    const user = expectMay(
      'export.create_for_another',
      expectSeen('user.see', await lockUser(tx, userId, { purpose: 'change' })),
    )
    const asUser = { ...tx, principal: { ...tx.principal, userId, role: 'member' as const } }
    if (projectId !== null)
      expectMay(
        'export.create_of_project',
        expectSeen('project.see', await lockProject(asUser, projectId, 'use')),
      )
    await recordAudit(tx, 'export.requested', { userId })
    return user.time_zone
  })
  const spool = await createSpool(folder)
  try {
    const work: ArchiveWork = {
      scope: { userId, projectId, isOwn: false, timeZone },
      signal: ctx.signal(),
      progress: { done: 0, total: null },
      spool,
    }
    const { content } = await startArchive({ ...deps, db: ctx.db }, work)
    const { done: read } = work.progress
    try {
      await write(content)
    } finally {
      content.destroy()
    }
    await transaction(ctx, (tx) => recordAudit(tx, 'export.downloaded', { userId }))
    return work.progress.done - read
  } finally {
    await spool.remove()
  }
}
