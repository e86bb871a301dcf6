import { join } from 'node:path'
import type { Paths, Step } from './generator.ts'
import { shortLived } from './maven.ts'

const version = '7.25.0'

/**
 * The command-line program of openapi-generator, which Maven downloads once for all languages. Its settings are in
 * scripts/sdk/<generator>/openapi-generator.yaml. It writes the client to `folder`.
 */
export const openapiGenerator = (
  { contract, source, output, sharedCache }: Paths,
  folder = join(output, 'taskwright'),
): readonly Step[] => {
  const home = join(sharedCache, 'openapi-generator')
  const jar = join(home, `openapi-generator-cli-${version}.jar`)
  return [
    {
      title: 'install the generator',
      command: 'mvn',
      args: [
        '--batch-mode',
        '--quiet',
        'org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy',
        `-Dartifact=org.openapitools:openapi-generator-cli:${version}`,
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
        `--output=${folder}`,
      ],
    },
  ]
}

/** Commands that `openapiGenerator` requires. */
export const openapiGeneratorTools = ['mvn', 'java'] as const
