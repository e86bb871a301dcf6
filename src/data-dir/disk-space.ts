import { statfs } from 'node:fs/promises'

/** Bytes that this process may write to the disk of a folder. */
export const freeBytesOf = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** The disk has too little free space for the database. */
export class DiskFull extends Error {
  override readonly name = 'DiskFull'

  constructor(dataDir: string, freeBytes: number, options?: ErrorOptions) {
    super(
      `The disk with DATA_DIR ${dataDir} is full: the database needs more than the ${Math.floor(freeBytes / 1_048_576)} MiB that are free. Free up space, then start again`,
      options,
    )
  }
}
