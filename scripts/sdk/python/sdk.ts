import { delimiter, join } from 'node:path'
import type { Generator } from '../generator.ts'
import { virtualEnvironment } from '../virtual-environment.ts'

/** openapi-python-client, pinned with its dependencies. */
export const generator: Generator = {
  name: 'python',
  tools: ['python3'],
  plan: (paths) => {
    const { bin, install, check, program } = virtualEnvironment(paths)
    return {
      steps: [
        ...install,
        {
          title: 'generate',
          command: join(bin, 'openapi-python-client'),
          args: [
            'generate',
            `--path=${paths.contract}`,
            '--output-path=taskwright',
            `--config=${join(paths.source, 'openapi-python-client.yaml')}`,
            '--meta=none',
            '--fail-on-warning',
          ],
          // The generator formats its output with the ruff in PATH.
          env: { PATH: [bin, process.env.PATH].join(delimiter) },
        },
        ...check,
      ],
      program,
    }
  },
}
