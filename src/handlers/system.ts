import { createHash } from 'node:crypto'
import type { Contract } from '../contract/contract.ts'
import type { Database } from '../db/engine/client.ts'
import { checkConnection } from '../db/engine/health.ts'
import { jsonText } from '../contract/json-text.ts'
import { rememberFor } from '../concurrency/remember.ts'
import { type Handlers, quoteETag } from '../contract/operation.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../storage/storage.ts'

interface Deps {
  readonly contract: Contract
  readonly db: Database
  readonly storage: Storage
  /** Milliseconds for which the result of a readiness check is remembered. */
  readonly readinessTime: number
}

/** The operations of the contract's tag `system`. */
export const systemHandlers = ({ contract, db, storage, readinessTime }: Deps) => {
  const yamlETag = quoteETag(digest(contract.yaml))
  const jsonETag = quoteETag(digest(contract.json))
  // The check writes a file and asks the database, and anybody can ask for it.
  const checkReadiness = rememberFor(readinessTime, () =>
    Promise.all([takesFiles(storage), checkConnection(db)]),
  )
  return {
    async getLiveness() {
      return { status: 200, body: { status: 'ok' } }
    },

    async getReadiness() {
      const [storageWorks] = await checkReadiness()
      return { status: 200, body: { status: 'ok', degraded: storageWorks ? [] : ['attachments'] } }
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

const takesFiles = async (storage: Storage): Promise<boolean> => {
  try {
    await storage.check()
    return true
  } catch (error) {
    if (error instanceof StorageFull || error instanceof StorageUnavailable) return false
    throw error
  }
}

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('base64url')
