/** The database cannot be reached, or gave up the statement in time; what was asked for was not done. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable'

  constructor({ cause }: ErrorOptions = {}) {
    const reason = cause instanceof Error ? `: ${cause.message}` : ''
    super(`The database cannot be used${reason}`, { cause })
  }
}

/** A statement broke a constraint and did nothing. `constraint` is its name in `schema.ts`. */
export class ConstraintViolation extends Error {
  override readonly name = 'ConstraintViolation'
  readonly constraint: string

  constructor(constraint: string, options?: ErrorOptions) {
    super(`The constraint ${constraint} was violated`, options)
    this.constraint = constraint
  }
}

/** SQLSTATEs after which the very same statement may succeed: serialization failure and deadlock. */
export const isTransient = (error: unknown): boolean => ['40001', '40P01'].includes(sqlState(error))

/**
 * Turns what the driver throws into the errors above. Anything else is a fault of ours and stays as it is; it is
 * logged, and never shown to a client.
 */
export const translateError = (error: unknown): unknown => {
  const constraint = constraintOf(error)
  if (constraint !== null) return new ConstraintViolation(constraint, { cause: error })
  if (isUnavailable(sqlState(error))) return new DatabaseUnavailable({ cause: error })
  return error
}

// Class 08 is connections, 28 a login that is refused, 3D a database that is not there, 53 resources, 57 an operator or
// a timeout; 25006 is a server that has become a standby. The others are of the driver and the system.
const unavailable =
  /^(08|28|3D|53|57|25006)|^(CONNECTION_\w+|CONNECT_TIMEOUT|ECONNREFUSED|ECONNRESET|EPIPE|ENOENT|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN)$/

const isUnavailable = (code: string): boolean => unavailable.test(code)

const sqlState = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

/** The violated constraint's name; SQLSTATE class 23. */
const constraintOf = (error: unknown): string | null =>
  sqlState(error).startsWith('23') &&
  error instanceof Error &&
  'constraint_name' in error &&
  typeof error.constraint_name === 'string'
    ? error.constraint_name
    : null
