interface Rhythm {
  /** Milliseconds from one question to the next. */
  readonly every: number
  /** So many questions in a row may stay without an answer. */
  readonly mostMissed: number
}

/**
 * Asks somebody for a sign of life again and again, and calls `onSilent` once when there is none any more. Questions are
 * counted and not time, of which a machine that was suspended has lost some. Returns what ends it.
 */
export const watchPulse = (
  { every, mostMissed }: Rhythm,
  ask: () => Promise<unknown>,
  onSilent: () => void,
): (() => void) => {
  let missed = 0
  const timer = setInterval(() => {
    if (missed === mostMissed) {
      clearInterval(timer)
      onSilent()
      return
    }
    missed += 1
    ask().then(
      () => (missed = 0),
      () => undefined,
    )
  }, every)
  timer.unref()
  return () => clearInterval(timer)
}
