import { LRUCache } from 'lru-cache'
import { background, type Work } from './work.ts'

/** Milliseconds over which the use of a caller is averaged. */
const period = 10_000

/** The share of that time that a caller may use: a fifth of a core, or of a session. */
const share = 0.2

/** Callers whose use is known. Of more callers, those who came last are. */
const maxCallers = 10_000

/** What callers have used of a resource lately, in time, in this process. */
export interface TimeBudget {
  /** Counts milliseconds that the work of a caller has used. */
  readonly spend: (work: Pick<Work, 'caller' | 'isUser'>, milliseconds: number) => void
  /** Whether a caller has used more than their share, and other users were there in the period. Background jobs never have. */
  readonly isOverBudget: (caller: string) => boolean
}

/** A use of `milliseconds` at the time `at`, which decays from then on. */
interface Use {
  readonly milliseconds: number
  readonly at: number
}

/** The last use of a user. */
interface Visit {
  readonly caller: string
  readonly at: number
}

/** A budget for each caller. What was used counts less as time passes: a steady use of `x` amounts to `x * period`. */
export const timeBudget = (now: () => number = () => performance.now()): TimeBudget => {
  const uses = new LRUCache<string, Use>({ max: maxCallers })
  const usedBy = (caller: string): number => {
    const use = uses.get(caller)
    return use === undefined ? 0 : use.milliseconds * Math.exp((use.at - now()) / period)
  }
  const never: Visit = { caller: background, at: Number.NEGATIVE_INFINITY }
  let last = never
  /** The last visit of anybody but the user of `last`. */
  let lastOfOthers = never
  const isAlone = (caller: string): boolean =>
    (last.caller === caller ? lastOfOthers : last).at < now() - period
  return {
    spend({ caller, isUser = false }, milliseconds) {
      if (caller === background) return
      uses.set(caller, { milliseconds: usedBy(caller) + milliseconds, at: now() })
      if (!isUser) return
      if (last.caller !== caller) lastOfOthers = last
      last = { caller, at: now() }
    },
    isOverBudget: (caller) => usedBy(caller) > share * period && !isAlone(caller),
  }
}
