import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { created, revisionETag, shown } from '../contract/operation.ts'
import type { Created } from '../domain/shared/idempotency.ts'
import type { Paging } from '../http/paging.ts'
import {
  getWebhook,
  getWebhookDelivery,
  listWebhookDeliveries,
  listWebhooks,
  type Webhooks,
} from '../services/activity/webhooks.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly paging: Paging
  readonly webhooks: Webhooks
}

type Schemas = components['schemas']
type Webhook = Schemas['Webhook']

/** The operations of the contract's tag `webhooks`. */
export const webhookHandlers = ({ paging, webhooks }: Deps) =>
  ({
    async listWebhooks(ctx, { path, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listWebhooks(ctx, filter, request))
    },

    async createWebhook(ctx, { body }) {
      const { url, description = '', event_types: eventTypes, project_id = null, is_enabled } = body
      const fields = { url, description, eventTypes, projectId: project_id, isEnabled: is_enabled }
      const webhook = await webhooks.create(ctx, fields)
      return created<Schemas['WebhookWithSecret']>(`/webhooks/${webhook.id}`, webhook, revisionETag)
    },

    async getWebhook(ctx, { params }) {
      return shown<Webhook>((await getWebhook(ctx, params.webhook_id)).json, revisionETag)
    },

    async updateWebhook(ctx, { params, body }) {
      return shown<Webhook>((await webhooks.update(ctx, params.webhook_id, body)).json, revisionETag)
    },

    async deleteWebhook(ctx, { params }) {
      await webhooks.delete(ctx, params.webhook_id)
      return { status: 204 }
    },

    async rotateWebhookSecret(ctx, { params }) {
      const { json, replayed } = await webhooks.rotateSecret(ctx, params.webhook_id)
      return { ...shown<Schemas['WebhookWithSecret']>(json, revisionETag), replayed }
    },

    async testWebhook(ctx, { params }) {
      return deliveryCreated(params.webhook_id, await webhooks.test(ctx, params.webhook_id))
    },

    async listWebhookDeliveries(ctx, { path, params, query }) {
      const { filter, request, respond } = paging(path, ctx.principal, query)
      return respond(await listWebhookDeliveries(ctx, params.webhook_id, filter, request))
    },

    async getWebhookDelivery(ctx, { params }) {
      const { json } = await getWebhookDelivery(ctx, deliveryPathOf(params))
      return { status: 200, body: jsonText<Schemas['WebhookDelivery']>(json) }
    },

    async redeliverWebhook(ctx, { params }) {
      return deliveryCreated(params.webhook_id, await webhooks.redeliver(ctx, deliveryPathOf(params)))
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
