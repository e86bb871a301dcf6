import type { Generator } from '../generator.ts'
import { npmPackage } from '../npm-package.ts'

/** openapi-ts by Hey API. */
export const generator: Generator = {
  name: 'typescript',
  tools: ['npm'],
  plan: (paths) =>
    npmPackage(paths, ['openapi-ts.config.ts'], {
      name: 'openapi-ts',
      args: ['--input', paths.contract, '--no-log-file'],
    }),
}
