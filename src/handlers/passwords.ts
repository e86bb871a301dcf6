import type { CheckPassword } from '../services/check-password.ts'
import type { Credentials } from '../auth/credentials.ts'
import { hashResetToken, newResetToken } from '../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import type { Database } from '../db/engine/client.ts'
import {
  insertResetToken,
  resetPasswordByToken,
  selectHasResetToken,
  setPassword,
  updateOwnPassword,
} from '../db/passwords.ts'
import type { Mailer } from '../mail/mailer.ts'
import type { Handlers } from '../contract/operation.ts'
import { expectDone, problems } from '../problems/problems.ts'

interface Deps {
  readonly db: Database
  readonly passwords: PasswordHasher
  readonly checkPassword: CheckPassword
  readonly credentials: Credentials
  readonly mailer: Mailer
}

/** The operations of the contract's tag `passwords`. */
export const passwordHandlers = ({ db, passwords, checkPassword, credentials, mailer }: Deps) =>
  ({
    async changePassword({ body, principal, client }) {
      const pointer = '/current_password'
      const checked = await checkPassword(principal, client, body.current_password, pointer)
      const newHash = await passwords.hash(body.new_password)
      const isChanged = await updateOwnPassword(db, principal, client, { ...checked, newHash })
      if (!isChanged) throw problems.wrongCurrentPassword(pointer)
      await credentials.forgetUser(principal.userId)
      return { status: 204 }
    },

    async forgotPassword({ body, client }) {
      const { token, hash } = newResetToken()
      const isStored = await insertResetToken(db, client, body.email, hash)
      if (isStored) mailer.sendPasswordReset({ to: body.email, token })
      return { status: 202 }
    },

    async resetPassword({ body, client }) {
      const hash = hashResetToken(body.token)
      if (hash === null || !(await selectHasResetToken(db, hash))) throw problems.invalidResetToken()
      const newHash = await passwords.hash(body.new_password)
      const userId = await resetPasswordByToken(db, client, hash, newHash)
      if (userId === null) throw problems.invalidResetToken()
      await credentials.forgetUser(userId)
      return { status: 204 }
    },

    async setUserPassword({ params, body, principal, client }) {
      const newHash = await passwords.hash(body.password)
      const change = { newHash, resetsSecondFactor: body.reset_second_factor ?? false }
      expectDone(await setPassword(db, principal, client, params.user_id, change))
      await credentials.forgetUser(params.user_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
