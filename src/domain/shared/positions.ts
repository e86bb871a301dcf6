import { randomBytes } from 'node:crypto'
import { BASE_62_DIGITS, generateKeyBetween, generateNKeysBetween } from 'fractional-indexing'
import { v7 } from 'uuid'

/**
 * Positions are fractional indexes: they store the manual order of tasks and sections. A position is text that is compared
 * byte by byte (`collate "C"`). Between two positions there is always another, so that a move writes one row. Equal positions
 * are improbable, but possible: the id breaks ties.
 */

/** Maximum length of a stored position. Instead of storing a longer one, the neighbours are spread out. */
export const maxPositionLength = 48

/** Random bits per position: two concurrent moves into the same gap collide once in 16 million times. */
const jitterBits = 24

const base62 = (value: bigint): string => {
  const base = BigInt(BASE_62_DIGITS.length)
  const digit = BASE_62_DIGITS.charAt(Number(value % base))
  return value < base ? digit : base62(value / base) + digit
}

/** An integer in the library's format: the first character encodes the number of digits that follow (`a` for one). */
const integerPosition = (value: bigint): string => {
  const digits = base62(value)
  return BASE_62_DIGITS.charAt(BASE_62_DIGITS.indexOf('a') + digits.length - 1) + digits
}

/**
 * The position of a new row with this UUIDv7: after all rows that were created before. It is computed from the id alone,
 * without reading a neighbour: the integer part is the id's time in milliseconds, the fraction is its counter, which orders the
 * rows that one process creates in the same millisecond.
 */
export const positionOfNew = (id: string): string => {
  const hex = id.replaceAll('-', '')
  // The counter: 12 bits after the version, which is one digit, and 20 bits after the variant, which is two bits.
  const counter = base62(BigInt(`0x${hex.slice(13, 22)}`)).padStart(7, '0')
  // A fraction must not end with a zero.
  return integerPosition(BigInt(`0x${hex.slice(0, 12)}`)) + counter.replace(/0{1,7}$/, '')
}

/** A gap between two rows: the positions around it. Null at the start or the end of the list. */
export interface Gap {
  readonly after: string | null
  readonly before: string | null
}

/**
 * A position in a gap, random so that concurrent moves into the gap get different ones. Null if the gap is empty, because the
 * positions around it are equal, or if the position would be too long.
 */
export const positionIn = ({ after, before }: Gap): string | null => {
  if (after !== null && before !== null && after >= before) return null
  const random = randomBytes(jitterBits / 8).readUIntBE(0, jitterBits / 8)
  let [lower, upper] = [after, before]
  let position = generateKeyBetween(lower, upper)
  for (let bit = 0; bit < jitterBits; bit += 1) {
    if ((random >> bit) & 1) lower = position
    else upper = position
    position = generateKeyBetween(lower, upper)
  }
  return position.length > maxPositionLength ? null : position
}

/** A position after the last row, and before rows created from now on unless the last row is in the future. */
export const positionAtEnd = (last: string | null): string => {
  // Not that of the time: the ids of a process stay in order when the clock is set back.
  const next = positionOfNew(v7())
  if (last === null || last < next) return next
  const before = generateKeyBetween(last, null)
  return positionIn({ after: last, before }) ?? before
}

/** Evenly spaced positions in a gap. Null if the gap is so narrow that they would soon be too long again. */
export const positionsIn = ({ after, before }: Gap, count: number): readonly string[] | null => {
  if (after !== null && before !== null && after >= before) return null
  const positions = generateNKeysBetween(after, before, count)
  return positions.some(({ length }) => length > maxPositionLength / 2) ? null : positions
}
