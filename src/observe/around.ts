import type { PasswordHasher } from '../auth/passwords.ts'
import type { Database } from '../db/client.ts'
import type { Storage } from '../storage/storage.ts'

/** Does some work and looks at it from outside: how long it takes, and how it ends. */
export type Around = <T>(name: string, work: () => Promise<T>) => Promise<T>

/** A database whose statements are looked at; the name of one is its text, which has no values in it. */
export const databaseAround = (db: Database, around: Around): Database => ({
  ...db,
  run: (text, values) => around(text, () => db.run(text, values)),
})

/** A storage whose operations are looked at, by their names. */
export const storageAround = (storage: Storage, around: Around): Storage => ({
  ...storage,
  put: (...parameters) => around('put', () => storage.put(...parameters)),
  open: (...parameters) => around('open', () => storage.open(...parameters)),
  remove: (...parameters) => around('remove', () => storage.remove(...parameters)),
  removeAbandoned: (...parameters) => around('removeAbandoned', () => storage.removeAbandoned(...parameters)),
  check: () => around('check', () => storage.check()),
})

/** A hasher whose work is looked at, the time that it waits for its turn included. */
export const hasherAround = (passwords: PasswordHasher, around: Around): PasswordHasher => ({
  hash: (password) => around('hash', () => passwords.hash(password)),
  verify: (encoded, password) => around('verify', () => passwords.verify(encoded, password)),
})
