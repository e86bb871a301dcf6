import { join } from 'node:path'
import type { Generator } from '../generator.ts'
import { openapiGenerator, openapiGeneratorTools } from '../openapi-generator.ts'

/** openapi-generator with its default library, Guzzle, from the system (Debian: php-guzzlehttp-guzzle). */
export const generator: Generator = {
  name: 'php',
  unsupported: ['stream'],
  tools: [...openapiGeneratorTools, 'php'],
  plan: (paths) => ({
    steps: [
      ...openapiGenerator(paths),
      {
        title: 'copy the program',
        command: 'cp',
        args: ['autoload.php', 'load.php', 'main.php']
          .map((file) => join(paths.source, file))
          .concat(paths.output),
      },
      { title: 'load everything', command: 'php', args: ['load.php'] },
    ],
    program: { title: 'run', command: 'php', args: ['main.php'] },
  }),
}
