import { createHash } from 'node:crypto'
import type { components } from '../../generated/openapi.ts'
import type { Contract } from '../contract/contract.ts'
import { jsonText } from '../contract/json-text.ts'
import { quoteETag } from '../contract/operation.ts'
import { version } from '../domain/shared/version.ts'
import type { CheckReadiness } from '../services/upkeep/readiness.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly contract: Contract
  readonly checkReadiness: CheckReadiness
}

/** The operations of the contract's tag `system`. */
export const systemHandlers = ({ contract, checkReadiness }: Deps) => {
  const yamlETag = quoteETag(digest(contract.yaml))
  const jsonETag = quoteETag(digest(contract.json))
  return {
    async getLiveness() {
      return { status: 200, body: { status: 'ok', version } }
    },

    async getReadiness() {
      const { isStorageReady, hasRoom } = await checkReadiness()
      const degraded: components['schemas']['Readiness']['degraded'] = []
      if (!hasRoom) degraded.push('database')
      if (!isStorageReady) degraded.push('attachments')
      return { status: 200, body: { status: 'ok', version, degraded } }
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
      return {
        status: 200,
        headers: { etag: jsonETag },
        body: jsonText<components['schemas']['Contract']>(contract.json),
      }
    },
  } satisfies Partial<Handlers>
}

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('base64url')
