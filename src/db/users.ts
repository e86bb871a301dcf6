import type { Client } from '../domain/audit.ts'
import { done, found, missing, type Outcome } from '../domain/outcome.ts'
import type { Principal, Role } from '../domain/permissions.ts'
import { foldSearch } from '../domain/text.ts'
import { audit, auditColumn, auditColumns, auditEvent, auditParameters, auditValues } from './audit.ts'
import type { Database } from './engine/client.ts'
import { type SQL, sql } from './engine/drizzle.ts'
import {
  type Created,
  createOnce,
  type Idempotency,
  idempotencyParameters,
  idempotencyValues,
  keepAnswer,
} from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { userJson } from './read-models.ts'
import {
  conditionsOf,
  createdAt,
  filterOneOf,
  newestFirst,
  type Page,
  type PageRequest,
  selectPage,
} from './lists/list.ts'
import { checkedOutcome, ifMatchParameter, readOutcome } from './engine/outcome.ts'
import { allowsUser, callerOf, callerParameters } from './access/permissions.ts'
import { purgeUserOnce } from './purge.ts'
import { isRecentlyAuthenticated } from './reauthentication.ts'
import { nameContains } from './lists/search.ts'
import { onlyRow, statement } from './engine/statement.ts'

/** A user as one caller sees it: the JSON text, its version, and whether the address is in it. */
export interface UserRow {
  readonly json: string
  readonly version: number
  readonly shows_email: boolean
}

/** A user after a change. */
export interface ChangedUser extends UserRow {
  /** The address before the change; null when it is the same. */
  readonly previousEmail: string | null
}

/** The fields of a new user; the address is in canonical form. */
export interface NewUser {
  readonly username: string
  readonly email: string
  readonly displayName: string
  readonly passwordHash: string
}

/** The fields of a user that change; those that are left out stay. */
export interface UserChange {
  readonly username?: string
  readonly email?: string
  readonly display_name?: string
  readonly role?: Role
}

const user = sql.raw('person')

const selectVisible = statement(
  { id: 'uuid', ...callerParameters },
  { json: 'text', version: 'int', shows_email: 'bool' },
  (p) => sql`
    select ${userJson(user, p)} as json, version, ${allowsUser('user.see_email', p, user)} as shows_email
    from users person where id = ${p.id} and ${allowsUser('user.see', p, user)}`,
)

/** One user, as the principal sees it. */
export const selectUser = async (
  db: Database,
  principal: Principal,
  id: string,
): Promise<Outcome<UserRow>> => {
  return found(onlyRow(await selectVisible(db, { id, ...callerOf(principal) })))
}

const insert = statement(
  {
    id: 'uuid',
    username: 'text',
    email: 'text',
    display_name: 'text',
    role: 'text',
    password_hash: 'text',
    ...callerParameters,
    ...idempotencyParameters,
    ...auditParameters,
  },
  { json: 'text', ...auditColumns },
  (p) => sql`
    with person as (
      insert into users (id, username, email, display_name, role, password_hash)
      select ${p.id}, ${p.username}, ${p.email}, ${p.display_name}, ${p.role}, ${p.password_hash}
      where ${p.role} <> 'admin' or ${allowsUser('user.create_admin', p, user)}
      returning *
    ), created as (
      select id, ${userJson(user, p)} as json from person
    ), kept as (
      ${keepAnswer(p, sql`created`)}
    ), audit as (${audit(p, sql`${auditEvent(p, 'user.created', { user: sql`id` })} from person`)})
    select json, ${auditColumn} from created`,
)

/**
 * Creates a user. `newUser` is called only if it has to be, since hashing a password is costly. A name or address that
 * is taken breaks users_username_unique or users_email_unique.
 */
export const insertUser = (
  db: Database,
  principal: Principal,
  newUser: () => Promise<NewUser & { readonly role: Role }>,
  client: Client,
  idempotency: Idempotency | null,
): Promise<Outcome<Created>> =>
  createOnce(db, idempotency, async () => create(db, principal, await newUser(), client, idempotency), done)

