import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import openapiGlue from 'fastify-openapi-glue'
import findMyWay from 'find-my-way'
import type { Contract, ContractOperation, OperationId } from '../contract/contract.ts'
import {
  type HandlersWith,
  linkOperations,
  openOperations,
  sessionOperations,
} from '../contract/operation.ts'
import { problems } from '../problems/problems.ts'
import { type AdapterDeps, adaptOperation, type AnyHandler } from './adapter.ts'
import { chunkMediaType } from './body.ts'
import { parseJson } from './json-body.ts'
import { pathOf, shownPathOf } from './url.ts'
import { checkQueryText, compileValidation, type ObjectSchema } from './validation.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation of the route; absent on pages. */
    operation?: ContractOperation
    /** Whether the route itself counts what it refuses, and nothing else, against the rate limit. */
    countsRefusals?: boolean
  }
}

/** Registers a route for every operation of the contract. Handlers are found by operationId. */
export const registerOperations = async <Db>(
  app: FastifyInstance,
  contract: Contract,
  handlers: HandlersWith<Db>,
  deps: AdapterDeps<Db>,
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

/** Checks that the lists in operation.ts, which type the principals, agree with the contract. */
const checkPrincipalType = ({ id, scope }: ContractOperation): void => {
  const isListed = (list: readonly string[]): boolean => list.includes(id)
  if (
    isListed(openOperations) !== (scope === 'none') ||
    isListed(sessionOperations) !== (scope === 'session') ||
    isListed(linkOperations) !== (scope === 'link')
  )
    throw new Error(`${id}: operation.ts and x-scope in openapi.yaml disagree`)
}

/**
 * A copy of the contract for openapi-glue, which resolves references in place. Responses are left out: serialization by
 * schema would silently drop or convert fields that violate the contract.
 */
const withoutResponses = (document: Contract['document']): object => {
  const copy = structuredClone(document) as { paths: Record<string, Record<string, { responses?: object }>> }
  for (const operation of Object.values(copy.paths).flatMap((item) => Object.values(item))) {
    operation.responses = { default: { description: 'Omitted.' } }
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
 * Replaces Fastify's validation, which stops at the first invalid part of a request. Validates bodies of any media type (the
 * adapter checks the type first), refuses unknown query parameters except in links, to which the programs that open them append their
 * own, and looks up headers by Node's lower-case names. Forms are validated by their reader.
 */
const validateRequests = (route: RouteOptions): void => {
  const { params, body, querystring, headers } = (route.schema ?? {}) as GlueSchema
  const checked = headers && headersOf(headers)
  const validate = compileValidation({
    params,
    body: body?.content?.['application/json']?.schema,
    isPatch: route.method === 'PATCH',
    querystring: {
      type: 'object',
      properties: {},
      ...querystring,
      additionalProperties: route.config?.operation?.scope === 'link',
    },
    // Header validation reads every header of a request, so it runs only where needed.
    headers: Object.keys(checked?.properties ?? {}).length > 0 ? checked : undefined,
  })
  delete route.schema
  const mayOmitJson = isJsonOptional(route.config?.operation)
  route.preValidation = (request, _reply, done) => {
    if (mayOmitJson) request.body ??= {}
    validate(request)
    done()
  }
}

const isJsonOptional = (operation: ContractOperation | undefined): boolean =>
  operation !== undefined && !operation.requiresBody && operation.mediaTypes.includes('application/json')

/** Headers that the adapter parses itself, to return more precise errors. */
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

/** What clients send that always send JSON, even when there is nothing to say. */
const emptyJson = /^[ \t\r\n]*(?:\{[ \t\r\n]*\}|null)[ \t\r\n]*$/

/**
 * Installs the body parser: JSON if the operation accepts it; otherwise any body but an empty one is refused. File chunks are
 * left to the handler.
 */
export const installBodyParser = (app: FastifyInstance): void => {
  app.removeAllContentTypeParsers()
  const parser = async (request: FastifyRequest, bytes: Buffer): Promise<unknown> => {
    const { operation } = request.routeOptions.config
    if (bytes.length === 0 && isJsonOptional(operation)) return undefined
    if ((operation?.mediaTypes.length ?? 0) > 0) return parseJson(bytes)
    if (bytes.length === 0 || emptyJson.test(bytes.toString('latin1'))) return undefined
    throw problems.invalidRequest('This operation does not accept a body.')
  }
  // Redundant with the catch-all, but openapi-glue warns about media types without a parser of their own.
  app.addContentTypeParser(chunkMediaType, async () => undefined)
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json', '*'],
    { parseAs: 'buffer' },
    parser,
  )
}

/** The methods of a URL's path; null if no route has the path. */
export type MethodsOf = (url: string) => readonly string[] | null

export interface KnownPaths {
  readonly methodsOf: MethodsOf
  /** The pattern of the path for any method, such as `/tasks/:task_id`; null for an unknown path. */
  readonly patternOf: (url: string) => string | null
}

/** Records the paths and methods of all routes registered from now on. */
export const collectPaths = (app: FastifyInstance): KnownPaths => {
  const paths = findMyWay({ maxParamLength: app.initialConfig.routerOptions?.maxParamLength ?? 100 })
  const methodsByPath = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ method, url }) => {
    const methods = methodsByPath.get(url) ?? new Set()
    if (!methodsByPath.has(url)) paths.on('GET', url, () => {}, url)
    for (const one of [method].flat()) methods.add(one)
    methodsByPath.set(url, methods)
  })
  const patternOf = (url: string): string | null => {
    const found = paths.find('GET', pathOf(url))
    if (found === null || hasEmptyParameter(found.params)) return null
    return typeof found.store === 'string' ? found.store : null
  }
  return {
    patternOf,
    methodsOf(url) {
      const methods = methodsByPath.get(patternOf(url) ?? '')
      return methods === undefined ? null : [...methods].toSorted()
    },
  }
}

/** The router matches `/tasks/` to `/tasks/{task_id}` with an empty id. */
const hasEmptyParameter = (params: unknown): boolean => Object.values(params ?? {}).includes('')

/** A path without the slashes at its end. */
const withoutSlashes = (path: string): string => {
  let end = path.length
  while (path[end - 1] === '/') end -= 1
  return path.slice(0, end)
}

/** Characters. Every valid path is shorter. */
const maxPath = 8_192

/** Returns 405 with Allow for a known path, and 404 for an unknown one. */
export const handleUnknownRoutes = (app: FastifyInstance, { methodsOf, patternOf }: KnownPaths): void => {
  const refuse = ({ method, url }: FastifyRequest): never => {
    const methods = methodsOf(url)
    const path = withoutSlashes(pathOf(url))
    if (methods === null && methodsOf(path) !== null) throw problems.trailingSlash(shownPathOf(path))
    if (methods === null || methods.includes(method)) throw problems.notFound()
    throw problems.methodNotAllowed(method, methods.join(', '))
  }
  // The router matches PUT /tasks/changes to PUT /tasks/{task_id}, but /tasks/changes has no PUT.
  const isMisrouted = ({ url, routeOptions }: FastifyRequest): boolean => {
    if (routeOptions.url?.includes(':') !== true) return false
    const pattern = patternOf(url)
    return pattern !== null && pattern !== routeOptions.url
  }
  // Before the body is read: an error in the body would hide this one.
  app.addHook('onRequest', (request, _reply, done) => {
    if (pathOf(request.url).length > maxPath) throw problems.uriTooLong()
    if (request.is404 || hasEmptyParameter(request.params) || isMisrouted(request)) refuse(request)
    done()
  })
  app.setNotFoundHandler(refuse)
}
