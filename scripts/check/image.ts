import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { copyFile, cp, mkdir, readFile, realpath, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../test/fixture/ports.ts'
import { temporaryFolder } from '../../test/fixture/process.ts'
import { createRun, findCommand, hasCommands, runAttached, skip } from '../run/commands.ts'
import { childrenOf, startProgram } from '../run/processes.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Builds the container image without a registry or a container engine: debootstrap makes the base image. Then runs the image by its
 * configuration in its own namespaces without DATABASE_URL, runs the tour against it, stops it, starts it again, kills it, and starts it
 * again.
 */

/** Milliseconds. */
const deadline = 20 * 60_000

/** Megabytes as shown by buildah. */
const maxSize = 400

const root = fileURLToPath(new URL('../..', import.meta.url))
const tour = fileURLToPath(new URL('tour.ts', import.meta.url))
const image = 'localhost/taskwright'
const certificates = '/etc/ssl/certs/ca-certificates.crt'

/** The configuration in an image that a container engine uses. */
interface ImageConfig {
  readonly env: readonly string[]
  readonly user: string
  readonly folder: string
  readonly entrypoint: readonly string[]
  readonly healthcheck: readonly string[]
}

/** Runs a command. Resolves to the lines of its output. */
type Run = (command: string, ...args: readonly string[]) => Promise<readonly string[]>

const runIn = (t: Teardown, folder: string): Run => {
  const run = createRun(t, root)
  const storage = [
    '--root',
    join(folder, 'store'),
    '--runroot',
    join(folder, 'run'),
    '--storage-driver',
    'vfs',
  ]
  return async (command, ...args) => {
    const output = await run(command, ...(command === 'buildah' ? storage : []), ...args)
    return output.trim().split('\n')
  }
}

/** Why this user may not build or run images, or null. */
const findSkipReason = (): string | null => {
  if (process.getuid?.() !== 0) return 'root is required'
  const { status } = spawnSync('unshare', ['--mount', '--pid', '--fork', '--mount-proc', 'true'])
  return status === 0 ? null : 'namespaces cannot be created'
}

/** Makes two images: `base`, a minimal Debian, and `build`, which adds Node.js, npm and the certificates of this machine. */
const makeBases = async (run: Run, folder: string): Promise<void> => {
  const [base, extra] = [join(folder, 'base'), join(folder, 'extra')]
  await run('debootstrap', '--variant=minbase', 'bookworm', base)
  await run('sh', '-c', `rm -rf ${base}/var/cache/apt/* ${base}/var/lib/apt/lists/* ${base}/usr/share/doc/*`)
  await run('sh', '-c', `rm -rf ${base}/usr/share/man/* ${base}/usr/share/locale/* ${base}/usr/share/info/*`)

  const npm = await realpath(findCommand('npm') ?? 'npm')
  await mkdir(join(extra, 'usr/local/bin'), { recursive: true })
  await mkdir(join(extra, dirname(certificates)), { recursive: true })
  await copyFile(process.execPath, join(extra, 'usr/local/bin/node'))
  await cp(dirname(dirname(npm)), join(extra, 'usr/local/lib/npm'), { recursive: true, dereference: true })
  await symlink('../lib/npm/bin/npm-cli.js', join(extra, 'usr/local/bin/npm'))
  if (existsSync(certificates)) await copyFile(certificates, join(extra, certificates))

  await writeFile(join(folder, 'Base'), 'FROM scratch\nCOPY . /\n')
  await writeFile(
    join(folder, 'Build'),
    `FROM localhost/base\nCOPY . /\nENV NODE_EXTRA_CA_CERTS=${certificates}\n`,
  )
  await run('buildah', 'bud', '--tag', 'localhost/base', '--file', join(folder, 'Base'), base)
  await run('buildah', 'bud', '--tag', 'localhost/build', '--file', join(folder, 'Build'), extra)
}

const buildImage = async (run: Run): Promise<void> => {
  // npm prints warnings before the value.
  const settings = (await run('npm', 'config', 'get', 'userconfig')).at(-1) ?? ''
  const secret = existsSync(settings) ? ['--secret', `id=npmrc,src=${settings}`] : []
  const bases = ['--build-arg', 'BUILD=localhost/build', '--build-arg', 'BASE=localhost/base']
  const options = ['--isolation', 'chroot', '--format', 'docker', ...bases, ...secret]
  await run('buildah', 'bud', ...options, '--tag', image, root)
}

/** buildah prints a size as `320 MB`. */
const checkSize = async (run: Run): Promise<string> => {
  const [size = ''] = await run('buildah', 'images', '--noheading', '--format', '{{.Size}}', image)
  const megabytes = /^(?<megabytes>[\d.]+) MB$/.exec(size)?.groups?.megabytes
  if (megabytes === undefined || Number(megabytes) >= maxSize)
    throw new Error(`The size of the image is ${size}, but must be less than ${maxSize} MB`)
  return size
}

const readConfig = async (run: Run): Promise<ImageConfig> => {
  const inspect = (template: string) =>
    run('buildah', 'inspect', '--type', 'image', '--format', template, image)
  const list = (field: string) => inspect(`{{range .Docker.Config.${field}}}{{println .}}{{end}}`)
  const [user = '', folder = ''] = await inspect(
    '{{println .Docker.Config.User}}{{.Docker.Config.WorkingDir}}',
  )
  // The first element is CMD.
  const [, ...healthcheck] = await list('Healthcheck.Test')
  return { user, folder, env: await list('Env'), entrypoint: await list('Entrypoint'), healthcheck }
}

/**
 * Runs a command of the image as the first process of a PID namespace, like a container engine. `files` is the root of the mounted
 * image.
 */
const inImage = (
  files: string,
  { env, user, folder }: ImageConfig,
  port: number,
  command: readonly string[],
): readonly string[] => {
  const [uid = '', gid = ''] = user.split(':')
  const namespaces = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
  const place = ['--root', files, '--wd', folder, '--setgid', gid, '--setuid', uid]
  // env sets the variables of the image, because the command is found in the PATH of the image.
  const settings = ['-i', ...env, `PORT=${port}`, 'RATE_LIMIT=off']
  return ['unshare', ...namespaces, ...place, '/usr/bin/env', ...settings, ...command]
}

interface RunningImage {
  readonly url: string
  /** Sends a signal to the first process. Resolves to the exit code of the image; null after a kill. */
  end(signal: NodeJS.Signals): Promise<number | null>
}

/** Starts the image, which is healthy then. Its data stays in `files`. */
const startImage = async (t: Teardown, files: string, config: ImageConfig): Promise<RunningImage> => {
  const port = await freePort()
  const log = join(await temporaryFolder(t), 'log')
  const service = await startProgram(t, inImage(files, config, port, config.entrypoint), {
    log,
    isReady: async () => (await readFile(log, 'utf8')).includes('ready and listening'),
  })
  const isHealthy = async () => (await runAttached(t, inImage(files, config, port, config.healthcheck))) === 0
  if (!(await isHealthy())) throw new Error('The health check fails')
  return {
    url: `http://127.0.0.1:${port}`,
    async end(signal) {
      // The first process in the namespace is the only child of unshare.
      const [first] = await childrenOf(service.pid ?? 0)
      if (first === undefined) throw new Error('The process of the image has exited')
      const exited = once(service, 'exit')
      process.kill(first, signal)
      await exited
      if (await isHealthy()) throw new Error('The health check passes without a service')
      return service.exitCode
    },
  }
}

/** The first start creates a database; the second uses it, and the third recovers it. */
const runImage = async (t: Teardown, files: string, config: ImageConfig): Promise<void> => {
  const first = await startImage(t, files, config)
  const code = await runAttached(t, [process.execPath, tour, first.url])
  if (code !== 0) throw new Error(`The tour exited with ${code}`)
  const ended = await first.end('SIGTERM')
  if (ended !== 0) throw new Error(`The image exited with ${ended} instead of 0`)
  await (await startImage(t, files, config)).end('SIGKILL')
  await (await startImage(t, files, config)).end('SIGTERM')
}

await runToEnd('image', deadline, async (t) => {
  if (!hasCommands(['buildah', 'debootstrap', 'unshare', 'npm'])) return
  const skipReason = findSkipReason()
  if (skipReason !== null) return skip(skipReason, { isRequired: false })
  const folder = await temporaryFolder(t)
  const run = runIn(t, folder)
  console.log('image: making the base images')
  await makeBases(run, folder)
  console.log('image: building')
  await buildImage(run)
  const size = await checkSize(run)
  const [container = ''] = await run('buildah', 'from', image)
  const [files = ''] = await run('buildah', 'mount', container)
  await runImage(t, files, await readConfig(run))
  console.log(
    `image: ${size}; the health check and the tour passed, it stopped with exit code 0, and started again after a kill`,
  )
})
