// Only drizzle-kit reads this file.
// oxlint-disable no-restricted-imports
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  customType,
  type ExtraConfigColumn,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'

const xid8 = customType<{ data: string }>({ dataType: () => 'xid8' })
const tsvector = customType<{ data: string }>({ dataType: () => 'tsvector' })
const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3 })
const createdAt = () => instant('created_at').notNull().defaultNow()

export const users = pgTable(
  'users',
  {
    id: uuid('id').primaryKey(),
    username: text('username').notNull(),
    /** In canonical form, so that equality is byte equality on every database. */
    email: text('email').notNull(),
    display_name: text('display_name').notNull(),
    role: text('role').notNull(),
    password_hash: text('password_hash').notNull(),
    /** What the files that the user attached take together; kept by triggers on attachments. */
    attachment_bytes: bigint('attachment_bytes', { mode: 'number' }).notNull().default(0),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().defaultNow(),
    /** When the user was deleted. No reader sees the row from then on; it stays until what belongs to it is removed. */
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

/** One row at most: its insertion decides which of several first registrations becomes the administrator. */
export const installation = pgTable('installation', { singleton: boolean('singleton').primaryKey() }, (t) => [
  check('installation_is_one', sql`${t.singleton}`),
])

/** A live session; ending one deletes its row. */
export const sessions = pgTable(
  'sessions',
  {
    id: uuid('id').primaryKey(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    created_at: createdAt(),
    last_used_at: instant('last_used_at').notNull().defaultNow(),
    /** When it last proved a password or a second factor. A refresh does not move it. */
    authenticated_at: instant('authenticated_at').notNull().defaultNow(),
    expires_at: instant('expires_at').notNull(),
    /** Of the client that signed in or refreshed last. */
    user_agent: text('user_agent'),
    address: text('address'),
  },
  (t) => [
    index('sessions_user_newest').on(t.user_id, t.created_at.desc(), t.id.desc()),
    index('sessions_expiry').on(t.expires_at),
  ],
)

/** Spent tokens stay until they would have expired, so that showing one again is noticed. */
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

/** A token that a program signs in with; revoking one deletes its row. */
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

/** What proves a step of signing in, once and for a short time. Using one deletes its row. */
export const oneTimeTokens = pgTable(
  'one_time_tokens',
  {
    /** SHA-256 of the token. */
    hash: bytea('hash').primaryKey(),
    /**
     * `sign_in`: the password was right, the second factor is still to come. `reset_password`: sent by mail. `undo_email`:
     * sent to the address that a user has changed.
     */
    purpose: text('purpose').notNull(),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The address that `undo_email` restores. Nobody else can take it until then. */
    email: text('email'),
    created_at: createdAt(),
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [
    index('one_time_tokens_user').on(t.user_id, t.purpose),
    index('one_time_tokens_expiry').on(t.expires_at),
    index('one_time_tokens_email')
      .on(t.email)
      .where(sql`${t.email} is not null`),
    check('one_time_tokens_purpose_known', sql`${t.purpose} in ('sign_in', 'reset_password', 'undo_email')`),
    check('one_time_tokens_email_to_restore', sql`(${t.purpose} = 'undo_email') = (${t.email} is not null)`),
  ],
)

/** A user's TOTP secret (RFC 6238). It counts once it is confirmed. */
export const secondFactors = pgTable('second_factors', {
  user_id: uuid('user_id')
    .primaryKey()
    .references(() => users.id, { onDelete: 'cascade' }),
  /** Sealed with a key that the database does not have. */
  secret: bytea('secret').notNull(),
  created_at: createdAt(),
  confirmed_at: instant('confirmed_at'),
  /** The time step of the last code that was taken: a code works once. */
  last_step: bigint('last_step', { mode: 'number' }).notNull().default(0),
})

/** Recovery codes that are left; using one deletes its row. */
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

/** Failed attempts to prove who one is, by whom they are counted for; a success deletes the row. */
export const attempts = pgTable(
  'attempts',
  {
    /** A keyed hash: what was typed as an address may be a password. */
    key: bytea('key').primaryKey(),
    failures: integer('failures').notNull(),
    last_failed_at: instant('last_failed_at').notNull(),
    /** Until then nothing is tried. */
    delayed_until: instant('delayed_until').notNull(),
  },
  (t) => [index('attempts_age').on(t.last_failed_at)],
)

/** Who did what to whose access. References nothing, since it outlives what it tells of. */
export const auditEvents = pgTable(
  'audit_events',
  {
    id: uuid('id').primaryKey(),
    action: text('action').notNull(),
    /** Who did it, as far as that is proven. */
    actor_id: uuid('actor_id'),
    /** Whose access it is about. */
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

/** The indexes of an access branch, one for each indexed order. `relation` is null for administrators, who see everything. */
const branchIndexes = (
  t: Readonly<Record<'created_at' | 'updated_at' | 'due_at' | 'deleted_at' | 'id', ExtraConfigColumn>>,
  prefix: string,
  relation: ExtraConfigColumn | null,
) => {
  const isListed =
    relation === null
      ? sql`${t.deleted_at} is null`
      : sql`${t.deleted_at} is null and ${relation} is not null`
  const orders = { newest: t.created_at, updated: t.updated_at, due: t.due_at }
  return Object.entries(orders).map(([order, column]) =>
    relation === null
      ? index(`${prefix}_${order}`).on(column.desc(), t.id.desc()).where(isListed)
      : index(`${prefix}_${order}`).on(relation, column.desc(), t.id.desc()).where(isListed),
  )
}

/** A trigger moves `version` and `updated_at` with every change, whichever statement makes it. */
export const tasks = pgTable(
  'tasks',
  {
    id: uuid('id').primaryKey(),
    title: text('title').notNull(),
    /** The title without case and accents. A trigger maintains this column and the next two. */
    title_folded: text('title_folded').notNull().default(''),
    /** The beginning of the description, likewise: what searches and filters look at. */
    description_folded: text('description_folded').notNull().default(''),
    /** The words of both, and the pairs of adjacent characters of the title. */
    search: tsvector('search')
      .notNull()
      .default(sql`''`),
    description: text('description').notNull(),
    status: text('status').notNull(),
    priority: text('priority').notNull(),
    start_at: instant('start_at'),
    due_at: instant('due_at'),
    completed_at: instant('completed_at'),
    owner_id: uuid('owner_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    assignee_id: uuid('assignee_id').references(() => users.id, { onDelete: 'set null' }),
    /** Kept by a trigger on attachments. */
    attachment_count: integer('attachment_count').notNull().default(0),
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().defaultNow(),
    /** When it was moved to the trash; null when it is not there. */
    deleted_at: instant('deleted_at'),
    /** The transaction that changed it last. Kept by a trigger. */
    changed_in: xid8('changed_in')
      .notNull()
      .default(sql`pg_current_xact_id()`),
  },
  (t) => [
    // GET /tasks and GET /users/{user_id}/tasks, sorted by created_at, updated_at or due_at: with `all`, by owner, and by
    // assignee. Other orders sort what these find.
    ...branchIndexes(t, 'tasks', null),
    ...branchIndexes(t, 'tasks_owner', t.owner_id),
    ...branchIndexes(t, 'tasks_assignee', t.assignee_id),
    // GET /tasks/changes, for the same branches.
    index('tasks_changes')
      .on(t.changed_in, t.id)
      .where(sql`${t.deleted_at} is null`),
    index('tasks_owner_changes')
      .on(t.owner_id, t.changed_in, t.id)
      .where(sql`${t.deleted_at} is null`),
    // Also the foreign key, and the removal of an assignee's account: hence tasks in the trash too.
    index('tasks_assignee_changes')
      .on(t.assignee_id, t.changed_in, t.id)
      .where(sql`${t.assignee_id} is not null`),
    // `q` and `filter`: words, and parts of titles.
    index('tasks_search').using('gin', t.search),
    // GET /trash with `all`, and the removal of old trash.
    index('tasks_trash')
      .on(t.deleted_at.desc(), t.id.desc())
      .where(sql`${t.deleted_at} is not null`),
    // GET /trash. Also the foreign key, quotas, and the removal of an owner's account: hence tasks not in the trash too.
    index('tasks_owner_trash').on(t.owner_id, t.deleted_at.desc(), t.id.desc()),
    check('tasks_status_known', sql`${t.status} in ('todo', 'in_progress', 'done', 'cancelled')`),
    check('tasks_priority_known', sql`${t.priority} in ('none', 'low', 'medium', 'high', 'urgent')`),
    check('tasks_due_not_before_start', sql`${t.due_at} >= ${t.start_at}`),
    check('tasks_completed_when_done', sql`(${t.status} = 'done') = (${t.completed_at} is not null)`),
    check(
      'tasks_created_first',
      sql`${t.created_at} <= ${t.updated_at} and ${t.created_at} <= ${t.completed_at}`,
    ),
  ],
)

export const tags = pgTable(
  'tags',
  {
    id: uuid('id').primaryKey(),
    name: text('name').notNull(),
    /** The name as uniqueness and order compare it. */
    name_folded: text('name_folded').notNull(),
    color: text('color'),
    owner_id: uuid('owner_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    created_at: createdAt(),
    /** When the tag was deleted. No reader sees the row from then on; it stays until it is off every task. */
    deleted_at: instant('deleted_at'),
  },
  (t) => [
    index('tags_deleted')
      .on(t.id)
      .where(sql`${t.deleted_at} is not null`),
    uniqueIndex('tags_owner_name_unique')
      .on(t.owner_id, t.name_folded)
      .where(sql`${t.deleted_at} is null`),
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
 * How many of the tasks that a user sees carry a tag, if any do. Maintained by triggers on tasks, tags and task_tags;
 * references nothing, since the deletion of a user removes tags and tasks in any order.
 */
export const tagCounts = pgTable(
  'tag_counts',
  {
    tag_id: uuid('tag_id').notNull(),
    /** Null stands for the administrators, who see all tasks. */
    user_id: uuid('user_id'),
    tasks: integer('tasks').notNull(),
    /** When the tag was created: the order of GET /tags. */
    created_at: instant('created_at').notNull(),
  },
  (t) => [
    unique('tag_counts_once').on(t.user_id, t.tag_id).nullsNotDistinct(),
    index('tag_counts_newest').on(t.user_id, t.created_at.desc(), t.tag_id.desc()),
    index('tag_counts_tag').on(t.tag_id),
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
    /** As the client claimed it. */
    content_type: text('content_type').notNull(),
    /** As the first bytes look; null when they look like nothing that is known. */
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

/** A file that arrives in pieces. Its row outlives the last piece, so that a client that missed the answer learns of it. */
export const uploads = pgTable(
  'uploads',
  {
    id: uuid('id').primaryKey(),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    user_id: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    file_name: text('file_name').notNull(),
    content_type: text('content_type').notNull(),
    /** What the client expects of the whole file; null when it has not said. */
    sha256: text('sha256'),
    /** As the client sent it. */
    upload_metadata: text('upload_metadata').notNull(),
    upload_length: bigint('upload_length', { mode: 'number' }).notNull(),
    /** Bytes that are durable. */
    upload_offset: bigint('upload_offset', { mode: 'number' }).notNull().default(0),
    storage_key: text('storage_key').notNull(),
    /** The request that is writing, as long as it renews this in time. */
    lease_id: uuid('lease_id'),
    leased_until: instant('leased_until'),
    /** What it became. */
    attachment_id: uuid('attachment_id').references(() => attachments.id, { onDelete: 'cascade' }),
    /** The version that the task got by that; null until then. */
    task_version: integer('task_version'),
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [
    uniqueIndex('uploads_storage_key_unique').on(t.storage_key),
    index('uploads_task').on(t.task_id),
    index('uploads_user').on(t.user_id),
    index('uploads_attachment').on(t.attachment_id),
    index('uploads_expiry').on(t.expires_at),
    check('uploads_offset_within_length', sql`${t.upload_offset} between 0 and ${t.upload_length}`),
  ],
)

/** Smaller copies of images, made when they are first asked for. A row is never changed; its file can be made again. */
export const thumbnails = pgTable(
  'thumbnails',
  {
    attachment_id: uuid('attachment_id')
      .notNull()
      .references(() => attachments.id, { onDelete: 'cascade' }),
    /** What it was made for; that of a smaller image is its own. */
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

/** The outbox: files whose row is gone and whose bytes are to follow. Triggers on the tables that name files fill it. */
export const fileDeletions = pgTable(
  'file_deletions',
  {
    storage_key: text('storage_key').primaryKey(),
    /** Whether it was an upload's, and there may be but a part of it. */
    is_unfinished: boolean('is_unfinished').notNull().default(false),
    created_at: createdAt(),
    /** Whoever removes the file puts this off first. In microseconds: rounded up it would not be due at once. */
    due_at: timestamp('due_at', { withTimezone: true }).notNull().defaultNow(),
  },
  (t) => [index('file_deletions_due').on(t.due_at)],
)

/** Work that one instance does at a time. Rows, since advisory locks do not exclude on the embedded database. */
export const leases = pgTable('leases', {
  name: text('name').primaryKey(),
  holder: uuid('holder').notNull(),
  /** A holder that lives puts this off again and again; one that crashed does not. */
  expires_at: instant('expires_at').notNull(),
})

/** Tombstones: who saw a task and sees it no longer. Kept by a trigger on tasks; references nothing, since it outlives both. */
export const taskTombstones = pgTable(
  'task_tombstones',
  {
    task_id: uuid('task_id').notNull(),
    /** Null stands for the administrators. */
    user_id: uuid('user_id'),
    /** The transaction that took the task out of their sight. */
    changed_in: xid8('changed_in').notNull(),
    created_at: createdAt(),
  },
  (t) => [
    unique('task_tombstones_once').on(t.task_id, t.user_id).nullsNotDistinct(),
    index('task_tombstones_changes').on(t.user_id, t.changed_in, t.task_id),
    index('task_tombstones_age').on(t.created_at),
  ],
)

/** One row, or none as long as it is that of the defaults: what is true of the history of changes as a whole. */
export const changeHistory = pgTable(
  'change_history',
  {
    singleton: boolean('singleton').primaryKey().default(true),
    /** Another number when the history begins anew, and no cursor from before is good any more. */
    epoch: integer('epoch').notNull().default(1),
    /** The database that it was made in, see identity.ts; a dump brings along that of another one. */
    origin: text('origin'),
    /** Tombstones up to this transaction have been removed. */
    pruned_through: xid8('pruned_through').notNull().default('0'),
  },
  (t) => [check('change_history_is_one', sql`${t.singleton}`)],
)

/** What a creation answered, written in the same statement as what it created. */
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
    /** The answer's body, to the byte. */
    body: text('body').notNull(),
    created_at: createdAt(),
  },
  (t) => [
    primaryKey({ name: 'idempotency_keys_used_once', columns: [t.principal_id, t.operation, t.key] }),
    index('idempotency_keys_age').on(t.created_at),
  ],
)
