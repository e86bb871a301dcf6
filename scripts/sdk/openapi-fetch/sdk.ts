import type { Generator } from '../generator.ts'
import { npmPackage } from '../npm-package.ts'

/** Types by openapi-typescript, and openapi-fetch, which calls operations by method and path with these types. */
export const generator: Generator = {
  name: 'openapi-fetch',
  tools: ['npm'],
  plan: (paths) =>
    npmPackage(paths, [], {
      name: 'openapi-typescript',
      // A field that has a default need not be sent.
      args: [paths.contract, '--output', 'taskwright.ts', '--default-non-nullable=false'],
    }),
}
