import { fileURLToPath } from 'node:url'

/** How the processes of tests run Node, and the services that they start. */

// The embedded database is WebAssembly, and a process shares its compiled code among all databases. Optimizing only hot functions is
// faster than V8's early optimization, and so are lazy validation and fewer garbage collections.
export const nodeArguments: readonly string[] = [
  '--wasm-tiering-budget=300000000',
  '--wasm-lazy-validation',
  '--min-semi-space-size=16',
  '--max-semi-space-size=64',
]

/** Compiled modules are reused by other processes and by the next run. */
export const compileCache = fileURLToPath(new URL('../../node_modules/.cache/node', import.meta.url))
