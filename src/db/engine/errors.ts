/** The database refused a statement for now: the same request may succeed later. */
export class TemporaryFailure extends Error {}

/** The database is unreachable, or cancelled the statement. Nothing was changed, unless it is an `OutcomeUnknown`. */
export class DatabaseUnavailable extends TemporaryFailure {
  override readonly name = 'DatabaseUnavailable'

  constructor({ cause }: ErrorOptions = {}) {
    const reason = cause instanceof Error ? `: ${cause.message}` : ''
    super(`The database is unavailable${reason}`, { cause })
  }
}

/** A statement was not sent: too many wait, or its request has ended. The database may be well. */
export class NotSent extends DatabaseUnavailable {}

/** A statement was not answered in time. */
export class NoAnswer extends DatabaseUnavailable {
  constructor(milliseconds: number) {
    super({ cause: new Error(`no answer in ${milliseconds} ms`) })
  }
}

/** The database cancelled a statement, which has changed nothing: it took too long, or an operator has cancelled it. */
export class StatementCancelled extends DatabaseUnavailable {}

/** The database cancelled a statement whose cost grows with what its caller can see: the caller has to ask for less. */
export class ListTooExpensive extends StatementCancelled {}

/** The database is read-only: it is a standby, it is configured so, or its disk is full. */
export class WritesRefused extends DatabaseUnavailable {}

/** A statement that writes was sent but got no response: it may have committed, or may still commit. */
export class OutcomeUnknown extends DatabaseUnavailable {}

/** Other transactions kept changing the same rows, in every attempt. Nothing was changed. */
export class TooManyConflicts extends TemporaryFailure {
  override readonly name = 'TooManyConflicts'

  constructor(options?: ErrorOptions) {
    super('Other transactions kept changing the same rows', options)
  }
}

/** Too many statements of one caller are waiting, or the caller is over their budget. The statement was not sent. */
export class TooManyStatements extends TemporaryFailure {
  override readonly name = 'TooManyStatements'
  readonly retryAfterSeconds = 2
}

/** The schema has not been migrated yet. This is not an outage of the database. */
export class SchemaPending extends DatabaseUnavailable {
  constructor() {
    super({ cause: new Error('its schema has not been migrated yet') })
  }
}

/** The service cannot use this database, until an operator changes something. */
export class DatabaseUnsuitable extends Error {
  override readonly name = 'DatabaseUnsuitable'
}

/** The database has tables that this version cannot migrate. */
export class SchemaUnknown extends DatabaseUnsuitable {
  constructor() {
    super(
      'The database was created by an unreleased version of Taskwright and cannot be upgraded. Start with an empty database: change DATA_DIR or DATABASE_URL',
    )
  }
}

/** The user may not do what the service does: the database or its tables belong to another one. */
export class DatabaseForbidden extends DatabaseUnsuitable {
  constructor(cause: Error) {
    super(
      `The database refuses its user what the service needs (${cause.message}). Make the user the owner of the database (ALTER DATABASE … OWNER TO …) and of its tables (REASSIGN OWNED BY … TO …), or set DATABASE_URL to the user that owns them`,
      { cause },
    )
  }
}

/** A statement violated a constraint and changed nothing. `constraint` is its name in `schema/tables.ts`. */
export class ConstraintViolation extends Error {
  override readonly name = 'ConstraintViolation'
  readonly constraint: string

  constructor(constraint: string, options?: ErrorOptions) {
    super(`The constraint ${constraint} was violated`, options)
    this.constraint = constraint
  }
}

/** A text has characters that the database cannot store, such as U+0000. The statement changed nothing. */
export class UnstorableText extends Error {
  override readonly name = 'UnstorableText'

  constructor(options?: ErrorOptions) {
    super('A text cannot be stored', options)
  }
}

/** The caller was disabled or deleted since they were authenticated. */
export class CallerGone extends Error {
  override readonly name = 'CallerGone'
}

/** Something that the transaction relies on has changed before it was locked. The transaction is repeated. */
export class SerializationFailure extends Error {
  override readonly name = 'SerializationFailure'
  /** The SQLSTATE of the same failure in the database. */
  readonly code = '40001'
}

/** Whether the user lacks a privilege. */
export const isForbidden = (error: unknown): error is Error => sqlState(error) === '42501'

/** Whether the database does not know a value, such as a time zone. */
export const isUnknownValue = (error: unknown): boolean => sqlState(error) === '22023'

