/**
 * What `work` comes to, or what `late` makes when that takes longer than `milliseconds`. Nothing can end the work itself,
 * which goes on with nobody waiting for it.
 */
export const within = async <T>(
  milliseconds: number,
  work: PromiseLike<T>,
  late: () => Error,
): Promise<T> => {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const timer = setTimeout(() => reject(late()), milliseconds)
  work.then(resolve, reject)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}
