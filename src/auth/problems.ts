import { type MapError, problems } from '../problems/problems.ts'
import { HashQueueFull } from './passwords.ts'

/** Maps the errors of authentication. */
export const authProblem: MapError = (error) =>
  error instanceof HashQueueFull ? problems.tooManyHashes(error.retryAfterSeconds) : null
