import type { Contract, ContractOperation } from './contract.ts'

/** The retry advice for an operation, by response, as text for people. Null if the operation never returns the status. */
export interface RetryRule {
  readonly operation: ContractOperation
  readonly on409: string | null
  readonly on429: string | null
  readonly on503: string | null
  /** After 500, 504 or a lost connection: it is unknown whether the request was processed. */
  readonly onUnknown: string
}

/** The retry rules of all operations, derived from the contract. */
export const retryRules = ({ operations }: Contract): readonly RetryRule[] =>
  [...operations.values()].map((operation) => {
    const on = (status: number, rule: string): string | null =>
      operation.statuses.includes(status) ? rule : null
    return {
      operation,
      on409: on(409, 'no; resolve the conflict first'),
      on429: on(429, 'yes, after Retry-After'),
      on503: on(503, 'yes, after Retry-After'),
      onUnknown: ruleOfRepeat(operation),
    }
  })

const ruleOfRepeat = ({ repeat, method, takesIfMatch, takesTusVersion }: ContractOperation): string => {
  const changes = method === 'PUT' || method === 'PATCH'
  // A part of the chunk may be stored.
  if (takesTusVersion && changes) return 'get the Upload-Offset with HEAD and continue there'
  if (repeat === 'again') return 'yes; it is processed again'
  if (repeat === 'key') return 'yes, with the same Idempotency-Key; without a key, read first'
  if (repeat !== 'same') return `yes; returns ${repeat} if the first request succeeded`
  return takesIfMatch && changes
    ? 'yes; with If-Match, returns 412 if the first request succeeded or the resource has changed since'
    : 'yes'
}
