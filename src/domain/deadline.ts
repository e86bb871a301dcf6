/**
 * What `work` comes to, or what `late` makes when that takes longer than `milliseconds`. Nothing can end the work itself,
 * which goes on with nobody waiting for it.
 */
export const within = async <T>(
  milliseconds: number,
  work: PromiseLike<T>,
  late: () => Error,
): Promise<T> => {
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(late()), milliseconds)
  try {
    return await Promise.race([work, tooLate])
  } finally {
    clearTimeout(timer)
  }
}
