import { readFile, writeFile } from 'node:fs/promises'
import { load } from 'js-yaml'

/**
 * Writes the part of the contract that progenitor supports: operations with JSON, and one media type per body. It removes operations
 * that accept only other media types, and those of tus, because its HTTP client does not support OPTIONS. Problems become
 * application/json.
 *
 *     node scripts/sdk/progenitor/json-only.ts openapi.yaml contract.json
 */

type Content = Readonly<Record<string, object>>

interface Body {
  readonly content?: Content
}

interface Operation {
  readonly 'x-protocol'?: string
  readonly requestBody?: Body
  readonly responses: Readonly<Record<string, Body>>
}

interface Document {
  /** Operations by method, and fields that apply to all operations of a path. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>
  readonly components: { readonly responses: Readonly<Record<string, Body>> }
}

const mapValues = <From, To>(
  object: Readonly<Record<string, From>>,
  change: (value: From) => To,
): Record<string, To> =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]))

const withJsonProblem = (response: Body): Body => {
  const problem = response.content?.['application/problem+json']
  return problem === undefined ? response : { ...response, content: { 'application/json': problem } }
}

/** Whether the operation is not part of another protocol, and accepts JSON or no body. */
const isSupported = ({ requestBody, 'x-protocol': protocol }: Operation): boolean =>
  protocol === undefined && (requestBody?.content === undefined || 'application/json' in requestBody.content)

const isOperation = (member: object): member is Operation => 'responses' in member

const simplify = (operation: Operation): Operation => {
  const responses = mapValues(operation.responses, withJsonProblem)
  const json = operation.requestBody?.content?.['application/json']
  if (json === undefined) return { ...operation, responses }
  return {
    ...operation,
    responses,
    requestBody: { ...operation.requestBody, content: { 'application/json': json } },
  }
}

const [source = 'openapi.yaml', target = 'contract.json'] = process.argv.slice(2)
const contract = load(await readFile(source, 'utf8')) as Document
const paths = mapValues(contract.paths, (path) =>
  Object.fromEntries(
    Object.entries(path)
      .filter(([, member]) => !isOperation(member) || isSupported(member))
      .map(([name, member]) => [name, isOperation(member) ? simplify(member) : member]),
  ),
)
const components = {
  ...contract.components,
  responses: mapValues(contract.components.responses, withJsonProblem),
}
await writeFile(target, JSON.stringify({ ...contract, paths, components }))
