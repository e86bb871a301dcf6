import {
  type Combined,
  type Comparison,
  type ComparisonExpression,
  FilterError,
  isWildcard,
  readEquality,
  unexpected,
  withoutWildcards,
} from './filter-expression.ts'
import { meansMissing } from './foreign-operators.ts'
import { metadataKey } from './integration-fields.ts'

/** A condition on the fields of other programs (`IntegrationFields`), of tasks and of projects. */
export type IntegrationCondition =
  | { readonly kind: 'has_metadata' }
  | { readonly kind: 'has_key'; readonly key: string }
  | { readonly kind: 'metadata'; readonly key: string; readonly value: string }
  /** Without a value, that there is any. */
  | { readonly kind: 'external'; readonly field: ExternalField; readonly value: string | null }

type ExternalField = 'external_source' | 'external_id'

/** The names of the fields. The keys of metadata are written as `metadata.key`. */
export const integrationFieldNames = ['metadata', 'external_source', 'external_id'] as const

/**
 * A comparison of one of these fields; null if it is of another field.
 *
 * @throws FilterError
 */
export const readIntegration = (comparison: ComparisonExpression): Combined<IntegrationCondition> | null => {
  const { field, operator, at, value } = comparison
  if (field.hasOpenStart || field.hasOpenEnd) return null
  if (field.text === 'metadata') {
    if (operator !== ':') throw new FilterError(at, operator, ': and a key, or metadata.key = "value"')
    if (isWildcard(value)) return { kind: 'has_metadata' }
    return { kind: 'has_key', key: readKey(withoutWildcards(value, expectedKey).text, comparison.value) }
  }
  if (field.text.startsWith('metadata.')) {
    const key = readKey(field.text.slice('metadata.'.length), field)
    return equals(comparison, { kind: 'has_key', key }, `metadata:${key}`, (text) => ({
      kind: 'metadata',
      key,
      value: text,
    }))
  }
  if (field.text !== 'external_source' && field.text !== 'external_id') return null
  const name = field.text
  return equals(comparison, { kind: 'external', field: name, value: null }, `${name}:*`, (text) => ({
    kind: 'external',
    field: name,
    value: text,
  }))
}

const expectedKey = 'a key of metadata, such as customer_id'

const readKey = (key: string, word: ComparisonExpression['value']): string => {
  if (metadataKey.test(key)) return key
  throw unexpected(word, expectedKey)
}

/** `=`, `!=` and `:` with a whole text. A missing value is not different from any: it matches no comparison. */
const equals = (
  comparison: ComparisonExpression,
  isPresent: IntegrationCondition,
  presence: string,
  equalTo: (text: string) => IntegrationCondition,
): Combined<IntegrationCondition> => {
  const { operator, value } = comparison
  if (operator === ':' && isWildcard(value)) return isPresent
  if (!value.isQuoted && meansMissing(value.text))
    throw unexpected(value, `${operator === '!=' ? '' : 'NOT '}${presence}, or a value in quotes`)
  const isEqual = equalTo(withoutWildcards(value, 'a value without *').text)
  const equality: Comparison = readEquality(comparison)
  return equality === '='
    ? isEqual
    : { kind: 'and', operands: [isPresent, { kind: 'not', operand: isEqual }] }
}
