import type { AccessTokens } from '../../auth/access-tokens.ts'
import type { AttemptKeys } from '../../auth/attempts.ts'
import type { ShouldAuditFailure } from '../../auth/audited-failures.ts'
import { hashOidcCode, newChallenge, newOidcCode, newRefreshToken } from '../../auth/opaque-tokens.ts'
import { lockAccount, lockOwnAccount } from '../../db/accounts/lock.ts'
import { forgetAttempts, insertAttempt, takeBackAttempt } from '../../db/accounts/attempts.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { readClock } from '../../db/shared/database-clock.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline, pipelineEach } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  findIdentity,
  identitiesOf,
  insertIdentity,
  issuerOfSession,
  readIdentityFacts,
  removeIdentity,
  selectIdentities,
  type Subject,
  useIdentity,
  viewIdentity,
} from '../../db/accounts/identities.ts'
import { endLogin, insertLogoutToken, useLogoutToken, usersOfLogin } from '../../db/accounts/logout-tokens.ts'
import { insertOidcCode, removeCodesOfLogin, takeOidcCode } from '../../db/accounts/oidc-codes.ts'
import { renewAuthentication } from '../../db/accounts/reauthentication.ts'
import { challengeLifetime } from '../../db/accounts/sign-in.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import { type Principal, relationsToUser, type SessionPrincipal } from '../../domain/shared/permissions.ts'
import {
  authorizationLifetime,
  newSeed,
  openRequest,
  type Purpose,
  sealRequest,
} from '../../oidc/authorization-request.ts'
import type { ProvenIdentity } from '../../oidc/claims.ts'
import { NotAuthenticated, NotRecent, ProviderUnavailable } from '../../oidc/failures.ts'
import { misconfigured } from '../../oidc/problems.ts'
import type { Provider } from '../../oidc/providers.ts'
import { problems } from '../../problems/problems.ts'
import type { UsablePassword } from './check-password.ts'
import { type OpContext, thenForget, transaction } from '../shared/context.ts'
import { expectMay, expectProven, expectSeen, expectSignedIn } from '../shared/expectations.ts'
import { type IssuedTokens, issueTokens } from './issue-tokens.ts'
import { type CodeInput, openProof, sealProof } from './oidc-proofs.ts'
import { openCode, type OidcSignInDeps, signInBy } from './oidc-sign-in.ts'
import { orLog } from './or-log.ts'
import { applyRuledTeams, leaveRuledTeams } from '../projects/ruled-teams.ts'
import type { Sessions } from './sessions.ts'

/** A request of a client to authenticate somebody. */
interface Authorization {
  readonly provider: string
  readonly purpose: Purpose
  readonly returnTo: string
  readonly codeChallenge: string
  readonly state: string
  readonly invitationToken: string | null
}

/** The answer of a provider. */
interface ProviderAnswer {
  readonly provider: string
  /** The query of the redirect URI, with the question mark. */
  readonly query: string
}

/** How users can sign in. */
interface SignInMethods {
  readonly providers: { readonly id: string; readonly name: string; readonly issuer: string }[]
  readonly password_sign_in: boolean
}

