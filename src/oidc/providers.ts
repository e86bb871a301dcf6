import { createRemoteJWKSet, customFetch as joseFetch, jwtVerify, type JWTVerifyGetKey } from 'jose'
import * as client from 'openid-client'
import { allowsReturn, isAllowedEndpoint, type OidcProvider } from '../config/oidc.ts'
import type { OidcConfig } from '../config/config.ts'
import { misshapenClaims } from '../domain/projects/team-rules.ts'
import { type AuthorizationRequest, challengeOf, secretsOf } from './authorization-request.ts'
import {
  type ClaimSet,
  identifierOf,
  mergeClaims,
  type ProvenIdentity,
  readClaims,
  secondsOf,
  wantedClaims,
} from './claims.ts'
import {
  isOfAnotherUser,
  NotAuthenticated,
  NotRecent,
  ProviderUnavailable,
  userInfoFailure,
} from './failures.ts'
import { createBoundedFetch, type FetchLimits, fetchLimits } from './fetch.ts'

/** An identity provider. */
export interface Provider {
  readonly settings: OidcProvider
  /** Where it redirects to. To be registered with it. */
  readonly redirectUri: string
  /** Reads its discovery document. @throws ProviderUnavailable */
  discover(): Promise<client.ServerMetadata>
  /** Where a browser authenticates. @throws ProviderUnavailable */
  authorizationUrl(request: AuthorizationRequest, state: string): Promise<URL>
  /**
   * Who has authenticated, by the URL that the provider has redirected to; recently, if that was requested. `warn` is told what the
   * provider says that cannot be used.
   *
   * @throws NotAuthenticated, NotRecent, ProviderUnavailable
   */
  authenticate(
    request: AuthorizationRequest,
    redirected: URL,
    warn: (message: string) => void,
  ): Promise<ProvenIdentity>
  /** Where a browser signs out of the provider; null if it has no such page. @throws ProviderUnavailable */
  logoutUrl(parameters: Readonly<Record<string, string>>): Promise<URL | null>
  /** @throws NotAuthenticated, ProviderUnavailable */
  verifyLogoutToken(token: string): Promise<LogoutToken>
}

/** A logout token (OpenID Connect Back-Channel Logout 1.0): ends a session of the provider, or all sessions of a subject. */
export interface LogoutToken {
  readonly issuer: string
  readonly id: string
  /** Seconds since the epoch. */
  readonly expiresAt: number
  readonly subject: string | null
  readonly sid: string | null
}

export interface Providers {
  readonly all: readonly Provider[]
  /** Null for an unknown id. */
  find(id: string): Provider | null
  /** Whether sign-in may return to a URL. */
  allowsReturn(url: string): boolean
}

/** Seconds by which the clock of a provider may differ. */
const clockTolerance = 30

/** Seconds since the authentication that counts as recent. */
const maxAuthenticationAge = 900

/** Seconds. Bounds how long its `jti` is kept. */
const maxLogoutTokenAge = 600

/** Milliseconds. */
const discoveryLifetime = 3_600_000
const retryDiscoveryAfter = 5_000
/** Keys are fetched again at most this often; openid-client does the same. */
const keysCooldown = 60_000

/** The algorithms of signatures with a key pair, so that nobody signs with what verifies. */
const signatureAlgorithms = new Set([
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
])

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

export const createProviders = (
  { providers, returnTo, publicUrl }: OidcConfig,
  limits: FetchLimits = fetchLimits,
): Providers => {
  const all = providers.map((settings) => createProvider(settings, publicUrl, limits))
  const byId = new Map(all.map((provider) => [provider.settings.id, provider]))
  // Swagger UI signs in by itself.
  const allowed = [...returnTo, `${publicUrl}/docs`]
  return {
    all,
    find: (id) => byId.get(id) ?? null,
    allowsReturn: (url) => allowsReturn(allowed, url),
  }
}

interface Discovered {
  readonly configuration: client.Configuration
  readonly keys: JWTVerifyGetKey
}

