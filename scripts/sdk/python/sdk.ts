import { delimiter, join } from 'node:path'
import type { Generator } from '../generator.ts'

/** openapi-python-client, pinned with all that it needs, in a virtual environment that is kept between runs. */
export const generator: Generator = {
  name: 'python',
  tools: ['python3'],
  plan: ({ contract, source, output, cache }) => {
    const tools = join(cache, 'venv')
    const bin = join(tools, 'bin')
    const python = join(bin, 'python')
    return {
      steps: [
        { title: 'make the environment', command: 'python3', args: ['-m', 'venv', tools] },
        {
          title: 'install',
          command: python,
          args: [
            '-m',
            'pip',
            'install',
            '--quiet',
            '--no-deps',
            '--requirement',
            join(source, 'requirements.txt'),
          ],
        },
        {
          title: 'copy the program',
          command: 'cp',
          args: ['main.py', 'mypy.ini', 'openapi-python-client.yaml']
            .map((file) => join(source, file))
            .concat(output),
        },
        {
          title: 'generate',
          command: join(bin, 'openapi-python-client'),
          args: [
            'generate',
            `--path=${contract}`,
            '--output-path=taskwright',
            '--config=openapi-python-client.yaml',
            '--meta=none',
            '--fail-on-warning',
          ],
          // The generator tidies what it wrote with the ruff that it finds.
          env: { PATH: [bin, process.env.PATH].join(delimiter) },
        },
        {
          title: 'compile',
          command: python,
          args: ['-W', 'error', '-m', 'compileall', '-q', 'taskwright', 'main.py'],
        },
        {
          title: 'check the types',
          command: join(bin, 'mypy'),
          args: ['--cache-dir', join(cache, 'mypy'), 'main.py', 'taskwright'],
        },
      ],
      program: { title: 'run', command: python, args: ['-W', 'error', 'main.py'] },
    }
  },
}
