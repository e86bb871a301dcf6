/** Milliseconds. A timer that fires later than this means that the event loop was blocked. */
const blockedAfter = 1_000

/**
 * The result of `work`, or a rejection with `late()` if it takes longer than `milliseconds`. The work itself is not stopped.
 * After the event loop was blocked, a result that arrived in time may still be unread, so the deadline moves by one second.
 */
export const withTimeout = async <T>(
  milliseconds: number,
  work: PromiseLike<T>,
  late: () => Error,
): Promise<T> => {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const due = performance.now() + milliseconds
  let timer = setTimeout(() => {
    if (performance.now() < due + blockedAfter) reject(late())
    else timer = setTimeout(() => reject(late()), blockedAfter)
  }, milliseconds)
  work.then(resolve, reject)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}
