import { randomInt } from 'node:crypto'

/** Independent, uniformly distributed characters of an alphabet. */
export const randomText = (alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('')
