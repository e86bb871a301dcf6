import { createScanner } from 'jsonc-parser'
import { isUtf8 } from 'node:buffer'
import secureJson from 'secure-json-parse'
import { hasTooManyMarks, isCleanText, maxMarksInRow } from '../domain/shared/text.ts'
import { escapePointer, maxErrors, type ProblemError, problems } from '../problems/problems.ts'

/** Nesting depth of a JSON body. No schema of the contract is deeper than ten. */
const maxDepth = 100

/**
 * Parses a JSON body strictly: valid UTF-8; no duplicate keys; no U+0000, lone surrogate or long run of combining marks in
 * a string; no keys that change a prototype.
 *
 * @throws Problem
 */
export const parseJson = (bytes: Buffer): unknown => {
  if (bytes.length === 0) throw problems.invalidRequest('The body is empty; it must be a JSON object.')
  if (!isUtf8(bytes)) throw problems.invalidRequest('The body is not valid UTF-8.')
  const text = bytes.toString()
  const value = parseSafely(text)
  checkKeys(text)
  // In valid UTF-8, JSON can hold U+0000 and lone surrogates only as escapes.
  if (text.includes('\\u') || hasTooManyMarks(text)) checkStrings(value)
  return value
}

const parseSafely = (text: string): unknown => {
  try {
    return secureJson.parse(text) as unknown
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error
    const isPrototype = error.message.includes('forbidden prototype property')
    throw problems.invalidRequest(
      isPrototype
        ? 'The body has the key __proto__ or constructor.prototype, which is not allowed.'
        : 'The body is not valid JSON.',
    )
  }
}

/** An object or array that encloses the scanner's position. */
interface Container {
  /** Keys seen so far; null for an array. */
  readonly keys: Set<string> | null
  key: string
  index: number
}

/**
 * Refuses duplicate keys, of which JSON.parse keeps the last and other parsers the first (RFC 8259, section 4), and deep
 * nesting. Expects valid JSON. The scanner does not recurse.
 */
const checkKeys = (text: string): void => {
  const scanner = createScanner(text, true)
  const open: Container[] = []
  const errors: ProblemError[] = []
  let isKeyNext = false
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    const inside = open.at(-1)
    const character = text.charAt(scanner.getTokenOffset())
    switch (character) {
      case '{':
      case '[':
        if (open.length === maxDepth)
          throw problems.invalidRequest(`The body is nested more than ${maxDepth} levels deep.`)
        isKeyNext = character === '{'
        open.push({ keys: isKeyNext ? new Set() : null, key: '', index: 0 })
        break
      case '}':
      case ']':
        open.pop()
        isKeyNext = false
        break
      case ',':
        isKeyNext = inside?.keys != null
        if (inside !== undefined) inside.index += 1
        break
      case '"':
        if (!isKeyNext || inside?.keys == null) break
        isKeyNext = false
        inside.key = scanner.getTokenValue()
        if (inside.keys.has(inside.key) && errors.length < maxErrors)
          errors.push({ pointer: pointerTo(open), detail: 'must not appear more than once' })
        inside.keys.add(inside.key)
        break
      default:
    }
  }
  if (errors.length > 0) throw problems.invalidFields(errors)
}

const pointerTo = (open: readonly Container[]): string =>
  open.map(({ keys, key, index }) => `/${keys === null ? index : escapePointer(key)}`).join('')

/** Iterative, so that deep nesting cannot exhaust the call stack. */
const checkStrings = (root: unknown): void => {
  const errors: ProblemError[] = []
  const open: { readonly value: unknown; readonly pointer: string }[] = [{ value: root, pointer: '' }]
  for (let next = open.pop(); next !== undefined && errors.length < maxErrors; next = open.pop()) {
    const { value, pointer } = next
    const fault = typeof value === 'string' ? validateText(value) : null
    if (fault !== null) errors.push({ pointer, detail: fault })
    if (typeof value !== 'object' || value === null) continue
    // In reverse, since the last one is checked next.
    for (const [key, item] of Object.entries(value).toReversed()) {
      const keyFault = validateText(key)
      // A pointer must not contain a refused key.
      if (keyFault === null) open.push({ value: item, pointer: `${pointer}/${escapePointer(key)}` })
      else errors.push({ pointer, detail: `${keyFault} in its keys` })
    }
  }
  if (errors.length > 0) throw problems.invalidFields(errors)
}

/** The error in a text that no field accepts; null if it has none. */
export const validateText = (text: string): string | null => {
  if (!isCleanText(text)) return 'must not contain U+0000 or a lone surrogate'
  return hasTooManyMarks(text) ? `must have at most ${maxMarksInRow} consecutive combining marks` : null
}
