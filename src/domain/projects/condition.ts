import { type Combined, parseFilter, resolveLeaves, unexpected } from '../shared/filter-expression.ts'
import {
  type IntegrationCondition,
  integrationFieldNames,
  readIntegration,
} from '../shared/integration-condition.ts'

/** A condition on projects, from `filter`. */
export type ProjectCondition = Combined<IntegrationCondition>

/**
 * Parses a filter of projects; null if it is empty.
 *
 * @throws FilterError
 */
export const readProjectCondition = (source: string): ProjectCondition | null => {
  const expression = parseFilter(source)
  if (expression === null) return null
  return resolveLeaves(expression, (leaf) => {
    const condition = leaf.kind === 'word' ? null : readIntegration(leaf)
    if (condition !== null) return condition
    throw unexpected(leaf.kind === 'word' ? leaf.word : leaf.field, expectedComparison)
  })
}

const expectedComparison = `a comparison of ${integrationFieldNames.join(', ')}, such as metadata.customer_id = "42"`
