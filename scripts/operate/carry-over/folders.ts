import { mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isMissing, syncFolder } from '../../../src/data-dir/folder.ts'
import { carryingOverFolder } from '../../../src/data-dir/interrupted.ts'
import { type Identity, parseIdentity } from '../../../src/db/shared/identity.ts'
import { earlierFolder, postgresFolder, retiredFolder } from '../../../src/postgres/cluster.ts'
import { readArchive } from '../archive.ts'

/** The folders of a carry-over in DATA_DIR, on the same disk, so that results can be renamed into place. */
export interface Folders {
  readonly dataDir: string
  /** All others. */
  readonly working: string
  readonly extracting: string
  /** A complete archive, whose files are being moved to DATA_DIR. It stays until the end, empty. */
  readonly extracted: string
  /** The copy of the earlier database that is opened. */
  readonly copy: string
  /** A DATA_DIR with the new database. */
  readonly built: string
  /** The folder that takes the place of the earlier database. It exists from when the new one is complete. */
  readonly notice: string
  /** The new database as the owner of the files. */
  readonly owner: string
}

export const foldersIn = (dataDir: string): Folders => {
  const working = carryingOverFolder(dataDir)
  const inside = (name: string): string => join(working, name)
  return {
    dataDir,
    working,
    extracting: inside('extracting'),
    extracted: inside('extracted'),
    copy: inside('copy'),
    built: inside('built'),
    notice: inside('notice'),
    owner: inside('owner'),
  }
}

const remove = async (...paths: readonly string[]): Promise<void> => {
  for (const path of paths) await rm(path, { recursive: true, force: true })
}

/** Removes what a carry-over has left that did not put its database into place. */
export const removeUnfinished = async ({ working, copy, built, notice, owner }: Folders): Promise<void> => {
  await remove(copy, built, notice, owner)
  // Unless it has files of an archive.
  await rmdir(working).catch(() => undefined)
}

/** Whether the new database is in place, and only the last steps of an interrupted carry-over are left. */
export const isLeftToFinish = async ({ dataDir, working, notice }: Folders): Promise<boolean> =>
  !(await isMissing(postgresFolder(dataDir))) &&
  (!(await isMissing(notice)) || (!(await isMissing(retiredFolder(dataDir))) && !(await isMissing(working))))

/** @throws Error if there is no DATA_DIR */
export const expectFolder = async ({ dataDir }: Folders): Promise<void> => {
  if (await isMissing(dataDir))
    throw new Error(`DATA_DIR ${dataDir} does not exist. Set it as for the service`)
}

/** @throws Error unless DATA_DIR has a database to carry over, and room for its names */
export const expectEarlier = async ({ dataDir }: Folders): Promise<void> => {
  if (!(await isMissing(postgresFolder(dataDir))))
    throw new Error(`DATA_DIR ${dataDir} has a database of this version: nothing is left to be carried over`)
  if (await isMissing(join(earlierFolder(dataDir), 'PG_VERSION')))
    throw new Error(`DATA_DIR ${dataDir} has no database of Taskwright 0.1 or 0.2 that could be carried over`)
  if (!(await isMissing(retiredFolder(dataDir))))
    throw new Error(
      `${retiredFolder(dataDir)} is left from an earlier carry-over. Remove it or move it away first`,
    )
}

/**
 * Extracts a backup of 0.1 or 0.2 to DATA_DIR, which must be empty. Continues an interrupted one.
 *
 * @throws Error for another archive
 */
export const extract = async (file: string, folders: Folders, scratch: string): Promise<void> => {
  const { dataDir, working, extracting, extracted } = folders
  if (!(await isMissing(extracted))) return
  const found = (await readdir(dataDir)).filter((name) => name !== 'lock' && join(dataDir, name) !== working)
  if (found.length > 0)
    throw new Error(
      `DATA_DIR ${dataDir} is not empty: it contains ${found.join(', ')}. Carry the backup over to another DATA_DIR, or move these files away`,
    )
  await remove(extracting)
  await mkdir(extracting, { recursive: true, mode: 0o700 })
  try {
    await readArchive(file, extracting, scratch)
    if (await isMissing(join(extracting, 'postgres', 'PG_VERSION')))
      throw new Error(
        `${resolve(file)} is no backup of Taskwright 0.1 or 0.2. "npm run restore" reads others`,
      )
  } catch (error) {
    await remove(working)
    throw error
  }
  await rename(extracting, extracted)
}

/** Moves what an archive contained to DATA_DIR, the database last. */
export const moveExtracted = async ({ dataDir, extracted }: Folders): Promise<void> => {
  if (await isMissing(extracted)) return
  const last = (name: string): number => Number(name === 'postgres')
  const names = (await readdir(extracted)).toSorted((a, b) => last(a) - last(b))
  for (const name of names) await rename(join(extracted, name), join(dataDir, name))
  await syncFolder(dataDir)
}

const noticeText = `The database that was here is now in the folder postgres-before-0.3, and its data in the folder postgresql.

This folder keeps Taskwright 0.1 and 0.2 from creating an empty database here. docs/operations/upgrade.md says how to go back.
`

/** Puts the new database into its place, complete with what is left to be done for it. `owner` is null if it does not own the files. */
export const putInPlace = async (
  { dataDir, working, built, notice, owner }: Folders,
  identity: Identity | null,
): Promise<void> => {
  if (identity !== null)
    await writeFile(
      owner,
      JSON.stringify({ ...identity, transaction: String(identity.transaction) } satisfies StoredIdentity),
      { flush: true },
    )
  await mkdir(notice, { mode: 0o700 })
  await writeFile(join(notice, 'README'), noticeText, { mode: 0o600, flush: true })
  await syncFolder(notice)
  await syncFolder(working)
  await rename(postgresFolder(built), postgresFolder(dataDir))
  await syncFolder(dataDir)
}

type StoredIdentity = Readonly<Record<keyof Identity, string>>

/** What `putInPlace` was given. */
export const readOwner = async ({ owner }: Folders): Promise<Identity | null> =>
  (await isMissing(owner)) ? null : parseIdentity(JSON.parse(await readFile(owner, 'utf8')) as StoredIdentity)

/** Gives the earlier database its new name, unless it has that. Nothing is left to be done afterwards. */
export const retireEarlier = async (folders: Folders): Promise<void> => {
  const { dataDir, working, copy, built, notice, owner } = folders
  const earlier = earlierFolder(dataDir)
  await remove(copy, built, owner)
  if (!(await isMissing(notice))) {
    if (!(await isMissing(earlier))) await rename(earlier, retiredFolder(dataDir))
    await rename(notice, earlier)
    await syncFolder(dataDir)
  }
  await remove(working)
}
