/** Shares one run of a task among concurrent callers with the same key. */
export interface SingleFlight<T> {
  /** @param signal Aborted when the caller leaves. The task's signal is aborted when all callers have left. */
  run(key: string, task: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T>
}

interface Flight<T> {
  readonly result: Promise<T>
  readonly abandoned: AbortController
  callers: number
}

export const createSingleFlight = <T>(): SingleFlight<T> => {
  const flights = new Map<string, Flight<T>>()

  const start = (key: string, task: (signal: AbortSignal) => Promise<T>): Flight<T> => {
    const abandoned = new AbortController()
    const flight: Flight<T> = { result: task(abandoned.signal), abandoned, callers: 0 }
    flights.set(key, flight)
    const forget = (): void => {
      if (flights.get(key) === flight) flights.delete(key)
    }
    // Also handles a rejection that nobody awaits.
    flight.result.then(forget, forget)
    return flight
  }

  return {
    async run(key, task, signal) {
      signal.throwIfAborted()
      const flight = flights.get(key) ?? start(key, task)
      flight.callers += 1
      const left = Promise.withResolvers<never>()
      const leave = (): void => left.reject(signal.reason)
      signal.addEventListener('abort', leave)
      try {
        return await Promise.race([flight.result, left.promise])
      } finally {
        signal.removeEventListener('abort', leave)
        flight.callers -= 1
        if (flight.callers === 0) {
          // Later callers start a new run.
          if (flights.get(key) === flight) flights.delete(key)
          flight.abandoned.abort(signal.reason)
        }
      }
    },
  }
}
