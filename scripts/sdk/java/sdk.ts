import type { Generator } from '../generator.ts'
import { mavenProject } from '../maven.ts'

export const generator: Generator = {
  name: 'java',
  leavesOut: ['stream'],
  tools: ['mvn', 'javac', 'java'],
  // Before Java 18 the generated client reads answers in the encoding of the system.
  plan: (paths) => mavenProject(paths, 'Main', '-Dfile.encoding=UTF-8'),
}
