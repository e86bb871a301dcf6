import {
  asArray,
  asObject,
  type Contract,
  type ContractOperation,
  type Json,
  resolve,
} from '../contract/contract.ts'
import type { DispatchedRequest } from '../contract/dispatch.ts'
import { forModels, snakeCase } from './descriptions.ts'
import { toJsonSchema } from './json-schema.ts'

/**
 * The tools of the Model Context Protocol: the operations of the contract with `x-mcp`. Models read the whole list, so it has no
 * schemas of results, which would be two thirds of it: a model sees the result itself.
 *
 * Models send null for arguments that they leave unset, so null is the same as no argument. What a request of the operation sets
 * to null, a call names in `clear`.
 */

export interface Tool {
  readonly name: string
  readonly operation: ContractOperation
  /** As `tools/list` returns it. */
  readonly definition: ToolDefinition
  /**
   * The HTTP request of a call, or what is wrong with its arguments, for the model. Arguments are not validated otherwise: the
   * operation does that.
   */
  readonly requestOf: (args: Arguments) => DispatchedRequest | { readonly fault: string }
}

type Arguments = Readonly<Record<string, unknown>>

interface ToolDefinition {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: ObjectJsonSchema
  readonly annotations: ToolAnnotations
}

interface ObjectJsonSchema {
  readonly [keyword: string]: unknown
  readonly type: 'object'
}

interface ToolAnnotations {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}

/** An argument of a tool, and its place in the HTTP request. */
interface Argument {
  readonly part: 'path' | 'query' | 'header' | 'body'
  /** The name in the HTTP request. */
  readonly name: string
  readonly schema: Json
  readonly isRequired: boolean
}

/** Headers that become arguments. Other headers concern only the HTTP representation. */
const argumentHeaders: ReadonlySet<string> = new Set(['If-Match', 'Idempotency-Key'])

/** What tools accept as If-Match: a version as it is, or tags. */
const versionText: Json = { type: ['string', 'integer'], pattern: undefined, maxLength: undefined }

/** @throws Error if an operation cannot be a tool */
export const deriveTools = (contract: Contract): ReadonlyMap<string, Tool> => {
  const tools = [...contract.operations.values()]
    .filter(({ isTool }) => isTool)
    .map((operation) => deriveTool(contract.document, operation))
  return new Map(tools.map((tool) => [tool.name, tool]))
}

const deriveTool = (document: Json, operation: ContractOperation): Tool => {
  // The message that calls the tool was already counted against this policy.
  if (operation.rateLimit !== 'api')
    throw new Error(`${operation.id} has another rate limit than api, so it cannot be a tool`)
  const name = snakeCase(operation.id)
  const path = asObject(asObject(document.paths)[operation.path])
  const own = asObject(path[operation.method.toLowerCase()])
  // The parameters of a path apply to all of its operations.
  const parameters = [...asArray(path.parameters ?? []), ...asArray(own.parameters ?? [])]
  const node: Json = { ...own, parameters }
  const argumentsByName = argumentsOf(document, operation, node)
  const clearable = clearableOf(operation, argumentsByName)
  const title = String(node.summary)
  return {
    name,
    operation,
    definition: {
      name,
      title,
      description: `${title}. ${forModels(String(node['x-mcp-description'] ?? node.description))}`,
      inputSchema: inputSchemaOf(argumentsByName, clearable),
      annotations: annotationsOf(operation),
    },
    requestOf: (args) => {
      const { [clearArgument]: clear, ...others } = args
      if (clearable.length === 0) return requestOf(operation, argumentsByName, args)
      const cleared = [clear ?? []].flat().map(textOf)
      const fault = faultOf(cleared, others)
      return fault === null ? requestOf(operation, argumentsByName, others, cleared) : { fault }
    },
  }
}

const argumentsOf = (
  document: Json,
  operation: ContractOperation,
  node: Json,
): ReadonlyMap<string, Argument> => {
  const found = [
    ...parameterArguments(document, operation, node),
    ...bodyArguments(document, operation, node),
  ]
  const byName = new Map(found)
  if (byName.size !== found.length)
    throw new Error(`${operation.id} has two inputs with one name, so it cannot be a tool`)
  return byName
}

const parameterArguments = (
  document: Json,
  { method }: ContractOperation,
  node: Json,
): readonly (readonly [string, Argument])[] =>
  asArray(node.parameters)
    .map((parameter) => resolve(document, parameter))
    // The conditions of a read, which save bandwidth, are of no use to a tool.
    .filter(
      (parameter) =>
        parameter.in !== 'header' || (method !== 'GET' && argumentHeaders.has(String(parameter.name))),
    )
    .map((parameter) => {
      const schema = resolve(document, parameter.schema)
      const description = parameter['x-mcp-description'] ?? parameter.description
      const described = { ...schema, ...(parameter.name === 'If-Match' && versionText), description }
      return [
        snakeCase(String(parameter.name)),
        {
          part: partOf(parameter.in),
          name: String(parameter.name),
          schema: toJsonSchema(document, described),
          isRequired: parameter.required === true,
        },
      ]
    })

