/** Milliseconds by which a timer may be late before the event loop counts as having stood still. */
const stall = 1_000

/**
 * What `work` comes to, or what `late` makes when that takes longer than `milliseconds`. The work itself goes on. When the
 * event loop stood still meanwhile, results that arrived before the deadline are still to be read: they get another second.
 */
export const within = async <T>(
  milliseconds: number,
  work: PromiseLike<T>,
  late: () => Error,
): Promise<T> => {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const due = performance.now() + milliseconds
  let timer = setTimeout(() => {
    if (performance.now() < due + stall) reject(late())
    else timer = setTimeout(() => reject(late()), stall)
  }, milliseconds)
  work.then(resolve, reject)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}
