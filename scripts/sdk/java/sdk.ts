import type { Generator } from '../generator.ts'
import { mavenProject } from '../maven.ts'

export const generator: Generator = {
  name: 'java',
  unsupported: ['stream'],
  tools: ['mvn', 'javac', 'java'],
  // Before Java 18, the generated client reads responses in the encoding of the system.
  plan: (paths) => mavenProject(paths, 'Main', '-Dfile.encoding=UTF-8'),
}
