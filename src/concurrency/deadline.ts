/** Milliseconds by which a timer may be late before the event loop counts as having been blocked. */
const blockedAfter = 1_000

/**
 * The result of `work`, or a rejection with `late()` when it takes longer than `milliseconds`. The work itself goes on.
 * After a blocked event loop, results that arrived before the deadline are still unread: they get another second.
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
