import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { diskStorage } from './disk.ts'
import type { Storage } from './storage.ts'

/** Where the files are when they are not in a bucket. */
export const filesFolder = ({ dataDir }: Pick<Config, 'dataDir'>): string => join(dataDir, 'attachments')

/** What decides where files are kept. */
export type StorageConfig = Pick<Config, 'storageUrl' | 'dataDir' | 'diskReserveBytes'>

/** The configured bucket, or a folder when there is none. The SDK is loaded for whoever uses it. */
export const openStorage = async (config: StorageConfig): Promise<Storage> => {
  if (config.storageUrl === null)
    return diskStorage(filesFolder(config), { reserveBytes: config.diskReserveBytes })
  const { s3Storage } = await import('./s3.ts')
  return s3Storage(config.storageUrl)
}
