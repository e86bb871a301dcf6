import t from 'tap'
import { formatWords, patternWords } from '../../src/http/words.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { type Operation, operations, pathParameters } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/** The messages about invalid values say in words what is allowed, and show no regular expression. */

const service = await startService(t)
const { token } = await service.register('admin')

/** The schemas within a schema, and itself. Read-only fields are included. */
const schemasIn = (schema: Located): readonly Located[] => {
  const named = (keyword: string) =>
    Object.keys(schema.node[keyword] ?? {}).flatMap((name) => member(schema, keyword, name) ?? [])
  const inner = [
    ...named('properties'),
    ...named('allOf'),
    ...(member(schema, 'items') ? [member(schema, 'items')] : []),
  ]
  // Embedded resources are responses, and recursive.
  return [schema, ...inner.flatMap((one) => (one === undefined || isResource(one) ? [] : schemasIn(one)))]
}

const isResource = ({ node }: Located): boolean =>
  typeof node.properties === 'object' && node.properties !== null && 'created_at' in node.properties

const parametersOf = ({ path, method }: Operation): readonly Located[] =>
  [
    ['paths', path, 'parameters'],
    ['paths', path, method.toLowerCase(), 'parameters'],
  ].flatMap((pointer) =>
    Object.keys(lookUp(pointer)?.node ?? {}).flatMap((index) => lookUp([...pointer, index]) ?? []),
  )

const bodyOf = ({ path, method, mediaTypes }: Operation): Located | undefined =>
  lookUp(['paths', path, method.toLowerCase(), 'requestBody', 'content', mediaTypes[0] ?? '', 'schema'])

t.test('every pattern and format of a request has words', async (t) => {
  // Formats that are not validated.
  const open = new Set(['binary', 'password', 'int64'])
  for (const operation of operations) {
    const schemas = [
      ...parametersOf(operation).flatMap((parameter) => member(parameter, 'schema') ?? []),
      ...[bodyOf(operation)].flatMap((body) => body ?? []),
    ].flatMap(schemasIn)
    for (const { node, pointer } of schemas) {
      const { pattern, format } = node
      const place = `${operation.id} ${pointer.join('/')}`
      if (typeof pattern === 'string') t.ok(pattern in patternWords, `${place} ${pattern}`)
      if (typeof format === 'string' && !open.has(format)) t.ok(format in formatWords, `${place} ${format}`)
    }
  }
})

t.test('no words are left over', async (t) => {
  const text = JSON.stringify(lookUp([])?.node)
  for (const pattern of Object.keys(patternWords)) t.ok(text.includes(JSON.stringify(pattern)), pattern)
})

/** A text that a schema refuses by its pattern or format; undefined if it refuses none. */
const refusedBy = ({ node }: Located): string | undefined => {
  const { pattern, format, minLength = 0, maxLength = Infinity } = node
  const texts = ['#', 'x', '#x', '\u00e9 #', 'y'.repeat(Number(minLength))]
  const isRefused = (text: string): boolean =>
    typeof pattern === 'string' ? !new RegExp(pattern, 'u').test(text) : String(format) in formatWords
  return texts.find(
    (text) => text.length >= Number(minLength) && text.length <= Number(maxLength) && isRefused(text),
  )
}

const wordsOf = ({ node }: Located): string =>
  typeof node.pattern === 'string'
    ? `must ${patternWords[node.pattern]}`
    : `must be ${formatWords[String(node.format)]}`

/** The value that is refused, its location within the parameter or field, and the words. */
const refusal = (
  schema: Located,
): { readonly value: unknown; readonly at: string; readonly words: string } | null => {
  const part = member(schema, 'allOf', '0')
  if (part !== undefined) return refusal(part)
  const items = member(schema, 'items')
  if (schema.node.type === 'array' && items !== undefined) {
    const inner = refusal(items)
    return inner && { ...inner, value: [inner.value], at: `/0${inner.at}` }
  }
  const text = schema.node.enum === undefined ? refusedBy(schema) : undefined
  return text === undefined ? null : { value: text, at: '', words: wordsOf(schema) }
}

for (const operation of operations) {
  const { id, mediaTypes } = operation
  const request: Call = {
    token,
    params: Object.fromEntries(pathParameters(operation).map((name) => [name, newId()])),
  }
  const queries = parametersOf(operation).flatMap((parameter) => {
    const schema = parameter.node.in === 'query' ? member(parameter, 'schema') : undefined
    const refused = schema && refusal(schema)
    return refused == null ? [] : [{ name: String(parameter.node.name), ...refused }]
  })
  const body = mediaTypes.includes('application/json') ? bodyOf(operation) : undefined
  const fields = Object.keys(body?.node.properties ?? {}).flatMap((name) => {
    const schema = body && member(body, 'properties', name)
    const refused = schema && refusal(schema)
    return refused == null ? [] : [{ name, ...refused }]
  })
  if (queries.length + fields.length === 0) continue
  t.test(`${id}: says in words what is allowed`, async (t) => {
    const check = async (call: Call, pointer: string, words: string) => {
      const { status, body } = await service.call(id, { ...request, ...call })
      t.equal(status, 400, pointer)
      const { errors = [] } = body as { errors?: readonly { pointer: string; detail: string }[] }
      t.equal(errors.find((error) => error.pointer === pointer)?.detail, words, pointer)
    }
    for (const { name, value, at, words } of queries)
      await check({ query: { [name]: String(value) } }, `/${name}${at}`, words)
    for (const { name, value, at, words } of fields)
      await check({ body: { [name]: value } }, `/${name}${at}`, words)
  })
}

t.test('numbers and repeated parameters', async (t) => {
  for (const [query, pointer, detail] of [
    ['limit=-1', '/limit', 'must be 1 or more'],
    ['limit=0', '/limit', 'must be 1 or more'],
    ['limit=ten', '/limit', 'must be an integer'],
    ['limit=1.5', '/limit', 'must be an integer'],
    ['limit=1&limit=2', '/limit', 'must not appear more than once'],
    ['sort=title&sort=due', '/sort', 'must not appear more than once'],
    ['all=true&all=true', '/all', 'must not appear more than once'],
    ['offset=-5', '/offset', 'must be 0 or more'],
    ['project_id=', '/project_id/0', 'must be a UUID or none'],
  ] as const) {
    const { body } = await service.expect('listTasks', 400, { token, query })
    t.match(body.errors, [{ pointer, detail }], query)
  }
})

t.test('leap seconds, and years that an offset moves out of range', async (t) => {
  const detail = /in the years 0001 to 9999 of UTC, without a leap second$/
  for (const time of ['2016-12-31T23:59:60Z', '9999-12-31T23:59:59-01:00', '0001-01-01T00:00:00+01:00']) {
    const { body } = await service.expect('createTask', 400, { token, body: { title: 'x', due_at: time } })
    t.match(body.errors, [{ pointer: '/due_at', detail }], time)
    const query = { due_before: time }
    t.match((await service.expect('listTasks', 400, { token, query })).body.errors, [{ detail }], time)
    const filter = { filter: `due_at < ${time}` }
    t.match(
      (await service.expect('listTasks', 400, { token, query: filter })).body.errors,
      [{ detail }],
      time,
    )
  }
})
