import type { Generator } from '../generator.ts'
import { openapiGenerator, openapiGeneratorTools } from '../openapi-generator.ts'
import { virtualEnvironment } from '../virtual-environment.ts'

/** openapi-generator for Python. */
export const generator: Generator = {
  name: 'python-openapi-generator',
  tools: [...openapiGeneratorTools, 'python3'],
  plan: (paths) => {
    const { install, check, program } = virtualEnvironment(paths)
    return { steps: [...openapiGenerator(paths, paths.output), ...install, ...check], program }
  },
}
