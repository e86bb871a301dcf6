import { passwordHasher } from '../auth/passwords.ts'
import type { FirstAdmin } from '../config/config.ts'
import { openDatabase } from '../db/engine/client.ts'
import type { ServerConnection } from '../db/engine/connection.ts'
import { localClient } from '../domain/activity/audit.ts'
import { shellPrincipal } from '../domain/shared/permissions.ts'
import { createContext } from '../services/shared/context.ts'
import { ConstraintViolation } from '../db/engine/errors.ts'
import { hasAccounts } from '../db/accounts/sign-in.ts'
import { defaultTimeZone } from '../domain/shared/time-zones.ts'
import { createUser } from '../services/accounts/users.ts'

const username = 'admin'

/**
 * Creates the administrator of ADMIN_EMAIL in a database that has never had an account. Requests are refused until then, so
 * nobody else becomes the administrator by registering first.
 */
export const createFirstAdmin = async (
  connection: ServerConnection,
  { email, password }: FirstAdmin,
  log: { info(message: string): void },
): Promise<void> => {
  const db = openDatabase(connection)
  try {
    const ctx = createContext(db, shellPrincipal, localClient('start'))
    if (await hasAccounts(ctx)) return
    const account = { username, email, displayName: username, timeZone: defaultTimeZone, password }
    await createUser(ctx, { ...account, role: 'admin' }, passwordHasher())
    log.info(`created the administrator ${email} (ADMIN_EMAIL)`)
  } catch (error) {
    // Another process that started at the same time has created the account.
    if (!(error instanceof ConstraintViolation)) throw error
  } finally {
    await db.close()
  }
}
