import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  isInSession,
  type Principal,
  type Relation,
  relationsToUser,
  type Role,
} from '../../domain/shared/permissions.ts'
import { foldSearch } from '../../domain/shared/text.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsUser } from '../access/permissions.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { anyOf, type ParametersOf } from '../statements/parameters.ts'
import { CallerGone, ConstraintViolation, isUnknownValue } from '../engine/errors.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { conditionsOf, filterOneOf, nameContains } from '../statements/conditions.ts'
import { pipeline } from '../engine/pipeline.ts'
import { newest, selectPage } from '../lists/list.ts'
import { lockUser as lockToUse } from '../shared/lock-member.ts'
import { userJson } from '../shared/read-models.ts'
import { isRecent } from '../shared/recent.ts'
import { aliasedTable, and, eq, isNull, ne, type SQL, sql } from '../schema/drizzle.ts'
import { oneTimeTokens, sessions, tags, users } from '../schema/tables.ts'
import { touched } from '../shared/touch.ts'

const person = aliasedTable(users, 'person')
const item = aliasedTable(users, 'item')

/** A user as JSON text, as the caller sees it. */
export interface UserRow {
  readonly json: string
}

/** The fields of a new user; the address is in canonical form. */
export interface NewUser {
  readonly username: string
  readonly email: string
  readonly displayName: string
  /** In canonical form. */
  readonly timeZone: string
  /** Null for an account that signs in with an identity provider. */
  readonly passwordHash: string | null
}

/** The fields of a user that requests change. */
export interface UserFields {
  readonly username: string
  readonly email: string
  readonly display_name: string
  readonly role: Role
  readonly time_zone: string
  readonly is_disabled: boolean
  readonly attachment_quota_bytes: number | null
  readonly task_quota: number | null
}

/** A merge patch: absent fields are not changed. */
export type UserChange = Partial<UserFields>

const select = query(
  'users.select',
  { id: 'uuid' },
  { json: 'text' },
  (p) => sql`
    select ${userJson(person, p)} as json
    from users person where ${person.id} = ${p.id} and ${allowsUser('user.see', p, person)}`,
)

/** One user, as the caller sees it. */
export const selectUser = async (ctx: StatementContext<Principal>, id: string): Promise<UserRow | null> =>
  firstRow(await select(ctx, { id }))

const selectByName = statement(
  'users.select_id_by_name',
  { name: 'text', email: 'text' },
  { id: 'text' },
  (p) => sql`
    select ${person.id}::text from users person
    where (${person.username} = ${p.name} or ${person.email} = ${p.email}) and ${person.deleted_at} is null`,
)

/** The id of the user with this username, or this address in canonical form; null if there is none. */
export const selectUserIdByName = async (
  db: Database,
  names: { readonly name: string; readonly email: string },
): Promise<string | null> => {
  const [row] = await selectByName(db, names)
  return row?.id ?? null
}

/** A user that the transaction has written. */
export const viewUser = async (tx: TransactionContext<Principal>, id: string): Promise<UserRow> =>
  expectRow(await select(tx, { id }))

const insert = builtStatement(
  'users.insert',
  {
    id: 'uuid',
    username: 'text',
    email: 'text',
    display_name: 'text',
    role: 'text',
    time_zone: 'text',
    password_hash: 'text?',
  } satisfies ParametersOf<typeof users>,
  (db, p) => db.insert(users).values(p),
)

/**
 * Inserts a user.
 *
 * @throws ConstraintViolation for a taken name or address
 */
export const insertUser = async (
  tx: TransactionContext,
  id: string,
  { displayName, timeZone, passwordHash, role, ...names }: NewUser & { readonly role: Role },
): Promise<void> => {
  const row = {
    ...names,
    id,
    role,
    display_name: displayName,
    time_zone: timeZone,
    password_hash: passwordHash,
  }
  await pipeline(tx.db, {
    user: () => insert(tx.db, row),
    address: () => expectFreeAddress(tx, { id, email: names.email }),
  })
}

const probeTimeZone = statement(
  'users.probe_time_zone',
  { time_zone: 'text' },
  {},
  (p) => sql`select (now() at time zone ${p.time_zone})::text as local_time`,
)

/**
 * Whether the database knows a time zone. The service checks names against its own copy of the IANA database, which can be newer. Not
 * in a transaction, which the error would end.
 */
export const knowsTimeZone = async ({ db }: StatementContext, timeZone: string): Promise<boolean> => {
  try {
    await probeTimeZone(db, { time_zone: timeZone })
    return true
  } catch (error) {
    if (isUnknownValue(error)) return false
    throw error
  }
}