const createProvider = (settings: OidcProvider, publicUrl: string, limits: FetchLimits): Provider => {
  const { id, issuer, clientId, scopes } = settings
  const redirectUri = `${publicUrl}/auth/oidc/${id}/callback`
  const fetch = createBoundedFetch(new URL(issuer), limits)

  const discovered = keepFresh(async (): Promise<Discovered> => {
    const configuration = await client.discovery(
      new URL(issuer),
      clientId,
      { [client.clockTolerance]: clockTolerance },
      clientAuth(settings),
      {
        [client.customFetch]: fetch,
        timeout: limits.timeout / 1_000,
        execute: [
          client.enableNonRepudiationChecks,
          // `createBoundedFetch` allows it for this machine only.
          ...(issuer.startsWith('http:') ? [client.allowInsecureRequests] : []),
        ],
      },
    )
    const { issuer: found, jwks_uri: keysUri = '', ...metadata } = configuration.serverMetadata()
    // openid-client accepts the template of Microsoft's issuer for any tenant, and compares URLs. Tokens and identities have its text.
    if (found !== issuer) throw new TypeError(`its discovery document has the issuer ${found}`)
    const { authorization_endpoint = '', token_endpoint = '', ...optional } = metadata
    const endpoints = {
      jwks_uri: keysUri,
      authorization_endpoint,
      token_endpoint,
      userinfo_endpoint: optional.userinfo_endpoint,
      end_session_endpoint: optional.end_session_endpoint,
    }
    for (const [name, url] of Object.entries(endpoints)) expectAllowed(new URL(issuer), name, url)
    const keys = createRemoteJWKSet(new URL(keysUri), {
      timeoutDuration: limits.timeout,
      cooldownDuration: keysCooldown,
      [joseFetch]: fetch,
    })
    return { configuration, keys }
  })

  const expectDiscovered = async (): Promise<Discovered> => {
    try {
      return await discovered()
    } catch (error) {
      throw new ProviderUnavailable(id, error, { isOutage: isPassing(error) })
    }
  }

  /** Tells an outage from a refusal: only requests that could not be made are one. */
  const refuse = (error: unknown): Error =>
    isOutage(error) ? new ProviderUnavailable(id, error, { isOutage: true }) : new NotAuthenticated(id, error)

  /** The claims of the ID token, completed by the user info if that can be read. */
  const completeClaims = async (
    configuration: client.Configuration,
    { access_token: accessToken }: { readonly access_token: string },
    claims: ClaimSet,
    warn: (message: string) => void,
  ): Promise<ClaimSet> => {
    const isComplete = wantedClaims(settings).every((name) => Object.hasOwn(claims, name))
    if (isComplete || configuration.serverMetadata().userinfo_endpoint === undefined) return claims
    try {
      const userInfo = await client.fetchUserInfo(configuration, accessToken, String(claims.sub))
      return mergeClaims(settings, claims, userInfo)
    } catch (error) {
      if (isOfAnotherUser(error)) throw error
      warn(userInfoFailure(id, error))
      return claims
    }
  }

  return {
    settings,
    redirectUri,

    discover: async () => (await expectDiscovered()).configuration.serverMetadata(),

    async authorizationUrl(request, state) {
      const { configuration } = await expectDiscovered()
      const { nonce, verifier } = secretsOf(request)
      return client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: scopes.join(' '),
        state,
        nonce,
        code_challenge: challengeOf(verifier),
        code_challenge_method: 'S256',
        ...(request.purpose === 'reauthenticate' && { max_age: String(maxAuthenticationAge) }),
      })
    },

    async authenticate(request, redirected, warn) {
      const { configuration } = await expectDiscovered()
      const { nonce, verifier } = secretsOf(request)
      const state = redirected.searchParams.get('state') ?? ''
      try {
        const tokens = await client.authorizationCodeGrant(configuration, redirected, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        })
        const claims = { ...tokens.claims() }
        // openid-client looks at azp only beside several audiences. OpenID Connect Core 1.0, section 3.1.3.7, does not.
        if (claims.azp !== undefined && claims.azp !== clientId)
          throw new TypeError('the ID token was issued to another client: its azp is not client_id')
        if (request.purpose === 'reauthenticate') expectRecent(id, claims)
        const all = await completeClaims(configuration, tokens, claims, warn)
        for (const [claim, shape] of misshapenClaims(settings.teams, all))
          warn(
            `The rules for teams of ${id} match texts and lists of texts, but the claim ${claim} is ${shape}`,
          )
        return readClaims(settings, all)
      } catch (error) {
        throw error instanceof NotRecent ? error : refuse(error)
      }
    },

    async logoutUrl(parameters) {
      const { configuration } = await expectDiscovered()
      if (configuration.serverMetadata().end_session_endpoint === undefined) return null
      return client.buildEndSessionUrl(configuration, { ...parameters })
    },

    async verifyLogoutToken(token) {
      const { configuration, keys } = await expectDiscovered()
      const { issuer: expected, id_token_signing_alg_values_supported: supported = ['RS256'] } =
        configuration.serverMetadata()
      try {
        const { payload, protectedHeader } = await jwtVerify(token, keys, {
          issuer: expected,
          audience: clientId,
          algorithms: supported.filter((algorithm) => signatureAlgorithms.has(algorithm)),
          clockTolerance,
          maxTokenAge: maxLogoutTokenAge,
          requiredClaims: ['iat', 'exp', 'jti', 'events'],
        })
        return readLogoutToken({ ...payload, typ: protectedHeader.typ, issuer: expected })
      } catch (error) {
        throw refuse(error)
      }
    },
  }
}

