import type { Combined } from '../../domain/shared/filter-expression.ts'
import type { IntegrationCondition } from '../../domain/shared/integration-condition.ts'
import type { Bind } from '../statements/conditions.ts'
import { type AnyPgColumn, type SQL, sql } from '../schema/drizzle.ts'

/** The columns of other programs, of tasks and of projects. */
type IntegrationColumns = Readonly<Record<'metadata' | 'external_source' | 'external_id', AnyPgColumn>>

/** Compiles a condition on these columns. A missing value counts as false, except under NOT, where `coalesce` makes it false. */
export const holdsIntegration = (
  condition: Combined<IntegrationCondition>,
  row: IntegrationColumns,
  bind: Bind,
): SQL => {
  // The predicate of the index.
  const hasMetadata = sql`${row.metadata} <> '{}'`
  switch (condition.kind) {
    case 'and':
    case 'or': {
      const operands = condition.operands.map((operand) => holdsIntegration(operand, row, bind))
      return sql`(${sql.join(operands, sql.raw(` ${condition.kind} `))})`
    }
    case 'not':
      return sql`not coalesce(${holdsIntegration(condition.operand, row, bind)}, false)`
    case 'has_metadata':
      return hasMetadata
    case 'has_key':
      return sql`${row.metadata} ? ${bind('text', condition.key)}`
    case 'metadata':
      return sql`(${hasMetadata} and ${row.metadata} @> ${bind('json', { [condition.key]: condition.value })})`
    case 'external':
      return condition.value === null
        ? sql`${row[condition.field]} is not null`
        : sql`${row[condition.field]} = ${bind('text', condition.value)}`
  }
}
