import { LRUCache } from 'lru-cache'
import { background } from './work.ts'

/** Milliseconds over which the use of a caller is averaged. */
const period = 10_000

/** The share of that time that a caller may use: a fifth of a core, or of a session. */
const share = 0.2

/** Callers whose use is known. Of more callers, those who came last are. */
const maxCallers = 10_000

/** What callers have used of a resource lately, in time. */
export interface TimeBudget {
  /** Counts milliseconds that a caller has used. */
  readonly spend: (caller: string, milliseconds: number) => void
  /** Whether a caller has used more than their share. Background jobs never have. */
  readonly isOverBudget: (caller: string) => boolean
}

/** The use of a caller: `milliseconds` at the time `at`, which decay from then on. */
interface Use {
  readonly milliseconds: number
  readonly at: number
}

/** A budget for each caller. What was used counts less as time passes: a steady use of `x` amounts to `x * period`. */
export const timeBudget = (now: () => number = () => performance.now()): TimeBudget => {
  const uses = new LRUCache<string, Use>({ max: maxCallers })
  const usedBy = (caller: string): number => {
    const use = uses.get(caller)
    return use === undefined ? 0 : use.milliseconds * Math.exp((use.at - now()) / period)
  }
  return {
    spend(caller, milliseconds) {
      if (caller !== background) uses.set(caller, { milliseconds: usedBy(caller) + milliseconds, at: now() })
    },
    isOverBudget: (caller) => usedBy(caller) > share * period,
  }
}