/** Sign-in with identity providers. */
export interface Oidc {
  describe(): SignInMethods
  /** @throws Problem 400 for an address to return to that is not allowed, 404, 503 when the provider does not respond */
  authorize(input: Authorization): Promise<{ readonly url: string; readonly expiresAt: string }>
  /**
   * Where a browser goes on to that a provider has sent back: to the client, with a code or with an error.
   *
   * @throws Problem 400 for an answer to no request of this service, 404
   */
  complete(ctx: OpContext<null>, answer: ProviderAnswer): Promise<string>
  /** @throws Problem 401 for an invalid code, or when a second factor is required, 403, 409, 422 for an invalid invitation */
  exchange(ctx: OpContext, input: CodeInput): Promise<IssuedTokens>
  /** Links an identity to the caller's account. Returns its id and its JSON. @throws Problem 403, 409, 422 for an invalid code */
  link(
    ctx: OpContext<SessionPrincipal>,
    input: CodeInput,
  ): Promise<{ readonly id: string; readonly json: string }>
  /** Renews the authentication of the caller's session by an identity of the account. @throws Problem 422 */
  reauthenticate(ctx: OpContext<SessionPrincipal>, input: CodeInput): Promise<void>
  /**
   * Ends the caller's session. Returns where a browser signs out of the provider that has started it; null if there is no such page.
   *
   * @throws Problem 400 for an address to return to that is not allowed
   */
  signOut(ctx: OpContext<SessionPrincipal>, returnTo: string | null): Promise<string | null>
  /**
   * Ends the sessions that a provider's logout token names (OpenID Connect Back-Channel Logout 1.0).
   *
   * @throws Problem 400 for an invalid token, 404 for an unknown provider, 503 when its keys cannot be read
   */
  endByProvider(
    ctx: OpContext<null>,
    input: { readonly provider: string; readonly token: string },
  ): Promise<void>
  /** @throws Problem 403, 404, 409 for the last way to sign in */
  unlink(ctx: OpContext<SessionPrincipal>, identityId: string): Promise<void>
}

interface Deps extends OidcSignInDeps {
  readonly accessTokens: AccessTokens
  readonly sessions: Sessions
  readonly attemptKeys: AttemptKeys
  readonly shouldAuditFailure: ShouldAuditFailure
  /** Whether passwords are closed. */
  readonly isOnly: boolean
  readonly usablePassword: UsablePassword
  /** The issuer of the codes (RFC 9207): PUBLIC_URL. */
  readonly ownIssuer: string
  /** By the clock of the database, in milliseconds since the epoch. */
  readonly now: () => number
}

/** A page of the caller's identities. */
export const listIdentities = (ctx: OpContext<SessionPrincipal>, page: PageRequest): Promise<Page> =>
  selectIdentities(ctx, page)

