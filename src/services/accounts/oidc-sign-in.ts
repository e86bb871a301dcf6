import type { Credentials } from '../../auth/credentials.ts'
import { hashOidcCode, type newChallenge, type newRefreshToken } from '../../auth/opaque-tokens.ts'
import { randomText } from '../../auth/random-text.ts'
import { lockAccount } from '../../db/accounts/lock.ts'
import { recordAudit } from '../../db/activity/audit.ts'
import { endEarlierAccess } from '../../db/accounts/end-access.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { ConstraintViolation } from '../../db/engine/errors.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  findIdentity,
  findUserByEmail,
  identitiesOf,
  insertIdentity,
  type LinkedIdentity,
  useIdentity,
  type UserWithAddress,
} from '../../db/accounts/identities.ts'
import { join, lockInvitation } from '../../db/projects/invitations.ts'
import { readOidcCode, takeOidcCode } from '../../db/accounts/oidc-codes.ts'
import { actAs } from '../../db/shared/record-event.ts'
import { type StartedSession, viewStarted } from '../../db/accounts/refresh-tokens.ts'
import { claimInstallation, insertChallenge } from '../../db/accounts/sign-in.ts'
import { insertUser, knowsTimeZone } from '../../db/accounts/users.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { defaultTimeZone } from '../../domain/shared/time-zones.ts'
import type { ProvenIdentity } from '../../oidc/claims.ts'
import type { Providers } from '../../oidc/providers.ts'
import { Problem, problems } from '../../problems/problems.ts'
import { type OpContext, thenForget, transaction } from '../shared/context.ts'
import type { InvitationMode } from '../projects/invitations.ts'
import { type CodeInput, openProof, type Proof } from './oidc-proofs.ts'
import { orLog, type WarningLog } from './or-log.ts'
import { challengedClaims, findInvitation, invalidInvitation } from './sign-in.ts'
import { startSession } from './start-session.ts'

/** Sign-in with a code for which an identity provider has authenticated somebody: with the identity that is linked, or the first time. */

/** When accounts are created. */
export type CreationMode = 'always' | 'invited' | 'never'

export interface OidcSignInDeps {
  readonly providers: Providers
  /** Seal what the provider and the browser carry. */
  readonly keys: KeyRing
  readonly credentials: Credentials
  readonly create: CreationMode
  readonly invitations: InvitationMode
  readonly sessionHours: number
  readonly reauthDays: number
  readonly log: WarningLog
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

/** Runs `identify` and the start of the session in one transaction, so that a refused sign-in leaves no account and no link. */
type Start = (identify: Identify) => Promise<SignedIn>

/** Opens the code of a sign-in, which stays usable, unless it is refused. */
export const openCode = async (
  ctx: OpContext,
  input: CodeInput,
  { keys, log }: OidcSignInDeps,
): Promise<OpenedCode | null> => {
  const hash = hashOidcCode(input.code)
  if (hash === null) return null
  const sealed = await readOidcCode(ctx, hash)
  const proof = sealed && openProof(keys, { hash, sealed }, input, 'sign_in')
  if (proof !== null) return { hash, proof }
  await useUp(ctx, hash, log)
  return null
}

/** Uses the code of a sign-in up that is refused. */
const useUp = async (ctx: OpContext, hash: Buffer, log: WarningLog): Promise<void> => {
  const taken = takeOidcCode(ctx, hash).then(() => undefined)
  await orLog(ctx, taken, {
    log,
    message: 'The code of a refused sign-in was not used up: it expires within a minute',
  })
}

/** Signs in whom a code stands for, the first time too. A refusal uses the code up; after a failure it can be sent again. */
export const signInBy = async (
  ctx: OpContext,
  opened: OpenedCode,
  secrets: SignInSecrets,
  deps: OidcSignInDeps,
): Promise<SignedIn> => {
  const start = startWith(ctx, opened, secrets, deps)
  try {
    const linked = await findIdentity(ctx, opened.proof.identity)
    return await (linked === null ? firstSignIn(ctx, opened.proof, deps, start) : start(async () => linked))
  } catch (error) {
    // Its transaction was rolled back, and the use of the code with it.
    if (isRefusal(error)) await useUp(ctx, opened.hash, deps.log)
    throw error
  }
}

/** Whether a sign-in was refused: by a rule, or by a constraint because another request came first. Any other error is a failure. */
const isRefusal = (error: unknown): boolean =>
  error instanceof Problem || error instanceof ConstraintViolation

/**
 * Begins the session that a code stands for, or a challenge, together with what `identify` makes for it. A logout of the provider ends
 * it, or has removed the code before.
 */
const startWith =
  (
    ctx: OpContext,
    { hash, proof: { identity } }: OpenedCode,
    { refreshToken, challenge }: SignInSecrets,
    { sessionHours, reauthDays }: OidcSignInDeps,
  ): Start =>
  (identify) =>
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
        identity: () => useIdentity(tx, { id, userId, email: identity.email }, reauthDays),
        session: () =>
          startSession(tx, {
            userId,
            tokenHash: refreshToken.hash,
            // A browser that is signed in at the provider signs in without its user, so an unknown time can be any.
            identity: { ...provenBy, hours: sessionHours, authenticatedAt: identity.authTime ?? 0 },
          }),
      })
      return last(viewStarted(tx, refreshToken.hash))
    })

/** Signs in with an identity that was linked to no account. */
const firstSignIn = async (
  ctx: OpContext,
  { identity, invitationToken }: Proof,
  deps: OidcSignInDeps,
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
    const linked = isRefusal(error) ? await findIdentity(ctx, identity) : null
    if (linked === null) throw error
    return start(async () => linked)
  }
}

/** The account that an identity may be linked to by its address, only if the provider has verified it and its operator is trusted with that. */
const findAccountToLink = async (
  ctx: OpContext,
  { provider, email, isEmailVerified }: ProvenIdentity,
  { providers }: OidcSignInDeps,
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
  { reauthDays }: OidcSignInDeps,
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

/**
 * Whether an identity takes over the account with its address. Never that of an administrator, since OpenID Connect makes nobody one;
 * nor one with an identity, since an address can be given to somebody else; nor past a second factor that nobody has proven.
 */
export const isTakenOver = (
  { role, isLinked, isGuarded }: UserWithAddress,
  { hasSecondFactor }: ProvenIdentity,
): boolean => role !== 'admin' && !isLinked && (!isGuarded || hasSecondFactor)

/** Signs in to a new account, which accepts the invitation. It is never one of an administrator. */
const createAccount = async (
  ctx: OpContext,
  { identity, invitationToken }: Pick<Proof, 'identity' | 'invitationToken'>,
  { create, invitations, providers, reauthDays }: OidcSignInDeps,
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
      // So that the next one to register does not become the administrator.
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

/** Names that are tried for a new account: what the provider suggests, and then with a random suffix. */
const maxNames = 5

/** Names are never matched: who has a taken one gets another one. */
const withSuffix = (username: string): string => `${username}-${randomText('0123456789', 5)}`

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
