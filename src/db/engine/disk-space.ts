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