export const createOidc = (deps: Deps): Oidc => {
  const { providers, keys, accessTokens, credentials, attemptKeys, usablePassword, ownIssuer, now, log } =
    deps

  const expectProvider = (id: string): Provider => {
    const provider = providers.find(id)
    if (provider === null) throw problems.notFound()
    return provider
  }

  /** Takes an attempt with a code of a provider back, unless the provider does not know the code: an outage is no fault of the client. */
  const settleCode = async (ctx: OpContext<null>, key: Buffer, error: unknown): Promise<void> => {
    const isMadeUp = error instanceof NotAuthenticated && error.code !== null && codeErrors.has(error.code)
    if (!isMadeUp) await takeBackAttempt(ctx, key, freeCodes)
    else if (deps.shouldAuditFailure(ctx.client)) await recordAudit(ctx, 'sign_in.failed', { userId: null })
  }

  /** Uses a code up, in a statement of its own: a refusal, which rolls a transaction back, must use it up too. */
  const redeemInSession = async (
    ctx: OpContext,
    input: CodeInput,
    purpose: Purpose,
  ): Promise<ProvenIdentity> => {
    const hash = hashOidcCode(input.code)
    const sealed = hash && (await takeOidcCode(ctx, hash))
    const proof = hash && sealed && openProof(keys, { hash, sealed }, input, purpose)
    if (proof === null) throw problems.unusableOidcCode()
    return proof.identity
  }

  return {
    describe: () => ({
      providers: providers.all.map(({ settings: { id, name, issuer } }) => ({ id, name, issuer })),
      password_sign_in: !deps.isOnly,
    }),

    async authorize({ provider: id, returnTo, state, ...fields }) {
      const provider = expectProvider(id)
      if (!providers.allowsReturn(returnTo)) throw problems.returnNotAllowed()
      const expiresAt = now() + authorizationLifetime
      const request = { ...fields, provider: id, returnTo, clientState: state, seed: newSeed(), expiresAt }
      const url = await provider.authorizationUrl(request, sealRequest(keys, request))
      return { url: url.href, expiresAt: new Date(expiresAt).toISOString() }
    },

    async complete(ctx, { provider: id, query }) {
      const provider = expectProvider(id)
      const redirected = new URL(query, provider.redirectUri)
      const request = openRequest(keys, redirected.searchParams.get('state') ?? '')
      // The operator may have removed the address since, or have moved the service.
      if (request === null || request.provider !== id || !providers.allowsReturn(request.returnTo))
        throw problems.invalidOidcState()
      const { purpose, codeChallenge, invitationToken } = request
      // Exactly, since a logout from then on ends what has begun.
      const begunAt = await readClock(ctx.db)
      const warn = (message: string): void =>
        log.warn({ provider: id, request_id: ctx.client.requestId }, message)
      const goOn = (parameters: Readonly<Record<string, string>>): string => {
        const url = new URL(request.returnTo)
        const answer = { ...parameters, state: request.clientState, iss: ownIssuer }
        for (const [name, value] of Object.entries(answer)) url.searchParams.set(name, value)
        return url.href
      }
      const refuse = (error: string, reason: string, description?: string): string => {
        warn(reason)
        return goOn({
          error,
          ...(description !== undefined && { error_description: description }),
          request_id: ctx.client.requestId,
        })
      }
      // A time so far ahead is from before the clock was set back.
      if (request.expiresAt <= begunAt || request.expiresAt > begunAt + authorizationLifetime)
        return refuse('invalid_request', `The request to ${id} is older than 10 minutes`)
      // Counted before the provider is asked about it: nobody can send it made-up codes through this service until it locks the client.
      const attemptKey = redirected.searchParams.has('code')
        ? attemptKeys.providerCodeKey(id, ctx.client)
        : null
      const wait = attemptKey === null ? 0 : await insertAttempt(ctx, attemptKey, freeCodes)
      if (wait > 0)
        return refuse(
          'temporarily_unavailable',
          `The identity provider ${id} is not asked about another code for ${wait} seconds: too many from this network were wrong`,
          `Too many sign-ins from your network have failed. Try again in ${wait} seconds.`,
        )
      try {
        const identity = await provider.authenticate(request, redirected, warn)
        const { token: code, hash } = newOidcCode()
        const sealed = sealProof(keys, { purpose, codeChallenge, invitationToken, identity }, hash)
        await transaction(ctx, async (tx) => {
          await pipeline(tx.db, {
            code: () => insertOidcCode(tx, { hash, sealed, owner: identity, begunAt }),
            attempts: () => attemptKey && forgetAttempts(tx, attemptKey),
          })
        })
        return goOn({ code })
      } catch (error) {
        if (attemptKey !== null)
          await orLog(ctx, settleCode(ctx, attemptKey, error), {
            log,
            message: 'An attempt to sign in stays counted as failed',
          })
        // The code is that of OpenID Connect Core Unmet Authentication Requirements 1.0.
        if (error instanceof NotRecent)
          return refuse('unmet_authentication_requirements', error.message, error.remedy)
        if (error instanceof NotAuthenticated) return refuse(clientError(error.code), error.message)
        if (error instanceof ProviderUnavailable)
          return error.isOutage
            ? refuse('temporarily_unavailable', error.message)
            : refuse('server_error', error.message, misconfigured)
        throw error
      }
    },

    async exchange(ctx, input) {
      const opened = await openCode(ctx, input, deps)
      if (opened === null) {
        if (deps.shouldAuditFailure(ctx.client)) await recordAudit(ctx, 'sign_in.failed', { userId: null })
        throw problems.invalidOidcCode()
      }
      const { identity } = opened.proof
      const [refreshToken, challenge] = [newRefreshToken(), newChallenge()]
      const started = await signInBy(ctx, opened, { refreshToken, challenge }, deps)
      if (started === 'challenged') throw problems.secondFactorRequired(challenge.token, challengeLifetime)
      // Not before: somebody who does not get in changes nothing.
      await applyRuledTeams(
        ctx,
        { userId: started.userId, issuer: identity.issuer, teams: identity.teams },
        log,
      )
      return issueTokens(accessTokens, started, { refreshToken: refreshToken.token })
    },

    async link(ctx, input) {
      const { userId } = ctx.principal
      const identity = await redeemInSession(ctx, input, 'link')
      const id = newId()
      const json = await transaction(ctx, async (tx) => {
        const { account, linked } = await pipeline(tx.db, {
          account: () => lockOwnAccount(tx),
          linked: () => findIdentity(tx, identity),
        })
        expectProven({ is_proven: expectSignedIn(account).isProven })
        if (linked !== null)
          throw linked.userId === userId ? problems.identityLinked() : problems.identityOfAnotherAccount()
        const { issuer, subject, email } = identity
        await pipeline(tx.db, {
          identity: () => insertIdentity(tx, { id, userId, issuer, subject, email }, deps.reauthDays),
          audit: () => recordAudit(tx, 'identity.linked', { userId }),
        })
        return last(viewIdentity(tx, id))
      })
      return { id, json }
    },

    async reauthenticate(ctx, input) {
      const { userId } = ctx.principal
      const identity = await redeemInSession(ctx, input, 'reauthenticate')
      await transaction(ctx, async (tx) => {
        const { own, identities } = await pipeline(tx.db, {
          own: () => lockOwnAccount(tx),
          identities: () => identitiesOf(tx, userId),
        })
        const account = expectSignedIn(own)
        const { issuer, subject, email, authTime } = identity
        const linked = identities.find((one) => one.issuer === issuer && one.subject === subject)
        if (linked === undefined) throw problems.foreignIdentity()
        // The provider was asked for a recent one, and was checked; the session gets the time of that, not of now.
        if (authTime === null) throw problems.unusableOidcCode()
        await pipeline(tx.db, {
          authentication: () => renewAuthentication(tx, account, authTime),
          identity: () => useIdentity(tx, { id: linked.id, userId, email }, deps.reauthDays),
          audit: () => recordAudit(tx, 'session.reauthenticated', { userId }),
        })
      })
    },

    async signOut(ctx, returnTo) {
      if (returnTo !== null && !providers.allowsReturn(returnTo)) throw problems.returnNotAllowed()
      const issuer = await issuerOfSession(ctx)
      const provider = providers.all.find(({ settings }) => settings.issuer === issuer)
      await deps.sessions.signOut(ctx, { everywhere: false })
      // Who signs out here is signed out, whether the provider responds or not.
      const url = await provider
        ?.logoutUrl(returnTo === null ? {} : { post_logout_redirect_uri: returnTo })
        .catch(() => null)
      return url?.href ?? null
    },

    async endByProvider(ctx, { provider: id, token }) {
      const provider = expectProvider(id)
      const logout = await provider.verifyLogoutToken(token).catch((error: unknown) => {
        if (!(error instanceof NotAuthenticated)) throw error
        log.warn({ provider: id, request_id: ctx.client.requestId }, error.message)
        throw problems.invalidLogoutToken()
      })
      // First, so that no session begins behind it: neither by a code that there will be, nor by one that there is. An exchange that has
      // taken its code and not committed holds the row, so this deletion waits for it, and `usersOfLogin`, which comes after, sees its
      // session: do not join or reorder these statements.
      const wasUsed = await insertLogoutToken(ctx, logout)
      if (wasUsed) throw problems.invalidLogoutToken()
      await transaction(ctx, (tx) => removeCodesOfLogin(tx, logout))
      // A user at a time, since users are locked before what is theirs.
      for (const userId of await usersOfLogin(ctx, logout))
        await thenForget(
          transaction(ctx, async (tx) => {
            await lockAccount(tx, userId)
            const ended = await endLogin(tx, userId, logout)
            await pipelineEach(tx.db, ended, (sessionId) =>
              recordAudit(tx, 'session.ended_by_provider', { userId, sessionId }),
            )
          }),
          () => credentials.forgetUser(userId),
        )
      // Not before: a provider whose request has failed sends the same token again.
      await transaction(ctx, (tx) => useLogoutToken(tx, logout))
    },

    async unlink(ctx, identityId) {
      const { userId } = ctx.principal
      const issuer = await thenForget(
        transaction(ctx, async (tx) => {
          const { own, facts, identities } = await pipeline(tx.db, {
            own: () => lockOwnAccount(tx),
            facts: () => readIdentityFacts(tx, identityId),
            identities: () => identitiesOf(tx, userId),
          })
          const account = expectSignedIn(own)
          const identity = expectMay('identity.unlink', expectSeen('identity.see', facts))
          expectProven({ is_proven: account.isProven })
          const issuers = new Set(providers.all.map(({ settings }) => settings.issuer))
          const isOther = identities.some(({ id, issuer }) => id !== identityId && issuers.has(issuer))
          if (usablePassword(account) === null && !isOther) throw problems.lastSignInMethod()
          await pipeline(tx.db, {
            identity: () => removeIdentity(tx, identity),
            audit: () => recordAudit(tx, 'identity.unlinked', { userId }),
          })
          return identity.issuer
        }),
        () => credentials.forgetUser(userId),
      )
      await leaveRuledTeams(ctx, { userId, issuers: [issuer] }, log)
    },
  }
}

