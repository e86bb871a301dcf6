import { Ajv, type ErrorObject, type KeywordDefinition, type ValidateFunction } from 'ajv'
import { isUtf8 } from 'node:buffer'
import secureJson from 'secure-json-parse'
import { isInstant } from '../domain/dates.ts'
import { isCleanText } from '../domain/text.ts'
import { type Problem, problems } from '../problems.ts'

/**
 * Validation of requests by the schemas of the contract. Bodies are never coerced, since that would turn a null of a
 * merge patch into something else; parameters arrive as text and are read as their schema says.
 */

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** One @, something on both sides, no white space, no control and no invisible formatting characters. */
const email = /^[^\s@\p{C}\p{Z}]+@[^\s@\p{C}\p{Z}]+$/u

/** What `x-normalize` does to a string before it is measured and matched. */
const normalizers: Readonly<Record<string, (text: string) => string>> = {
  line: (text) => text.normalize('NFC').trim(),
  nfc: (text) => text.normalize('NFC'),
  email: (text) => text.normalize('NFC').trim().toLowerCase().normalize('NFC'),
  lower: (text) => text.toLowerCase(),
  instant: (text) => (isInstant(text) ? new Date(text.toUpperCase()).toISOString() : text),
}

const normalize: KeywordDefinition = {
  keyword: 'x-normalize',
  type: 'string',
  schemaType: 'string',
  modifying: true,
  before: 'maxLength',
  validate: (
    name: string,
    text: string,
    _schema?: unknown,
    at?: { parentData: unknown; parentDataProperty: string | number },
  ) => {
    const normalizer = normalizers[name]
    if (normalizer === undefined) throw new Error(`There is no x-normalize ${name}`)
    const parent = at?.parentData as Record<string | number, unknown> | undefined
    if (at !== undefined && parent !== undefined) parent[at.parentDataProperty] = normalizer(text)
    return true
  },
}

const createAjv = (useDefaults: boolean): Ajv => {
  // Extensions and examples in the contract's schemas are not keywords of a stricter Ajv.
  // An error with the schema that it broke tells what would be right there.
  const verbose = true
  const ajv = new Ajv({ strict: false, coerceTypes: false, removeAdditional: false, useDefaults, verbose })
  ajv.addKeyword(normalize)
  ajv.addFormat('uuid', uuid)
  ajv.addFormat('date-time', isInstant)
  ajv.addFormat('email', email)
  for (const format of ['binary', 'password', 'uri-reference', 'int64']) ajv.addFormat(format, true)
  return ajv
}

const bodies = createAjv(true)
const parameters = createAjv(false)

interface PropertySchema {
  readonly type?: string
  readonly 'x-name'?: string
  /** Between the values of a list that is one text. */
  readonly 'x-separator'?: string
}

/** The schema of a part as the glue hands it on: references are resolved. */
export interface ObjectSchema {
  readonly [keyword: string]: unknown
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, PropertySchema>>
}

export type Part = 'body' | 'params' | 'querystring' | 'headers'
type Checked = { readonly value: unknown } | { readonly error: Problem }

/**
 * The check of one part of a request, in the form that Fastify asks of a validator compiler. It is compiled by the first
 * request, which takes some milliseconds: all of them together would take as long as the rest of the start.
 */
export const compileCheck = (part: Part, schema: ObjectSchema): ((value: unknown) => Checked) => {
  let compiled: ValidateFunction | undefined
  const read = part === 'querystring' || part === 'headers' ? textReader(schema) : (value: unknown) => value
  return (input) => {
    const validate = (compiled ??= (part === 'body' ? bodies : parameters).compile(schema))
    const value = read(input ?? null)
    // Headers stay as they came, which is what everybody else takes them for.
    if (validate(value)) return { value: part === 'headers' ? input : value }
    return { error: problemOf(part, validate.errors?.[0], schema) }
  }
}

const problemOf = (part: Part, error: ErrorObject | undefined, schema: ObjectSchema): Problem => {
  if (error === undefined) return problems.invalidRequest('The request is not valid.')
  if (part === 'body' && error.instancePath === '' && error.keyword === 'type') {
    return problems.invalidRequest('The body must be a JSON object.', [
      { pointer: '', detail: 'must be an object' },
    ])
  }
  const { pointer, detail } = describe(error)
  return problems.invalidField(part === 'headers' ? headerPointer(pointer, schema) : pointer, detail)
}

/** Node gives header names in lower case; the contract has them as people write them. */
const headerPointer = (pointer: string, { properties = {} }: ObjectSchema): string =>
  `/${properties[pointer.slice(1)]?.['x-name'] ?? pointer.slice(1)}`

/** Where an error of Ajv is, and what would be right there. */
const describe = (error: ErrorObject): { pointer: string; detail: string } => {
  const params: Readonly<Record<string, unknown>> = error.params
  const inside = (name: unknown) => `${error.instancePath}/${escapePointer(String(name))}`
  switch (error.keyword) {
    case 'required':
      return { pointer: inside(params.missingProperty), detail: 'is required' }
    case 'additionalProperties':
      return {
        pointer: inside(params.additionalProperty),
        detail: `is not known here; ${knownNames(error.parentSchema)}`,
      }
    case 'enum':
      return { pointer: error.instancePath, detail: `must be one of ${asList(params.allowedValues)}` }
    case 'format':
      return {
        pointer: error.instancePath,
        detail: `must be ${formatNames[String(params.format)] ?? 'well-formed'}`,
      }
    default:
      return {
        pointer: error.instancePath,
        detail: `${describeRule(error.keyword, params) ?? error.message ?? 'is not valid'}${hints[`${error.keyword} ${error.instancePath}`] ?? ''}`,
      }
  }
}

