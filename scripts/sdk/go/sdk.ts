import { join } from 'node:path'
import type { Generator } from '../generator.ts'

/** oapi-codegen, pinned as a tool in go.mod. Go's caches keep downloads and builds. */
export const generator: Generator = {
  name: 'go',
  tools: ['go'],
  plan: ({ contract, source, output }) => ({
    steps: [
      {
        title: 'copy the module',
        command: 'cp',
        args: ['go.mod', 'go.sum', 'oapi-codegen.yaml', 'main.go']
          .map((file) => join(source, file))
          .concat(output),
      },
      {
        title: 'generate',
        command: 'go',
        args: ['tool', 'oapi-codegen', '-config', 'oapi-codegen.yaml', contract],
      },
      { title: 'build', command: 'go', args: ['build', '-buildvcs=false', '-o', 'scenario', '.'] },
      { title: 'vet', command: 'go', args: ['vet', './...'] },
    ],
    program: { title: 'run', command: join(output, 'scenario'), args: [] },
  }),
}
