/** Takes actions for the end; the last one given is the first one done. */
export interface Teardown {
  teardown(action: () => Promise<unknown>): void
}

/**
 * Runs something that starts processes, and ends this one with 0, or with 1 when it rejects, takes longer than `deadline`
 * milliseconds or is interrupted. Whatever happens, what it gave to `teardown` is done first.
 */
export const runToEnd = async (
  name: string,
  deadline: number,
  run: (t: Teardown) => Promise<void>,
): Promise<never> => {
  const endings: (() => Promise<unknown>)[] = []
  try {
    await Promise.race([run({ teardown: (action) => void endings.push(action) }), interruption(deadline)])
  } catch (error) {
    console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  } finally {
    for (const end of endings.toReversed()) await end()
  }
  return process.exit()
}

/** Rejects when it takes too long or is interrupted. */
const interruption = (deadline: number): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  setTimeout(() => reject(new Error(`timed out after ${deadline / 1_000} s`)), deadline).unref()
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => reject(new Error(`interrupted by ${signal}`)))
  return promise
}
