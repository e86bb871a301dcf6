import {
  asArray,
  asObject,
  type Contract,
  type ContractOperation,
  type Json,
  resolve,
} from '../contract/contract.ts'
import type { DispatchedRequest } from '../contract/dispatch.ts'
import { toJsonSchema } from './json-schema.ts'

/** The tools of the Model Context Protocol: the operations of the contract with `x-mcp: true`. */

export interface Tool {
  readonly name: string
  readonly operation: ContractOperation
  /** As `tools/list` returns it. */
  readonly definition: ToolDefinition
  /** The HTTP request of a call. Arguments are not validated: the operation does that. */
  readonly requestOf: (args: Readonly<Record<string, unknown>>) => DispatchedRequest
}

interface ToolDefinition {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: ObjectJsonSchema
  readonly outputSchema?: ObjectJsonSchema
  readonly annotations: ToolAnnotations
}

interface ObjectJsonSchema {
  readonly [keyword: string]: unknown
  readonly type: 'object'
}

interface ToolAnnotations {
  readonly title: string
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
  /** Separates the items of a list that is sent as one value. */
  readonly separator: string | null
}

/** Headers that become arguments. Other headers concern only the HTTP representation. */
const argumentHeaders: ReadonlySet<string> = new Set(['If-Match', 'Idempotency-Key'])

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
  const schema = successSchemaOf(document, operation, node)
  const title = String(node.summary)
  return {
    name,
    operation,
    definition: {
      name,
      title,
      description: `${title}. ${String(node.description)}`,
      inputSchema: inputSchemaOf(argumentsByName),
      ...(schema !== null && { outputSchema: outputSchemaOf(document, schema) }),
      annotations: annotationsOf(title, operation),
    },
    requestOf: (args) => requestOf(operation, argumentsByName, args),
  }
}

/** `listTasks` becomes `list_tasks`, and `If-Match` becomes `if_match`. */
const snakeCase = (name: string): string =>
  name
    .replaceAll('-', '_')
    .replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`)
    .toLowerCase()

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
      const separator = schema['x-separator']
      const { description, example } = parameter
      const described = { ...schema, description, ...(example !== undefined && { example }) }
      return [
        snakeCase(String(parameter.name)),
        {
          part: partOf(parameter.in),
          name: String(parameter.name),
          schema: toJsonSchema(document, described),
          isRequired: parameter.required === true,
          separator: typeof separator === 'string' ? separator : null,
        },
      ]
    })

const partOf = (place: unknown): Argument['part'] => {
  if (place === 'path' || place === 'query' || place === 'header') return place
  throw new Error(`A parameter of a tool cannot be in ${String(place)}`)
}

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
  return Object.entries(asObject(properties)).map(([name, schema]) => [
    name,
    { part: 'body', name, schema: asObject(schema), isRequired: isRequired.has(name), separator: null },
  ])
}

const inputSchemaOf = (argumentsByName: ReadonlyMap<string, Argument>): ObjectJsonSchema => ({
  type: 'object',
  properties: Object.fromEntries([...argumentsByName].map(([name, { schema }]) => [name, schema])),
  required: [...argumentsByName].filter(([, { isRequired }]) => isRequired).map(([name]) => name),
  additionalProperties: false,
})

/**
 * The schema of a result. It includes problems, because some clients validate the result of a failed call as well. The members
 * of a problem are omitted: they would take a third of the list of tools, which assistants read.
 */
const outputSchemaOf = (document: Json, schema: unknown): ObjectJsonSchema => {
  const { type, description, required } = resolve(document, { $ref: '#/components/schemas/Problem' })
  return { type: 'object', anyOf: [toJsonSchema(document, schema), { type, description, required }] }
}

/** The schema of the response; null if it has no body. */
const successSchemaOf = (document: Json, { id }: ContractOperation, node: Json): unknown => {
  const responses = asObject(node.responses)
  const status = Object.keys(responses).find((one) => one.startsWith('2'))
  if (status === undefined) throw new Error(`${id} documents no success`)
  const { content } = resolve(document, responses[status])
  return content === undefined ? null : asObject(asObject(content)['application/json']).schema
}

const annotationsOf = (title: string, { method }: ContractOperation): ToolAnnotations => ({
  title,
  readOnlyHint: method === 'GET',
  destructiveHint: method === 'DELETE' || method === 'PUT',
  idempotentHint: method === 'GET' || method === 'DELETE' || method === 'PUT',
  // A tool affects only this service.
  openWorldHint: false,
})

const requestOf = (
  { method, path, mediaTypes }: ContractOperation,
  argumentsByName: ReadonlyMap<string, Argument>,
  args: Readonly<Record<string, unknown>>,
): DispatchedRequest => {
  const hasBody = mediaTypes.length > 0
  const segments = new Map<string, string>()
  const query = new URLSearchParams()
  const headers: Record<string, string> = hasBody ? { 'content-type': 'application/json' } : {}
  const body: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(args)) {
    // The operation refuses an unknown argument, and its problem lists the known ones.
    const unknown = { part: hasBody ? 'body' : 'query', name: key, separator: null } as const
    const { part, name, separator } = argumentsByName.get(key) ?? unknown
    if (part === 'body') body[name] = value
    // Assistants send null for optional arguments.
    else if (value === null) continue
    else if (part === 'path') segments.set(name, textOf(value))
    else if (part === 'header') headers[name.toLowerCase()] = textOf(value)
    else if (separator !== null && Array.isArray(value)) query.set(name, value.map(textOf).join(separator))
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

/** A missing value, or dots, which would change the path, become a value that the operation refuses. */
const segmentOf = (value = ''): string => (/^\.{0,2}$/.test(value) ? '-' : encodeURIComponent(value))
