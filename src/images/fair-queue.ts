interface FairQueueOptions {
  /** How many tasks may wait in all, and how many of one principal. */
  readonly maxWaiting: number
  readonly maxWaitingEach: number
  /** Milliseconds that a task may run while another principal waits. */
  readonly turn: number
  /** The refusals of a task beyond the two bounds. */
  readonly full: () => Error
  readonly fullForPrincipal: () => Error
}

/** Runs one task at a time, in turn for each principal. */
export interface FairQueue {
  /**
   * Runs a task. When it has had its turn and others wait, its signal is aborted; it is run again when no other principal
   * has a new task.
   *
   * @param left Aborted when nobody waits for the result: the task leaves the queue, unless it has begun.
   */
  run<T>(principal: string, task: (interrupted: AbortSignal) => Promise<T>, left: AbortSignal): Promise<T>
}

interface Job {
  readonly principal: string
  /** Resolves to false when the task was interrupted. */
  readonly run: (interrupted: AbortSignal) => Promise<boolean>
}

interface RunningJob {
  readonly principal: string
  readonly stop: AbortController
  /** It has had its turn. */
  isOverdue: boolean
}

export const createFairQueue = (options: FairQueueOptions): FairQueue => {
  const fresh = createLanes()
  /** Jobs that were interrupted. */
  const slow = createLanes()
  let running: RunningJob | null = null
  /** The principal who had the last turn. */
  let previous: string | null = null

  const interruptIfOverdue = (): void => {
    if (running?.isOverdue === true && fresh.hasOtherThan(running.principal)) running.stop.abort()
  }

  const startNext = async (): Promise<void> => {
    if (running !== null) return
    const job = fresh.take(previous) ?? slow.take(previous)
    if (job === undefined) return
    previous = job.principal
    const current: RunningJob = { principal: job.principal, stop: new AbortController(), isOverdue: false }
    running = current
    const timer = setTimeout(() => {
      current.isOverdue = true
      interruptIfOverdue()
    }, options.turn)
    const isDone = await job.run(current.stop.signal)
    clearTimeout(timer)
    if (!isDone) slow.add(job)
    running = null
    void startNext()
  }

  return {
    async run(principal, task, left) {
      left.throwIfAborted()
      if (fresh.count(principal) + slow.count(principal) >= options.maxWaitingEach)
        throw options.fullForPrincipal()
      if (fresh.size() + slow.size() >= options.maxWaiting) throw options.full()
      const result = Promise.withResolvers<Awaited<ReturnType<typeof task>>>()
      const job: Job = {
        principal,
        async run(interrupted) {
          try {
            result.resolve(await task(interrupted))
          } catch (error) {
            if (interrupted.aborted && !left.aborted) return false
            result.reject(error)
          }
          return true
        },
      }
      const leave = (): void => {
        if (fresh.remove(job) || slow.remove(job)) result.reject(left.reason)
      }
      left.addEventListener('abort', leave)
      fresh.add(job)
      void startNext()
      interruptIfOverdue()
      try {
        return await result.promise
      } finally {
        left.removeEventListener('abort', leave)
      }
    },
  }
}

/** Waiting jobs, a lane for each principal. */
const createLanes = () => {
  const lanes = new Map<string, Job[]>()

  return {
    size: (): number => lanes.values().reduce((total, jobs) => total + jobs.length, 0),
    count: (principal: string): number => lanes.get(principal)?.length ?? 0,
    hasOtherThan: (principal: string): boolean => lanes.keys().some((one) => one !== principal),
    add(job: Job): void {
      const lane = lanes.get(job.principal)
      if (lane === undefined) lanes.set(job.principal, [job])
      else lane.push(job)
    },
    /** The next job, of another principal than the previous one if there is any. Its lane goes behind the others. */
    take(previous: string | null): Job | undefined {
      const principal = lanes.keys().find((one) => one !== previous) ?? previous
      const lane = principal === null ? undefined : lanes.get(principal)
      if (principal === null || lane === undefined) return undefined
      lanes.delete(principal)
      const job = lane.shift()
      if (lane.length > 0) lanes.set(principal, lane)
      return job
    },
    remove(job: Job): boolean {
      const lane = lanes.get(job.principal) ?? []
      const at = lane.indexOf(job)
      if (at < 0) return false
      lane.splice(at, 1)
      if (lane.length === 0) lanes.delete(job.principal)
      return true
    },
  }
}
