import { Column, is, PgDatabase, PgPreparedQuery, PgSession, Placeholder } from '../schema/drizzle.ts'
import type {
  PgQueryResultHKT,
  PreparedQuery,
  PreparedQueryConfig,
  Query,
  SelectedFieldsOrdered,
} from '../schema/drizzle.ts'
import { resultOf } from './empty-results.ts'
import { type Parameters, type Placeholders, placeholdersFor, type Values } from './parameters.ts'
import { dialect, named, parameterValue, register, type StatementName } from './statement.ts'
import type { ResultRow } from '../engine/session.ts'
import type { Runner } from '../engine/transaction.ts'

/** A statement that the query builder has built: its text and parameters, and the fields of its rows. */
class BuiltQuery<T extends PreparedQueryConfig> extends PgPreparedQuery<T> {
  readonly fields: SelectedFieldsOrdered
  constructor(query: Query, fields: SelectedFieldsOrdered = []) {
    super(query, undefined, undefined)
    this.fields = fields
  }
  execute(): never {
    throw new Error('A built statement runs on a Runner')
  }
}

/** Builds statements without running them. */
class BuilderSession extends PgSession {
  prepareQuery<T extends PreparedQueryConfig>(query: Query, fields?: SelectedFieldsOrdered): BuiltQuery<T> {
    return new BuiltQuery<T>(query, fields)
  }
  transaction(): never {
    throw new Error('A transaction runs on a Database')
  }
}

/** The query builder. What it builds can be a part of a statement by hand. */
export const builder = new PgDatabase<PgQueryResultHKT>(dialect, new BuilderSession(dialect), undefined)

/** What the query builder returns for a statement with this result. */
interface Buildable<Result> {
  prepare(name: string): PreparedQuery<PreparedQueryConfig & { execute: Result }>
}

/** Without RETURNING, a statement has no rows. */
type RowsOf<Result> = Result extends readonly unknown[] ? Readonly<Result> : readonly never[]

/**
 * A statement of the query builder, which checks its columns and infers the types of its rows. It is built once; running it only binds
 * values. A session prepares it at its first use.
 *
 * @throws Error when the name is not unique
 */
export const builtStatement = <P extends Parameters, Result>(
  name: StatementName,
  parameters: P,
  build: (db: typeof builder, p: Placeholders<P>) => Buildable<Result>,
): ((runner: Runner, values: Values<P>) => Promise<RowsOf<Result>>) => {
  const built = build(builder, placeholdersFor(parameters)).prepare(name)
  if (!(built instanceof BuiltQuery)) throw new TypeError(`${name} was not built by this builder`)
  const { sql: text, params } = built.getQuery()
  const sent = named(name, text)
  register(name, { kind: 'builder', text: sent })
  return async (runner, values) => {
    const bound = params.map((param) => (is(param, Placeholder) ? parameterValue(values, param.name) : param))
    const rows = await runner.run(sent, bound, 'arrays')
    const read = rows.map((row) => readRow(built.fields, row))
    return resultOf(sent, read) as unknown as RowsOf<Result>
  }
}

/** The row as an object, with the columns by number. Its type is the builder's. */
const readRow = (fields: SelectedFieldsOrdered, values: ResultRow): object =>
  Object.fromEntries(
    fields.map(({ path, field }, index) => {
      const value = values[index]
      const read = value !== null && is(field, Column) ? field.mapFromDriverValue(value) : value
      return [path.join('.'), read]
    }),
  )
