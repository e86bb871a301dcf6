/**
 * The JSON of a `T`, as text that PostgreSQL built and that is passed on without being parsed. The type parameter is
 * a promise of the statement that built it, which the tests check against the contract.
 */
export interface JsonText<T> {
  readonly json: string
  readonly of?: T
}

/** Marks text from a statement as the JSON of a `T`. */
export const jsonText = <T>(json: string): JsonText<T> => ({ json })
