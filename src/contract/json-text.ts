/**
 * JSON text of a `T`, built by PostgreSQL and sent without parsing. The compiler cannot check the type parameter; the tests
 * check the text against the contract.
 */
export interface JsonText<T> {
  readonly json: string
  readonly of?: T
}

/** Declares text from a statement to be the JSON of a `T`. */
export const jsonText = <T>(json: string): JsonText<T> => ({ json })