const create = async (
  db: Database,
  principal: Principal,
  { username, email, displayName, role, passwordHash }: NewUser & { readonly role: Role },
  client: Client,
  idempotency: Idempotency | null,
): Promise<Outcome<Created>> => {
  const id = newId()
  const fields = { id, username, email, display_name: displayName, role, password_hash: passwordHash }
  const values = { ...fields, ...callerOf(principal), ...idempotencyValues(idempotency) }
  const row = onlyRow(await insert(db, { ...values, ...auditValues(client, principal) }))
  return row === null ? { outcome: 'forbidden' } : done({ id, json: row.json, replayed: false })
}

/**
 * Locks every administrator, in one order, when one of them may be about to go: two who remove each other at once then
 * come one after the other, and the second sees that it would be the last.
 */
const lockedAdmins = (isNeeded: SQL): SQL =>
  sql`select id from users where role = 'admin' and ${isNeeded} order by id for update`

/** For how long a user can undo a change of their address, and how often they may change it: each change sends a mail. */
const undoLifetime = sql.raw(`interval '7 days'`)
const emailChangesPerDay = sql.raw('5')

const whenLastAdmin = sql`when target.role = 'admin' and not exists (select from admins where admins.id <> target.id)`

const update = statement(
  {
    id: 'uuid',
    patch: 'json',
    demotes: 'bool',
    role_audit_id: 'uuid',
    undo_hash: 'bytes',
    ...callerParameters,
    ...ifMatchParameter,
    ...auditParameters,
  },
  {
    outcome: 'text',
    json: 'text?',
    version: 'int?',
    shows_email: 'bool',
    previous_email: 'text?',
    ...auditColumns,
  },
  (p) => sql`
    with admins as materialized (
      ${lockedAdmins(p.demotes)}
    ), target as (
      select * from users person
      where id = ${p.id} and ${allowsUser('user.see', p, user)} and (select count(*) from admins) is not null
      for no key update
    ), checked as (
      select id, ${checkedOutcome(
        sql`${allowsUser('user.change', p, sql`target`)} and (
          coalesce(${p.patch} ->> 'role' = target.role, true) or ${allowsUser('user.change_role', p, sql`target`)}) and (
          coalesce(${p.patch} ->> 'email' = target.email, true) or ${allowsUser('user.change_email', p, sql`target`)})`,
        sql`target.version::text`,
        p.if_match,
        sql`${whenLastAdmin} and ${p.demotes} then 'last_admin'
          when ${p.patch} ->> 'email' <> target.email and target.id = ${p.caller}
            and count_tokens(target.id, 'undo_email', interval '1 day') >= ${emailChangesPerDay} then 'email_changed_often'`,
        sql`coalesce(${p.patch} ->> 'email' = target.email, true) or ${isRecentlyAuthenticated(p)}`,
      )} as outcome
      from target
    ), changed as (
      update users person set
        username = coalesce(${p.patch} ->> 'username', person.username),
        email = coalesce(${p.patch} ->> 'email', person.email),
        display_name = coalesce(${p.patch} ->> 'display_name', person.display_name),
        role = coalesce(${p.patch} ->> 'role', person.role)
      from checked where person.id = checked.id and checked.outcome = 'done'
      returning person.*
    ), voided as (
      delete from one_time_tokens using changed join target using (id)
      where user_id = changed.id and changed.email <> target.email and purpose <> 'undo_email'
    ), undoing as (
      insert into one_time_tokens (hash, purpose, user_id, email, expires_at)
      select ${p.undo_hash}, 'undo_email', id, target.email, now() + ${undoLifetime} from changed join target using (id)
      where changed.email <> target.email and id = ${p.caller}
    ), audit as (${audit(
      p,
      sql`
        ${auditEvent(p, 'user.email_changed', { user: sql`id` })} from changed join target using (id)
        where changed.email <> target.email
        union all
        ${auditEvent(p, 'user.role_changed', { user: sql`id`, id: p.role_audit_id })} from changed join target using (id)
        where changed.role <> target.role`,
    )})
    select outcome, ${userJson(sql`changed`, p)} as json, changed.version,
      coalesce(${allowsUser('user.see_email', p, sql`changed`)}, false) as shows_email,
      (select target.email from target where target.email <> changed.email) as previous_email, ${auditColumn}
    from checked left join changed on true`,
)

