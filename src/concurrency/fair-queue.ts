import { background, mayHaveWritten, type Work } from './work.ts'

interface FairQueueOptions {
  /** Tasks that run at a time. */
  readonly concurrency: number
  /** Of these, tasks per caller. Background jobs are exempt. */
  readonly share: number
  /**
   * Whether a caller has used too much lately: they have one task at a time, which begins behind those of the others and while less than
   * half of the capacity is used. By default, nobody has.
   */
  readonly isOverBudget?: (caller: string) => boolean
  /** Waiting tasks per caller. */
  readonly maxWaiting: number
  /** Waiting tasks of all callers. */
  readonly maxWaitingInAll: number
  /** Milliseconds that a task may wait. */
  readonly maxWait: number
  /** Creates the error of a task that was not started. */
  readonly refuse: (reason: 'caller_busy' | 'busy' | 'late' | 'abandoned') => Error
}

export interface FairQueue {
  readonly run: <T>(work: Work, task: () => Promise<T>) => Promise<T>
  /** Number of running and waiting tasks. */
  readonly pending: () => number
  /** Number of waiting tasks. */
  readonly waiting: () => number
}

interface Waiting {
  readonly work: Work
  readonly begin: () => void
  readonly reject: (error: Error) => void
}

/** The tasks of one caller. */
interface Lane {
  running: number
  waiting: Waiting[]
}

/**
 * Runs tasks with bounded concurrency, round robin between callers, so that one caller's backlog does not delay
 * another's first task. Callers over their budget take turns behind the others. Abandoned tasks are dropped when their turn comes.
 */
export const fairQueue = ({
  concurrency,
  share,
  isOverBudget = () => false,
  maxWaiting,
  maxWaitingInAll,
  maxWait,
  refuse,
}: FairQueueOptions): FairQueue => {
  // In round-robin order. A caller moves to the end when a task of theirs starts, and again when it ends.
  const lanes = new Map<string, Lane>()
  let running = 0
  let waiting = 0

  const laneOf = (caller: string): Lane => {
    const existing = lanes.get(caller)
    if (existing) return existing
    const lane = { running: 0, waiting: [] }
    lanes.set(caller, lane)
    return lane
  }

  const hasCapacity = (caller: string, lane: Lane): boolean =>
    isOverBudget(caller)
      ? running < concurrency / 2 && lane.running < 1
      : running < concurrency && (caller === background || lane.running < share)

  const moveToEnd = (caller: string, lane: Lane): void => {
    lanes.delete(caller)
    lanes.set(caller, lane)
  }

  const occupy = (caller: string, lane: Lane): void => {
    running += 1
    lane.running += 1
    moveToEnd(caller, lane)
  }

  const release = (caller: string, lane: Lane): void => {
    running -= 1
    lane.running -= 1
    moveToEnd(caller, lane)
    while (beginNext(false) || beginNext(true));
    forgetIdle(caller, lane)
  }

  /** An abandoned task may end after its lane was forgotten, when the caller has another one. */
  const forgetIdle = (caller: string, lane: Lane): void => {
    if (lane.running === 0 && lane.waiting.length === 0 && lanes.get(caller) === lane) lanes.delete(caller)
  }

  /** Begins the next task of the callers over their budget, or of the others. Returns whether there was one. */
  const beginNext = (overBudget: boolean): boolean => {
    for (const [caller, lane] of lanes) {
      if (isOverBudget(caller) !== overBudget || !hasCapacity(caller, lane)) continue
      const next = takeWanted(lane)
      if (next === null) {
        forgetIdle(caller, lane)
        continue
      }
      occupy(caller, lane)
      next.begin()
      return true
    }
    return false
  }

  const takeWanted = (lane: Lane): Waiting | null => {
    for (let next = lane.waiting.shift(); next !== undefined; next = lane.waiting.shift()) {
      waiting -= 1
      if (!next.work.isAbandoned()) return next
      next.reject(refuse('abandoned'))
    }
    return null
  }

  const dropAbandoned = (lane: Lane): void => {
    const wanted: Waiting[] = []
    for (const entry of lane.waiting) {
      if (entry.work.isAbandoned()) entry.reject(refuse('abandoned'))
      else wanted.push(entry)
    }
    waiting -= lane.waiting.length - wanted.length
    lane.waiting = wanted
  }

  /** The limit per caller does not apply to work that has already written, since it could not be undone. */
  const admit = (work: Work, lane: Lane): void => {
    if (waiting >= maxWaitingInAll) throw refuse('busy')
    if (work.caller === background || lane.waiting.length < maxWaiting || mayHaveWritten(work)) return
    dropAbandoned(lane)
    if (lane.waiting.length >= maxWaiting) throw refuse('caller_busy')
  }

  const wait = async (work: Work, lane: Lane): Promise<void> => {
    admit(work, lane)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const entry = { work, begin: resolve, reject }
    lane.waiting.push(entry)
    waiting += 1
    const timer = setTimeout(() => {
      const place = lane.waiting.indexOf(entry)
      if (place === -1) return
      lane.waiting.splice(place, 1)
      waiting -= 1
      // Callers over their budget wait for themselves.
      reject(refuse(isOverBudget(work.caller) ? 'caller_busy' : 'late'))
    }, maxWait)
    try {
      await promise
    } finally {
      clearTimeout(timer)
    }
  }

  const enter = async (work: Work, lane: Lane): Promise<void> => {
    if (lane.waiting.length === 0 && hasCapacity(work.caller, lane)) return occupy(work.caller, lane)
    try {
      await wait(work, lane)
    } catch (error) {
      forgetIdle(work.caller, lane)
      throw error
    }
  }

  return {
    async run(work, task) {
      const { caller } = work
      if (work.isAbandoned()) throw refuse('abandoned')
      const lane = laneOf(caller)
      await enter(work, lane)
      try {
        return await task()
      } finally {
        release(caller, lane)
      }
    },
    pending: () => running + waiting,
    waiting: () => waiting,
  }
}
