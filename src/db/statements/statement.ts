import { resultOf } from './empty-results.ts'
import type { Runner, RunMode } from '../engine/transaction.ts'
import {
  type ContextPlaceholders,
  contextPlaceholders,
  contextValues,
  type StatementContext,
} from './context.ts'
import { PgDialect, type SQL } from '../schema/drizzle.ts'
import {
  type Columns,
  type ColumnTypes,
  mapRecord,
  type Parameters,
  type Placeholders,
  placeholdersFor,
  type Row,
  type Values,
} from './parameters.ts'

/** A prepared statement: takes named values and returns typed rows. */
export type Statement<P extends Parameters, C extends Columns> = (
  db: Runner,
  values: Values<P>,
) => Promise<Row<C>[]>

export const dialect = new PgDialect()

/** A statement's text, and the names of its parameters in order, starting with $1. */
export interface Compiled {
  readonly text: string
  readonly names: readonly string[]
}

/** `<table or topic>.<verb>`: visible in pg_stat_activity, slow logs and traces. */
export type StatementName = `${string}.${string}`

/** Statements by name: `hand` with their text as SQL, `builder` by a query builder. */
interface KnownStatement {
  readonly kind: 'hand' | 'builder'
  readonly text: string
}

const known = new Map<StatementName, KnownStatement>()

/** The statements of all modules that were loaded, but for those that are compiled at their first use: lists. */
export const knownStatements = (): ReadonlyMap<StatementName, KnownStatement> => known

/**
 * A statement that is compiled once; running it only binds values. postgres.js prepares it at its first use on each
 * connection.
 *
 * @throws Error when the name is not unique
 */
export const statement = <P extends Parameters, C extends Columns>(
  name: StatementName,
  parameters: P,
  columns: C,
  build: (placeholders: Placeholders<P>) => SQL,
): Statement<P, C> => {
  const compiled = compileNamed(name, build(placeholdersFor(parameters)))
  return (db, values) => runCompiled(db, compiled, columns, values)
}

/** A statement that takes values from the context in addition to its own. */
export type Query<P extends Parameters, C extends Columns> = (
  ctx: StatementContext,
  values: Values<P>,
) => Promise<Row<C>[]>

/**
 * A statement of an operation. It may use every parameter of the context.
 *
 * @throws Error when the name is not unique
 */
export const query = <P extends Parameters, C extends Columns>(
  name: StatementName,
  parameters: P,
  columns: C,
  build: (placeholders: Placeholders<P> & ContextPlaceholders) => SQL,
): Query<P, C> => {
  const placeholders = { ...contextPlaceholders, ...placeholdersFor(parameters) }
  const compiled = compileNamed(name, build(placeholders))
  return (ctx, values) =>
    runCompiled(ctx.db, compiled, columns, { ...contextValues(ctx, compiled.names), ...values })
}

const compileNamed = (name: StatementName, query: SQL): Compiled => {
  const compiled = compile(name, query)
  register(name, { kind: 'hand', text: compiled.text })
  return compiled
}

/** @throws Error when another statement has the name */
export const register = (name: StatementName, statement: KnownStatement): void => {
  if (known.has(name)) throw new Error(`Two statements are called ${name}`)
  known.set(name, statement)
}

/** The text as it is sent: its name is a leading comment. */
export const named = (name: StatementName, text: string): string => `/* ${name} */ ${text}`

/** The name of a statement, from its text; of others, their first word. */
export const nameOfStatement = (text: string): string =>
  /^\/\* (.+?) \*\//.exec(text)?.[1] ?? /\w+/.exec(text)?.[0]?.toUpperCase() ?? 'SQL'

/**
 * Compiles a statement with `parameter`s. A caller that compiles at run time must bound the number of statements. A parameter
 * that is used several times is sent once. The name is sent as a leading comment.
 */
export const compile = (name: StatementName, query: SQL): Compiled => {
  const { sql: text, params } = dialect.sqlToQuery(query)
  const used = params.map(nameOf)
  const names = [...new Set(used)]
  const numbers = used.map((one) => names.indexOf(one) + 1)
  const numbered = text.replaceAll(/\$(\d+)/g, (_, place) => `$${numbers[Number(place) - 1]}`)
  return { text: named(name, numbered), names }
}

/** What SQL with `parameter`s looks like, without their values. */
export const shapeOf = (part: SQL): string => {
  const { sql: text, params } = dialect.sqlToQuery(part)
  return [text, ...params.map(nameOf)].join(' ')
}

const nameOf = (param: unknown): string => {
  if (typeof param === 'object' && param !== null && 'name' in param && typeof param.name === 'string')
    return param.name
  throw new TypeError('A statement contains a value; use a parameter')
}

/**
 * Runs a compiled statement and checks its rows against `columns`. A connection keeps its prepared statements until it closes.
 */
export const runCompiled = async <C extends Columns>(
  db: Runner,
  { text, names }: Compiled,
  columns: C,
  values: Readonly<Record<string, unknown>>,
  mode: RunMode = 'prepared',
): Promise<Row<C>[]> => {
  const rows = await db.run(text, encode(names, values), mode)
  return resultOf(
    text,
    rows.map((row) => parseRow(columns, row)),
  )
}

/** Parameter values in the order of `names`. */
const encode = (names: readonly string[], values: Readonly<Record<string, unknown>>): unknown[] =>
  names.map((name) => parameterValue(values, name))

/** A parameter as the driver takes it. */
export const parameterValue = (values: Readonly<Record<string, unknown>>, name: string): unknown => {
  const value = values[name]
  if (value === undefined) throw new TypeError(`The statement's parameter ${name} is undefined`)
  return Array.isArray(value) ? arrayLiteral(value) : value
}

/** PostgreSQL's text format of an array: with `fetch_types: false` the driver cannot encode arrays itself. */
const arrayLiteral = (items: readonly unknown[]): string =>
  `{${items.map((item) => `"${String(item).replace(/["\\]/g, (character) => `\\${character}`)}"`).join(',')}}`

const parseRow = <C extends Columns>(columns: C, row: Readonly<Record<string, unknown>>): Row<C> =>
  mapRecord(columns, (type, name) => parseColumn(type, row[name], name)) as Row<C>

const parseColumn = (type: keyof ColumnTypes, value: unknown, name: string): unknown => {
  // The driver returns a bigint as text.
  const parsed = type === 'int8' || (type === 'int8?' && value !== null) ? Number(value) : value
  if (!isOfType(parsed, type)) throw new TypeError(`The column ${name} is not ${type}`)
  return parsed
}

const isOfType = (value: unknown, type: keyof ColumnTypes): boolean => {
  switch (type) {
    case 'text':
      return typeof value === 'string'
    case 'text?':
      return value === null || typeof value === 'string'
    case 'int':
    case 'int8':
      return Number.isSafeInteger(value)
    case 'int?':
    case 'int8?':
      return value === null || Number.isSafeInteger(value)
    case 'bool':
      return typeof value === 'boolean'
    case 'bytes':
      return Buffer.isBuffer(value)
  }
}
