import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { load } from 'js-yaml'
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
  /** Whether the client refuses a response that differs from the contract. */
  readonly isStrict?: boolean
  readonly plan: (paths: Paths) => Plan
}

const step = (title: string, command: string, ...args: readonly string[]): Step => ({ title, command, args })

/** Copies files of the program to the output, so that its dependencies are not those of the service. */
const copy = ({ source, output }: Paths, ...files: readonly string[]): Step =>
  step('copy the sources', 'cp', '-r', ...files.map((file) => join(source, file)), output)

const contract = loadContract()

/** `info.version` of openapi.yaml. */
export const contractVersion = String(asObject(contract.document.info).version)

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

const maven = (title: string, ...args: readonly string[]): Step =>
  step(title, 'mvn', '--batch-mode', '--quiet', ...args)

const openapiGeneratorVersion = '7.25.0'

/** The program of openapi-generator, which Maven downloads once for all languages, with the settings in openapi-generator.yaml. */
const openapiGenerator = ({ contract, source, sharedCache }: Paths): readonly Step[] => {
  const home = join(sharedCache, 'openapi-generator')
  const jar = join(home, `openapi-generator-cli-${openapiGeneratorVersion}.jar`)
  return [
    {
      ...maven(
        'install the generator',
        'org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy',
        `-Dartifact=org.openapitools:openapi-generator-cli:${openapiGeneratorVersion}`,
        `-DoutputDirectory=${home}`,
      ),
      creates: jar,
    },
    step(
      'generate',
      'java',
      ...shortLived,
      '-jar',
      jar,
      'generate',
      `--input-spec=${contract}`,
      `--config=${join(source, 'openapi-generator.yaml')}`,
      '--output=taskwright',
    ),
  ]
}

/** openapi-ts by Hey API, pinned in package-lock.json. */
const typescript: Generator = {
  tools: ['npm'],
  plan: (paths) => {
    const bin = join(paths.output, 'node_modules/.bin')
    const compiler = join(bin, 'tsc')
    const archive = `./archives/taskwright-${contractVersion}.tgz`
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
        copy(paths, 'package.json', 'package-lock.json', 'README.md', '../../../LICENSE'),
        copy(paths, 'tsconfig.json', 'openapi-ts.config.ts', 'src', 'user'),
        step('install', 'npm', 'ci', ...quiet),
        step('generate', join(bin, 'openapi-ts'), '--input', paths.contract, '--no-log-file'),
        step('compile', compiler),
        step('set the version', 'npm', 'pkg', 'set', `version=${contractVersion}`),
        step('pack', 'npm', 'pack', '--silent', '--pack-destination=archives'),
      ],
      steps: [
        step('install the package', 'npm', 'install', '--prefix=user', '--no-save', ...quiet, archive),
        step('compile the programs', compiler, '--project', 'user'),
      ],
      program: step('run', process.execPath, '--throw-deprecation', 'user/main.ts'),
      examples: step('run the README', process.execPath, 'user/examples.ts'),
    }
  },
}

/**
 * The contract with unions for an id or a word, so that a Python program can pass a UUID, as where only an id is allowed. The contract
 * itself has text: other generators make a class of a union, and that for Java writes its `toString` into the path.
 */
const withUuids = (file: string): string => {
  const document = asObject(load(readFileSync(file, 'utf8')))
  const components = asObject(document.components)
  const schemas = Object.entries(asObject(components.schemas)).map(([name, schema]): [string, unknown] => [
    name,
    /IdOr[A-Z]/.test(name) ? { anyOf: [{ type: 'string', format: 'uuid' }, schema] } : schema,
  ])
  return JSON.stringify({
    ...document,
    components: { ...components, schemas: Object.fromEntries<unknown>(schemas) },
  })
}

