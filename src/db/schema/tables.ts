import type { CalendarFeed } from '../../domain/shared/feeds.ts'
import type {
  ImportExisting,
  ImportFailure,
  ImportPreview,
  ImportResult,
  ImportTable,
  ImportUsers,
} from '../../domain/interchange/imports.ts'
import type { Metadata } from '../../domain/shared/integration-fields.ts'
import type { Recurrence } from '../../domain/tasks/recurrence.ts'
import type { Anchor } from '../../domain/tasks/series.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import type { TeamRole } from '../../domain/shared/team-roles.ts'
import {
  type AnyColumn,
  bigint,
  bigserial,
  boolean,
  check,
  customType,
  type ExtraConfigColumn,
  foreignKey,
  index,
  integer,
  interval,
  pgTable,
  primaryKey,
  sql,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} from './drizzle.ts'
import { dueOrder, isNotNil, listOfTask } from './task-order.ts'

const xid8 = customType<{ data: string }>({ dataType: () => 'xid8' })
const tsvector = customType<{ data: string }>({ dataType: () => 'tsvector' })
const position = customType<{ data: string }>({ dataType: () => 'text collate "C"' })
/** Text folded by fold_text(). In the order of code points, alike on every database. */
const folded = customType<{ data: string }>({ dataType: () => 'text collate "C"' })
const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
const instantType = 'timestamp (3) with time zone'
/** RFC 3339 in UTC with milliseconds, as the contract writes it. The driver parses times to a Date. */
const instant = customType<{ data: string; driverData: Date | string }>({
  dataType: () => instantType,
  fromDriver: (value) => new Date(value).toISOString(),
})
/** `YYYY-MM-DD`. The driver parses dates to the start of the day in UTC. */
const day = customType<{ data: string; driverData: Date | string }>({
  dataType: () => 'date',
  fromDriver: (value) => new Date(value).toISOString().slice(0, 10),
})
/** Sent as it is: the driver serializes it. */
const json = customType<{ data: Readonly<Record<string, unknown>> }>({ dataType: () => 'jsonb' })
const recurrence = customType<{ data: Recurrence }>({ dataType: () => 'jsonb' })
const recurrenceAnchor = customType<{ data: Anchor }>({ dataType: () => 'jsonb' })
const metadata = customType<{ data: Metadata }>({ dataType: () => 'jsonb' })
const digests = customType<{ data: Readonly<Record<string, string>> }>({ dataType: () => 'jsonb' })
const importTable = customType<{ data: ImportTable }>({ dataType: () => 'jsonb' })
const importUsers = customType<{ data: ImportUsers }>({ dataType: () => 'jsonb' })
const importPreview = customType<{ data: ImportPreview }>({ dataType: () => 'jsonb' })
const importResult = customType<{ data: ImportResult }>({ dataType: () => 'jsonb' })
/** Columns for other programs. */
const integrationColumns = () => ({
  metadata: metadata('metadata')
    .notNull()
    .default(sql`'{}'`),
  external_source: text('external_source'),
  external_id: text('external_id'),
})
/** Whether a column has times. */
export const isInstant = (column: AnyColumn): boolean => column.getSQLType() === instantType
const now = sql`now()`
const createdAt = () => instant('created_at').notNull().default(now)
/** How often something has changed that others add, or that jobs do, beside what clients write: the revision is the version and this. */
const sideChanges = () => integer('side_changes').notNull().default(0)

export const users = pgTable(
  'users',
  {
    id: uuid('id').primaryKey(),
    username: text('username').notNull(),
    /** In canonical form, so that equality is byte equality on every database. */
    email: text('email').notNull(),
    display_name: text('display_name').notNull(),
    role: text('role').notNull(),
    /** A name of the IANA database, in its spelling, that this server knew when it was stored. */
    time_zone: text('time_zone').notNull().default('UTC'),
    /** Null for an account that signs in with an identity provider only. */
    password_hash: text('password_hash'),
    /** Whether an operator has exempted the account from OIDC_ONLY, which closes passwords. */
    may_use_password: boolean('may_use_password').notNull().default(false),
    /** When the API tokens, webhooks, feeds and exports of the user rest until a sign-in with an identity provider; null without an identity. */
    sign_in_due_at: instant('sign_in_due_at'),
    /** Whether an administrator keeps the user from signing in and from using API tokens. */
    is_disabled: boolean('is_disabled').notNull().default(false),
    /** Total size of the files that the user attached. A trigger subtracts files that cascades delete. */
    attachment_bytes: bigint('attachment_bytes', { mode: 'number' }).notNull().default(0),
    /** Null: the quota of the installation. 0: unlimited. */
    attachment_quota_bytes: bigint('attachment_quota_bytes', { mode: 'number' }),
    /** Null: the quota of the installation. 0: unlimited. */
    task_quota: integer('task_quota'),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    /** Set when the user is deleted, which hides the row from every reader. A job removes it after its dependent rows. */
    deleted_at: instant('deleted_at'),
  },
  (t) => [
    index('users_deleted')
      .on(t.id)
      .where(sql`${t.deleted_at} is not null`),
    uniqueIndex('users_username_unique').on(t.username),
    uniqueIndex('users_email_unique').on(t.email),
    index('users_newest').on(t.created_at.desc(), t.id.desc()),
    check('users_role_known', sql`${t.role} in ('member', 'admin')`),
  ],
)

/** At most one row. Its insertion decides which of several concurrent first registrations becomes the administrator. */
export const installation = pgTable('installation', { singleton: boolean('singleton').primaryKey() }, (t) => [
  check('installation_is_one', sql`${t.singleton}`),
])

