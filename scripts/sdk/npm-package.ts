import { join } from 'node:path'
import type { Paths, Plan } from './generator.ts'

/** The command of the package that generates the client. */
interface Command {
  readonly name: string
  readonly args: readonly string[]
}

/**
 * Copies an npm package with main.ts and `files` out of the repository, so that its dependencies are not those of the service. Installs
 * it, generates the client and compiles both.
 */
export const npmPackage = (
  { source, output }: Paths,
  files: readonly string[],
  { name, args }: Command,
): Plan => ({
  steps: [
    {
      title: 'copy the package',
      command: 'cp',
      args: ['package.json', 'package-lock.json', 'tsconfig.json', 'main.ts', ...files]
        .map((file) => join(source, file))
        .concat(output),
    },
    {
      title: 'install',
      command: 'npm',
      args: ['ci', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts'],
    },
    { title: 'generate', command: join(output, 'node_modules/.bin', name), args },
    { title: 'compile', command: join(output, 'node_modules/.bin/tsc'), args: [] },
  ],
  program: { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'main.ts'] },
})
