/** The retry schedule of webhook deliveries. Times are in milliseconds. */

const second = 1_000
const hour = 3_600 * second

/** How long after its creation a delivery is attempted, and how long a webhook may fail. The contract promises both. */
export const maxDeliveryAge = 72 * hour

const firstDelay = 30 * second
const maxDelay = 6 * hour

/**
 * The delay after the nth failed attempt: exponential backoff with full jitter, which spares a receiver that recovers. With
 * Retry-After a receiver can ask for a longer delay, up to `maxDelay`. `random` is in [0, 1).
 */
export const delayAfter = (
  attempts: number,
  retryAfter: string | null,
  { now, random }: { readonly now: number; readonly random: number },
): number => {
  const backoff = Math.min(maxDelay, firstDelay * 2 ** (attempts - 1))
  const jittered = Math.max(second, Math.round(backoff * random))
  return Math.min(maxDelay, Math.max(jittered, parseRetryAfter(retryAfter, now)))
}

/** Seconds or an HTTP date (RFC 9110 §10.2.3); 0 for anything else. */
const parseRetryAfter = (text: string | null, now: number): number => {
  if (text === null) return 0
  if (/^\d{1,9}$/.test(text)) return Number(text) * second
  const date = text.endsWith('GMT') ? Date.parse(text) : Number.NaN
  return Number.isNaN(date) ? 0 : Math.max(0, date - now)
}
