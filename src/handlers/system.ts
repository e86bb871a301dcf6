import { createHash } from 'node:crypto'
import type { Contract } from '../contract.ts'
import type { Database } from '../db/client.ts'
import { checkConnection } from '../db/health.ts'
import { jsonText } from '../domain/json-text.ts'
import { type Handlers, quoteETag } from '../operation.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../storage/storage.ts'

interface Deps {
  readonly contract: Contract
  readonly db: Database
  readonly storage: Storage
}

/** The operations of the contract's tag `system`. */
export const systemHandlers = ({ contract, db, storage }: Deps) => {
  const yamlETag = quoteETag(digest(contract.yaml))
  const jsonETag = quoteETag(digest(contract.json))
  return {
    async getLiveness() {
      return { status: 200, body: { status: 'ok' } }
    },

    async getReadiness() {
      await Promise.all([checkConnection(db), checkStorage(storage)])
      return { status: 200, body: { status: 'ok' } }
    },

    async getContract() {
      return {
        status: 200,
        headers: { etag: yamlETag },
        contentType: 'application/yaml; charset=utf-8',
        body: contract.yaml.toString(),
      }
    },

    async getContractJson() {
      return { status: 200, headers: { etag: jsonETag }, body: jsonText(contract.json) }
    },
  } satisfies Partial<Handlers>
}

/** A storage that is full is as good as none to whoever asks for readiness. */
const checkStorage = async (storage: Storage): Promise<void> => {
  try {
    await storage.check()
  } catch (error) {
    throw error instanceof StorageFull ? new StorageUnavailable({ cause: error }) : error
  }
}

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('base64url')
