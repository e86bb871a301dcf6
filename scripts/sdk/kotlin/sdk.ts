import { delimiter, join } from 'node:path'
import type { Generator } from '../generator.ts'

/** What a Java process that lives for seconds is fastest with. */
const shortLived = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']

/** openapi-generator as a Maven plugin, pinned in pom.xml; what Maven downloads stays in its own repository. */
export const generator: Generator = {
  name: 'kotlin',
  tools: ['mvn', 'java'],
  slow: true,
  plan: ({ contract, source, output }) => ({
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
        '-cp',
        [join(output, 'classes'), join(output, 'lib', '*')].join(delimiter),
        'MainKt',
      ],
    },
  }),
}
