import { asArray, asObject, type Json, mapValues, resolve } from '../contract/contract.ts'
import { forModels } from './descriptions.ts'

/**
 * Keywords of OpenAPI 3.0 that JSON Schema 2020-12 does not have, and those that tell a model nothing that the description does
 * not: the operation validates the arguments, and its problems say what is expected.
 */
const droppedKeywords: ReadonlySet<string> = new Set([
  'nullable',
  'discriminator',
  'xml',
  'externalDocs',
  'example',
  'pattern',
  'minLength',
  'minItems',
])

/** The formats of JSON Schema that the contract uses. Strict clients refuse schemas with other formats. */
const knownFormats: ReadonlySet<unknown> = new Set(['uuid', 'date-time', 'date', 'email', 'uri-reference'])

/** Formats of the contract that are several formats of JSON Schema. */
const unions: ReadonlyMap<unknown, Json> = new Map([
  ['time-or-date', { anyOf: [{ format: 'date-time' }, { format: 'date' }] }],
])

/** The keywords whose values contain schemas, by the shape of the value. */
const schemaKeywords: ReadonlySet<string> = new Set(['items', 'additionalProperties', 'not'])
const listKeywords: ReadonlySet<string> = new Set(['anyOf', 'oneOf'])
const mapKeywords: ReadonlySet<string> = new Set(['properties'])

/** Without read-only properties, some of which are recursive. */
const writable = (properties: Json): Json =>
  Object.fromEntries(Object.entries(properties).filter(([, schema]) => asObject(schema).readOnly !== true))

/** Without the properties of an object that another tool or argument shows already. */
const shown = (schema: Json): Json => {
  if (schema['x-mcp-opaque'] !== true) return schema
  const { properties: _, additionalProperties: __, ...others } = schema
  return others
}

/**
 * Converts the schema of an input to JSON Schema 2020-12, which the Model Context Protocol expects: references are inlined, null
 * becomes a type. `x-mcp-description` and `x-mcp-opaque` are obeyed, and all extensions omitted.
 */
export const toJsonSchema = (document: Json, schema: unknown): Json => {
  const convert = (value: unknown): unknown =>
    typeof value === 'boolean' ? value : toJsonSchema(document, value)
  const convertKeyword = (keyword: string, value: unknown): unknown => {
    if (schemaKeywords.has(keyword)) return convert(value)
    if (listKeywords.has(keyword)) return asArray(value).map(convert)
    return mapKeywords.has(keyword) ? mapValues(writable(asObject(value)), convert) : value
  }
  const { allOf = [], description, ...keywords } = shown(resolve(document, schema))
  const [base = {}, ...more] = asArray(allOf).map((part) => toJsonSchema(document, part))
  const own = Object.entries(keywords)
    .filter(([keyword]) => !droppedKeywords.has(keyword) && !keyword.startsWith('x-'))
    .filter(([keyword, value]) => keyword !== 'format' || knownFormats.has(value))
    .map(([keyword, value]) => [keyword, convertKeyword(keyword, value)] as const)
  const text = keywords['x-mcp-description'] ?? description
  return {
    // In the contract, an allOf with one schema adds a description or a default to a reference.
    ...(more.length === 0 ? base : { allOf: [base, ...more] }),
    ...Object.fromEntries<unknown>(own),
    ...unions.get(keywords.format),
    ...(keywords.nullable === true && { type: [keywords.type, 'null'] }),
    ...(typeof text === 'string' && { description: forModels(text) }),
  }
}
