import type { Database } from '../db/engine/client.ts'
import { updateAuthenticatedByPassword } from '../db/reauthentication.ts'
import type { Client } from '../domain/audit.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import type { CheckPassword } from './check-password.ts'

/**
 * Renews the authentication of a session by its user's password. `pointer` is the password's place in the body.
 *
 * @throws Problem 422 when it is wrong, 429 after too many wrong ones
 */
export type ReauthenticateByPassword = (
  principal: SessionPrincipal,
  client: Client,
  password: string,
  pointer: string,
) => Promise<void>

export const createReauthenticateByPassword =
  (db: Database, checkPassword: CheckPassword): ReauthenticateByPassword =>
  async (principal, client, password, pointer) => {
    const checked = await checkPassword(principal, client, password, pointer)
    const isRenewed = await updateAuthenticatedByPassword(db, principal, client, checked)
    if (!isRenewed) throw problems.wrongCurrentPassword(pointer)
  }
