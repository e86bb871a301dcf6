import type { Generator } from '../generator.ts'
import { npmPackage } from '../npm-package.ts'

/** Types from openapi-typescript, and openapi-fetch, which calls operations by method and path with these types. */
export const generator: Generator = {
  name: 'openapi-fetch',
  tools: ['npm'],
  plan: (paths) =>
    npmPackage(paths, [], {
      name: 'openapi-typescript',
      // Fields with a default are optional in requests.
      args: [paths.contract, '--output', 'taskwright.ts', '--default-non-nullable=false'],
    }),
}
