import { fileURLToPath } from 'node:url'

/** How the processes of tests run Node, and the services that they start. */

// Fewer garbage collections.
export const nodeArguments: readonly string[] = ['--min-semi-space-size=16', '--max-semi-space-size=64']

/** Compiled modules are reused by other processes and by the next run. */
export const compileCache = fileURLToPath(new URL('../../node_modules/.cache/node', import.meta.url))
