import { readdirSync, readFileSync } from 'node:fs'
import { loadContract } from '../../src/contract/contract.ts'
import { coverageFolder } from '../client/contract-check.ts'

/** Reports documented responses that no test has received. Returns whether all were received. */
export const reportCoverage = (): boolean => {
  const received = new Set(
    readdirSync(coverageFolder).flatMap((file) =>
      readFileSync(new URL(file, coverageFolder), 'utf8').split('\n'),
    ),
  )
  const documented = [...loadContract().operations.values()].flatMap(({ id, constantHeaders }) =>
    Object.keys(constantHeaders).map((status) => `${id} ${status}`),
  )
  const missing = documented.filter((line) => !received.has(line))
  console.log(
    `contract coverage: ${documented.length - missing.length} of ${documented.length} documented responses were tested`,
  )
  if (missing.length > 0) console.error(`Not tested:\n  ${missing.join('\n  ')}`)
  return missing.length === 0
}
