import { join } from 'node:path'
import type { Generator } from '../generator.ts'
import { openapiGenerator, openapiGeneratorTools } from '../openapi-generator.ts'

/** openapi-generator with its default library, reqwest. Builds of libraries are kept between runs. */
export const generator: Generator = {
  name: 'rust',
  unsupported: ['stream'],
  tools: [...openapiGeneratorTools, 'cargo'],
  slow: true,
  plan: (paths) => {
    const { source, output, cache } = paths
    const target = join(cache, 'target')
    return {
      steps: [
        ...openapiGenerator(paths),
        {
          title: 'copy the program',
          command: 'cp',
          args: ['-r', ...['Cargo.toml', 'Cargo.lock', 'src'].map((file) => join(source, file)), output],
        },
        {
          title: 'build',
          command: 'cargo',
          args: ['build', '--quiet', '--locked', `--target-dir=${target}`],
          env: { RUSTFLAGS: '-D warnings' },
        },
      ],
      program: { title: 'run', command: join(target, 'debug/scenario'), args: [] },
    }
  },
}
