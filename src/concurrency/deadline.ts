/** Milliseconds. A timer that fires later than this means that the event loop was blocked. */
const blockedAfter = 1_000

/**
 * Calls `late` after `milliseconds`, unless the returned function is called before. After the event loop was blocked, a result that
 * arrived in time may still be unread, so the deadline moves by one second.
 */
export const startDeadline = (milliseconds: number, late: () => void): (() => void) => {
  const due = performance.now() + milliseconds
  let timer = setTimeout(() => {
    if (performance.now() < due + blockedAfter) late()
    else timer = setTimeout(late, blockedAfter)
  }, milliseconds)
  return () => clearTimeout(timer)
}

/**
 * The result of `work`, or a rejection with `late()` if it takes longer than `milliseconds`, as `startDeadline` measures them. The work
 * itself is not stopped.
 */
export const withTimeout = async <T>(
  milliseconds: number,
  work: PromiseLike<T>,
  late: () => Error,
): Promise<T> => {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const end = startDeadline(milliseconds, () => reject(late()))
  work.then(resolve, reject)
  try {
    return await promise
  } finally {
    end()
  }
}
