import type { PgTable } from 'drizzle-orm/pg-core'
import { type SQL, sql } from './drizzle.ts'
import type * as tables from './tables.ts'

/**
 * Typed column names. Renaming or removing a column in tables.ts causes a compile error in every statement that uses it
 * through these functions. Only types are imported: tables.ts loads drizzle-orm and is meant for drizzle-kit.
 */

type Tables = {
  [
    Name in keyof typeof tables as (typeof tables)[Name] extends PgTable
      ? (typeof tables)[Name]['_']['name']
      : never
  ]: (typeof tables)[Name] extends PgTable ? (typeof tables)[Name]['_']['columns'] : never
}

export type TableName = keyof Tables
export type ColumnName<T extends TableName> = keyof Tables[T] & string

/** SQL of a value. Only the types of columns other than JSON are known; SQL of an unknown type is accepted for every type. */
export type Typed<V> = SQL & { readonly of?: V }

type ColumnValue<T extends TableName, Name extends ColumnName<T>> = Tables[T][Name] extends {
  readonly _: { readonly data: infer Data; readonly notNull: infer IsNotNull }
}
  ? (unknown extends Data ? never : Data) | (IsNotNull extends true ? never : null)
  : never

/** The columns of one row, by name. */
export type RowColumns<T extends TableName> = {
  readonly [Name in ColumnName<T>]: Typed<ColumnValue<T, Name>>
}

/** The columns of `row`, a table name or alias: `columnsOf<'tasks'>(task).title` is `task.title`. */
export const columnsOf = <T extends TableName>(row: SQL): RowColumns<T> =>
  new Proxy({} as RowColumns<T>, { get: (_, name) => sql`${row}.${sql.raw(String(name))}` })

/** Values of a table's columns. */
export type ColumnValues<T extends TableName> = { readonly [Name in ColumnName<T>]?: SQL }

const entriesOf = (values: object): [string, SQL][] => Object.entries<SQL>({ ...values })

/** The column list and the values of an INSERT, in the same order. */
export const insertion = <T extends TableName>(
  values: ColumnValues<T>,
): { readonly columns: SQL; readonly values: SQL } => ({
  columns: sql.raw(Object.keys(values).join(', ')),
  values: sql.join(
    entriesOf(values).map(([, value]) => value),
    sql`, `,
  ),
})

/** The SET list of an UPDATE. */
export const assignments = <T extends TableName>(values: ColumnValues<T>): SQL =>
  sql.join(
    entriesOf(values).map(([name, value]) => sql`${sql.raw(name)} = ${value}`),
    sql`, `,
  )
