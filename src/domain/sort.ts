export interface SortBy<Field extends string> {
  readonly field: Field
  readonly descending: boolean
}

/** Thrown for a list whose order no index supports and that has more than `limit` items to sort. */
export class TooManyToSort extends Error {
  override readonly name = 'TooManyToSort'
  readonly limit: number

  constructor(limit: number) {
    super(`More than ${limit} items to sort`)
    this.limit = limit
  }
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
