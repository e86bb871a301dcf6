interface BoundedQueueOptions {
  /** How many tasks run at a time. */
  readonly concurrency: number
  /** How many more may wait. */
  readonly maxQueue: number
  /** Creates the error for tasks beyond `maxQueue`. */
  readonly full: () => Error
}

/** Runs a task once it may start. Rejects with the task's error, or with that of a full queue. */
export type Limiter = <T>(task: () => Promise<T>) => Promise<T>

/** Runs at most `concurrency` tasks at a time; the others wait in first-in, first-out order. */
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
