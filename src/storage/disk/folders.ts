import { readdir, statfs } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { syncFolder } from '../../data-dir/folder.ts'
import { expectKey } from '../keys.ts'
import { StorageFull } from '../storage.ts'
import { makeFolder, onDisk } from './file-system.ts'

/**
 * The layout of the folder:
 *
 *     incoming/<key>   an incomplete file, moved to its shard once it is complete and synced
 *     <shard>/<key>    a complete file; its shard is the last two characters of the key, which are random
 *     owner.json       the owner record
 */

export const shards = Array.from({ length: 256 }, (_, index) => index.toString(16).padStart(2, '0'))
export const incomingFolder = 'incoming'

/** The folders of the storage, and the check of its free space. */
export interface Disk {
  readonly root: string
  /** The folder of incomplete files. */
  readonly incoming: string
  readonly checkSpace: CheckSpace
}

/**
 * Creates the folders if the parent of `folder` exists.
 *
 * @throws StorageFull, StorageUnavailable when the folders cannot be created
 */
export async function openDisk(
  folder: string,
  { reserveBytes, mayCreate }: { readonly reserveBytes: number; readonly mayCreate: boolean },
): Promise<Disk> {
  const root = resolve(folder)
  const incoming = join(root, incomingFolder)
  if (mayCreate) await onDisk(() => makeFolders(root))
  const checkSpace: CheckSpace = (bytes) => onDisk(() => checkReserve(incoming, reserveBytes, bytes))
  return { root, incoming, checkSpace }
}

/** The path of a complete file. */
export function pathOf({ root }: Disk, key: string): string {
  return join(root, key.slice(-2), expectKey(key))
}

/** The path of an incomplete file. */
export function incomingPathOf({ incoming }: Disk, key: string): string {
  return join(incoming, expectKey(key))
}

/**
 * Resolves if `bytes` more fit on the disk.
 *
 * @throws StorageFull
 */
export type CheckSpace = (bytes: number) => Promise<void>

/** Bytes between two checks of the free space, which concurrent uploads reduce too. */
export const reserveCheckEvery = 8 * 1024 * 1024

export const noSpaceCheck: CheckSpace = async () => undefined

/** @throws StorageFull */
export async function checkReserve(folder: string, reserveBytes: number, bytes: number): Promise<void> {
  if (reserveBytes === 0) return
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (free - bytes >= reserveBytes) return
  const cause = new Error(
    `${free} bytes of the disk are free, of which ${reserveBytes} are reserved (DISK_RESERVE_BYTES)`,
  )
  throw new StorageFull({ cause })
}

/**
 * Creates and syncs all shards in advance. With shards created on demand, an upload could be acknowledged before the shard
 * that a concurrent upload had just created was durable.
 */
async function makeFolders(root: string): Promise<void> {
  const isNew = await makeFolder(root)
  const present = new Set(await readdir(root))
  const missing = [incomingFolder, ...shards].filter((name) => !present.has(name))
  await Promise.all(missing.map((name) => makeFolder(join(root, name))))
  await syncFolder(root)
  if (isNew) await syncFolder(dirname(root))
}
