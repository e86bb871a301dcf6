import { untilNone } from '../../db/statements/batches.ts'
import {
  countRows,
  forgetHidden,
  markHiddenRows,
  purgeHiddenProjects,
} from '../../db/interchange/import-records.ts'
import { endImport } from '../../db/interchange/imports.ts'
import { purgeProjectRows } from '../../db/tasks/purge.ts'
import { type ImportWork, inLease } from './import-work.ts'

/**
 * Removes the new projects of an import that has failed or was cancelled, unless they are shown, and ends it. What else was created stays,
 * and can be undone. A project can have very many tasks, so what is known of them is forgotten in batches; the projects are marked
 * after that, because it is by them that an interrupted attempt finds the rest. Their rows count against the quota, so they are removed
 * before the end; those that an interrupted attempt leaves are removed by the job that purges.
 */
export const discardProjects = async (work: ImportWork): Promise<void> => {
  const { held, signal } = work
  await untilNone(() => inLease(work, (tx) => markHiddenRows(tx, held.id)), signal)
  await untilNone(() => inLease(work, (tx) => forgetHidden(tx, held.id)), signal)
  const ids = await inLease(work, (tx) => purgeHiddenProjects(tx, held))
  for (const id of ids) await purgeProjectRows(work.ctx.db, id, signal)
  await inLease(work, async (tx) => {
    const result = await countRows(tx, held)
    const { failure } = held
    await endImport(tx, held, { status: failure === null ? 'cancelled' : 'failed', failure, result })
  })
}
