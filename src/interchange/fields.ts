import { canonicalInstant, isDay } from '../domain/shared/dates.ts'
import type { Fault } from './drafts.ts'

/** The fields of an object in somebody's JSON. What is not as expected is a fault, and taken as missing. */
export interface Fields {
  readonly faults: Fault[]
  has(name: string): boolean
  /** Empty if missing. */
  text(name: string): string
  /** An id, which may be a number; null if missing. */
  id(name: string): string | null
  number(name: string): number | null
  flag(name: string): boolean
  /** The fallback if missing. */
  choice<Value extends string>(name: string, values: readonly Value[], fallback: Value): Value
  instant(name: string): string | null
  day(name: string): string | null
  /** All fields that are texts. */
  texts(): Readonly<Record<string, string>>
  /** Empty if missing or null. */
  list(name: string): readonly unknown[]
  /** The objects of a list. */
  objects(name: string): readonly Fields[]
  object(name: string): Fields | null
  fault(name: string | null, message: string, code?: Fault['code']): void
}

/** Null if the value is not an object. Objects in objects have the same faults. */
export const fieldsOf = (value: unknown, faults: Fault[] = []): Fields | null => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
  const get = (name: string): unknown =>
    Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
  const fault = (field: string | null, message: string, code: Fault['code'] = 'invalid_value'): null => {
    faults.push({ field, code, message })
    return null
  }
  const scalar = (name: string): string | null => {
    const found = get(name)
    if (found === undefined || found === null) return null
    if (typeof found === 'string') return found
    return typeof found === 'number' ? String(found) : fault(name, 'is not a text')
  }
  const fields: Fields = {
    faults,
    has: (name) => get(name) !== undefined && get(name) !== null,
    text: (name) => scalar(name) ?? '',
    id: (name) => scalar(name) || null,
    number(name) {
      const text = scalar(name)
      if (text === null || text === '') return null
      return Number.isFinite(Number(text)) ? Number(text) : fault(name, `is not a number: ${excerpt(text)}`)
    },
    flag: (name) => get(name) === true || get(name) === 1,
    choice(name, values, fallback) {
      const text = scalar(name)
      if (text === null || text === '') return fallback
      const found = values.find((value) => value === text)
      if (found === undefined) fault(name, `is not one of ${values.join(', ')}: ${excerpt(text)}`)
      return found ?? fallback
    },
    instant(name) {
      const text = scalar(name)
      if (text === null || text === '') return null
      return (
        canonicalInstant(isDay(text) ? `${text}T00:00:00Z` : text) ??
        fault(name, `is not a time: ${excerpt(text)}`)
      )
    },
    day(name) {
      const text = scalar(name)
      if (text === null || text === '') return null
      return isDay(text) ? text : fault(name, `is not a day: ${excerpt(text)}`)
    },
    texts: () =>
      Object.fromEntries(
        Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
      ),
    list(name) {
      const found = get(name)
      if (Array.isArray(found)) return found as readonly unknown[]
      if (found !== undefined && found !== null) fault(name, 'is not a list')
      return []
    },
    objects(name) {
      const items = fields.list(name).map((item) => fieldsOf(item, faults))
      if (items.includes(null)) fault(name, 'has an entry that is not an object')
      return items.filter((item) => item !== null)
    },
    object(name) {
      const found = get(name)
      if (found === undefined || found === null) return null
      return fieldsOf(found, faults) ?? fault(name, 'is not an object')
    },
    fault,
  }
  return fields
}

/** The start of a text, to show it in a message. */
export const excerpt = (text: string): string =>
  JSON.stringify(text.length > 60 ? `${text.slice(0, 60).toWellFormed()}…` : text)
