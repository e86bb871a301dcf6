import type { FastifyBaseLogger } from 'fastify'
import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '../db/engine/client.ts'
import { newId } from '../db/engine/ids.ts'
import {
  type Attempt,
  claimWebhooks,
  type DueDelivery,
  recordAttempts,
  releaseWebhook,
  selectNextDeliveries,
} from '../db/webhook-deliveries.ts'
import type { KeyRing } from '../domain/key-ring.ts'
import { delayAfter, maxDeliveryAge } from '../domain/webhook-retries.ts'
import type { Mailer } from '../mail/mailer.ts'
import { signaturesOf } from './secrets.ts'
import { type Connections, maxSendTime, openConnections, type Send, SendFailed } from './send.ts'

/** Number of webhooks that a process serves at a time. */
const slots = 16

/** Number of deliveries to a webhook before other webhooks get their turn. */
const turn = 100

/** Number of deliveries per selection, and of attempts per insertion. */
const batch = 20

/**
 * Milliseconds after which attempts are stored and deliveries are selected again. If the process is killed, requests of this
 * period are repeated. A selection also checks the owner's access, so this bounds the age of that check.
 */
const maxUnstored = 500

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

  /**
   * Sends due deliveries one after the other, until the first failure, which may disable the webhook. The first delivery is sent
   * even if its selection took longer than `maxUnstored`, so that a slow database delays deliveries but never stops them.
   */
  const sendSome = async (
    webhookId: string,
    connections: Connections,
    stop: AbortSignal,
  ): Promise<readonly Attempt[]> => {
    const end = performance.now() + maxUnstored
    const attempts: Attempt[] = []
    try {
      for (const delivery of await selectNextDeliveries(db, webhookId, lease, batch)) {
        if (stop.aborted || (attempts.length > 0 && performance.now() >= end)) break
        const outcome = await attempt(delivery, connections, stop)
        attempts.push({ ...outcome, deliveryId: delivery.id, endedAt: performance.now() })
        if (outcome.status === 'pending' || outcome.status === 'failed') break
      }
    } catch (error) {
      // Earlier attempts are stored first; the next call fails with the same error.
      if (attempts.length === 0) throw error
    }
    return attempts
  }

  const serve = async (webhookId: string, stop: AbortSignal): Promise<void> => {
    const connections = openConnections()
    try {
      for (let sent = 0; sent < turn && !stop.aborted;) {
        const attempts = await sendSome(webhookId, connections, stop)
        if (attempts.length === 0) break
        sent += attempts.length
        const disabled = await recordAttempts(db, webhookId, attempts, lease)
        if (disabled !== null) {
          log.info(
            { webhook: webhookId },
            'Webhook disabled: its receiver has failed for three days or is gone',
          )
          mailer.sendWebhookDisabled({ to: disabled.email, url: disabled.url })
        }
      }
    } finally {
      connections.close()
      await releaseWebhook(db, webhookId, lease)
    }
  }

  return async (stop) => {
    const running = new Set<Promise<void>>()
    const failures: unknown[] = []
    const start = (webhookId: string): void => {
      const serving = serve(webhookId, stop)
        .catch((error: unknown) => void failures.push(error))
        .finally(() => running.delete(serving))
      running.add(serving)
    }
    try {
      for (;;) {
        const claimed =
          stop.aborted || failures.length > 0 ? [] : await claimWebhooks(db, lease, slots - running.size)
        claimed.forEach(start)
        if (running.size === 0) break
        const isFull = running.size >= slots
        await Promise.race([...running, ...(isFull ? [] : [pause(interval, undefined, { ref: false })])])
      }
    } finally {
      await Promise.allSettled(running)
    }
    if (failures.length > 0 && !stop.aborted) throw failures[0]
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