const selectReserved = builtStatement(
  'one_time_tokens.select_reserved',
  { id: 'uuid', email: 'text' },
  (db, p) =>
    db
      .select({ user_id: oneTimeTokens.user_id })
      .from(oneTimeTokens)
      .where(
        and(
          eq(oneTimeTokens.email, p.email),
          ne(oneTimeTokens.user_id, p.id),
          sql`${oneTimeTokens.expires_at} > now()`,
        ),
      ),
)

/**
 * Requires that nobody can still restore an address that a user was just given. Called after the write: that waits for a concurrent
 * change from this address, by the unique index, and only then is the token that reserves the address visible.
 *
 * @throws ConstraintViolation
 */
const expectFreeAddress = async (
  { db }: TransactionContext,
  user: { readonly id: string; readonly email: string },
): Promise<void> => {
  const reservations = await selectReserved(db, user)
  if (reservations.length > 0) throw new ConstraintViolation('users_email_unique')
}

/** What a change of a user depends on. */
export interface UserFacts extends UserFields {
  readonly id: string
  readonly version: number
  /** Whether an operator has exempted the account from OIDC_ONLY. */
  readonly may_use_password: boolean
  /** What the caller is to them. */
  readonly relations: readonly Relation[]
  /** Whether the caller's session has authenticated recently. */
  readonly is_proven: boolean
  /** Whether somebody else administers the installation. Read only if the change may remove an administrator. */
  readonly has_other_administrators: boolean
}

// Serializes removals of administrators: of two who remove each other, the second is then the last one.
const lockAdministrators = statement(
  'users.lock_administrators',
  {},
  {},
  () => sql`select pg_advisory_xact_lock(hashtextextended('administrators', 0))::text as locked`,
)

/** Locks a user. */
export const lockToChange = rowLock('users.lock_to_change', users, 'no key update')

/** Locks a user also against rows that refer to them: before a change of what is unique or others compute from, and before a deletion. */
export const lockToRename = rowLock('users.lock_to_rename', users, 'update')

const lockFor = { use: lockToUse, change: lockToChange, rename: lockToRename } as const

const selectFacts = builtStatement('users.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({
      username: users.username,
      email: users.email,
      display_name: users.display_name,
      role: users.role,
      time_zone: users.time_zone,
      is_disabled: users.is_disabled,
      attachment_quota_bytes: users.attachment_quota_bytes,
      task_quota: users.task_quota,
      version: users.version,
      may_use_password: users.may_use_password,
    })
    .from(users)
    .where(and(eq(users.id, p.id), isNull(users.deleted_at))),
)

const selectOtherAdministrator = builtStatement('users.select_other_administrator', { id: 'uuid' }, (db, p) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.role, 'admin'), eq(users.is_disabled, false), ne(users.id, p.id)))
    .limit(1),
)

const roleOf = (text: string): Role => (text === 'admin' ? 'admin' : 'member')

const selectCaller = builtStatement('users.select_caller', { id: 'uuid', session_id: 'uuid?' }, (db, p) =>
  db
    .select({
      role: users.role,
      is_proven: sql<boolean>`coalesce(${isRecent(sessions.authenticated_at)}, false)`,
    })
    .from(users)
    .leftJoin(sessions, eq(sessions.id, p.session_id))
    .where(and(eq(users.id, p.id), isNull(users.deleted_at), eq(users.is_disabled, false))),
)

/**
 * The caller as they are now, in a transaction after it has waited for its locks, and whether their session has authenticated recently.
 *
 * @throws CallerGone when the caller was disabled or deleted since they were authenticated
 */
export const readCaller = (ctx: StatementContext<Principal>): Caller | Promise<Caller> =>
  // The shell has no account.
  ctx.principal.credential.kind === 'shell'
    ? { principal: ctx.principal, is_proven: true }
    : readAccountOfCaller(ctx)

interface Caller {
  readonly principal: Principal
  readonly is_proven: boolean
}

const readAccountOfCaller = async ({ db, principal }: StatementContext<Principal>): Promise<Caller> => {
  const session = isInSession(principal) ? principal.credential.sessionId : null
  const [row] = await selectCaller(db, { id: principal.userId, session_id: session })
  if (row === undefined) throw new CallerGone()
  // An API token is restricted by its scopes alone.
  return { principal: { ...principal, role: roleOf(row.role) }, is_proven: session === null || row.is_proven }
}

/**
 * What a user is locked for. `use` adds rows that refer to the user. `rename` also changes what is unique, or the time zone that reminders are
 * computed from, or deletes them: `use` waits for it.
 */
interface UserLock {
  readonly purpose: 'use' | 'change' | 'rename'
  /** Whether an administrator may be removed, which locks the administrators first. */
  readonly removesAdministrator?: boolean
}

/**
 * Locks a user, and reads them under the lock, and the caller, who is not locked, after the wait for it.
 *
 * @throws CallerGone when the caller was disabled or deleted since they were authenticated
 */
