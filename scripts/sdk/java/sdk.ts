import { delimiter, join } from 'node:path'
import type { Generator } from '../generator.ts'

/** What a Java process that lives for seconds is fastest with. */
const shortLived = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']

/** openapi-generator as a Maven plugin, pinned in pom.xml; what Maven downloads stays in its own repository. */
export const generator: Generator = {
  name: 'java',
  tools: ['mvn', 'javac', 'java'],
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
      // Before Java 18 the generated client reads answers in the encoding of the system.
      args: [
        ...shortLived,
        '-Dfile.encoding=UTF-8',
        '-cp',
        [join(output, 'classes'), join(output, 'lib', '*')].join(delimiter),
        'Main',
      ],
    },
  }),
}