/** Sessions in use. Ending a session deletes its row. */
export const sessions = pgTable(
  'sessions',
  {
    id: uuid('id').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    created_at: createdAt(),
    last_used_at: instant('last_used_at').notNull().default(now),
    /** Last authentication with a password or a second factor. A refresh does not count. */
    authenticated_at: instant('authenticated_at').notNull().default(now),
    expires_at: instant('expires_at').notNull(),
    /** The client of the last sign-in or refresh. */
    user_agent: text('user_agent'),
    address: text('address'),
  },
  (t) => [
    index('sessions_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
    index('sessions_expiry').on(t.expires_at),
    // The correction of times that are ahead (times-ahead.ts).
    index('sessions_authentication').on(t.authenticated_at),
  ],
)

/** Who users are with identity providers. */
export const identities = pgTable(
  'identities',
  {
    id: uuid('id').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    issuer: text('issuer').notNull(),
    subject: text('subject').notNull(),
    /** The address that the provider said last, for people to recognize the identity. It identifies nobody. */
    email: text('email'),
    created_at: createdAt(),
    last_used_at: instant('last_used_at').notNull().default(now),
  },
  (t) => [
    uniqueIndex('identities_subject_unique').on(t.issuer, t.subject),
    uniqueIndex('identities_user_once').on(t.user_id, t.issuer),
    index('identities_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
  ],
)

/** The sessions that were started with an identity provider. */
export const providerSessions = pgTable(
  'provider_sessions',
  {
    session_id: uuid('session_id')
      .primaryKey()
      .references(() => sessions.id, { onDelete: 'cascade' }),
    identity_id: uuid('identity_id')
      .notNull()
      .references(() => identities.id, { onDelete: 'cascade' }),
    /** The provider's name for its own session; null if it has said none. */
    sid: text('sid'),
  },
  (t) => [index('provider_sessions_identity').on(t.identity_id)],
)

/** Codes that exchange a proven identity for a session. Any use of a code deletes its row. */
export const oidcCodes = pgTable(
  'oidc_codes',
  {
    /** SHA-256 of the code. */
    hash: bytea('hash').primaryKey(),
    /** The identity, encrypted with a key that is not in the database. */
    sealed: bytea('sealed').notNull(),
    /** SHA-256 of the issuer with the subject, and with the provider's session, for the provider's logout. */
    subject_hash: bytea('subject_hash').notNull(),
    sid_hash: bytea('sid_hash'),
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [index('oidc_codes_expiry').on(t.expires_at)],
)

/** The logout tokens of identity providers, until they expire. */
export const logoutTokens = pgTable(
  'logout_tokens',
  {
    issuer: text('issuer').notNull(),
    /** The claim `jti`. */
    token_id: text('token_id').notNull(),
    expires_at: instant('expires_at').notNull(),
    /** SHA-256, as in `oidc_codes`. */
    subject_hash: bytea('subject_hash'),
    sid_hash: bytea('sid_hash'),
    received_at: instant('received_at')
      .notNull()
      .default(sql`now()`),
    /** Whether all that it ends has ended. */
    is_used: boolean('is_used').notNull().default(true),
  },
  (t) => [
    primaryKey({ columns: [t.issuer, t.token_id] }),
    index('logout_tokens_expiry').on(t.expires_at),
    index('logout_tokens_subject').on(t.subject_hash),
    index('logout_tokens_sid').on(t.sid_hash),
  ],
)

/** Spent tokens are kept until their expiry, so that a reuse is detected. */
export const refreshTokens = pgTable(
  'refresh_tokens',
  {
    hash: bytea('hash').primaryKey(),
    session_id: uuid('session_id')
      .notNull()
      .references(() => sessions.id, { onDelete: 'cascade' }),
    created_at: createdAt(),
    expires_at: instant('expires_at').notNull(),
    spent_at: instant('spent_at'),
  },
  (t) => [index('refresh_tokens_session').on(t.session_id), index('refresh_tokens_expiry').on(t.expires_at)],
)

/** API tokens. Revoking a token deletes its row. */
export const apiTokens = pgTable(
  'api_tokens',
  {
    id: uuid('id').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    name: text('name').notNull(),
    /** SHA-256 of the token. */
    hash: bytea('hash').notNull(),
    scopes: text('scopes').array().notNull(),
    created_at: createdAt(),
    expires_at: instant('expires_at'),
    last_used_at: instant('last_used_at'),
  },
  (t) => [
    uniqueIndex('api_tokens_hash_unique').on(t.hash),
    index('api_tokens_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
    index('api_tokens_expiry').on(t.expires_at),
  ],
)

/** Short-lived single-use tokens. Using a token deletes its row. */
export const oneTimeTokens = pgTable(
  'one_time_tokens',
  {
    /** SHA-256 of the token. */
    hash: bytea('hash').primaryKey(),
    /**
     * `sign_in`: the password was correct and the second factor is pending. `reset_password`: sent by email. `undo_email`:
     * sent to the previous address after a change.
     */
    purpose: text('purpose').notNull(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The address that `undo_email` restores. It stays reserved until the token expires. */
    email: text('email'),
    /** For `sign_in`, the identity that was proven instead of the password; otherwise null. */
    identity_id: uuid('identity_id').references(() => identities.id, { onDelete: 'cascade' }),
    /** The provider's session. */
    sid: text('sid'),
    /** What the provider has said that completing the sign-in applies, as JSON text. */
    claims: text('claims'),
    created_at: createdAt(),
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [
    index('one_time_tokens_identity')
      .on(t.identity_id)
      .where(sql`${t.identity_id} is not null`),
    index('one_time_tokens_user').on(t.user_id, t.purpose),
    index('one_time_tokens_expiry').on(t.expires_at),
    index('one_time_tokens_email')
      .on(t.email)
      .where(sql`${t.email} is not null`),
    check('one_time_tokens_purpose_known', sql`${t.purpose} in ('sign_in', 'reset_password', 'undo_email')`),
    check('one_time_tokens_email_to_restore', sql`(${t.purpose} = 'undo_email') = (${t.email} is not null)`),
  ],
)

/** TOTP secrets (RFC 6238). A secret takes effect when it is confirmed. */
export const secondFactors = pgTable('second_factors', {
  user_id: uuid('user_id')
    .primaryKey()
    .references(() => users.id, { onDelete: 'cascade' }),
  /** Encrypted with a key that is not in the database. */
  secret: bytea('secret').notNull(),
  created_at: createdAt(),
  confirmed_at: instant('confirmed_at'),
  /** Time step of the last accepted code. A code is accepted once. */
  last_step: bigint('last_step', { mode: 'number' }).notNull().default(0),
})

/** Unused recovery codes. Using a code deletes its row. */
export const recoveryCodes = pgTable(
  'recovery_codes',
  {
    /** SHA-256 of the code. */
    hash: bytea('hash').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => secondFactors.user_id, { onDelete: 'cascade' }),
  },
  (t) => [index('recovery_codes_user').on(t.user_id)],
)

/** Failed authentication attempts per account or network. A success deletes the row. */
export const attempts = pgTable(
  'attempts',
  {
    /** A keyed hash, because users sometimes type a password as their address. */
    key: bytea('key').primaryKey(),
    failures: integer('failures').notNull(),
    last_failed_at: instant('last_failed_at').notNull(),
    /** Attempts before this time are refused without checking them. */
    delayed_until: instant('delayed_until').notNull(),
  },
  (t) => [index('attempts_age').on(t.last_failed_at)],
)

/** The audit log of access to accounts. It has no foreign keys because it outlives the rows that it names. */
export const auditEvents = pgTable(
  'audit_events',
  {
    id: uuid('id').primaryKey(),
    action: text('action').notNull(),
    /** The authenticated user, if any. */
    actor_id: uuid('actor_id'),
    /** The user whose access changed. */
    user_id: uuid('user_id'),
    session_id: uuid('session_id'),
    token_id: uuid('token_id'),
    address: text('address'),
    user_agent: text('user_agent'),
    request_id: text('request_id').notNull(),
    created_at: createdAt(),
  },
  (t) => [
    index('audit_events_newest').on(t.created_at.desc(), t.id.desc()),
    index('audit_events_actor_newest').on(t.actor_id, t.created_at.desc(), t.id.desc()),
    index('audit_events_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
    index('audit_events_action_newest').on(t.action, t.created_at.desc(), t.id.desc()),
  ],
)

export const projects = pgTable(
  'projects',
  {
    id: uuid('id').primaryKey(),
    name: text('name').notNull(),
    /** The name as searches and orders compare it. A trigger maintains it. */
    name_folded: folded('name_folded').notNull().default(''),
    description: text('description').notNull(),
    color: text('color'),
    archived_at: instant('archived_at'),
    ...integrationColumns(),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    /** When it was moved to the trash; otherwise null. Its tasks are not changed, but hidden. */
    deleted_at: instant('deleted_at'),
    /** When it was deleted permanently, which hides it from the trash as well. A job removes it after its tasks. */
    purged_at: instant('purged_at'),
    /** The import that fills it, until when nobody sees it: it has no members, and is hidden in the trash. Null for all others. */
    filling_import_id: uuid('filling_import_id'),
    /** The transaction that created or restored it: when administrators began to see its tasks. */
    visible_in: xid8('visible_in')
      .notNull()
      .default(sql`pg_current_xact_id()`),
    /** Whether the change feed still has to deliver tasks, because it was moved to the trash or restored (`redelivery.ts`). */
    is_redelivering: boolean('is_redelivering').notNull().default(false),
  },
  (t) => [
    // GET /projects with `all`.
    index('projects_newest')
      .on(t.created_at.desc(), t.id.desc())
      .where(sql`${t.deleted_at} is null`),
    index('projects_visible').on(t.visible_in),
    // GET /trash/projects, and the removal of old trash.
    index('projects_trash')
      .on(t.deleted_at.desc(), t.id.desc())
      .where(sql`${t.deleted_at} is not null and ${t.purged_at} is null`),
    index('projects_purged')
      .on(t.id)
      .where(sql`${t.purged_at} is not null`),
    index('projects_filling')
      .on(t.filling_import_id)
      .where(sql`${t.filling_import_id} is not null`),
    index('projects_redelivering')
      .on(t.id)
      .where(sql`${t.is_redelivering}`),
  ],
)

/** Open tasks per project, which commits write (routines.sql). Not in `projects`, since changes of memberships lock those rows. */
export const projectCounts = pgTable('project_counts', {
  project_id: uuid('project_id')
    .primaryKey()
    .references(() => projects.id, { onDelete: 'cascade' }),
  open_tasks: integer('open_tasks').notNull().default(0),
})

export const teams = pgTable(
  'teams',
  {
    id: uuid('id').primaryKey(),
    name: text('name').notNull(),
    /** The name as searches and orders compare it. A trigger maintains it. */
    name_folded: folded('name_folded').notNull().default(''),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
  },
  (t) => [index('teams_newest').on(t.created_at.desc(), t.id.desc())],
)

export const teamMembers = pgTable(
  'team_members',
  {
    team_id: uuid('team_id')
      .notNull()
      .references(() => teams.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    role: text('role').$type<TeamRole>().notNull(),
    /** The issuer of the identity provider whose claims made the user a member; null if a person did. */
    source: text('source'),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ columns: [t.team_id, t.user_id] }),
    index('team_members_user').on(t.user_id),
    index('team_members_newest').on(t.team_id, t.created_at.desc(), t.user_id.desc()),
    check('team_members_role_known', sql`${t.role} in ('member', 'manager')`),
  ],
)

const roleIsKnown = (name: string, role: ExtraConfigColumn) =>
  check(name, sql`${role} in ('viewer', 'commenter', 'editor', 'manager')`)

/** Users who are members of a project themselves. `memberships` includes access by teams. */
export const projectMembers = pgTable(
  'project_members',
  {
    project_id: uuid('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    role: text('role').$type<ProjectRole>().notNull(),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ columns: [t.project_id, t.user_id] }),
    index('project_members_user').on(t.user_id),
    roleIsKnown('project_members_role_known', t.role),
  ],
)

/** The teams that are members of a project. */
export const projectTeams = pgTable(
  'project_teams',
  {
    project_id: uuid('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    team_id: uuid('team_id')
      .notNull()
      .references(() => teams.id, { onDelete: 'cascade' }),
    role: text('role').$type<ProjectRole>().notNull(),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ columns: [t.project_id, t.team_id] }),
    index('project_teams_team').on(t.team_id),
    roleIsKnown('project_teams_role_known', t.role),
  ],
)

/**
 * Users with access to a project that is not in the trash, each with their highest role, their own or that of a team. Maintained by
 * `grantAccess`, which whoever changes the tables above calls. All checks of access read this table.
 */
export const memberships = pgTable(
  'memberships',
  {
    project_id: uuid('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    role: text('role').$type<ProjectRole>().notNull(),
    /** The transaction in which access began. The change feed delivers the tasks of the project again at it. */
    joined_in: xid8('joined_in')
      .notNull()
      .default(sql`pg_current_xact_id()`),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.project_id] }),
    index('memberships_project_newest').on(t.project_id, t.created_at.desc(), t.user_id.desc()),
    roleIsKnown('memberships_role_known', t.role),
  ],
)

/** Ended memberships, for the change feed. No foreign keys, because rows outlive the user and the project. */
export const membershipTombstones = pgTable(
  'membership_tombstones',
  {
    project_id: uuid('project_id').notNull(),
    /** Null for the administrators, when the project moved to the trash. */
    user_id: uuid('user_id'),
    /** The transaction that last ended their access. */
    left_in: xid8('left_in').notNull(),
    /** They have not seen tasks that were placed in the project after this time. */
    created_at: createdAt(),
  },
  (t) => [
    unique('membership_tombstones_once').on(t.user_id, t.project_id).nullsNotDistinct(),
    index('membership_tombstones_age').on(t.created_at),
  ],
)

/** Pending invitations to projects. Accepting or revoking one deletes its row. */
export const invitations = pgTable(
  'invitations',
  {
    id: uuid('id').primaryKey(),
    project_id: uuid('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    /** In canonical form. */
    email: text('email').notNull(),
    role: text('role').$type<ProjectRole>().notNull(),
    /** SHA-256 of the token in the email. */
    hash: bytea('hash').notNull(),
    invited_by: uuid('invited_by').references(() => users.id, { onDelete: 'set null' }),
    created_at: createdAt(),
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [
    uniqueIndex('invitations_hash_unique').on(t.hash),
    uniqueIndex('invitations_email_unique').on(t.project_id, t.email),
    index('invitations_project_newest').on(t.project_id, t.created_at.desc(), t.id.desc()),
    index('invitations_inviter').on(t.invited_by),
    index('invitations_expiry').on(t.expires_at),
    roleIsKnown('invitations_role_known', t.role),
  ],
)

/** Invitation emails of the last day, for the limits. No foreign keys, because the rows outlive invitations and users. */
export const invitationMails = pgTable(
  'invitation_mails',
  {
    /** The id of the invitation. */
    id: uuid('id').primaryKey(),
    /** The address without what most servers ignore: several addresses can be one mailbox. */
    mailbox: text('mailbox').notNull(),
    invited_by: uuid('invited_by').notNull(),
    created_at: createdAt(),
  },
  (t) => [
    index('invitation_mails_inviter').on(t.invited_by, t.created_at),
    index('invitation_mails_mailbox').on(t.mailbox, t.created_at),
    index('invitation_mails_age').on(t.created_at),
  ],
)

/** The sections of a project, in which its tasks are grouped. */
export const sections = pgTable(
  'sections',
  {
    id: uuid('id').primaryKey(),
    project_id: uuid('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    name: text('name').notNull(),
    /** A fractional index: the order of the sections. */
    position: position('position').notNull(),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
  },
  (t) => [
    index('sections_project').on(t.project_id, t.position.desc(), t.id.desc()),
    unique('sections_project_id').on(t.project_id, t.id),
  ],
)

/** The indexes of an access branch, one for each indexed order. `relation` is null for administrators, who see everything. */
const branchIndexes = (
  t: Readonly<
    Record<'created_at' | 'updated_at' | 'due_at' | 'due_on' | 'deleted_at' | 'id', ExtraConfigColumn>
  >,
  prefix: string,
  relation: ExtraConfigColumn | null,
) => {
  const isListed =
    relation === null
      ? sql`${t.deleted_at} is null`
      : sql`${t.deleted_at} is null and ${relation} is not null`
  const due = dueOrder({ at: sql`${t.due_at}`, on: sql`${t.due_on}` })
  const orders = {
    newest: t.created_at.desc(),
    updated: t.updated_at.desc(),
    due: sql`(${due}) desc nulls last`,
  }
  return Object.entries(orders).map(([order, key]) =>
    relation === null
      ? index(`${prefix}_${order}`).on(key, t.id.desc()).where(isListed)
      : index(`${prefix}_${order}`).on(relation, key, t.id.desc()).where(isListed),
  )
}

export const tasks = pgTable(
  'tasks',
  {
    id: uuid('id').primaryKey(),
    title: text('title').notNull(),
    /** The title as searches and orders compare it. A trigger maintains this column and the next two. */
    title_folded: folded('title_folded').notNull().default(''),
    /** The beginning of the description, likewise. Searches and filters read it. */
    description_folded: folded('description_folded').notNull().default(''),
    /** The words of both, and the pairs of adjacent characters of the title. */
    search: tsvector('search')
      .notNull()
      .default(sql`''`),
    description: text('description').notNull(),
    status: text('status').notNull(),
    priority: text('priority').notNull(),
    start_at: instant('start_at'),
    /** An all-day start: a day without a time zone. */
    start_on: day('start_on'),
    due_at: instant('due_at'),
    due_on: day('due_on'),
    completed_at: instant('completed_at'),
    owner_id: uuid('owner_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    assignee_id: uuid('assignee_id').references(() => users.id, { onDelete: 'set null' }),
    /** Null for a personal task of its owner. */
    project_id: uuid('project_id').references(() => projects.id, { onDelete: 'cascade' }),
    /** When it was last moved to or out of a project; null if never. Maintained by a trigger. */
    placed_at: instant('placed_at'),
    /** A section of the project. */
    section_id: uuid('section_id'),
    /** A fractional index: the manual order among the tasks of the project, or of the owner. */
    position: position('position')
      .notNull()
      .default(sql`'a0'`),
    /**
     * The parent task, in the same project, or personal with the same owner; that of a task in the trash can be anywhere, or gone. No
     * foreign key, so that rows can be written in any order.
     */
    parent_id: uuid('parent_id'),
    /** Null for a task that does not recur, as are the columns of its series. */
    recurrence: recurrence('recurrence'),
    series_id: uuid('series_id'),
    /** The date of the first occurrence, from which the rule counts. */
    recurrence_anchor: recurrenceAnchor('recurrence_anchor'),
    occurrence_number: integer('occurrence_number'),
    occurrence_at: instant('occurrence_at'),
    occurrence_on: day('occurrence_on'),
    /** The next occurrence, once this one was closed. No foreign key: it can be deleted, and this one creates no other. */
    next_task_id: uuid('next_task_id'),
    ...integrationColumns(),
    attachment_count: integer('attachment_count').notNull().default(0),
    comment_count: integer('comment_count').notNull().default(0),
    /** The number of subtasks that are not in the trash, and of those that are open. A trigger counts what is deleted permanently. */
    subtask_count: integer('subtask_count').notNull().default(0),
    open_subtask_count: integer('open_subtask_count').notNull().default(0),
    /** The number of tasks that block this one, open or not, visible or not. Never shown. When one of them is deleted permanently, a trigger lowers it. */
    blocker_count: integer('blocker_count').notNull().default(0),
    version: integer('version').notNull().default(1),
    side_changes: sideChanges(),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    /** When it was moved to the trash; otherwise null. */
    deleted_at: instant('deleted_at'),
    /** The transaction of the last change. Maintained by a trigger. */
    changed_in: xid8('changed_in')
      .notNull()
      .default(sql`pg_current_xact_id()`),
  },
  (t) => [
    // GET /tasks and GET /users/{user_id}/tasks, sorted by created_at, updated_at or due date: with `all`, by owner, and by
    // assignee. Other orders sort the rows of these branches.
    ...branchIndexes(t, 'tasks', null),
    ...branchIndexes(t, 'tasks_owner', t.owner_id),
    ...branchIndexes(t, 'tasks_assignee', t.assignee_id),
    ...branchIndexes(t, 'tasks_project', t.project_id),
    // GET /tasks/changes, for the same branches.
    index('tasks_changes')
      .on(t.changed_in, t.id)
      .where(sql`${t.deleted_at} is null`),
    index('tasks_owner_changes')
      .on(t.owner_id, t.changed_in, t.id)
      .where(sql`${t.deleted_at} is null`),
    // Also serves the foreign key and the purge of an assignee's account, and therefore includes the trash.
    index('tasks_assignee_changes')
      .on(t.assignee_id, t.changed_in, t.id)
      .where(sql`${t.assignee_id} is not null`),
    // Also serves GET /trash and the foreign keys of projects and sections, and therefore includes the trash.
    index('tasks_project_changes')
      .on(t.project_id, t.deleted_at, t.changed_in, t.id)
      .where(sql`${t.project_id} is not null`),
    // The neighbours of a task that is moved.
    index('tasks_list_position')
      .on(
        listOfTask({ project_id: sql`${t.project_id}`, owner_id: sql`${t.owner_id}` }),
        t.position.desc(),
        t.id.desc(),
      )
      .where(sql`${t.deleted_at} is null`),
    // The subtasks of a task.
    index('tasks_parent')
      .on(t.parent_id, t.position.desc(), t.id.desc())
      .where(sql`${t.parent_id} is not null`),
    // `series_id`.
    index('tasks_series')
      .on(t.series_id)
      .where(sql`${t.series_id} is not null`),
    // `metadata.key = "value"` and `external_id`: among 100,000 tasks of one user, 10 to 16 and 7 ms instead of 35 to 49 and 25.
    // Tasks without them are in neither index.
    index('tasks_metadata')
      .using('gin', sql`${t.metadata} jsonb_path_ops`)
      .where(sql`${t.metadata} <> '{}'`),
    index('tasks_external')
      .on(t.external_id)
      .where(sql`${t.external_id} is not null`),
    // `q` and `filter`: words, and parts of titles.
    index('tasks_search').using('gin', t.search),
    // GET /trash with `all`, and the removal of old trash.
    index('tasks_trash')
      .on(t.deleted_at.desc(), t.id.desc())
      .where(sql`${t.deleted_at} is not null`),
    // GET /trash. Also serves the foreign key, quotas and the purge of an owner's account, and therefore includes all tasks.
    index('tasks_owner_trash').on(t.owner_id, t.deleted_at.desc(), t.id.desc()),
    check('tasks_status_known', sql`${t.status} in ('todo', 'in_progress', 'done', 'cancelled')`),
    check('tasks_priority_known', sql`${t.priority} in ('none', 'low', 'medium', 'high', 'urgent')`),
    check('tasks_not_own_parent', sql`${t.parent_id} <> ${t.id}`),
    check('tasks_section_of_project', sql`${t.section_id} is null or ${t.project_id} is not null`),
    foreignKey({ columns: [t.project_id, t.section_id], foreignColumns: [sections.project_id, sections.id] }),
    check('tasks_start_once', sql`${t.start_at} is null or ${t.start_on} is null`),
    check('tasks_due_once', sql`${t.due_at} is null or ${t.due_on} is null`),
    // Comparing a time with a day takes a time zone: see domain/tasks/fields.ts.
    check('tasks_due_not_before_start', sql`${t.due_at} >= ${t.start_at} and ${t.due_on} >= ${t.start_on}`),
    check('tasks_completed_when_done', sql`(${t.status} = 'done') = (${t.completed_at} is not null)`),
    check(
      'tasks_created_first',
      sql`${t.created_at} <= ${t.updated_at} and ${t.created_at} <= ${t.completed_at}`,
    ),
  ],
)

/**
 * The number of tasks that a user owns, those in the trash included. Writers count as their last statement; a trigger counts what is
 * deleted permanently. No row: none yet.
 */
export const taskCounts = pgTable('task_counts', {
  user_id: uuid('user_id')
    .primaryKey()
    .references(() => users.id, { onDelete: 'cascade' }),
  tasks: integer('tasks').notNull(),
})

export const tags = pgTable(
  'tags',
  {
    id: uuid('id').primaryKey(),
    name: text('name').notNull(),
    /** The name as uniqueness compares it: accents distinguish tags (`canonicalName`). */
    canonical_name: text('canonical_name').notNull(),
    /** The name as searches and orders compare it. A trigger maintains it. */
    name_folded: folded('name_folded').notNull().default(''),
    color: text('color'),
    owner_id: uuid('owner_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** Null for a personal tag of its owner. */
    project_id: uuid('project_id').references(() => projects.id, { onDelete: 'cascade' }),
    created_at: createdAt(),
    /** Set when the tag is deleted, which hides the row from every reader. A job removes it after its links. */
    deleted_at: instant('deleted_at'),
  },
  (t) => [
    index('tags_deleted')
      .on(t.id)
      .where(sql`${t.deleted_at} is not null`),
    uniqueIndex('tags_owner_name_unique')
      .on(t.owner_id, t.canonical_name)
      .where(sql`${t.deleted_at} is null and ${t.project_id} is null`),
    uniqueIndex('tags_project_name_unique')
      .on(t.project_id, t.canonical_name)
      .where(sql`${t.deleted_at} is null and ${t.project_id} is not null`),
    index('tags_project_newest').on(t.project_id, t.created_at.desc(), t.id.desc()),
    index('tags_newest').on(t.created_at.desc(), t.id.desc()),
    index('tags_owner_newest').on(t.owner_id, t.created_at.desc(), t.id.desc()),
  ],
)

export const taskTags = pgTable(
  'task_tags',
  {
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    tag_id: uuid('tag_id')
      .notNull()
      .references(() => tags.id, { onDelete: 'cascade' }),
  },
  (t) => [primaryKey({ columns: [t.task_id, t.tag_id] }), index('task_tags_tag').on(t.tag_id, t.task_id)],
)

/**
 * The number of tasks with a tag, per viewer (`task_viewers`); no row for zero. Commits write it (routines.sql). It has no foreign keys because the deletion of a user removes tags and tasks in any order.
 */
export const tagCounts = pgTable(
  'tag_counts',
  {
    tag_id: uuid('tag_id').notNull(),
    project_id: uuid('project_id'),
    user_id: uuid('user_id'),
    tasks: integer('tasks').notNull(),
    /** When the tag was created: the order of GET /tags. */
    created_at: instant('created_at').notNull(),
  },
  (t) => [
    unique('tag_counts_once').on(t.tag_id, t.project_id, t.user_id).nullsNotDistinct(),
    index('tag_counts_user_newest')
      .on(t.user_id, t.created_at.desc(), t.tag_id.desc())
      .where(sql`${t.user_id} is not null`),
    index('tag_counts_project_newest')
      .on(t.project_id, t.created_at.desc(), t.tag_id.desc())
      .where(sql`${t.user_id} is null and ${t.project_id} is not null`),
  ],
)

export const attachments = pgTable(
  'attachments',
  {
    id: uuid('id').primaryKey(),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    file_name: text('file_name').notNull(),
    /** Declared by the client. */
    content_type: text('content_type').notNull(),
    /** Detected from the first bytes; null if they match no known type. */
    detected_content_type: text('detected_content_type'),
    size: bigint('size', { mode: 'number' }).notNull(),
    sha256: text('sha256').notNull(),
    storage_key: text('storage_key').notNull(),
    uploaded_by: uuid('uploaded_by').references(() => users.id, { onDelete: 'set null' }),
    created_at: createdAt(),
  },
  (t) => [
    uniqueIndex('attachments_storage_key_unique').on(t.storage_key),
    index('attachments_task_newest').on(t.task_id, t.created_at.desc(), t.id.desc()),
    index('attachments_uploader').on(t.uploaded_by),
  ],
)

/** Comments on tasks. */
export const comments = pgTable(
  'comments',
  {
    id: uuid('id').primaryKey(),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    /** Null if the account was deleted, or an import knows of none. */
    author_id: uuid('author_id').references(() => users.id, { onDelete: 'set null' }),
    /** The name of an author without an account, from the file of an import. */
    author_name: text('author_name'),
    /** Markdown, as written. */
    body: text('body').notNull(),
    /** The mentioned users who could see the task when the body was written. */
    mentions: uuid('mentions')
      .array()
      .notNull()
      .default(sql`'{}'`),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    /** When the body was last changed. */
    edited_at: instant('edited_at'),
  },
  (t) => [
    index('comments_task_newest').on(t.task_id, t.created_at.desc(), t.id.desc()),
    index('comments_author').on(t.author_id),
  ],
)

/** Relations of tasks. Each is one row: `blocked_by` and `duplicated_by` are read from the other side. */
export const taskRelations = pgTable(
  'task_relations',
  {
    id: uuid('id').notNull(),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    kind: text('kind').notNull(),
    /** Of two tasks that relate to each other, the one with the greater id. */
    other_task_id: uuid('other_task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ columns: [t.task_id, t.kind, t.other_task_id] }),
    index('task_relations_other').on(t.other_task_id, t.kind, t.task_id),
    check('task_relations_kind_known', sql`${t.kind} in ('blocks', 'duplicates', 'relates_to')`),
    check('task_relations_of_two', sql`${t.task_id} <> ${t.other_task_id}`),
    check('task_relations_ordered', sql`${t.kind} <> 'relates_to' or ${t.task_id} < ${t.other_task_id}`),
  ],
)

/** Followers of tasks, and users who have unfollowed a task, so that nothing makes them follow it again. */
export const taskFollowers = pgTable(
  'task_followers',
  {
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    has_stopped: boolean('has_stopped').notNull().default(false),
    created_at: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.task_id, t.user_id] }), index('task_followers_user').on(t.user_id)],
)

/**
 * What was changed, and by whom. The transaction of a change writes a row for it; history, webhooks, event streams and
 * notifications read them. They are ordered by transaction, up to the horizon (horizon.ts), and then by `ordinal`. No foreign keys,
 * because events outlive the rows that they refer to. Deleting a task permanently erases the values in its events.
 */
export const events = pgTable(
  'events',
  {
    /** The transaction of the change, or the last one that had ended before it, if that has a higher id (`record_event`). */
    changed_in: xid8('changed_in')
      .notNull()
      .default(sql`pg_current_xact_id()`),
    ordinal: bigserial('ordinal', { mode: 'bigint' }).notNull(),
    /** A UUIDv7, generated by the database (`record_event`). */
    id: uuid('id').notNull(),
    type: text('type').notNull(),
    /** Null for the service itself. */
    actor_id: uuid('actor_id'),
    /** Null for events of the project itself or its members. */
    task_id: uuid('task_id'),
    /** The project of the task after the change. */
    project_id: uuid('project_id'),
    /** The owner and the assignee of the task after the change. */
    owner_id: uuid('owner_id'),
    assignee_id: uuid('assignee_id'),
    /** The comment, attachment, tag, other task, member or reminder. Null for the task or project itself. */
    resource_id: uuid('resource_id'),
    /** The only user who gets the event, on their own streams and webhooks. Null: whoever sees what it is about. */
    recipient_id: uuid('recipient_id'),
    /** The changed fields with their values before and after, in the format of the contract, but for the columns of an occurrence. */
    before: json('before').notNull(),
    after: json('after').notNull(),
    created_at: instant('created_at').notNull(),
  },
  (t) => [
    // Readers of events, in their order. Entries are added at the end.
    primaryKey({ columns: [t.changed_in, t.ordinal] }),
    // GET /tasks/{task_id}/events: those of the task, and of its project and members.
    index('events_task')
      .on(t.task_id, t.created_at.desc(), t.id.desc())
      .where(sql`${t.task_id} is not null`),
    index('events_project')
      .on(t.project_id, t.created_at.desc(), t.id.desc())
      .where(sql`${t.task_id} is null`),
    // GET /events: by project or owner of personal tasks, by assignee, and with `all`.
    index('events_list').on(
      listOfTask({ project_id: sql`${t.project_id}`, owner_id: sql`${t.owner_id}` }),
      t.created_at.desc(),
      t.id.desc(),
    ),
    index('events_assignee')
      .on(t.assignee_id, t.created_at.desc(), t.id.desc())
      .where(sql`${t.assignee_id} is not null`),
    // The condition is true for every event. It keeps the planner from searching all events for those of one project: it does so if
    // the statistics are older than most of the projects.
    index('events_newest')
      .on(t.created_at.desc(), t.id.desc())
      .where(isNotNil(sql`${t.id}`)),
  ],
)

/** The position of each background reader of events. */
export const eventReaders = pgTable('event_readers', {
  name: text('name').primaryKey(),
  changed_in: xid8('changed_in').notNull(),
  ordinal: bigint('ordinal', { mode: 'bigint' }).notNull(),
})

/** The inbox of users. */
export const notifications = pgTable(
  'notifications',
  {
    id: uuid('id').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    reason: text('reason').notNull(),
    event_id: uuid('event_id').notNull(),
    /** Null: the service itself. */
    actor_id: uuid('actor_id'),
    /** Null if it is about no task. */
    task_id: uuid('task_id').references(() => tasks.id, { onDelete: 'cascade' }),
    comment_id: uuid('comment_id').references(() => comments.id, { onDelete: 'cascade' }),
    export_id: uuid('export_id').references(() => exports.id, { onDelete: 'cascade' }),
    import_id: uuid('import_id').references(() => imports.id, { onDelete: 'cascade' }),
    /** No foreign key, because the notification outlives the reminder. */
    reminder_id: uuid('reminder_id'),
    created_at: createdAt(),
    read_at: instant('read_at'),
  },
  (t) => [
    uniqueIndex('notifications_event_once').on(t.user_id, t.event_id),
    index('notifications_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
    index('notifications_unread')
      .on(t.user_id, t.created_at.desc(), t.id.desc())
      .where(sql`${t.read_at} is null`),
    index('notifications_task').on(t.task_id),
    index('notifications_comment')
      .on(t.comment_id)
      .where(sql`${t.comment_id} is not null`),
    index('notifications_export')
      .on(t.export_id)
      .where(sql`${t.export_id} is not null`),
    index('notifications_import')
      .on(t.import_id)
      .where(sql`${t.import_id} is not null`),
    index('notifications_age').on(t.created_at),
    check(
      'notifications_reason_known',
      sql`${t.reason} in ('mention', 'assignment', 'comment', 'completion', 'reminder', 'reminder_limit', 'export', 'import')`,
    ),
    check('notifications_of_one', sql`num_nonnulls(${t.task_id}, ${t.export_id}, ${t.import_id}) = 1`),
  ],
)

/**
 * Notifications that are made when their task is restored: it was in the trash, or in a project in the trash, when its event was read.
 * They are deleted with the task.
 */
export const heldNotifications = pgTable(
  'held_notifications',
  {
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    reason: text('reason').notNull(),
    event_id: uuid('event_id').notNull(),
    actor_id: uuid('actor_id'),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    comment_id: uuid('comment_id').references(() => comments.id, { onDelete: 'cascade' }),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.event_id] }),
    index('held_notifications_task').on(t.task_id),
    index('held_notifications_comment')
      .on(t.comment_id)
      .where(sql`${t.comment_id} is not null`),
  ],
)

/** Reminders of users about tasks: at a time, or relative to a date of the task. */
export const reminders = pgTable(
  'reminders',
  {
    id: uuid('id').primaryKey(),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    at: instant('at'),
    relative_to: text('relative_to').$type<'due' | 'start'>(),
    offset_minutes: integer('offset_minutes'),
    /** In the time zone of the user, for an all-day date. */
    time_of_day: text('time_of_day'),
    snoozed_until: instant('snoozed_until'),
    /** What follows from all of these, the date of the task and the time zone; null if the task has no such date. */
    remind_at: instant('remind_at'),
    /** The same while the reminder is pending; null once it has fired, or was past when it was computed. */
    fires_at: instant('fires_at'),
    fired_at: instant('fired_at'),
    /** By how much the last firing was late. */
    late_seconds: integer('late_seconds'),
    /** Whether the last firing has still to be sent by email. */
    is_mail_due: boolean('is_mail_due').notNull().default(false),
    version: integer('version').notNull().default(1),
    side_changes: sideChanges(),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
  },
  (t) => [
    index('reminders_user').on(t.user_id, sql`${t.remind_at} desc nulls last`, t.id.desc()),
    index('reminders_task').on(t.task_id, t.user_id),
    index('reminders_due')
      .on(t.fires_at, t.id)
      .where(sql`${t.fires_at} is not null`),
    index('reminders_age')
      .on(t.remind_at)
      .where(sql`${t.fires_at} is null`),
    index('reminders_mail_due')
      .on(t.user_id, t.fired_at)
      .where(sql`${t.is_mail_due}`),
    check('reminders_kind', sql`(${t.at} is null) <> (${t.relative_to} is null)`),
    check(
      'reminders_offset_is_relative',
      sql`(${t.relative_to} is null) = (${t.offset_minutes} is null) and (${t.relative_to} is null) = (${t.time_of_day} is null)`,
    ),
    check('reminders_relative_to_known', sql`${t.relative_to} in ('due', 'start')`),
  ],
)

/** Exports: a file of everything that a user sees, or of a project, which a job makes. */
export const exports = pgTable(
  'exports',
  {
    id: uuid('id').primaryKey(),
    /** The user who has requested it, and who gets the file. */
    requested_by: uuid('requested_by')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The user whose view of the tasks it has. */
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** Null: everything that the user sees. */
    project_id: uuid('project_id').references(() => projects.id, { onDelete: 'cascade' }),
    status: text('status').notNull().default('waiting'),
    /** Records that were read and written. */
    done: integer('done').notNull().default(0),
    /** Null before all were read. */
    total: integer('total'),
    attempts: integer('attempts').notNull().default(0),
    /** How often a process has taken it or renewed its lease: how long it was worked on. */
    renewals: integer('renewals').notNull().default(0),
    lease_id: uuid('lease_id'),
    /** Until when a process works on it; of one that waits, until when it does. */
    leased_until: instant('leased_until'),
    /** Why it failed. */
    failure: text('failure'),
    /** Of the file that the last process to take it has begun to write. It has no other row before the export has finished. */
    writing_key: text('writing_key'),
    storage_key: text('storage_key'),
    size: bigint('size', { mode: 'number' }),
    sha256: text('sha256'),
    version: integer('version').notNull().default(1),
    side_changes: sideChanges(),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    finished_at: instant('finished_at'),
    /** When the file is deleted. */
    expires_at: instant('expires_at'),
  },
  (t) => [
    index('exports_requester_newest').on(t.requested_by, t.created_at.desc(), t.id.desc()),
    index('exports_user').on(t.user_id),
    index('exports_project')
      .on(t.project_id)
      .where(sql`${t.project_id} is not null`),
    uniqueIndex('exports_one_runs')
      .on(t.requested_by)
      .where(sql`${t.status} = 'running'`),
    index('exports_unfinished')
      .on(t.created_at)
      .where(sql`${t.status} in ('waiting', 'running')`),
    index('exports_expiry')
      .on(t.expires_at)
      .where(sql`${t.storage_key} is not null`),
    uniqueIndex('exports_storage_key_unique').on(t.storage_key),
    check(
      'exports_status_known',
      sql`${t.status} in ('waiting', 'running', 'finished', 'failed', 'cancelled', 'expired')`,
    ),
    check(
      'exports_file_whole',
      sql`(${t.storage_key} is null) = (${t.status} <> 'finished') and (${t.status} <> 'finished' or (${t.size} is not null and ${t.sha256} is not null))`,
    ),
  ],
)

/** Files that become tasks. */
export const imports = pgTable(
  'imports',
  {
    id: uuid('id').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    status: text('status').notNull().default('reading'),
    /** Why it failed. */
    failure: text('failure').$type<ImportFailure>(),
    file_name: text('file_name').notNull(),
    /** Null once the file was deleted. */
    storage_key: text('storage_key'),
    size: bigint('size', { mode: 'number' }).notNull(),
    sha256: text('sha256').notNull(),
    format: text('format'),
    /** How a CSV file is read, with its first rows; null for other formats. */
    csv: importTable('csv'),
    /** The project that all tasks go into, which can be gone; null for the projects of the file. */
    project_id: uuid('project_id'),
    /** What becomes of records that an earlier import has created. */
    existing: text('existing').$type<ImportExisting>().notNull().default('skip'),
    /** Who the users of the file are here. */
    users: importUsers('users')
      .notNull()
      .default(sql`'[]'`),
    /** Whose the comments of users of the file are here. Only an operator sets it. */
    authors: importUsers('authors')
      .notNull()
      .default(sql`'[]'`),
    /** What the file has; null before it was read. */
    preview: importPreview('preview'),
    /** What became of the rows; null before it has run. */
    result: importResult('result'),
    /** Rows that were read or written. */
    done: integer('done').notNull().default(0),
    /** Null before all were read. */
    total: integer('total'),
    attempts: integer('attempts').notNull().default(0),
    /** How often a process has taken it or renewed its lease: how long it was worked on. */
    renewals: integer('renewals').notNull().default(0),
    lease_id: uuid('lease_id'),
    /** Until when a process works on it; of one that waits, until when it does. */
    leased_until: instant('leased_until'),
    version: integer('version').notNull().default(1),
    side_changes: sideChanges(),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    finished_at: instant('finished_at'),
    /** When the file is deleted. */
    file_expires_at: instant('file_expires_at').notNull(),
    /** When it was deleted; otherwise null. A job removes it after its rows, which can be very many. */
    deleted_at: instant('deleted_at'),
  },
  (t) => [
    index('imports_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
    index('imports_unfinished')
      .on(t.updated_at)
      .where(sql`${t.status} in ('reading', 'running', 'undoing', 'discarding')`),
    index('imports_deleted')
      .on(t.id)
      .where(sql`${t.deleted_at} is not null`),
    index('imports_file_expiry')
      .on(t.file_expires_at)
      .where(sql`${t.storage_key} is not null`),
    uniqueIndex('imports_storage_key_unique').on(t.storage_key),
    check(
      'imports_status_known',
      sql`${t.status} in ('reading', 'ready', 'running', 'finished', 'failed', 'cancelled', 'undoing', 'undone', 'discarding')`,
    ),
  ],
)

/** What became of the rows of an import. */
export const importRows = pgTable(
  'import_rows',
  {
    id: uuid('id')
      .primaryKey()
      .default(sql`gen_random_uuid()`),
    import_id: uuid('import_id')
      .notNull()
      .references(() => imports.id, { onDelete: 'cascade' }),
    /** In the order in which the file is read, which is the same each time. */
    number: integer('number').notNull(),
    outcome: text('outcome').notNull(),
    type: text('type'),
    source_id: text('source_id'),
    part: text('part'),
    row: integer('row'),
    field: text('field'),
    code: text('code'),
    message: text('message'),
    resource_id: uuid('resource_id'),
  },
  (t) => [
    uniqueIndex('import_rows_number').on(t.import_id, t.number),
    index('import_rows_outcome').on(t.import_id, t.outcome, t.number),
  ],
)

/**
 * What a user's imports made of which records. It outlives the import, so that a record is not created twice, even if what it became was
 * deleted since.
 */
export const importRecords = pgTable(
  'import_records',
  {
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** Where ids are unique: the format, or a file. */
    source: text('source').notNull(),
    type: text('type').notNull(),
    source_id: text('source_id').notNull(),
    /** The id of what was made. It is taken before that exists if another record names it. */
    resource_id: uuid('resource_id').notNull(),
    is_made: boolean('is_made').notNull(),
    import_id: uuid('import_id').references(() => imports.id, { onDelete: 'set null' }),
    /** The new project that it is in, or is. */
    project_id: uuid('project_id'),
    /** Digests of what a task was last imported with; null for others. */
    fields: digests('fields'),
    /** The revision of a task, or the version of a project, as it was imported. */
    version: integer('version').notNull().default(1),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.source, t.type, t.source_id] }),
    index('import_records_import').on(t.import_id, t.type, t.resource_id),
  ],
)

/** Notification settings. A user without a row has the defaults. */
export const notificationSettings = pgTable(
  'notification_settings',
  {
    user_id: uuid('user_id')
      .primaryKey()
      .references(() => users.id, { onDelete: 'cascade' }),
    mail_digest: text('mail_digest').notNull(),
    /** Whether reminders are also sent by email. */
    mail_reminders: boolean('mail_reminders').notNull().default(false),
    /** When reminders were last sent by email. */
    reminders_mailed_at: instant('reminders_mailed_at'),
    /** When the next digest is due (`domain/activity/digests.ts`); null if digests are off. */
    digest_due_at: instant('digest_due_at'),
    /** Notifications up to this time are not in the next digest. */
    digested_until: instant('digested_until').notNull().default(now),
    version: integer('version').notNull(),
  },
  (t) => [
    index('notification_settings_due')
      .on(t.digest_due_at)
      .where(sql`${t.digest_due_at} is not null`),
    check('notification_settings_mail_digest_known', sql`${t.mail_digest} in ('off', 'hourly', 'daily')`),
    check(
      'notification_settings_due_unless_off',
      sql`(${t.mail_digest} = 'off') = (${t.digest_due_at} is null)`,
    ),
  ],
)

/**
 * Calendar feeds. A revoked one stays for some time, so that programs that ask for it are told; a job removes it then, if the purge of
 * its owner has not.
 */
export const feeds = pgTable(
  'feeds',
  {
    id: uuid('id').primaryKey(),
    owner_id: uuid('owner_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    name: text('name').notNull(),
    filter: text('filter').notNull(),
    kind: text('kind').$type<CalendarFeed['kind']>().notNull(),
    alarms: boolean('alarms').notNull(),
    color: text('color'),
    /** SHA-256 of the token in its URL. */
    hash: bytea('hash').notNull(),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    revoked_at: instant('revoked_at'),
  },
  (t) => [
    index('feeds_owner_newest').on(t.owner_id, t.created_at.desc(), t.id.desc()),
    index('feeds_revoked')
      .on(t.revoked_at)
      .where(sql`${t.revoked_at} is not null`),
    check('feeds_kind_known', sql`${t.kind} in ('todo', 'event')`),
  ],
)

/** Addresses that events are sent to (Standard Webhooks). */
export const webhooks = pgTable(
  'webhooks',
  {
    id: uuid('id').primaryKey(),
    /** Only events that this user may see are sent. */
    owner_id: uuid('owner_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** Null for all events that the owner may see. */
    project_id: uuid('project_id').references(() => projects.id, { onDelete: 'cascade' }),
    url: text('url').notNull(),
    description: text('description').notNull().default(''),
    /** Patterns such as `task.*`. */
    event_types: text('event_types').array().notNull(),
    /** Encrypted with a key that is not in the database. */
    secret: bytea('secret').notNull(),
    /** The secret before the last rotation, which also signs until `previous_secret_until`. */
    previous_secret: bytea('previous_secret'),
    previous_secret_until: instant('previous_secret_until'),
    is_enabled: boolean('is_enabled').notNull().default(true),
    /** The reason why the service disabled the webhook; otherwise null. */
    disabled_reason: text('disabled_reason'),
    /** The time since which all deliveries have failed; null after a success. */
    failing_since: instant('failing_since'),
    /** The number of the last delivery. */
    last_sequence: bigint('last_sequence', { mode: 'number' }).notNull().default(0),
    /** When the next attempt is due; null if no delivery is pending. */
    due_at: instant('due_at'),
    /** Where it waits for its turn (`domain/activity/webhook-queues.ts`). */
    queue: text('queue').notNull().default('unproven'),
    /** The lease of the process that is sending. */
    lease_id: uuid('lease_id'),
    leased_until: instant('leased_until'),
    version: integer('version').notNull().default(1),
    side_changes: sideChanges(),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().default(now),
    /** Set when the webhook is deleted, which hides the row from every reader. A job removes it after its deliveries. */
    deleted_at: instant('deleted_at'),
  },
  (t) => [
    // The list of a user: their own, and those of the projects that they manage.
    index('webhooks_owner_newest').on(t.owner_id, t.created_at.desc(), t.id.desc()),
    index('webhooks_project_newest')
      .on(t.project_id, t.created_at.desc(), t.id.desc())
      .where(sql`${t.project_id} is not null`),
    index('webhooks_newest').on(t.created_at.desc(), t.id.desc()),
    index('webhooks_due')
      .on(t.due_at)
      .where(sql`${t.due_at} is not null`),
    index('webhooks_deleted')
      .on(t.id)
      .where(sql`${t.deleted_at} is not null`),
    check('webhooks_queue_known', sql`${t.queue} in ('prompt', 'unproven', 'slow')`),
    check(
      'webhooks_previous_secret_ends',
      sql`(${t.previous_secret} is null) = (${t.previous_secret_until} is null)`,
    ),
  ],
)

/** Deliveries to webhooks: one for each event, and further ones on request. */
export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    id: uuid('id').primaryKey(),
    webhook_id: uuid('webhook_id')
      .notNull()
      .references(() => webhooks.id, { onDelete: 'cascade' }),
    /** The number of the delivery in the order of the webhook, for receivers. */
    sequence: bigint('sequence', { mode: 'number' }).notNull(),
    /** The id of the message: that of the event. Repeated deliveries have the same id. */
    event_id: uuid('event_id').notNull(),
    event_type: text('event_type').notNull(),
    /** The position of the event in the order of events. Null for a test. */
    event_changed_in: xid8('event_changed_in'),
    event_ordinal: bigint('event_ordinal', { mode: 'number' }),
    status: text('status').notNull().default('pending'),
    attempts: integer('attempts').notNull().default(0),
    /** When the next attempt is due. */
    due_at: instant('due_at').notNull().default(now),
    /** The results of the last attempt. */
    attempted_at: instant('attempted_at'),
    duration_ms: integer('duration_ms'),
    response_status: integer('response_status'),
    /** The first 8 KiB of the response. */
    response_body: text('response_body'),
    /** The reason for a missing response. */
    error: text('error'),
    created_at: createdAt(),
    ended_at: instant('ended_at'),
  },
  (t) => [
    index('webhook_deliveries_newest').on(t.webhook_id, t.created_at.desc(), t.id.desc()),
    uniqueIndex('webhook_deliveries_sequence').on(t.webhook_id, t.sequence),
    index('webhook_deliveries_due')
      .on(t.webhook_id, t.due_at, t.sequence)
      .where(sql`${t.status} = 'pending'`),
    index('webhook_deliveries_age').on(t.created_at),
    check(
      'webhook_deliveries_status_known',
      sql`${t.status} in ('pending', 'delivered', 'failed', 'withheld')`,
    ),
  ],
)

/** Resumable uploads. A row outlives the last chunk, so that a client that missed the response can ask for the outcome. */
export const uploads = pgTable(
  'uploads',
  {
    id: uuid('id').primaryKey(),
    /** The task that the file is attached to; null for a file to import. */
    task_id: uuid('task_id').references(() => tasks.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    file_name: text('file_name').notNull(),
    /** Null if the client declared none. */
    content_type: text('content_type'),
    /** The digest of the whole file that the client declared; otherwise null. */
    sha256: text('sha256'),
    /** The client's Upload-Metadata, unchanged. */
    upload_metadata: text('upload_metadata').notNull(),
    upload_length: bigint('upload_length', { mode: 'number' }).notNull(),
    /** Bytes stored durably. */
    upload_offset: bigint('upload_offset', { mode: 'number' }).notNull().default(0),
    storage_key: text('storage_key').notNull(),
    /** The lease of the request that is writing, which it renews in time. */
    lease_id: uuid('lease_id'),
    leased_until: instant('leased_until'),
    /** The attachment that the complete upload has become. */
    attachment_id: uuid('attachment_id').references(() => attachments.id, { onDelete: 'cascade' }),
    /** The version of the task with the attachment; null before. */
    task_version: integer('task_version'),
    /** The import that the complete upload has become. */
    import_id: uuid('import_id').references(() => imports.id, { onDelete: 'cascade' }),
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [
    uniqueIndex('uploads_storage_key_unique').on(t.storage_key),
    index('uploads_task').on(t.task_id),
    index('uploads_user').on(t.user_id),
    index('uploads_attachment').on(t.attachment_id),
    index('uploads_import').on(t.import_id),
    index('uploads_expiry').on(t.expires_at),
    check('uploads_offset_within_length', sql`${t.upload_offset} between 0 and ${t.upload_length}`),
    check(
      'uploads_outcome_of_kind',
      sql`case when ${t.task_id} is null then ${t.attachment_id} else ${t.import_id} end is null`,
    ),
  ],
)

/** Smaller copies of images, made on first request. Rows never change, and files can be made again. */
export const thumbnails = pgTable(
  'thumbnails',
  {
    attachment_id: uuid('attachment_id')
      .notNull()
      .references(() => attachments.id, { onDelete: 'cascade' }),
    /** The requested size; for a smaller image, its own size. */
    width: integer('width').notNull(),
    size: integer('size').notNull(),
    sha256: text('sha256').notNull(),
    storage_key: text('storage_key').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.attachment_id, t.width] }),
    uniqueIndex('thumbnails_storage_key_unique').on(t.storage_key),
  ],
)

/** The queue of files to delete. Triggers add the file of each deleted row of the tables with files. */
export const fileDeletions = pgTable(
  'file_deletions',
  {
    storage_key: text('storage_key').primaryKey(),
    /** Whether the file belonged to an upload and may be incomplete. */
    is_unfinished: boolean('is_unfinished').notNull().default(false),
    created_at: createdAt(),
    /** Postponed before each attempt to remove the file. Microseconds, because a time rounded up would not be due at once. */
    due_at: timestamp('due_at', { withTimezone: true }).notNull().defaultNow(),
  },
  (t) => [index('file_deletions_due').on(t.due_at)],
)

/**
 * Leases of exclusive jobs, and of backups that keep all files (db/files/holds.ts). Rows with an end, because an advisory lock needs a session
 * of its own, and poolers lend sessions.
 */
export const leases = pgTable('leases', {
  name: text('name').primaryKey(),
  holder: uuid('holder').notNull(),
  /** Renewed by a live holder. */
  expires_at: instant('expires_at').notNull(),
})

/** The time by which old rows are deleted (retention.ts). At most one row. */
export const retention = pgTable(
  'retention',
  {
    singleton: boolean('singleton').primaryKey().default(true),
    /** When the service last looked at the clock. */
    seen_at: instant('seen_at').notNull(),
    /** The time that has passed by the clock without the service seeing it, and that no operator has confirmed. Negative: set back. */
    unconfirmed: interval('unconfirmed').notNull(),
    /** When the service last looked at the clock before it skipped the unconfirmed time; null if there is none. */
    skipped_from: instant('skipped_from'),
    /** When the service noticed that the clock was set back; null once the times that it had set before are corrected. */
    set_back_at: instant('set_back_at'),
  },
  (t) => [check('retention_is_one', sql`${t.singleton}`)],
)

/** Viewers who no longer see a task (`task_viewers`). Maintained by triggers. No foreign keys, because rows outlive both. */
export const taskTombstones = pgTable(
  'task_tombstones',
  {
    task_id: uuid('task_id').notNull(),
    project_id: uuid('project_id'),
    user_id: uuid('user_id'),
    /** The transaction that ended their access to the task. */
    changed_in: xid8('changed_in').notNull(),
    /** When the task was first created in or moved to the project. Users who had left the project by then have not seen it there. */
    placed_at: instant('placed_at').notNull(),
    created_at: createdAt(),
  },
  (t) => [
    unique('task_tombstones_once').on(t.task_id, t.project_id, t.user_id).nullsNotDistinct(),
    index('task_tombstones_user_changes').on(t.user_id, t.changed_in, t.task_id),
    index('task_tombstones_project_changes')
      .on(t.project_id, t.changed_in, t.task_id)
      .where(sql`${t.user_id} is null`),
    index('task_tombstones_age').on(t.created_at),
  ],
)

/** State of the change feed as a whole. At most one row; none means the defaults. */
export const changeHistory = pgTable(
  'change_history',
  {
    singleton: boolean('singleton').primaryKey().default(true),
    /** A new number each time the history starts over, which invalidates all earlier cursors. */
    epoch: integer('epoch').notNull().default(1),
    /** The database that wrote the row (identity.ts). In a restored dump, this is the identity of another database. */
    origin: text('origin'),
    /** Tombstones up to this transaction have been pruned. */
    pruned_through: xid8('pruned_through').notNull().default('0'),
  },
  (t) => [check('change_history_is_one', sql`${t.singleton}`)],
)

/** Responses of creations with an Idempotency-Key, written in the same statement as the created row. */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    principal_id: uuid('principal_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    operation: text('operation').notNull(),
    key: text('key').notNull(),
    fingerprint: text('fingerprint').notNull(),
    resource_id: uuid('resource_id').notNull(),
    /** The body of the response, byte for byte. */
    body: text('body').notNull(),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ name: 'idempotency_keys_used_once', columns: [t.principal_id, t.operation, t.key] }),
    index('idempotency_keys_age').on(t.created_at),
  ],
)
