import {
  type CallToolResult,
  createMcpHandler,
  isJSONRPCRequest,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  specTypeSchemas,
  type StandardSchemaV1,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { asObject } from '../contract/contract.ts'
import type { Dispatch, DispatchedResponse } from '../contract/dispatch.ts'
import { type Principal, roleRefuses, scopeRefuses } from '../domain/shared/permissions.ts'
import type { Tool } from './tools.ts'

/** The server's name and version, and its tools by name. */
export interface McpServerOptions {
  readonly title: string
  readonly version: string
  readonly tools: ReadonlyMap<string, Tool>
}

/** A message of the Model Context Protocol, and its sender. */
export interface McpRequest {
  readonly message: unknown
  /** The header fields that the protocol defines. */
  readonly headers: Readonly<Record<string, string>>
  readonly principal: Principal
  readonly dispatch: Dispatch
}

export interface McpResponse {
  readonly status: number
  /** JSON; empty if the message needs no response. */
  readonly text: string
}

/** What holds for all tools. Clients may pass it on to the model. */
const instructions = `Arguments that are null are ignored; to set a field to null, name it in "clear". Lists have pages: pass "next_cursor" as "cursor". Times are RFC 3339, and days are YYYY-MM-DD.`

/** Milliseconds for which clients may cache the list of tools. */
const listLifetime = 300_000

/**
 * Handles a message. Clients of the 2025 versions begin with a handshake, those of 2026-07-28 do not; the server keeps no session
 * for either. Every response is one JSON message rather than a stream, since no tool reports progress and there is nothing to
 * subscribe to.
 */
export const handleMessage = async (options: McpServerOptions, request: McpRequest): Promise<McpResponse> => {
  let failure: Error | undefined
  const createServer = () =>
    serverOf(options, request, (cause) => {
      failure = new Error('A tool failed', { cause })
    })
  // The last error of the library itself, which also reports errors of clients.
  let reported: unknown
  const onerror = (error: unknown): void => {
    reported = error
  }
  const http = new Request('http://localhost/mcp', {
    method: 'POST',
    headers: {
      ...request.headers,
      'content-type': 'application/json',
      // The library refuses clients that accept JSON only.
      accept: 'application/json, text/event-stream',
    },
  })
  const parsed = { parsedBody: request.message }
  const invalid = await refuseParams(request.message)
  if (invalid !== null) return invalid
  const response = (await isLegacyRequest(http, request.message))
    ? await handleLegacy(createServer(), http, parsed)
    : await createMcpHandler(createServer, { legacy: 'reject', maxSubscriptions: 0, onerror }).fetch(
        http,
        parsed,
      )
  if (failure !== undefined) throw failure
  const { status } = response
  const text = await response.text()
  if (status >= 500) throw new Error(`The MCP library answered ${status}: ${text}`, { cause: reported })
  return { status, text }
}

/** The requests for whose invalid parameters the library reports an internal error. */
const requestSchemas: ReadonlyMap<string, StandardSchemaV1> = new Map<string, StandardSchemaV1>([
  ['initialize', specTypeSchemas.InitializeRequest],
  ['tools/list', specTypeSchemas.ListToolsRequest],
])

/** The response to a request with invalid parameters (JSON-RPC 2.0 §5.1); null for others. */
const refuseParams = async (message: unknown): Promise<McpResponse | null> => {
  if (!isJSONRPCRequest(message)) return null
  const result = await requestSchemas.get(message.method)?.['~standard'].validate(message)
  const issues = result?.issues ?? []
  if (issues.length === 0) return null
  const details = issues.map(({ path = [], message: detail }) => {
    const keys = path.map((key) => String(typeof key === 'object' ? key.key : key))
    return `${keys.join('.')}: ${detail}`
  })
  const error = { code: ProtocolErrorCode.InvalidParams, message: `Invalid params. ${details.join('; ')}` }
  return { status: 200, text: JSON.stringify({ jsonrpc: '2.0', id: message.id, error }) }
}

const handleLegacy = async (
  server: Server,
  http: Request,
  parsed: { readonly parsedBody: unknown },
): Promise<Response> => {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  await server.connect(transport)
  try {
    return await transport.handleRequest(http, parsed)
  } finally {
    await server.close()
  }
}

/** Creates a server for one message. `onFailure` receives the errors of tools, which must not be sent to the client. */
const serverOf = (
  { title, version, tools }: McpServerOptions,
  { principal, dispatch }: McpRequest,
  onFailure: (error: unknown) => void,
): Server => {
  // Not McpServer, the library's preferred class, which requires its own validators and would compile them for each message.
  const server = new Server(
    { name: title.toLowerCase(), title, version },
    {
      capabilities: { tools: {} },
      instructions,
      // The list depends on the scopes of the caller's token.
      cacheHints: { 'tools/list': { ttlMs: listLifetime, cacheScope: 'private' } },
    },
  )
  server.setRequestHandler('tools/list', ({ params }) => {
    // The list has one page, so no cursor was ever given out.
    if (params?.cursor !== undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'The cursor is not valid')
    return {
      tools: [...tools.values()]
        .filter(({ operation }) => isAllowed(operation, principal))
        .map(({ definition }) => definition),
    }
  })
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: args = {} } }) => {
    const tool = tools.get(name)
    if (tool === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${name}`)
    const request = tool.requestOf(args)
    if ('fault' in request) return { content: [{ type: 'text', text: request.fault }], isError: true }
    try {
      return resultOf(tool, await dispatch(request))
    } catch (error) {
      onFailure(error)
      throw error
    }
  })
  return server
}

/** Whether the caller's token and role allow the operation on some resource. */
const isAllowed = ({ scope, permission }: Tool['operation'], { role, credential }: Principal): boolean =>
  !scopeRefuses(scope, credential) && !roleRefuses(permission, role)

/** The text repeats the content for clients that do not read structured content. */
const resultOf = ({ definition }: Tool, { status, body }: DispatchedResponse): CallToolResult => {
  if (body === '') return { content: [{ type: 'text', text: `${definition.title}: done.` }] }
  return {
    content: [{ type: 'text', text: body }],
    structuredContent: { ...asObject(JSON.parse(body)) },
    ...(status >= 400 && { isError: true }),
  }
}
