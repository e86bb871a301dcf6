import { jsonWithSecret, sealForReplay } from '../auth/replayed-secrets.ts'
import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/creation.ts'
import {
  insertWebhook,
  type NewWebhook,
  rotateWebhookSecret,
  updateWebhook,
  type WebhookPatch,
  type WebhookRow,
} from '../db/webhooks.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import type { Principal } from '../domain/permissions.ts'
import { expectDone, problems } from '../problems/problems.ts'
import type { AddressRules } from '../webhooks/addresses.ts'
import { newSecret } from '../webhooks/secrets.ts'

/** A webhook whose JSON has the member `secret`, and its version. */
export interface WebhookWithSecret extends Created {
  readonly version: number
}

export interface Webhooks {
  /**
   * Creates a webhook of the caller.
   *
   * @throws Problem 400 or 422 when the URL is not allowed, 403, 413 or 422
   */
  create(
    ctx: OpContext<Principal>,
    fields: Omit<NewWebhook, 'secretFor' | 'seal'>,
  ): Promise<WebhookWithSecret>
  /** @throws Problem 400 or 422 when the URL is not allowed, 404 or 412 */
  update(ctx: OpContext, id: string, patch: WebhookPatch): Promise<WebhookRow>
  /**
   * Replaces the secret of a webhook.
   *
   * @throws Problem 404 or 412
   */
  rotateSecret(ctx: OpContext, id: string): Promise<WebhookWithSecret>
}

interface Deps {
  /** Seal the secrets of webhooks. */
  readonly webhookKeys: KeyRing
  /** Seal the secrets in stored responses. */
  readonly replayKeys: KeyRing
  readonly addressRules: AddressRules
}

export const createWebhooks = ({ webhookKeys, replayKeys, addressRules }: Deps): Webhooks => {
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
  const withSecret = (created: Created, secret: string): WebhookWithSecret => {
    const json = jsonWithSecret(replayKeys, created, { name: 'secret', secret })
    return { ...created, json, version: versionIn(json) }
  }

  return {
    async create(ctx, fields) {
      const { text, sealFor } = newSecret(webhookKeys)
      const created = await insertWebhook(ctx, {
        ...fields,
        url: expectUrl(fields.url),
        secretFor: sealFor,
        seal: (id) => sealForReplay(replayKeys, text, id),
      })
      return withSecret(expectDone(created), text)
    },

    async update(ctx, id, { url, ...patch }) {
      const change = { ...patch, ...(url !== undefined && { url: expectUrl(url) }) }
      return expectDone(await updateWebhook(ctx, id, change))
    },

    async rotateSecret(ctx, id) {
      const { text, sealFor } = newSecret(webhookKeys)
      const rotation = {
        webhookId: id,
        secret: sealFor(id),
        sealedSecret: sealForReplay(replayKeys, text, id),
      }
      return withSecret(expectDone(await rotateWebhookSecret(ctx, rotation)), text)
    },
  }
}

/** Maximum number of characters of a URL. */
const maxUrl = 2_048

const versionIn = (json: string): number => {
  const webhook: unknown = JSON.parse(json)
  if (typeof webhook === 'object' && webhook !== null && 'version' in webhook) return Number(webhook.version)
  throw new TypeError('A webhook has no version')
}
