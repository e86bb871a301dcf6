import type { AccessTokens } from '../auth/access-tokens.ts'
import type { AttemptKeys } from '../auth/attempts.ts'
import type { ShouldAuditFailure } from '../auth/audited-failures.ts'
import type { Credentials } from '../auth/credentials.ts'
import { hashOidcCode, newChallenge, newOidcCode, newRefreshToken } from '../auth/opaque-tokens.ts'
import { randomText } from '../auth/random-text.ts'
import { open, seal } from '../auth/seal.ts'
import { lockAccount, lockOwnAccount } from '../db/accounts.ts'
import { forgetAttempts, insertAttempt, takeBackAttempt } from '../db/attempts.ts'
import { recordAudit } from '../db/audit.ts'
import { endEarlierAccess } from '../db/end-access.ts'
import { readClock } from '../db/engine/database-clock.ts'
import type { TransactionContext } from '../db/engine/context.ts'
import { ConstraintViolation } from '../db/engine/errors.ts'
import { newId } from '../db/engine/ids.ts'
import { pipeline, pipelineEach } from '../db/engine/pipeline.ts'
import { last } from '../db/engine/transaction.ts'
import {
  findIdentity,
  findUserByEmail,
  identitiesOf,
  insertIdentity,
  issuerOfSession,
  type LinkedIdentity,
  readIdentityFacts,
  removeIdentity,
  selectIdentities,
  type Subject,
  useIdentity,
  type UserWithAddress,
  viewIdentity,
} from '../db/identities.ts'
import { join, lockInvitation } from '../db/invitations.ts'
import { endLogin, insertLogoutToken, useLogoutToken, usersOfLogin } from '../db/logout-tokens.ts'
import { insertOidcCode, readOidcCode, removeCodesOfLogin, takeOidcCode } from '../db/oidc-codes.ts'
import { renewAuthentication } from '../db/reauthentication.ts'
import { actAs } from '../db/record-event.ts'
import { type StartedSession, viewStarted } from '../db/refresh-tokens.ts'
import { challengeLifetime, claimInstallation, insertChallenge } from '../db/sign-in.ts'
import { insertUser, knowsTimeZone } from '../db/users.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { Page, PageRequest } from '../domain/pages.ts'
import { type Principal, relationsToUser, type SessionPrincipal } from '../domain/permissions.ts'
import { defaultTimeZone } from '../domain/time-zones.ts'
import {
  authorizationLifetime,
  type AuthorizationRequest,
  challengeOf,
  newSeed,
  openRequest,
  type Purpose,
  sealRequest,
} from '../oidc/authorization-request.ts'
import type { ProvenIdentity } from '../oidc/claims.ts'
import { NotAuthenticated, NotRecent, ProviderUnavailable } from '../oidc/failures.ts'
import { misconfigured } from '../oidc/problems.ts'
import type { Provider, Providers } from '../oidc/providers.ts'
import { Problem, problems } from '../problems/problems.ts'
import type { UsablePassword } from './check-password.ts'
import { type OpContext, thenForget, transaction } from './context.ts'
import { expectMay, expectProven, expectSeen, expectSignedIn } from './expectations.ts'
import type { InvitationMode } from './invitations.ts'
import { type IssuedTokens, issueTokens } from './issue-tokens.ts'
import { applyRuledTeams, leaveRuledTeams } from './ruled-teams.ts'
import { challengedClaims, findInvitation, invalidInvitation } from './sign-in.ts'
import type { Sessions } from './sessions.ts'
import { startSession } from './start-session.ts'

/** A request of a client to authenticate somebody. */
interface Authorization {
  readonly provider: string
  readonly purpose: Purpose
  readonly returnTo: string
  readonly codeChallenge: string
  readonly state: string
  readonly invitationToken: string | null
}

