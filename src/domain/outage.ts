/** What is told of something that cannot be used. */
interface OutageLog {
  readonly began: (failure: Error) => void
  readonly ended: (outage: { readonly seconds: number; readonly failures: number }) => void
}

/** Milliseconds without a failure after which an outage is over: it may be one of some work, while other work is done. */
const quietTime = 10_000

/** To be told how each piece of work ended, makes of an outage two messages: that it began, and that it is over. */
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
