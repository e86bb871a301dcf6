import t from 'tap'
import { loadContract, parseContract } from '../../src/contract/contract.ts'
import { startService } from '../fixture/service.ts'

/** Nothing in the contract is deprecated yet, so the tests add a deprecation to a copy. */

const yaml = loadContract().yaml.toString()

/** Adds lines after the line `start`, which must be unique, with the same indentation. */
const mark = (text: string, start: string, ...lines: readonly string[]): string => {
  const indent = /^ */.exec(start)?.[0] ?? ''
  const [before, after, ...others] = text.split(`\n${start}\n`)
  if (after === undefined || others.length > 0) throw new Error(`openapi.yaml does not have one ${start}`)
  return [before, start, ...lines.map((line) => `${indent}${line}`), after].join('\n')
}

const getTag = '      operationId: getTag'
const untagged = '      name: untagged'
const dates = ["x-deprecated: '2027-01-31'", "x-sunset: '2028-01-31'"]

t.test('responses to requests with a deprecated operation or parameter announce it', async (t) => {
  const operation = mark(yaml, getTag, 'deprecated: true', ...dates)
  const both = mark(
    operation,
    untagged,
    'deprecated: true',
    "x-deprecated: '2027-02-28'",
    "x-sunset: '2029-01-01'",
  )
  const service = await startService(t, { contract: parseContract(Buffer.from(both)) })
  const { token } = await service.register('ada')
  const announced = ({ headers }: { headers: Headers }) => [headers.get('deprecation'), headers.get('sunset')]

  const { body: tag } = await service.expect('createTag', 201, { token, body: { name: 'release' } })
  const ofOperation = ['@1801353600', 'Mon, 31 Jan 2028 00:00:00 GMT']
  const params = { tag_id: tag.id }
  t.strictSame(announced(await service.expect('getTag', 200, { token, params })), ofOperation)
  t.strictSame(announced(await service.expect('getTag', 401, { params })), ofOperation, 'also in a problem')
  t.strictSame(announced(await service.expect('deleteTag', 204, { token, params })), [null, null])

  const used = await service.expect('listTasks', 200, { token, query: { untagged: true } })
  t.strictSame(announced(used), ['@1803772800', 'Mon, 01 Jan 2029 00:00:00 GMT'])
  t.strictSame(announced(await service.expect('listTasks', 200, { token })), [null, null])
})

t.test('a deprecation without two dates at least twelve months apart is rejected', async (t) => {
  const parse =
    (...lines: readonly string[]) =>
    () =>
      parseContract(Buffer.from(mark(yaml, getTag, 'deprecated: true', ...lines)))
  t.doesNotThrow(parse(...dates))
  t.throws(parse("x-sunset: '2028-01-31'"), /getTag is deprecated and has no x-deprecated/)
  t.throws(parse("x-deprecated: '2027-01-31'"), /getTag is deprecated and has no x-sunset/)
  t.throws(parse("x-deprecated: '2027-01-31'", "x-sunset: 'soon'"), /has no x-sunset/)
  t.throws(parse("x-deprecated: '2027-01-31'", "x-sunset: '2028-01-30'"), /less than 12 months/)
})
