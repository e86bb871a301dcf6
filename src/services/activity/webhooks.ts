import { jsonWithSealed, jsonWithSecret, sealForReplay } from '../../auth/replayed-secrets.ts'
import type { TransactionContext } from '../../db/statements/context.ts'
import { newId } from '../../db/shared/ids.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import { lockProject, type ManagedProject } from '../../db/projects/rows.ts'
import { maxWebhooks } from '../../db/shared/quotas.ts'
import {
  type DeliveryFilter,
  type DeliveryPath,
  insertDelivery,
  type Message,
  selectDeliveries,
  selectDelivery,
  selectMessage,
  testMessage,
  viewDelivery,
} from '../../db/activity/webhook-deliveries.ts'
import {
  type ChangeableWebhook,
  countOwnWebhooks,
  hideWebhook,
  insertWebhook,
  lockWebhook,
  type NewWebhook,
  replaceSecret,
  selectWebhook,
  selectWebhooks,
  updateFields,
  viewWebhook,
  type WebhookFilter,
  type WebhookPatch,
  type WebhookRow,
} from '../../db/activity/webhooks.ts'
import { fieldConflicts } from '../../domain/shared/field-conflicts.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { problems } from '../../problems/problems.ts'
import type { AddressRules } from '../../webhooks/addresses.ts'
import { newSecret } from '../../webhooks/signatures.ts'
import { type OpContext, transaction, type OpTransaction } from '../shared/context.ts'
import {
  expectFields,
  expectFound,
  expectKnown,
  expectMatch,
  expectMay,
  expectMayListAll,
  expectSeen,
} from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** The fields of a request to create a webhook. */
export interface WebhookRequest extends Omit<NewWebhook, 'secret' | 'project'> {
  readonly projectId: string | null
}

export interface Webhooks {
  /**
   * Creates a webhook of the caller.
   *
   * @throws Problem 400 or 422 when the URL is not allowed, 403, 413 or 422
   */
  create(ctx: OpContext<Principal>, request: WebhookRequest): Promise<Created>
  /** @throws Problem 400 or 422 when the URL is not allowed, 404 or 412 */
  update(
    ctx: OpContext<Principal>,
    id: string,
    patch: WebhookPatch & { readonly expect?: WebhookPatch },
  ): Promise<WebhookRow>
  /**
   * Replaces the secret of a webhook.
   *
   * @throws Problem 404 or 412
   */
  rotateSecret(ctx: OpContext<Principal>, id: string): Promise<Created>
  /** @throws Problem 404 or 412 */
  delete(ctx: OpContext<Principal>, id: string): Promise<void>
  /**
   * Adds a delivery of a test message.
   *
   * @throws Problem 404, or 409 when the webhook is disabled
   */
  test(ctx: OpContext<Principal>, webhookId: string): Promise<Created>
  /**
   * Adds a delivery of the message of another one.
   *
   * @throws Problem 404, or 409 when the webhook is disabled
   */
  redeliver(ctx: OpContext<Principal>, path: DeliveryPath): Promise<Created>
}

interface Deps {
  /** Seal the secrets of webhooks. */
  readonly webhookKeys: KeyRing
  /** Seal the secrets in stored responses. */
  readonly replayKeys: KeyRing
  readonly addressRules: AddressRules
  readonly jobs: Pick<Jobs, 'wake'>
}

