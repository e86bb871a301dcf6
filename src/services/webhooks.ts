import { open, seal } from '../auth/seal.ts'
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
   * @throws Problem 400 or 422 when nothing may be sent to the URL, 403, 413 or 422
   */
  create(
    ctx: OpContext<Principal>,
    fields: Omit<NewWebhook, 'secretFor' | 'seal'>,
  ): Promise<WebhookWithSecret>
  /** @throws Problem 400 or 422 when nothing may be sent to the URL, 404 or 412 */
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
  /** Seal secrets in the answers that are stored for a replay. */
  readonly answerKeys: KeyRing
  readonly addressRules: AddressRules
}

export const createWebhooks = ({ webhookKeys, answerKeys, addressRules }: Deps): Webhooks => {
  /** The URL in its canonical form. */
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
  const sealForAnswer = (secret: string, id: string): string =>
    seal(answerKeys, Buffer.from(secret), id).toString('base64url')
  const withSecret = (created: Created, secret: string): WebhookWithSecret => {
    const json = created.replayed
      ? unsealSecret(answerKeys, created)
      : `${created.json.slice(0, -1)},"secret":"${secret}"}`
    return { ...created, json, version: versionIn(json) }
  }

  return {
    async create(ctx, fields) {
      const { text, sealFor } = newSecret(webhookKeys)
      const created = await insertWebhook(ctx, {
        ...fields,
        url: expectUrl(fields.url),
        secretFor: sealFor,
        seal: (id) => sealForAnswer(text, id),
      })
      return withSecret(expectDone(created), text)
    },

    async update(ctx, id, { url, ...patch }) {
      const change = { ...patch, ...(url !== undefined && { url: expectUrl(url) }) }
      return expectDone(await updateWebhook(ctx, id, change))
    },

    async rotateSecret(ctx, id) {
      const { text, sealFor } = newSecret(webhookKeys)
      const rotation = { webhookId: id, secret: sealFor(id), sealedSecret: sealForAnswer(text, id) }
      return withSecret(expectDone(await rotateWebhookSecret(ctx, rotation)), text)
    },
  }
}

/** Characters of a URL. */
const maxUrl = 2_048

/** The JSON of a replay, with the secret in place of the sealed one. */
const unsealSecret = (answerKeys: KeyRing, { id, json }: Created): string =>
  json.replace(/"sealed_secret":"([\w-]*)"\}$/, (_, sealed: string) => {
    // The key that fingerprinted the request is known, and so is the one that sealed the secret.
    const opened = open(answerKeys, Buffer.from(sealed, 'base64url'), id)
    if (opened === null) throw new Error('No key opens the secret of a replayed creation')
    return `"secret":"${opened.plaintext.toString()}"}`
  })

const versionIn = (json: string): number => {
  const webhook: unknown = JSON.parse(json)
  if (typeof webhook === 'object' && webhook !== null && 'version' in webhook) return Number(webhook.version)
  throw new TypeError('A webhook has no version')
}
