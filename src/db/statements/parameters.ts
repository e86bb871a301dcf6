import { type PgTable, type SQL, sql } from '../schema/drizzle.ts'

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
  day: string
  'instant?': string | null
  bytes: Buffer
  'bytes?': Buffer | null
  json: object
  xid8: string
  'xid8?': string | null
  'uuid[]': readonly string[]
  'uuid[]?': readonly string[] | null
  'text[]': readonly string[]
  'text[]?': readonly string[] | null
}

export interface ColumnTypes {
  text: string
  'text?': string | null
  int: number
  int8: number
  'int8?': number | null
  'int?': number | null
  bool: boolean
  bytes: Buffer
}

export type ParameterType = keyof ParameterTypes
export type Parameters = Readonly<Record<string, ParameterType>>
export type Columns = Readonly<Record<string, keyof ColumnTypes>>

/** Parameters that are written to columns of the same names. */
export type ParametersOf<T extends PgTable> = { readonly [Name in keyof T['$inferInsert']]?: ParameterType }

/** Values of a statement's parameters. None may be undefined: the driver would hang. */
export type Values<P extends Parameters> = { readonly [Name in keyof P]: ParameterTypes[P[Name]] }
export type Row<C extends Columns> = { readonly [Name in keyof C]: ColumnTypes[C[Name]] }

/** A statement's parameters as SQL, each with its cast. */
export type Placeholders<P extends Parameters> = { readonly [Name in keyof P]: SQL }

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
  // As text, since the driver would convert a date to a Date, which cannot be infinity.
  day: 'text::date',
  'instant?': 'timestamptz',
  bytes: 'bytea',
  'bytes?': 'bytea',
  json: 'jsonb',
  xid8: 'xid8',
  'xid8?': 'xid8',
  'uuid[]': 'uuid[]',
  'uuid[]?': 'uuid[]',
  'text[]': 'text[]',
  'text[]?': 'text[]',
}

/** A parameter as SQL, with its cast. */
export const parameter = (name: string, type: ParameterType): SQL =>
  sql`${sql.placeholder(name)}::${sql.raw(postgresTypes[type])}`

/**
 * An array parameter, whose length the subselect hides from the planner: otherwise the custom plans for short arrays look cheaper than
 * the generic plan, and the statement is planned at each execution.
 */
export const ofAnyLength = (array: SQL): SQL => sql`(select ${array})`

/** Any of the elements of an array parameter. */
export const anyOf = (ids: SQL): SQL => sql`any(${ofAnyLength(ids)}::uuid[])`

export const placeholdersFor = <P extends Parameters>(parameters: P): Placeholders<P> =>
  mapRecord(parameters, (type, name) => parameter(name, type)) as Placeholders<P>

export const mapRecord = <K extends string, V, W>(
  record: Readonly<Record<K, V>>,
  map: (value: V, key: K) => W,
): Record<K, W> => {
  const result: Partial<Record<K, W>> = {}
  for (const key in record) result[key] = map(record[key], key)
  return result as Record<K, W>
}
