/** The database cannot be reached, or gave the statement up; a statement that writes has done nothing. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable'

  constructor({ cause }: ErrorOptions = {}) {
    const reason = cause instanceof Error ? `: ${cause.message}` : ''
    super(`The database is unavailable${reason}`, { cause })
  }
}

/** The database takes no writes now: it is a standby, its operator has said so, or its disk is full. */
export class WritesRefused extends DatabaseUnavailable {}

/** A statement that writes was sent and no answer came: it may have been done, or may still be. */
export class OutcomeUnknown extends DatabaseUnavailable {}

/** Too many statements of one principal wait. The statement was not sent. */
export class TooManyStatements extends Error {
  override readonly name = 'TooManyStatements'
  readonly retryAfterSeconds = 2
}

/** The database cannot be used yet, since its schema is not up to date: no outage of it. */
export class SchemaPending extends DatabaseUnavailable {
  constructor() {
    super({ cause: new Error('its schema has not been migrated yet') })
  }
}

/** The database has tables that this version cannot bring up to date. */
export class SchemaUnknown extends Error {
  override readonly name = 'SchemaUnknown'

  constructor() {
    super(
      'The database was created by an unreleased version of Taskwright and cannot be upgraded. Start with an empty database: change DATA_DIR or DATABASE_URL',
    )
  }
}

/** A statement broke a constraint and did nothing. `constraint` is its name in `schema/tables.ts`. */
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

// Class 08 is connections, 57P a server that ends them, 25P a timeout that does. The others are of the driver and the system.
const loss = /^(08|57P0[1245]|25P0[34])|^(CONNECTION_\w+|CONNECT_TIMEOUT|ECONNRESET|EPIPE|ETIMEDOUT)$/

/** Whether a connection was lost with the statement on it. */
export const isConnectionLoss = (error: unknown): boolean => loss.test(sqlState(error))

/** Whether a statement certainly did nothing: errors that do not end the session roll it back. */
export const isRolledBack = (error: unknown): boolean =>
  error instanceof Error && 'severity' in error && error.severity === 'ERROR'

/**
 * Turns what the driver throws into the errors above. Anything else is a fault of ours and stays as it is; it is
 * logged, and never shown to a client.
 */
export const translateError = (error: unknown): unknown => {
  const constraint = constraintOf(error)
  if (constraint !== null) return new ConstraintViolation(constraint, { cause: error })
  if (refusedWrites.has(sqlState(error))) return new WritesRefused({ cause: error })
  if (isUnavailable(sqlState(error))) return new DatabaseUnavailable({ cause: error })
  return error
}

// A read-only server such as a standby, a full disk, and what a server in recovery has no transaction id for.
const refusedWrites: ReadonlySet<string> = new Set(['25006', '53100', '55000'])

// Class 08 is connections, 28 a login that is refused, 3D a database that is not there, 53 resources, 57 an operator or
// a timeout, 58 the server's own system; 25006 is a server that takes no writes, such as a standby, 25P and 55P03 are
// timeouts that an operator has set. The others are of the driver and the system.
const unavailable =
  /^(08|28|3D|53|57|58|25006|25P0[34]|55P03)|^(CONNECTION_\w+|CONNECT_TIMEOUT|E(CONN(REFUSED|RESET|ABORTED)|PIPE|NOENT|TIMEDOUT|(HOST|NET)UNREACH|NOTFOUND|AI_AGAIN|MFILE|NFILE))$/

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
