import { hash } from 'node:crypto'

/** The stored hash of a token or code. Only for random values: a password needs a slow hash. */
export const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')
