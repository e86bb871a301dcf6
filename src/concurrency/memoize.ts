/** Caches the result of `check`, or its error, for `milliseconds` after it settles. Concurrent callers share one run. */
export const memoizeFor = <T>(milliseconds: number, check: () => Promise<T>): (() => Promise<T>) => {
  let result: Promise<T> | null = null
  let end = Infinity
  return () => {
    if (result === null || performance.now() >= end) {
      end = Infinity
      result = check().finally(() => (end = performance.now() + milliseconds))
    }
    return result
  }
}
