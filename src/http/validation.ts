import { Ajv, type ErrorObject, type SchemaValidateFunction, type ValidateFunction } from 'ajv'
import { canonicalInstant, canonicalTimeOrDay, isDay, isInstant } from '../domain/shared/dates.ts'
import { canonicalEmail } from '../domain/accounts/email-address.ts'
import type { Principal } from '../domain/shared/permissions.ts'
import { isVisible, toNfc } from '../domain/shared/text.ts'
import { canonicalTimeZone } from '../domain/shared/time-zones.ts'
import { escapePointer, type Problem, type ProblemError, problems } from '../problems/problems.ts'
import { validateText } from './json-body.ts'
import { countedWords, formatWords, hints, patternWords, typeWords } from './words.ts'

/**
 * Validates requests against the schemas of the contract. Bodies are never coerced, since that would replace the nulls of a
 * merge patch; parameters are text and are converted to their schema's type. Read-only fields of a valid body are dropped; `version` is
 * not one of them, `takeVersion` (conditional.ts) makes it a condition.
 */

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** The id of the user; null if the operation requires no token. */
type CallerId = string | null

/** The values of `x-normalize`, applied to text that is not too long, before length and pattern are checked. */
const normalizers: Readonly<Record<string, (text: string, callerId: CallerId) => string>> = {
  line: (text) => toNfc(text).trim(),
  nfc: toNfc,
  // Other text is kept, and fails the format.
  email: (text) => canonicalEmail(text) ?? text,
  lower: (text) => text.toLowerCase(),
  instant: (text) => canonicalInstant(text) ?? text,
  time_or_date: (text) => canonicalTimeOrDay(text) ?? text,
  time_zone: (text) => canonicalTimeZone(text) ?? text,
  user: (text, callerId) => {
    if (callerId === null) throw new Error('An operation without a token takes the id of a user')
    if (text === 'me') return callerId
    // Other text is kept in its case, so that ME is refused.
    return uuid.test(text) ? text.toLowerCase() : text
  },
}

/** Whether a text has more code points than a limit; each has at most two code units. */
const isLonger = (text: string, limit: number): boolean =>
  text.length > limit && (text.length > 2 * limit || Array.from(text).length > limit)

/** `this` is the context with which the compiled schema was called (`passContext`). */
const normalize: SchemaValidateFunction = function (
  this: { readonly callerId: CallerId },
  name: string,
  text: string,
  schema?: Readonly<Record<string, unknown>>,
  at?: { parentData: unknown; parentDataProperty: string | number },
) {
  const normalizer = normalizers[name]
  if (normalizer === undefined) throw new Error(`Unknown x-normalize ${name}`)
  // The contract limits what is sent as well as what is stored; the next keyword reports it.
  if (isLonger(text, Number(schema?.maxLength ?? Infinity))) return true
  const normalized = normalizer(text, this.callerId)
  const parent = at?.parentData as Record<string | number, unknown> | undefined
  if (at !== undefined && parent !== undefined) parent[at.parentDataProperty] = normalized
  if (name !== 'line' || normalized === '' || isVisible(normalized)) return true
  normalize.errors = [
    { keyword: 'x-normalize', message: 'must have at least one visible character', params: {} },
  ]
  return false
}

const createAjv = (options: { readonly useDefaults: boolean; readonly allErrors: boolean }): Ajv => {
  // Not strict: the contract's schemas have extensions and examples, which Ajv does not know.
  // Verbose: errors then include the schema, which has the expected names.
  const ajv = new Ajv({
    ...options,
    strict: false,
    coerceTypes: false,
    removeAdditional: false,
    verbose: true,
    passContext: true,
  })
  ajv.addKeyword({
    keyword: 'x-normalize',
    type: 'string',
    schemaType: 'string',
    modifying: true,
    before: 'maxLength',
    validate: normalize,
  })
  ajv.addFormat('uuid', uuid)
  ajv.addFormat('date-time', isInstant)
  ajv.addFormat('date', isDay)
  ajv.addFormat('time-or-date', (text) => canonicalTimeOrDay(text) !== null)
  ajv.addFormat('time-zone', (text) => canonicalTimeZone(text) !== null)
  ajv.addFormat('email', (text) => canonicalEmail(text) !== null)
  for (const format of ['binary', 'password', 'uri-reference', 'int64']) ajv.addFormat(format, true)
  return ajv
}

