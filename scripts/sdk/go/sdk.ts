import { join } from 'node:path'
import type { Language } from '../language.ts'

/** oapi-codegen, pinned as a tool in go.mod; Go's own caches keep what it downloads and builds. */
export const language: Language = {
  name: 'go',
  tools: ['go'],
  steps: ({ contract, program, output }) => [
    {
      title: 'copy the module',
      command: 'cp',
      args: ['go.mod', 'go.sum', 'oapi-codegen.yaml', 'main.go']
        .map((file) => join(program, file))
        .concat(output),
    },
    {
      title: 'generate',
      command: 'go',
      args: ['tool', 'oapi-codegen', '-config', 'oapi-codegen.yaml', contract],
    },
    { title: 'build', command: 'go', args: ['build', '-buildvcs=false', '-o', 'scenario', '.'] },
    { title: 'vet', command: 'go', args: ['vet', './...'] },
    { title: 'run', command: join(output, 'scenario'), args: [] },
  ],
}
