import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  type Relation,
  relationsToUser,
  type SessionPrincipal,
} from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsOwn } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowDeletion } from '../statements/row-statements.ts'
import { query } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { identityJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, isNull, sql } from '../schema/drizzle.ts'
import { identities, providerSessions, secondFactors, sessions, users } from '../schema/tables.ts'

const item = aliasedTable(identities, 'item')
const identity = aliasedTable(identities, 'identity')

/** Who somebody is at an identity provider. */
export interface Subject {
  readonly issuer: string
  readonly subject: string
}

/** An identity that is linked to an account. */
export interface LinkedIdentity {
  readonly id: string
  readonly userId: string
}

const subject = { issuer: 'text', subject: 'text' } as const

const select = builtStatement('identities.select', subject, (db, p) =>
  db
    .select({ id: identities.id, userId: identities.user_id })
    .from(identities)
    .innerJoin(users, and(eq(users.id, identities.user_id), isNull(users.deleted_at)))
    .where(and(eq(identities.issuer, p.issuer), eq(identities.subject, p.subject))),
)

/** The identity with this subject; null if it is linked to no account. */
export const findIdentity = async (
  { db }: StatementContext,
  { issuer, subject }: Subject,
): Promise<LinkedIdentity | null> => firstRow(await select(db, { issuer, subject }))

const selectOfUser = builtStatement('identities.select_of_user', { user_id: 'uuid' }, (db, p) =>
  db
    .select({ id: identities.id, issuer: identities.issuer, subject: identities.subject })
    .from(identities)
    .where(eq(identities.user_id, p.user_id)),
)

/** The identities of a user, who is locked by whoever relies on them. */
export const identitiesOf = async (
  { db }: StatementContext,
  userId: string,
): Promise<readonly (Subject & { readonly id: string })[]> => selectOfUser(db, { user_id: userId })

const insert = builtStatement(
  'identities.insert',
  { id: 'uuid', user_id: 'uuid', issuer: 'text', subject: 'text', email: 'text?' } satisfies ParametersOf<
    typeof identities
  >,
  (db, p) => db.insert(identities).values(p),
)

const setDue = builtStatement('users.set_sign_in_due', { id: 'uuid', days: 'int' }, (db, p) =>
  db
    .update(users)
    .set({ sign_in_due_at: sql`now() + make_interval(days => ${p.days})` })
    .where(eq(users.id, p.id)),
)

interface NewIdentity extends Subject {
  readonly id: string
  readonly userId: string
  readonly email: string | null
}

/**
 * Links an identity to a locked user, whose API tokens are suspended after `reauthDays` without a sign-in.
 *
 * @throws ConstraintViolation when it is linked already, or the user has another one of the issuer
 */
export const insertIdentity = async (
  { db }: TransactionContext,
  { userId, ...fields }: NewIdentity,
  reauthDays: number,
): Promise<void> => {
  await pipeline(db, {
    identity: () => insert(db, { ...fields, user_id: userId }),
    due: () => setDue(db, { id: userId, days: reauthDays }),
  })
}

const use = builtStatement('identities.use', { id: 'uuid', email: 'text?' }, (db, p) =>
  db
    .update(identities)
    .set({ last_used_at: sql`now()`, email: p.email })
    .where(eq(identities.id, p.id)),
)

/** Records that a locked user has authenticated with an identity. */
export const useIdentity = async (
  { db }: TransactionContext,
  { id, userId, email }: Pick<NewIdentity, 'id' | 'userId' | 'email'>,
  reauthDays: number,
): Promise<void> => {
  await pipeline(db, {
    identity: () => use(db, { id, email }),
    due: () => setDue(db, { id: userId, days: reauthDays }),
  })
}

const insertSession = builtStatement(
  'provider_sessions.insert',
  { session_id: 'uuid', identity_id: 'uuid', sid: 'text?' } satisfies ParametersOf<typeof providerSessions>,
  (db, p) => db.insert(providerSessions).values(p),
)

/** Records that a session was started with an identity. */
export const insertProviderSession = async (
  { db }: TransactionContext,
  {
    sessionId,
    identityId,
    sid,
  }: { readonly sessionId: string; readonly identityId: string; readonly sid: string | null },
): Promise<void> => {
  await insertSession(db, { session_id: sessionId, identity_id: identityId, sid })
}

const reread = query(
  'identities.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${identityJson(identity)} as json from identities identity where ${identity.id} = ${p.id}`,
)

/** An identity that the transaction has inserted, as JSON text. */
export const viewIdentity = async (tx: TransactionContext, id: string): Promise<string> =>
  expectRow(await reread(tx, { id })).json

/** A page of the caller's identities. */
export const selectIdentities = (
  { db, principal }: StatementContext<SessionPrincipal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'identities',
      table: identities,
      branches: (caller) => onlyBranch(allowsOwn('identity.see', caller, item.user_id)),
      ...newest,
      json: identityJson,
    },
    principal,
    page,
  )

/** What unlinking an identity depends on. */
export interface IdentityFacts {
  readonly id: string
  readonly userId: string
  readonly issuer: string
  readonly relations: readonly Relation[]
}

