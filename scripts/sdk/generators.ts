import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { asObject, loadContract } from '../../src/contract/contract.ts'

/**
 * The client generators that are tried, one for each language, and the steps from the contract to a program that runs. Those for TypeScript
 * and Python make packages.
 */

/** A command. The generator fails if the exit code is not zero. */
export interface Step {
  readonly title: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Relative to the output, which is the default. */
  readonly cwd?: string
  /** A file that the step creates, kept between runs. The step is skipped if it exists. */
  readonly creates?: string
}

/** Absolute paths for a generator. */
export interface Paths {
  /** openapi.yaml. */
  readonly contract: string
  /** scripts/sdk/<language>, which contains the program. */
  readonly source: string
  /** The folder of the steps, for generated code, builds and installed tools. It is empty at the start. */
  readonly output: string
  /** A folder that is kept between runs, for tools that take long to install. */
  readonly cache: string
  /** A folder that is kept between runs, for tools that generators share. */
  readonly sharedCache: string
}

export interface Plan {
  /** Files that the steps need, by their paths in the output. */
  readonly files?: Readonly<Record<string, string>>
  /** Make a package of the client, whose archives are in the folder `archives` of the output. The steps that follow use them. */
  readonly pack?: readonly Step[]
  /** Generate the client and compile it with the tools of the language, with warnings as errors. */
  readonly steps: readonly Step[]
  /** Runs the scenario with the client. */
  readonly program: Step
  /** Runs the code of the package's README. */
  readonly examples?: Step
}

/** A client generator and a program that uses the generated client. */
export interface Generator {
  /** Required commands. If one is missing, the generator is skipped, except in CI. */
  readonly tools: readonly string[]
  /** Steps of the scenario that the program does not take. */
  readonly omitted?: readonly string[]
  readonly plan: (paths: Paths) => Plan
}

/** Copies files of the program to the output, so that its dependencies are not those of the service. */
const copy = ({ source, output }: Paths, ...files: readonly string[]): Step => ({
  title: 'copy the sources',
  command: 'cp',
  args: ['-r', ...files.map((file) => join(source, file)), output],
})

const contract = loadContract()

const contractVersion = String(asObject(contract.document.info).version)

/** The paths of the creations that accept an Idempotency-Key. */
const keyed = [...contract.operations.values()]
  .filter(({ takesIdempotencyKey }) => takesIdempotencyKey)
  .map(({ path }) => path)

/** The code in a README. The URL in it becomes an expression, that of the service. */
const examplesIn = ({ source }: Paths, language: string, url: string, expression: string): string =>
  readFileSync(join(source, 'README.md'), 'utf8')
    .matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm'))
    .map(([, code = '']) => code)
    .toArray()
    .join('')
    .replace(url, expression)

/** Options for Java processes that run for seconds. */
const shortLived = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'] as const

/** openapi-generator as a Maven plugin, pinned in pom.xml. Maven's local repository caches downloads. */
const mavenProject = (
  { contract, source, output }: Paths,
  mainClass: string,
  ...options: readonly string[]
): Plan => ({
  steps: [
    {
      title: 'generate and compile',
      command: 'mvn',
      args: [
        '--batch-mode',
        '--quiet',
        '--file',
        join(source, 'pom.xml'),
        `-Dcontract=${contract}`,
        `-Doutput=${output}`,
        'compile',
      ],
      env: { MAVEN_OPTS: [process.env['MAVEN_OPTS'], ...shortLived].join(' ') },
    },
  ],
  program: {
    title: 'run',
    command: 'java',
    args: [
      ...shortLived,
      ...options,
      '-cp',
      [join(output, 'classes'), join(output, 'lib', '*')].join(delimiter),
      mainClass,
    ],
  },
})

const openapiGeneratorVersion = '7.25.0'

