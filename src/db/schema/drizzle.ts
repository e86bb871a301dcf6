import type * as Orm from 'drizzle-orm'
import type * as Migrator from 'drizzle-orm/migrator'
import type * as Core from 'drizzle-orm/pg-core'
import { createRequire } from 'node:module'

export type { AnyColumn, GetColumnData, Query, SQL, SQLWrapper } from 'drizzle-orm'
export type { MigrationMeta } from 'drizzle-orm/migrator'
export type {
  AnyPgColumn,
  ExtraConfigColumn,
  PgPreparedQuery as PreparedQuery,
  PgQueryResultHKT,
  PgTable,
  PreparedQueryConfig,
  SelectedFieldsOrdered,
} from 'drizzle-orm/pg-core'

/**
 * The parts of drizzle-orm that the service uses, loaded as CommonJS. For each ES module of a package, Node parses the package's
 * `exports` again, and drizzle-orm has hundreds of modules and 180 KB of exports: importing it would cost half a second of CPU time
 * and 100 MiB of memory at every start. drizzle-kit compiles this file to CommonJS, where `import.meta` is empty.
 */
const require = createRequire(import.meta.url ?? __filename)

export const {
  aliasedTable,
  and,
  Column,
  eq,
  getTableColumns,
  getTableName,
  gt,
  gte,
  is,
  isNotNull,
  isNull,
  ne,
  or,
  Placeholder,
  sql,
} = require('drizzle-orm') as typeof Orm
export const {
  bigint,
  bigserial,
  boolean,
  check,
  customType,
  foreignKey,
  index,
  integer,
  interval,
  PgDatabase,
  PgDialect,
  PgPreparedQuery,
  PgSession,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} = require('drizzle-orm/pg-core') as typeof Core
export const { readMigrationFiles } = require('drizzle-orm/migrator') as typeof Migrator
