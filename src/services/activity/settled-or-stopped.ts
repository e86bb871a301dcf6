/** Resolves when the email is settled, or when the service stops: the mailer itself then waits a limited time. */
export const settledOrStopped = async (sending: Promise<void>, stop: AbortSignal): Promise<void> => {
  const { promise: stopped, resolve } = Promise.withResolvers<void>()
  const leave = (): void => resolve()
  stop.addEventListener('abort', leave)
  try {
    if (!stop.aborted) await Promise.race([sending, stopped])
  } finally {
    stop.removeEventListener('abort', leave)
  }
}
