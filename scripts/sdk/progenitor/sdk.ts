import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Generator } from '../generator.ts'

const jsonOnly = fileURLToPath(new URL('json-only.ts', import.meta.url))

/** progenitor, as a macro in the program. It reads a contract reduced to JSON. */
export const generator: Generator = {
  name: 'progenitor',
  unsupported: ['stream'],
  tools: ['cargo'],
  slow: true,
  plan: ({ contract, source, output, cache }) => {
    const target = join(cache, 'target')
    return {
      steps: [
        {
          title: 'copy the program',
          command: 'cp',
          args: ['-r', ...['Cargo.toml', 'Cargo.lock', 'src'].map((file) => join(source, file)), output],
        },
        {
          title: 'reduce the contract',
          command: process.execPath,
          args: [jsonOnly, contract, join(output, 'contract.json')],
        },
        {
          title: 'generate and build',
          command: 'cargo',
          args: ['build', '--quiet', '--locked', `--target-dir=${target}`],
        },
      ],
      program: { title: 'run', command: join(target, 'debug/scenario'), args: [] },
    }
  },
}
