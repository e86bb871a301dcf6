/**
 * Answers with the result of `check`, a failure too, for some milliseconds after it has come. Whoever asks while it runs gets
 * the result of that run.
 */
export const rememberFor = <T>(milliseconds: number, check: () => Promise<T>): (() => Promise<T>) => {
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
