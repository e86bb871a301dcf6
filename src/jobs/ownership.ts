import type { Database } from '../db/engine/client.ts'
import { selectUnreferenced } from '../db/files/deletions.ts'
import { type Identity, readIdentity } from '../db/shared/identity.ts'
import type { Storage } from '../storage/storage.ts'
import { inBatches, uploadTimeout } from './inventory.ts'

/**
 * The owner of the files in a storage. To another database, or to an earlier copy of the same one, files in use look like
 * orphans: after a mistyped address, in a bucket shared by two installations, or after restoring a dump. The storage therefore
 * records its owner, and no other database removes its files.
 */
export type Ownership =
  /** This database. */
  | 'own'
  /** No record yet, and nothing contradicts this database. */
  | 'unclaimed'
  /** Another database. */
  | 'foreign'
  /** This database, at a later time than its current state. */
  | 'newer'

/** Determines the owner of the files. Changes nothing. */
export const ownershipOf = async (db: Database, storage: Storage): Promise<Ownership> => {
  const text = await storage.readOwner()
  if (text === null) return (await hasOnlyUnknownFiles(db, storage)) ? 'foreign' : 'unclaimed'
  const owner = parseOwner(text)
  const { database, transaction } = await readIdentity(db)
  if (owner?.database !== database) return 'foreign'
  return owner.transaction < transaction ? 'own' : 'newer'
}

const reasons: Readonly<Record<Ownership, string | null>> = {
  own: null,
  unclaimed: null,
  foreign: 'The files belong to another database',
  newer: 'The files belong to a later state of this database',
}

/** The reason why this database must not remove the files; null if it may. */
export const ownershipConflict = (ownership: Ownership): string | null => reasons[ownership]

/** Records a database as the owner of the files. Its transaction must be committed. */
export const claimFiles = async (storage: Storage, { database, transaction }: Identity): Promise<void> => {
  await storage.writeOwner(JSON.stringify({ database, transaction: String(transaction) }))
}

/** A young file says nothing: it may belong to a request of a new installation that has not inserted its row yet. */
const hasOnlyUnknownFiles = async (db: Database, storage: Storage): Promise<boolean> => {
  const before = new Date(Date.now() - 2 * uploadTimeout)
  let isEmpty = true
  for await (const files of inBatches(storage.list())) {
    const keys = files.map(({ key }) => key)
    if ((await selectUnreferenced(db, keys)).length < keys.length) return false
    isEmpty &&= files.every(({ modifiedAt }) => modifiedAt >= before)
  }
  return !isEmpty
}

/** Null if the record is damaged; the files then count as foreign. */
const parseOwner = (text: string): Identity | null => {
  const { database, transaction } =
    /^\{"database":"(?<database>[\d/]+)","transaction":"(?<transaction>\d+)"\}$/.exec(text)?.groups ?? {}
  return database === undefined || transaction === undefined
    ? null
    : { database, transaction: BigInt(transaction) }
}
