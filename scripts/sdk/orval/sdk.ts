import { join } from 'node:path'
import type { Generator } from '../generator.ts'

const files = ['package.json', 'package-lock.json', 'tsconfig.json', 'orval.config.mjs', 'http.ts', 'main.ts']

/** orval, with its client for fetch. */
export const generator: Generator = {
  name: 'orval',
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
        command: join(output, 'node_modules/.bin/orval'),
        args: ['--input', contract],
      },
      { title: 'compile', command: join(output, 'node_modules/.bin/tsc'), args: [] },
    ],
    program: { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'main.ts'] },
  }),
}
