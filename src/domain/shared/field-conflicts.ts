/** A field that does not have the value that a client expects. */
export interface FieldConflict {
  /** The name in the body; of metadata, `metadata.` and the key, as in filters. */
  readonly field: string
  readonly current: unknown
}

/**
 * The fields that do not have the expected values, which are normalized like those of a patch. Lists are sets. Of an object, only the
 * expected keys are compared, and null stands for a missing one.
 */
export const fieldConflicts = <Fields extends object>(
  expected: Partial<Fields>,
  current: Fields,
): readonly FieldConflict[] => {
  const values = new Map<string, unknown>(Object.entries(current))
  return Object.entries(expected).flatMap(([field, value]: readonly [string, unknown]) =>
    conflictsIn(field, value, values.get(field)),
  )
}

const conflictsIn = (field: string, expected: unknown, current: unknown): readonly FieldConflict[] => {
  if (isKeyed(expected) && isKeyed(current)) {
    const values = new Map(Object.entries(current))
    return Object.entries(expected).flatMap(([key, value]) =>
      conflictsIn(`${field}.${key}`, value, values.get(key) ?? null),
    )
  }
  const isSame =
    Array.isArray(expected) && Array.isArray(current) ? isSameSet(expected, current) : expected === current
  return isSame ? [] : [{ field, current }]
}

const isKeyed = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isSameSet = (one: readonly unknown[], other: readonly unknown[]): boolean => {
  const values = new Set(one)
  return values.size === new Set(other).size && other.every((value) => values.has(value))
}
