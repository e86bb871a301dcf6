import type { Generator } from '../generator.ts'
import { mavenProject } from '../maven.ts'

export const generator: Generator = {
  name: 'kotlin',
  unsupported: ['stream'],
  tools: ['mvn', 'java'],
  slow: true,
  plan: (paths) => mavenProject(paths, 'MainKt'),
}
