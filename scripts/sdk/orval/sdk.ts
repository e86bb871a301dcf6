import type { Generator } from '../generator.ts'
import { npmPackage } from '../npm-package.ts'

/** orval with its fetch client. */
export const generator: Generator = {
  name: 'orval',
  tools: ['npm'],
  plan: (paths) =>
    npmPackage(paths, ['orval.config.mjs', 'http.ts'], { name: 'orval', args: ['--input', paths.contract] }),
}
