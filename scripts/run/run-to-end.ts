/** Registers teardowns, which run in reverse order. */
export interface Teardown {
  teardown(action: () => Promise<unknown>): void
}

/**
 * Runs a script and exits: with 1 if it rejects, takes longer than `deadline` milliseconds or is interrupted, else with
 * `process.exitCode`. Teardowns always run before.
 */
export const runToEnd = async (
  name: string,
  deadline: number,
  run: (t: Teardown) => Promise<void>,
): Promise<never> => {
  const teardowns: (() => Promise<unknown>)[] = []
  try {
    await Promise.race([run({ teardown: (action) => void teardowns.push(action) }), interruption(deadline)])
  } catch (error) {
    console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  } finally {
    for (const action of teardowns.toReversed()) await action()
  }
  return process.exit()
}

/** Rejects after the deadline, or on a signal. */
const interruption = (deadline: number): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  setTimeout(() => reject(new Error(`timed out after ${deadline / 1_000} s`)), deadline).unref()
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => reject(new Error(`interrupted by ${signal}`)))
  return promise
}
