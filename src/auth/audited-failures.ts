import { LRUCache } from 'lru-cache'
import type { Client } from '../domain/activity/audit.ts'
import { networkOf } from '../domain/shared/network.ts'

/** Maximum number of failed sign-ins in the audit trail per network and hour. Causing them needs no account. */
const maxPerNetwork = 20
/** The same for all networks combined. */
const maxTotal = 1_000
const hour = 3_600_000

/** Maximum number of networks with a counter. The combined limit applies regardless. */
const maxNetworks = 10_000

/** Whether the audit trail records another failed sign-in of a client. */
export type ShouldAuditFailure = (client: Client) => boolean

/** Prevents outsiders from flooding the audit trail. Calls `onFull` once an hour per network, and with null for the total. */
export const limitAuditedFailures = (onFull: (network: string | null) => void): ShouldAuditFailure => {
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
    if (count > maxPerNetwork) {
      if (count === maxPerNetwork + 1) onFull(network)
      return false
    }
    all += 1
    if (all === maxTotal + 1) onFull(null)
    return all <= maxTotal
  }
}
