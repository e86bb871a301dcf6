import { readdirSync, readFileSync } from 'node:fs'
import { loadContract } from '../src/contract.ts'
import { coverageFolder } from '../test/fixture/contract-check.ts'

/** Fails when an operation of the contract has a status that no test has seen. Runs after the tests. */

const seen = new Set(
  readdirSync(coverageFolder)
    .flatMap((file) => readFileSync(new URL(file, coverageFolder), 'utf8').split('\n'))
    .filter((line) => line !== ''),
)
const documented = [...loadContract().operations.values()].flatMap(({ id, constantHeaders }) =>
  Object.keys(constantHeaders).map((status) => `${id} ${status}`),
)
const missing = documented.filter((line) => !seen.has(line))

console.log(
  `contract coverage: ${documented.length - missing.length} of ${documented.length} documented answers were seen`,
)
if (missing.length > 0) {
  console.error(`No test saw these:\n  ${missing.join('\n  ')}`)
  process.exitCode = 1
}
