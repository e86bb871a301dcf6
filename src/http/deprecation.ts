import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ContractOperation } from '../contract/contract.ts'

/** Sets `Deprecation` and `Sunset` if the operation is deprecated, or else for the first deprecated parameter of the request. */
export const announceDeprecation = (
  { deprecation, deprecatedParameters }: ContractOperation,
  { query }: FastifyRequest,
  reply: FastifyReply,
): void => {
  const used =
    deprecation ?? [...deprecatedParameters].find(([name]) => Object.hasOwn(query ?? {}, name))?.[1]
  if (used !== undefined) reply.headers({ ...used })
}
