import { found, type Outcome } from '../domain/outcome.ts'
import { listReader, type Principal } from '../domain/permissions.ts'
import { allowsProject, allowsWebhook, webhookBranches } from './access/permissions.ts'
import { countingStatement, untilNone } from './engine/batches.ts'
import type { Database } from './engine/client.ts'
import { isOfProjects } from './engine/conditions.ts'
import type { ContextPlaceholders, OpContext } from './engine/context.ts'
import { type Created, creation, readCreation, withSealed } from './engine/creation.ts'
import { checkedOutcome, readChangedRow, readOutcome } from './engine/outcome.ts'
import { query, statement } from './engine/statement.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { isOwnedWebhook, maxWebhooks } from './quotas.ts'
import { webhookJson } from './read-models.ts'
import { retentionTime } from './engine/retention.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** A webhook as JSON text, and its version. */
export interface WebhookRow {
  readonly json: string
  readonly version: number
}

const webhook = sql.raw('webhook')
const target = sql.raw('target')
const project = sql.raw('project')

const selectOne = query(
  'webhooks.select',
  { id: 'uuid' },
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${webhookJson(webhook)} as json, version
    from webhooks webhook where id = ${p.id} and ${allowsWebhook('webhook.see', p, webhook)}`,
)

/** One webhook, if the caller can see it. */
export const selectWebhook = async (ctx: OpContext, id: string): Promise<Outcome<WebhookRow>> => {
  const [row] = await selectOne(ctx, { id })
  return found(row)
}

/** The fields of a new webhook. */
export interface NewWebhook {
  readonly url: string
  readonly description: string
  readonly eventTypes: readonly string[]
  readonly projectId: string | null
  readonly isEnabled: boolean
  /** The sealed secret of the webhook with this id. */
  readonly secretFor: (id: string) => Buffer
  /** Seals the secret for the response, so that the creation can be replayed. */
  readonly seal: (id: string) => string
}

const insert = creation(
  'webhooks.insert',
  {
    url: 'text',
    description: 'text',
    event_types: 'text[]',
    project_id: 'uuid?',
    is_enabled: 'bool',
    secret: 'bytes',
    sealed_secret: 'text',
    quota: 'int',
  },
  { outcome: 'text', used: 'int', json: 'text?' },
  (p) => {
    const { columns, values } = insertion<'webhooks'>({
      id: p.id,
      owner_id: p.caller,
      project_id: p.project_id,
      url: p.url,
      description: p.description,
      event_types: p.event_types,
      is_enabled: p.is_enabled,
      secret: p.secret,
    })
    return {
      parts: sql`
        project as (
          select ${allowsProject('project.manage', p, project)} as may_manage from projects project
          where ${columnsOf<'projects'>(project).id} = ${p.project_id} and ${allowsProject('project.see', p, project)}
        ), checked as (
          select case
            when ${p.project_id} is not null and not exists (select from project) then 'unknown_project'
            when not (select may_manage from project) then 'forbidden'
            when used >= ${p.quota} then 'quota_exceeded' else 'done' end as outcome, used
          from (select count(*)::int as used from webhooks owned where ${isOwnedWebhook(p.caller)}) counted
        ), webhook as (
          insert into webhooks (${columns}) select ${values} from checked where outcome = 'done' returning *
        ), created as (
          select id, ${withSealed(webhookJson(webhook), 'secret', p.sealed_secret)} as json from webhook
        )`,
      select: sql`select outcome, used, ${webhookJson(webhook)} as json from checked left join webhook on true`,
    }
  },
)

/** Creates a webhook of the caller. The JSON of a replay has the member `sealed_secret`. */
export const insertWebhook = async (
  ctx: OpContext<Principal>,
  { eventTypes, projectId, isEnabled, secretFor, seal, ...fields }: NewWebhook,
): Promise<Outcome<Created>> => {
  const result = await insert(ctx, (id) => ({
    ...fields,
    event_types: eventTypes,
    project_id: projectId,
    is_enabled: isEnabled,
    secret: secretFor(id),
    sealed_secret: seal(id),
    quota: maxWebhooks,
  }))
  return readCreation(result, (row) => {
    if (row?.outcome === 'unknown_project')
      return { outcome: 'unknown_reference', pointer: '/project_id', kind: 'project' }
    if (row?.outcome === 'quota_exceeded')
      return { outcome: 'quota_exceeded', resource: 'webhooks', quota: maxWebhooks, used: row.used, size: 1 }
    return readOutcome(row)
  })
}

/** A merge patch: absent fields are not changed. */
export interface WebhookPatch {
  readonly url?: string
  readonly description?: string
  readonly event_types?: readonly string[]
  readonly is_enabled?: boolean
}

/** The webhook with an id, locked, as `target`; its id and the outcome of the checks on a change of it, as `checked`. */
const checkedWebhook = (p: ContextPlaceholders, id: SQL): SQL => sql`
    target as (
      select * from webhooks webhook
      where ${columnsOf<'webhooks'>(webhook).id} = ${id} and ${allowsWebhook('webhook.see', p, webhook)} for no key update
    ), checked as (
      select id, ${checkedOutcome(p, {
        allowed: allowsWebhook('webhook.change', p, target),
        etag: sql`${columnsOf<'webhooks'>(target).version}::text`,
      })} as outcome from target
    )`

const changedColumns = { outcome: 'text', json: 'text?', version: 'int?' } as const

const update = query('webhooks.update', { id: 'uuid', patch: 'json' }, changedColumns, (p) => {
  const present = columnsOf<'webhooks'>(webhook)
  const patched = (field: 'url' | 'description'): SQL =>
    sql`coalesce(${p.patch} ->> ${sql.raw(`'${field}'`)}, ${present[field]})`
  const enabled = sql`(${p.patch} ->> 'is_enabled')::boolean`
  const unlessEnabled = (value: SQL): SQL =>
    sql`case when ${enabled} and not ${present.is_enabled} then null else ${value} end`
  const values = assignments<'webhooks'>({
    url: patched('url'),
    description: patched('description'),
    event_types: sql`case when ${p.patch} ? 'event_types'
      then array(select jsonb_array_elements_text(${p.patch} -> 'event_types')) else ${present.event_types} end`,
    is_enabled: sql`coalesce(${enabled}, ${present.is_enabled})`,
    disabled_reason: unlessEnabled(present.disabled_reason),
    failing_since: unlessEnabled(present.failing_since),
  })
  return sql`
    with ${checkedWebhook(p, p.id)}, changed as (
      update webhooks webhook set ${values} from checked
      where webhook.id = checked.id and checked.outcome = 'done' returning webhook.*
    )
    select outcome, ${webhookJson(sql`changed`)} as json, changed.version from checked left join changed on true`
})

/** Changes a webhook. */
export const updateWebhook = async (
  ctx: OpContext,
  id: string,
  patch: WebhookPatch,
): Promise<Outcome<WebhookRow>> => {
  const [row] = await update(ctx, { id, patch })
  return readChangedRow(readOutcome(row))
}

const remove = query(
  'webhooks.delete',
  { id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    with ${checkedWebhook(p, p.id)}, deleted as (
      update webhooks webhook set ${assignments<'webhooks'>({ deleted_at: sql`now()`, due_at: sql`null` })} from checked
      where webhook.id = checked.id and checked.outcome = 'done'
    )
    select outcome from checked`,
)

