import type { components } from '../../generated/openapi.ts'
import { jsonObject, jsonText, stringify } from '../contract/json-text.ts'
import { defaultTimeZone } from '../domain/shared/time-zones.ts'
import { codeOf } from './oidc-code.ts'
import type { Oidc } from '../services/accounts/oidc.ts'
import type { IssuedTokens } from '../services/accounts/issue-tokens.ts'
import type { Reauthenticate } from '../services/accounts/reauthenticate.ts'
import type { Sessions } from '../services/accounts/sessions.ts'
import type { SignIn } from '../services/accounts/sign-in.ts'
import type { Users } from '../services/accounts/users.ts'
import type { Handlers } from './handlers.ts'

type Schemas = components['schemas']

interface Deps {
  readonly signIn: SignIn
  readonly sessions: Sessions
  readonly reauthenticate: Reauthenticate
  readonly oidc: Oidc
  readonly users: Users
}

/** The operations of the contract's tag `auth`, except those on the signed-in user, which are in users.ts. */
export const authHandlers = ({ signIn, sessions, reauthenticate, oidc, users }: Deps) =>
  ({
    async register(ctx, { body }) {
      const { username, email, password, display_name: displayName = username } = body
      const { time_zone: timeZone = defaultTimeZone, invitation_token: invitationToken = null } = body
      const account = { username, email, displayName, timeZone, password }
      const tokens = await signIn.register(ctx, { account, invitationToken })
      return { status: 201, headers: { location: `/users/${tokens.userId}` }, body: tokensJson(tokens) }
    },

    async login(ctx, { body }) {
      return { status: 200, body: tokensJson(await signIn.signIn(ctx, body)) }
    },

    async completeLogin(ctx, { body }) {
      return { status: 200, body: tokensJson(await signIn.completeSignIn(ctx, body)) }
    },

    async refreshToken(ctx, { body }) {
      return { status: 200, body: tokensJson(await sessions.refresh(ctx, body.refresh_token)) }
    },

    async logout(ctx, { query }) {
      await sessions.signOut(ctx, { everywhere: query?.everywhere === true })
      return { status: 204 }
    },

    async reauthenticate(ctx, { body: { password, code = '', oidc: proof } }) {
      if (proof !== undefined) await oidc.reauthenticate(ctx, codeOf(proof))
      else if (password === undefined) await reauthenticate.byCode(ctx, code)
      else await reauthenticate.byPassword(ctx, { password, pointer: '/password' })
      return { status: 204 }
    },

    async undoEmailChange(ctx, { body }) {
      const { email, resetToken, resetTokenLifetime } = await users.undoEmailChange(ctx, body.token)
      return {
        status: 200,
        body: { email, reset_token: resetToken, reset_token_expires_in: resetTokenLifetime },
      }
    },
  }) satisfies Partial<Handlers>

export const tokensJson = ({
  accessToken,
  expiresIn,
  refreshToken,
  refreshExpiresIn,
  userJson,
}: IssuedTokens) =>
  jsonObject<Schemas['AuthTokens']>({
    access_token: stringify(accessToken),
    token_type: stringify('Bearer'),
    expires_in: stringify(expiresIn),
    refresh_token: stringify(refreshToken),
    refresh_expires_in: stringify(refreshExpiresIn),
    user: jsonText<Schemas['User']>(userJson),
  })