export const createWebhooks = ({ webhookKeys, replayKeys, addressRules, jobs }: Deps): Webhooks => {
  /** Validates a URL and returns its canonical form. */
  const expectUrl = (text: string): string => {
    const url = URL.parse(text)
    if (url === null) throw problems.unusableUrl('must be a URL')
    if (url.username !== '' || url.password !== '')
      throw problems.unusableUrl('must not contain a user name or a password')
    if (text.includes('#')) throw problems.unusableUrl('must not have a fragment')
    if (url.href.length > maxUrl) throw problems.unusableUrl(`must have at most ${maxUrl} characters`)
    if (addressRules.refuses(url)) throw problems.urlNotAllowed()
    return url.href
  }

  /** Adds a delivery of a message to a webhook that is enabled, and sends it. */
  const deliver = async (
    tx: TransactionContext<Principal>,
    id: string,
    webhook: ChangeableWebhook,
    message: Message,
  ): Promise<{ readonly json: string }> => {
    if (!webhook.is_enabled) throw problems.webhookDisabled()
    const { view } = await pipeline(tx.db, {
      delivery: () => insertDelivery(tx, id, webhook, message),
      view: () => viewDelivery(tx, id),
    })
    tx.afterCommit(() => jobs.wake('send_webhooks'))
    return view
  }

  /** Runs `work`, which gives a new secret to the webhook with this id, once per Idempotency-Key. Its response shows the secret. */
  const withNewSecret = async (
    ctx: OpContext<Principal>,
    id: string,
    work: (tx: OpTransaction<Principal>, sealed: Buffer) => Promise<WebhookRow>,
  ): Promise<Created> => {
    const { text, sealFor } = newSecret(webhookKeys)
    const sealed = sealFor(id)
    const sealedForReplay = sealForReplay(replayKeys, text, id)
    const response = await idempotent(
      ctx,
      async (tx) => {
        const { json } = await work(tx, sealed)
        return { json, replay: jsonWithSealed(json, 'secret', sealedForReplay) }
      },
      id,
    )
    const json = jsonWithSecret(replayKeys, response, { name: 'secret', secret: text })
    return { ...response, json }
  }

  return {
    async create(ctx, { projectId, ...fields }) {
      const url = expectUrl(fields.url)
      const id = newId()
      return withNewSecret(ctx, id, async (tx, secret) => {
        const { used, project } = await pipeline(tx.db, {
          used: () => countOwnWebhooks(tx),
          project: () => (projectId === null ? null : manageNamed(tx, projectId)),
        })
        if (used >= maxWebhooks)
          throw problems.quotaExceeded({ resource: 'webhooks', quota: maxWebhooks, used, size: 1 })
        const { view } = await pipeline(tx.db, {
          webhook: () => insertWebhook(tx, id, { ...fields, url, secret, project }),
          view: () => viewWebhook(tx, id),
        })
        return view
      })
    },

    async update(ctx, id, { url, expect = {}, ...rest }) {
      const patch = { ...rest, ...(url !== undefined && { url: expectUrl(url) }) }
      const expected = {
        ...expect,
        ...(expect.url !== undefined && { url: URL.parse(expect.url)?.href ?? expect.url }),
      }
      return transaction(ctx, async (tx) => {
        const webhook = await openToChange(tx, id)
        expectFields(fieldConflicts<Required<WebhookPatch>>(expected, webhook))
        expectMatch(tx, webhook)
        await updateFields(tx, webhook, patch)
        return last(viewWebhook(tx, id))
      })
    },

    rotateSecret(ctx, id) {
      return withNewSecret(ctx, id, async (tx, secret) => {
        const webhook = await openToChange(tx, id)
        expectMatch(tx, webhook)
        const { view } = await pipeline(tx.db, {
          secret: () => replaceSecret(tx, webhook, secret),
          view: () => viewWebhook(tx, id),
        })
        return view
      })
    },

    delete: (ctx, id) =>
      transaction(ctx, async (tx) => {
        const webhook = await openToChange(tx, id)
        expectMatch(tx, webhook)
        await hideWebhook(tx, webhook)
        tx.afterCommit(() => jobs.wake('purge_deleted_rows'))
      }),

    test: (ctx, webhookId) =>
      idempotent(ctx, async (tx, id) => deliver(tx, id, await openToChange(tx, webhookId), testMessage(id))),

    redeliver: (ctx, path) =>
      idempotent(ctx, async (tx, id) => {
        const { webhook, message } = await pipeline(tx.db, {
          webhook: () => openToChange(tx, path.webhookId),
          message: () => selectMessage(tx, path),
        })
        if (message === null) throw problems.notFound()
        return deliver(tx, id, webhook, message)
      }),
  }
}

/** Maximum number of characters of a URL. */
const maxUrl = 2_048

/**
 * A project that the body names and the caller manages, locked.
 *
 * @throws Problem 422, 403
 */
const manageNamed = async (tx: TransactionContext<Principal>, id: string): Promise<ManagedProject> => {
  const project = await lockProject(tx, id, 'use')
  const known = expectKnown('project.see', project, { pointer: '/project_id', kind: 'project' })
  return expectMay('project.manage', known)
}

/**
 * A webhook that the caller may change, locked.
 *
 * @throws Problem 404, 403
 */
const openToChange = async (tx: TransactionContext<Principal>, id: string): Promise<ChangeableWebhook> =>
  expectMay('webhook.change', expectSeen('webhook.see', await lockWebhook(tx, id)))

/** A page of the caller's webhooks. @throws Problem 403 */
export const listWebhooks = async (
  ctx: OpContext<Principal>,
  filter: WebhookFilter,
  page: PageRequest,
): Promise<Page> => {
  expectMayListAll(ctx, filter)
  return selectWebhooks(ctx, filter, page)
}

/** @throws Problem 404 */
export const getWebhook = async (ctx: OpContext<Principal>, id: string): Promise<WebhookRow> =>
  expectFound(await selectWebhook(ctx, id))

/** A page of the deliveries of a webhook. @throws Problem 404 */
export const listWebhookDeliveries = async (
  ctx: OpContext<Principal>,
  webhookId: string,
  filter: DeliveryFilter,
  page: PageRequest,
): Promise<Page> => expectFound(await selectDeliveries(ctx, webhookId, filter, page))

/** @throws Problem 404 */
export const getWebhookDelivery = async (
  ctx: OpContext<Principal>,
  path: DeliveryPath,
): Promise<{ readonly json: string }> => expectFound(await selectDelivery(ctx, path))
