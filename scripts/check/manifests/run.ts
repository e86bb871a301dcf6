import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadAll } from 'js-yaml'
import { readConfig } from '../../../src/config/config.ts'
import { settings } from '../../../src/config/settings.ts'
import { temporaryFolder } from '../../../test/fixture/process.ts'
import { fencedBlocks } from '../../../test/fixture/transcript.ts'
import { CommandFailure, createRun, hasCommands, installPython, type Run } from '../../run/commands.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'

/**
 * Checks the files in deploy/ with the tools of their platforms: the output of kustomize with the schemas of Kubernetes, the Compose
 * files with the parser of Compose, the unit with systemd-analyze. The service must accept their settings.
 */

/** Milliseconds, including the installation of the tools. */
const deadline = 10 * 60_000

/** All versions for which kubernetes-validate has schemas. */
const kubernetesVersions = Array.from({ length: 37 - 25 + 1 }, (_, index) => `1.${25 + index}`)

/** Maximum exposure for `systemd-analyze security`: ten times the value in docs/operations/install.md. */
const maxExposure = 13

/** Variables read by libraries instead of the service. */
const libraryVariables = ['AWS_SHARED_CREDENTIALS_FILE', 'MALLOC_ARENA_MAX']

const root = fileURLToPath(new URL('../../..', import.meta.url))
const source = fileURLToPath(new URL('.', import.meta.url))
const cache = join(root, '.cache/manifests')
const python = join(cache, 'venv/bin/python')

type Environment = Readonly<Record<string, string>>

const installTools = async (t: Teardown): Promise<void> => {
  await installPython(t, source, cache)
  const packages = ['.', 'sigs.k8s.io/kustomize/kustomize/v5']
  await createRun(t, source)('go', 'build', '-buildvcs=false', '-o', `${cache}/`, ...packages)
}

/** Throws unless the service accepts the settings. Secrets are read from the folder `secrets` instead of `mount`. */
const checkSettings = (environment: Environment, mount: string, secrets: string): void => {
  const known = Object.values(settings).flatMap(({ name }) => [name, `${name}_FILE`])
  const unknown = Object.keys(environment).filter((name) => ![...known, ...libraryVariables].includes(name))
  if (unknown.length > 0) throw new CommandFailure(`unknown settings: ${unknown.join(', ')}`)
  const values = Object.entries(environment).map(
    ([name, value]) => [name, value.replace(mount, secrets)] as const,
  )
  try {
    readConfig(Object.fromEntries(values))
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  }
}

/** The parts of Kubernetes objects that contain settings. */
interface KubernetesObject {
  readonly kind: string
  readonly data?: Environment
  readonly spec?: {
    readonly template?: {
      readonly spec: {
        readonly containers: readonly { readonly env: readonly { name: string; value: string }[] }[]
      }
    }
  }
}

const settingsOf = (rendered: string): Environment => {
  const objects = loadAll(rendered) as KubernetesObject[]
  const literals = objects.filter(({ kind }) => kind === 'ConfigMap').map(({ data }) => data)
  const variables = objects
    .flatMap(({ spec }) => spec?.template?.spec.containers ?? [])
    .flatMap(({ env }) => env)
    .map(({ name, value }) => ({ [name]: value }))
  return Object.assign({}, ...literals, ...variables) as Environment
}

/** Creates the secrets with the commands in docs/operations/install.md. */
const checkKubernetes = async (run: Run, folder: string): Promise<string> => {
  const guide = await readFile(join(root, 'docs/operations/install.md'), 'utf8')
  const commands = fencedBlocks(guide, 'sh').find((block) => block.includes('kubectl apply'))
  if (commands === undefined) throw new Error('install.md has no commands that apply the manifests')
  await run('sh', '-ec', commands.replace(/^kubectl apply .*$/m, ''))

  const base = join(folder, 'deploy/kubernetes')
  const rendered = await run(join(cache, 'kustomize'), 'build', base)
  const file = join(folder, 'rendered.yaml')
  await writeFile(file, rendered)
  await run(python, join(source, 'main.py'), file, ...kubernetesVersions)
  checkSettings(settingsOf(rendered), '/secrets', join(base, 'secrets'))
  return `Kubernetes ${kubernetesVersions.at(0)} to ${kubernetesVersions.at(-1)} accept the manifests`
}

const checkCompose = async (run: Run, folder: string): Promise<string> => {
  await run('deploy/compose/secrets.sh', 'ada@example.com')
  const again = await run('deploy/compose/secrets.sh')
  if (!again.startsWith('Everything is there')) throw new CommandFailure(`secrets.sh made more: ${again}`)
  for (const file of ['compose.yaml', 'deploy/compose/single.yaml']) {
    const output = await run(join(cache, 'manifests'), file)
    const { taskwright = {} } = JSON.parse(output) as { readonly taskwright?: Environment }
    checkSettings(taskwright, '/run/secrets', join(folder, 'deploy/compose/secrets'))
    if (file === 'compose.yaml' && (taskwright.ADMIN_EMAIL ?? '') === '')
      throw new CommandFailure('the first stranger would become administrator')
  }
  return 'Compose accepts its files'
}

/** Replaces /opt/taskwright by the folder of the repository, so that the program of the unit exists. */
const checkSystemd = async (run: Run, folder: string): Promise<string> => {
  const [unit, sysusers] = ['taskwright.service', 'taskwright.sysusers.conf'].map((name) =>
    join(folder, 'deploy/systemd', name),
  ) as [string, string]
  await run('sed', '-i', `s#/opt/taskwright/\\?#${root}#`, unit)
  // systemd-analyze reports most mistakes as warnings.
  const warnings = await run('systemd-analyze', 'verify', unit)
  if (warnings !== '') throw new CommandFailure(warnings)
  await run('systemd-analyze', 'security', '--offline=true', `--threshold=${maxExposure}`, unit)
  await run('systemd-sysusers', '--dry-run', sysusers)
  return `systemd accepts the unit, whose exposure is at most ${maxExposure / 10}`
}

/** Copies the files to a folder, in which the checks make secrets. */
const copyFiles = async (t: Teardown): Promise<string> => {
  const folder = await temporaryFolder(t)
  await cp(join(root, 'compose.yaml'), join(folder, 'compose.yaml'))
  const isSecret = (path: string) => path.endsWith('/secrets')
  await cp(join(root, 'deploy'), join(folder, 'deploy'), {
    recursive: true,
    filter: (path) => !isSecret(path),
  })
  return folder
}

await runToEnd('manifests', deadline, async (t) => {
  if (!hasCommands(['go', 'python3', 'openssl', 'systemd-analyze'])) return
  await installTools(t)
  for (const check of [checkKubernetes, checkCompose, checkSystemd]) {
    const folder = await copyFiles(t)
    console.log(await check(createRun(t, folder), folder))
  }
})