/** Not by openid-client, whose errors do not tell the reasons apart. @throws NotRecent, TypeError for a time that cannot be */
const expectRecent = (provider: string, { auth_time }: ClaimSet): void => {
  if (auth_time === undefined) throw new NotRecent(provider, { isKnown: false })
  const age = Date.now() / 1_000 - secondsOf(auth_time)
  if (age > maxAuthenticationAge + clockTolerance) throw new NotRecent(provider, { isKnown: true })
}

/** A browser is sent to some of the addresses of a discovery document. @throws TypeError */
const expectAllowed = (issuer: URL, name: string, text: string | undefined): void => {
  if (text === undefined) return
  const url = URL.parse(text)
  if (url === null || !isAllowedEndpoint(issuer, url))
    throw new TypeError(
      `its discovery document has no https:// URL as ${name}, or one of this machine, which only an issuer on it may have`,
    )
}

const clientAuth = ({ clientSecret, clientAuth }: OidcProvider): client.ClientAuth => {
  if (clientSecret === null) return client.None()
  return clientAuth === 'client_secret_post'
    ? client.ClientSecretPost(clientSecret)
    : client.ClientSecretBasic(clientSecret)
}

/**
 * Runs `find` when a result is first needed, and again in the background when the last one is old. While that fails, the last one is
 * used; without one, the failure is repeated for a moment.
 */
const keepFresh = <T>(find: () => Promise<T>): (() => Promise<T>) => {
  let last: T | null = null
  let failure: unknown
  let finding: Promise<void> | null = null
  let due = 0
  const start = async (): Promise<void> => {
    try {
      last = await find()
      due = performance.now() + discoveryLifetime
    } catch (error) {
      failure = error
      due = performance.now() + retryDiscoveryAfter
    } finally {
      finding = null
    }
  }
  return async () => {
    if (finding === null && performance.now() >= due) finding = start()
    if (last === null) await finding
    if (last === null) throw failure
    return last
  }
}

/** Whether a request to the provider failed, or it said that it cannot answer now. */
const isOutage = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  if (error instanceof client.ResponseBodyError || error instanceof client.AuthorizationResponseError)
    return ['server_error', 'temporarily_unavailable'].includes(error.error)
  const code: unknown = Reflect.get(error, 'code')
  return (
    code === 'OAUTH_TIMEOUT' ||
    code === 'ERR_JWKS_TIMEOUT' ||
    error.name === 'ResponseRefused' ||
    error.name === 'TimeoutError' ||
    (error instanceof TypeError && ['fetch failed', 'terminated'].includes(error.message)) ||
    (error instanceof client.ClientError && isOutage(error.cause))
  )
}

/** Whether reading the discovery document may succeed later. Another answer than the document is no outage, such as a redirect. */
const isPassing = (error: unknown): boolean => {
  if (!(error instanceof Error) || error.name === 'ResponseRefused') return false
  if (isOutage(error)) return !(error.cause instanceof Error && error.cause.name === 'ResponseRefused')
  return error.cause instanceof Response ? error.cause.status >= 500 : isPassing(error.cause)
}

/** @throws TypeError */
const readLogoutToken = (
  claims: Readonly<Record<string, unknown>> & { readonly issuer: string; readonly typ: string | undefined },
): LogoutToken => {
  const { typ, events, nonce, jti, exp, issuer } = claims
  // Older providers say JWT, or nothing. What tells it from an ID token are its events, and that it has no nonce.
  if (typ !== undefined && !['logout+jwt', 'jwt'].includes(typ.toLowerCase()))
    throw new TypeError(`the token has the type ${typ}`)
  if (nonce !== undefined) throw new TypeError('the token has a nonce')
  if (typeof events !== 'object' || events === null || !Object.hasOwn(events, logoutEvent))
    throw new TypeError('the token has no event of a logout')
  const [id, subject, sid] = [jti, claims.sub, claims.sid].map(identifierOf)
  if (id == null) throw new TypeError('the token has no usable jti')
  if (subject == null && sid == null) throw new TypeError('the token has neither sub nor sid')
  return { issuer, id, expiresAt: secondsOf(exp), subject: subject ?? null, sid: sid ?? null }
}
