import { done, found, type Outcome } from '../domain/outcome.ts'
import type { Principal, Role } from '../domain/permissions.ts'
import { foldSearch } from '../domain/text.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsUser } from './access/permissions.ts'
import { audit, auditColumn, auditEvent } from './audit.ts'
import type { Database } from './engine/client.ts'
import type { OpContext } from './engine/context.ts'
import { creation } from './engine/creation.ts'
import type { Created } from './engine/idempotency.ts'
import { newId } from './engine/ids.ts'
import { checkedOutcome, readChangedRow, readOutcome } from './engine/outcome.ts'
import { query, statement } from './engine/statement.ts'
import { conditionsOf, filterOneOf, nameContains } from './engine/conditions.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { newOneTimeToken } from './one-time-tokens.ts'
import { endAccess } from './passwords.ts'
import { userJson } from './read-models.ts'
import { isRecentlyAuthenticated } from './reauthentication.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** A user as the caller sees it: the JSON text, its version, and whether it includes the email address and the quotas. */
export interface UserRow {
  readonly json: string
  readonly version: number
  readonly shows_private: boolean
}

/** A user after a change. */
export interface ChangedUser extends UserRow {
  /** The address before the change; null if it has not changed. */
  readonly previous_email: string | null
}

/** The fields of a new user; the address is in canonical form. */
export interface NewUser {
  readonly username: string
  readonly email: string
  readonly displayName: string
  /** In canonical form. */
  readonly timeZone: string
  readonly passwordHash: string
}

/** The fields of a user to change. Absent fields are not changed. */
export interface UserChange {
  readonly username?: string
  readonly email?: string
  readonly display_name?: string
  readonly role?: Role
  readonly time_zone?: string
  readonly is_disabled?: boolean
  readonly attachment_quota_bytes?: number | null
  readonly task_quota?: number | null
}

const user = sql.raw('person')
const target = sql.raw('target')

const select = query(
  'users.select',
  { id: 'uuid' },
  { json: 'text', version: 'int', shows_private: 'bool' },
  (p) => sql`
    select ${userJson(user, p)} as json, ${columnsOf<'users'>(user).version},
      ${allowsUser('user.see_private', p, user)} as shows_private
    from users person where id = ${p.id} and ${allowsUser('user.see', p, user)}`,
)

/** One user, as the caller sees it. */
export const selectUser = async (ctx: OpContext<Principal>, id: string): Promise<Outcome<UserRow>> => {
  const [row] = await select(ctx, { id })
  return found(row)
}

const selectByName = statement(
  'users.select_id_by_name',
  { name: 'text', email: 'text' },
  { id: 'text' },
  (p) => {
    const { id, username, email } = columnsOf<'users'>(user)
    return sql`
      select ${id}::text from users person
      where (${username} = ${p.name} or ${email} = ${p.email}) and ${columnsOf<'users'>(user).deleted_at} is null`
  },
)

/** The id of the user with this username, or this address in canonical form; null if there is none. */
export const selectUserIdByName = async (
  db: Database,
  names: { readonly name: string; readonly email: string },
): Promise<string | null> => {
  const [row] = await selectByName(db, names)
  return row?.id ?? null
}

const installation = insertion<'installation'>({ singleton: sql`true` })

/** A part of a statement that records that there is an account, and returns a row if it is the first. */
const insertInstallation = sql`
  insert into installation (${installation.columns}) values (${installation.values}) on conflict do nothing returning *`

const insert = creation(
  'users.insert',
  {
    username: 'text',
    email: 'text',
    display_name: 'text',
    role: 'text',
    time_zone: 'text',
    password_hash: 'text',
  },
  { json: 'text' },
  (p) => {
    const { columns, values } = insertion<'users'>({
      id: p.id,
      username: p.username,
      email: p.email,
      display_name: p.display_name,
      role: p.role,
      time_zone: p.time_zone,
      password_hash: p.password_hash,
    })
    return {
      // Records the installation: otherwise the next account to register would count as the first and become an administrator.
      parts: sql`
        installed as (
          ${insertInstallation}
        ), person as (
          insert into users (${columns}) select ${values}
          where ${p.role} <> 'admin' or ${allowsUser('user.create_admin', p, user)}
          returning *
        ), created as (
          select id, ${userJson(user, p)} as json from person
        ), audit as (${audit(p, sql`${auditEvent(p, 'user.created', { user: sql`id` })} from person`)})`,
      select: sql`select json, ${auditColumn} from created`,
    }
  },
)

/**
 * Creates a user. `newUser` is not called for a replay, since hashing a password is expensive. A taken name or address violates
 * users_username_unique or users_email_unique.
 */
export const insertUser = async (
  ctx: OpContext<Principal>,
  newUser: () => Promise<NewUser & { readonly role: Role }>,
): Promise<Outcome<Created>> => {
  const result = await insert(ctx, async () => {
    const { displayName, timeZone, passwordHash, ...fields } = await newUser()
    return { ...fields, display_name: displayName, time_zone: timeZone, password_hash: passwordHash }
  })
  if (result.replayed) return done(result)
  if (result.row === null) return { outcome: 'forbidden' }
  return done({ id: result.id, json: result.row.json, replayed: false })
}

