import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  listReader,
  type Principal,
  type Relation,
  relationsToOwned,
} from '../../domain/shared/permissions.ts'
import { allowsWebhook, webhookBranches } from '../access/permissions.ts'
import { countingStatement, untilNone } from '../statements/batches.ts'
import { builder, builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import { isOfProjects } from '../statements/conditions.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { type ManagedProject, projectLock } from '../projects/rows.ts'
import { countWebhooks, lockCounters } from '../shared/quotas.ts'
import { webhookJson } from '../shared/read-models.ts'
import { retentionTime } from '../shared/retention.ts'
import { aliasedTable, and, eq, isNotNull, isNull, or, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { memberships, projects, users, webhooks } from '../schema/tables.ts'

const item = aliasedTable(webhooks, 'item')

/** A webhook as JSON text. */
export interface WebhookRow {
  readonly json: string
}

const webhook = aliasedTable(webhooks, 'webhook')

const selectOne = query(
  'webhooks.select',
  { id: 'uuid' },
  { json: 'text' },
  (p) => sql`
    select ${webhookJson(webhook)} as json
    from webhooks webhook where ${webhook.id} = ${p.id} and ${allowsWebhook('webhook.see', p, webhook)}`,
)

/** One webhook, if the caller can see it. */
export const selectWebhook = async (ctx: StatementContext, id: string): Promise<WebhookRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** A webhook that the transaction has written. Its locks keep it visible. */
export const viewWebhook = async (tx: TransactionContext, id: string): Promise<WebhookRow> =>
  expectRow(await selectOne(tx, { id }))

const countOwned = builtStatement('webhooks.count_owned', { id: 'uuid' }, (db, p) =>
  db
    .select({ used: countWebhooks(p.id) })
    .from(users)
    .where(eq(users.id, p.id)),
)

/** The number of webhooks of the caller, whom it locks: of two concurrent creations, the second counts the webhook of the first. */
export const countOwnWebhooks = async ({ db, principal }: TransactionContext<Principal>): Promise<number> => {
  const id = principal.userId
  const { count } = await pipeline(db, {
    counters: () => lockCounters(db, { id }),
    count: () => countOwned(db, { id }),
  })
  const [row] = count
  return row?.used ?? 0
}

/** The fields of a new webhook. */
export interface NewWebhook {
  readonly url: string
  readonly description: string
  readonly eventTypes: readonly string[]
  readonly isEnabled: boolean
  /** Sealed. */
  readonly secret: Buffer
  /** The project whose events it sends; null for all events that its owner may see. */
  readonly project: ManagedProject | null
}

const insert = builtStatement(
  'webhooks.insert',
  {
    id: 'uuid',
    owner_id: 'uuid',
    project_id: 'uuid?',
    url: 'text',
    description: 'text',
    event_types: 'text[]',
    is_enabled: 'bool',
    secret: 'bytes',
  } satisfies ParametersOf<typeof webhooks>,
  (db, p) => db.insert(webhooks).values(p),
)

/** Inserts a webhook of the caller. */
export const insertWebhook = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  { eventTypes, isEnabled, project, ...fields }: NewWebhook,
): Promise<void> => {
  await insert(db, {
    ...fields,
    id,
    owner_id: principal.userId,
    project_id: project?.id ?? null,
    event_types: eventTypes,
    is_enabled: isEnabled,
  })
}

/** A merge patch: absent fields are not changed. */
export interface WebhookPatch {
  readonly url?: string
  readonly description?: string
  readonly event_types?: readonly string[]
  readonly is_enabled?: boolean
}

/** What a change of a webhook depends on. */
export interface WebhookFacts extends Required<WebhookPatch> {
  readonly id: string
  /** The number of its last delivery. */
  readonly last_sequence: number
  readonly version: number
  /** What the caller is to it. */
  readonly relations: readonly Relation[]
}

const lockProject = projectLock('webhooks.lock_project', webhooks)

const lock = rowLock('webhooks.lock', webhooks, 'no key update')

const selectFacts = builtStatement('webhooks.select_facts', { id: 'uuid', caller: 'uuid' }, (db, p) =>
  db
    .select({
      id: webhooks.id,
      owner_id: webhooks.owner_id,
      project_id: webhooks.project_id,
      url: webhooks.url,
      description: webhooks.description,
      event_types: webhooks.event_types,
      is_enabled: webhooks.is_enabled,
      last_sequence: webhooks.last_sequence,
      version: webhooks.version,
      role: memberships.role,
    })
    .from(webhooks)
    .innerJoin(users, eq(users.id, webhooks.owner_id))
    .leftJoin(projects, eq(projects.id, webhooks.project_id))
    .leftJoin(
      memberships,
      and(eq(memberships.project_id, webhooks.project_id), eq(memberships.user_id, p.caller)),
    )
    .where(
      and(
        eq(webhooks.id, p.id),
        isNull(webhooks.deleted_at),
        isNull(projects.deleted_at),
        or(isNotNull(webhooks.project_id), isNull(users.deleted_at)),
      ),
    ),
)

/**
 * Locks a webhook, and its project against being closed, and reads it under the locks, unless it is deleted: itself, or with its
 * project or owner.
 */
export const lockWebhook = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<WebhookFacts | null> => {
  const { rows } = await pipeline(db, {
    project: () => lockProject(db, { id }),
    lock: () => lock(db, { id }),
    rows: () => selectFacts(db, { id, caller: principal.userId }),
  })
  const [row] = rows
  if (row === undefined) return null
  const { owner_id, project_id, role, ...facts } = row
  return { ...facts, relations: relationsToOwned(principal, { owner_id, project_id }, role) }
}

/** A webhook that the caller was found to be allowed to change. */
export type ChangeableWebhook = Authorized<'webhook.change', WebhookFacts>

// A trigger sets the version, the revision and the time, because the sender and jobs change the representation as well.
const update = builtStatement(
  'webhooks.update',
  {
    id: 'uuid',
    url: 'text',
    description: 'text',
    event_types: 'text[]',
    is_enabled: 'bool',
    forgets_failures: 'bool',
  },
  (db, p) => {
    const unlessForgotten = (value: SQLWrapper) => sql`case when not ${p.forgets_failures} then ${value} end`
    return db
      .update(webhooks)
      .set({
        url: p.url,
        description: p.description,
        event_types: p.event_types,
        is_enabled: p.is_enabled,
        disabled_reason: unlessForgotten(webhooks.disabled_reason),
        failing_since: unlessForgotten(webhooks.failing_since),
      })
      .where(eq(webhooks.id, p.id))
  },
)

/** Changes fields of a webhook. Enabling it forgets why it was disabled. */
export const updateFields = async (
  { db }: TransactionContext,
  { id, ...present }: ChangeableWebhook,
  patch: WebhookPatch,
): Promise<void> => {
  const { url, description, event_types, is_enabled } = { ...present, ...patch }
  const forgets_failures = is_enabled && !present.is_enabled
  await update(db, { id, url, description, event_types, is_enabled, forgets_failures })
}

const markDeleted = builtStatement('webhooks.mark_deleted', { id: 'uuid' }, (db, p) =>
  db
    .update(webhooks)
    .set({ deleted_at: sql`now()`, due_at: null })
    .where(eq(webhooks.id, p.id)),
)

/** Hides a webhook from every reader. Its rows are removed later (`purge.ts`). */
export const hideWebhook = async ({ db }: TransactionContext, { id }: ChangeableWebhook): Promise<void> => {
  await markDeleted(db, { id })
}

/** How long the previous secret still signs after a rotation. The contract promises it. */
export const previousSecretLifetime = sql.raw(`interval '24 hours'`)

const rotate = builtStatement('webhooks.rotate', { id: 'uuid', secret: 'bytes' }, (db, p) =>
  db
    .update(webhooks)
    .set({
      secret: p.secret,
      previous_secret: sql`${webhooks.secret}`,
      previous_secret_until: sql`now() + ${previousSecretLifetime}`,
    })
    .where(eq(webhooks.id, p.id)),
)

/** Replaces the secret of a webhook by a sealed one. The previous one signs as well for a while. */
export const replaceSecret = async (
  { db }: TransactionContext,
  { id }: ChangeableWebhook,
  secret: Buffer,
): Promise<void> => {
  await rotate(db, { id, secret })
}

/** Filters of a list of webhooks. */
export interface WebhookFilter {
  /** Ids, or `none` for webhooks of no project. */
  readonly project_id?: readonly string[]
  /** All webhooks of the installation; administrators only. */
  readonly all?: boolean
}

/** A page of the caller's webhooks, and those of the projects that they manage. */
export const selectWebhooks = (
  { db, principal }: StatementContext<Principal>,
  filter: WebhookFilter,
  page: PageRequest,
): Promise<Page> => {
  const { project_id: projects } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'webhooks',
      table: webhooks,
      branches: (caller) => webhookBranches(reader.role, caller),
      filters: projects === undefined ? [] : [isOfProjects(item.project_id, projects)],
      ...newest,
      json: webhookJson,
    },
    reader,
    page,
  )
}

