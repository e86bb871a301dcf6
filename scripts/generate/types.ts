import { writeFileSync } from 'node:fs'
import openapiTS, { astToString, COMMENT_HEADER } from 'openapi-typescript'
import { loadContract } from '../../src/contract/contract.ts'

/**
 * Writes the types of the contract to generated/openapi.ts. Clients must expect other values than those in `x-extensible-enum`, but the
 * service sends no others, so they are types here.
 */
const types = await openapiTS(loadContract().json.replaceAll('"x-extensible-enum":', '"enum":'))
writeFileSync('generated/openapi.ts', `${COMMENT_HEADER}${astToString(types)}`)
