import { statfs } from 'node:fs/promises'

/**
 * Bytes. With less free space, the embedded database refuses writes or soon cannot continue: the segments of its write-ahead log alone are
 * 16 MiB each.
 */
export const minFreeBytes = 32 * 1_048_576

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
