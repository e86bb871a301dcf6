/**
 * The queues in which webhooks with due deliveries wait, each with slots of its own. The last request decides about the queue of a
 * webhook: `prompt` after a success within `promptTime`, `slow` after a request that took longer, and otherwise `unproven`, as at first.
 * A request that takes longer moves its webhook to `slow` while it runs: after `promptTime`, it occupies no slot of either queue.
 */
const webhookQueues = ['prompt', 'unproven', 'slow'] as const

export type WebhookQueue = (typeof webhookQueues)[number]

/** A number for each queue. */
export type PerQueue = Readonly<Record<WebhookQueue, number>>

/** Milliseconds, with the time to connect. */
export const promptTime = 1_000

/** The queue of a webhook after a request that took `duration` milliseconds. */
export const queueAfter = (isDelivered: boolean, duration: number): WebhookQueue => {
  if (duration > promptTime) return 'slow'
  return isDelivered ? 'prompt' : 'unproven'
}

/** Whether a text from the database is a queue. */
export const isWebhookQueue = (text: string): text is WebhookQueue =>
  webhookQueues.some((queue) => queue === text)
