import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { components } from '../../../generated/openapi.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { removeRows } from '../../db/interchange/import-records.ts'
import {
  changeOptions,
  insertImport,
  queueImport,
  selectImport,
  setAuthors,
} from '../../db/interchange/imports.ts'
import { lockUser } from '../../db/accounts/users.ts'
import type { ImportUsers } from '../../domain/interchange/imports.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { problems } from '../../problems/problems.ts'
import type { Storage } from '../../storage/storage.ts'
import { type OpContext, type OpTransaction, transaction } from '../shared/context.ts'
import { expectFound, expectSeen } from '../shared/expectations.ts'
import { createRunImports, type RunImportsDeps } from './import-run.ts'
import { expectRunnable, openImport } from './imports.ts'
import { keepIfUsed } from '../files/stored-files.ts'

/** Imports for the operator, who needs neither an account nor a running service. They are the user's, as if uploaded over the API. */

/** A file for an import of a user. */
export interface ShellFile {
  readonly userId: string
  readonly name: string
  readonly size: number
  /** Null recognizes it. */
  readonly format: string | null
  readonly content: Readable
}

/** An import of a user. */
export interface ShellImport {
  readonly userId: string
  readonly id: string
}

/** Who the users of a file are here. */
export interface ShellMapping {
  /** Who gets their tasks. */
  readonly users: ImportUsers
  /** Whose their comments are. Users can say that of their own only. */
  readonly authors: ImportUsers
}

type Import = components['schemas']['Import']

/** Milliseconds between two looks at an import that another process works on. */
const interval = 1_000

/** Stores a file, and makes an import that is going to be read. Returns its id. @throws Problem 403, 404, 507 */
export const createFromShell = async (
  ctx: OpContext<Principal>,
  { storage, importFileDays }: { readonly storage: Storage; readonly importFileDays: number },
  { userId, name, size: expectedSize, format, content }: ShellFile,
): Promise<string> => {
  const stored = await storage.put(content, { maxBytes: Math.max(1, expectedSize), minBytes: expectedSize })
  const { key: storage_key, size, sha256 } = stored
  const create = () =>
    transaction(ctx, async (tx) => {
      await expectEnabled(tx, userId)
      const id = newId()
      const owner = asOwner(tx, userId)
      await insertImport(owner, id, { file_name: name, storage_key, size, sha256 }, importFileDays)
      if (format !== null) {
        const found = await openImport(owner, id)
        await changeOptions(owner, found, { ...found, format })
      }
      await recordAudit(tx, 'import.created', { userId })
      return id
    })
  return keepIfUsed(storage, stored, create, () => true)
}

/** Runs an import that is ready, whoever has made it. The mapping is added to that of its owner. @throws Problem 403, 404, 409 */
export const runFromShell = (
  ctx: OpContext<Principal>,
  { userId, id }: ShellImport,
  { users, authors }: ShellMapping,
): Promise<void> =>
  transaction(ctx, async (tx) => {
    await expectEnabled(tx, userId)
    const owner = asOwner(tx, userId)
    const found = await openImport(owner, id)
    expectRunnable(found)
    const mapped = new Map([...found.users, ...users].map((user) => [user.source_id, user]))
    await changeOptions(owner, found, { ...found, users: [...mapped.values()] })
    await setAuthors(owner, found, authors)
    await pipeline(tx.db, {
      rows: () => removeRows(owner, found),
      import: () => queueImport(owner, found, 'running'),
    })
    await recordAudit(tx, 'import.run', { userId })
  })

/** An import of a user. @throws Problem 404 */
export const getFromShell = async (ctx: OpContext<Principal>, { userId, id }: ShellImport): Promise<Import> =>
  JSON.parse(expectFound(await selectImport(asOwner(ctx, userId), id)).json) as Import

/**
 * Works on the imports of a user, as the job would, until this one waits for nothing more. Another process may do it as well. When
 * stopped, it is left to the service.
 *
 * @throws Problem 403, 404
 */
export const settleFromShell = async (
  ctx: OpContext<Principal>,
  deps: Omit<RunImportsDeps, 'onlyUserId'>,
  of: ShellImport,
  stop: AbortSignal,
): Promise<Import> => {
  const work = createRunImports({ ...deps, onlyUserId: of.userId })
  for (;;) {
    await work(stop)
    stop.throwIfAborted()
    // An import of a disabled user waits.
    await transaction(ctx, (tx) => expectEnabled(tx, of.userId))
    const found = await getFromShell(ctx, of)
    if (found.poll_after_seconds === null) return found
    await pause(interval, undefined, { signal: stop })
  }
}

const asOwner = <Context extends OpContext<Principal> | OpTransaction<Principal>>(
  ctx: Context,
  userId: string,
): Context => ({ ...ctx, principal: { ...ctx.principal, userId } })

/** Requires a user whose imports run. @throws Problem 403, 404 */
const expectEnabled = async (tx: OpTransaction<Principal>, userId: string): Promise<void> => {
  const { is_disabled } = expectSeen('user.see', await lockUser(tx, userId, { purpose: 'change' }))
  if (is_disabled) throw problems.accountDisabled()
}
