interface BoundedQueueOptions {
  /** How many tasks run at a time. */
  readonly concurrency: number
  /** How many more may wait. */
  readonly maxQueue: number
  /** The error that further tasks are refused with. */
  readonly full: () => Error
}

/** Runs a task when its turn comes. */
export type Limiter = <T>(task: () => Promise<T>) => Promise<T>

/** Runs at most `concurrency` tasks at a time; the others wait in the order in which they came. */
export function boundedQueue({ concurrency, maxQueue, full }: BoundedQueueOptions): Limiter {
  const waiting: (() => void)[] = []
  let running = 0

  const enter = async (): Promise<void> => {
    if (running < concurrency) {
      running += 1
      return
    }
    if (waiting.length >= maxQueue) throw full()
    await new Promise<void>((resolve) => waiting.push(resolve))
  }

  const leave = (): void => {
    const next = waiting.shift()
    if (next) next()
    else running -= 1
  }

  return async (task) => {
    await enter()
    try {
      return await task()
    } finally {
      leave()
    }
  }
}
