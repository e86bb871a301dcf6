import { randomBytes } from 'node:crypto'
import { BASE_62_DIGITS, generateKeyBetween, generateNKeysBetween } from 'fractional-indexing'

/**
 * Positions: fractional indexes, the order of tasks and sections that people choose. A position is text that is compared byte
 * by byte (`collate "C"`). Between two positions there is always another, so that a move writes one row. Equal positions are
 * improbable, but possible: the id breaks ties.
 */

/** A position that is longer is not stored: the neighbours are spread out instead. */
export const maxPositionLength = 48

/** Random choices per position. Two that are computed at the same time for the same place are equal once in 16 million times. */
const jitterBits = 24

const base62 = (value: bigint): string => {
  const base = BigInt(BASE_62_DIGITS.length)
  const digit = BASE_62_DIGITS.charAt(Number(value % base))
  return value < base ? digit : base62(value / base) + digit
}

/** An integer in the library's format: its first character, from `a`, is the number of digits that follow. */
const integerPosition = (value: bigint): string => {
  const digits = base62(value)
  return BASE_62_DIGITS.charAt(BASE_62_DIGITS.indexOf('a') + digits.length - 1) + digits
}

/**
 * The position of a new row with this UUIDv7: after all that were created before. The integer is the time of the id in
 * milliseconds, and the fraction its counter, so that the rows that one process creates keep their order and no neighbour has
 * to be read.
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
 * A random position in a gap, so that concurrent moves into it get different ones. Null if there is none, because the positions
 * around it are equal, or only one that is too long.
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

/** A position after the last row, and before the rows that are created from now on. */
export const positionAtEnd = (last: string | null): string => {
  const now = integerPosition(BigInt(Date.now()))
  const after = last === null || last < now ? now : last
  const before = generateKeyBetween(after, null)
  return positionIn({ after, before }) ?? before
}

/** Evenly spaced positions in a gap. Null if the gap is so narrow that they would soon be too long again. */
export const positionsIn = ({ after, before }: Gap, count: number): readonly string[] | null => {
  if (after !== null && before !== null && after >= before) return null
  const positions = generateNKeysBetween(after, before, count)
  return positions.some(({ length }) => length > maxPositionLength / 2) ? null : positions
}
