import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  customType,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'

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
    version: integer('version').notNull().default(1),
    created_at: createdAt(),
    updated_at: instant('updated_at').notNull().defaultNow(),
  },
  (t) => [
    uniqueIndex('users_username_unique').on(t.username),
    uniqueIndex('users_email_unique').on(t.email),
    index('users_newest').on(t.created_at.desc(), t.id.desc()),
    check('users_role_known', sql`${t.role} in ('member', 'admin')`),
  ],
)

/** One row at most: its insertion decides which of several first registrations becomes the administrator. */
export const installation = pgTable(
  'installation',
  { singleton: boolean('singleton').primaryKey(), created_at: createdAt() },
  (t) => [check('installation_is_one', sql`${t.singleton}`)],
)

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
    expires_at: instant('expires_at').notNull(),
  },
  (t) => [index('sessions_user').on(t.user_id), index('sessions_expiry').on(t.expires_at)],
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

/** A trigger moves `version` and `updated_at` with every change, whichever statement makes it. */
export const tasks = pgTable(
  'tasks',
  {
    id: uuid('id').primaryKey(),
    title: text('title').notNull(),
    /** The title as the search compares it. */
    title_folded: text('title_folded').notNull(),
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
  },
  (t) => [
    index('tasks_newest').on(t.created_at.desc(), t.id.desc()),
    index('tasks_owner_newest').on(t.owner_id, t.created_at.desc(), t.id.desc()),
    index('tasks_assignee_newest').on(t.assignee_id, t.created_at.desc(), t.id.desc()),
    check('tasks_status_known', sql`${t.status} in ('todo', 'in_progress', 'done', 'cancelled')`),
    check('tasks_priority_known', sql`${t.priority} in ('none', 'low', 'medium', 'high', 'urgent')`),
    check('tasks_due_not_before_start', sql`${t.due_at} >= ${t.start_at}`),
    check('tasks_completed_when_done', sql`(${t.status} = 'done') = (${t.completed_at} is not null)`),
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
  },
  (t) => [
    uniqueIndex('tags_owner_name_unique').on(t.owner_id, t.name_folded),
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
    created_at: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.task_id, t.tag_id] }), index('task_tags_tag').on(t.tag_id)],
)

export const attachments = pgTable(
  'attachments',
  {
    id: uuid('id').primaryKey(),
    task_id: uuid('task_id')
      .notNull()
      .references(() => tasks.id, { onDelete: 'cascade' }),
    file_name: text('file_name').notNull(),
    content_type: text('content_type').notNull(),
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

/** The outbox: files whose row is gone and whose bytes are to follow. A trigger on attachments fills it. */
export const fileDeletions = pgTable('file_deletions', {
  storage_key: text('storage_key').primaryKey(),
  created_at: createdAt(),
})

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
