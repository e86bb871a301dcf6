import type { components } from '../../generated/openapi.ts'
import { asObject, type Contract } from '../contract/contract.ts'
import { jsonText } from '../contract/json-text.ts'
import { type CorsOrigins, isTrustedOrigin } from '../http/cors.ts'
import type { McpServerOptions } from '../mcp/messages.ts'
import { deriveTools } from '../mcp/tools.ts'
import { problems } from '../problems/problems.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly contract: Contract
  readonly isEnabled: boolean
  readonly corsOrigins: CorsOrigins
  readonly publicUrl: string
}

/** The header fields that the Model Context Protocol defines. */
const mcpHeaders = ['mcp-protocol-version', 'mcp-method', 'mcp-name'] as const

/** The operations of the contract's tag `assistants`. */
export const assistantHandlers = ({ contract, isEnabled, corsOrigins, publicUrl }: Deps) => {
  let options: McpServerOptions | undefined
  return {
    async sendMcpMessage({ principal }, { body, headers, dispatch }) {
      if (!isEnabled) throw problems.notFound()
      if (!isTrustedOrigin(headers, { corsOrigins, publicUrl })) throw problems.originNotAllowed()
      // Loaded on first use: the library takes 0.16 s of CPU time and 30 MiB.
      const { handleMessage } = await import('../mcp/messages.ts')
      options ??= serverOptions(contract)
      const own = mcpHeaders.flatMap((name) => {
        const value = headers[name]
        return typeof value === 'string' ? [[name, value] as const] : []
      })
      const message = { message: body, headers: Object.fromEntries(own), principal, dispatch }
      const { status, text } = await handleMessage(options, message)
      if (status === 202) return { status }
      if (status === 200 || status === 400 || status === 404)
        return { status, body: jsonText<components['schemas']['McpMessage']>(text) }
      throw new Error(`The MCP library answered ${status}: ${text}`)
    },
  } satisfies Partial<Handlers>
}

const serverOptions = (contract: Contract): McpServerOptions => {
  const { title, version } = asObject(contract.document.info)
  return { title: String(title), version: String(version), tools: deriveTools(contract) }
}
