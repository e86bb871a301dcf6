import { type MapError, problems } from '../problems/problems.ts'
import { ProviderUnavailable } from './failures.ts'

/** Maps the errors of identity providers. What exactly is wrong is for the operator, and in the log. */
export const oidcProblem: MapError = (error) =>
  error instanceof ProviderUnavailable
    ? problems.serviceUnavailable('The identity provider does not respond. Retry in a few seconds.', error)
    : null