/** Compiles equal schemas once: many operations have the same parameters. */
const createCompile = (options: {
  readonly useDefaults: boolean
  readonly allErrors: boolean
}): ((schema: ObjectSchema) => ValidateFunction) => {
  const ajv = createAjv(options)
  const compiled = new Map<string, ValidateFunction>()
  return (schema) => {
    const text = JSON.stringify(schema)
    const validate = compiled.get(text) ?? ajv.compile(schema)
    compiled.set(text, validate)
    return validate
  }
}

/** Collecting all errors is expensive, so it is done only after a first, fast validation has failed. */
const compilers = (useDefaults: boolean) => ({
  first: createCompile({ useDefaults, allErrors: false }),
  all: createCompile({ useDefaults, allErrors: true }),
})
const bodies = compilers(true)
const parameters = compilers(false)

/** What `dropNulls` reads of a schema. */
interface BodySchema {
  readonly nullable?: boolean
  readonly allOf?: readonly BodySchema[]
  readonly items?: BodySchema
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, BodySchema>>
  /** In a merge patch, null is a value. */
  readonly 'x-merge-patch'?: boolean
}

interface PropertySchema extends BodySchema {
  readonly type?: string
  readonly readOnly?: boolean
  readonly 'x-name'?: string
}

/** The schema of a part of a request, with references resolved. */
export interface ObjectSchema extends BodySchema {
  readonly [keyword: string]: unknown
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, PropertySchema>>
}

/** The parts of a request in the order in which their errors are reported. */
const parts = ['params', 'body', 'querystring', 'headers'] as const
type Part = (typeof parts)[number]

/** The schemas of an operation's request, by part. */
export type RequestSchemas = { readonly [part in Part]?: ObjectSchema | undefined } & {
  /** Whether the body is a merge patch, in which null is not the same as a missing field. */
  readonly isPatch?: boolean
}

/** The parts of a request. Valid ones are replaced by their converted and normalized values, without the read-only fields of the body. */
export interface RequestParts {
  params: unknown
  body: unknown
  query: unknown
  readonly headers: unknown
  /** Null if the operation requires no token. */
  readonly principal: Principal | null
}

/**
 * Returns the validator of an operation's requests, which reports the errors of all parts together. Schemas are compiled on
 * the first request, a few milliseconds each: compiling all of them would double the time of a start.
 */
export const compileValidation = (schemas: RequestSchemas): ((request: RequestParts) => void) => {
  const compiled = parts.flatMap((part) => {
    const schema = schemas[part]
    return schema === undefined
      ? []
      : [{ part, validate: compilePart(part, schema, schemas.isPatch === true) }]
  })
  /** @throws Problem */
  return (request) => {
    const callerId = request.principal?.userId ?? null
    const errors = compiled.flatMap(({ part, validate }) => {
      const name = part === 'querystring' ? 'query' : part
      const result = validate(request[name], callerId)
      // Headers stay text: Fastify and the hooks expect strings.
      if (result.errors === null && name !== 'headers') request[name] = result.value
      return result.errors ?? []
    })
    if (errors.length > 0) throw problemOf(errors)
  }
}

const problemOf = (errors: readonly ProblemError[]): Problem => {
  const [first, ...more] = errors
  return first?.pointer === '' && more.length === 0
    ? problems.invalidRequest(`The body ${first.detail}.`, errors)
    : problems.invalidFields(errors)
}

interface Validated {
  readonly value: unknown
  readonly errors: readonly ProblemError[] | null
}

const compilePart = (
  part: Part,
  schema: ObjectSchema,
  isPatch: boolean,
): ((input: unknown, callerId: CallerId) => Validated) => {
  const { first, all } = part === 'body' ? bodies : parameters
  const read = readerOf(part, schema, isPatch)
  const toCompile = withLowerCaseIds(schema) as ObjectSchema
  const dropReadOnly = dropperOf(schema)
  let findFirst: ValidateFunction | undefined
  let findAll: ValidateFunction | undefined
  return (input, callerId) => {
    const context = { callerId }
    if (part === 'querystring' && Object.keys(input ?? {}).length > maxParameters)
      throw problems.invalidRequest(`The query must have at most ${maxParameters} different parameters.`)
    findFirst ??= first(toCompile)
    const value = read(input ?? null)
    const textErrors = part === 'querystring' ? validateTexts(value) : []
    if (textErrors.length > 0) return { value, errors: textErrors }
    if (findFirst.call(context, value)) {
      dropReadOnly(value)
      return { value, errors: null }
    }
    let { errors } = findFirst
    if (isSmall(value)) {
      findAll ??= all(toCompile)
      if (!findAll.call(context, value)) ({ errors } = findAll)
    }
    return { value, errors: describeAll(part, schema, errors ?? []) }
  }
}

