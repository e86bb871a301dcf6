import { join } from 'node:path'
import type { Language } from '../language.ts'

const files = ['package.json', 'package-lock.json', 'tsconfig.json', 'openapi-ts.config.ts', 'main.ts']

/** hey-api's generator with a package of its own, so that nothing of it is a dependency of the service. */
export const language: Language = {
  name: 'typescript',
  tools: ['npm'],
  steps: ({ contract, program, output }) => [
    {
      title: 'copy the package',
      command: 'cp',
      args: files.map((file) => join(program, file)).concat(output),
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
    { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'main.ts'] },
  ],
}
