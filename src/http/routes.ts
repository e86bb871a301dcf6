import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import openapiGlue from 'fastify-openapi-glue'
import findMyWay from 'find-my-way'
import type { Contract, ContractOperation, OperationId } from '../contract/contract.ts'
import { type Handlers, openOperations, sessionOperations } from '../contract/operation.ts'
import { problems } from '../problems/problems.ts'
import { type AdapterDeps, adaptOperation, type AnyHandler } from './adapter.ts'
import { pieceType } from './body.ts'
import { parseJson } from './json-body.ts'
import { pathOf } from './url.ts'
import { checkQueryText, compileValidation, type ObjectSchema } from './validation.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the contract says of the route; absent on pages. */
    operation?: ContractOperation
  }
}

/** Registers every operation of the contract by its operationId, with its schemas and its hooks. */
export const registerOperations = async (
  app: FastifyInstance,
  contract: Contract,
  handlers: Handlers,
  deps: AdapterDeps,
): Promise<void> => {
  const isImplemented = (id: string): id is OperationId => Object.hasOwn(handlers, id)
  for (const operation of contract.operations.values()) checkPrincipalType(operation)
  await app.register(async (api) => {
    api.addHook('onRoute', validateRequests)
    api.addHook('preValidation', ({ raw }, _reply, done) => {
      checkQueryText(raw.url ?? '')
      done()
    })
    await api.register(openapiGlue, {
      specification: withoutResponses(contract.document),
      operationResolver(id: string) {
        const operation = contract.operations.get(id)
        if (operation === undefined || !isImplemented(id)) throw new Error(`${id} has no handler`)
        return {
          method: operation.method,
          url: operation.path.replaceAll(/\{(\w+)\}/g, ':$1'),
          config: { operation },
          ...adaptOperation(operation, handlers[id] as AnyHandler, deps),
        }
      },
    })
  })
}

/** What the compiler takes for granted about an operation's principal must be what the contract says. */
const checkPrincipalType = ({ id, scope }: ContractOperation): void => {
  const isListed = (list: readonly string[]): boolean => list.includes(id)
  if (
    isListed(openOperations) !== (scope === 'none') ||
    isListed(sessionOperations) !== (scope === 'session')
  )
    throw new Error(`${id}: operation.ts and its x-scope in openapi.yaml disagree about who calls it`)
}

/**
 * A copy of the contract for the glue, which resolves references in place. It needs no responses: answers are not
 * serialized by schema, since that would hide what is wrong with them.
 */
const withoutResponses = (document: Contract['document']): object => {
  const copy = structuredClone(document) as { paths: Record<string, Record<string, { responses?: object }>> }
  for (const operation of Object.values(copy.paths).flatMap((item) => Object.values(item))) {
    operation.responses = { default: { description: 'Left out.' } }
  }
  return copy
}

interface GlueSchema {
  readonly params?: ObjectSchema
  readonly body?: { readonly content?: Readonly<Record<string, { readonly schema?: ObjectSchema }>> }
  readonly querystring?: ObjectSchema
  readonly headers?: ObjectSchema
}

/**
 * Validates requests in place of Fastify, which stops at the first part with an error: bodies whatever their media type (the
 * adapter checks that first), unknown query parameters, headers under their names as Node gives them. Forms are read by hand.
 */
const validateRequests = (route: RouteOptions): void => {
  const { params, body, querystring, headers } = (route.schema ?? {}) as GlueSchema
  const checked = headers && headersOf(headers)
  const validate = compileValidation({
    params,
    body: body?.content?.['application/json']?.schema,
    querystring: { type: 'object', properties: {}, ...querystring, additionalProperties: false },
    // All of a request's headers are read for it.
    headers: Object.keys(checked?.properties ?? {}).length > 0 ? checked : undefined,
  })
  delete route.schema
  route.preValidation = (request, _reply, done) => {
    validate(request)
    done()
  }
}

/** The adapter parses these itself, and says better what is wrong with them. */
const entityTags = new Set(['If-Match', 'If-None-Match'])

const headersOf = ({ properties = {}, required = [], ...rest }: ObjectSchema): ObjectSchema => ({
  ...rest,
  required: required.map((name) => name.toLowerCase()),
  properties: Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => !entityTags.has(name))
      .map(([name, schema]) => [name.toLowerCase(), { ...schema, 'x-name': name }]),
  ),
})

/**
 * One parser for every body that brings no file: JSON where the operation takes it, and nothing where it does not. A piece
 * of a file is left for the handler to read.
 */
export const readBodies = (app: FastifyInstance): void => {
  app.removeAllContentTypeParsers()
  const parser = async (request: FastifyRequest, bytes: Buffer): Promise<unknown> => {
    if ((request.routeOptions.config.operation?.mediaTypes.length ?? 0) > 0) return parseJson(bytes)
    if (bytes.length > 0) throw problems.invalidRequest('This operation does not accept a body.')
    return undefined
  }
  // The catch-all would do; the glue warns of media types that are not there by name.
  app.addContentTypeParser(pieceType, async () => undefined)
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json', '*'],
    { parseAs: 'buffer' },
    parser,
  )
}

/** The methods that the path of a URL takes; null when there is no such path. */
export type MethodsOf = (url: string) => readonly string[] | null

/** What is known of all paths that get a route. */
export interface KnownPaths {
  readonly methodsOf: MethodsOf
  /** Whether the path is a route's as it stands, without parameters. */
  readonly isLiteral: (path: string) => boolean
}

/** Keeps the methods of all paths that get a route from now on. */
export const collectPaths = (app: FastifyInstance): KnownPaths => {
  const paths = findMyWay({ maxParamLength: app.initialConfig.routerOptions?.maxParamLength ?? 100 })
  const methodsByPath = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ method, url }) => {
    const methods = methodsByPath.get(url) ?? new Set()
    if (!methodsByPath.has(url)) paths.on('GET', url, () => {}, methods)
    for (const one of [method].flat()) methods.add(one)
    methodsByPath.set(url, methods)
  })
  return {
    methodsOf(url) {
      const found = paths.find('GET', pathOf(url))
      if (found === null || hasEmptyParameter(found.params)) return null
      const methods: unknown = found.store
      return methods instanceof Set ? [...methods].map(String).toSorted() : null
    },
    isLiteral: (path) => methodsByPath.has(path),
  }
}

/** The router takes `/tasks/` for `/tasks/{task_id}` with an empty id. */
const hasEmptyParameter = (params: unknown): boolean => Object.values(params ?? {}).includes('')

/** Characters; no path with a route is as long. */
const maxPath = 8_192

/** Answers a path without the method with 405 and Allow, and anything else that has no route with 404. */
export const answerUnknownRoutes = (app: FastifyInstance, { methodsOf, isLiteral }: KnownPaths): void => {
  const refuse = ({ method, url }: FastifyRequest): never => {
    const methods = methodsOf(url)
    if (methods === null || methods.includes(method)) throw problems.notFound()
    throw problems.methodNotAllowed(method, methods.join(', '))
  }
  // PUT /tasks/changes is a method that this path does not take, though the router takes it for PUT /tasks/{task_id}.
  const isMisrouted = ({ url, routeOptions }: FastifyRequest): boolean =>
    routeOptions.url?.includes(':') === true && isLiteral(pathOf(url))
  // Before a body is read, since that can only find another fault.
  app.addHook('onRequest', (request, _reply, done) => {
    if (pathOf(request.url).length > maxPath) throw problems.uriTooLong()
    if (request.is404 || hasEmptyParameter(request.params) || isMisrouted(request)) refuse(request)
    done()
  })
  app.setNotFoundHandler(refuse)
}
