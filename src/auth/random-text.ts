import { randomInt } from 'node:crypto'

/** Characters of an alphabet, each drawn independently and equally likely. */
export const randomText = (alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('')
