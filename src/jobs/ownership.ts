import type { Database } from '../db/engine/client.ts'
import { selectUnreferenced } from '../db/files.ts'
import { type Identity, readIdentity } from '../db/identity.ts'
import { inBatches } from './inventory.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * Which database the files of a storage belong to. Beside another one, or an earlier copy of the same one, files that are
 * wanted look like leftovers: an address was mistyped, two installations were given one bucket, a dump was restored.
 * Hence each storage says whose it is, and nobody else removes its files.
 */
export type Ownership =
  /** Of this database. */
  | 'own'
  /** Nothing is said yet, and nothing speaks against this database. */
  | 'unclaimed'
  /** Of another database. */
  | 'foreign'
  /** Of this database, when it had come further than it is now. */
  | 'newer'

/** Whose the files are. Changes nothing. */
export const ownershipOf = async (db: Database, storage: Storage): Promise<Ownership> => {
  const text = await storage.readOwner()
  if (text === null) return (await hasStrangersAlone(db, storage)) ? 'foreign' : 'unclaimed'
  const owner = parseOwner(text)
  const { database, transaction } = await readIdentity(db)
  if (owner?.database !== database) return 'foreign'
  return owner.transaction < transaction ? 'own' : 'newer'
}

const reasons: Readonly<Record<Ownership, string | null>> = {
  own: null,
  unclaimed: null,
  foreign: 'The files belong to another database',
  newer: 'The files belong to this database at a later time than it is now',
}

/** Why a database must not remove the files; null when it may. */
export const whyNotOurs = (ownership: Ownership): string | null => reasons[ownership]

/** Makes the files those of a database; its transaction has to be one that is committed. */
export const claimFiles = async (storage: Storage, { database, transaction }: Identity): Promise<void> => {
  await storage.writeOwner(JSON.stringify({ database, transaction: String(transaction) }))
}

const hasStrangersAlone = async (db: Database, storage: Storage): Promise<boolean> => {
  let isEmpty = true
  for await (const files of inBatches(storage.list())) {
    const keys = files.map(({ key }) => key)
    if ((await selectUnreferenced(db, keys)).length < keys.length) return false
    isEmpty = false
  }
  return !isEmpty
}

/** Null when it was damaged: then they are not known to be ours. */
const parseOwner = (text: string): Identity | null => {
  const { database, transaction } =
    /^\{"database":"(?<database>[\d/]+)","transaction":"(?<transaction>\d+)"\}$/.exec(text)?.groups ?? {}
  return database === undefined || transaction === undefined
    ? null
    : { database, transaction: BigInt(transaction) }
}