/** What a client got from the browser, and what only it knows. */
export interface CodeInput {
  readonly code: string
  readonly codeVerifier: string
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

/** When accounts are created. */
export type CreationMode = 'always' | 'invited' | 'never'

interface Deps {
  readonly providers: Providers
  /** Seal what the provider and the browser carry. */
  readonly keys: KeyRing
  readonly accessTokens: AccessTokens
  readonly credentials: Credentials
  readonly sessions: Sessions
  readonly attemptKeys: AttemptKeys
  readonly shouldAuditFailure: ShouldAuditFailure
  readonly create: CreationMode
  /** Whether passwords are closed. */
  readonly isOnly: boolean
  readonly usablePassword: UsablePassword
  readonly invitations: InvitationMode
  readonly sessionHours: number
  readonly reauthDays: number
  /** The issuer of the codes (RFC 9207): PUBLIC_URL. */
  readonly ownIssuer: string
  /** By the clock of the database, in milliseconds since the epoch. */
  readonly now: () => number
  readonly log: { warn(fields: object, message: string): void }
}

/** What a code stands for. */
interface Proof extends Pick<AuthorizationRequest, 'purpose' | 'codeChallenge' | 'invitationToken'> {
  readonly identity: ProvenIdentity
}

/** A code that its caller may use, and has not used yet. */
interface OpenedCode {
  readonly hash: Buffer
  readonly proof: Proof
}

/** The tokens that a sign-in returns. */
interface SignInSecrets {
  readonly refreshToken: ReturnType<typeof newRefreshToken>
  readonly challenge: ReturnType<typeof newChallenge>
}

type SignedIn = StartedSession | 'challenged'

/** Finds the identity that somebody signs in with, or links it, in the transaction of the sign-in. */
type Identify = (tx: TransactionContext) => Promise<LinkedIdentity>

type Start = (identify: Identify) => Promise<SignedIn>

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

  /** What a stored code stands for. Null unless the caller has begun the request, for this purpose. */
  const proofOf = (
    { hash, sealed }: { readonly hash: Buffer; readonly sealed: Buffer },
    { codeVerifier }: CodeInput,
    purpose: Purpose,
  ): Proof | null => {
    const opened = open(keys, sealed, contextOf(hash))
    if (opened === null) return null
    const proof = JSON.parse(opened.plaintext.toString()) as Proof
    return proof.purpose === purpose && proof.codeChallenge === challengeOf(codeVerifier) ? proof : null
  }

  /** Opens the code of a sign-in, which stays usable, unless it is refused. */
  const openCode = async (ctx: OpContext, input: CodeInput): Promise<OpenedCode | null> => {
    const hash = hashOidcCode(input.code)
    if (hash === null) return null
    const sealed = await readOidcCode(ctx, hash)
    const proof = sealed && proofOf({ hash, sealed }, input, 'sign_in')
    if (proof !== null) return { hash, proof }
    await useUp(ctx, hash)
    return null
  }

  /** Waits for work whose failure must not replace the answer. */
  const orLog = async (ctx: OpContext, work: Promise<void>, message: string): Promise<void> => {
    try {
      await work
    } catch (error) {
      log.warn({ err: error, request_id: ctx.client.requestId }, message)
    }
  }

  /** Uses the code of a sign-in up that is refused. */
  const useUp = async (ctx: OpContext, hash: Buffer): Promise<void> => {
    const taken = takeOidcCode(ctx, hash).then(() => undefined)
    await orLog(ctx, taken, 'The code of a refused sign-in was not used up: it expires within a minute')
  }

  /**
   * Begins the session that a code stands for, or a challenge, together with what `identify` makes for it. A logout of the provider ends
   * it, or has removed the code before.
   */
  const startSignIn = (
    ctx: OpContext,
    { hash, proof: { identity } }: OpenedCode,
    { refreshToken, challenge }: SignInSecrets,
    identify: Identify,
  ): Promise<SignedIn> =>
    transaction<Principal | null, SignedIn>(ctx, async (tx) => {
      const { id, userId } = await identify(tx)
      const { taken, account, identities } = await pipeline(tx.db, {
        taken: () => takeOidcCode(tx, hash),
        account: () => lockAccount(tx, userId),
        identities: () => identitiesOf(tx, userId),
      })
      // It was used, or unlinked, or the account deleted, meanwhile.
      if (taken === null || account === null || !identities.some((one) => one.id === id))
        throw problems.invalidOidcCode()
      if (account.isDisabled) throw problems.accountDisabled()
      const provenBy = { id, sid: identity.sid }
      if (account.secondFactor?.isConfirmed === true && !identity.hasSecondFactor) {
        await pipeline(tx.db, {
          challenge: () =>
            insertChallenge(tx, account, {
              hash: challenge.hash,
              identity: { ...provenBy, claims: challengedClaims(identity) },
            }),
          audit: () => recordAudit(tx, 'sign_in.challenged', { userId }),
        })
        return 'challenged'
      }
      await pipeline(tx.db, {
        identity: () => useIdentity(tx, { id, userId, email: identity.email }, deps.reauthDays),
        session: () =>
          startSession(tx, {
            userId,
            tokenHash: refreshToken.hash,
            // A browser that is signed in at the provider signs in without its user, so an unknown time can be any.
            identity: { ...provenBy, hours: deps.sessionHours, authenticatedAt: identity.authTime ?? 0 },
          }),
      })
      return last(viewStarted(tx, refreshToken.hash))
    })

