import { join } from 'node:path'
import type { Config } from '../config.ts'
import { diskStorage } from './disk.ts'
import type { Storage } from './storage.ts'

/** Where the files are when they are not in a bucket. */
export const filesFolder = ({ dataDir }: Pick<Config, 'dataDir'>): string => join(dataDir, 'attachments')

/** The configured bucket, or a folder when there is none. The SDK is loaded for whoever uses it. */
export const openStorage = async (config: Pick<Config, 'storageUrl' | 'dataDir'>): Promise<Storage> => {
  if (config.storageUrl === null) return diskStorage(filesFolder(config))
  const { s3Storage } = await import('./s3.ts')
  return s3Storage(config.storageUrl)
}
