/** The values of changed fields, before and after. */
export interface FieldChanges {
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
}

/** The fields of a patch that differ from the present values; null if none does. */
export const changedFields = <Name extends string, Value>(
  names: readonly Name[],
  present: Readonly<Record<Name, Value>>,
  patch: { readonly [Field in Name]?: Value },
): FieldChanges | null => {
  const changed = names.filter((name) => patch[name] !== undefined && patch[name] !== present[name])
  if (changed.length === 0) return null
  const valuesOf = (values: { readonly [Field in Name]?: Value }) =>
    Object.fromEntries(changed.map((name) => [name, values[name]]))
  return { before: valuesOf(present), after: valuesOf(patch) }
}