export const lockUser = async (
  tx: TransactionContext<Principal>,
  id: string,
  { purpose, removesAdministrator = false }: UserLock,
): Promise<UserFacts | null> => {
  const { db } = tx
  const lock = lockFor[purpose]
  const { caller, facts, others } = await pipeline(tx.db, {
    administrators: () => removesAdministrator && lockAdministrators(db, {}),
    lock: () => lock(db, { id }),
    caller: () => readCaller(tx),
    facts: () => selectFacts(db, { id }),
    others: () => (removesAdministrator ? selectOtherAdministrator(db, { id }) : []),
  })
  const [row] = facts
  if (row === undefined) return null
  return {
    ...row,
    id,
    role: roleOf(row.role),
    relations: relationsToUser(caller.principal, id),
    is_proven: caller.is_proven,
    has_other_administrators: others.length > 0,
  }
}

/** A user that the caller was found to be allowed to change. */
export type ChangeableUser = Authorized<'user.change', UserFacts>

const update = builtStatement(
  'users.update',
  {
    id: 'uuid',
    username: 'text',
    email: 'text',
    display_name: 'text',
    role: 'text',
    time_zone: 'text',
    is_disabled: 'bool',
    attachment_quota_bytes: 'int8?',
    task_quota: 'int?',
  } satisfies ParametersOf<typeof users>,
  (db, { id, ...fields }) =>
    db
      .update(users)
      .set({ ...fields, ...touched(users) })
      .where(eq(users.id, id)),
)

/**
 * Changes fields of a user.
 *
 * @throws ConstraintViolation for a taken name or address
 */
export const updateFields = async (
  tx: TransactionContext,
  { id, ...present }: ChangeableUser,
  change: UserChange,
): Promise<void> => {
  const { username, email, display_name, role, time_zone, is_disabled, ...after } = { ...present, ...change }
  const { attachment_quota_bytes, task_quota } = after
  const names = { username, email, display_name }
  await pipeline(tx.db, {
    user: () =>
      update(tx.db, { id, ...names, role, time_zone, is_disabled, attachment_quota_bytes, task_quota }),
    address: () => email !== present.email && expectFreeAddress(tx, { id, email }),
  })
}

const hide = builtStatement('users.hide', { id: 'uuid' }, (db, p) =>
  db
    .update(users)
    .set({
      deleted_at: sql`now()`,
      username: sql`${users.id}::text`,
      email: sql`${users.id}::text`,
      display_name: '',
      role: 'member',
      password_hash: '',
    })
    .where(eq(users.id, p.id)),
)

const hideTags = builtStatement('tags.hide_of_user', { id: 'uuid' }, (db, p) =>
  db
    .update(tags)
    .set({ deleted_at: sql`now()` })
    .where(and(eq(tags.owner_id, p.id), isNull(tags.project_id), isNull(tags.deleted_at))),
)

/**
 * Hides a user and their tags from every reader, and frees their name and address. Their rows are removed later (`purge.ts`), and
 * `endAccessOfUser` ends what they can do.
 */
export const hideUser = async (
  { db }: TransactionContext,
  { id }: Authorized<'user.delete', UserFacts>,
): Promise<void> => {
  await pipeline(db, {
    user: () => hide(db, { id }),
    tags: () => hideTags(db, { id }),
  })
}

const selectLive = statement(
  'users.select_live',
  { ids: 'uuid[]' },
  { id: 'text' },
  (p) =>
    sql`select id::text from users where id = ${anyOf(p.ids)} and deleted_at is null order by id for key share`,
)

/** The ids of those of the users that were not deleted, locked. */
export const selectLiveUsers = async (
  { db }: TransactionContext,
  ids: readonly string[],
): Promise<ReadonlySet<string>> => new Set((await selectLive(db, { ids })).map(({ id }) => id))

/** Filters of the list of users. */
export interface UserFilter {
  readonly role?: readonly Role[]
  /** A part of the username or the display name. */
  readonly q?: string
}

const filterFields = { role: filterOneOf('text', item.role) }

/** The folded names that a search compares: the expression of the index `users_name_bigrams`, on a row with the names of a user. */
export const foldedNames = ({ username, display_name }: typeof users): SQL =>
  sql`fold_text(${username} || ' ' || ${display_name})`

/** A page of the users that match the filter, as the caller sees them. */
export const selectUsers = (
  { db, principal }: StatementContext<Principal>,
  { q, ...filter }: UserFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'users',
      table: users,
      branches: (caller) => onlyBranch(allowsUser('user.see', caller, item)),
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(q === undefined ? [] : [nameContains(foldedNames(item), foldSearch(q))]),
      ],
      ...newest,
      json: userJson,
    },
    principal,
    page,
  )