/** openapi-python-client, pinned with its dependencies in requirements.txt. The environment is kept between runs. */
const python: Generator = {
  tools: ['python3'],
  isStrict: true,
  plan: (paths) => {
    const { contract: file, source, output, cache } = paths
    const patterns = keyed.map((path) => path.replaceAll(/\{\w+\}/g, '[^/]+'))
    const folder = join(cache, 'venv')
    const bin = join(folder, 'bin')
    const interpreter = join(bin, 'python')
    const install = ['-m', 'pip', 'install', '--quiet', '--no-deps']
    const wheel = `./archives/taskwright-${contractVersion}-py3-none-any.whl`
    const config = `--config-file=${join(output, 'pyproject.toml')}`
    const checkTypes = (title: string, cwd: string, ...files: readonly string[]): Step => ({
      ...step(title, join(bin, 'mypy'), config, `--cache-dir=${join(cache, 'mypy', cwd)}`, ...files),
      cwd,
    })
    return {
      files: {
        'contract.json': withUuids(file),
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
        step('create the environment', 'python3', '-m', 'venv', folder),
        step('install', interpreter, ...install, '-r', join(source, 'requirements.txt')),
        {
          ...step(
            'generate',
            join(bin, 'openapi-python-client'),
            'generate',
            '--path=contract.json',
            '--output-path=taskwright',
            `--config=${join(source, 'openapi-python-client.yaml')}`,
            `--custom-template-path=${join(source, 'templates')}`,
            '--meta=none',
            '--fail-on-warning',
          ),
          // The generator formats its output with the ruff in PATH.
          env: { PATH: [bin, process.env.PATH].join(delimiter), RUFF_NO_CACHE: 'true' },
        },
        step('add the module', 'mv', '__init__.py', '_keyed.py', 'py.typed', 'taskwright'),
        checkTypes('check the types', '.', 'taskwright'),
        step('set the version', 'sed', '-i', `s/0\\.0\\.0/${contractVersion}/`, 'pyproject.toml'),
        step('pack', interpreter, '-m', 'build', '--no-isolation', '--outdir=archives'),
      ],
      steps: [
        step('install the package', interpreter, ...install, '--force-reinstall', wheel),
        checkTypes('check the programs', 'user', 'main.py', 'examples.py'),
      ],
      program: step('run', interpreter, '-W', 'error', 'user/main.py'),
      examples: step('run the README', interpreter, '-W', 'error', 'user/examples.py'),
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
      step('generate', 'go', 'tool', 'oapi-codegen', '-config', 'oapi-codegen.yaml', paths.contract),
      step('build', 'go', 'build', '-buildvcs=false', '-o', 'scenario', '.'),
      step('vet', 'go', 'vet', './...'),
    ],
    program: step('run', join(paths.output, 'scenario')),
  }),
}

/** openapi-generator as a Maven plugin, pinned in pom.xml. Maven's local repository caches downloads. */
const java: Generator = {
  tools: ['mvn', 'javac', 'java'],
  omitted: ['retry', ...teamwork, 'stream'],
  plan: ({ contract: file, source, output }) => {
    const settings = [`-Dcontract=${file}`, `-Doutput=${output}`]
    const classes = [join(output, 'classes'), join(output, 'lib', '*')].join(delimiter)
    return {
      steps: [
        {
          ...maven('generate and compile', '--file', join(source, 'pom.xml'), ...settings, 'compile'),
          env: { MAVEN_OPTS: [process.env['MAVEN_OPTS'], ...shortLived].join(' ') },
        },
      ],
      // Before Java 18, the generated client reads responses in the encoding of the system.
      program: step('run', 'java', ...shortLived, '-Dfile.encoding=UTF-8', '-cp', classes, 'Main'),
    }
  },
}

/** openapi-generator with its default library, Guzzle, from the system (Debian: php-guzzlehttp-guzzle). */
const php: Generator = {
  tools: ['mvn', 'java', 'php'],
  omitted: ['retry', ...teamwork, 'stream'],
  plan: (paths) => ({
    steps: [
      ...openapiGenerator(paths),
      copy(paths, 'autoload.php', 'load.php', 'main.php'),
      step('load everything', 'php', 'load.php'),
    ],
    program: step('run', 'php', 'main.php'),
  }),
}

/** openapi-generator with its default library, typhoeus, from the system (Debian: ruby-typhoeus). */
const ruby: Generator = {
  tools: ['mvn', 'java', 'ruby'],
  omitted: ['retry', ...teamwork, 'stream'],
  plan: (paths) => ({
    steps: [
      ...openapiGenerator(paths),
      step('load everything', 'ruby', '-W2', '-Itaskwright/lib', '-e', "require 'taskwright'"),
    ],
    program: step('run', 'ruby', '-Itaskwright/lib', join(paths.source, 'main.rb')),
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
