import { asArray, asObject, type Json, mapValues, resolve } from '../contract/contract.ts'

/** Keywords of OpenAPI 3.0 that JSON Schema 2020-12 does not have. */
const droppedKeywords: ReadonlySet<string> = new Set(['nullable', 'discriminator', 'xml', 'externalDocs'])

/** The formats of JSON Schema that the contract uses. Strict clients refuse schemas with other formats. */
const knownFormats: ReadonlySet<unknown> = new Set(['uuid', 'date-time', 'date', 'email', 'uri-reference'])

/** The keywords whose values contain schemas, by the shape of the value. */
const schemaKeywords: ReadonlySet<string> = new Set(['items', 'additionalProperties', 'not'])
const listKeywords: ReadonlySet<string> = new Set(['anyOf', 'oneOf'])
const mapKeywords: ReadonlySet<string> = new Set(['properties'])

/**
 * Converts a schema of the contract to JSON Schema 2020-12, which the Model Context Protocol expects: references are inlined,
 * null becomes a type, and extensions are omitted. Inside itself, a recursive schema (a task with its subtasks) becomes any
 * object; `within` lists the references that are being inlined.
 */
export const toJsonSchema = (document: Json, schema: unknown, within: readonly unknown[] = []): Json => {
  const { $ref: reference } = asObject(schema)
  if (reference !== undefined && within.includes(reference)) return { type: 'object' }
  const path = reference === undefined ? within : [...within, reference]
  const convert = (value: unknown): unknown =>
    typeof value === 'boolean' ? value : toJsonSchema(document, value, path)
  const convertKeyword = (keyword: string, value: unknown): unknown => {
    if (schemaKeywords.has(keyword)) return convert(value)
    if (listKeywords.has(keyword)) return asArray(value).map(convert)
    return mapKeywords.has(keyword) ? mapValues(asObject(value), convert) : value
  }
  const { allOf = [], example, ...keywords } = resolve(document, schema)
  const [base = {}, ...more] = asArray(allOf).map((part) => toJsonSchema(document, part, path))
  const own = Object.entries(keywords)
    .filter(([keyword]) => !droppedKeywords.has(keyword) && !keyword.startsWith('x-'))
    .filter(([keyword, value]) => keyword !== 'format' || knownFormats.has(value))
    .map(([keyword, value]) => [keyword, convertKeyword(keyword, value)] as const)
  return {
    // In the contract, an allOf with one schema adds a description or a default to a reference.
    ...(more.length === 0 ? base : { allOf: [base, ...more] }),
    ...Object.fromEntries<unknown>(own),
    ...(keywords.nullable === true && { type: [keywords.type, 'null'] }),
    ...(example !== undefined && { examples: [example] }),
  }
}
