/** The names and texts of the contract, as models see them. */

/** `listTasks` becomes `list_tasks`, and `If-Match` becomes `if_match`. */
export const snakeCase = (name: string): string =>
  name
    .replaceAll('-', '_')
    .replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`)
    .toLowerCase()

/** What descriptions say about the form of HTTP requests and for generated clients, and what models get instead. */
const httpPhrases: readonly (readonly [RegExp, string])[] = [
  [/ Repeat the parameter for [a-z]+ [a-z]+\./g, ''],
  [/ Percent-encode it: an unencoded `\+` is read as a space\./g, ''],
  [/, comma-separated(?=\.)/g, ''],
  [/ with a JSON merge patch/g, ''],
  [/ Final: no version adds a value\./g, ''],
  [/ null clears /g, ' `clear` sets to null '],
]

/** A description without what concerns only HTTP requests and generated clients, with the names of tools instead of operations. */
export const forModels = (description: string): string =>
  httpPhrases
    .reduce((text, [phrase, replacement]) => text.replaceAll(phrase, replacement), description)
    .replaceAll(/`([a-z]+[A-Z][A-Za-z]+)`/g, (_, id: string) => `\`${snakeCase(id)}\``)
    .trim()