/** The rules whose text by Ajv is made for the authors of schemas. */
const describeRule = (
  keyword: string,
  { type, limit }: Readonly<Record<string, unknown>>,
): string | undefined => {
  switch (keyword) {
    case 'type':
      return `must be ${[type].flat().map(nameType).join(' or ')}`
    case 'minimum':
      return `must be ${String(limit)} or more`
    case 'maximum':
      return `must be ${String(limit)} or less`
    case 'minLength':
    case 'minItems':
      return `must have at least ${count(limit, keyword)}`
    case 'maxLength':
    case 'maxItems':
      return `must have at most ${count(limit, keyword)}`
    case 'uniqueItems':
      return 'must not have the same item twice'
    default:
      return undefined
  }
}

const count = (limit: unknown, keyword: string): string =>
  `${String(limit)} ${keyword.endsWith('Items') ? 'item' : 'character'}${limit === 1 ? '' : 's'}`

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'a whole number in decimal digits',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
}

const nameType = (type: unknown): string => typeNames[String(type)] ?? String(type)

/** What would be right, by the rule that was broken and where. */
const hints: Readonly<Record<string, string>> = {
  'maximum /offset': '; read on with cursor instead',
  'pattern /username':
    ': lower-case letters, digits, dots, underscores and hyphens, with a letter or digit at both ends',
  'pattern /sort':
    ': up to three fields that the contract names, parted by commas, each with a minus in front to turn it round',
  'pattern /color': ', such as #d92d20',
  'pattern /idempotency-key': ': visible ASCII characters without spaces',
  'pattern /upload-checksum': ': an algorithm, a space and Base64',
  'pattern /upload-metadata': ': names, each with a space and its value in Base64, and commas between them',
}

const formatNames: Readonly<Record<string, string>> = {
  uuid: 'a UUID',
  'date-time': 'an RFC 3339 date and time, such as 2026-11-02T09:00:00Z',
  email: 'an email address',
}

const knownNames = ({ properties = {} }: ObjectSchema = {}): string => {
  const names = Object.keys(properties)
  return names.length === 0 ? 'there are none' : `known are ${names.join(', ')}`
}

const asList = (values: unknown): string =>
  Array.isArray(values) ? values.map(String).join(', ') : String(values)

const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

/**
 * Reads a query or headers by their schema: integers from decimal digits, booleans from true and false, and a list from one value
 * as well as from several, or from one text with separators. What does not read so stays text and fails its type.
 */
const textReader = ({ properties = {} }: ObjectSchema): ((texts: unknown) => unknown) => {
  const read = ({ type, 'x-separator': separator }: PropertySchema, value: unknown): unknown => {
    if (type === 'array' && separator !== undefined && typeof value === 'string')
      return value.split(separator)
    if (type === 'array') return Array.isArray(value) ? value : [value]
    if (type === 'integer' && typeof value === 'string' && /^\d+$/.test(value)) return Number(value)
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
    throw problems.invalidRequest('The query is not percent-encoded UTF-8 text without U+0000.')
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

/**
 * Parses a JSON body: UTF-8, no U+0000 or lone surrogate in any string, no key that would reach a prototype.
 *
 * @throws Problem
 */
export const parseJson = (bytes: Buffer): unknown => {
  if (bytes.length === 0) throw problems.invalidRequest('The body is empty; it must be a JSON object.')
  if (!isUtf8(bytes)) throw problems.invalidRequest('The body is not valid UTF-8.')
  const text = bytes.toString()
  const value = parseSafely(text)
  // In valid UTF-8 only an escape can bring such a character in.
  if (text.includes('\\u')) checkStrings(value)
  return value
}

const parseSafely = (text: string): unknown => {
  try {
    return secureJson.parse(text) as unknown
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error
    const isPrototype = error.message.includes('forbidden prototype property')
    throw problems.invalidRequest(
      isPrototype
        ? 'The body has a key __proto__ or constructor.prototype, which is never taken.'
        : 'The body is not valid JSON.',
    )
  }
}

/** Walks a value with a list of its own instead of the call stack, so that depth cannot exhaust it. */
const checkStrings = (root: unknown): void => {
  const open: { readonly value: unknown; readonly pointer: string }[] = [{ value: root, pointer: '' }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, pointer } = next
    if (typeof value === 'string' && !isCleanText(value)) {
      throw problems.invalidRequest('A text in the body has U+0000 or half of a surrogate pair in it.', [
        { pointer, detail: 'must be text without U+0000 and without halves of surrogate pairs' },
      ])
    }
    if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries(value)) {
        // The key is looked at first, so that no pointer goes through one that is refused.
        open.push({ value: item, pointer: `${pointer}/${escapePointer(key)}` }, { value: key, pointer })
      }
    }
  }
}