/**
 * Changes a user. `ifMatch` holds the ETags that will do, null for any. When users change their own address, `undoHash` is
 * stored as the hash of a token that undoes it.
 */
export const updateUser = async (
  db: Database,
  principal: Principal,
  id: string,
  change: UserChange,
  client: Client,
  ifMatch: readonly string[] | null,
  undoHash: Buffer,
): Promise<Outcome<ChangedUser>> => {
  const fields = { id, patch: change, demotes: change.role === 'member', if_match: ifMatch }
  const values = {
    ...fields,
    role_audit_id: newId(),
    undo_hash: undoHash,
    ...callerOf(principal),
    ...auditValues(client, principal),
  }
  const result = readOutcome(onlyRow(await update(db, values)))
  if (result.outcome !== 'done') return result
  const { json, version, shows_email, previous_email: previousEmail } = result.value
  return json === null || version === null ? missing : done({ json, version, shows_email, previousEmail })
}

const remove = statement(
  { id: 'uuid', ...callerParameters, ...ifMatchParameter, ...auditParameters },
  { outcome: 'text', ...auditColumns },
  (p) => sql`
    with admins as materialized (
      ${lockedAdmins(sql`exists (select from users person where person.id = ${p.id} and person.role = 'admin')`)}
    ), target as (
      select * from users person
      where id = ${p.id} and ${allowsUser('user.see', p, user)} and (select count(*) from admins) is not null
      for update
    ), checked as (
      select id, ${checkedOutcome(
        allowsUser('user.delete', p, sql`target`),
        sql`target.version::text`,
        p.if_match,
        sql`${whenLastAdmin} then 'last_admin'`,
        isRecentlyAuthenticated(p),
      )} as outcome
      from target
    ), removed as (
      update users set deleted_at = now(), username = users.id::text, email = users.id::text, display_name = '',
        role = 'member', password_hash = ''
      from checked where users.id = checked.id and checked.outcome = 'done' returning users.id
    ), removed_tags as (
      update tags set deleted_at = now() from removed where owner_id = removed.id and deleted_at is null
    ), ended_sessions as (
      delete from sessions using removed where user_id = removed.id
    ), ended_tokens as (
      delete from api_tokens using removed where user_id = removed.id
    ), ended_one_time_tokens as (
      delete from one_time_tokens using removed where user_id = removed.id
    ), ended_second_factors as (
      delete from second_factors using removed where user_id = removed.id
    ), audit as (${audit(p, sql`${auditEvent(p, 'user.deleted', { user: sql`id` })} from removed`)})
    select outcome, ${auditColumn} from checked`,
)

/**
 * Deletes a user with their tasks, tags and sessions. They are gone for every reader at once, and their names are free.
 * What belongs to them is removed in batches (`purge.ts`), the first of each kind before this resolves; files follow through
 * the outbox.
 */
export const deleteUser = async (
  db: Database,
  principal: Principal,
  id: string,
  client: Client,
  ifMatch: readonly string[] | null,
): Promise<Outcome<unknown>> => {
  const values = { id, ...callerOf(principal), if_match: ifMatch, ...auditValues(client, principal) }
  const outcome = readOutcome(onlyRow(await remove(db, values)))
  if (outcome.outcome === 'done') await purgeUserOnce(db, id)
  return outcome
}

/** Which users a list holds. */
export interface UserFilter {
  readonly role?: readonly Role[]
  /** A part of the username or the display name. */
  readonly q?: string
}

const filterFields = { role: filterOneOf('text', sql`item.role`) }
const names = sql`fold_text(item.username || ' ' || item.display_name)`

/** A page of the users that pass the filter, as the principal sees them. */
export const selectUsers = (
  db: Database,
  principal: Principal,
  { q, ...filter }: UserFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'users',
      from: sql`users item`,
      seenBecause: (caller) => [allowsUser('user.see', caller, sql`item`)],
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(q === undefined ? [] : [nameContains(names, foldSearch(q))]),
      ],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: userJson,
    },
    principal,
    page,
  )
