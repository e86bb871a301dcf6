import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import type { Paging } from '../http/paging.ts'
import { listIdentities, type Oidc } from '../services/accounts/oidc.ts'
import { tokensJson } from './auth.ts'
import type { Handlers } from './handlers.ts'
import { codeOf } from './oidc-code.ts'

type Schemas = components['schemas']

interface Deps {
  readonly paging: Paging
  readonly oidc: Oidc
}

/** The operations of the contract's tag `oidc`. */
export const oidcHandlers = ({ paging, oidc }: Deps) =>
  ({
    async listOidcProviders() {
      return { status: 200, body: oidc.describe() }
    },

    async authorizeOidc(_ctx, { params: { provider }, body }) {
      const { purpose, return_to: returnTo, code_challenge: codeChallenge, state } = body
      const { invitation_token: invitationToken = null } = body
      const { url, expiresAt } = await oidc.authorize({
        provider,
        purpose,
        returnTo,
        codeChallenge,
        state,
        invitationToken,
      })
      return { status: 200, body: { authorization_url: url, expires_at: expiresAt } }
    },

    async exchangeOidcCode(ctx, { body }) {
      return { status: 200, body: tokensJson(await oidc.exchange(ctx, codeOf(body))) }
    },

    async logoutOidc(ctx, { body: { return_to: returnTo = null } }) {
      return { status: 200, body: { logout_url: await oidc.signOut(ctx, returnTo) } }
    },

    async listIdentities(ctx, { path, query }) {
      const { request, respond } = paging(path, ctx.principal, query)
      return respond(await listIdentities(ctx, request))
    },

    async linkIdentity(ctx, { body }) {
      const { id, json } = await oidc.link(ctx, codeOf(body))
      const headers = { location: `/auth/identities/${id}` }
      return { status: 201, headers, body: jsonText<Schemas['Identity']>(json) }
    },

    async unlinkIdentity(ctx, { params }) {
      await oidc.unlink(ctx, params.identity_id)
      return { status: 204 }
    },
  }) satisfies Partial<Handlers>
