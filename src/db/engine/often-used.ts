import { LRUCache } from 'lru-cache'
import type { StatementMode } from './session.ts'

/** A session keeps what it has prepared until it closes: a plan of a list takes a quarter of a megabyte in each of them. */
const maxPrepared = 30

/** Of one caller, so that nobody takes the places of all others. */
const maxPreparedOfCaller = 10

const usesToPrepare = 3

/** Statements whose uses are counted. */
const maxCounted = 300

/** Chooses which statements the sessions prepare, of those that clients can make any number of: the ones that are used often. */
export const chooseOftenUsed = () => {
  const uses = new LRUCache<string, number>({ max: maxCounted })
  /** Their texts, with the callers who were the first to use them often. */
  const chosen = new Map<string, string>()

  /** How a statement runs that a caller uses once more. */
  const modeOf = (text: string, caller: string): StatementMode => {
    if (chosen.has(text)) return 'prepared'
    const count = (uses.get(text) ?? 0) + 1
    uses.set(text, count)
    if (count < usesToPrepare || chosen.size >= maxPrepared) return 'once'
    const ofCaller = [...chosen.values()].filter((one) => one === caller).length
    if (ofCaller >= maxPreparedOfCaller) return 'once'
    chosen.set(text, caller)
    return 'prepared'
  }

  return modeOf
}
