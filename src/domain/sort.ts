/** A field that a list is sorted by, and which way. */
export interface SortBy<Field extends string> {
  readonly field: Field
  readonly descending: boolean
}

/** Reads a `sort` parameter, whose form and names the contract has checked; null when a field is named twice. */
export const parseSort = <Field extends string>(
  text: string,
  isField: (name: string) => name is Field,
): readonly SortBy<Field>[] | null => {
  const order = text.split(',').map((name) => {
    const field = name.replace(/^-/, '')
    if (!isField(field)) throw new TypeError(`The contract takes a field that no list is sorted by: ${field}`)
    return { field, descending: name.startsWith('-') }
  })
  return new Set(order.map(({ field }) => field)).size === order.length ? order : null
}
