export interface SortBy<Field extends string> {
  readonly field: Field
  readonly descending: boolean
}

/** Parses a `sort` parameter, which the contract has validated; null if it names a field twice. */
export const parseSort = <Field extends string>(
  text: string,
  fieldOf: (name: string) => Field | undefined,
): readonly SortBy<Field>[] | null => {
  const order = text.split(',').map((name) => {
    const field = fieldOf(name.replace(/^-/, ''))
    if (field === undefined) throw new TypeError(`The contract has an unknown sort field: ${name}`)
    return { field, descending: name.startsWith('-') }
  })
  return new Set(order.map(({ field }) => field)).size === order.length ? order : null
}
