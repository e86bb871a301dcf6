import type { PasswordHasher } from '../auth/passwords.ts'
import type { Database } from '../db/engine/client.ts'
import type { Storage } from '../storage/storage.ts'

/** Does some work and looks at it from outside: how long it takes, and how it ends. */
export type Around = <T>(name: string, work: () => Promise<T>) => Promise<T>

/** A database whose statements are looked at; the name of one is its text, which has no values in it. */
export const databaseAround = (db: Database, around: Around): Database => ({
  ...db,
  run: (...parameters) => around(parameters[0], () => db.run(...parameters)),
})

/** A storage whose operations are looked at, by their names. */
export const storageAround = (storage: Storage, around: Around): Storage => ({
  ...storage,
  put: (...parameters) => around('put', () => storage.put(...parameters)),
  append: (...parameters) => iterationAround(around, 'append', storage.append(...parameters)),
  complete: (...parameters) => around('complete', () => storage.complete(...parameters)),
  open: (...parameters) => around('open', () => storage.open(...parameters)),
  remove: (...parameters) => around('remove', () => storage.remove(...parameters)),
  removeUnfinished: (...parameters) =>
    around('removeUnfinished', () => storage.removeUnfinished(...parameters)),
  list: () => iterationAround(around, 'list', storage.list()),
  missing: (...parameters) => around('missing', () => storage.missing(...parameters)),
  listUnfinished: () => iterationAround(around, 'listUnfinished', storage.listUnfinished()),
  readOwner: () => around('readOwner', () => storage.readOwner()),
  writeOwner: (...parameters) => around('writeOwner', () => storage.writeOwner(...parameters)),
  check: () => around('check', () => storage.check()),
})

/** Looks at an iteration as one piece of work, which lasts until its last item has been dealt with. */
async function* iterationAround<T>(
  around: Around,
  name: string,
  items: AsyncIterable<T>,
): AsyncGenerator<T, void, undefined> {
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>()
  // Whoever iterates learns of a failure below.
  around(name, () => ended).catch(() => undefined)
  try {
    yield* items
  } catch (error) {
    reject(error)
    throw error
  } finally {
    resolve()
  }
}

/** A hasher whose work is looked at, the time that it waits for its turn included. */
export const hasherAround = (passwords: PasswordHasher, around: Around): PasswordHasher => ({
  unmatchable: passwords.unmatchable,
  hash: (password) => around('hash', () => passwords.hash(password)),
  verify: (encoded, password) => around('verify', () => passwords.verify(encoded, password)),
})