  /** Signs in whom a code stands for, the first time too. A refusal uses the code up; after a failure it can be sent again. */
  const signInBy = async (ctx: OpContext, opened: OpenedCode, secrets: SignInSecrets): Promise<SignedIn> => {
    const start: Start = (identify) => startSignIn(ctx, opened, secrets, identify)
    try {
      const linked = await findIdentity(ctx, opened.proof.identity)
      return await (linked === null ? firstSignIn(ctx, opened.proof, deps, start) : start(async () => linked))
    } catch (error) {
      // Its transaction was rolled back, and the use of the code with it.
      if (error instanceof Problem) await useUp(ctx, opened.hash)
      throw error
    }
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
    const proof = hash && sealed && proofOf({ hash, sealed }, input, purpose)
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
        ? attemptKeys.ofProviderCode(id, ctx.client)
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
        const proof: Proof = { purpose, codeChallenge, invitationToken, identity }
        const sealed = seal(keys, Buffer.from(JSON.stringify(proof)), contextOf(hash))
        await transaction(ctx, async (tx) => {
          await pipeline(tx.db, {
            code: () => insertOidcCode(tx, { hash, sealed, owner: identity, begunAt }),
            attempts: () => attemptKey && forgetAttempts(tx, attemptKey),
          })
        })
        return goOn({ code })
      } catch (error) {
        if (attemptKey !== null)
          await orLog(
            ctx,
            settleCode(ctx, attemptKey, error),
            'An attempt to sign in stays counted as failed',
          )
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
      const opened = await openCode(ctx, input)
      if (opened === null) {
        if (deps.shouldAuditFailure(ctx.client)) await recordAudit(ctx, 'sign_in.failed', { userId: null })
        throw problems.invalidOidcCode()
      }
      const { identity } = opened.proof
      const [refreshToken, challenge] = [newRefreshToken(), newChallenge()]
      const started = await signInBy(ctx, opened, { refreshToken, challenge })
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
      // First, so that no session begins behind it: neither by a code that there will be, nor by one that there is.
      if (await insertLogoutToken(ctx, logout)) throw problems.invalidLogoutToken()
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

/** Binds what is sealed under a code to it. */
const contextOf = (hash: Buffer): string => `oidc code ${hash.toString('base64url')}`

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

/** Signs in with an identity that was linked to no account. */
const firstSignIn = async (
  ctx: OpContext,
  { identity, invitationToken }: Proof,
  deps: Deps,
  start: Start,
): Promise<SignedIn> => {
  try {
    const found = await findAccountToLink(ctx, identity, deps)
    return found === null
      ? await createAccount(ctx, { identity, invitationToken }, deps, start)
      : await thenForget(
          start((tx) => linkByAddress(tx, found, identity, deps)),
          () => deps.credentials.forgetUser(found),
        )
  } catch (error) {
    // Somebody who signs in twice at once has an account when the second one wants to make it.
    const isRefused = error instanceof Problem || error instanceof ConstraintViolation
    const linked = isRefused ? await findIdentity(ctx, identity) : null
    if (linked === null) throw error
    return start(async () => linked)
  }
}

/**
 * Whether an identity takes over the account with its address. Never that of an administrator, since OpenID Connect makes nobody one;
 * nor one with an identity, since an address can be given to somebody else; nor past a second factor that nobody has proven.
 */
export const isTakenOver = (
  { role, isLinked, isGuarded }: UserWithAddress,
  { hasSecondFactor }: ProvenIdentity,
): boolean => role !== 'admin' && !isLinked && (!isGuarded || hasSecondFactor)

/** The account that an identity may be linked to by its address, only if the provider has verified it and its operator is trusted with that. */
const findAccountToLink = async (
  ctx: OpContext,
  { provider, email, isEmailVerified }: ProvenIdentity,
  { providers }: Deps,
): Promise<string | null> => {
  if (email === null || !isEmailVerified || providers.find(provider)?.settings.linksByEmail !== true)
    return null
  return (await findUserByEmail(ctx, email))?.id ?? null
}

/** Links an identity to the account with its address. Whoever registered the account need not have had the address, so nothing of their access is left. */
const linkByAddress = async (
  tx: TransactionContext,
  userId: string,
  proven: ProvenIdentity,
  { reauthDays }: Deps,
): Promise<LinkedIdentity> => {
  const { issuer, subject, email } = proven
  const account = await lockAccount(tx, userId)
  const user = email === null ? null : await findUserByEmail(tx, email)
  if (account === null || user?.id !== userId || !isTakenOver(user, proven))
    throw problems.emailOfAnotherAccount()
  await endEarlierAccess(tx, userId)
  const identity = { id: newId(), userId, issuer, subject, email }
  await pipeline(tx.db, {
    identity: () => insertIdentity(tx, identity, reauthDays),
    audit: () => recordAudit(tx, 'identity.linked', { userId, actorId: userId }),
  })
  return identity
}

/** Names that are tried for a new account: what the provider suggests, and then with a random suffix. */
const maxNames = 5

/** Why an identity gets no account; null if it does. */
export const refusalOfAccount = (
  { email, isEmailVerified }: ProvenIdentity,
  {
    isAddressTaken,
    isInvited,
    create,
    trustsEmail,
  }: {
    readonly isAddressTaken: boolean
    readonly isInvited: boolean
    readonly create: CreationMode
    readonly trustsEmail: boolean
  },
): Problem | null => {
  if (isAddressTaken) return problems.emailOfAnotherAccount()
  if (create === 'never') return problems.registrationClosed()
  if (create === 'invited' && !isInvited) return problems.accountNeedsInvitation()
  if (email === null) return problems.emailMissing()
  return isEmailVerified || trustsEmail ? null : problems.emailUnverified()
}

/** Signs in to a new account, which accepts the invitation. It is never one of an administrator, nor is the next one to register. */
const createAccount = async (
  ctx: OpContext,
  { identity, invitationToken }: Pick<Proof, 'identity' | 'invitationToken'>,
  { create, invitations, providers, reauthDays }: Deps,
  start: Start,
): Promise<SignedIn> => {
  const { issuer, subject, email, displayName } = identity
  const refusal = refusalOfAccount(identity, {
    isAddressTaken: email !== null && (await findUserByEmail(ctx, email)) !== null,
    isInvited: invitationToken !== null,
    create,
    trustsEmail: providers.find(identity.provider)?.settings.trustsEmail === true,
  })
  if (refusal !== null) throw refusal
  if (email === null) throw problems.emailMissing()
  const invitationHash =
    invitationToken === null ? null : await findInvitation(ctx, invitations, invitationToken)
  const isKnown = identity.timeZone === defaultTimeZone || (await knowsTimeZone(ctx, identity.timeZone))
  const timeZone = isKnown ? identity.timeZone : defaultTimeZone
  const ids = { id: newId(), userId: newId() }
  const startAs = (username: string): Promise<SignedIn> =>
    start(async (tx) => {
      await claimInstallation(tx)
      const invitation = invitationHash === null ? null : await lockInvitation(tx, invitationHash)
      if (invitationHash !== null && invitation === null) throw invalidInvitation()
      const { userId } = ids
      const names = { username, email, displayName: displayName ?? username, timeZone }
      await pipeline(tx.db, {
        user: () => insertUser(tx, userId, { ...names, passwordHash: null, role: 'member' }),
        identity: () => insertIdentity(tx, { ...ids, issuer, subject, email }, reauthDays),
        audit: () => recordAudit(tx, 'user.registered', { userId, actorId: userId }),
        actor: () => invitation && actAs(tx, userId),
        membership: () => invitation && join(tx, userId, invitation),
      })
      return ids
    })
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startAs(attempt === 1 ? identity.username : withSuffix(identity.username))
    } catch (error) {
      const isTaken = error instanceof ConstraintViolation && error.constraint === 'users_username_unique'
      if (!isTaken || attempt === maxNames) throw error
    }
  }
}

/** Names are never matched: who has a taken one gets another one. */
const withSuffix = (username: string): string => `${username}-${randomText('0123456789', 5)}`
