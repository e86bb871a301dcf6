import { LRUCache } from 'lru-cache'
import type { Client } from '../domain/audit.ts'
import { networkOf } from '../domain/network.ts'

/** Failed sign-ins, which anybody can cause, that the audit trail records per network and hour. */
const maxOfNetwork = 20
/** The same for all networks together. */
const maxOfAll = 1_000
const hour = 3_600_000

/** Networks that are counted at once. The limit for all of them holds regardless. */
const maxNetworks = 10_000

/** Whether the audit trail records another failed sign-in of a client. */
export type TakesFailure = (client: Client) => boolean

/** Keeps strangers from filling the audit trail. `onFull` is called once an hour per network, and for all of them (null). */
export const limitAuditedFailures = (onFull: (network: string | null) => void): TakesFailure => {
  const counts = new LRUCache<string, number>({ max: maxNetworks, ttl: hour, noUpdateTTL: true })
  let hourStart = performance.now()
  let all = 0
  return ({ address }) => {
    const now = performance.now()
    if (now - hourStart >= hour) {
      hourStart = now
      all = 0
    }
    const network = networkOf(address)
    const count = (counts.get(network) ?? 0) + 1
    counts.set(network, count)
    if (count > maxOfNetwork) {
      if (count === maxOfNetwork + 1) onFull(network)
      return false
    }
    all += 1
    if (all === maxOfAll + 1) onFull(null)
    return all <= maxOfAll
  }
}
