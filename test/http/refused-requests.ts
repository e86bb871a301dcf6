import t from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { type Operation, operations } from '../fixture/operations.ts'
import { type Call, fileForm, startService } from '../fixture/service.ts'
import { pointersOf } from '../fixture/tasks.ts'
import { pieceHeaders, tusHeaders } from '../fixture/uploads.ts'

/**
 * Every operation refuses what the schemas of its path, query and body refuse, and names each parameter and field that is wrong. The
 * ids in the paths are those of nothing, because a request is validated before anything is read.
 */

const service = await startService(t)
const { token } = await service.register('admin')

/** A value that a schema refuses. `at` is the place of the error within it. */
interface Refused {
  readonly value: unknown
  readonly at?: string
}

const limitOf = ({ node }: Located, keyword: string): number | null =>
  typeof node[keyword] === 'number' ? node[keyword] : null

const malformed: Readonly<Record<string, readonly string[]>> = {
  uuid: ['x', `${newId()}0`, newId().replaceAll('-', '')],
  email: ['nobody', '@example.com', 'a@b@example.com'],
  date: ['tomorrow', '2026-02-30'],
  'date-time': ['tomorrow', '2026-02-30T00:00:00Z', '2026-11-02'],
  'time-or-date': ['tomorrow', '2026-02-30'],
  'time-zone': ['Mars/Olympus'],
}

/** Every pattern of a parameter or field refuses one of them, unless it refuses only control characters. */
const odd = ['none of these', '?', '  ']

const textsRefusedBy = (schema: Located): readonly string[] => {
  const { enum: allowed, format, pattern, 'x-normalize': normalize } = schema.node
  const [shortest, longest] = [limitOf(schema, 'minLength'), limitOf(schema, 'maxLength')]
  return [
    ...(Array.isArray(allowed) ? ['nonsense'] : []),
    ...(malformed[String(format)] ?? []),
    ...(typeof pattern === 'string' ? odd.filter((text) => !new RegExp(pattern, 'u').test(text)) : []),
    ...(shortest === null || shortest === 0 ? [] : ['x'.repeat(shortest - 1)]),
    ...(normalize === 'line' ? [' \t\u3000'] : []),
    ...(longest === null ? [] : ['x'.repeat(longest + 1)]),
    // The length is that of the text as it is sent.
    ...(normalize === 'line' && longest !== null ? [`${'x'.repeat(longest)} `] : []),
  ]
}

const numbersRefusedBy = (schema: Located): readonly number[] => {
  const [least, most] = [limitOf(schema, 'minimum'), limitOf(schema, 'maximum')]
  return [...(least === null ? [] : [least - 1]), ...(most === null ? [] : [most + 1])]
}

/** A schema with another description is an `allOf` of one part. */
const wholeOf = (schema: Located): Located => member(schema, 'allOf', '0') ?? schema

const refusedByParameter = (parameter: Located): readonly Refused[] => {
  const schema = wholeOf(parameter)
  const items = member(schema, 'items')
  if (items !== undefined) return refusedByParameter(items).map(({ value }) => ({ value, at: '/0' }))
  const valuesOf = (): readonly unknown[] => {
    switch (schema.node.type) {
      case 'integer':
        return [...numbersRefusedBy(schema), 'many', '1.5', '']
      case 'boolean':
        return ['yes', '1', 'TRUE', '']
      default:
        return textsRefusedBy(schema)
    }
  }
  return valuesOf().map((value) => ({ value }))
}

const refusedByField = (field: Located): readonly Refused[] => {
  const schema = wholeOf(field)
  const items = member(schema, 'items')
  const valuesOf = (): readonly unknown[] => {
    switch (schema.node.type) {
      case 'array':
        return [{}, 'x', ...(limitOf(schema, 'minItems') === null ? [] : [[]])]
      case 'integer':
        return [...numbersRefusedBy(schema), 1.5, '1']
      case 'boolean':
        return ['true', 1]
      case 'string':
        return [...textsRefusedBy(schema), 7, ['x']]
      default:
        return ['x', 7]
    }
  }
  const inItems = items === undefined ? [] : refusedByField(items)
  return [
    ...valuesOf().map((value) => ({ value })),
    ...inItems.map(({ value, at = '' }) => ({ value: [value], at: `/0${at}` })),
  ]
}

/** A place in a request, and what is refused there. */
interface Place {
  readonly part: 'params' | 'query' | 'body'
  readonly name: string
  readonly refused: readonly Refused[]
}

const unheardOf = { name: 'unheard_of', refused: [{ value: 'x' }] }

const bodyOf = (operation: Located): Located | undefined =>
  member(operation, 'requestBody', 'content', 'application/json', 'schema')