/** Whether the database is away, and not only busy, or too slow for a statement. */
export const isOutage = (error: unknown): error is DatabaseUnavailable =>
  error instanceof DatabaseUnavailable &&
  !(error instanceof StatementCancelled) &&
  !(error instanceof NotSent)

/**
 * The rows of a list, a search or a feed. One that has only waited for a lock, as during a migration, counts as too expensive as well:
 * the error is the same.
 *
 * @throws ListTooExpensive
 */
export const orTooExpensive = async <T>(rows: Promise<T>): Promise<T> => {
  try {
    return await rows
  } catch (error) {
    throw error instanceof StatementCancelled && !isOfOperator(error)
      ? new ListTooExpensive({ cause: error.cause })
      : error
  }
}

/**
 * Whether an operator has cancelled the statement. A timeout has the same code and routine. On a server with `lc_messages` of another
 * language nobody can tell, and it counts as a timeout: those are frequent.
 */
const isOfOperator = ({ cause }: StatementCancelled): boolean =>
  cause instanceof Error && cause.message === 'canceling statement due to user request'

/** Whether a retry of the same statement may succeed: serialization failure (40001) or deadlock (40P01). */
export const isTransient = (error: unknown): boolean => ['40001', '40P01'].includes(sqlState(error))

// 08: connection errors. 57P: the server closes connections. 25P: a timeout closes the session. Others: driver, system.
const connectionLoss =
  /^(08|57P0[1245]|25P0[34])|^(CONNECTION_\w+|CONNECT_TIMEOUT|ECONNRESET|EPIPE|ETIMEDOUT)$/

/** Whether the connection was lost while the statement ran. */
export const isConnectionLoss = (error: unknown): boolean => connectionLoss.test(sqlState(error))

// 25006: a read-only server such as a standby. 55000: no transaction ids during recovery.
const readOnlyStates = ['25006', '55000'] as const

/** Whether the server takes no writes. */
export const isReadOnly = (error: unknown): boolean =>
  readOnlyStates.some((state) => state === sqlState(error))

/** Whether an earlier statement of the transaction failed. */
export const isAborted = (error: unknown): boolean => sqlState(error) === '25P02'

/** Whether the statement was certainly rolled back: true for errors that do not end the session. */
export const isRolledBack = (error: unknown): boolean => isOfServer(error) && error.severity === 'ERROR'

/** Whether the database did not answer, for whatever reason. */
export const isUnavailable = (error: unknown): boolean => translateError(error) instanceof DatabaseUnavailable

/**
 * Maps driver errors to the errors above. Any other error is a bug and returned; it is logged and never shown to a client. Driver
 * errors lose the fields that quote rows and parameters, which are not for the log.
 */
export const translateError = (error: unknown): unknown => {
  if (isOfServer(error)) for (const field of quotingFields) Reflect.deleteProperty(error, field)
  const constraint = constraintOf(error)
  if (constraint !== null) return new ConstraintViolation(constraint, { cause: error })
  if (unstorable.has(sqlState(error))) return new UnstorableText({ cause: error })
  if (sqlState(error) === queryCanceled) return new StatementCancelled({ cause: error })
  if (writeRefusals.has(sqlState(error))) return new WritesRefused({ cause: error })
  if (unavailable.test(sqlState(error))) return new DatabaseUnavailable({ cause: error })
  return error
}

const quotingFields = ['detail', 'where', 'internal_query'] as const

// 22021: an invalid byte sequence. 22P05: a character that cannot be stored.
const unstorable: ReadonlySet<string> = new Set(['22021', '22P05'])

/** Of statements that reach `statement_timeout`, and of pg_cancel_backend(). */
const queryCanceled = '57014'

// 53100: disk full.
const writeRefusals: ReadonlySet<string> = new Set([...readOnlyStates, '53100'])

// 08: connection errors. 28: login refused. 3D: no such database. 53: insufficient resources. 57: operator intervention. 58: system error
// on the server. 25P, 55P03: timeouts that an operator has set. Others: driver, system.
const unavailable =
  /^(08|28|3D|53|57|58|25P0[34]|55P03)|^(CONNECTION_\w+|CONNECT_TIMEOUT|E(CONN(REFUSED|RESET|ABORTED)|PIPE|NOENT|TIMEDOUT|(HOST|NET)UNREACH|NOTFOUND|AI_AGAIN|MFILE|NFILE))$/

const isOfServer = (error: unknown): error is Error & { readonly severity: unknown } =>
  error instanceof Error && 'severity' in error

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