const partOf = (place: unknown): Argument['part'] => {
  if (place === 'path' || place === 'query' || place === 'header') return place
  throw new Error(`A parameter of a tool cannot be in ${String(place)}`)
}

/** A condition in a body. Tools have the argument `if_match` for it. */
const conditionField = 'version'

const bodyArguments = (
  document: Json,
  { id, mediaTypes }: ContractOperation,
  node: Json,
): readonly (readonly [string, Argument])[] => {
  if (mediaTypes.length === 0) return []
  const content = asObject(asObject(node.requestBody).content)['application/json']
  if (content === undefined) throw new Error(`${id} does not accept JSON, so it cannot be a tool`)
  const { properties, required } = toJsonSchema(document, asObject(content).schema)
  const isRequired = new Set(asArray(required ?? []))
  return Object.entries(asObject(properties))
    .map(([name, schema]) => [name, asObject(schema)] as const)
    .filter(([name]) => name !== conditionField)
    .map(([name, schema]) => [name, { part: 'body', name, schema, isRequired: isRequired.has(name) }])
}

/** The argument that names the fields to set to null. */
const clearArgument = 'clear'

/** The fields that can be set to null. In a creation, that is the same as omitting them. */
const clearableOf = (
  { repeat }: ContractOperation,
  argumentsByName: ReadonlyMap<string, Argument>,
): readonly string[] => {
  if (repeat === 'key') return []
  return [...argumentsByName]
    .filter(([, { part, schema }]) => part === 'body' && isNullable(schema))
    .map(([name]) => name)
}

const isNullable = ({ type }: Json): boolean => Array.isArray(type) && type.includes('null')

/** The schema of an argument, in which null means nothing. */
const withoutNull = (schema: Json): Json =>
  isNullable(schema) ? { ...schema, type: asArray(schema.type).find((type) => type !== 'null') } : schema

const inputSchemaOf = (
  argumentsByName: ReadonlyMap<string, Argument>,
  clearable: readonly string[],
): ObjectJsonSchema => ({
  type: 'object',
  properties: {
    ...Object.fromEntries([...argumentsByName].map(([name, { schema }]) => [name, withoutNull(schema)])),
    ...(clearable.length > 0 && {
      [clearArgument]: {
        type: 'array',
        items: { type: 'string', enum: clearable },
        description:
          'The fields to set to null. An argument that is null or missing leaves its field as it is.',
      },
    }),
  },
  required: [...argumentsByName].filter(([, { isRequired }]) => isRequired).map(([name]) => name),
  additionalProperties: false,
})

const annotationsOf = ({ method, repeat, isDestructive }: ContractOperation): ToolAnnotations => ({
  readOnlyHint: method === 'GET',
  destructiveHint: isDestructive,
  // A repeat does nothing more, or is refused.
  idempotentHint: repeat === 'same' || typeof repeat === 'number',
  // A tool affects only this service.
  openWorldHint: false,
})

const faultOf = (cleared: readonly string[], args: Arguments): string | null => {
  const both = cleared.filter((name) => (args[name] ?? null) !== null)
  return both.length === 0 ? null : `${both.join(', ')}: give a value or name it in clear, not both.`
}

const requestOf = (
  { method, path, mediaTypes }: ContractOperation,
  argumentsByName: ReadonlyMap<string, Argument>,
  args: Arguments,
  cleared: readonly string[] = [],
): DispatchedRequest => {
  const hasBody = mediaTypes.length > 0
  const segments = new Map<string, string>()
  const query = new URLSearchParams()
  const headers: Record<string, string> = hasBody ? { 'content-type': 'application/json' } : {}
  const body = Object.fromEntries<unknown>(cleared.map((name) => [name, null]))
  for (const [key, value] of Object.entries(args)) {
    if (value === null) continue
    // The operation refuses an unknown argument, and its problem lists the known ones.
    const unknown = { part: hasBody ? 'body' : 'query', name: key } as const
    const { part, name } = argumentsByName.get(key) ?? unknown
    if (part === 'body') body[name] = value
    else if (part === 'path') segments.set(name, textOf(value))
    else if (part === 'header') headers[name.toLowerCase()] = headerOf(name, textOf(value))
    else for (const one of [value].flat()) query.append(name, textOf(one))
  }
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => segmentOf(segments.get(name)))
  const search = query.toString()
  return {
    method,
    path: search === '' ? filled : `${filled}?${search}`,
    headers,
    body: hasBody ? JSON.stringify(body) : undefined,
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** A version, such as `7`, is quoted in If-Match. */
const headerOf = (name: string, value: string): string =>
  name === 'If-Match' && /^\d+$/.test(value) ? `"${value}"` : value

/** A missing value, or dots, which would change the path, become a value that the operation refuses. */
const segmentOf = (value = ''): string => (/^\.{0,2}$/.test(value) ? '-' : encodeURIComponent(value))
