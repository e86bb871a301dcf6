import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, quoteETag } from '../contract/operation.ts'
import { selectDeliveries, selectDelivery } from '../db/webhook-deliveries.ts'
import { selectWebhook, selectWebhooks, type WebhookRow } from '../db/webhooks.ts'
import type { Created } from '../domain/idempotency.ts'
import type { Paging } from '../http/paging.ts'
import type { Jobs } from '../jobs/registry.ts'
import { expectDone, expectMayListAll } from '../problems/problems.ts'
import type { Webhooks } from '../services/webhooks.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly webhooks: Webhooks
  readonly jobs: Pick<Jobs, 'wake'>
}

type Schemas = components['schemas']

/** The operations of the contract's tag `webhooks`. */
export const webhookHandlers = ({ paging, webhooks, jobs }: Deps) =>
  ({
    async listWebhooks(ctx, { path, query }) {
      expectMayListAll(ctx.principal, query)
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await selectWebhooks(ctx, filter, request))
    },

    async createWebhook(ctx, { body }) {
      const { url, description = '', event_types: eventTypes, project_id = null, is_enabled } = body
      const fields = { url, description, eventTypes, projectId: project_id, isEnabled: is_enabled }
      const webhook = await webhooks.create(ctx, fields)
      const etag = quoteETag(webhook.version)
      return created<Schemas['CreatedWebhook']>(`/webhooks/${webhook.id}`, etag, webhook)
    },

    async getWebhook(ctx, { params }) {
      return webhookResponse(expectDone(await selectWebhook(ctx, params.webhook_id)))
    },

    async updateWebhook(ctx, { params, body }) {
      return webhookResponse(await webhooks.update(ctx, params.webhook_id, body))
    },

    async deleteWebhook(ctx, { params }) {
      await webhooks.delete(ctx, params.webhook_id)
      jobs.wake('purge_deleted_rows')
      return { status: 204 }
    },

    async rotateWebhookSecret(ctx, { params }) {
      const { json, version, replayed } = await webhooks.rotateSecret(ctx, params.webhook_id)
      return {
        status: 200,
        headers: { etag: quoteETag(version) },
        body: jsonText<Schemas['CreatedWebhook']>(json),
        replayed,
      }
    },

    async testWebhook(ctx, { params }) {
      const webhookId = params.webhook_id
      const delivery = await webhooks.test(ctx, webhookId)
      jobs.wake('send_webhooks')
      return deliveryCreated(webhookId, delivery)
    },

    async listWebhookDeliveries(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(expectDone(await selectDeliveries(ctx, params.webhook_id, filter, request)))
    },

    async getWebhookDelivery(ctx, { params }) {
      const { json } = expectDone(await selectDelivery(ctx, deliveryPathOf(params)))
      return { status: 200, body: jsonText<Schemas['WebhookDelivery']>(json) }
    },

    async redeliverWebhook(ctx, { params }) {
      const delivery = await webhooks.redeliver(ctx, deliveryPathOf(params))
      jobs.wake('send_webhooks')
      return deliveryCreated(params.webhook_id, delivery)
    },
  }) satisfies Partial<Handlers>

const deliveryPathOf = (params: { readonly webhook_id: string; readonly delivery_id: string }) => ({
  webhookId: params.webhook_id,
  id: params.delivery_id,
})

const deliveryCreated = (webhookId: string, { id, json, replayed }: Created) => ({
  status: 201 as const,
  headers: { location: `/webhooks/${webhookId}/deliveries/${id}` },
  body: jsonText<Schemas['WebhookDelivery']>(json),
  replayed,
})

const webhookResponse = ({ json, version }: WebhookRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(version) },
  body: jsonText<Schemas['Webhook']>(json),
})
