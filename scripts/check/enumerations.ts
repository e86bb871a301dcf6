import { asObject, type Json, resolve } from '../../src/contract/contract.ts'

/** An `enum` that a response can have. Whole clients branch on it, so it has to say that it never grows. */
interface Enumeration {
  /** The schema and the property, such as `McpMessage.jsonrpc`; the operation, if it is in no schema. */
  readonly name: string
  readonly values: readonly unknown[]
  readonly isFinal: boolean
}

/** How the description of a final `enum` ends. */
const promise = 'Final: no version adds a value.'

const nameOf = (place: string): string =>
  place.replace('#/components/schemas/', '').replaceAll('/properties/', '.').replaceAll('/items', '')

/** Each `enum` that a response of a contract can have, by name. */
export const responseEnumerations = (document: Json): readonly Enumeration[] => {
  const found: Enumeration[] = []
  const seen = new Set<string>()
  const visit = (node: unknown, place: string): void => {
    if (typeof node !== 'object' || node === null) return
    const { $ref, enum: values, description } = node as Json
    if (typeof $ref === 'string') {
      if (seen.has($ref)) return
      seen.add($ref)
      visit(resolve(document, node), $ref)
      return
    }
    if (Array.isArray(values)) {
      const isFinal = typeof description === 'string' && description.endsWith(promise)
      found.push({ name: nameOf(place), values, isFinal })
      return
    }
    for (const [key, value] of Object.entries(node))
      if (key !== 'example' && key !== 'examples') visit(value, `${place}/${key}`)
  }
  for (const path of Object.values(asObject(document.paths)))
    for (const operation of Object.values(asObject(path)))
      if (!Array.isArray(operation)) {
        const { operationId, responses } = asObject(operation)
        visit(responses, String(operationId))
      }
  return found.toSorted((one, other) => one.name.localeCompare(other.name, 'en'))
}
