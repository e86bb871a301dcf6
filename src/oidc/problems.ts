import { type MapError, problems } from '../problems/problems.ts'
import { ProviderUnavailable } from './failures.ts'

/** Maps the errors of identity providers. What exactly is wrong is for the operator, and in the log. */
export const oidcProblem: MapError = (error) =>
  error instanceof ProviderUnavailable
    ? problems.serviceUnavailable(
        error.isOutage ? 'The identity provider does not respond. Retry in a few seconds.' : misconfigured,
        error,
      )
    : null

/** For users. */
export const misconfigured =
  'The identity provider is not set up correctly, so a retry does not help. Ask the operator, whose log has the reason.'
