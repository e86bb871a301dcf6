/** Registers teardowns, which run in reverse order. */
export interface Teardown {
  teardown(action: () => Promise<unknown>): void
}

/** Runs a part of a script, and then its teardowns, also if it rejects. */
export const withTeardowns = async <T>(run: (t: Teardown) => Promise<T>): Promise<T> => {
  await using stack = new AsyncDisposableStack()
  return await run({ teardown: (action) => stack.defer(async () => void (await action())) })
}

/**
 * Runs a script and exits: with 1 if it rejects, takes longer than `deadline` milliseconds or is interrupted, else with
 * `process.exitCode`. All teardowns run before, also if some of them reject. An interrupted script is not stopped: whatever has to be
 * undone is a teardown, and what must not be done beside them is done only while `interrupted` is not aborted.
 */
export const runToEnd = async (
  name: string,
  deadline: number,
  run: (t: Teardown & { readonly interrupted: AbortSignal }) => Promise<void>,
): Promise<never> => {
  const interrupted = new AbortController()
  const teardowns: (() => Promise<unknown>)[] = []
  const fail = (error: unknown): void => {
    console.error(`${name}: ${messageFor(error)}`)
    process.exitCode = 1
  }
  try {
    await Promise.race([
      run({ teardown: (action) => void teardowns.push(action), interrupted: interrupted.signal }),
      interruption(deadline),
    ])
  } catch (error) {
    interrupted.abort()
    fail(error)
  }
  // An interrupted script still runs, and can register more.
  for (let action = teardowns.pop(); action !== undefined; action = teardowns.pop())
    try {
      await action()
    } catch (error) {
      fail(error)
    }
  return process.exit()
}

/** What an operator can do something about, by the code of the system. */
const meanings: Readonly<Record<string, string>> = {
  EACCES: 'is not accessible to this user. Run the command as the user of the service, or change the owner',
  ENOENT: 'does not exist',
  ENOSPC: 'does not fit on its disk, which is full. Free up space',
  ENOTDIR: 'is not in a folder',
  EPERM: 'may not be changed by this user. Run the command as the user of the service, or change the owner',
  EROFS: 'is on a disk that cannot be written to',
}

const messageFor = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const { code, path } = error as NodeJS.ErrnoException
  const meaning = meanings[code ?? '']
  return path === undefined || meaning === undefined ? error.message : `${path} ${meaning} (${error.message})`
}

/** Rejects after the deadline, or on a signal. */
const interruption = (deadline: number): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  setTimeout(() => reject(new Error(`timed out after ${deadline / 1_000} s`)), deadline).unref()
  // Not once: signal-exit, which proper-lockfile uses, ends the process by the signal if nothing else listens any more.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => reject(new Error(`interrupted by ${signal}`)))
  return promise
}