/** Deletes a webhook. Its deliveries are removed later (`purge.ts`). */
export const deleteWebhook = async (ctx: OpContext, id: string): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id })
  return readOutcome(row)
}

/** How long the previous secret still signs after a rotation. The contract promises it. */
export const previousSecretLifetime = sql.raw(`interval '24 hours'`)

const rotate = creation(
  'webhooks.rotate',
  { webhook_id: 'uuid', secret: 'bytes', sealed_secret: 'text' },
  changedColumns,
  (p) => {
    const values = assignments<'webhooks'>({
      secret: p.secret,
      previous_secret: columnsOf<'webhooks'>(webhook).secret,
      previous_secret_until: sql`now() + ${previousSecretLifetime}`,
    })
    return {
      parts: sql`
        ${checkedWebhook(p, p.webhook_id)}, webhook as (
          update webhooks webhook set ${values} from checked
          where webhook.id = checked.id and checked.outcome = 'done' returning webhook.*
        ), created as (
          select id, ${withSealed(webhookJson(webhook), 'secret', p.sealed_secret)} as json from webhook
        )`,
      select: sql`
        select outcome, ${webhookJson(webhook)} as json, webhook.version from checked left join webhook on true`,
    }
  },
)

/** A new secret of a webhook: sealed, and sealed for the response. */
export interface Rotation {
  readonly webhookId: string
  readonly secret: Buffer
  readonly sealedSecret: string
}

/** Replaces the secret of a webhook. The JSON of a replay has the member `sealed_secret`. */
export const rotateWebhookSecret = async (
  ctx: OpContext,
  { webhookId, secret, sealedSecret }: Rotation,
): Promise<Outcome<Created>> => {
  const result = await rotate(ctx, () => ({ webhook_id: webhookId, secret, sealed_secret: sealedSecret }))
  return readCreation({ ...result, id: webhookId }, readOutcome)
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
  { db, principal }: OpContext<Principal>,
  filter: WebhookFilter,
  page: PageRequest,
): Promise<Page> => {
  const { project_id: projects } = filter
  const reader = listReader(principal, filter)
  return selectPage(
    db,
    {
      name: 'webhooks',
      from: sql`webhooks item`,
      branches: (caller) => webhookBranches(reader.role, caller),
      filters:
        projects === undefined ? [] : [isOfProjects(columnsOf<'webhooks'>(sql`item`).project_id, projects)],
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => webhookJson(row),
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
  (p) => {
    const { id, secret, previous_secret } = columnsOf<'webhooks'>(webhook)
    return sql`
      select ${id}::text, ${secret}, coalesce(${previous_secret}, '') as previous_secret
      from webhooks webhook where ${id} > ${p.after} order by ${id} limit ${p.limit}`
  },
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
export const updateWebhookSeals = statement(
  'webhooks.update_seals',
  { id: 'uuid', old_secret: 'bytes', new_secret: 'bytes', new_previous_secret: 'bytes' },
  {},
  (p) => sql`
    update webhooks set ${assignments<'webhooks'>({
      secret: p.new_secret,
      previous_secret: sql`nullif(${p.new_previous_secret}, '')`,
    })} where id = ${p.id} and secret = ${p.old_secret}`,
)

const removePreviousSecrets = countingStatement(
  'webhooks.remove_previous_secrets',
  {},
  () => sql`
    update webhooks set ${assignments<'webhooks'>({
      previous_secret: sql`null`,
      previous_secret_until: sql`null`,
    })}
    where id in (
      select id from webhooks where ${columnsOf<'webhooks'>(sql`webhooks`).previous_secret_until} < ${retentionTime}
      limit 500 for update skip locked) returning 1`,
)

/** Removes replaced secrets once they no longer sign requests. */
export const removeExpiredSecrets = async (db: Database, stop: AbortSignal): Promise<void> => {
  await untilNone(() => removePreviousSecrets(db, {}), stop)
}
