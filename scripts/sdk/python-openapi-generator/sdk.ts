import { join } from 'node:path'
import type { Generator } from '../generator.ts'
import { openapiGenerator, openapiGeneratorTools } from '../openapi-generator.ts'

/** openapi-generator for Python; the libraries are in a virtual environment that is kept between runs. */
export const generator: Generator = {
  name: 'python-openapi-generator',
  tools: [...openapiGeneratorTools, 'python3'],
  plan: (paths) => {
    const { source, output, cache } = paths
    const libraries = join(cache, 'venv')
    const bin = join(libraries, 'bin')
    const python = join(bin, 'python')
    return {
      steps: [
        ...openapiGenerator(paths, output),
        { title: 'make the environment', command: 'python3', args: ['-m', 'venv', libraries] },
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
          args: ['main.py', 'mypy.ini'].map((file) => join(source, file)).concat(output),
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
