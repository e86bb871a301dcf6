import { LRUCache } from 'lru-cache'
import { background } from './work.ts'

/** Milliseconds over which the use of a caller is averaged. */
const period = 10_000

/** The share of that time that a caller may use: a fifth of a core, or of a session. */
const share = 0.2

/** Milliseconds of use by others that are too few to make room for: looking up sessions, and health checks. */
const negligible = 20

/** Callers whose use is known. Of more callers, those who came last are. */
const maxCallers = 10_000

/** What callers have used of a resource lately, in time. */
export interface TimeBudget {
  /** Counts milliseconds that a caller has used. */
  readonly spend: (caller: string, milliseconds: number) => void
  /** Whether a caller has used more than their share, and others use the resource too. Background jobs never have. */
  readonly isOverBudget: (caller: string) => boolean
}

/** A use of `milliseconds` at the time `at`, which decays from then on. */
interface Use {
  readonly milliseconds: number
  readonly at: number
}

/** A budget for each caller. What was used counts less as time passes: a steady use of `x` amounts to `x * period`. */
export const timeBudget = (now: () => number = () => performance.now()): TimeBudget => {
  const unused: Use = { milliseconds: 0, at: 0 }
  const uses = new LRUCache<string, Use>({ max: maxCallers })
  let total = unused
  const left = ({ milliseconds, at }: Use): number => milliseconds * Math.exp((at - now()) / period)
  const usedBy = (caller: string): number => left(uses.get(caller) ?? unused)
  return {
    spend(caller, milliseconds) {
      if (caller === background) return
      uses.set(caller, { milliseconds: usedBy(caller) + milliseconds, at: now() })
      total = { milliseconds: left(total) + milliseconds, at: now() }
    },
    isOverBudget(caller) {
      const used = usedBy(caller)
      return used > share * period && left(total) - used > negligible
    },
  }
}
