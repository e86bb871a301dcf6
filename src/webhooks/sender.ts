import type { FastifyBaseLogger } from 'fastify'
import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '../db/engine/client.ts'
import { DatabaseUnavailable, isOutage } from '../db/engine/errors.ts'
import { newId } from '../db/shared/ids.ts'
import {
  type Attempt,
  type Attempts,
  type ClaimedWebhook,
  claimWebhooks,
  type DueDelivery,
  moveToSlow,
  recordAttempts,
  releaseWebhook,
  selectNextDeliveries,
} from '../db/activity/webhook-deliveries.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import {
  type PerQueue,
  promptTime,
  queueAfter,
  type WebhookQueue,
} from '../domain/activity/webhook-queues.ts'
import { delayAfter, maxDeliveryAge } from '../domain/activity/webhook-retries.ts'
import type { Mailer } from '../mail/mailer.ts'
import { signaturesOf } from './signatures.ts'
import { type Connections, maxSendTime, openConnections, type Send, SendFailed } from './send.ts'

/**
 * Number of webhooks of each queue that a process serves at a time. A request of `prompt` or `unproven` that turns out to be slow
 * leaves its slot and takes no other, because nothing limits how many webhooks of one user do so: of 48 such requests per
 * `promptTime`, at most 480 run at a time.
 */
const slots: PerQueue = { prompt: 16, unproven: 32, slow: 32 }

/** Number of deliveries in a webhook's turn, which are selected and stored together. */
const turns: PerQueue = { prompt: 20, unproven: 1, slow: 1 }

/**
 * Milliseconds after which no further request of a turn is sent. If the process is killed, requests of this period are repeated. A
 * selection also checks the owner's access, so this bounds the age of that check.
 */
const turnTime = 500

/** Milliseconds between two checks for due deliveries while requests are running. */
const interval = 500

/** Milliseconds for which a process leases a webhook. */
export const webhookLease = maxSendTime * 3

export interface SenderDeps {
  readonly db: Database
  readonly log: FastifyBaseLogger
  readonly keys: KeyRing
  readonly mailer: Pick<Mailer, 'sendWebhookDisabled'>
  readonly send: Send
}

/** Sends all deliveries that are due. */
export type SendDue = (stop: AbortSignal) => Promise<void>

/** A slot of the queue that a webhook has been claimed from. */
interface Slot {
  readonly queue: WebhookQueue
  /** Makes room for another webhook, unless it has done so before. */
  readonly leave: () => void
}

