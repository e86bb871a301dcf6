import { getSecondFactor, type SecondFactors } from '../services/accounts/second-factor.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly secondFactor: SecondFactors
}

/** The operations of the contract's tag `second-factor`. */
export const secondFactorHandlers = ({ secondFactor }: Deps) =>
  ({
    async getSecondFactor(ctx) {
      return { status: 200, body: await getSecondFactor(ctx) }
    },

    async enrollSecondFactor(ctx, { body }) {
      const { secret, uri, qrCode } = await secondFactor.enroll(ctx, body.password)
      return {
        status: 201,
        headers: { location: '/auth/second-factor' },
        body: { secret, otpauth_uri: uri, qr_code: qrCode },
      }
    },

    async confirmSecondFactor(ctx, { body }) {
      const codes = await secondFactor.confirm(ctx, body.code)
      return { status: 200, body: { recovery_codes: [...codes] } }
    },

    async disableSecondFactor(ctx, { body }) {
      await secondFactor.disable(ctx, body)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