/** Converts the input of a part to what its schema describes. */
const readerOf = (part: Part, schema: ObjectSchema, isPatch: boolean): ((input: unknown) => unknown) => {
  if (part === 'querystring' || part === 'headers') return textReader(schema)
  if (part === 'params' || isPatch) return (value) => value
  return (value) => {
    dropNulls(schema, value)
    return value
  }
}

/**
 * Removes the fields of a body that are null, but neither required nor nullable: generated clients send null for a field that
 * is not set. The contract would otherwise need a nullable type for each of them. Unknown fields stay, and are refused.
 */
const dropNulls = (schema: BodySchema, value: unknown): void => {
  if (typeof value !== 'object' || value === null || schema['x-merge-patch'] === true) return
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const item of value as unknown[]) dropNulls(schema.items, item)
    return
  }
  const fields = value as Record<string, unknown>
  const { properties = {}, required = [] } = schema
  for (const [name, property] of Object.entries(properties)) {
    if (fields[name] !== null) dropNulls(property, fields[name])
    else if (!required.includes(name) && !isNullable(property)) delete fields[name]
  }
}

/** In the contract, an allOf with one schema adds a description or a default to a reference. */
const isNullable = ({ nullable = false, allOf = [] }: BodySchema): boolean =>
  nullable || allOf.some(isNullable)

/** Removes the read-only fields of a valid body, which clients send that change what they have read and send it back. */
const dropperOf = ({ properties = {} }: ObjectSchema): ((body: unknown) => void) => {
  const names = Object.keys(properties).filter((name) => properties[name]?.readOnly === true)
  return (body) => {
    if (typeof body !== 'object' || body === null) return
    for (const name of names) Reflect.deleteProperty(body, name)
  }
}

/** UUIDs are case-insensitive (RFC 9562, section 4); the service stores and compares them in lower case. */
const withLowerCaseIds = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(withLowerCaseIds)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => [keyword, withLowerCaseIds(value)]),
  )
  return copy.format === 'uuid' ? { ...copy, 'x-normalize': 'lower' } : copy
}

/** Runs before normalization. Bodies are checked by the parser, and patterns restrict headers to ASCII. */
const validateTexts = (query: unknown): readonly ProblemError[] =>
  Object.entries(query ?? {}).flatMap(([name, value]) => {
    const fault = [value].flat().map((one) => (typeof one === 'string' ? validateText(one) : null))
    const detail = fault.find((one) => one !== null)
    return detail == null ? [] : [{ pointer: `/${escapePointer(name)}`, detail }]
  })

/** Query parameters. Several times as many as any operation defines. */
const maxParameters = 100

/** In a body with more values, only the first error is reported. */
const maxValues = 10_000

/** Whether a body has at most `maxValues` values. Iterative, so that deep nesting cannot exhaust the call stack. */
const isSmall = (root: unknown): boolean => {
  const open = [root]
  let count = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue
    const values = Array.isArray(next) ? (next as unknown[]) : Object.values(next)
    count += values.length
    if (count > maxValues) return false
    for (const value of values) open.push(value)
  }
  return true
}

/** The first error of each location. */
const describeAll = (
  part: Part,
  schema: ObjectSchema,
  errors: readonly ErrorObject[],
): readonly ProblemError[] => {
  const byPointer = new Map<string, ProblemError>()
  for (const error of errors) {
    const { pointer, detail } = describe(part, error)
    const named = part === 'headers' ? headerPointer(pointer, schema) : pointer
    if (!byPointer.has(named)) byPointer.set(named, { pointer: named, detail })
  }
  return [...byPointer.values()]
}

/** Node lower-cases header names; `x-name` has the canonical spelling. */
const headerPointer = (pointer: string, { properties = {} }: ObjectSchema): string =>
  `/${properties[pointer.slice(1)]?.['x-name'] ?? pointer.slice(1)}`