/** The sealed secrets of a webhook. */
export interface SealedSecrets {
  readonly id: string
  readonly secret: Buffer
  /** Empty if there is none. */
  readonly previousSecret: Buffer
}

const selectAfter = statement(
  'webhooks.select_secrets',
  { after: 'uuid', limit: 'int' },
  { id: 'text', secret: 'bytes', previous_secret: 'bytes' },
  (p) => sql`
    select ${webhook.id}::text, ${webhook.secret}, coalesce(${webhook.previous_secret}, '') as previous_secret
    from webhooks webhook where ${webhook.id} > ${p.after} order by ${webhook.id} limit ${p.limit}`,
)

/** Secrets in the order of their webhooks' ids, after one of them. */
export const selectWebhookSecrets = async (
  db: Database,
  page: { readonly after: string; readonly limit: number },
): Promise<readonly SealedSecrets[]> =>
  (await selectAfter(db, page)).map(({ id, secret, previous_secret: previousSecret }) => ({
    id,
    secret,
    previousSecret,
  }))

/** Stores the same secrets under other seals, unless they have been replaced. */
export const updateWebhookSeals = builtStatement(
  'webhooks.update_seals',
  { id: 'uuid', old_secret: 'bytes', new_secret: 'bytes', new_previous_secret: 'bytes' },
  (db, p) =>
    db
      .update(webhooks)
      .set({ secret: p.new_secret, previous_secret: sql`nullif(${p.new_previous_secret}, '')` })
      .where(and(eq(webhooks.id, p.id), eq(webhooks.secret, p.old_secret))),
)

const removePreviousSecrets = countingStatement('webhooks.remove_previous_secrets', {}, () =>
  builder
    .update(webhooks)
    .set({ previous_secret: sql`null`, previous_secret_until: sql`null` })
    .where(
      sql`${webhooks.id} in (
          select id from webhooks where ${webhooks.previous_secret_until} < ${retentionTime}
          limit 500 for update skip locked)`,
    )
    .returning({ id: webhooks.id }),
)

/** Removes replaced secrets once they no longer sign requests. */
export const removeExpiredSecrets = async (db: Database, stop: AbortSignal): Promise<void> => {
  await untilNone(() => removePreviousSecrets(db, {}), stop)
}
