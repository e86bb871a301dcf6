/**
 * JSON text of a `T`, built by PostgreSQL and sent without parsing. The compiler cannot check the type parameter; the tests
 * check the text against the contract.
 */
export interface JsonText<T> {
  readonly json: string
  readonly of?: T
}

/** Declares text from a statement to be the JSON of a `T`, which is never inferred. */
export const jsonText = <T>(json: string): JsonText<NoInfer<T>> => ({ json })

/** The value of JSON text. */
export const parse = <T>({ json }: JsonText<T>): T => JSON.parse(json) as T

/** The JSON text of a value. */
export const stringify = <T>(value: T): JsonText<T> => ({ json: JSON.stringify(value) })

/** The JSON text of an object, from that of its fields. A missing field or one with a value of another type is a compile error. */
export const jsonObject = <T extends object>(fields: {
  readonly [Name in keyof T]-?: JsonText<NoInfer<T>[Name]>
}): JsonText<T> => {
  const members = Object.entries<JsonText<unknown>>(fields).map(
    ([name, { json }]) => `${JSON.stringify(name)}:${json}`,
  )
  return { json: `{${members.join(',')}}` }
}