/**
 * Locks every administrator who is not disabled, always in the same order, if one of them may be removed. Two administrators who
 * remove each other are thereby serialized, and the second one is refused as the last administrator.
 */
const lockedAdmins = (isNeeded: SQL): SQL =>
  sql`select id from users where role = 'admin' and not is_disabled and ${isNeeded} order by id for update`

/** Lifetime of undo tokens, and the limit of changes of an email address, each of which sends an email. */
const undoLifetime = sql.raw(`interval '7 days'`)
const maxEmailChangesPerDay = sql.raw('5')

const whenLastAdmin = sql`when target.role = 'admin' and not target.is_disabled and not exists (select from admins where admins.id <> target.id)`

const update = query(
  'users.update',
  {
    id: 'uuid',
    patch: 'json',
    removes_admin: 'bool',
    role_audit_id: 'uuid',
    disabling_audit_id: 'uuid',
    quota_audit_id: 'uuid',
    undo_hash: 'bytes',
  },
  {
    outcome: 'text',
    json: 'text?',
    version: 'int?',
    shows_private: 'bool',
    previous_email: 'text?',
  },
  (p) => {
    const before = columnsOf<'users'>(target)
    const current = columnsOf<'users'>(user)
    const after = columnsOf<'users'>(sql`changed`)
    const patched = (field: keyof UserChange): SQL => sql`coalesce(${newValue(field)}, ${current[field]})`
    const newValue = (field: keyof UserChange): SQL => sql`${p.patch} ->> ${sql.raw(`'${field}'`)}`
    const keeps = (field: 'role' | 'email'): SQL => sql`coalesce(${newValue(field)} = ${before[field]}, true)`
    const isDisabled = (row: typeof current): SQL =>
      sql`coalesce((${newValue('is_disabled')})::bool, ${row.is_disabled})`
    const keepsAccess = sql`${isDisabled(before)} = ${before.is_disabled}`
    const patchedQuota = (field: 'attachment_quota_bytes' | 'task_quota', row: typeof current): SQL =>
      sql`case when ${p.patch} ? ${sql.raw(`'${field}'`)} then (${newValue(field)})::bigint else ${row[field]} end`
    const keepsQuotas = sql`(${patchedQuota('attachment_quota_bytes', before)} is not distinct from ${before.attachment_quota_bytes}
      and ${patchedQuota('task_quota', before)} is not distinct from ${before.task_quota})`
    const changedAccess = sql`from changed join target using (id) where changed.is_disabled <> target.is_disabled`
    const undo = newOneTimeToken({
      purpose: 'undo_email',
      hash: p.undo_hash,
      user: sql`id`,
      email: before.email,
      lifetime: undoLifetime,
    })
    return sql`
      with admins as materialized (
        ${lockedAdmins(p.removes_admin)}
      ), target as (
        select * from users person
        where id = ${p.id} and ${allowsUser('user.see', p, user)} and (select count(*) from admins) is not null
        for no key update
      ), checked as (
        select id, ${checkedOutcome(p, {
          allowed: sql`${allowsUser('user.change', p, target)}
            and (${keeps('role')} or ${allowsUser('user.change_role', p, target)})
            and (${keeps('email')} or ${allowsUser('user.change_email', p, target)})
            and (${keepsAccess} or ${allowsUser('user.disable', p, target)})
            and (${keepsQuotas} or ${allowsUser('user.set_quota', p, target)})`,
          authenticated: sql`${keeps('email')} or ${isRecentlyAuthenticated(p)}`,
          etag: sql`${before.version}::text`,
          refusals: sql`${whenLastAdmin} and ${p.removes_admin} then 'last_admin'
            when ${newValue('email')} <> ${before.email} and ${before.id} = ${p.caller}
              and count_tokens(${before.id}, 'undo_email', interval '1 day') >= ${maxEmailChangesPerDay}
              then 'email_changed_often'`,
        })} as outcome
        from target
      ), changed as (
        update users person set ${assignments<'users'>({
          username: patched('username'),
          email: patched('email'),
          display_name: patched('display_name'),
          role: patched('role'),
          time_zone: patched('time_zone'),
          is_disabled: isDisabled(current),
          attachment_quota_bytes: patchedQuota('attachment_quota_bytes', current),
          task_quota: patchedQuota('task_quota', current),
        })}
        from checked where person.id = checked.id and checked.outcome = 'done'
        returning person.*
      ), voided as (
        delete from one_time_tokens using changed join target using (id)
        where user_id = changed.id and changed.email <> target.email and purpose <> 'undo_email'
      ), undoing as (
        insert into one_time_tokens (${undo.columns}) select ${undo.values} from changed join target using (id)
        where changed.email <> target.email and id = ${p.caller}
      ), audit as (${audit(
        p,
        sql`
          ${auditEvent(p, 'user.email_changed', { user: sql`id` })} from changed join target using (id)
          where changed.email <> target.email
          union all
          ${auditEvent(p, 'user.role_changed', { user: sql`id`, id: p.role_audit_id })} from changed join target using (id)
          where changed.role <> target.role
          union all
          ${auditEvent(p, 'user.disabled', { user: sql`id`, id: p.disabling_audit_id })} ${changedAccess} and changed.is_disabled
          union all
          ${auditEvent(p, 'user.enabled', { user: sql`id`, id: p.disabling_audit_id })} ${changedAccess} and not changed.is_disabled
          union all
          ${auditEvent(p, 'user.quota_changed', { user: sql`id`, id: p.quota_audit_id })} from changed join target using (id)
          where (changed.attachment_quota_bytes, changed.task_quota)
            is distinct from (target.attachment_quota_bytes, target.task_quota)`,
      )})
      select outcome, ${userJson(sql`changed`, p)} as json, ${after.version},
        coalesce(${allowsUser('user.see_private', p, sql`changed`)}, false) as shows_private,
        (select ${before.email} from target where ${before.email} <> ${after.email}) as previous_email,
        case when changed.is_disabled then ${endAccess(sql`changed.id`)} end, ${auditColumn}
      from checked left join changed on true`
  },
)