/** The program of openapi-generator, which Maven downloads once for all languages, with the settings in openapi-generator.yaml. */
const openapiGenerator = ({ contract, source, sharedCache }: Paths): readonly Step[] => {
  const home = join(sharedCache, 'openapi-generator')
  const jar = join(home, `openapi-generator-cli-${openapiGeneratorVersion}.jar`)
  return [
    {
      title: 'install the generator',
      command: 'mvn',
      args: [
        '--batch-mode',
        '--quiet',
        'org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy',
        `-Dartifact=org.openapitools:openapi-generator-cli:${openapiGeneratorVersion}`,
        `-DoutputDirectory=${home}`,
      ],
      creates: jar,
    },
    {
      title: 'generate',
      command: 'java',
      args: [
        ...shortLived,
        '-jar',
        jar,
        'generate',
        `--input-spec=${contract}`,
        `--config=${join(source, 'openapi-generator.yaml')}`,
        '--output=taskwright',
      ],
    },
  ]
}

/** openapi-ts by Hey API, pinned in package-lock.json. */
const typescript: Generator = {
  tools: ['npm'],
  plan: (paths) => {
    const compiler = join(paths.output, 'node_modules/.bin/tsc')
    const quiet = ['--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts']
    return {
      files: {
        'src/keyed.ts': `export const keyed: readonly string[] = ${JSON.stringify(keyed)}\n`,
        'user/examples.ts': examplesIn(
          paths,
          'ts',
          "'https://tasks.example.com'",
          'String(process.env.TASKWRIGHT_URL)',
        ),
      },
      pack: [
        copy(
          paths,
          'package.json',
          'package-lock.json',
          'README.md',
          '../../../LICENSE',
          'tsconfig.json',
          'openapi-ts.config.ts',
          'src',
          'user',
        ),
        { title: 'install', command: 'npm', args: ['ci', ...quiet] },
        {
          title: 'generate',
          command: join(paths.output, 'node_modules/.bin/openapi-ts'),
          args: ['--input', paths.contract, '--no-log-file'],
        },
        { title: 'compile', command: compiler, args: [] },
        { title: 'set the version', command: 'npm', args: ['pkg', 'set', `version=${contractVersion}`] },
        { title: 'pack', command: 'npm', args: ['pack', '--silent', '--pack-destination=archives'] },
      ],
      steps: [
        {
          title: 'install the package',
          command: 'npm',
          args: [
            'install',
            '--prefix=user',
            '--no-save',
            ...quiet,
            `./archives/taskwright-${contractVersion}.tgz`,
          ],
        },
        { title: 'compile the programs', command: compiler, args: ['--project', 'user'] },
      ],
      program: { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'user/main.ts'] },
      examples: { title: 'run the README', command: process.execPath, args: ['user/examples.ts'] },
    }
  },
}

/** openapi-python-client, pinned with its dependencies in requirements.txt. The environment is kept between runs. */
const python: Generator = {
  tools: ['python3'],
  plan: (paths) => {
    const { contract: file, source, output, cache } = paths
    const patterns = keyed.map((path) => path.replaceAll(/\{\w+\}/g, '[^/]+'))
    const folder = join(cache, 'venv')
    const bin = join(folder, 'bin')
    const interpreter = join(bin, 'python')
    const install = ['-m', 'pip', 'install', '--quiet', '--no-deps']
    const checkTypes = (title: string, cwd: string, ...files: readonly string[]): Step => ({
      title,
      command: join(bin, 'mypy'),
      args: [
        `--config-file=${join(output, 'pyproject.toml')}`,
        `--cache-dir=${join(cache, 'mypy', cwd)}`,
        ...files,
      ],
      cwd,
    })
    return {
      files: {
        'py.typed': '',
        '_keyed.py': `KEYED = ${JSON.stringify(patterns)}\n`,
        'user/examples.py': examplesIn(
          paths,
          'python',
          '"https://tasks.example.com"',
          '__import__("os").environ["TASKWRIGHT_URL"]',
        ),
      },
      pack: [
        copy(paths, 'pyproject.toml', '__init__.py', 'README.md', '../../../LICENSE', 'user'),
        { title: 'create the environment', command: 'python3', args: ['-m', 'venv', folder] },
        {
          title: 'install',
          command: interpreter,
          args: [...install, '-r', join(source, 'requirements.txt')],
        },
        {
          title: 'generate',
          command: join(bin, 'openapi-python-client'),
          args: [
            'generate',
            `--path=${file}`,
            '--output-path=taskwright',
            `--config=${join(source, 'openapi-python-client.yaml')}`,
            `--custom-template-path=${join(source, 'templates')}`,
            '--meta=none',
            '--fail-on-warning',
          ],
          // The generator formats its output with the ruff in PATH.
          env: { PATH: [bin, process.env.PATH].join(delimiter), RUFF_NO_CACHE: 'true' },
        },
        {
          title: 'add the module',
          command: 'mv',
          args: ['__init__.py', '_keyed.py', 'py.typed', 'taskwright'],
        },
        checkTypes('check the types', '.', 'taskwright'),
        {
          title: 'set the version',
          command: 'sed',
          args: ['-i', `s/0\\.0\\.0/${contractVersion}/`, 'pyproject.toml'],
        },
        { title: 'pack', command: interpreter, args: ['-m', 'build', '--no-isolation', '--outdir=archives'] },
      ],
      steps: [
        {
          title: 'install the package',
          command: interpreter,
          args: [
            ...install,
            '--force-reinstall',
            `./archives/taskwright-${contractVersion}-py3-none-any.whl`,
          ],
        },
        checkTypes('check the programs', 'user', 'main.py', 'examples.py'),
      ],
      program: { title: 'run', command: interpreter, args: ['-W', 'error', 'user/main.py'] },
      examples: { title: 'run the README', command: interpreter, args: ['-W', 'error', 'user/examples.py'] },
    }
  },
}

