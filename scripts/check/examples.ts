import { type ContractOperation, loadContract, type OperationId } from '../../src/contract/contract.ts'
import { permissions } from '../../src/domain/shared/permissions.ts'
import { type ProblemCode, problemTypes } from '../../src/problems/catalogue.ts'

/**
 * What a newly registered user gets for the requests that Swagger UI fills in by itself, with the first example of each operation: all are
 * valid, and succeed unless they need what an example cannot contain.
 */

/** Operations that need what the service or an authenticator issues: a token, a code, or an enrollment that needs such a code. */
const needIssued = {
  completeLogin: 'invalid_credentials',
  refreshToken: 'invalid_credentials',
  resetPassword: 'invalid_credentials',
  exchangeOidcCode: 'invalid_credentials',
  linkIdentity: 'wrong_code',
  // The page to return to is one that an operator has allowed.
  logoutOidc: 'invalid_request',
  undoEmailChange: 'invalid_credentials',
  lookUpInvitation: 'invitation_invalid',
  acceptInvitation: 'invitation_invalid',
  confirmSecondFactor: 'wrong_code',
  disableSecondFactor: 'second_factor_not_enrolled',
} satisfies Partial<Record<OperationId, ProblemCode>>

/** Operations whose response never ends. The page does not execute them. */
const endless: ReadonlySet<string> = new Set<OperationId>(['streamEvents'])

const issued: ReadonlyMap<string, ProblemCode> = new Map(Object.entries(needIssued))

/** The problem of the response; null if the request succeeds. */
const problemOf = ({ id, path, permission }: ContractOperation): ProblemCode | null => {
  if (permissions[permission].every((relation) => relation.includes('admin'))) return 'forbidden'
  return issued.get(id) ?? (path.includes('{') ? 'not_found' : null)
}

/** The expected result by operation id: `success`, the status and the code of a problem, or that an id has to be entered. */
export const exampleResults = (): ReadonlyMap<string, string> => {
  const executed = [...loadContract().operations.values()].filter(({ id }) => !endless.has(id))
  return new Map(
    executed.map((operation) => {
      if (operation.path.includes('_id}')) return [operation.id, 'needs an id']
      const code = problemOf(operation)
      // The response to HEAD has no body that could show the code.
      const shown = operation.method === 'HEAD' ? '' : code
      return [operation.id, code === null ? 'success' : `${problemTypes[code].status} ${shown}`]
    }),
  )
}
