import { delimiter, join } from 'node:path'

/** The client generators that are tried, one for each language, and the steps from the contract to a program that runs. */

/** A command. The generator fails if the exit code is not zero. */
export interface Step {
  readonly title: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
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

interface Plan {
  /** Generate the client and compile it with the tools of the language, with warnings as errors. */
  readonly steps: readonly Step[]
  /** Runs the scenario with the client. */
  readonly program: Step
}

/** A client generator and a program that uses the generated client. */
export interface Generator {
  /** Required commands. If one is missing, the generator is skipped, except in CI. */
  readonly tools: readonly string[]
  /** Takes minutes with empty caches, so it runs only if named, or with --all. */
  readonly slow?: true
  /** Steps of the scenario that the client does not support. */
  readonly unsupported?: readonly string[]
  readonly plan: (paths: Paths) => Plan
}

/** Copies files of the program to the output, so that its dependencies are not those of the service. */
const copy = ({ source, output }: Paths, ...files: readonly string[]): Step => ({
  title: 'copy the program',
  command: 'cp',
  args: ['-r', ...files.map((file) => join(source, file)), output],
})

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
  plan: (paths) => ({
    steps: [
      copy(paths, 'package.json', 'package-lock.json', 'tsconfig.json', 'openapi-ts.config.ts', 'main.ts'),
      {
        title: 'install',
        command: 'npm',
        args: ['ci', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts'],
      },
      {
        title: 'generate',
        command: join(paths.output, 'node_modules/.bin/openapi-ts'),
        args: ['--input', paths.contract, '--no-log-file'],
      },
      { title: 'compile', command: join(paths.output, 'node_modules/.bin/tsc'), args: [] },
    ],
    program: { title: 'run', command: process.execPath, args: ['--throw-deprecation', 'main.ts'] },
  }),
}

/** openapi-python-client, pinned with its dependencies in requirements.txt. The environment is kept between runs. */
const python: Generator = {
  tools: ['python3'],
  plan: (paths) => {
    const { contract, source, cache } = paths
    const folder = join(cache, 'venv')
    const bin = join(folder, 'bin')
    const interpreter = join(bin, 'python')
    return {
      steps: [
        { title: 'create the environment', command: 'python3', args: ['-m', 'venv', folder] },
        {
          title: 'install',
          command: interpreter,
          args: ['-m', 'pip', 'install', '--quiet', '--no-deps', '-r', join(source, 'requirements.txt')],
        },
        {
          title: 'generate',
          command: join(bin, 'openapi-python-client'),
          args: [
            'generate',
            `--path=${contract}`,
            '--output-path=taskwright',
            `--config=${join(source, 'openapi-python-client.yaml')}`,
            '--meta=none',
            '--fail-on-warning',
          ],
          // The generator formats its output with the ruff in PATH.
          env: { PATH: [bin, process.env.PATH].join(delimiter) },
        },
        copy(paths, 'main.py', 'mypy.ini'),
        {
          title: 'compile',
          command: interpreter,
          args: ['-W', 'error', '-m', 'compileall', '-q', 'taskwright', 'main.py'],
        },
        {
          title: 'check the types',
          command: join(bin, 'mypy'),
          args: ['--cache-dir', join(cache, 'mypy'), 'main.py', 'taskwright'],
        },
      ],
      program: { title: 'run', command: interpreter, args: ['-W', 'error', 'main.py'] },
    }
  },
}

/** oapi-codegen, pinned as a tool in go.mod. Go's caches keep downloads and builds. */
const go: Generator = {
  tools: ['go'],
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
  unsupported: ['stream'],
  // Before Java 18, the generated client reads responses in the encoding of the system.
  plan: (paths) => mavenProject(paths, 'Main', '-Dfile.encoding=UTF-8'),
}

const kotlin: Generator = {
  tools: ['mvn', 'java'],
  slow: true,
  unsupported: ['stream'],
  plan: (paths) => mavenProject(paths, 'MainKt'),
}

/** openapi-generator with its default library, Guzzle, from the system (Debian: php-guzzlehttp-guzzle). */
const php: Generator = {
  tools: ['mvn', 'java', 'php'],
  unsupported: ['stream'],
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
  unsupported: ['stream'],
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

/** openapi-generator with its default library, reqwest. Builds of libraries are kept between runs. */
const rust: Generator = {
  tools: ['mvn', 'java', 'cargo'],
  slow: true,
  unsupported: ['stream'],
  plan: (paths) => {
    const target = join(paths.cache, 'target')
    return {
      steps: [
        ...openapiGenerator(paths),
        copy(paths, 'Cargo.toml', 'Cargo.lock', 'src'),
        {
          title: 'build',
          command: 'cargo',
          args: ['build', '--quiet', '--locked', `--target-dir=${target}`],
          env: { RUSTFLAGS: '-D warnings' },
        },
      ],
      program: { title: 'run', command: join(target, 'debug/scenario'), args: [] },
    }
  },
}

/** By the name of their folders. */
export const generators: Readonly<Record<string, Generator>> = {
  typescript,
  python,
  go,
  java,
  kotlin,
  php,
  ruby,
  rust,
}