/** Translates an error of Ajv into a location and a rule. */
const describe = (part: Part, error: ErrorObject): ProblemError => {
  const params: Readonly<Record<string, unknown>> = error.params
  const inside = (name: unknown) => `${error.instancePath}/${escapePointer(String(name))}`
  switch (error.keyword) {
    case 'required':
      return { pointer: inside(params.missingProperty), detail: 'is required' }
    case 'additionalProperties':
      return {
        pointer: inside(params.additionalProperty),
        detail: `is not a known ${part === 'body' ? 'field' : 'parameter'}. ${expectedNames(error.parentSchema)}`,
      }
    case 'enum':
      return { pointer: error.instancePath, detail: `must be one of ${asList(params.allowedValues)}` }
    // Fields that exclude each other are not `required` together.
    case 'not': {
      const { required } = error.schema as { readonly required: readonly [string, string] }
      return {
        pointer: inside(required[1]),
        detail: `cannot be combined with ${required[0]}; send one of them`,
      }
    }
    case 'format':
      return {
        pointer: error.instancePath,
        detail: `must be ${formatWords[String(params.format)] ?? 'well-formed'}`,
      }
    case 'pattern':
      return {
        pointer: error.instancePath,
        detail: `must ${patternWords[String(params.pattern)] ?? 'have another form'}`,
      }
    case 'type':
      return { pointer: error.instancePath, detail: describeType(part, params.type, error.data) }
    default:
      return {
        pointer: error.instancePath,
        detail: `${describeRule(error.keyword, params) ?? error.message ?? 'is not valid'}${hints[`${error.keyword} ${error.instancePath}`] ?? ''}`,
      }
  }
}

/** A parameter that is sent twice is an array. */
const describeType = (part: Part, type: unknown, value: unknown): string =>
  part === 'querystring' && Array.isArray(value)
    ? 'must not appear more than once'
    : `must be ${[type].flat().map(nameType).join(' or ')}`

/** Replaces Ajv's messages that are written for authors of schemas. */
const describeRule = (keyword: string, { limit }: Readonly<Record<string, unknown>>): string | undefined => {
  switch (keyword) {
    case 'minimum':
      return `must be ${String(limit)} or more`
    case 'maximum':
      return `must be ${String(limit)} or less`
    case 'minLength':
    case 'minItems':
    case 'minProperties':
      return `must have at least ${count(limit, keyword)}`
    case 'maxLength':
    case 'maxItems':
    case 'maxProperties':
      return `must have at most ${count(limit, keyword)}`
    case 'uniqueItems':
      return 'must not contain duplicates'
    default:
      return undefined
  }
}

const count = (limit: unknown, keyword: string): string =>
  `${String(limit)} ${countedWords[keyword.slice('max'.length)] ?? 'value'}${limit === 1 ? '' : 's'}`

const nameType = (type: unknown): string => typeWords[String(type)] ?? String(type)

const expectedNames = ({ properties = {} }: ObjectSchema = {}): string => {
  const names = Object.keys(properties).filter((name) => properties[name]?.readOnly !== true)
  return names.length === 0 ? 'None is expected' : `Expected one of: ${names.join(', ')}`
}

const asList = (values: unknown): string =>
  Array.isArray(values) ? values.map(String).join(', ') : String(values)

/**
 * Converts a query or headers to the types of their schema: integers, booleans, and lists from several values, each of which can be
 * comma-separated. Other text is left as it is, and fails the type check.
 */
const textReader = ({ properties = {} }: ObjectSchema): ((texts: unknown) => unknown) => {
  const read = ({ type }: PropertySchema, value: unknown): unknown => {
    if (type === 'array')
      return [value].flat().flatMap((item) => (typeof item === 'string' ? item.split(',') : [item]))
    if (type === 'integer' && typeof value === 'string' && /^(\d+|-[1-9]\d*)$/.test(value))
      return Number(value)
    if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
    return value
  }
  const schemas = new Map(Object.entries(properties))
  return (texts) =>
    Object.fromEntries(
      Object.entries(texts ?? {}).map(([name, value]) => [name, read(schemas.get(name) ?? {}, value)]),
    )
}

/**
 * Checks that a URL's query is percent-encoded UTF-8 without U+0000.
 *
 * @throws Problem
 */
export const checkQueryText = (url: string): void => {
  const start = url.indexOf('?')
  if (start === -1) return
  const query = url.slice(start + 1)
  if (!isDecodable(query) || /%00|\0/.test(query)) {
    throw problems.invalidRequest('The query must be percent-encoded UTF-8 without U+0000.')
  }
}

const isDecodable = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
