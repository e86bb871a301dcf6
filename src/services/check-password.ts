import { insertFailure } from '../db/audit.ts'
import type { Database } from '../db/engine/client.ts'
import { selectOwnPassword } from '../db/passwords.ts'
import type { Client } from '../domain/audit.ts'
import type { SessionPrincipal } from '../domain/permissions.ts'
import { problems } from '../problems/problems.ts'
import type { AttemptKeys } from '../auth/attempts.ts'
import type { PasswordHasher } from '../auth/passwords.ts'

/** A current password that was right: its hash, and whom its attempts are counted for. */
export interface CheckedPassword {
  readonly oldHash: string
  readonly attemptKey: Buffer
}

/**
 * Has somebody who is signed in prove that they know their password. `pointer` says where in the body it stood.
 *
 * @throws Problem 422 when it is wrong, 429 after too many wrong ones
 */
export type CheckPassword = (
  principal: SessionPrincipal,
  client: Client,
  password: string,
  pointer: string,
) => Promise<CheckedPassword>

export const createCheckPassword =
  (db: Database, passwords: PasswordHasher, attemptKeys: AttemptKeys): CheckPassword =>
  async (principal, client, password, pointer) => {
    const attemptKey = attemptKeys.ofPassword(principal.userId, client)
    const { wait, passwordHash } = await selectOwnPassword(db, principal, attemptKey)
    if (wait > 0) throw problems.tooManyAttempts(wait)
    const { valid } = await passwords.verify(passwordHash, password)
    if (passwordHash === null) throw problems.invalidToken()
    if (valid) return { oldHash: passwordHash, attemptKey }
    await insertFailure(db, 'proof.failed', { client, principal, userId: principal.userId })
    throw problems.wrongCurrentPassword(pointer)
  }
