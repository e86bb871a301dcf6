import type { PasswordHasher } from '../auth/passwords.ts'
import type { Database } from '../db/engine/client.ts'
import { wrapRuns } from '../db/engine/wrap-runs.ts'
import type { Storage } from '../storage/storage.ts'

/** Runs `work` and observes its duration and outcome. */
export type Instrument = <T>(name: string, work: () => Promise<T>) => Promise<T>

/** Observes statements. The name of a statement is its text, which contains no values. */
export const instrumentDatabase = (db: Database, instrument: Instrument): Database =>
  wrapRuns(
    db,
    (run) =>
      (...parameters) =>
        instrument(parameters[0], () => run(...parameters)),
  )

/** Observes storage operations, by name. */
export const instrumentStorage = (storage: Storage, instrument: Instrument): Storage => ({
  ...storage,
  put: (...parameters) => instrument('put', () => storage.put(...parameters)),
  append: (...parameters) => instrumentIteration(instrument, 'append', storage.append(...parameters)),
  complete: (...parameters) => instrument('complete', () => storage.complete(...parameters)),
  open: (...parameters) => instrument('open', () => storage.open(...parameters)),
  remove: (...parameters) => instrument('remove', () => storage.remove(...parameters)),
  removeUnfinished: (...parameters) =>
    instrument('removeUnfinished', () => storage.removeUnfinished(...parameters)),
  list: () => instrumentIteration(instrument, 'list', storage.list()),
  missing: (...parameters) => instrument('missing', () => storage.missing(...parameters)),
  listUnfinished: () => instrumentIteration(instrument, 'listUnfinished', storage.listUnfinished()),
  now: () => instrument('now', () => storage.now()),
  readOwner: () => instrument('readOwner', () => storage.readOwner()),
  writeOwner: (...parameters) => instrument('writeOwner', () => storage.writeOwner(...parameters)),
  check: () => instrument('check', () => storage.check()),
})

/** Observes an iteration as one operation, which ends when the consumer has processed the last item. */
async function* instrumentIteration<T>(
  instrument: Instrument,
  name: string,
  items: AsyncIterable<T>,
): AsyncGenerator<T, void, undefined> {
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>()
  // The consumer receives the error below.
  instrument(name, () => ended).catch(() => undefined)
  try {
    yield* items
  } catch (error) {
    reject(error)
    throw error
  } finally {
    resolve()
  }
}

/** Observes password hashing, including the time in its queue. */
export const instrumentHasher = (passwords: PasswordHasher, instrument: Instrument): PasswordHasher => ({
  unmatchable: passwords.unmatchable,
  hash: (password) => instrument('hash', () => passwords.hash(password)),
  verify: (encoded, password) => instrument('verify', () => passwords.verify(encoded, password)),
})
