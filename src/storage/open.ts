import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { diskStorage } from './disk.ts'
import type { Storage } from './storage.ts'

/** The folder of the file storage on disk. */
export const filesFolder = ({ dataDir }: Pick<Config, 'dataDir'>): string => join(dataDir, 'attachments')

export type StorageConfig = Pick<Config, 'storageUrl' | 'dataDir' | 'diskReserveBytes'>

/** Opens the configured bucket, or the folder on disk. The AWS SDK is loaded only for a bucket. */
export const openStorage = async (
  config: StorageConfig,
  { mayCreate = true }: { readonly mayCreate?: boolean } = {},
): Promise<Storage> => {
  if (config.storageUrl === null)
    return diskStorage(filesFolder(config), { reserveBytes: config.diskReserveBytes, mayCreate })
  const { s3Storage } = await import('./s3.ts')
  return s3Storage(config.storageUrl)
}