const selectFacts = builtStatement('identities.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({ id: identities.id, userId: identities.user_id, issuer: identities.issuer })
    .from(identities)
    .where(eq(identities.id, p.id)),
)

/** An identity, read under the lock of the caller. */
export const readIdentityFacts = async (
  { db, principal }: TransactionContext<SessionPrincipal>,
  id: string,
): Promise<IdentityFacts | null> => {
  const row = firstRow(await selectFacts(db, { id }))
  return row && { ...row, relations: relationsToUser(principal, row.userId) }
}

const deleteSessions = builtStatement('provider_sessions.end', { identity_id: 'uuid' }, (db, p) =>
  db
    .delete(sessions)
    .where(
      sql`${sessions.id} in (select ${providerSessions.session_id} from provider_sessions where ${providerSessions.identity_id} = ${p.identity_id})`,
    ),
)

const remove = rowDeletion('identities.delete', identities)

// Not one that has passed: unlinking is no sign-in.
const forgetDue = builtStatement('users.forget_sign_in_due', { id: 'uuid' }, (db, p) =>
  db
    .update(users)
    .set({ sign_in_due_at: null })
    .where(
      and(
        eq(users.id, p.id),
        sql`not exists (select from identities where ${identities.user_id} = ${p.id})`,
        sql`${users.sign_in_due_at} > now()`,
      ),
    ),
)

/** Unlinks an identity of a locked user, and ends its sessions. */
export const removeIdentity = async (
  { db }: TransactionContext,
  { id, userId }: Authorized<'identity.unlink' | 'user.set_password', LinkedIdentity>,
): Promise<void> => {
  await pipeline(db, {
    // First what refers to the identity by way of its sessions.
    sessions: () => deleteSessions(db, { identity_id: id }),
    identity: () => remove(db, { id }),
    due: () => forgetDue(db, { id: userId }),
  })
}

const removeAll = builtStatement('identities.delete_of_user', { user_id: 'uuid' }, (db, p) =>
  db.delete(identities).where(eq(identities.user_id, p.user_id)).returning({ issuer: identities.issuer }),
)

/** Unlinks the identities of a locked user. Returns their issuers. The sessions were ended before. */
export const removeIdentities = async (
  { db }: TransactionContext,
  userId: string,
): Promise<readonly string[]> => {
  const { rows } = await pipeline(db, {
    rows: () => removeAll(db, { user_id: userId }),
    due: () => forgetDue(db, { id: userId }),
  })
  return rows.map(({ issuer }) => issuer)
}

const removeRecent = builtStatement(
  'identities.delete_since',
  { user_id: 'uuid', since: 'instant' },
  (db, p) =>
    db
      .delete(identities)
      .where(
        and(
          eq(identities.user_id, p.user_id),
          sql`${identities.created_at} >= ${p.since} - interval '15 minutes'`,
          sql`${identities.created_at} > (select ${users.created_at} from users where ${users.id} = ${p.user_id})`,
        ),
      )
      .returning({ issuer: identities.issuer }),
)

/**
 * Unlinks the identities of a locked user that were linked since a time, or by a session that had authenticated for that; not the one that
 * the account was created with. Returns their issuers. The sessions were ended before.
 */
export const removeIdentitiesSince = async (
  { db }: TransactionContext,
  { userId, since }: { readonly userId: string; readonly since: string },
): Promise<readonly string[]> => {
  const { rows } = await pipeline(db, {
    rows: () => removeRecent(db, { user_id: userId, since }),
    due: () => forgetDue(db, { id: userId }),
  })
  return rows.map(({ issuer }) => issuer)
}

const selectByEmail = builtStatement('users.select_by_email', { email: 'text' }, (db, p) =>
  db
    .select({
      id: users.id,
      role: users.role,
      isLinked: sql<boolean>`exists (select from identities where ${identities.user_id} = ${users.id})`,
      isGuarded: sql<boolean>`${secondFactors.confirmed_at} is not null`,
    })
    .from(users)
    .leftJoin(secondFactors, eq(secondFactors.user_id, users.id))
    .where(and(eq(users.email, p.email), isNull(users.deleted_at))),
)

/** What it depends on whether an identity may take over the account with its address. */
export interface UserWithAddress {
  readonly id: string
  readonly role: string
  /** Whether an identity signs in to it. */
  readonly isLinked: boolean
  /** Whether it has a confirmed second factor. */
  readonly isGuarded: boolean
}

/** The user with an address, in canonical form; null if there is none. */
export const findUserByEmail = async (
  { db }: StatementContext,
  email: string,
): Promise<UserWithAddress | null> => firstRow(await selectByEmail(db, { email }))

const selectOfSession = builtStatement('identities.select_of_session', { session_id: 'uuid' }, (db, p) =>
  db
    .select({ issuer: identities.issuer })
    .from(providerSessions)
    .innerJoin(identities, eq(identities.id, providerSessions.identity_id))
    .where(eq(providerSessions.session_id, p.session_id)),
)

/** The issuer of the identity that the caller's session was started with; null for another session. */
export const issuerOfSession = async ({
  db,
  principal,
}: StatementContext<SessionPrincipal>): Promise<string | null> => {
  const [row] = await selectOfSession(db, { session_id: principal.credential.sessionId })
  return row?.issuer ?? null
}
