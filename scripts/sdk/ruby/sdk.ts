import { join } from 'node:path'
import type { Generator } from '../generator.ts'
import { openapiGenerator, openapiGeneratorTools } from '../openapi-generator.ts'

/** openapi-generator with its default library, typhoeus, from the system (Debian: ruby-typhoeus). */
export const generator: Generator = {
  name: 'ruby',
  unsupported: ['stream'],
  tools: [...openapiGeneratorTools, 'ruby'],
  plan: (paths) => ({
    steps: [
      ...openapiGenerator(paths),
      {
        title: 'load everything',
        command: 'ruby',
        args: ['-W2', '-Itaskwright/lib', '-e', "require 'taskwright'"],
      },
    ],
    program: {
      title: 'run',
      command: 'ruby',
      args: ['-Itaskwright/lib', join(paths.source, 'main.rb')],
    },
  }),
}