/** Steps of teamwork, which use nothing of a client that other steps do not. The packages take them. */
const teamwork = ['project', 'comment', 'subtask', 'inbox', 'webhook', 'delete'] as const

/** oapi-codegen, pinned as a tool in go.mod. Go's caches keep downloads and builds. */
const go: Generator = {
  tools: ['go'],
  omitted: ['retry', ...teamwork],
  plan: (paths) => ({
    steps: [
      copy(paths, 'go.mod', 'go.sum', 'oapi-codegen.yaml', 'main.go'),
      {
        title: 'generate',
        command: 'go',
        args: ['tool', 'oapi-codegen', '-config', 'oapi-codegen.yaml', paths.contract],
      },
      { title: 'build', command: 'go', args: ['build', '-buildvcs=false', '-o', 'scenario', '.'] },
      { title: 'vet', command: 'go', args: ['vet', './...'] },
    ],
    program: { title: 'run', command: join(paths.output, 'scenario'), args: [] },
  }),
}

const java: Generator = {
  tools: ['mvn', 'javac', 'java'],
  omitted: ['retry', ...teamwork, 'stream'],
  // Before Java 18, the generated client reads responses in the encoding of the system.
  plan: (paths) => mavenProject(paths, 'Main', '-Dfile.encoding=UTF-8'),
}

/** openapi-generator with its default library, Guzzle, from the system (Debian: php-guzzlehttp-guzzle). */
const php: Generator = {
  tools: ['mvn', 'java', 'php'],
  omitted: ['retry', ...teamwork, 'stream'],
  plan: (paths) => ({
    steps: [
      ...openapiGenerator(paths),
      copy(paths, 'autoload.php', 'load.php', 'main.php'),
      { title: 'load everything', command: 'php', args: ['load.php'] },
    ],
    program: { title: 'run', command: 'php', args: ['main.php'] },
  }),
}

/** openapi-generator with its default library, typhoeus, from the system (Debian: ruby-typhoeus). */
const ruby: Generator = {
  tools: ['mvn', 'java', 'ruby'],
  omitted: ['retry', ...teamwork, 'stream'],
  plan: (paths) => ({
    steps: [
      ...openapiGenerator(paths),
      {
        title: 'load everything',
        command: 'ruby',
        args: ['-W2', '-Itaskwright/lib', '-e', "require 'taskwright'"],
      },
    ],
    program: { title: 'run', command: 'ruby', args: ['-Itaskwright/lib', join(paths.source, 'main.rb')] },
  }),
}

/** By the name of their folders. */
export const generators: Readonly<Record<string, Generator>> = {
  typescript,
  python,
  go,
  java,
  php,
  ruby,
}
