import { hash } from 'node:crypto'

/** The hash under which tokens and codes are stored. Only for random ones: a password needs a slow hash. */
export const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')