const parametersOf = (owner: Located): readonly Place[] =>
  Object.keys(owner.node.parameters ?? []).flatMap((index): Place[] => {
    const parameter = member(owner, 'parameters', index)
    const schema = parameter && member(parameter, 'schema')
    const place = parameter?.node.in
    if (schema === undefined || (place !== 'path' && place !== 'query')) return []
    const part = place === 'path' ? 'params' : 'query'
    return [{ part, name: String(parameter?.node.name), refused: refusedByParameter(schema) }]
  })

/** In a merge patch, null clears a field. Elsewhere, it is the same as no value. */
const fieldsOf = (body: Located, isMergePatch: boolean): readonly Place[] => {
  const { properties = {}, required = [] } = body.node
  const names = new Set(Array.isArray(required) ? required : [])
  return Object.keys(properties as object).flatMap((name): Place[] => {
    const field = member(body, 'properties', name)
    if (field === undefined || field.node.readOnly === true) return []
    const isNull = isMergePatch && wholeOf(field).node.nullable !== true ? [{ value: null }] : []
    const missing = names.has(name) ? [{ value: undefined }, { value: null }] : isNull
    return [{ part: 'body', name, refused: [...missing, ...refusedByField(field)] }]
  })
}

const placesIn = ({ path, method, scope }: Operation): readonly Place[] => {
  const item = lookUp(['paths', path])
  const operation = item && member(item, method.toLowerCase())
  if (item === undefined || operation === undefined) throw new Error(`${path} is not in the contract`)
  const body = bodyOf(operation)
  const isClosed = body?.node.additionalProperties === false
  return [
    ...parametersOf(item),
    ...parametersOf(operation),
    ...(scope === 'link' ? [] : [{ part: 'query', ...unheardOf } as const]),
    ...(body === undefined ? [] : fieldsOf(body, method === 'PATCH')),
    ...(isClosed ? [{ part: 'body', ...unheardOf } as const] : []),
  ]
}

/** What is not in the contract's examples, or excludes other fields. */
const prepared: Partial<Record<Operation['id'], Call>> = {
  downloadLinkedAttachment: { query: { token: 'AAAA' } },
  downloadLinkedExport: { query: { token: 'AAAA' } },
  getFeedCalendar: { query: { token: 'AAAA' } },
  addTaskAttachment: { body: fileForm('x') },
  createImport: { body: fileForm('x') },
  previewRecurrence: { body: { rule: 'FREQ=DAILY' } },
  createUpload: { headers: tusHeaders(5) },
  createImportUpload: { headers: tusHeaders(5) },
  appendUpload: { headers: pieceHeaders(0), body: 'x' },
  getUploadOffset: { headers: { 'tus-resumable': '1.0.0' } },
  abortUpload: { headers: { 'tus-resumable': '1.0.0' } },
}

/** A well-formed request about nothing. */
const wellFormed = ({ id, path, method, isOpen }: Operation): Call => {
  const bodyExamples = ['requestBody', 'content', 'application/json', 'examples']
  const examples = ['paths', path, method.toLowerCase(), ...bodyExamples]
  const [example = ''] = Object.keys(lookUp(examples)?.node ?? {})
  const body = lookUp([...examples, example])?.node.value
  return { ...(isOpen ? {} : { token }), ...(body !== undefined && { body }), ...prepared[id] }
}

/** A problem names at most twenty errors. */
const most = 20

for (const operation of operations) {
  const { id, method } = operation
  t.test(`${id}: 400`, async (t) => {
    const places = placesIn(operation)
    const request = wellFormed(operation)
    const ids = places.filter(({ part }) => part === 'params').map(({ name }) => [name, newId()] as const)
    const params: Record<string, string> = { ...Object.fromEntries(ids), kind: 'blocks' }
    const rounds = Math.max(...places.map(({ refused }) => refused.length))
    for (let round = 0; round < rounds; round += 1) {
      const wrong = places.flatMap(({ part, name, refused }) => {
        const one = refused[round]
        return one === undefined ? [] : [{ part, name, ...one }]
      })
      for (let from = 0; from < wrong.length; from += most) {
        const some = wrong.slice(from, from + most)
        const changesOf = (part: Place['part']): object =>
          Object.fromEntries(some.filter((one) => one.part === part).map(({ name, value }) => [name, value]))
        const isInBody = some.some(({ part }) => part === 'body')
        const { status, body } = await service.call(id, {
          ...request,
          params: { ...params, ...changesOf('params') },
          query: { ...(request.query as object), ...changesOf('query') },
          ...(isInBody && { body: { ...(request.body as object), ...changesOf('body') } }),
        })
        const what = JSON.stringify(some, (_, value: unknown) =>
          typeof value === 'string' ? value.slice(0, 50) : value,
        )
        t.equal(status, 400, what)
        if (method === 'HEAD') continue
        // A rule about several fields has no pointer.
        const pointers = pointersOf(body as object).filter((pointer) => pointer !== '')
        const expected = some.map(({ name, at = '' }) => `/${name}${at}`)
        t.strictSame(pointers.toSorted(), expected.toSorted(), what)
      }
    }
  })
}