/** Serves several webhooks concurrently, each with one delivery at a time. */
export const createSendDue = ({ db, log, keys, mailer, send }: SenderDeps): SendDue => {
  const lease = { id: newId(), duration: webhookLease }

  const attempt = async (
    delivery: DueDelivery,
    connections: Connections,
    stop: AbortSignal,
  ): Promise<Outcome> => {
    const { payload } = delivery
    if (payload === null) return withheld
    const timestamp = Math.floor(Date.now() / 1_000)
    const content = { id: delivery.eventId, timestamp, body: payload }
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Taskwright',
      'webhook-id': content.id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signaturesOf(keys, delivery.webhookId, delivery.secrets, content),
      'webhook-sequence': String(delivery.sequence),
    }
    const startedAt = performance.now()
    const duration = (): number => Math.round(performance.now() - startedAt)
    try {
      const { status, body, retryAfter } = await send(
        { url: delivery.url, headers, body: payload },
        stop,
        connections,
      )
      const response = { ...nothing, duration: duration(), responseStatus: status, responseBody: body }
      if (status >= 200 && status < 300) return { ...response, status: 'delivered' }
      if (status === 410) return { ...response, status: 'failed', isGone: true }
      return { ...response, ...retryOf(delivery, retryAfter) }
    } catch (error) {
      if (!(error instanceof SendFailed)) throw error
      return { ...nothing, duration: duration(), error: error.fault, ...retryOf(delivery, null) }
    }
  }

  /** Makes an attempt. If it takes long, the webhook leaves its slot in the meantime. */
  const attemptInSlot = async (
    delivery: DueDelivery,
    slot: Slot,
    connections: Connections,
    stop: AbortSignal,
  ): Promise<Outcome> => {
    if (slot.queue === 'slow') return attempt(delivery, connections, stop)
    let moving = Promise.resolve()
    const timer = setTimeout(() => {
      slot.leave()
      // The queue is stored again with the attempt.
      moving = moveToSlow(db, delivery.webhookId, lease).catch(() => undefined)
    }, promptTime)
    try {
      return await attempt(delivery, connections, stop)
    } finally {
      clearTimeout(timer)
      await moving
    }
  }

  /**
   * Sends due deliveries one after the other, until the first that fails, which may disable the webhook, or takes long. The first
   * delivery is sent even if its selection took longer than `turnTime`, so that a slow database delays deliveries but never stops
   * them.
   */
  const sendSome = async (
    webhookId: string,
    slot: Slot,
    connections: Connections,
    stop: AbortSignal,
  ): Promise<Attempts> => {
    const end = performance.now() + turnTime
    const attempts: Attempt[] = []
    let queue: WebhookQueue | null = null
    const due = await selectNextDeliveries(db, webhookId, lease, turns[slot.queue])
    try {
      for (const delivery of due) {
        if (stop.aborted || (attempts.length > 0 && performance.now() >= end)) break
        const outcome = await attemptInSlot(delivery, slot, connections, stop)
        attempts.push({ ...outcome, deliveryId: delivery.id, endedAt: performance.now() })
        if (outcome.status === 'withheld') continue
        queue = queueAfter(outcome.status === 'delivered', outcome.duration)
        if (queue !== 'prompt') break
      }
    } catch (error) {
      // Earlier attempts are stored first; the next turn fails with the same error.
      if (attempts.length === 0) throw error
    }
    return { webhookId, attempts, queue }
  }

  const takeTurn = async (
    webhookId: string,
    slot: Slot,
    connections: Connections,
    stop: AbortSignal,
  ): Promise<void> => {
    const sent = await sendSome(webhookId, slot, connections, stop)
    if (sent.attempts.length === 0) return
    const disabled = await recordAttempts(db, sent, lease)
    if (disabled === null) return
    log.info({ webhook: webhookId }, 'Webhook disabled: its receiver has failed for three days or is gone')
    mailer.sendWebhookDisabled({ to: disabled.email, url: disabled.url })
  }

  const serve = async (webhookId: string, slot: Slot, stop: AbortSignal): Promise<void> => {
    const connections = openConnections()
    try {
      await takeTurn(webhookId, slot, connections, stop)
    } catch (error) {
      // The webhook is then retried when its lease has expired: a cause that persists would otherwise keep the database busy.
      if (!stop.aborted && !(error instanceof DatabaseUnavailable)) throw error
    } finally {
      connections.close()
    }
    await releaseWebhook(db, webhookId, lease)
  }

  return async (stop) => {
    const running = new Set<Promise<void>>()
    const taken: Readonly<Record<WebhookQueue, Set<Slot>>> = {
      prompt: new Set(),
      unproven: new Set(),
      slow: new Set(),
    }
    let wake = (): void => undefined
    const start = ({ id, queue }: ClaimedWebhook): void => {
      const slot: Slot = {
        queue,
        leave() {
          taken[queue].delete(slot)
          wake()
        },
      }
      taken[queue].add(slot)
      const serving = serve(id, slot, stop)
        .catch((error: unknown) => {
          if (!isOutage(error))
            log.warn({ err: error, webhook: id }, 'A webhook could not be served and will be retried')
        })
        .finally(() => {
          running.delete(serving)
          slot.leave()
        })
      running.add(serving)
    }
    const claim = async (): Promise<void> => {
      const free = {
        prompt: slots.prompt - taken.prompt.size,
        unproven: slots.unproven - taken.unproven.size,
        slow: slots.slow - taken.slow.size,
      }
      const claimed = await claimWebhooks(db, lease, free)
      claimed.forEach(start)
    }
    try {
      for (;;) {
        const { promise: woken, resolve } = Promise.withResolvers<void>()
        wake = resolve
        // Slow requests must not keep others waiting after an outage: while any is running, the claim is repeated.
        if (!stop.aborted) await (running.size === 0 ? claim() : claim().catch(() => undefined))
        if (running.size === 0) break
        await Promise.race([woken, pause(interval, undefined, { ref: false })])
      }
    } finally {
      await Promise.allSettled(running)
    }
  }
}

type Outcome = Omit<Attempt, 'deliveryId' | 'endedAt'>

const nothing = { retryIn: 0, responseStatus: null, responseBody: null, error: null, isGone: false }

const withheld: Outcome = { ...nothing, status: 'withheld', duration: 0 }

const retryOf = (
  { attempts, age }: DueDelivery,
  retryAfter: string | null,
): Pick<Outcome, 'status' | 'retryIn'> => {
  const retryIn = delayAfter(attempts + 1, retryAfter, { now: Date.now(), random: Math.random() })
  return age + retryIn > maxDeliveryAge ? { status: 'failed', retryIn: 0 } : { status: 'pending', retryIn }
}
