import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The path of the last released contract, from the newest folder in test/releases; undefined if none has been released. */
export const [releasedContract] = globSync(`${root}/test/releases/*/openapi.json`).toSorted((one, other) =>
  other.localeCompare(one, 'en', { numeric: true }),
)
