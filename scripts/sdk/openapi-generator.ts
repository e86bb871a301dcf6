import { join } from 'node:path'
import type { Paths, Step } from './generator.ts'
import { shortLived } from './maven.ts'

const version = '7.25.0'

/**
 * openapi-generator's command line program: downloaded by Maven once for all languages, and run as
 * scripts/sdk/<generator>/openapi-generator.yaml says. It writes the client to `folder`.
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
      makes: jar,
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

/** What `openapiGenerator` needs. */
export const openapiGeneratorTools = ['mvn', 'java'] as const