/** Which identities an operator unlinks. */
interface Unlinking {
  readonly userId: string
  /** Null for all of them. */
  readonly issuer: string | null
}

/** What an operator has unlinked. */
interface UnlinkedByOperator {
  /** The issuers of the identities. */
  readonly issuers: readonly string[]
  /** Whether something else signs in to the account. */
  readonly canSignIn: boolean
}

/** Unlinks identities of another user, also the last way to sign in, and ends their sessions. For the shell. */
export const unlinkIdentities = (
  ctx: OpContext<Principal>,
  { userId, issuer }: Unlinking,
  { usablePassword, issuers: known }: UnlinkingDeps,
): Promise<UnlinkedByOperator> =>
  transaction(ctx, async (tx) => {
    const { account, identities } = await pipeline(tx.db, {
      account: () => lockAccount(tx, userId),
      identities: () => identitiesOf(tx, userId),
    })
    const relations = relationsToUser(tx.principal, userId)
    const isUnlinked = (one: Subject): boolean => issuer === null || one.issuer === issuer
    const unlinked = identities.filter(isUnlinked)
    for (const { id } of unlinked) {
      const identity = expectMay('user.set_password', { id, userId, relations })
      await pipeline(tx.db, {
        identity: () => removeIdentity(tx, identity),
        audit: () => recordAudit(tx, 'identity.unlinked', { userId }),
      })
    }
    const isOther = identities.some((one) => !isUnlinked(one) && known.has(one.issuer))
    return {
      issuers: unlinked.map((one) => one.issuer),
      canSignIn: isOther || (account !== null && usablePassword(account) !== null),
    }
  })

interface UnlinkingDeps extends Pick<Deps, 'usablePassword'> {
  /** Those of the configured providers. */
  readonly issuers: ReadonlySet<string>
}

/**
 * Codes of a provider that can fail, or be looked at, before the next one of the network is delayed: more than passwords, because people
 * who share an address sign in at once.
 */
const freeCodes = 10

/** What a provider says of a code that it does not know (RFC 6749, section 5.2). */
const codeErrors = new Set(['invalid_grant', 'invalid_request'])

/** Errors that a client can act on. Others of a provider are none of its business. */
const passedOn = new Set([
  'access_denied',
  'login_required',
  'interaction_required',
  'consent_required',
  'account_selection_required',
])

const clientError = (code: string | null): string =>
  code !== null && passedOn.has(code) ? code : 'server_error'
