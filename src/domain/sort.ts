/** A field that a list is sorted by, and which way. */
export interface SortBy<Field extends string> {
  readonly field: Field
  readonly descending: boolean
}

/** A list in an order without an index has more items than a request sorts. */
export class TooManyToSort extends Error {
  override readonly name = 'TooManyToSort'
  readonly limit: number

  constructor(limit: number) {
    super(`More than ${limit} items to sort`)
    this.limit = limit
  }
}

/** Reads a `sort` parameter, whose form and names the contract has validated; null when it names a field twice. */
export const parseSort = <Field extends string>(
  text: string,
  isField: (name: string) => name is Field,
): readonly SortBy<Field>[] | null => {
  const order = text.split(',').map((name) => {
    const field = name.replace(/^-/, '')
    if (!isField(field)) throw new TypeError(`The contract allows a sort field that no list has: ${field}`)
    return { field, descending: name.startsWith('-') }
  })
  return new Set(order.map(({ field }) => field)).size === order.length ? order : null
}
