import type { Passwords } from '../services/accounts/passwords.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly passwords: Passwords
}

/** The operations of the contract's tag `passwords`. */
export const passwordHandlers = ({ passwords }: Deps) =>
  ({
    async changePassword(ctx, { body }) {
      await passwords.change(ctx, {
        currentPassword: body.current_password,
        newPassword: body.new_password,
      })
      return { status: 204 }
    },

    async forgotPassword(ctx, { body }) {
      await passwords.requestReset(ctx, body.email)
      return { status: 202 }
    },

    async resetPassword(ctx, { body }) {
      await passwords.reset(ctx, { token: body.token, newPassword: body.new_password })
      return { status: 204 }
    },

    async setUserPassword(ctx, { params, body }) {
      const { password, reset_second_factor: resetsSecondFactor } = body
      await passwords.set(ctx, { userId: params.user_id, password, resetsSecondFactor })
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
