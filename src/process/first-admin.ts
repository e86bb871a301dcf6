import { passwordHasher } from '../auth/passwords.ts'
import type { FirstAdmin } from '../config/config.ts'
import { openDatabase } from '../db/engine/client.ts'
import type { ConnectionOptions } from '../db/engine/connection.ts'
import { shellContext } from '../db/engine/context.ts'
import { ConstraintViolation } from '../db/engine/errors.ts'
import { hasAccounts } from '../db/sign-in.ts'
import { insertUser } from '../db/users.ts'
import { defaultTimeZone } from '../domain/time-zones.ts'
import { expectDone } from '../problems/problems.ts'

const username = 'admin'

/**
 * Creates the administrator of ADMIN_EMAIL in a database that has never had an account. Requests are refused until then, so
 * nobody else becomes the administrator by registering first.
 */
export const createFirstAdmin = async (
  connection: ConnectionOptions,
  { email, password }: FirstAdmin,
  log: { info(message: string): void },
): Promise<void> => {
  const db = openDatabase(connection)
  try {
    const ctx = shellContext(db, 'start')
    if (await hasAccounts(ctx)) return
    const user = await insertUser(ctx, async () => ({
      username,
      email,
      displayName: username,
      role: 'admin',
      timeZone: defaultTimeZone,
      passwordHash: await passwordHasher().hash(password),
    }))
    expectDone(user)
    log.info(`created the administrator ${email} (ADMIN_EMAIL)`)
  } catch (error) {
    // Another process that started at the same time has created the account.
    if (!(error instanceof ConstraintViolation)) throw error
  } finally {
    await db.close()
  }
}
