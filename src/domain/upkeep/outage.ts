/** Reports the start and the end of an outage. */
interface OutageLog {
  readonly began: (failure: Error) => void
  readonly ended: (outage: { readonly seconds: number; readonly failures: number }) => void
}

/**
 * Milliseconds without a failure after which an outage is over. A single success does not end it, because some operations can
 * succeed during a partial outage.
 */
const quietTime = 10_000

/**
 * Returns a function to call with the error of each operation, null on success. It reports the start and the end of each
 * outage.
 */
export const watchOutage = (
  { began, ended }: OutageLog,
  quiet: number = quietTime,
): ((failure: Error | null) => void) => {
  let failures = 0
  let first = 0
  let last = 0
  return (failure) => {
    if (failure === null && failures === 0) return
    const now = performance.now()
    if (failure !== null) {
      last = now
      failures += 1
      if (failures > 1) return
      first = now
      began(failure)
    } else if (now - last >= quiet) {
      ended({ seconds: Math.round((last - first) / 1_000), failures })
      failures = 0
    }
  }
}
