import { join } from 'node:path'
import type { Generator } from '../generator.ts'

/** Types by openapi-typescript, and openapi-fetch, which calls operations by method and path with these types. */
export const generator: Generator = {
  name: 'openapi-fetch',
  tools: ['npm'],
  plan: ({ contract, source, output }) => ({
    steps: [
      {
        title: 'copy the package',
        command: 'cp',
        args: ['package.json', 'package-lock.json', 'tsconfig.json', 'main.ts']
          .map((file) => join(source, file))
          .concat(output),
      },
      {
        title: 'install',
        command: 'npm',
        args: ['ci', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts'],
      },
      {
        title: 'generate',
        command: join(output, 'node_modules/.bin/openapi-typescript'),
        // A field that has a default need not be sent.
        args: [contract, '--output', 'taskwright.ts', '--default-non-nullable=false'],
      },
      { title: 'compile', command: join(output, 'node_modules/.bin/tsc'), args: [] },
    ],
    program: { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'main.ts'] },
  }),
}
