import { delimiter, join } from 'node:path'
import type { Paths, Plan } from './generator.ts'

/** Options for Java processes that run for seconds. */
export const shortLived = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'] as const

/** openapi-generator as a Maven plugin, pinned in pom.xml. Maven's local repository caches downloads. */
export const mavenProject = (
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
