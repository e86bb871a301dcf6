import { join } from 'node:path'
import type { Paths, Step } from './generator.ts'

/** A virtual environment with the packages in requirements.txt, kept between runs, and the steps of a program in it. */
interface VirtualEnvironment {
  /** The folder of its commands. */
  readonly bin: string
  readonly install: readonly Step[]
  /** Compiles main.py and the generated package, and checks their types with the settings in mypy.ini. */
  readonly check: readonly Step[]
  readonly program: Step
}

export const virtualEnvironment = ({ source, cache }: Paths): VirtualEnvironment => {
  const folder = join(cache, 'venv')
  const bin = join(folder, 'bin')
  const python = join(bin, 'python')
  const requirements = join(source, 'requirements.txt')
  return {
    bin,
    install: [
      { title: 'create the environment', command: 'python3', args: ['-m', 'venv', folder] },
      {
        title: 'install',
        command: python,
        args: ['-m', 'pip', 'install', '--quiet', '--no-deps', '--requirement', requirements],
      },
    ],
    check: [
      {
        title: 'copy the program',
        command: 'cp',
        args: [join(source, 'main.py'), join(source, 'mypy.ini'), '.'],
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
}