/** A change of a user. */
interface UserUpdate {
  readonly id: string
  readonly change: UserChange
  /** The hash of a token that undoes a change of address; stored when users change their own. */
  readonly undoHash: Buffer
}

/** Changes a user. */
export const updateUser = async (
  ctx: OpContext<Principal>,
  { id, change, undoHash }: UserUpdate,
): Promise<Outcome<ChangedUser>> => {
  const [row] = await update(ctx, {
    id,
    patch: change,
    removes_admin: change.role === 'member' || change.is_disabled === true,
    role_audit_id: newId(),
    disabling_audit_id: newId(),
    quota_audit_id: newId(),
    undo_hash: undoHash,
  })
  return readChangedRow(readOutcome(row))
}

const remove = query('users.delete', { id: 'uuid' }, { outcome: 'text' }, (p) => {
  const emptied = assignments<'users'>({
    deleted_at: sql`now()`,
    username: sql`users.id::text`,
    email: sql`users.id::text`,
    display_name: sql`''`,
    role: sql`'member'`,
    password_hash: sql`''`,
  })
  return sql`
      with admins as materialized (
        ${lockedAdmins(sql`exists (select from users person where person.id = ${p.id} and person.role = 'admin')`)}
      ), target as (
        select * from users person
        where id = ${p.id} and ${allowsUser('user.see', p, user)} and (select count(*) from admins) is not null
        for update
      ), checked as (
        select id, ${checkedOutcome(p, {
          allowed: allowsUser('user.delete', p, target),
          authenticated: isRecentlyAuthenticated(p),
          etag: sql`${columnsOf<'users'>(target).version}::text`,
          refusals: sql`${whenLastAdmin} then 'last_admin'`,
        })} as outcome
        from target
      ), removed as (
        update users set ${emptied}
        from checked where users.id = checked.id and checked.outcome = 'done' returning users.id
      ), removed_tags as (
        update tags set ${assignments<'tags'>({ deleted_at: sql`now()` })} from removed
        where owner_id = removed.id and project_id is null and deleted_at is null
      ), ended_sessions as (
        delete from sessions using removed where user_id = removed.id
      ), ended_tokens as (
        delete from api_tokens using removed where user_id = removed.id
      ), ended_one_time_tokens as (
        delete from one_time_tokens using removed where user_id = removed.id
      ), ended_second_factors as (
        delete from second_factors using removed where user_id = removed.id
      ), audit as (${audit(p, sql`${auditEvent(p, 'user.deleted', { user: sql`id` })} from removed`)})
      select outcome, ${auditColumn} from checked`
})

/**
 * Deletes a user with their tasks, tags and sessions. They disappear for all readers immediately, and the username and address become
 * free. The dependent rows are deleted in batches (`purge.ts`), the files through the queue.
 */
export const deleteUser = async (ctx: OpContext<Principal>, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
}

/** Filters of the list of users. */
export interface UserFilter {
  readonly role?: readonly Role[]
  /** A part of the username or the display name. */
  readonly q?: string
}

const filterFields = { role: filterOneOf('text', sql`item.role`) }

/** The folded names that a search compares: the expression of the index `users_name_bigrams`, on a row with the names of a user. */
export const foldedNames = (row: SQL): SQL => {
  const { username, display_name } = columnsOf<'users'>(row)
  return sql`fold_text(${username} || ' ' || ${display_name})`
}

/** A page of the users that match the filter, as the caller sees them. */
export const selectUsers = (
  { db, principal }: OpContext<Principal>,
  { q, ...filter }: UserFilter,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'users',
      from: sql`users item`,
      branches: (caller) => onlyBranch(allowsUser('user.see', caller, sql`item`)),
      filters: [
        ...conditionsOf(filterFields, filter),
        ...(q === undefined ? [] : [nameContains(foldedNames(sql`item`), foldSearch(q))]),
      ],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: userJson,
    },
    principal,
    page,
  )
