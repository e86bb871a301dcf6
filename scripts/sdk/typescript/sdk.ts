import { join } from 'node:path'
import type { Generator } from '../generator.ts'

const files = ['package.json', 'package-lock.json', 'tsconfig.json', 'openapi-ts.config.ts', 'main.ts']

/** hey-api's generator with a package of its own, so that nothing of it is a dependency of the service. */
export const generator: Generator = {
  name: 'typescript',
  tools: ['npm'],
  plan: ({ contract, source, output }) => ({
    steps: [
      {
        title: 'copy the package',
        command: 'cp',
        args: files.map((file) => join(source, file)).concat(output),
      },
      {
        title: 'install',
        command: 'npm',
        args: ['ci', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts'],
      },
      {
        title: 'generate',
        command: join(output, 'node_modules/.bin/openapi-ts'),
        args: ['--input', contract, '--no-log-file'],
      },
      { title: 'compile', command: join(output, 'node_modules/.bin/tsc'), args: [] },
    ],
    program: { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'main.ts'] },
  }),
}
