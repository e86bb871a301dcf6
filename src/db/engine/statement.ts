import type { Database, Manner } from './client.ts'
import { PgDialect, type SQL, sql } from './drizzle.ts'

export interface ParameterTypes {
  uuid: string
  'uuid?': string | null
  text: string
  'text?': string | null
  int: number
  'int?': number | null
  int8: number
  'int8?': number | null
  float8: number
  bool: boolean
  instant: string
  'instant?': string | null
  bytes: Buffer
  json: object
  xid8: string
  'xid8?': string | null
  'uuid[]': readonly string[]
  'text[]': readonly string[]
  'text[]?': readonly string[] | null
}

interface ColumnTypes {
  text: string
  'text?': string | null
  int: number
  int8: number
  'int?': number | null
  bool: boolean
  bytes: Buffer
}

export type ParameterType = keyof ParameterTypes
export type Parameters = Readonly<Record<string, ParameterType>>
export type Columns = Readonly<Record<string, keyof ColumnTypes>>

/** Values for a statement's parameters. None can be undefined: that would hang the driver. */
export type Values<P extends Parameters> = { readonly [Name in keyof P]: ParameterTypes[P[Name]] }
export type Row<C extends Columns> = { readonly [Name in keyof C]: ColumnTypes[C[Name]] }

/** A statement's parameters as pieces of SQL, each with its cast. */
export type Placeholders<P extends Parameters> = { readonly [Name in keyof P]: SQL }

/** A prepared statement: runs with named values and answers with typed rows. */
export type Statement<P extends Parameters, C extends Columns> = (
  db: Database,
  values: Values<P>,
) => Promise<Row<C>[]>

const postgresTypes: Record<ParameterType, string> = {
  uuid: 'uuid',
  'uuid?': 'uuid',
  text: 'text',
  'text?': 'text',
  int: 'int',
  'int?': 'int',
  int8: 'bigint',
  'int8?': 'bigint',
  float8: 'float8',
  bool: 'bool',
  instant: 'timestamptz',
  'instant?': 'timestamptz',
  bytes: 'bytea',
  json: 'jsonb',
  xid8: 'xid8',
  'xid8?': 'xid8',
  'uuid[]': 'uuid[]',
  'text[]': 'text[]',
  'text[]?': 'text[]',
}

const dialect = new PgDialect()

/** The text of a statement, and the names of its parameters from $1 on. */
export interface Compiled {
  readonly text: string
  readonly names: readonly string[]
}

/**
 * A statement that is compiled once, so that running it only binds values. postgres.js prepares it on each connection
 * at its first use.
 */
export const statement = <P extends Parameters, C extends Columns>(
  parameters: P,
  columns: C,
  build: (placeholders: Placeholders<P>) => SQL,
): Statement<P, C> => {
  const compiled = compile(build(placeholdersFor(parameters)))
  return (db, values) => runCompiled(db, compiled, columns, values)
}

/**
 * Compiles a statement with `parameter`s; whoever does so at run time bounds how many there are. A parameter is sent once,
 * however often the statement uses it.
 */
export const compile = (query: SQL): Compiled => {
  const { sql: text, params } = dialect.sqlToQuery(query)
  const used = params.map(nameOf)
  const names = [...new Set(used)]
  const numbers = used.map((name) => names.indexOf(name) + 1)
  return { text: text.replaceAll(/\$(\d+)/g, (_, place) => `$${numbers[Number(place) - 1]}`), names }
}

const nameOf = (param: unknown): string => {
  if (typeof param === 'object' && param !== null && 'name' in param && typeof param.name === 'string')
    return param.name
  throw new TypeError('A value is in the text of a statement; it is to be a parameter')
}

/** A parameter as a piece of SQL, with its cast. */
export const parameter = (name: string, type: ParameterType): SQL =>
  sql`${sql.placeholder(name)}::${sql.raw(postgresTypes[type])}`

/**
 * Runs a compiled statement; rows are checked against `columns` on the way out. What a statement put down for the audit
 * trail is its column `audit`, and is reported once it is committed. A connection keeps what is prepared until it ends.
 */
export const runCompiled = async <C extends Columns>(
  db: Database,
  { text, names }: Compiled,
  columns: C,
  values: Readonly<Record<string, unknown>>,
  manner: Manner = 'prepared',
): Promise<Row<C>[]> => {
  const rows = await db.run(text, encode(names, values), manner)
  return rows.map((row) => {
    if (typeof row.audit === 'string') db.audited?.(row.audit)
    return parseRow(columns, row)
  })
}

/** The only row of a statement that answers with at most one. */
export const onlyRow = <R>(rows: readonly R[]): R | null => rows[0] ?? null

const placeholdersFor = <P extends Parameters>(parameters: P): Placeholders<P> =>
  mapRecord(parameters, (type, name) => parameter(name, type)) as Placeholders<P>

/** The values of these parameters, in their order. */
const encode = (names: readonly string[], values: Readonly<Record<string, unknown>>): unknown[] =>
  names.map((name) => {
    const value = values[name]
    if (value === undefined) throw new TypeError(`The statement's parameter ${name} is undefined`)
    return Array.isArray(value) ? arrayLiteral(value) : value
  })

/** PostgreSQL's text form of an array, since the driver is told not to fetch the types that it would need for one. */
const arrayLiteral = (items: readonly unknown[]): string =>
  `{${items.map((item) => `"${String(item).replace(/["\\]/g, (character) => `\\${character}`)}"`).join(',')}}`

const parseRow = <C extends Columns>(columns: C, row: Readonly<Record<string, unknown>>): Row<C> =>
  mapRecord(columns, (type, name) => parseColumn(type, row[name], name)) as Row<C>

const parseColumn = (type: keyof ColumnTypes, value: unknown, name: string): unknown => {
  // The driver gives a bigint as text.
  const parsed = type === 'int8' ? Number(value) : value
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
      return value === null || Number.isSafeInteger(value)
    case 'bool':
      return typeof value === 'boolean'
    case 'bytes':
      return Buffer.isBuffer(value)
  }
}

const mapRecord = <K extends string, V, W>(
  record: Readonly<Record<K, V>>,
  map: (value: V, key: K) => W,
): Record<K, W> => {
  const result: Partial<Record<K, W>> = {}
  for (const key in record) result[key] = map(record[key], key)
  return result as Record<K, W>
}
