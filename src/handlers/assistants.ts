import type { components } from '../../generated/openapi.ts'
import { jsonText } from '../contract/json-text.ts'
import { type CorsOrigins, isTrustedOrigin } from '../http/cors.ts'
import { problems } from '../problems/problems.ts'
import type { AnswerAssistant } from '../services/shared/assistants.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  readonly answerAssistant: AnswerAssistant
  readonly isEnabled: boolean
  readonly corsOrigins: CorsOrigins
  readonly publicUrl: string
}

/** The header fields that the Model Context Protocol defines. */
const mcpHeaders = ['mcp-protocol-version', 'mcp-method', 'mcp-name'] as const

/** The operations of the contract's tag `assistants`. */
export const assistantHandlers = ({ answerAssistant, isEnabled, corsOrigins, publicUrl }: Deps) =>
  ({
    async sendMcpMessage({ principal }, { body, headers, dispatch }) {
      if (!isEnabled) throw problems.notFound()
      if (!isTrustedOrigin(headers, { corsOrigins, publicUrl })) throw problems.originNotAllowed()
      const own = mcpHeaders.flatMap((name) => {
        const value = headers[name]
        return typeof value === 'string' ? [[name, value] as const] : []
      })
      const message = { message: body, headers: Object.fromEntries(own), principal, dispatch }
      const { status, text } = await answerAssistant(message)
      if (status === 202) return { status }
      if (status === 200 || status === 400 || status === 404)
        return { status, body: jsonText<components['schemas']['McpMessage']>(text) }
      throw new Error(`The MCP library answered ${status}: ${text}`)
    },
  }) satisfies Partial<Handlers>
